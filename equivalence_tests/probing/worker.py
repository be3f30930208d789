"""The process in which `gemelos probe` runs a function: it may hang, exit or crash, and only this process suffers."""

from __future__ import annotations

import json
import signal
import sys
import traceback

from equivalence_tests.check_worker import Messages
from equivalence_tests.loading import load_function
from equivalence_tests.probing import probe


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    request = json.loads(sys.stdin.readline())
    messages = Messages(int(sys.argv[1]))
    messages.at("import")
    try:
        function = load_function(request["function"])
        messages.at("probe")
        found = [each.as_json() for each in probe(function, request["like"])]
    except ValueError as error:
        messages.send({"error": str(error)})
    except Exception:  # ours: what a candidate raises is caught where it is called
        messages.send({"error": f"this is a defect of gemelos\n{traceback.format_exc()}"})
    else:
        messages.send({"conventions": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
