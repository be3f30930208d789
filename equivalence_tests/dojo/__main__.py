"""`python -m equivalence_tests.dojo`: what `gemelos dojo` does."""

import sys

from equivalence_tests.dojo.command import main

if __name__ == "__main__":
    sys.exit(main())
