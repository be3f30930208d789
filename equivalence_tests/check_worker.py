"""The process in which a function is held against laws: it may hang, exit, print or crash, and only this process suffers.

It reads one request, a line of JSON, and answers in lines of JSON on the descriptor that it is given: {"at": ...} before
each thing it does, and at the end {"report": ...} or {"error": ...}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any

from equivalence_tests.loading import keep_numpy, load_function

LAW_CASES = 40  # complex steps take one run of the forward for every element


class Messages:
    """Where the one who waits listens."""

    def __init__(self, descriptor: int) -> None:
        self.file = os.fdopen(descriptor, "w", encoding="utf-8")

    def send(self, message: dict[str, Any]) -> None:
        self.file.write(json.dumps(message) + "\n")
        self.file.flush()

    def at(self, what: str) -> None:
        self.send({"at": what})


def laws(request: dict[str, Any], messages: Messages) -> None:
    """Without a reference."""
    from equivalence_tests.laws_only import check_laws

    keep_numpy()
    asked = request["candidate"]
    specs = (asked["spec"], asked["backward"], request["inputs"])
    try:
        forward, backward, inputs = (load_function(spec) if spec else None for spec in specs)
        keep_numpy()
        messages.at("diagnosis: laws")
        told = check_laws(
            forward,
            backward,
            shapes=request["shapes"],
            inputs=inputs,
            like=asked["like"] or None,
            laws=request["laws"],
            cases=min(request["settings"]["cases"], LAW_CASES),
            seed=request["settings"]["seed"],
        )
    except (ValueError, TypeError) as error:
        messages.send({"error": str(error)})
        return
    messages.send({"report": told.as_report(asked["spec"]).as_json()})


def main() -> int:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the one who waits; what is raised here is the candidate's
    request = json.loads(sys.stdin.readline())
    messages = Messages(int(sys.argv[1]))
    messages.at("import")
    try:
        laws(request, messages)
    except Exception:  # ours: what a candidate raises is caught where it is called
        messages.send(
            {"error": f"this is a defect of gemelos, not of {request['candidate']['spec']}\n{traceback.format_exc()}"}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
