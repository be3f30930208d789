"""The fast twin with other sizes of tiles, other threads, and its ops that give loss and gradients at once as a pair."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from equivalence_tests.checks import agreement, attempt, conduct
from equivalence_tests.implementations import Implementation
from equivalence_tests.ops import OPS
from equivalence_tests.tests.test_variants import cases_of

Sizes = Mapping[str, int]
DTYPES = ("float64", "float32")
# So small that every loop over tiles, heads, chunks, pieces and threads runs more than once on the table's cases.
TINY = {
    "_tiles.QUERIES": 3,
    "_tiles.KEYS": 2,
    "_tiles.SCORES": 12,
    "_block.ROWS": 4,
    "_head.LOGITS": 8,
    "_head.ROWS": 2,
    "_head.CLASSES": 3,
    "_threads.CHUNK": 4,
    "_threads.PARALLEL": 0,
    "_small.FEW": -1,
    "optimizer.CHUNK": 5,
}
FUSED = {"gpt_loss": "gpt_loss_gradients", "generative_rnn_loss": "generative_rnn_loss_gradients"}


@contextmanager
def set_to(sizes: Sizes, threads: int, package: str = "reference_numpy.fast") -> Iterator[None]:
    """The package with these sizes, and with so many threads for BLAS and so for itself."""
    places = [(importlib.import_module(f"{package}.{name.split('.')[0]}"), name.split(".")[1]) for name in sizes]
    before = [getattr(module, name) for module, name in places]  # AttributeError if there is no such size any more
    try:
        for (module, name), size in zip(places, sizes.values(), strict=True):
            setattr(module, name, size)
        with threadpool_limits(threads, "blas"):
            yield
    finally:
        for (module, name), size in zip(places, before, strict=True):
            setattr(module, name, size)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def as_implementation(module: Any) -> Implementation:
    return Implementation("fast", module, True, DTYPES, ordinary=True)


def fused(module: Any) -> Implementation:
    """A loss with its gradients as a pair: the forward asks with dloss = 1, the backward asks again."""

    def pair(op: str) -> dict[str, Any]:
        gradients = getattr(module, FUSED[op])

        @wraps(getattr(module, op))
        def forward(*operands: Any, **options: Any) -> Any:
            return gradients(1.0, *operands, **options)[0], (operands, options)

        def backward(dloss: Any, cache: Any) -> Any:
            operands, options = cache
            return gradients(dloss, *operands, **options)[1]

        return {op: forward, f"{op}_backward": backward}

    pairs = SimpleNamespace(**pair("gpt_loss"), **pair("generative_rnn_loss"))
    return Implementation("fused", pairs, True, DTYPES, ordinary=True)


def first_fault(implementation: Implementation, op: str, conducted: bool = True) -> str:
    """What is wrong in the first case of an op that has anything wrong: with its numbers, or with its conduct."""
    for dtype, rounded, exact in cases_of(op):
        call = (implementation, OPS[op], rounded, exact, dtype)
        what = attempt(partial(agreement, *call)) or (conducted and attempt(partial(conduct, *call)))
        if what:
            return f"{dtype}: {what}"
    return ""
