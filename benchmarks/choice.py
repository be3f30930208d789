"""Which works a run takes, in which order and until when, and who takes part in them."""

from __future__ import annotations

import argparse
import math

from benchmarks.bars import BARS, Bar
from benchmarks.contests import LONG, SDPA, least_speedup
from benchmarks.counting import flops_of
from benchmarks.ratios import select
from benchmarks.rows import Sizes
from benchmarks.suites import SUITES
from benchmarks.suites.train import BAR
from benchmarks.timing import Contestant, Plan, row_of
from benchmarks.work import Work

QUICK = Plan(rounds=3, most=3, seconds=0.0, sample=0.0, pause=0.0)
FULL = Plan(seconds=10.0, long=60.0, slow=600.0, compiling=1800.0, judge=7200.0)
SLOW_TO_START = ("compile", "transformers", "flash", "math")
# Minutes of the default run, suite by suite: what one leaves the next has. No work begins, and no round but the least, when
# those of its suite and of all before it are over. The last work and the report are done within ten.
MINUTES = {
    "roofline": 0.4,
    "train": 4.2,
    "attention": 1.0,
    "generate": 1.0,
    "recurrence": 0.5,
    "ops": 1.3,
    "crossover": 0.4,
}


def plan_of(given: argparse.Namespace) -> Plan:
    plan = QUICK if given.quick else FULL if given.full or given.bars else Plan()
    return plan if given.seconds is None else Plan(**{**vars(plan), "seconds": given.seconds})


def end_of(suite: str, given: argparse.Namespace) -> float:
    """Seconds after which no work of the suite begins; whoever named suites, or all of them, has the time."""
    if given.full or given.bars or given.quick or given.suites:
        return math.inf
    names = list(SUITES)
    return 60.0 * sum(MINUTES[name] for name in names[: names.index(suite) + 1])


def ordered(works: list[Work], given: argparse.Namespace) -> list[Work]:
    """With --bars those of the table's bars alone, the largest last; with --full these first: so that who stops it has
    most of them."""
    if not (given.bars or given.full):
        return works
    asked = [work for work in works if is_asked(work)]
    first = sorted(asked, key=lambda work: (work.suite != "roofline", flops_of(work) or 0.0))
    return first if given.bars else [*first, *(work for work in works if work not in first)]


def takes_part(name: str, work: Work, given: argparse.Namespace) -> bool:
    """Who is named takes part, and with --full everybody: otherwise those who take long to begin do not."""
    if given.only or given.full:
        return True
    if given.bars:
        return name in contestants_of(work)
    if given.quick:
        return not any(word in name for word in SLOW_TO_START)
    if work.sizes == BAR and work.suite == "train":
        return not any(word in name for word in ("flash", "math", "transformers"))
    return "compile" not in name


def bars_of(work: Work) -> list[Bar]:
    """The bars that are about a work."""
    row = row_of(work, Contestant(""))
    found = []
    for bar in BARS:
        it = bar.contest
        long_enough = bar.measure is not least_speedup or work.sizes["n"] >= LONG
        if select([row], it.suite, it.work, it.part, it.sizes, it.settings) and long_enough:
            found.append(bar)
    return found


def is_asked(work: Work) -> bool:
    """Whether a bar is about it, or is held against this ceiling."""
    ceiling = work.suite == "roofline" and work.work in ("gemm", "gemv") and work.dtype == "float32"
    return ceiling or bool(bars_of(work))


def contestants_of(work: Work) -> set[str]:
    """Of its bars; of torch's fused attention the back end that it takes, also by its own name. The one without tiles is
    never the faster one, and at n = 16,384 takes 20 GB and half a minute: `--full` has it."""
    contests = [bar.contest for bar in bars_of(work)]
    named = {name for contest in contests for name in (contest.ours, *contest.others)}
    if work.work == "attention" and SDPA in named:
        named.add(f"{SDPA} flash")
    return named


def followed(works: list[Work]) -> Work | None:
    """The training step whose ops are timed one by one, and after which a training is run."""
    steps = [work for work in works if (work.suite, work.work, work.dtype) == ("train", "gpt_step", "float32")]
    return next((work for work in steps if work.sizes == BAR), steps[-1] if steps else None)


def wanted_sizes(text: str) -> Sizes:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--sizes: {text!r} came, expected B,H,n,c such as 8,6,256,64")
    return dict(zip("BHnc", map(int, parts), strict=True))
