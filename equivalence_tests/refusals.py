"""Bad input, and how every implementation must refuse it: one line of TypeError or ValueError that names the argument."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests import model_refusals, small_models
from equivalence_tests._refusal import Arguments, Maker, Refusal, made
from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.implementations import Implementation, parameters
from equivalence_tests.laws.patterns import PATTERNS, SIZES, case_of, shape_of
from equivalence_tests.ops import OPS

LEAD = (9,)  # the leading axes of a valid call; no letter has this size


def violation(refusal: Refusal, implementation: Implementation, op: str, dtype: str) -> str:
    """Nothing if the implementation refuses as it must, or if it does not take what the call needs; else what it did."""
    if refusal.pairs_only and not implementation.pairs:
        return ""
    function = implementation.forward(op)
    operands, options = _split(op, refusal.build(Maker(implementation, dtype)))
    if any(name not in inspect.signature(function).parameters for name in options):
        return ""
    return _refused(refusal.name, refusal.argument, refusal.error, lambda: function(*operands, **options))


def _refused(what: str, argument: str, error: type[Exception], call: Callable[[], Any]) -> str:
    """Nothing if the call raises that error, in one line that names the argument; else what it did."""
    try:
        call()
    except error as raised:
        message = str(raised)
        if "\n" in message:
            return f"{what}: refused in more than one line"
        named = re.search(rf"\b{argument}\b", message)
        return "" if named else f"{what}: refused without naming {argument}: {message}"
    except Exception as raised:
        told = str(raised).splitlines()[0] if str(raised) else ""
        return f"{what}: {type(raised).__name__} instead of {error.__name__}: {told}"
    return f"{what}: accepted, expected a {error.__name__} that names {argument}"


def upstream_violation(implementation: Implementation, op: str, dtype: str) -> str:
    """Nothing if a NumPy pair's backward refuses every wrong upstream gradient; autograd's is not the twin's to check."""
    if not implementation.pairs:
        return ""
    make = Maker(implementation, dtype)
    calls = [_valid(op)]
    if op == "dropout":
        calls.append({**calls[0], "keep": None, "p": 0.0})
    for arguments in calls:
        operands, options = _split(op, made(make, arguments))
        if not options.keys() <= (parameters(implementation.forward(op)) or options.keys()):
            continue
        _, cache = implementation.forward(op)(*operands, **options)
        for what, name, error, upstream in _wrong_upstreams(op, make):
            text = _refused(what, name, error, partial(implementation.backward(op), upstream, cache))
            if text:
                return f"{text}{' (forward without keep)' if options.get('keep', 0) is None else ''}"
    return ""


def _wrong_upstreams(op: str, make: Maker) -> list[tuple[str, str, type[Exception], Any]]:
    """What is wrong, the gradient at fault, the error, and the upstream gradient (a tuple for several outputs)."""
    if OPS[op].scalar:
        return [("dloss as a string", "dloss", TypeError, "1"), ("dloss = nan", "dloss", ValueError, math.nan)]
    right = _case(op).upstream
    wrong: list[tuple[str, str, type[Exception], Any]] = []

    def add(what: str, name: str, error: type[Exception], value: Any) -> None:
        whole = {other: make(array) for other, array in right.items()} | {name: value}
        wrong.append((f"{name} {what}", name, error, tuple(whole.values()) if len(whole) > 1 else value))

    for name, array in right.items():
        shape = array.shape
        shapes = [tuple(size + (i == axis) for i, size in enumerate(shape)) for axis in range(len(shape))]
        shapes += [tuple(1 if i == axis else size for i, size in enumerate(shape)) for axis in range(len(shape))]
        for other in (*shapes, shape[1:], (1, *shape)):
            add(f"of shape {other}", name, ValueError, make(np.ones(other)))
        for dtype in (make.other_dtype, "float16", "int64"):
            add(f"of {dtype}", name, TypeError, make(array, dtype))
        add("as a list", name, TypeError, array.tolist())
    return wrong


def right_arguments(op: str, make: Maker) -> tuple[list[Any], dict[str, Any]]:
    """Operands and options of a call that is right: every refusal is one change away from it."""
    return _split(op, made(make, _valid(op)))


def _split(op: str, arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    names = small_models.OPERANDS[op] if OPS[op].model else tuple(PATTERNS[op].operands)
    operands = [arguments[name] for name in names if name in arguments]
    return operands, {name: value for name, value in arguments.items() if name not in names}


def _valid(op: str) -> dict[str, Any]:
    """The arguments of a call that is right, by name."""
    if OPS[op].model:
        return model_refusals.valid(op)
    case = _case(op)
    return {**case.operands, **case.options}


def _case(op: str) -> Case:
    if OPS[op].model:
        return model_refusals.valid_case(op)
    return case_of(op, SeededDraws(np.random.default_rng(0)), "float64", LEAD)


def _with(op: str, name: str, value: Any) -> Callable[[Maker], Arguments]:
    """A right call but for one argument; a function of the maker makes what is not the implementation's own array."""

    def build(make: Maker) -> Arguments:
        own = made(make, _valid(op))
        changed = value(make) if callable(value) else value
        return own | {name: make(changed) if isinstance(changed, np.ndarray) and not callable(value) else changed}

    return build


def _operands(op: str) -> list[Refusal]:
    """Operands of another type, dtype, rank or size, and empty axes."""
    pattern, valid = PATTERNS[op], _valid(op)
    refusals: list[Refusal] = []
    floating = [name for name in pattern.operands if name not in pattern.integers]

    def refuse(what: str, name: str, error: type[Exception], value: Any) -> None:
        refusals.append(Refusal(f"{name} {what}", name, error, _with(op, name, value)))

    for name, letters in pattern.operands.items():
        array = valid[name]
        refuse("as a list", name, TypeError, array.tolist())
        refuse("of the other framework", name, TypeError, lambda make, array=array: make.foreign(array))
        if name not in pattern.optional:
            refuse("None", name, TypeError, None)
        if name in pattern.integers:
            refuse("of floats", name, TypeError, array.astype(np.float64))
            refuse("of booleans", name, TypeError, np.zeros(array.shape, bool))
            refuse("negative", name, ValueError, np.where(np.arange(array.size).reshape(array.shape) == 1, -1, array))
            refuse("out of range", name, ValueError, np.full_like(array, SIZES[pattern.integers[name]]))
        else:
            refuse("of integers", name, TypeError, np.ones(array.shape, np.int64))
            refuse("of booleans", name, TypeError, np.ones(array.shape, bool))
        if name in floating[1:]:
            refuse("of another dtype", name, TypeError, lambda make, array=array: make(array, make.other_dtype))
        refusals += _shapes(op, name, letters)
    half = Refusal("operands of float16", floating[0], TypeError, lambda make: _half(op, make), pairs_only=True)
    return [*refusals, half]


def _half(op: str, make: Maker) -> Arguments:
    """A right call in float16: NumPy has no half precision that accumulates as it should."""
    own = made(make, _valid(op))
    floating = {name: x for name, x in _valid(op).items() if isinstance(x, np.ndarray) and x.dtype == np.float64}
    return own | {name: make(array, "float16") for name, array in floating.items()}


def _shapes(op: str, name: str, letters: str) -> list[Refusal]:
    pattern, valid = PATTERNS[op], _valid(op)
    refusals: list[Refusal] = []

    def refuse(what: str, shape: tuple[int, ...]) -> None:
        bad = np.zeros(shape, valid[name].dtype)
        refusals.append(Refusal(f"{name} {what}", name, ValueError, _with(op, name, bad)))

    shape = shape_of(letters, LEAD)
    fixed = [letter for letter in letters.split() if letter != "..."]
    if fixed:
        refuse("with an axis too few", shape[len(shape) - len(fixed) + 1 :])
        if "..." not in letters:
            refuse("with an axis too many", (1, *shape))
    earlier = " ".join(list(pattern.operands.values())[: list(pattern.operands).index(name)]).split()
    bound = letters if name != "ids" else ""  # ids may have any shape
    for axis, letter in enumerate(bound.split()):
        if letter in earlier or letters.split().count(letter) > 1:
            refuse(f"with another {letter} on axis {axis}", tuple(size + (axis == i) for i, size in enumerate(shape)))
        elif letter != "...":
            refusals.append(Refusal(f"{name} with {letter} = 0", name, ValueError, _emptied(op, letter)))
    return refusals


def _emptied(op: str, letter: str) -> Callable[[Maker], Arguments]:
    """One letter 0 in every operand that has it; ids, which would be out of any range, are empty."""
    pattern = PATTERNS[op]

    def build(make: Maker) -> Arguments:
        arguments = _valid(op)
        for name, letters in pattern.operands.items():
            if name not in pattern.integers:
                arguments[name] = np.zeros(shape_of(letters, LEAD, SIZES | {letter: 0}))
            elif pattern.integers[name] == letter and op == "embedding":
                arguments[name] = np.zeros(0, np.int64)
        return made(make, arguments)

    return build


def _attention(op: str) -> list[Refusal]:
    """What an attention's keywords may not be."""
    weights = shape_of(PATTERNS[op].options["mask"], LEAD)
    n, m = weights[-2:]
    yes = np.ones(weights, bool)
    zeros = np.zeros(weights)
    bad: list[tuple[str, str, type[Exception], Any]] = [
        ("of integers", "mask", TypeError, yes.astype(np.int64)),
        ("of floats", "mask", TypeError, zeros),
        ("as a list", "mask", TypeError, yes.tolist()),
        ("of the other framework", "mask", TypeError, lambda make: make.foreign(yes)),
        ("with a key axis of 1", "mask", ValueError, yes[..., :1]),
        ("with another m", "mask", ValueError, np.ones((n, m + 1), bool)),
        ("with another n", "mask", ValueError, np.ones((n + 1, m), bool)),
        ("with an axis too many", "mask", ValueError, yes[None]),
        ("without axes", "mask", ValueError, np.ones((), bool)),
        ("of integers", "bias", TypeError, yes.astype(np.int64)),
        ("of booleans", "bias", TypeError, yes),
        ("as a list", "bias", TypeError, zeros.tolist()),
        ("of another dtype", "bias", TypeError, lambda make: make(zeros, make.other_dtype)),
        ("of the other framework", "bias", TypeError, lambda make: make.foreign(zeros)),
        ("with a key axis of 1", "bias", ValueError, zeros[..., :1]),
        ("with another m", "bias", ValueError, np.zeros((n, m + 1))),
        ("with another n", "bias", ValueError, np.zeros((n + 1, m))),
        ("with an axis too many", "bias", ValueError, zeros[None]),
        ("of integers", "keep", TypeError, yes.astype(np.int64)),
        ("as a list", "keep", TypeError, yes.tolist()),
        ("that would have to be broadcast", "keep", ValueError, yes[0]),
        ("with another n", "keep", ValueError, np.ones((*weights[:-2], n + 1, m), bool)),
        ("without keep", "p", ValueError, 0.3),
        ("as a string", "scale", TypeError, "1"),
        ("not finite", "scale", ValueError, math.nan),
        ("as a float", "query_offset", TypeError, 0.5),
    ]
    refusals = [Refusal(f"{name} {what}", name, error, _with(op, name, x)) for what, name, error, x in bad]
    return refusals + _chances(op, yes)


def _chances(op: str, keep: Array) -> list[Refusal]:
    """A p that is no probability, beside a mask of what is kept."""

    def build(p: Any) -> Callable[[Maker], Arguments]:
        return lambda make: made(make, _valid(op) | {"keep": keep, "p": p})

    bad: list[tuple[Any, type[Exception]]] = [(-0.1, ValueError), (1.1, ValueError), (math.nan, ValueError)]
    bad += [("0.3", TypeError), (None, TypeError)]
    return [Refusal(f"p = {p!r}", "p", error, build(p)) for p, error in bad]


def _heads() -> list[Refusal]:
    op = "multi_head_attention"
    bad: list[tuple[Any, type[Exception]]] = [(4, ValueError), (0, ValueError), (-3, ValueError)]
    bad += [(3.0, TypeError), ("3", TypeError), (True, TypeError)]
    return [Refusal(f"num_heads = {x!r}", "num_heads", error, _with(op, "num_heads", x)) for x, error in bad]


def _own() -> dict[str, list[Refusal]]:
    """What only one op can be told wrong."""
    keep = np.ones(LEAD, bool)
    ignored = np.full(LEAD, -100)
    negative = np.where(np.arange(LEAD[0]) == 1, -1, 0)
    no_rows = {"logits": np.zeros((0, SIZES["v"])), "targets": np.zeros(0, np.int64)}
    refusals = {
        op: _attention(op) for op in ("attention", "attention_stages", "self_attention", "multi_head_attention")
    }
    refusals["multi_head_attention"] += _heads()
    for op in ("softmax", "log_softmax"):
        refusals[op] = [Refusal(f"axis = {x}", "axis", ValueError, _with(op, "axis", x)) for x in (2, -3)]
    refusals["layer_norm"] = [
        Refusal("epsilon negative", "epsilon", ValueError, _with("layer_norm", "epsilon", -1e-5)),
        Refusal("epsilon as a string", "epsilon", TypeError, _with("layer_norm", "epsilon", "1e-5")),
    ]
    refusals["dropout"] = [
        Refusal("p without keep", "p", ValueError, _with("dropout", "keep", None)),
        Refusal("keep of another shape", "keep", ValueError, _with("dropout", "keep", np.ones((LEAD[0] + 1,), bool))),
        Refusal("keep of integers", "keep", TypeError, _with("dropout", "keep", keep.astype(np.int64))),
        Refusal("keep as a list", "keep", TypeError, _with("dropout", "keep", keep.tolist())),
        Refusal(
            "keep of the other framework", "keep", TypeError, _with("dropout", "keep", lambda make: make.foreign(keep))
        ),
        *_chances("dropout", keep),
    ]
    refusals["cross_entropy"] = [
        Refusal(
            "targets all ignored",
            "targets",
            ValueError,
            lambda make: made(make, _valid("cross_entropy") | {"targets": ignored, "ignore_index": -100}),
        ),
        Refusal(
            "targets of -1 beside an ignore_index of -100",
            "targets",
            ValueError,
            lambda make: made(make, _valid("cross_entropy") | {"targets": negative, "ignore_index": -100}),
        ),
        Refusal("targets without elements", "targets", ValueError, lambda make: made(make, no_rows)),
        *(
            Refusal(f"ignore_index = {x!r}", "ignore_index", TypeError, _with("cross_entropy", "ignore_index", x))
            for x in ("x", 1.5, True)
        ),
    ]
    return refusals


_OWN = _own()
REFUSALS: dict[str, tuple[Refusal, ...]] = {
    **{op: (*_operands(op), *_OWN.get(op, [])) for op in PATTERNS},
    **model_refusals.REFUSALS,
}
