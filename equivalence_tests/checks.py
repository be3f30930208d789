"""What every implementation of an op must pass, case by case, and the first thing that is wrong with one that does not.

`agreement` compares every output and gradient with its exact value, within the budget. The others hold for any right
implementation and need no exact value.
"""

from __future__ import annotations

import io
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array, Bounded
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.implementations import (
    Implementation,
    NotOffered,
    as_upstream,
    check_offer,
    gradients_by_name,
    one_line,
    prepared,
    run,
)
from equivalence_tests.judge import Judgement, judge
from equivalence_tests.laws import LAWS
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.ops import Op
from equivalence_tests.process import Ended
from equivalence_tests.stages import STORED

LAW_DRAWS = 3  # of every law, in every dtype


@dataclass(frozen=True)
class Fault:
    """A check that an implementation fails, and on what."""

    check: str
    what: str
    dtype: str
    case: Case | None = None

    def __str__(self) -> str:
        return f"{self.check} ({self.dtype}): {self.what}"


def draw_case(op: Op, seed: int, index: int) -> Case:
    """Case number `index`: every second one is hard. The same seed gives the same cases, whatever else is drawn."""
    return op.draw(SeededDraws(np.random.default_rng([seed, index])), index % 2 == 1)


def agreement(
    implementation: Implementation, op: Op, rounded: Case, exact: dict[str, Bounded], dtype: str
) -> dict[str, Judgement]:
    """Every output and gradient of one case, judged. Raises NotOffered if the case asks for what is not on offer."""
    precision = PRECISIONS[dtype]
    wider = None if implementation.ordinary else partial(op.exact, rounded, precision, STORED)
    return judge(run(implementation, op, rounded, dtype), exact, precision, wider)


def _arrays(value: Any) -> Iterator[Array]:
    """Every array in a nest of tuples, lists and dicts."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, dict):
        yield from _arrays(tuple(value.values()))


def conduct(
    implementation: Implementation, op: Op, rounded: Case, exact: dict[str, Bounded], dtype: str
) -> Misconduct | None:
    """How a NumPy pair behaves, whatever it computes: the first rule that it breaks, or None.

    It prints nothing and leaves the global random state and the warnings' filters alone; it changes no operand, no
    upstream gradient and no cache; called again, with other calls in between, it answers the same to the last bit; it is
    linear in the upstream gradient; outputs share no memory with inputs, and gradients with nothing.
    """
    printed = io.StringIO()
    state, filters = global_state(), list(warnings.filters)
    with redirect_stdout(printed):
        what = _conduct_forward(implementation, op, rounded, exact, dtype)
    if printed.getvalue():
        return what or Misconduct("prints")
    if global_state() != state:
        return what or Misconduct("random_state")
    if list(warnings.filters) != filters:
        return what or Misconduct("warning_filters")
    return what


def global_state() -> tuple[bytes, int]:
    _, keys, position, *_ = np.random.get_state(legacy=True)  # noqa: NPY002 (the old global state, which ops must not touch)
    return np.asarray(keys).tobytes(), int(position)


def _conduct_forward(
    implementation: Implementation, op: Op, rounded: Case, exact: dict[str, Bounded], dtype: str
) -> Misconduct | None:
    operands, options, upstream = prepared(rounded, dtype, writeable=True)  # a write into them is to be seen
    given = list(_arrays((operands, options, upstream)))
    before = [array.copy() for array in given]
    forward = implementation.forward(op.name)
    check_offer(forward, rounded)
    answer = forward(*op.arguments(operands), **options)
    Y, cache = (answer, ()) if not op.differentiable else answer
    written = _changed_ones(given, before)
    if written:
        by_design = all(any(np.shares_memory(y, x) for y in _arrays(Y)) for x in written)
        return Misconduct("in_place" if by_design else "changes_operands")
    if any(np.shares_memory(y, x) for y in _arrays(Y) for x in given):
        return Misconduct("output_shares_memory")
    first = [array.copy() for array in _arrays((Y, cache))]
    other = {
        n: np.where(np.isinf(x), x, -0.7 * x).astype(x.dtype) if x.dtype.kind == "f" else x for n, x in operands.items()
    }
    elsewhere = forward(*op.arguments(other), **options)
    if op.differentiable:
        implementation.backward(op.name)(as_upstream(op, upstream), elsewhere[1])
    if _changed(list(_arrays((Y, cache))), first):
        return Misconduct("later_call_changes")
    again = forward(*op.arguments(operands), **options)
    if not _same(Y, again if not op.differentiable else again[0]):
        return Misconduct("answers_differently")
    if not op.differentiable:
        return None
    backward = implementation.backward(op.name)

    def between() -> None:
        forward(*op.arguments(other), **options)  # the backward is to know its own call from the last one

    return _conduct_backward(backward, op, rounded, exact, upstream, cache, [*given, *_arrays(Y)], between)


def _conduct_backward(
    backward: Callable[..., Any],
    op: Op,
    rounded: Case,
    exact: dict[str, Bounded],
    upstream: dict[str, Array],
    cache: Any,
    given: list[Array],
    between: Callable[[], None],
) -> Misconduct | None:
    dY = as_upstream(op, upstream)
    remembered = list(_arrays(cache))
    before, cached = [array.copy() for array in given], [array.copy() for array in remembered]
    gradients = backward(dY, cache)
    answered = gradients_by_name(op, rounded, gradients)
    own = list(_arrays(answered))
    written = _changed_ones(given, before)
    if written:
        upstreams = list(_arrays(upstream))
        by_design = all(
            any(x is each for each in upstreams) and any(np.shares_memory(x, g) for g in own) for x in written
        )
        return Misconduct("backward_in_place" if by_design else "backward_changes_operands")
    accumulates = _accumulating(answered, lambda: gradients_by_name(op, rounded, backward(dY, cache)))
    if accumulates:
        return Misconduct("accumulates", accumulates)
    if _changed(remembered, cached):
        return Misconduct("backward_changes_cache")
    if any(np.shares_memory(g, x) for g in own for x in (*given, *remembered)):
        return Misconduct("gradient_shares_memory")
    if any(np.shares_memory(a, b) for i, a in enumerate(own) for b in own[:i]):
        return Misconduct("gradients_share_memory")
    first = [array.copy() for array in own]
    doubled = {name: -2.0 * value for name, value in upstream.items()}  # exact: only the backward's own rounding counts
    twofold = gradients_by_name(op, rounded, backward(as_upstream(op, doubled), cache))
    for (name, once), twice in zip(answered.items(), twofold.values(), strict=True):
        error = np.abs(twice.astype(ORACLE) + 2.0 * once.astype(ORACLE))
        # Where arrays lie otherwise no budget has their shape: then a backward that is not linear at all is seen alone.
        allowed = exact[name].budget() if name in exact else 1e-3 * np.abs(once).max(initial=0.0)
        if bool((error > 4.0 * allowed).any()):  # each of the two may err by its budget, times 2
            return Misconduct("not_linear", name)
    if _changed(own, first):
        return Misconduct("later_backward_changes")
    between()
    if not _same(tuple(own), tuple(_arrays(backward(dY, cache)))):
        return Misconduct("backward_answers_differently")
    return None


def _accumulating(first: dict[str, Array], again: Callable[[], dict[str, Array]]) -> str:
    """The first gradient of which a second call of the backward adds a second one to the first, or nothing."""
    once = {name: np.array(value) for name, value in first.items()}
    twice = again()
    for name, value in once.items():
        second = np.asarray(twice.get(name))
        if second.shape == value.shape and value.any() and np.isfinite(value).all() and _doubled(second, value):
            return name
    return ""


def _doubled(second: Array, first: Array) -> bool:
    """Whether it is twice the first, rounding apart: repeated ids are added up in another order the second time."""
    return bool((np.abs(second - 2.0 * first) <= 1e-3 * np.abs(first)).all())


def _changed(arrays: list[Array], before: list[Array]) -> bool:
    return bool(_changed_ones(arrays, before))


def _changed_ones(arrays: list[Array], before: list[Array]) -> list[Array]:
    pairs = zip(arrays, before, strict=True)
    return [a for a, b in pairs if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f")]


def _same(one: Any, other: Any) -> bool:
    """Equal to the last bit; whether NaN is right is for agreement to say, here it is to come again in the same place."""
    if not isinstance(one, tuple | np.ndarray):  # a loss is a number
        return bool(one == other)
    pairs = zip(_arrays(one), _arrays(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def law_fault(implementation: Implementation, op: Op, dtype: str, seed: int, times: int = LAW_DRAWS) -> str:
    """The first of the op's own laws that an implementation breaks, as "law: what broke", or nothing."""
    for law in LAWS.get(op.name, ()):
        for index in range(times):
            draws = SeededDraws(np.random.default_rng([seed, index]))
            with np.errstate(all="ignore"):  # some laws feed NaN and infinity, and there a warning is no fault
                what = attempt(partial(law, implementation, dtype, draws))
            if what:
                return f"{law.__name__}: {what}"
    return ""


def find_fault(
    implementation: Implementation, op: Op, *, cases: int, seed: int = 0, dtypes: tuple[str, ...] | None = None
) -> Fault | None:
    """The first check of the table that an implementation of one op fails, or None.

    First the op's own laws, then `cases` cases: agreement in every dtype, and conduct for pairs. An implementation that
    offers what no case asks for could not be judged, and that is a fault too.
    """
    dtypes, judged = dtypes or implementation.dtypes, 0
    for dtype in dtypes:
        broken = law_fault(implementation, op, dtype, seed)
        if broken:
            law, _, what = broken.partition(": ")
            return Fault(law, what, dtype)
    for index in range(cases):
        case = draw_case(op, seed, index)
        for dtype in dtypes:
            rounded = case.rounded(PRECISIONS[dtype])
            exact = op.exact(rounded, PRECISIONS[dtype])
            try:
                check_offer(implementation.forward(op.name), rounded)
            except NotOffered:
                continue
            judged += 1
            what = attempt(partial(agreement, implementation, op, rounded, exact, dtype))
            if what:
                return Fault("agreement", what, dtype, case)
            if implementation.pairs:
                what = attempt(partial(conduct, implementation, op, rounded, exact, dtype))
                if what:
                    return Fault("conduct", what, dtype, case)
    return None if judged else Fault("offer", f"none of {cases} cases asks only for what is on offer", dtypes[0])


def attempt(check: Callable[[], Any]) -> str:
    """Run a check on an implementation that may do anything; what it raises is a fault, said in one line."""
    try:
        result = check()
    except NotOffered:
        return ""
    except BaseException as error:  # a candidate may raise anything
        reraise_interrupt(error)
        return f"raised {one_line(error)}"
    if isinstance(result, dict):
        return next((judgement.wrong for judgement in result.values() if judgement.wrong), "")
    return result if isinstance(result, str) else str(result or "")  # a law says how far it is broken


def misconduct(rule: Callable[[], Misconduct | None]) -> Misconduct | None:
    """The rule of conduct that is broken, where the implementation may raise anything."""
    try:
        return rule()
    except NotOffered:
        return None
    except BaseException as error:
        reraise_interrupt(error)
        return Misconduct("raises", error=one_line(error))


def reraise_interrupt(error: BaseException) -> None:
    """Ctrl-C is the user's, unless SIGINT is ignored here (in a worker): then it was the candidate that raised it. That the
    process of a candidate ended is no answer of it either."""
    if isinstance(error, Ended):
        raise error
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise error
