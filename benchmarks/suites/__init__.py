"""The suites: which works there are, and of which sizes, as data. Their inputs are made in benchmarks.inputs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from benchmarks.rows import Sizes
from benchmarks.work import Work

SUITES = {  # in the order in which they run: the ceilings first
    "roofline": "what this machine can do at most: large products, matrix-vector products, copies",
    "train": "training steps of the GPT and the RNN: the loss and all gradients",
    "attention": "causal attention over the number of tokens",
    "generate": "tokens per second, with and without a cache",
    "recurrence": "the RNN against the GPT over the number of tokens, and its recurrence alone",
    "ops": "every op of the table, over several sizes",
    "crossover": "the size from which a GPU wins, with and without the copies",
}


@dataclass(frozen=True)
class Scale:
    """quick: everything once, tiny; full: also the source's own size, and n to 65,536. `asked`: the user's own sizes."""

    quick: bool = False
    full: bool = False
    asked: tuple[Sizes, ...] = ()
    own: str | None = None  # the op that the user's own contestant is like
    causal: bool = True  # False where the user's own attention is not


def works_of(suite: str, scale: Scale) -> list[Work]:
    works: list[Work] = import_module(f"benchmarks.suites.{suite}").works(scale)
    if scale.own is not None:
        works = [work for work in works if work.work == scale.own or suite == "roofline"]
    return works
