"""The process in which a learner's code runs: it may hang, exit, print or crash, and only this process suffers.

It reads one request, a line of JSON, and answers in lines of JSON on the descriptor that it is given: {"at": ...} on the
way, and at the end {"verdict": ...}, {"story": ...} or {"error": ...}.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.check_worker import Messages
from equivalence_tests.dojo.guard import Guard
from equivalence_tests.dojo.judging import MEMORY, Answer, excerpt, judge, read_answer
from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.verdict import Verdict

WRITTEN = 1 << 26  # bytes that a file may be long


def limit_resources() -> None:
    """So much memory more than there is now, and no file that fills the disk."""
    with suppress(ValueError, OSError):  # not every system keeps these limits
        resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY * 2**30
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def work(request: dict[str, Any], messages: Messages) -> None:
    kata = next(kata for kata in KATAS if kata.name == request["kata"])
    path = Path(request["path"])
    answer = read_answer(kata, path)
    if isinstance(answer, Verdict):
        messages.send({"verdict": answer.as_json()})
        return
    guard = guard_of(answer, request["limit"], messages)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # values are judged, not warnings
        if request["task"] == "train":
            from equivalence_tests.dojo import tiny_gpt

            messages.send({"story": tiny_gpt.train(answer, guard, messages.at)})
            return
        verdict = judge(answer, guard, messages.at, request["picture"])
    messages.send({"verdict": replace(verdict, printed=guard.printed.as_json()).as_json()})


def guard_of(answer: Answer, limit: float, messages: Messages) -> Guard:
    def too_long(line: int, seconds: float) -> None:
        """Nothing that hangs can be brought to an end from within: say so, and go."""
        code = "hangs" if line else "hangs_somewhere"
        where = excerpt(answer.text, line)
        verdict = Verdict(code, {"seconds": seconds, "line": line}, excerpt=where, printed=guard.printed.as_json())
        messages.send({"verdict": verdict.as_json()})
        os._exit(0)

    guard = Guard(answer.path, limit, too_long)
    return guard


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    request = json.loads(sys.stdin.readline())
    messages = Messages(int(sys.argv[1]))
    messages.at("file")
    limit_resources()
    try:
        work(request, messages)
    except BaseException as error:  # ours: what the learner's code raises is part of its verdict
        messages.send({"error": f"{type(error).__name__}\n{traceback.format_exc()}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
