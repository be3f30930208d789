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
from equivalence_tests.ops import Op

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
    return judge(run(implementation, op, rounded, dtype), exact, PRECISIONS[dtype])


def _arrays(value: Any) -> Iterator[Array]:
    """Every array in a nest of tuples, lists and dicts."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, dict):
        yield from _arrays(tuple(value.values()))


def conduct(implementation: Implementation, op: Op, rounded: Case, exact: dict[str, Bounded], dtype: str) -> str:
    """How a NumPy pair behaves, whatever it computes: the first rule that it breaks, or nothing.

    It prints nothing and leaves the global random state and the warnings' filters alone; it changes no operand, no
    upstream gradient and no cache; called again, with other calls in between, it answers the same to the last bit; it is
    linear in the upstream gradient; outputs share no memory with inputs, and gradients with nothing.
    """
    printed = io.StringIO()
    state, filters = global_state(), list(warnings.filters)
    with redirect_stdout(printed):
        what = _conduct_forward(implementation, op, rounded, exact, dtype)
    if printed.getvalue():
        return what or "it prints"
    if global_state() != state:
        return what or "it touches NumPy's global random state"
    if list(warnings.filters) != filters:
        return what or "it changes the filters of warnings"
    return what


def global_state() -> tuple[bytes, int]:
    _, keys, position, *_ = np.random.get_state(legacy=True)  # noqa: NPY002 (the old global state, which ops must not touch)
    return np.asarray(keys).tobytes(), int(position)


def _conduct_forward(
    implementation: Implementation, op: Op, rounded: Case, exact: dict[str, Bounded], dtype: str
) -> str:
    operands, options, upstream = prepared(rounded, dtype, writeable=True)  # who writes into them is to be seen
    given = list(_arrays((operands, options, upstream)))
    before = [array.copy() for array in given]
    forward = implementation.forward(op.name)
    check_offer(forward, rounded)
    answer = forward(*op.arguments(operands), **options)
    Y, cache = (answer, ()) if not op.differentiable else answer
    if _changed(given, before):
        return "the forward changes its operands"
    if any(np.shares_memory(y, x) for y in _arrays(Y) for x in given):
        return "an output shares memory with an operand"
    first = [array.copy() for array in _arrays((Y, cache))]
    other = {name: -0.7 * x if x.dtype.kind == "f" else x for name, x in operands.items()}
    elsewhere = forward(*op.arguments(other), **options)
    if op.differentiable:
        implementation.backward(op.name)(as_upstream(op, upstream), elsewhere[1])
    if _changed(list(_arrays((Y, cache))), first):
        return "a later call changes what an earlier one answered or remembers"
    again = forward(*op.arguments(operands), **options)
    if not _same(Y, again if not op.differentiable else again[0]):
        return "the forward answers differently when called again"
    if not op.differentiable:
        return ""
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
) -> str:
    dY = as_upstream(op, upstream)
    remembered = list(_arrays(cache))
    before, cached = [array.copy() for array in given], [array.copy() for array in remembered]
    gradients = backward(dY, cache)
    if _changed(given, before):
        return "the backward changes an operand, an output or its upstream gradient"
    if _changed(remembered, cached):
        return "the backward changes its cache"
    answered = gradients_by_name(op, rounded, gradients)
    own = list(_arrays(answered))
    if any(np.shares_memory(g, x) for g in own for x in (*given, *remembered)):
        return "a gradient shares memory with an operand, an output, the upstream gradient or the cache"
    if any(np.shares_memory(a, b) for i, a in enumerate(own) for b in own[:i]):
        return "two gradients share memory"
    first = [array.copy() for array in own]
    doubled = {name: -2.0 * value for name, value in upstream.items()}  # exact: only the backward's own rounding counts
    twofold = gradients_by_name(op, rounded, backward(as_upstream(op, doubled), cache))
    for (name, once), twice in zip(answered.items(), twofold.values(), strict=True):
        error = np.abs(twice.astype(ORACLE) + 2.0 * once.astype(ORACLE))
        if bool((error > 4.0 * exact[name].budget()).any()):  # each of the two may err by its budget, times 2
            return f"-2 times the upstream gradient does not give -2 times {name}"
    if _changed(own, first):
        return "a later call of the backward changes the gradients of an earlier one"
    between()
    if not _same(tuple(own), tuple(_arrays(backward(dY, cache)))):
        return "the backward answers differently when called again"
    return ""


def _changed(arrays: list[Array], before: list[Array]) -> bool:
    return any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(arrays, before, strict=True))


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


def reraise_interrupt(error: BaseException) -> None:
    """Ctrl-C is the user's, unless SIGINT is ignored here (in a worker): then it was the candidate that raised it."""
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise error
