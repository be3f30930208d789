"""What is timed, as plain data, and what a contestant has to offer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.rows import Sizes
from equivalence_tests.arithmetic import Array

Inputs = dict[str, Array]


@dataclass(frozen=True)
class Work:
    """The same for all contestants, each of which makes the inputs itself, from the seed.

    `sizes` are the symbols of the table (B, H, n, c, d, ...; for a model L layers, v words, dropout); `extra` is what
    a suite says besides, plain data too (such as {"cache": False} of a generation).
    """

    suite: str
    work: str
    part: str
    sizes: Sizes
    dtype: str
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class Prepared(Protocol):
    """A contestant with its inputs at hand, in its own form and on its own device."""

    def run(self) -> None:
        """One repetition; when it returns everything has been computed, on a GPU too. Gradients start from None."""

    def outputs(self) -> dict[str, Array]:
        """Of the last run, as NumPy arrays: outputs and gradients by the names of the table ("C", "dQ"); of a model "loss"
        and "d" + the parameter's key; of a part "forward" the outputs alone, of "backward" the gradients alone."""


# prepare(contestant, work, inputs, options) -> Prepared, in each module of contestants.
#
# Of an op of the table `inputs` holds its operands by the table's names, in the order of the signature, and the upstream
# gradients ("dC"); `options` its keywords ({"causal": True}). Of gpt_step and rnn_step: the parameters by their keys, "ids"
# and "targets"; options: "config" (a GPTConfig or RNNConfig) and "keep" (None, or the dict of masks). The upstream of a
# loss is 1. Floating arrays come in the work's dtype, and in float32 for bfloat16 and tf32.
Prepare = Callable[[str, Work, Inputs, dict[str, Any]], Prepared]


class NotHere(Exception):
    """A contestant that this machine does not have: `status` is that of the row ("no GPU", "not installed"), `why` a sentence."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class OutOfMemory(Exception):
    """What a contestant raises for its framework's own exception of no memory, which the harness does not know."""
