"""Laws of the Elman network.

Its budget is measured by shaking every line by the unit of the format, so it covers an implementation that stores the
state, or the gradient that comes back through it, at any step. A sequence run in two parts is such an implementation.
"""

from __future__ import annotations

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.common import Answered, Law, answer, differ, differs, first, normal, permutation, sizes

STATES = ("H", "h_last", "dX", "dh0")
WEIGHTS = ("dW_ih", "dW_hh", "db_ih", "db_hh")


def _drawn(draws: Draws, dtype: str, n: int = 0) -> Case:
    B, steps, d, k = sizes(draws, "B n d k")
    steps = n or steps
    operands = {
        "X": normal(draws, (B, steps, d), dtype),
        "W_ih": normal(draws, (k, d), dtype) / np.sqrt(d),
        "W_hh": normal(draws, (k, k), dtype) / np.sqrt(k),
        "b_ih": normal(draws, (k,), dtype),
        "b_hh": normal(draws, (k,), dtype),
        "h0": normal(draws, (B, k), dtype),
    }
    upstream = {"dH": normal(draws, (B, steps, k), dtype), "dh_last": normal(draws, (B, k), dtype)}
    return Case(operands, {}, upstream).rounded(PRECISIONS[dtype])


def _run(implementation: Implementation, case: Case, dtype: str) -> Answered:
    return answer(implementation, "rnn", case, dtype)


def two_parts_are_the_whole(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Steps 0 ... t - 1, then the rest from their last state, and back the same way: all states and gradients."""
    case = _drawn(draws, dtype)
    X, dH, unit = case.operands["X"], case.upstream["dH"], PRECISIONS[dtype].unit
    t = draws.choice(range(1, X.shape[1]))
    whole = _run(implementation, case, dtype)

    def part(steps: slice, h0: Array, dh_last: Array) -> dict[str, Array]:
        operands = {**case.operands, "X": X[:, steps], "h0": h0}
        upstream = {"dH": dH[:, steps], "dh_last": dh_last}
        return _run(implementation, Case(operands, {}, upstream), dtype).values

    early, late = slice(0, t), slice(t, None)
    nothing = np.zeros_like(case.upstream["dh_last"])
    middle = part(early, case.operands["h0"], nothing)["h_last"].astype(np.float64)
    second = part(late, middle, case.upstream["dh_last"])
    back = part(early, case.operands["h0"], second["dh0"].astype(np.float64))
    joined = {name: np.concatenate([back[name], second[name]], 1) for name in ("H", "dX")}
    joined |= {"h_last": second["h_last"], "dh0": back["dh0"], **{x: back[x] + second[x] for x in WEIGHTS}}
    stored = {x: unit * (np.abs(back[x]) + np.abs(second[x])) for x in WEIGHTS}  # two sums where the whole has one
    return first(
        differs(f"{name} in two parts", value, whole.values[name], 2.0 * whole.budget[name] + stored.get(name, 0.0))
        for name, value in joined.items()
    )


def permuting_the_batch_permutes_the_answer(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Sequences do not meet; the weights' gradients do not care for their order."""
    case = _drawn(draws, dtype)
    order = permutation(draws, case.operands["X"].shape[0])
    operands = {**case.operands, **{name: case.operands[name][order] for name in ("X", "h0")}}
    moved = Case(operands, {}, {name: value[order] for name, value in case.upstream.items()})
    plain, permuted = (_run(implementation, each, dtype) for each in (case, moved))
    return differ(STATES, plain, permuted, lambda array: array[order]) or differ(WEIGHTS, plain, permuted)


def no_state_is_a_state_of_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """h0 left out = h0 of zeros, in every output and gradient but dh0."""
    case = _drawn(draws, dtype)
    zeros = Case({**case.operands, "h0": np.zeros_like(case.operands["h0"])}, {}, case.upstream)
    without = Case({name: value for name, value in case.operands.items() if name != "h0"}, {}, case.upstream)
    given, left_out = (_run(implementation, each, dtype) for each in (zeros, without))
    return differ(("H", "h_last", "dX", *WEIGHTS), given, left_out)


def both_biases_have_one_gradient(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """db_ih = db_hh: only their sum is ever used."""
    values, budget = _run(implementation, _drawn(draws, dtype), dtype)
    return differs("db_hh", values["db_hh"], values["db_ih"], budget["db_hh"] + budget["db_ih"])


def the_first_state_is_one_more_input(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With W_ih = W_hh, h0 and x_0 enter alike: dh0 = dX_0, and exchanging the two changes neither H nor that."""
    case = _drawn(draws, dtype)
    X, h0, W = case.operands["X"], case.operands["h0"], case.operands["W_hh"]
    X = normal(draws, (*X.shape[:2], h0.shape[-1]), dtype)
    one = Case({**case.operands, "X": X, "W_ih": W}, {}, case.upstream)
    exchanged = Case(
        {**one.operands, "X": np.concatenate([h0[:, None], X[:, 1:]], 1), "h0": X[:, 0]}, {}, case.upstream
    )
    plain, other = (_run(implementation, each, dtype) for each in (one, exchanged))
    values, budget = plain
    return differs("dh0", values["dh0"], values["dX"][:, 0], budget["dh0"] + budget["dX"][:, 0]) or differ(
        ("H", "dX", "dh0"), plain, other
    )


def a_step_is_the_equation(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """h_0 = tanh(x_0 W_ih^T + b_ih + h0 W_hh^T + b_hh), and h_last is the last row of H."""
    case = _drawn(draws, dtype)
    values, budget = _run(implementation, case, dtype)
    X, W_ih, W_hh, b_ih, b_hh, h0 = (array.astype(ORACLE) for array in case.operands.values())
    a = X[:, 0] @ W_ih.T + b_ih + h0 @ W_hh.T + b_hh
    terms = np.abs(X[:, 0]) @ np.abs(W_ih).T + np.abs(b_ih) + np.abs(h0) @ np.abs(W_hh).T + np.abs(b_hh)
    own = (X.shape[-1] + h0.shape[-1] + 4) * ORACLE_UNIT * terms
    step = differs("H[0]", values["H"][:, 0], np.tanh(a), budget["H"][:, 0] + own)
    return step or differs("h_last", values["h_last"], values["H"][:, -1], budget["h_last"])


def the_past_does_not_see_the_future(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """H before step t does not depend on x_t, and gives it no gradient: within the budget, and exactly 0."""
    case = _drawn(draws, dtype)
    X = case.operands["X"]
    t = draws.choice(range(1, X.shape[1]))
    past = np.arange(X.shape[1])[:, None] < t
    upstream = {"dH": np.where(past, case.upstream["dH"], 0.0), "dh_last": np.zeros_like(case.upstream["dh_last"])}
    other = {**case.operands, "X": np.where(past, X, normal(draws, X.shape, dtype))}
    plain, changed = (_run(implementation, Case(each, {}, upstream), dtype) for each in (case.operands, other))
    budget = (plain.budget["H"] + changed.budget["H"])[:, :t]
    before = differs("H before a step that changed", changed.values["H"][:, :t], plain.values["H"][:, :t], budget)
    return before or differs("dX of the future", plain.values["dX"][:, t:], 0.0, 0.0)


LAWS: tuple[Law, ...] = (
    two_parts_are_the_whole,
    permuting_the_batch_permutes_the_answer,
    no_state_is_a_state_of_0,
    both_biases_have_one_gradient,
    the_first_state_is_one_more_input,
    a_step_is_the_equation,
    the_past_does_not_see_the_future,
)
