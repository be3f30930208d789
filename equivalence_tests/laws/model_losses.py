"""Laws of the language models' losses."""

from __future__ import annotations

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Array
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.common import Law, answer, differ, differs, first, summed, unequal, values_of
from equivalence_tests.laws.models import HEAD, changed, laws_of, sequence_of, summed_gradients_differ
from equivalence_tests.small_models import IGNORED, LOSSES, VOCABULARY, model_case


def a_batch_is_the_mean_of_its_sequences(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Of sequences of one length: the loss and every gradient are the mean of what each gives alone."""
    case = model_case(op, draws, dtype, (2,))
    together = answer(implementation, op, case, dtype)
    alone = [answer(implementation, op, sequence_of(case, b), dtype) for b in range(2)]
    mean = sum(each.values["loss"] for each in alone) / ORACLE(2)
    budget = together.budget["loss"] + sum(each.budget["loss"] for each in alone)
    return differs("loss of two sequences", together.values["loss"], mean, budget) or summed_gradients_differ(
        together, alone, 0.5
    )


def the_gradient_of_the_heads_bias_sums_to_0(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """One number added to all logits changes no probability."""
    got = answer(implementation, op, model_case(op, draws, dtype), dtype)
    total, budget = summed(got.values["dlm_head.bias"], got.budget["dlm_head.bias"])
    return differs("sum of dlm_head.bias", total, 0.0, budget)


def a_head_of_0_gives_log_v(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Weight and bias 0: every token is as likely as the next, and nothing behind the head gets a gradient."""
    case = model_case(op, draws, dtype)
    zeros = {name[1:]: np.zeros_like(case.operands[name[1:]]) for name in HEAD}
    got = answer(implementation, op, changed(case, zeros), dtype)
    loss = differs("loss", got.values["loss"], np.log(ORACLE(VOCABULARY)), got.budget["loss"])
    return loss or first(
        unequal(f"{name} behind a head of 0", value, 0.0)
        for name, value in got.values.items()
        if "." in name and name not in HEAD
    )


def padding_at_the_end_changes_nothing(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """More tokens behind the last, their targets ignored: the same loss and gradients, and the mean counts what counts."""
    case = model_case(op, draws, dtype)
    more = draws.rng.integers(0, VOCABULARY, (2, 2))
    ignored = draws.choice((IGNORED, VOCABULARY + 3))
    longer_case = changed(
        case,
        {
            "ids": np.concatenate([case.operands["ids"], more], -1),
            "targets": np.concatenate([case.operands["targets"], np.full_like(more, ignored)], -1),
        },
        ignore_index=ignored,
    )
    plain, longer = (answer(implementation, op, each, dtype) for each in (case, longer_case))
    return differ(list(plain.values), plain, longer)


def the_loss_is_the_cross_entropy_of_the_logits(
    op: str, implementation: Implementation, dtype: str, draws: Draws
) -> str:
    """Composed of the implementation's own model and cross_entropy, if it offers both: the loss and every gradient."""
    model = op.removesuffix("_loss")
    if not (implementation.offers(model) and implementation.offers("cross_entropy")):
        return ""
    case = model_case(op, draws, dtype)
    whole = answer(implementation, op, case, dtype)
    operands = {name: value for name, value in case.operands.items() if name != "targets"}
    nothing = {"dlogits": np.zeros((*case.operands["ids"].shape, VOCABULARY))}
    logits = _stored(values_of(implementation, model, Case(operands, case.options, nothing), dtype)["logits"])
    loss_case = Case({"logits": logits, "targets": case.operands["targets"]}, {}, case.upstream)
    outer = answer(implementation, "cross_entropy", loss_case, dtype)
    upstream = {"dlogits": _stored(outer.values["dlogits"])}
    inner = answer(implementation, model, Case(operands, case.options, upstream), dtype)
    budget = 2.0 * whole.budget["loss"] + outer.budget["loss"]
    return differs("loss", whole.values["loss"], outer.values["loss"], budget) or first(
        # the measured budget of the whole holds what its own logits and dlogits may be wrong by
        differs(name, whole.values[name], inner.values[name], 2.0 * whole.budget[name] + inner.budget[name])
        for name in whole.values
        if "." in name
    )


def _stored(X: Array) -> Array:
    return X.astype(np.float64)


def doubling_dloss_doubles_the_gradient(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Every gradient is linear in dloss."""
    case = model_case(op, draws, dtype)
    twofold = Case(case.operands, case.options, {"dloss": np.asarray(2.0 * case.upstream["dloss"])})
    once, twice = (answer(implementation, op, each, dtype) for each in (case, twofold))
    return first(
        differs(name, twice.values[name], 2.0 * value, 2.0 * once.budget[name] + twice.budget[name])
        for name, value in once.values.items()
        if name != "loss"
    )


LAWS: dict[str, tuple[Law, ...]] = laws_of(
    LOSSES,
    a_batch_is_the_mean_of_its_sequences,
    the_gradient_of_the_heads_bias_sums_to_0,
    a_head_of_0_gives_log_v,
    padding_at_the_end_changes_nothing,
    the_loss_is_the_cross_entropy_of_the_logits,
    doubling_dloss_doubles_the_gradient,
)
