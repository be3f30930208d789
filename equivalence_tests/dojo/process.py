"""Judge a learner's file in a process of its own, which may end or hang."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from equivalence_tests.check_process import Ended, run_worker
from equivalence_tests.checking import no_watch
from equivalence_tests.dojo.katas import Kata
from equivalence_tests.dojo.verdict import Verdict

LIMIT = 10.0  # seconds that one call may take
GRACE = 3.0  # the process itself knows the line at which its time is up: it is asked first
WORKER = "equivalence_tests.dojo.worker"


def judge_file(
    kata: Kata,
    path: Path,
    limit: float = LIMIT,
    watch: Callable[[str], None] = no_watch,
    picture: str = "",
) -> Verdict:
    """What the kata's judge says of a file."""
    request = {"task": "judge", "kata": kata.name, "path": str(path.resolve()), "limit": limit, "picture": picture}
    message = _asked(request, limit, watch)
    return message if isinstance(message, Verdict) else Verdict.from_json(message["verdict"])


def train_with(kata: Kata, path: Path, limit: float, watch: Callable[[str], None]) -> dict[str, Any] | Verdict:
    """The story of a tiny GPT trained by the file's own backward, or why there is none."""
    request = {"task": "train", "kata": kata.name, "path": str(path.resolve()), "limit": limit, "picture": ""}
    message = _asked(request, limit, watch)
    if isinstance(message, Verdict):
        return message
    if "story" not in message:
        return Verdict.from_json(message["verdict"])
    story: dict[str, Any] = message["story"]
    return story


def _asked(request: dict[str, Any], limit: float, watch: Callable[[str], None]) -> dict[str, Any] | Verdict:
    try:
        message, _ = run_worker(request, limit + GRACE, watch, WORKER)
    except Ended as ended:
        if ended.finding.code == "hangs":
            return Verdict("hangs_somewhere", {"seconds": limit})
        return Verdict("ends_process", {"how": ended.finding.numbers["how"]})
    return Verdict("defect", {"error": message["error"]}) if "error" in message else message
