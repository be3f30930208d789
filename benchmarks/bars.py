"""How fast the NumPy side means to be, as data. Whether one is met is computed, never written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.contests import (
    SDPA,
    Absent,
    Contest,
    Measured,
    Refused,
    least_speedup,
    memory_ratio,
    peak_memory,
    share_of_bandwidth,
    share_of_product,
    slowdown,
    speedup,
)
from benchmarks.rows import Results, Sizes
from benchmarks.units import digits, memory, percent

FAST, EAGER, CHUNKED = "numpy fast", "torch eager", "torch eager, chunked loss"


@dataclass(frozen=True)
class Bar:
    """`measure` finds what `threshold` is held against; `unit` is how both are written."""

    title: str
    asked: str
    contest: Contest
    threshold: float
    at_least: bool
    measure: Callable[[Contest, Results], Measured]
    unit: Callable[[float], str]


@dataclass(frozen=True)
class Finding:
    """What became of a bar; `measured` is None where there is no number, and `note` says why."""

    bar: Bar
    verdict: str  # met, not met, not measured
    measured: Measured | None
    note: str


def find(bar: Bar, results: Results) -> Finding:
    try:
        measured = bar.measure(bar.contest, results)
    except Absent as why:
        return Finding(bar, "not measured", None, str(why))
    except Refused as why:
        return Finding(bar, "not met", None, str(why))
    value = measured.value.median
    met = value >= bar.threshold if bar.at_least else value <= bar.threshold
    return Finding(bar, "met" if met else "not met", measured, measured.note)


def find_all(results: Results) -> list[Finding]:
    return [find(bar, results) for bar in BARS]


def ratio(value: float) -> str:
    return f"{digits(value)} x"


def _faster(title: str, asked: str, contest: Contest, threshold: float) -> Bar:
    return Bar(title, asked, contest, threshold, True, speedup, ratio)


def _of_the_peak(title: str, contest: Contest) -> Bar:
    asked = "at least 75 % of the peak of matrix products"
    return Bar(title, asked, replace(contest, others=()), 0.75, True, share_of_product, percent)


# Torch at its best: every way of running it, each with the plain loss and with the chunked one.
TORCH = tuple(f"{name}{loss}" for name in (EAGER, SDPA, "torch compile") for loss in ("", ", chunked loss"))
STEP = Contest("train", "gpt_step", "step", {"B": 8, "n": 256, "d": 384, "L": 6, "H": 6, "v": 8_000}, FAST, TORCH)
SOURCE = replace(STEP, sizes={**STEP.sizes, "B": 32, "v": 60_198}, others=(EAGER,))
TEXTBOOK = replace(STEP, ours="numpy reference", others=(EAGER,))
TINY = replace(STEP, sizes={"B": 1, "n": 16, "d": 16, "L": 1}, others=(EAGER,))
FORWARD = Contest("attention", "attention", "forward", {"H": 8, "c": 64}, FAST, (SDPA,), {"causal": True})
BOTH = replace(FORWARD, part="forward+backward")
ONE_HEAD = replace(BOTH, sizes={"H": 1, "c": 64, "n": 65_536}, others=())
RNN = Contest("train", "rnn_step", "step", {"B": 32, "n": 256, "d": 384, "v": 60_198}, FAST, (EAGER, CHUNKED))
RECURRENCE = Contest("recurrence", "rnn", "forward+backward", {"B": 32, "n": 256, "d": 384}, FAST, (EAGER,))
GPT2: Sizes = {"d": 768, "L": 12, "H": 12, "v": 50_257}
DECODE = Contest("generate", "generate", "generate", GPT2, FAST, ("transformers",), {"cache": True})
CACHED = replace(DECODE, others=())

GPT = "GPT training step, 6 layers, width 384, n 256"
SMALL, LARGE = f"{GPT}, vocabulary 8,000, batch 8", f"{GPT}, vocabulary 60,198, batch 32"
HEADS = "causal attention, width 64, 8 heads, n >= 2,048"
LONGEST = "causal attention, width 64, 1 head, n 65,536"
DECODING = "decoding with a cache, GPT-2 124M's shape"

BARS = (
    _faster(SMALL, "at least 2.0 x the best of torch", STEP, 2.0),
    _faster(LARGE, "at least 3.0 x torch eager", SOURCE, 3.0),
    Bar(LARGE, "at most 40 % of torch eager's memory", SOURCE, 0.40, False, memory_ratio, percent),
    _of_the_peak(SMALL, STEP),
    _of_the_peak(LARGE, SOURCE),
    Bar(f"{HEADS}, forward", "level with torch's SDPA", FORWARD, 1.0, True, least_speedup, ratio),
    Bar(f"{HEADS}, forward and backward", "level with torch's SDPA", BOTH, 1.0, True, least_speedup, ratio),
    Bar(f"{LONGEST}, forward and backward", "under 1 GB", ONE_HEAD, 1e9, False, peak_memory, memory),
    _faster("RNN training step, width 384, n 256, vocabulary 60,198, batch 32", "at least 2.0 x nn.RNN", RNN, 2.0),
    _faster("its recurrence alone, forward and backward", "at least 2.5 x nn.RNN", RECURRENCE, 2.5),
    Bar(f"{SMALL}: the textbook", "at most 2 x torch eager's time", TEXTBOOK, 2.0, False, slowdown, ratio),
    _faster("a tiny GPT's training step, width 16, 1 layer, n 16, batch 1", "at least 4 x torch eager", TINY, 4.0),
    _faster(DECODING, "at least 2.5 x transformers", DECODE, 2.5),
    Bar(DECODING, "at least 80 % of the matrix-vector bandwidth", CACHED, 0.80, True, share_of_bandwidth, percent),
)
