"""Laws that need no reference: what holds for every right implementation of an op, whatever formula it uses.

A law takes an implementation, a dtype and draws, and returns nothing or one line that says what broke.
"""

from __future__ import annotations

from equivalence_tests.laws import (
    attention,
    attention_masks,
    axes,
    bad_input,
    cross_entropy,
    elementwise,
    gpt,
    layer_norm,
    model_losses,
    models,
    rnn,
    self_attention,
    softmax,
)
from equivalence_tests.laws.common import DEVIATIONS, Law, strength
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.ops import OPS

__all__ = ["DEVIATIONS", "LAWS", "Law", "strength"]

_OWN: dict[str, tuple[Law, ...]] = {
    **softmax.LAWS,
    **layer_norm.LAWS,
    **cross_entropy.LAWS,
    **elementwise.LAWS,
    **self_attention.LAWS,
    "attention": (*attention.LAWS, *attention_masks.LAWS),
    "attention_stages": attention_masks.STAGES,
    "rnn": rnn.LAWS,
}


def _of_every_op(op: str) -> tuple[Law, ...]:
    laws = [axes.a_leading_axis_of_1_changes_nothing, bad_input.refuses_bad_input]
    if op != "cross_entropy":  # its mean is over all rows, and there is none over no rows
        laws += [axes.a_leading_axis_may_be_0, axes.batches_are_independent]
    if op in axes.NAN_STAYS:
        laws.append(axes.nan_stays_in_its_sample)
    if OPS[op].differentiable:
        laws.append(bad_input.backward_refuses_a_wrong_upstream)
    return tuple(axes.of(op, law) for law in laws)


LAWS: dict[str, tuple[Law, ...]] = {
    **{op: (*_OWN[op], *_of_every_op(op)) for op in PATTERNS},
    **{op: (*gpt.LAWS.get(op, ()), *model_losses.LAWS.get(op, ()), *laws) for op, laws in models.LAWS.items()},
}
