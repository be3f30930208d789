"""The entries: a function and its gradient, held against laws and against what its own forward says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import adapt
from equivalence_tests.cases import SeededDraws
from equivalence_tests.checking import EDGES, STRICT
from equivalence_tests.checks import attempt, draw_case, reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Implementation, NotOffered, check_offer, one_line
from equivalence_tests.laws import LAWS as LAWS_OF_OPS
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.laws_only.drawn import Drawn, asking, by_name, drawing
from equivalence_tests.laws_only.pair_laws import LAWS, batch, permutation
from equivalence_tests.laws_only.pairs import check_functions, floating, of_functions, of_the_table
from equivalence_tests.laws_only.report import LawsReport, Row
from equivalence_tests.laws_only.run import FIRST, Law, Plan, run
from equivalence_tests.laws_only.shapes import letter_of, read
from equivalence_tests.laws_only.trials import cast
from equivalence_tests.ops import Op

DTYPES = ("float64", "float32")
UPSTREAMS = 3  # for operands at hand
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
) -> LawsReport:
    """The laws that any differentiable function keeps, on `cases` drawn cases, every second one in float32.

    `backward` is of (dY, cache), and then the forward returns (Y, cache); or of (dY, *operands); or None for a torch
    function, which autograd differentiates. The operands come from one of

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
    asked = asked_laws(tuple(laws), shapes)
    if like is not None:
        candidate = adapt(forward, like, backward=backward)
        if not candidate.op.differentiable:
            raise ValueError(f"backward: none came for {candidate.label}, expected one beside it")
        return check_implementation(candidate.implementation, candidate.op, cases=cases, seed=seed)
    draw = drawing(read(shapes), seed) if shapes is not None else asking(inputs, forward, seed)
    check_functions(forward, backward, draw(0).tensors)
    return _begin_and_run(forward, backward, draw, Plan(cases, seed, DTYPES, LAWS, asked))


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


def asked_laws(laws: tuple[str, ...], shapes: str | None) -> list[tuple[str, Law]]:
    """The laws that were asked for by name. ValueError for one that does not exist, or that needs shapes."""
    found: list[tuple[str, Law]] = []
    for law in laws:
        name, _, letter = law.partition(" ")
        if name not in ("batch", "permutation") or (name == "permutation") != bool(letter):
            raise ValueError(f"laws: {law!r} came, expected 'batch' or 'permutation LETTER'")
        if shapes is None:
            raise ValueError(f"laws: {law!r} needs shapes=, which says what the axes are")
        spec = read(shapes)
        if name == "batch" and not spec.batched:
            raise ValueError(
                f"laws: 'batch' needs leading axes in shapes, as in '... {shapes.partition(':')[2].strip()}'"
            )
        found.append((law, partial(batch, spec) if not letter else partial(permutation, spec, letter_of(letter, spec))))
    return found


def _begin_and_run(forward: Any, backward: Any, draw: Callable[[int], Drawn], plan: Plan) -> LawsReport:
    """The laws on two functions, whose form one call tells: in the first dtype in which they can be called."""
    first, raised = draw(0), ""
    for tensors in (first.tensors, "torch" in sys.modules):  # what names no module may take tensors all the same
        for dtype in plan.dtypes:
            operands, options = cast(first.operands, dtype), cast(first.options, dtype)
            try:
                pair = of_functions(forward, backward, operands, options, tensors)
                pair.run(operands, options)
            except BaseException as error:  # a candidate may raise anything
                reraise_interrupt(error)
                raised = raised or one_line(error)
                continue
            return run(pair, draw, plan, [])
    return LawsReport((Row("runs", 1, 1, Finding("raises", numbers={"error": raised, "cases": 1, "of": 1})),))


def check_implementation(
    implementation: Implementation, op: Op, *, cases: int = 20, seed: int = 0, own: bool = True
) -> LawsReport:
    """An implementation of an op of the table, on those of the table's cases whose options it takes.

    `own` adds the op's own laws, but for what the contract asks of the reference alone; without them the op is one like any
    other, which nothing is known of.
    """

    def draw(index: int) -> Drawn:
        for number in count(index, CASES_APART):
            case = draw_case(op, seed, number)
            try:
                check_offer(implementation.forward(op.name), case)
            except NotOffered:
                continue
            break
        return Drawn(case.operands, case.options, tuple(case.upstream.values()), _letters(op.name, case.operands))

    laws = [law for law in LAWS_OF_OPS.get(op.name, ()) if law.__name__ not in STRICT | EDGES] if own else []
    rows = [_own_law(law, implementation, seed) for law in laws]
    return run(of_the_table(implementation, op), draw, Plan(cases, seed, DTYPES, LAWS), rows)


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


def _own_law(law: Any, implementation: Implementation, seed: int) -> Row:
    name, what = law.__name__.replace("_", " "), ""
    for dtype in DTYPES:
        draws = SeededDraws(np.random.default_rng([seed, 0]))
        with np.errstate(all="ignore"):  # some laws feed NaN and infinity
            what = what or attempt(partial(law, implementation, dtype, draws))
    finding = Finding("law_broken", numbers={"law": name, "what": what}) if what else None
    return Row(name, len(DTYPES), len(DTYPES), finding)
