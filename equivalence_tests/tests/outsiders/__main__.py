from equivalence_tests.tests.outsiders import main

if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
