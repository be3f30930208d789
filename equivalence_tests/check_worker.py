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
        keep_numpy()
        strict = request["settings"]["strict"]
        report = check_part(function, told["like"], label=told["spec"], strict=strict, watch=messages.at)
    except ValueError as error:
        messages.send({"error": str(error)})
        return
    messages.send({"report": report.as_json()})


def laws(request: dict[str, Any], messages: Messages) -> None:
    """Without a reference."""
    from equivalence_tests.laws_only.checking import DTYPES, check_candidate, check_laws
    from equivalence_tests.laws_only.pair_laws import LAWS
    from equivalence_tests.laws_only.run import Plan

    messages.at("diagnosis: laws")
    asked, settings = wanted(request), request["settings"]
    cases, dtypes = min(settings["cases"], LAW_CASES), tuple(settings["dtypes"] or DTYPES)
    specs = (asked.spec, asked.backward, request["inputs"])
    try:
        refuse_unread(asked, settings, request)
        forward, backward, inputs = (load_function(spec) if spec else None for spec in specs)
        keep_numpy()
        if asked.like and request["shapes"] is None and inputs is None:
            plan = Plan(cases, settings["seed"], dtypes, LAWS)
            told = check_candidate(asked.candidate(), (forward, backward), plan, settings["sizes"])
        else:
            told = check_laws(
                forward,
                backward,
                shapes=request["shapes"],
                inputs=inputs,
                like=asked.like or None,
                laws=request["laws"],
                cases=cases,
                seed=settings["seed"],
                dtypes=dtypes,
                sizes=settings["sizes"],
            )
    except (ValueError, TypeError) as error:
        messages.send({"error": str(error)})
        return
    messages.send({"report": told.as_report(asked.spec).as_json()})


def refuse_unread(asked: Request, settings: dict[str, Any], request: dict[str, Any]) -> None:
    """ValueError for what is given beside --laws-only and would not be read."""
    plain = Request("", "")
    if asked.command:
        raise ValueError("--command: --laws-only needs a function, expected FILE.py:NAME")
    if settings["strict"]:
        raise ValueError("--strict: --laws-only does not read it, expected --like alone")
    for name in ("layout", "mask_true", "lead", "device", "without", "options"):
        if getattr(asked, name) != getattr(plain, name) and (name == "options" or not asked.like):
            raise ValueError(f"--{name.replace('_', '-')}: --laws-only does not read it without --like")
    if asked.like and request["laws"]:
        raise ValueError("--laws: --like brings its own laws, expected --shapes")


def wanted(request: dict[str, Any]) -> Request:
    told = request["candidate"]
    return Request(**told | {name: tuple(told[name]) for name in ("options", "without", "conventions")})


def main() -> int:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the process that waits; what is raised here is the candidate's
    request = json.loads(sys.stdin.readline())
    messages = Messages(int(sys.argv[1]))
    messages.at("import")
    keep_numpy()
    stage = part if request["candidate"]["like"] in PART_NAMES else laws
    try:
        stage(request, messages)
    except Exception:  # ours: what a candidate raises is caught where it is called
        messages.send(
            {"error": f"this is a defect of gemelos, not of {request['candidate']['spec']}\n{traceback.format_exc()}"}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
