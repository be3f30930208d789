"""Parts: what is no op of the table (text, optimizer, sampler, cache, checkpoints, training), each with its laws.

A law of a part takes an implementation of it, the right one or any other, and returns nothing or one line that says what
broke. It draws its own inputs.
"""

from __future__ import annotations

from equivalence_tests.parts import (
    batches,
    checkpoint,
    clipping,
    dataset,
    decoding,
    filters,
    generate,
    optimizer,
    reading,
    sampling,
    schedule,
    text,
    training,
)
from equivalence_tests.parts._part import Law

__all__ = ["PARTS", "Law"]

_SUBJECTS = (
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

PARTS: dict[str, tuple[Law, ...]] = {name: laws for subject in _SUBJECTS for name, laws in subject.PARTS.items()}
