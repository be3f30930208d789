"""The process in which a candidate runs: it may hang, exit, print or crash, and only this process suffers.

It reads one request, a line of JSON, and answers in lines of JSON on the descriptor that it is given: {"at": ...} before
each thing it does, and at the end {"report": ...}, {"digests": ...} or {"error": ...}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from equivalence_tests import failing_case
from equivalence_tests.candidate import Candidate, Convention, adapt
from equivalence_tests.checking import Settings, digest, draw, examine
from equivalence_tests.implementations import NotOffered
from equivalence_tests.loading import load_function
from equivalence_tests.observe import observe


class Messages:
    """Where the one who waits listens."""

    def __init__(self, descriptor: int) -> None:
        self.file = os.fdopen(descriptor, "w", encoding="utf-8")

    def send(self, message: dict[str, Any]) -> None:
        self.file.write(json.dumps(message) + "\n")
        self.file.flush()

    def at(self, what: str) -> None:
        self.send({"at": what})


def candidate_of(request: dict[str, Any]) -> Candidate:
    """ValueError, one line, if there is no such candidate."""
    backward = request["backward"]
    return adapt(
        load_function(request["spec"]),
        request["like"],
        backward=load_function(backward) if backward else None,
        label=request["spec"],
        device=request["device"],
        convention=Convention(**request["convention"]),
        without=tuple(request["without"]),
    )


def check(request: dict[str, Any], messages: Messages) -> None:
    try:
        candidate = candidate_of(request)
    except ValueError as error:
        messages.send({"error": str(error)})
        return
    report = examine(candidate, settings_of(request), messages.at)
    told = report.as_json()
    if report.counterexample is not None:
        folder = Path(request["out"])
        spec, backward = request["spec"], request["backward"]
        if candidate.beside:
            backward = f"{spec.rpartition(':')[0]}:{candidate.beside}"
        told["files"] = list(failing_case.write(folder, candidate, report.counterexample, spec, backward))
    messages.send({"report": told, "digests": report.digests})


def replay(request: dict[str, Any], messages: Messages) -> None:
    """The given cases in the given order, each as a digest of its answer."""
    candidate, settings = candidate_of(request), settings_of(request)
    found = {}
    for key in request["order"]:
        index, dtype = key.split()
        messages.at(f"case {index} in {dtype}, in a fresh process")
        try:
            case, _ = draw(candidate, settings, int(index))
            found[key] = digest(observe(candidate.implementation, candidate.op, case, dtype).answer)
        except NotOffered:
            found[key] = ""
    messages.send({"digests": found})


def settings_of(request: dict[str, Any]) -> Settings:
    told = request["settings"]
    return Settings(**told | {"dtypes": tuple(told["dtypes"]) if told["dtypes"] else None})


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who waits; what is raised here is the candidate's
    request = json.loads(sys.stdin.readline())
    messages = Messages(int(sys.argv[1]))
    messages.at("import")
    (replay if "order" in request else check)(request, messages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
