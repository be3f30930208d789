"""The entries: a function and its gradient, held against laws and against what its own forward says."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import Candidate, adapt
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checking import EDGES, STRICT
from equivalence_tests.checks import attempt, draw_case, reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Implementation, NotOffered, check_offer, one_line
from equivalence_tests.laws import LAWS as LAWS_OF_OPS
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.laws_only.drawn import Drawn, asking, by_name, drawing
from equivalence_tests.laws_only.pair_laws import LAWS, batch, permutation
from equivalence_tests.laws_only.pairs import (
    Pair,
    backward_beside,
    check_functions,
    floating,
    of_functions,
    of_the_table,
)
from equivalence_tests.laws_only.report import LawsReport, Row
from equivalence_tests.laws_only.run import FIRST, Law, Plan, run
from equivalence_tests.laws_only.shapes import letter_of, read
from equivalence_tests.laws_only.trials import cast
from equivalence_tests.ops import Op

DTYPES = ("float64", "float32")
UPSTREAMS = 3  # for operands at hand
FORMS = 4  # cases on which a forward may raise before it is told that it never runs
TRIES = 50  # cases that may ask for more than is on offer, before one is found that does not
CASES_APART = 1000  # where a case asks for more than is on offer, the one so many further on takes its place


def check_laws(
    forward: Any,
    backward: Any = None,
    *,
    shapes: str | None = None,
    inputs: Callable[[np.random.Generator], Any] | None = None,
    like: str | None = None,
    laws: Iterable[str] = (),
    cases: int = 20,
    seed: int = 0,
    dtypes: tuple[str, ...] = DTYPES,
    sizes: dict[str, int] | None = None,
) -> LawsReport:
    """The laws that any differentiable function keeps, on `cases` drawn cases, in the `dtypes` by turns.

    `backward` is of (dY, cache), and then the forward returns (Y, cache); or of (dY, *operands); or None: then it is
    NAME_backward beside the forward NAME, or a torch function is differentiated by autograd. `sizes` are those letters
    that are not drawn. The operands come from one of

    * `shapes`, as in "X: ... n d; W: k d; ids: ... < v" (see shapes.py);
    * `inputs(rng)`, a tuple of operands or a dict by name; what the forward takes by keyword only is an option;
    * `like`, an op of the table: its cases, and its own laws too.

    `laws` asks for more: "batch" (the leading axes are independent samples) or "permutation n" (permuting letter n permutes
    what has it), both with `shapes`. ValueError or TypeError, one line, for a call that cannot be understood.
    """
    if sum(given is not None for given in (shapes, inputs, like)) != 1:
        raise ValueError("check_laws: expected exactly one of shapes=, inputs= and like=")
    if cases < 2:
        raise ValueError(f"cases: {cases} came, expected at least 2, one for each dtype")
    if sizes and inputs is not None:
        raise ValueError("sizes: inputs= came, which draws its own sizes; expected shapes= or like=")
    if not set(dtypes) <= set(DTYPES):
        raise ValueError(f"dtypes: {', '.join(dtypes)} came, expected {' and '.join(DTYPES)}")
    asked = asked_laws(tuple(laws), shapes, sizes)
    if like is not None:
        candidate = adapt(forward, like, backward=backward)
        return check_candidate(candidate, (forward, backward), Plan(cases, seed, dtypes, LAWS), sizes or {})
    backward = backward or backward_beside(forward)
    draw = drawing(read(shapes, sizes), seed) if shapes is not None else asking(inputs, forward, seed)
    check_functions(forward, backward, draw(0).tensors)
    return _begin_and_run(forward, backward, draw, Plan(cases, seed, dtypes, LAWS, asked))


def check_gradients(
    forward: Any, backward: Any = None, inputs: Any = None, *, cases: int = 10, seed: int = 0
) -> LawsReport:
    """The gradients alone: their shapes, that they are finite and linear in a dense random upstream gradient, the adjoint
    identity, and each of them element by element against complex steps or central differences.

    `inputs` are operands at hand (one array, a tuple, or a dict by name; NumPy or torch), judged in their own dtype against
    three upstream gradients; or a function of a generator that gives such; or a line of shapes as in check_laws, and then
    there are `cases` draws. ValueError or TypeError, one line, for a call that cannot be understood.
    """
    if isinstance(inputs, str):
        draw = drawing(read(inputs), seed)
    elif callable(inputs):
        draw = asking(inputs, forward, seed)
    else:
        at_hand = by_name(inputs, forward)
        cases, draw = UPSTREAMS, lambda index: at_hand
    first = draw(0)
    backward = backward or backward_beside(forward)
    check_functions(forward, backward, first.tensors)
    dtypes = DTYPES if isinstance(inputs, str) else (_dtype_of(first.operands),)
    chosen = {name: LAWS[name] for name in (*FIRST, "linear in the upstream gradient")}
    return _begin_and_run(forward, backward, draw, Plan(cases, seed, dtypes, chosen))


def _dtype_of(operands: dict[str, Any]) -> str:
    """The one dtype of all operands that have a gradient."""
    found = {str(operands[name].dtype) for name in floating(operands)}
    if len(found) != 1 or not found <= set(DTYPES):
        raise TypeError(f"inputs: {' and '.join(sorted(found))} came, expected one of float64 and float32")
    return found.pop()


def asked_laws(laws: tuple[str, ...], shapes: str | None, sizes: dict[str, int] | None = None) -> list[tuple[str, Law]]:
    """The laws that were asked for by name. ValueError for one that does not exist, or that needs shapes."""
    found: list[tuple[str, Law]] = []
    for law in laws:
        name, _, letter = law.partition(" ")
        if name not in ("batch", "permutation") or (name == "permutation") != bool(letter):
            raise ValueError(f"laws: {law!r} came, expected 'batch' or 'permutation LETTER'")
        if shapes is None:
            raise ValueError(f"laws: {law!r} needs shapes=, which says what the axes are")
        spec = read(shapes, sizes)
        if name == "batch" and not spec.batched:
            raise ValueError(
                f"laws: 'batch' needs leading axes in shapes, as in '... {shapes.partition(':')[2].strip()}'"
            )
        found.append((law, partial(batch, spec) if not letter else partial(permutation, spec, letter_of(letter, spec))))
    return found


def _begin_and_run(forward: Any, backward: Any, draw: Callable[[int], Drawn], plan: Plan) -> LawsReport:
    """The laws on two functions, whose form one call tells: the first case, framework and dtype in which they run."""
    raised, given = "", ""
    for index in range(FORMS):
        first = draw(index)
        for tensors in (first.tensors, "torch" in sys.modules):  # what names no module may take tensors all the same
            for dtype in plan.dtypes:
                operands, options = cast(first.operands, dtype), cast(first.options, dtype)
                try:
                    with warnings.catch_warnings(), np.errstate(all="ignore"):
                        warnings.simplefilter("ignore")
                        pair = of_functions(forward, backward, operands, options, tensors)
                        pair.run(operands, options)
                except BaseException as error:  # a candidate may raise anything
                    reraise_interrupt(error)
                    raised = raised or one_line(error)
                    given = given or ", ".join(f"{name} {np.shape(X)}" for name, X in operands.items())
                    continue
                return run(pair, draw, plan, list)
    return LawsReport((Row("runs", 0, FORMS),), reason=Finding("never_runs", numbers={"error": raised, "given": given}))


def check_candidate(candidate: Candidate, functions: tuple[Any, Any], plan: Plan, sizes: dict[str, int]) -> LawsReport:
    """A candidate for an op of the table, made of these functions, on the table's cases as it takes them; and its laws."""
    op = candidate.op
    if not op.differentiable:
        raise ValueError(f"backward: none came for {candidate.label}, expected one beside it")
    fixed = candidate.sizes | sizes

    def case_of(number: int) -> Case:
        draws = SeededDraws(np.random.default_rng([plan.seed, number]), fixed)
        return candidate.taken(candidate.row.draw(draws, number % 2 == 1))

    forward, backward = functions[0], functions[1] or backward_beside(functions[0])
    pair = replace(of_the_table(candidate.implementation, op), functions=(forward, backward) if backward else ())
    return _run_of_the_op(pair, candidate.implementation, op, case_of, plan, own=candidate.whole)


def check_implementation(
    implementation: Implementation, op: Op, *, cases: int = 20, seed: int = 0, own: bool = True
) -> LawsReport:
    """An implementation of an op of the table, on those of the table's cases whose options it takes.

    `own` adds the op's own laws, but for what the contract asks of the reference alone; without them the op is one like any
    other, which nothing is known of.
    """

    def case_of(number: int) -> Case:
        return draw_case(op, seed, number)

    plan = Plan(cases, seed, DTYPES, LAWS)
    return _run_of_the_op(of_the_table(implementation, op), implementation, op, case_of, plan, own)


def _run_of_the_op(
    pair: Pair, implementation: Implementation, op: Op, case_of: Callable[[int], Case], plan: Plan, own: bool
) -> LawsReport:
    """ValueError if no case asks only for what the implementation takes."""

    def draw(index: int) -> Drawn:
        for number in range(index, index + TRIES * CASES_APART, CASES_APART):
            try:
                case = case_of(number)
                check_offer(implementation.forward(op.name), case)
            except NotOffered:
                continue
            letters = _letters(op.name, case.operands)
            return Drawn(case.operands, case.options, tuple(case.upstream.values()), letters)
        raise ValueError(Finding("no_case", numbers={"op": op.name}).say())

    def of_the_op() -> list[Row]:
        laws = [law for law in LAWS_OF_OPS.get(op.name, ()) if law.__name__ not in STRICT | EDGES] if own else []
        return [_own_law(law, implementation, plan) for law in laws]

    draw(0)
    return run(pair, draw, plan, of_the_op)


def _letters(op: str, operands: dict[str, Array]) -> dict[str, int]:
    """The sizes of an op's letters, as its pattern names the axes."""
    sizes: dict[str, int] = {}
    for name, axes in PATTERNS[op].operands.items() if op in PATTERNS else ():
        letters = [axis for axis in axes.split() if axis != "..."]
        if name in operands and letters:
            sizes |= dict(zip(letters, operands[name].shape[-len(letters) :], strict=True))
            if "..." in axes:
                sizes["leading"] = int(np.prod(operands[name].shape[: -len(letters)]))
    return sizes


def _own_law(law: Any, implementation: Implementation, plan: Plan) -> Row:
    name, what = law.__name__.replace("_", " "), ""
    for dtype in plan.dtypes:
        draws = SeededDraws(np.random.default_rng([plan.seed, 0]))
        with np.errstate(all="ignore"):  # some laws feed NaN and infinity
            what = what or attempt(partial(law, implementation, dtype, draws))
    finding = Finding("law_broken", numbers={"law": name, "what": what}) if what else None
    return Row(name, len(plan.dtypes), len(plan.dtypes), finding)
