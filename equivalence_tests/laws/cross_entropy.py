"""Laws of the loss, and of the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Array
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.common import (
    Law,
    answer,
    differ,
    differs,
    normal,
    permutation,
    sizes,
    summed,
    unequal,
    values_of,
)

IGNORED = -100


def _case(logits: Array, targets: Array, ignore_index: int | None = None, dloss: float = -1.5) -> Case:
    options: dict[str, Any] = {} if ignore_index is None else {"ignore_index": ignore_index}
    return Case({"logits": logits, "targets": targets}, options, {"dloss": np.asarray(dloss)})


def _drawn(draws: Draws, dtype: str) -> tuple[Array, Array]:
    n, v = sizes(draws, "n v")
    return normal(draws, (n, v), dtype), draws.rng.integers(0, v, n)


def uniform_logits_give_log_v(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """loss = log v where every class is as likely as the next."""
    logits, targets = _drawn(draws, dtype)
    same = np.broadcast_to(np.round(10.0 * logits[:, :1]), logits.shape).copy()
    values, budget = answer(implementation, "cross_entropy", _case(same, targets), dtype)
    return differs("loss of uniform logits", values["loss"], np.log(ORACLE(logits.shape[1])), budget["loss"])


def rows_of_the_gradient_sum_to_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum(P - onehot) = 0 in every row."""
    values, budget = answer(implementation, "cross_entropy", _case(*_drawn(draws, dtype)), dtype)
    total, tolerance = summed(values["dlogits"], budget["dlogits"])
    return differs("sum(dlogits)", total, 0.0, tolerance)


def an_ignored_row_is_as_if_deleted(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """The loss is the mean over what counts; what does not has a gradient of 0, exactly."""
    logits, targets = _drawn(draws, dtype)
    ignore_index = draws.choice((IGNORED, -1, 0))  # 0: a class that exists
    counted = draws.rng.random(len(targets)) < 0.6
    counted[:2] = True, False
    counted = draws.rng.permutation(counted)
    targets = np.where(counted, np.maximum(targets, 1), ignore_index)
    whole = answer(implementation, "cross_entropy", _case(logits, targets, ignore_index), dtype)
    rest = answer(implementation, "cross_entropy", _case(logits[counted], targets[counted], ignore_index), dtype)
    left = whole._replace(
        values={"dlogits": whole.values["dlogits"][counted], "loss": whole.values["loss"]},
        budget={"dlogits": whole.budget["dlogits"][counted], "loss": whole.budget["loss"]},
    )
    ignored = unequal("dlogits of an ignored row", whole.values["dlogits"][~counted], 0.0)
    return ignored or differ(("loss", "dlogits"), left, rest)


def doubling_dloss_doubles_the_gradient(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """dlogits is linear in dloss."""
    logits, targets = _drawn(draws, dtype)
    dloss = draws.choice((1.0, -0.75))
    once, twice = (
        answer(implementation, "cross_entropy", _case(logits, targets, dloss=factor * dloss), dtype)
        for factor in (1.0, 2.0)
    )
    budget = 2.0 * once.budget["dlogits"] + twice.budget["dlogits"]
    return differs("dlogits of 2 dloss", twice.values["dlogits"], 2.0 * once.values["dlogits"], budget)


def a_shift_of_a_row_changes_nothing(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """loss(logits + a) = loss(logits), a one number per row; integers, so that the shift is exact."""
    logits, targets = _drawn(draws, dtype)
    logits = np.round(3.0 * logits)
    a = draws.rng.choice([-100.0, -7.0, 5.0, 90.0], (len(logits), 1))
    plain, shifted = (answer(implementation, "cross_entropy", _case(x, targets), dtype) for x in (logits, logits + a))
    return differ(("loss", "dlogits"), plain, shifted)


def every_row_twice_is_the_same_loss(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """The loss is a mean, not a sum: with every row there twice it is what it was, and each has half the gradient."""
    logits, targets = _drawn(draws, dtype)
    once = answer(implementation, "cross_entropy", _case(logits, targets), dtype)
    twice = answer(implementation, "cross_entropy", _case(np.tile(logits, (2, 1)), np.tile(targets, 2)), dtype)
    half = 2.0 * twice.values["dlogits"][: len(targets)]
    budget = once.budget["dlogits"] + 2.0 * twice.budget["dlogits"][: len(targets)]
    return differ(("loss",), once, twice) or differs(
        "dlogits of a row there twice", half, once.values["dlogits"], budget
    )


def an_unlikely_target_has_a_large_loss(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """[1000, 0, -1000] with the last class as target: loss = 2000, dlogits = [1, 0, -1]; log(softmax) would be -inf.

    And the same of 100000, where the format has it: a clip somewhere in between is none of the formula.
    """
    far = draws.choice((1000.0, 1e5)) if dtype in ("float64", "float32") else 1000.0
    order = draws.rng.permutation(3)
    logits, target = np.array([[far, 0.0, -far]])[:, order], np.flatnonzero(order == 2)
    values, budget = answer(implementation, "cross_entropy", _case(logits, target, dloss=1.0), dtype)
    loss = differs(f"loss of [{far:g}, 0, {-far:g}]", values["loss"], 2.0 * far, budget["loss"])
    return loss or differs("dlogits", values["dlogits"], np.array([[1.0, 0.0, -1.0]])[:, order], budget["dlogits"])


def nan_in_a_counted_row_is_nan(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A NaN logit in a row that counts makes the loss NaN, wherever in the row it is."""
    logits, targets = _drawn(draws, dtype)
    at = tuple(draws.choice(range(size)) for size in logits.shape)
    logits[at] = np.nan
    loss = values_of(implementation, "cross_entropy", _case(logits, targets), dtype)["loss"]
    return "" if np.isnan(loss) else f"loss of a row with a NaN logit is {float(loss):.9g}, expected nan"


def all_ignored_is_an_error(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """The mean of nothing is not a number: ValueError, not NaN."""
    logits, targets = _drawn(draws, dtype)
    case = _case(logits, np.full_like(targets, IGNORED), IGNORED)
    try:
        got = values_of(implementation, "cross_entropy", case, dtype)
    except ValueError:
        return ""
    return f"loss is {got['loss']} where all targets are ignored, expected a ValueError"


def _embedding(draws: Draws, dtype: str) -> Case:
    B, n, v, d = sizes(draws, "B n v d")
    ids = draws.rng.integers(0, v, (B, n))
    ids[0, 0], ids[-1, -1] = 0, v - 1  # the first and the last row are rows like any other
    ids[ids == v // 2] = 0  # at least one row is not named
    return Case({"ids": ids, "weight": normal(draws, (v, d), dtype)}, {}, {"dY": normal(draws, (B, n, d), dtype)})


def rows_not_named_have_no_gradient(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """dweight_v = 0, exactly, where v is not among the ids."""
    case = _embedding(draws, dtype)
    dweight = values_of(implementation, "embedding", case, dtype)["dweight"]
    absent = ~np.isin(np.arange(len(dweight)), case.operands["ids"])
    return unequal("dweight of a row that is not named", dweight[absent], 0.0)


def a_lookup_is_a_product_with_onehot(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Y = onehot(ids) weight, to the last bit; dweight = onehot(ids)^T dY, repeats added up."""
    case = _embedding(draws, dtype)
    values, budget = answer(implementation, "embedding", case, dtype)
    weight = case.operands["weight"].astype(ORACLE)
    onehot = np.eye(len(weight), dtype=ORACLE)[case.operands["ids"].reshape(-1)]
    dY = case.upstream["dY"].reshape(len(onehot), -1)
    return unequal("Y", values["Y"].reshape(dY.shape), onehot @ weight) or differs(
        "dweight", values["dweight"], onehot.T @ dY, budget["dweight"]
    )


def permuting_the_ids_permutes_the_rows(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Y follows the ids, to the last bit; dweight does not care for their order."""
    case = _embedding(draws, dtype)
    ids, weight, dY = case.operands["ids"], case.operands["weight"], case.upstream["dY"]
    order = permutation(draws, ids.shape[1])
    moved = Case({"ids": ids[:, order], "weight": weight}, {}, {"dY": dY[:, order]})
    one, other = (answer(implementation, "embedding", each, dtype) for each in (case, moved))
    return unequal("Y", other.values["Y"], one.values["Y"][:, order]) or differ(("dweight",), one, other)


def no_id_counts_from_the_end(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """An id of -1 is an error, not the last row."""
    case = _embedding(draws, dtype)
    case.operands["ids"].flat[draws.choice((0, 3))] = -1
    try:
        values_of(implementation, "embedding", case, dtype)
    except ValueError:
        return ""
    return "an id of -1 is accepted, expected a ValueError"


LAWS: dict[str, tuple[Law, ...]] = {
    "cross_entropy": (
        uniform_logits_give_log_v,
        rows_of_the_gradient_sum_to_0,
        an_ignored_row_is_as_if_deleted,
        doubling_dloss_doubles_the_gradient,
        a_shift_of_a_row_changes_nothing,
        every_row_twice_is_the_same_loss,
        an_unlikely_target_has_a_large_loss,
        nan_in_a_counted_row_is_nan,
        all_ignored_is_an_error,
    ),
    "embedding": (
        rows_not_named_have_no_gradient,
        a_lookup_is_a_product_with_onehot,
        permuting_the_ids_permutes_the_rows,
        no_id_counts_from_the_end,
    ),
}
