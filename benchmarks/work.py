"""What is timed, as plain data, and what a contestant has to offer.

A module of contestants has

* `names(device) -> list[str]`, device "cpu" or "cuda": its contestants there, without importing its framework;
* `prepare(contestant, work, inputs, options) -> Prepared`; it raises NotOffered (of equivalence_tests.implementations)
  where the contestant has no such work, dtype or part, and then there is no row; NotHere where the machine lacks something.

`inputs` and `options` of a work (benchmarks.inputs makes them, from the seed, in every process alike):

* an op of the table: operands by the table's names, in the order of the signature, then the upstream gradients ("dC"; for a
  model's op the parameters by their keys, "ids", "targets"); options: its keywords, such as {"causal": True};
* gpt_step and rnn_step, the training steps: parameters by their keys, "ids", "targets"; options: "config" (GPTConfig or
  RNNConfig) and, of gpt_step, "keep" (None, or the dict of masks). The upstream of the loss is 1;
* generate: a GPT's parameters and "ids" (B, n), the prompt; options: "config", "tokens" (how many to add, greedily, by the
  largest logit, with no stop) and "cache" (whether keys and values are kept). Outputs: "ids" (B, tokens), what was added,
  and "logits" (B, v), those that chose the last one (may be left out);
* parts "copy to device" and "copy to host" of any of these: the floating arrays and ids of `inputs`, there or back.

Floating arrays are in the work's dtype; in float32 for bfloat16 and tf32. Outputs come back in the work's dtype, for
bfloat16 in any. `size["dropout"]` above 0 comes with masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.rows import Sizes
from equivalence_tests.arithmetic import Array

Inputs = dict[str, Array]


@dataclass(frozen=True)
class Work:
    """The same for all contestants. `sizes` are the symbols of the table (B, H, n, c, d, ...; of a model L layers, v words,
    dropout); `extra` is what else there is to say, plain data too, such as {"causal": True}."""

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


Prepare = Callable[[str, Work, Inputs, dict[str, Any]], Prepared]


class NotHere(Exception):
    """A contestant that this machine cannot run: the row's status ("no GPU", "not installed") and a sentence."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class OutOfMemory(Exception):
    """What a contestant may raise for its framework's own exception, besides MemoryError."""
