"""The process in which a candidate runs: it may hang, exit, print or crash, and only this process suffers.

It reads one request, a line of JSON, and answers in lines of JSON on the descriptor that it is given: {"at": ...} before
each thing it does, and at the end {"report": ...}, {"digests": ...} or {"error": ...}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from equivalence_tests import failing_case
from equivalence_tests.checking import Settings, digest, draw, examine
from equivalence_tests.implementations import NotOffered
from equivalence_tests.loading import load_function
from equivalence_tests.observe import observe
from equivalence_tests.part_names import PART_NAMES
from equivalence_tests.request import Request

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


def part(request: dict[str, Any], messages: Messages) -> None:
    """Of an optimizer, a sampler, a tokenizer, ...: what is no op of the table."""
    from equivalence_tests.parts.outside import check_part

    told = request["candidate"]
    try:
        function = load_function(told["spec"])
        strict = request["settings"]["strict"]
        report = check_part(function, told["like"], label=told["spec"], strict=strict, watch=messages.at)
    except ValueError as error:
        messages.send({"error": str(error)})
        return
    messages.send({"report": report.as_json(), "digests": {}})


def check(request: dict[str, Any], messages: Messages) -> None:
    try:
        candidate = wanted(request).candidate()
    except ValueError as error:
        messages.send({"error": str(error)})
        return
    report = examine(candidate, settings_of(request), messages.at)
    told = report.as_json()
    if report.counterexample is not None:
        files = failing_case.write(Path(request["out"]), candidate, report.counterexample, wanted(request))
        told["files"] = list(files)
    messages.send({"report": told, "digests": report.digests})


def laws(request: dict[str, Any], messages: Messages) -> None:
    """Without a reference."""
    from equivalence_tests.laws_only import check_laws

    messages.at("diagnosis: laws")
    asked = wanted(request)
    specs = (asked.spec, asked.backward, request["inputs"])
    try:
        forward, backward, inputs = (load_function(spec) if spec else None for spec in specs)
        told = check_laws(
            forward,
            backward,
            shapes=request["shapes"],
            inputs=inputs,
            like=asked.like or None,
            laws=request["laws"],
            cases=min(request["settings"]["cases"], LAW_CASES),
            seed=request["settings"]["seed"],
        )
    except (ValueError, TypeError) as error:
        messages.send({"error": str(error)})
        return
    messages.send({"report": told.as_report(asked.spec).as_json(), "digests": {}})


def replay(request: dict[str, Any], messages: Messages) -> None:
    """The given cases in the given order, each as a digest of its answer."""
    candidate, settings = wanted(request).candidate(), settings_of(request)
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


def wanted(request: dict[str, Any]) -> Request:
    told = request["candidate"]
    return Request(**told | {name: tuple(told[name]) for name in ("options", "without")})


def settings_of(request: dict[str, Any]) -> Settings:
    told = request["settings"]
    return Settings(**told | {"dtypes": tuple(told["dtypes"]) if told["dtypes"] else None})


def main() -> int:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the one who waits; what is raised here is the candidate's
    request = json.loads(sys.stdin.readline())
    messages = Messages(int(sys.argv[1]))
    messages.at("import")
    stage = replay if "order" in request else laws if request["laws_only"] else check
    stage = part if request["candidate"]["like"] in PART_NAMES else stage
    try:
        stage(request, messages)
    except Exception:  # ours: what a candidate raises is caught where it is called
        messages.send(
            {"error": f"this is a defect of gemelos, not of {request['candidate']['spec']}\n{traceback.format_exc()}"}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
