"""The inputs of every op, drawn so that a mistake has nowhere to hide.

Sizes above 1 are pairwise different, so that a swapped axis cannot pass, and 1 is drawn often. The upstream gradient is
random and dense. Rows differ in magnitude, ids repeat, some targets are ignored, some rows are masked, some operands are
transposed, strided, reversed or broadcast views. A case is drawn from a `Draws`: from a seeded generator, or from
hypothesis, which then shrinks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from equivalence_tests.arithmetic import Array, Precision, round_to

T = TypeVar("T")
LAYOUTS = ("contiguous", "transposed", "strided", "reversed", "broadcast")


@dataclass(frozen=True)
class Case:
    """One input of an op: operands in the order of its signature, keyword options, the upstream gradient by name.

    Floating arrays are float64 and are rounded to the precision under test. `layouts` says how each operand lies in
    memory. `hard` marks huge logits, tiny variances, large offsets and rows of very different magnitude. An
    implementation is given read-only arrays unless the case is `writeable`.
    """

    operands: dict[str, Array]
    options: dict[str, Any]
    upstream: dict[str, Array]
    hard: bool = False
    layouts: dict[str, str] = field(default_factory=dict)
    writeable: bool = False

    def rounded(self, precision: Precision) -> Case:
        """The same case with every floating array rounded to the format: what an implementation is given.

        A finite number beyond the format's largest becomes that one: float64's most negative number is drawn, to be each
        format's.
        """

        def rounding(values: dict[str, Any]) -> dict[str, Any]:
            return {
                name: round_to(within(v, precision), precision) if is_floating(v) else v for name, v in values.items()
            }

        options, upstream = rounding(self.options), rounding(self.upstream)
        return Case(rounding(self.operands), options, upstream, self.hard, self.layouts)


def within(X: Array, precision: Precision) -> Array:
    """Finite numbers no larger than the format's largest."""
    return np.asarray(np.where(np.isinf(X), X, np.clip(X, -precision.largest, precision.largest)))


class Draws(Protocol):
    """Where choices come from. Whoever shrinks, shrinks towards the first option. Sizes in `fixed` are not drawn."""

    rng: np.random.Generator
    fixed: dict[str, int]

    def choice(self, options: Sequence[T]) -> T: ...

    def normal(self, shape: tuple[int, ...]) -> Array: ...


class SeededDraws:
    """Choices and numbers from a NumPy generator."""

    def __init__(self, rng: np.random.Generator, fixed: dict[str, int] | None = None) -> None:
        self.rng, self.fixed = rng, fixed or {}

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self.rng.standard_normal(shape)


def is_floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def sizes_of(draws: Draws, names: str, least: dict[str, int] | None = None) -> dict[str, int]:
    """A size for every name: 1 often, otherwise pairwise different numbers from 2 to 11.

    One case in ten is square, all sizes being one (what guesses an axis by its size, or relies on a shape error, shows
    there alone), and one in ten has one long axis (a second tile, a truncated loop).
    """
    if not names.split():
        return {}
    kind = draws.choice(("different",) * 8 + ("square", "long"))
    if kind == "square":
        return dict.fromkeys(names.split(), draws.choice((2, 3))) | _fixed(draws, names)
    sizes: dict[str, int] = {}
    for name in names.split():
        low = (least or {}).get(name, 1)
        free = [size for size in range(max(low, 2), 12) if size not in sizes.values()]
        sizes[name] = draws.choice([1, 1, *free[:6]] if low == 1 else free[:6])
    if kind == "long":
        sizes[draws.choice(tuple(sizes))] = draws.choice((17, 35))
    return sizes | _fixed(draws, names)


def _fixed(draws: Draws, names: str) -> dict[str, int]:
    """The sizes that are not to be drawn. V is as wide as K unless something else is said."""
    fixed = {"e": draws.fixed["c"], **draws.fixed} if "c" in draws.fixed else draws.fixed
    return {name: size for name, size in fixed.items() if name in names.split()}


def leading(draws: Draws, sizes: dict[str, int], axes: str = "B H") -> tuple[int, ...]:
    """No, one or two leading axes; so many if their number, `lead`, is fixed as the sizes are."""
    names = axes.split()
    count = draws.fixed["lead"] if "lead" in draws.fixed else draws.choice(range(len(names) + 1))
    return tuple(sizes[name] for name in names[:count])


def values_of(draws: Draws, shape: tuple[int, ...], hard: bool, largest: float = 8.0) -> Array:
    """Normal numbers; in a hard case rows of very different magnitude, up to `largest` times as large, and exact zeros."""
    X = draws.normal(shape)
    if hard and shape:
        X = X * np.exp(draws.rng.uniform(np.log(1e-3), np.log(largest), (*shape[:-1], 1)))
        X = np.where(draws.rng.random(shape) < 0.05, 0.0, X)
    return X


def laid_out(
    draws: Draws, operands: dict[str, Array], options: dict[str, Any], upstream: dict[str, Array], hard: bool
) -> Case:
    """Choose how each array lies in memory (a broadcast one repeats its first row), and the upstream gradient's size."""
    magnitude = draws.choice((1.0,) * 6 + (2.0**8, 2.0**-12)) if hard else 1.0
    upstream = {name: np.asarray(value * magnitude) for name, value in upstream.items()}
    layouts = {}
    for values in (operands, options, upstream):
        for name, array in values.items():
            if not isinstance(array, np.ndarray):
                continue
            layout = draws.choice(LAYOUTS) if array.ndim and draws.choice((False, True)) else "contiguous"
            if layout == "broadcast":
                if array.ndim < 2 or not is_floating(array) or name == "bias" or "." in name:
                    layout = "strided"
                else:
                    values[name] = np.broadcast_to(array[:1], array.shape).copy()
            layouts[name] = layout
    return Case(operands, options, upstream, hard, layouts)


def softmax(draws: Draws, hard: bool) -> Case:
    return _softmax(draws, hard, "dA")


def log_softmax(draws: Draws, hard: bool) -> Case:
    return _softmax(draws, hard, "dY")


def _softmax(draws: Draws, hard: bool, upstream: str) -> Case:
    sizes = sizes_of(draws, "m B H", None if hard else {"m": 2})
    shape = (*leading(draws, sizes), sizes["m"])
    X = values_of(draws, shape, hard, 200.0)
    if hard:
        X = far_apart(draws, X)
    axis = draws.choice((-1, *range(-len(shape), len(shape)))) if hard else -1
    if axis != -1 and draws.choice((True, False)):
        X = np.moveaxis(X, -1, axis)
    options = {} if axis == -1 and draws.choice((True, False)) else {"axis": axis}
    return laid_out(draws, {"X": X}, options, {upstream: draws.normal(X.shape)}, hard)


def far_apart(draws: Draws, X: Array) -> Array:
    """Rows far apart, so that one maximum for all rows shows: below any finite number that a maximum may start at, and so
    far from 0 that float32 keeps nothing of their differences, and nothing of a logarithm beside them.
    """
    offsets, shares = [0.0, 1000.0, -1000.0, -2e6, 1e4, 1e8], [0.4, 0.15, 0.15, 0.15, 0.05, 0.1]
    return np.asarray(X + draws.rng.choice(offsets, (*X.shape[:-1], 1), p=shares))


def layer_norm(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "d B n", None if hard else {"d": 3})
    shape = (*leading(draws, sizes, "B n"), sizes["d"])
    X = values_of(draws, shape, hard)
    if hard:  # tiny variances, constant rows and large offsets
        X = X * draws.rng.choice([1.0, 1e-3, 0.0], (*shape[:-1], 1), p=[0.6, 0.3, 0.1])
        X = X + draws.rng.choice([0.0, 3.0, -300.0, 4e4], (*shape[:-1], 1), p=[0.6, 0.2, 0.1, 0.1])
    d = sizes["d"]
    operands = {"X": X, "scale": 1.0 + draws.normal((d,)), "shift": draws.normal((d,))}
    epsilon = draws.choice((None, 1e-5, 1e-2, np.float64(0.5)))  # a NumPy number must not turn float32 into float64
    options = {} if epsilon is None else {"epsilon": epsilon}
    return laid_out(draws, operands, options, {"dY": draws.normal(shape)}, hard)


def linear(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "d k n B")
    lead = leading(draws, sizes, "n B")
    d, k = sizes["d"], sizes["k"]
    if d == 1 or k == 1 or not draws.choice((False, True)) or "k" in draws.fixed:
        operands = {"X": values_of(draws, (*lead, d), hard, 1e3), "weight": values_of(draws, (k, d), hard)}
    else:  # a square weight: a missing transposition keeps its shape
        k = d
        operands = {"X": values_of(draws, (*lead, d), hard, 1e3), "weight": values_of(draws, (d, d), hard)}
    if draws.choice((True, False)):
        operands["bias"] = draws.normal((k,)) * draws.choice((1.0, 1.0, 1.0, 0.0))
    return laid_out(draws, operands, {}, {"dY": values_of(draws, (*lead, k), hard)}, hard)


def elementwise(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "d n B")
    shape = (*leading(draws, sizes, "n B"), sizes["d"])
    X = values_of(draws, shape, hard, 30.0) * (1.0 if hard else 0.5)
    return laid_out(draws, {"X": X}, {}, {"dY": values_of(draws, shape, hard)}, hard)


def embedding(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "n v d B")
    shape = leading(draws, sizes, "n B") or (sizes["n"],)
    ids = draws.rng.integers(0, sizes["v"], shape).astype(draws.choice((np.int64, np.int32, np.uint8)))
    if ids.size > 2 and draws.choice((True, False)):  # row 0 is a row like any other; ids repeat, within a row too
        ids.flat[:2] = draws.choice((0, sizes["v"] - 1))
    operands = {"ids": ids, "weight": values_of(draws, (sizes["v"], sizes["d"]), hard)}
    return laid_out(draws, operands, {}, {"dY": values_of(draws, (*shape, sizes["d"]), hard)}, hard)


def dropout(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "d n B")
    shape = (*leading(draws, sizes, "n B"), sizes["d"])
    options = _dropping(draws, shape)
    options.setdefault("keep", None)
    options.setdefault("p", 0.0)
    X = np.where(draws.rng.random(shape) < 0.2, 0.0, values_of(draws, shape, hard))  # a kept 0 is not a dropped one
    return laid_out(draws, {"X": X}, options, {"dY": draws.normal(shape)}, hard)


def _dropping(draws: Draws, shape: tuple[int, ...]) -> dict[str, Any]:
    """Options keep and p, or none. p is never 1/2, where 1/p and 1/(1 - p) are one number."""
    p = draws.choice((None, 0.1, 0.3, np.float64(0.8), 0.0, 1.0))
    if p is None:
        return {}
    dropped = 0.4 if p in (0.0, 1.0) else p  # p says what the kept ones are divided by, keep what is kept
    return {"keep": draws.rng.random(shape) >= dropped, "p": p}


def _attending(draws: Draws, weights: tuple[int, ...], hard: bool) -> dict[str, Any]:
    """Options of an attention with weights (..., n, m): mask, bias, causal with an offset, scale, dropout."""
    options: dict[str, Any] = {}
    n, m = weights[-2:]

    def partial() -> tuple[int, ...]:  # a shape that broadcasts to the weights; the key axis stays
        shape = [size if draws.choice((True, True, False)) else 1 for size in weights[:-1]] + [m]
        return tuple(shape[draws.choice(range(len(shape))) :])

    if draws.choice((False, True)):
        if len(weights) > 3 and draws.choice((False, True)):  # padding: a length for every sample, for all of its heads
            mask = np.arange(m) < draws.rng.integers(1, m + 1, (*weights[:-3], 1, 1, 1))
        else:
            mask = draws.rng.random(partial()) < draws.choice((0.7, 0.4))
        if mask.ndim > 1 and draws.choice((False, True)):
            mask[..., draws.choice(range(mask.shape[-2])), :] = False  # a row with nothing to attend to
        options["mask"] = mask
    if draws.choice((False, True)):
        bias = values_of(draws, partial(), hard)
        bias = np.where(draws.rng.random(bias.shape) < 0.2, -np.inf, bias) if draws.choice((0, 1)) else bias
        options["bias"] = _filled(draws, bias) if hard and draws.choice((False, True)) else bias
    if draws.choice((False, True)):
        options["causal"] = True
        options["query_offset"] = draws.choice((0, m - n, 1, -1, 2, 40, np.int64(1)))
    if draws.choice((False, True)):
        options["scale"] = draws.choice((1.0, np.float64(0.3), -0.7, 0.0))
    if draws.choice((False, True)):
        options |= _dropping(draws, weights)
    return options


FILLS = (-1e4, -1e9, float(np.finfo(np.float64).min))  # the last one is that of the dtype, once it is rounded


def _filled(draws: Draws, bias: Array) -> Array:
    """A large finite number in place of -inf, as many write it: in whole rows, or in parts of rows."""
    rows = draws.rng.random((*bias.shape[:-1], 1)) < draws.choice((0.4, 1.0))
    parts = draws.rng.random(bias.shape) < draws.choice((1.0, 1.0, 0.6))
    return np.where(rows & parts, draws.choice(FILLS), bias)


def attention(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "n m c e B H", None if hard else {"m": 2})
    lead = leading(draws, sizes)
    n, m, c, e = (sizes[name] for name in "nmce")
    e = (
        e if "e" in draws.fixed else draws.choice((e, e, c))
    )  # fused kernels have a path of their own where V is as wide as K
    largest = draws.choice((4.0, 30.0))  # scores in the hundreds: a softmax that is a step
    operands = {
        "Q": values_of(draws, (*lead, n, c), hard, largest),
        "K": values_of(draws, (*lead, m, c), hard, largest),
        "V": values_of(draws, (*lead, m, e), hard),
    }
    if hard and draws.choice((False, True)):
        operands["K"] = operands["K"] + 10.0 * draws.normal((c,))  # one vector added to all keys
    if hard and draws.choice((False, False, False, True)):
        operands |= _equal_scores(draws, operands["Q"], operands["K"])
    options = _attending(draws, (*lead, n, m), hard)
    if hard and {"mask", "causal"} & options.keys() and draws.choice((False, True)):
        # One key far above the others: where it is masked, exp(its score - the row's log-sum-exp) overflows in any dtype.
        operands["K"][..., draws.choice(range(m)), :] *= 2.0**9
    return laid_out(draws, operands, options, {"dC": draws.normal((*lead, n, e))}, hard)


def _equal_scores(draws: Draws, Q: Array, K: Array) -> dict[str, Array]:
    """Rows of equal huge scores without a rounding: only the sum of the exponentials is left."""
    size = draws.choice((2.0**4, 2.0**7, 2.0**10))  # scores of 256 c to 2^20 c before they are scaled
    rows = draws.rng.choice([1.0, -1.0, 0.5], (*Q.shape[:-1], 1))
    return {"Q": np.broadcast_to(rows * size, Q.shape).copy(), "K": np.full(K.shape, size)}


def attention_stages(draws: Draws, hard: bool) -> Case:
    case = attention(draws, hard)
    return Case({**case.operands, "dC": case.upstream["dC"]}, case.options, {}, hard, case.layouts)


def simple_attention(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "n d B H", None if hard else {"n": 2})
    shape = (*leading(draws, sizes), sizes["n"], sizes["d"])
    X = values_of(draws, shape, hard, 4.0) * 0.7
    return laid_out(draws, {"X": X}, {}, {"dC": draws.normal(shape)}, hard)


def self_attention(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "n d c e B H", None if hard else {"n": 2})
    lead = leading(draws, sizes)
    n, d, c, e = (sizes[name] for name in "ndce")
    e = e if "e" in draws.fixed else draws.choice((e, e, c))
    operands = {
        "X": values_of(draws, (*lead, n, d), hard, 4.0),
        "Wq": draws.normal((d, c)),
        "Wk": draws.normal((d, c)),
        "Wv": draws.normal((d, e)),
    }
    operands = {name: array / np.sqrt(d) if name != "X" else array for name, array in operands.items()}
    options = _attending(draws, (*lead, n, n), hard)
    return laid_out(draws, operands, options, {"dC": draws.normal((*lead, n, e))}, hard)


def multi_head_attention(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "n H c d k B A", None if hard else {"n": 2})
    lead = leading(draws, sizes, "B A")
    n, H, c, d, k = (sizes[name] for name in "nHcdk")
    operands = {
        "X": values_of(draws, (*lead, n, d), hard, 4.0),
        "Wq": draws.normal((d, H * c)) / np.sqrt(d),
        "Wk": draws.normal((d, H * c)) / np.sqrt(d),
        "Wv": draws.normal((d, H * c)) / np.sqrt(d),
        "Wo": draws.normal((H * c, k)) / np.sqrt(H * c),
    }
    options = {"num_heads": H, **_attending(draws, (*lead, H, n, n), hard)}
    return laid_out(draws, operands, options, {"dY": draws.normal((*lead, n, k))}, hard)


def cross_entropy(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "v n B", None if hard else {"v": 2})
    shape = leading(draws, sizes, "n B")
    v = sizes["v"]
    logits = values_of(draws, (*shape, v), hard, 300.0)
    if hard:
        logits = far_apart(draws, logits)
    targets = draws.rng.integers(0, v, shape)
    options: dict[str, Any] = {}
    if draws.choice((False, True)):
        ignored = draws.choice((-100, -1, v + 1, *((0,) if v > 1 else ())))  # 0: a class that exists
        targets = np.where(draws.rng.random(shape) < 0.4, ignored, targets)
        if bool((targets == ignored).all()):  # at least one counts
            targets = np.full(shape, v - 1)
        options["ignore_index"] = ignored
    if hard and draws.choice((False, True)):  # classes that a row rules out: never its target, and never all
        out = (draws.rng.random(logits.shape) < 0.3) & (np.clip(targets, 0, v - 1)[..., None] != np.arange(v))
        logits = np.where(out, -np.inf, logits)
    targets = np.asarray(targets, draws.choice((np.int64, np.int32)))
    upstream = {"dloss": np.asarray(draws.choice((1.0, -1.7, 0.3, 0.0, 4096.0)))}
    return laid_out(draws, {"logits": logits, "targets": targets}, options, upstream, hard)


def rnn(draws: Draws, hard: bool) -> Case:
    sizes = sizes_of(draws, "n d k B A")
    lead = leading(draws, sizes, "B A")
    n, d, k = (sizes[name] for name in "ndk")
    gain = draws.choice((1.0, 2.0)) if hard else draws.choice((0.3, 0.6))
    operands = {
        "X": values_of(draws, (*lead, n, d), hard, 4.0),
        "W_ih": gain * draws.normal((k, d)) / np.sqrt(d),
        "W_hh": gain * draws.normal((k, k)) / np.sqrt(k),
        "b_ih": gain * draws.normal((k,)),
        "b_hh": gain * draws.normal((k,)),
    }
    if draws.choice((True, False)):
        operands["h0"] = draws.normal((*lead, k))
    upstream = {"dH": draws.normal((*lead, n, k)), "dh_last": draws.normal((*lead, k))}
    return laid_out(draws, operands, {}, upstream, hard)
