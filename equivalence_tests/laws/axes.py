"""Laws of the leading axes, for every op that has them: none of size 0 is an error, one of size 1 is nothing new, and
what lies along them does not meet, but in the gradients of what it shares."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equivalence_tests.arithmetic import ORACLE_UNIT
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.common import Law, answer, differs, first, takes, values_of
from equivalence_tests.laws.patterns import PATTERNS, case_of
from equivalence_tests.ops import OPS

NAN_IN_A_ROW = ("softmax", "log_softmax", "layer_norm")  # every entry of a row depends on every other
NAN_STAYS = (*NAN_IN_A_ROW, "linear", "simple_attention", "rnn")


def _shared(op: str, name: str) -> bool:
    """Whether a tensor of the answer is the gradient of an operand without leading axes: a sum over them."""
    return not PATTERNS[op].operands.get(name[1:], "...").startswith("...") if name.startswith("d") else False


def _offered(implementation: Implementation, op: str, draws: Draws) -> tuple[str, ...]:
    options = draws.choice(((), ("mask",), ("bias",), ("mask", "bias"), ("keep",))) if PATTERNS[op].options else ()
    return tuple(option for option in options if takes(implementation, op, option))


def of(op: str, law: Callable[[str, Implementation, str, Draws], str]) -> Law:
    """A law of many ops as a law of one."""

    def bound(implementation: Implementation, dtype: str, draws: Draws) -> str:
        return law(op, implementation, dtype, draws)

    bound.__name__, bound.__doc__ = law.__name__, law.__doc__
    return bound


def a_leading_axis_may_be_0(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Outputs with a leading axis of 0 are empty, of the right shape; gradients of shared parameters are exactly 0."""
    lead = draws.choice(((0,), (0, 2), (2, 0)))
    got = values_of(implementation, op, case_of(op, draws, dtype, lead, _offered(implementation, op, draws)), dtype)
    full = values_of(implementation, op, case_of(op, draws, dtype, (1,) * len(lead)), dtype)
    if got.keys() != full.keys():
        return f"{', '.join(sorted(got.keys() ^ full.keys()))} depends on the size of the leading axes"
    for name, value in got.items():
        expected = full[name].shape if _shared(op, name) else (*lead, *full[name].shape[len(lead) :])
        if value.shape != expected:
            return f"{name} has shape {value.shape} with leading axes {lead}, expected {expected}"
        if value.any():
            return f"{name} is not 0 with leading axes {lead}"
    return ""


def a_leading_axis_of_1_changes_nothing(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(X[None]) = f(X)[None], and so for every gradient."""
    lead = draws.choice(((2,), (3, 2), ()))
    case = case_of(op, draws, dtype, lead, _offered(implementation, op, draws))
    pattern = PATTERNS[op]
    leading = {
        name
        for group in (pattern.operands, pattern.upstream, pattern.options)
        for name, x in group.items()
        if "..." in x
    }
    operands, options, upstream = (
        {
            name: value[None] if name in leading and isinstance(value, np.ndarray) else value
            for name, value in group.items()
        }
        for group in (case.operands, case.options, case.upstream)
    )
    plain, longer = (answer(implementation, op, c, dtype) for c in (case, Case(operands, options, upstream)))
    shared = {name for name in plain.values if _shared(op, name) or name == "loss"}
    return first(
        differs(
            f"{name} with one more leading axis",
            longer.values[name] if name in shared else longer.values[name][0],
            value,
            2.0 * plain.budget[name],
        )
        for name, value in plain.values.items()
    )


def batches_are_independent(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Element b of a batch is what it is alone; the gradient of a shared parameter is the sum over b."""
    pattern, B = PATTERNS[op], 3
    lead = draws.choice(((B,), (B, 2), (B, 2, 4)))
    case = case_of(op, draws, dtype, lead, _offered(implementation, op, draws))
    together = answer(implementation, op, case, dtype)
    sums = {name: [0.0 * value, 0.0 * value] for name, value in together.values.items() if _shared(op, name)}
    for b in range(B):
        alone_case = Case(
            {
                name: value[b, ...] if "..." in pattern.operands[name] else value
                for name, value in case.operands.items()
            },
            {name: value[b, ...] if isinstance(value, np.ndarray) else value for name, value in case.options.items()},
            {name: value[b, ...] for name, value in case.upstream.items()},
        )
        alone = answer(implementation, op, alone_case, dtype)
        for name, value in alone.values.items():
            if name in sums:
                own = np.abs(value) * (B * ORACLE_UNIT)
                sums[name] = [sums[name][0] + value, sums[name][1] + alone.budget[name] + own]
                continue
            budget = together.budget[name][b] + alone.budget[name]
            if text := differs(f"{name} of element {b}", together.values[name][b], value, budget):
                return text
    return first(
        differs(f"{name} of the batch", together.values[name], total, together.budget[name] + budget)
        for name, (total, budget) in sums.items()
    )


def nan_stays_in_its_sample(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """NaN in one element of sample b is NaN in the output of b (in all of its row where a row is normalised); no other
    sample knows of it, nor does its gradient."""
    B = 3
    lead = draws.choice(((B,), (B, 2)))
    case = case_of(op, draws, dtype, lead)
    name, X = next(iter(case.operands.items()))
    at = tuple(draws.choice(range(size)) for size in X.shape)
    bad = X.copy()
    bad[at] = np.nan
    plain = answer(implementation, op, case, dtype)
    got = values_of(implementation, op, Case({**case.operands, name: bad}, case.options, case.upstream), dtype)
    Y = OPS[op].outputs[0]
    if op in NAN_IN_A_ROW and not np.isnan(got[Y][at[:-1]]).all():
        return f"{Y} is not NaN throughout a row of {name} that holds NaN"
    if not np.isnan(got[Y][at[: len(lead)]]).any():
        return f"{Y} of a sample with NaN holds none"
    others = np.ones(lead, bool)
    others[at[: len(lead)]] = False
    return first(
        differs(f"{each} beside a sample with NaN", got[each][others], value[others], 2.0 * plain.budget[each][others])
        for each, value in plain.values.items()
        if not _shared(op, each)
    )
