"""Right implementations that round differently: what the table must accept.

A budget of rounding errors is worth something only if nobody right is turned away. Here is every family again, each time
with the same function and other roundings: another order of summation, another place for a factor, another algebra.
None is fast and none is advice. What is not here, since it is inaccurate and not merely different: the variance as
mean(X^2) - mean(X)^2, a softmax without a shift or shifted by the mean.
"""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import Any

import reference_numpy
from equivalence_tests.implementations import Implementation, plain
from equivalence_tests.variants.activations import GELU
from equivalence_tests.variants.attention import ATTENTION
from equivalence_tests.variants.cross_entropy import CROSS_ENTROPY
from equivalence_tests.variants.dropout import DROPOUT
from equivalence_tests.variants.embedding import EMBEDDING
from equivalence_tests.variants.layer_norm import LAYER_NORM
from equivalence_tests.variants.linear import LINEAR
from equivalence_tests.variants.models import GENERATIVE_RNN, GENERATIVE_RNN_LOSS, GPT, GPT_LOSS
from equivalence_tests.variants.rnn import RNN
from equivalence_tests.variants.self_attention import MULTI_HEAD_ATTENTION, SELF_ATTENTION, SIMPLE_ATTENTION
from equivalence_tests.variants.softmax import LOG_SOFTMAX, SOFTMAX
from equivalence_tests.variants.sums import Pair

__all__ = ["STORED", "VARIANTS", "implementation"]

VARIANTS: dict[str, dict[str, Pair]] = {
    "softmax": SOFTMAX,
    "log_softmax": LOG_SOFTMAX,
    "layer_norm": LAYER_NORM,
    "linear": LINEAR,
    "gelu": GELU,
    "embedding": EMBEDDING,
    "dropout": DROPOUT,
    "attention": ATTENTION,
    "simple_attention": SIMPLE_ATTENTION,
    "self_attention": SELF_ATTENTION,
    "multi_head_attention": MULTI_HEAD_ATTENTION,
    "cross_entropy": CROSS_ENTROPY,
    "rnn": RNN,
    "gpt": GPT,
    "gpt_loss": GPT_LOSS,
    "generative_rnn": GENERATIVE_RNN,
    "generative_rnn_loss": GENERATIVE_RNN_LOSS,
}


# These recompute from a stored log-sum-exp: the wider budget is for them, and the ordinary one for all others.
STORED: dict[str, frozenset[str]] = {
    "softmax": frozenset({"stored log-sum-exp"}),
    "log_softmax": frozenset({"log-add-exp one by one"}),
    "cross_entropy": frozenset(
        {
            "log-sum-exp minus the target's logit",
            "log-sum-exps and logits added up apart",
            "log-add-exp one by one",
        }
    ),
    "attention": frozenset({"online, key by key", "online, tiles of 2", "online, tiles of 3"}),
    "simple_attention": frozenset({"online"}),
    "self_attention": frozenset({"online"}),
    "multi_head_attention": frozenset({"head by head, online"}),
    "gpt": frozenset({"attention key by key", "attention in tiles, delta from dC C"}),
    "gpt_loss": frozenset({"log-sum-exp"}),
    "generative_rnn_loss": frozenset({"log-sum-exp"}),
}


def implementation(op: str, variant: str, checked: bool = True) -> Implementation:
    """One variant as a module that offers one op. It rounds in its own way; what is bad input, the reference says, and
    numbers come as Python's.

    `checked=False` leaves the reference out, for operands that are known to be good: half the time.
    """
    forward, backward = VARIANTS[op][variant]
    reference, reference_backward = getattr(reference_numpy, op), getattr(reference_numpy, f"{op}_backward")

    @wraps(forward)
    def with_plain_numbers(*operands: Any, **options: Any) -> Any:
        remembered = reference(*operands, **options)[1] if checked else None
        Y, cache = forward(*operands, **{name: plain(value) for name, value in options.items()})
        return Y, (cache, remembered)

    def backward_with_plain_numbers(dY: Any, cache: Any) -> Any:
        own, remembered = cache
        if checked:
            reference_backward(dY, remembered)
        return backward(plain(dY), own)

    pair = {op: with_plain_numbers, f"{op}_backward": backward_with_plain_numbers}
    ordinary = variant not in STORED.get(op, ())
    label = f"{op}: {variant}"
    return Implementation(label, SimpleNamespace(**pair), pairs=True, dtypes=("float64", "float32"), ordinary=ordinary)
