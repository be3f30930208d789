"""The known mistakes: broken implementations, each of which a check must catch.

MISTAKES are of the ops of the table, PART_MISTAKES of the parts around them. Each is one op or part as somebody would
really have written it, with one wrong line; most were seen in public code. Ids such as SMX-03b name a public report, whose
right values stand in tests/test_cases.py; the rest are numbered, M... in one series and others by subject: S softmax, N
layer norm, A attention, B its backward, P its stages, H heads, C cross-entropy, E embedding, W linear, D dropout,
F activations, R rnn, L language models, Z of several ops; T text, O optimizer, G sampler and generation, K checkpoints,
V cache, Q training.

Left out: M167 and M168 (there is no beam search). M080, targets shifted twice, needs no data set: it is a loss that
shifts. Of the reports left out: LNM-09 and BRD-04 (accumulation: ops are pure), SMX-08 and DTY-03 (half precision), XEN-09
(label smoothing), EMB-03 and EMB-04 (there is no padding id), and all on beams and devices. What is said to be a mistake
and is none (LNM-10, SCL-03, RNN-01) stands in equivalents.py, with its proof.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.implementations import Implementation, plain
from equivalence_tests.mistakes import (
    activations,
    attention,
    attention_backward,
    batches,
    checkpoint,
    clipping,
    cross_entropy,
    dataset,
    decoding,
    dropout,
    embedding,
    filters,
    generate,
    gpt,
    heads,
    language_models,
    layer_norm,
    linear,
    optimizer,
    public_code,
    reading,
    rnn,
    sampling,
    schedule,
    softmax,
    text,
    training,
)
from equivalence_tests.mistakes._mistake import Mistake, labelled

__all__ = ["MISTAKES", "PART_MISTAKES", "Mistake", "as_implementation", "quiet"]

_SUBJECTS = (
    softmax,
    layer_norm,
    attention,
    attention_backward,
    heads,
    cross_entropy,
    embedding,
    linear,
    dropout,
    activations,
    rnn,
    gpt,
    language_models,
    public_code,
)
_PARTS = (
    text,
    reading,
    dataset,
    batches,
    optimizer,
    clipping,
    schedule,
    filters,
    sampling,
    generate,
    decoding,
    checkpoint,
    training,
)


def _by_id(mistakes: Iterable[Mistake]) -> dict[str, Mistake]:
    found: dict[str, Mistake] = {}
    for mistake in mistakes:
        if mistake.id in found:
            raise ValueError(f"two mistakes are called {mistake.id}")
        found[mistake.id] = mistake
    return found


MISTAKES: dict[str, Mistake] = _by_id(
    chain.from_iterable(labelled(subject.MISTAKES, subject.LABELS) for subject in _SUBJECTS)
)
PART_MISTAKES: dict[str, Mistake] = _by_id(chain.from_iterable(part.MISTAKES for part in _PARTS))


def as_implementation(mistake: Mistake) -> Implementation:
    """A NumPy pair of the one op, to be given to any check.

    It refuses bad input as the reference does (the reference runs first) and is given Python numbers, so that it is caught
    for its mistake alone.
    """
    op = mistake.op
    right = getattr(reference_numpy, op)
    right_backward = getattr(reference_numpy, f"{op}_backward", None)
    broken: Any = mistake.forward or right
    broken_backward: Any = mistake.backward or right_backward

    @wraps(broken)
    def forward(*operands: Any, **options: Any) -> Any:
        if mistake.forward is not None and not mistake.accepts:
            right(*operands, **options)
        return broken(*operands, **{name: plain(value) for name, value in options.items()})

    @wraps(broken_backward or broken)
    def backward(dY: Any, cache: Any) -> Any:
        if mistake.forward is None and right_backward is not None:  # otherwise the cache may be another
            right_backward(dY, cache)
        return broken_backward(plain(dY), cache)

    functions = {op: forward} if right_backward is None else {op: forward, f"{op}_backward": backward}
    return Implementation(mistake.id, SimpleNamespace(**functions), True, ("float64", "float32"))


@contextmanager
def quiet() -> Iterator[None]:
    """A broken implementation may warn of the NaN that it makes; its values are to be judged, not its warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
