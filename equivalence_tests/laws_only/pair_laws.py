"""The laws that any pure, differentiable function keeps, whatever it computes. Each takes a trial and returns a finding,
nothing, or UNJUDGED where it had nothing to hold on to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Array
from equivalence_tests.cases import SeededDraws
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import lay_out
from equivalence_tests.laws_only.origin import origin_of
from equivalence_tests.laws_only.shapes import Shapes
from equivalence_tests.laws_only.slopes import Slopes
from equivalence_tests.laws_only.terms import unsummed
from equivalence_tests.laws_only.trials import Answer, Trial, arrays_of, cast, largest
from equivalence_tests.misconduct import Misconduct

UNJUDGED = "not judged"
Verdict = Finding | str | None
LAYOUTS = ("transposed", "strided", "reversed")


def conduct(rule: str) -> Finding:
    """A rule of conduct that is broken, in the words that a check against the table has for it."""
    broken = Misconduct(rule)
    return Finding("conduct", numbers={"what": broken.say(), "what_es": broken.say("es")})


def output_names(trial: Trial) -> list[str]:
    return [f"Y[{i}]" for i in range(len(trial.upstream))] if trial.many else ["Y"]


def gradient_names(trial: Trial) -> list[str]:
    return [f"d{name}" for name in trial.names]


def named(trial: Trial, answer: Answer) -> dict[str, Any]:
    """Outputs and gradients by name."""
    names = [*output_names(trial), *gradient_names(trial)]
    return dict(zip(names, (*answer.outputs, *answer.gradients), strict=True))


def allowed(trial: Trial) -> dict[str, float]:
    outputs, gradients = trial.allowed
    return dict(zip([*output_names(trial), *gradient_names(trial)], [*outputs, *gradients], strict=True))


def shape(trial: Trial) -> Verdict:
    """As many gradients as operands of floating-point numbers, each of its operand's shape."""
    names, gradients = gradient_names(trial), trial.right.gradients
    for name, gradient in zip(names, gradients, strict=False):
        expected = trial.operands[name[1:]].shape
        if not hasattr(gradient, "dtype"):
            if gradient is None:
                return Finding("missing", name)
            return Finding(
                "wrong_shape", name, numbers={"got": f"of a {type(gradient).__name__}", "expected": expected}
            )
        if np.shape(gradient) != expected:
            return Finding("wrong_shape", name, numbers={"got": np.shape(gradient), "expected": expected})
    if len(gradients) < len(names):
        return Finding("missing", names[len(gradients)])
    if len(gradients) > len(names):
        return Finding("too_many", numbers={"got": len(gradients), "expected": len(names), "names": ", ".join(names)})
    return None


def dtype(trial: Trial) -> Verdict:
    """dtype out = dtype in."""
    for name, value in named(trial, trial.right).items():
        if type(value) is float and name in output_names(trial):  # a loss as a Python float has no dtype
            continue
        got = str(getattr(value, "dtype", f"a Python {type(value).__name__}"))
        if got != trial.dtype:
            return Finding("wrong_dtype", name, numbers={"got": got, "expected": trial.dtype})
    return None


def finite(trial: Trial) -> Verdict:
    """Finite operands, finite answers."""
    for name, value in named(trial, trial.right).items():
        bad = ~np.isfinite(np.asarray(value))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return Finding("not_finite", name, numbers={"got": str(np.asarray(value)[at]), "index": _index(at)})
    return None


def arises(trial: Trial) -> Finding | None:
    """The line in which the first NaN arises, or else the first infinity."""
    origin = origin_of(trial.answer, trial.pair.functions)
    first, name = (origin.nan, "nan") if origin.nan else (origin.infinite, "inf")
    if first is None:
        return None
    numbers: dict[str, Any] = {"first": name, "line": first.number, "text": first.text}
    before = origin.infinite if origin.nan and origin.infinite not in (None, first) else None
    if before is None:
        return Finding("arises", numbers=numbers)
    return Finding("arises_after", numbers=numbers | {"line_before": before.number, "text_before": before.text})


def reshaped(trial: Trial, name: str, gradient: Array) -> Finding | None:
    """What makes a gradient of the wrong shape right: a sum over leading axes, or a transposition."""
    code, axes = unsummed(trial, name, gradient)
    return Finding(code, f"d{name}", numbers={"axes": axes, "witness": "differences"}) if code else None


def _index(at: tuple[int, ...]) -> str:
    return ", ".join(str(i) for i in at)


def purity(trial: Trial) -> Verdict:
    """Nothing that came in is changed: no operand, no option, no upstream gradient, nothing that was remembered."""
    operands, options = cast(trial.operands, trial.dtype), trial.options_in(trial.dtype)
    given = list(arrays_of((operands, options)))
    before = [X.copy() for X in given]
    Y, remembered = trial.pair.run(operands, options)
    if _changed(given, before):
        return conduct("changes_operands")
    dY = trial.as_upstream(trial.upstream)
    kept = [*given, *arrays_of(Y), *arrays_of(dY)]
    cached = list(arrays_of(remembered))
    before, before_cached = [X.copy() for X in kept], [X.copy() for X in cached]
    trial.pair.pull(dY, remembered)
    if _changed(kept, before):
        return conduct("backward_changes_operands")
    if _changed(cached, before_cached):
        return conduct("backward_changes_cache")
    return None


def aliasing(trial: Trial) -> Verdict:
    """An output shares no memory with an operand, and a gradient with nothing."""
    operands, options = cast(trial.operands, trial.dtype), trial.options_in(trial.dtype)
    Y, remembered = trial.pair.run(operands, options)
    given = list(arrays_of((operands, options)))
    if any(np.shares_memory(y, X) for y in arrays_of(Y) for X in given):
        return conduct("output_shares_memory")
    dY = trial.as_upstream(trial.upstream)
    gradients = list(arrays_of(trial.pair.pull(dY, remembered)))
    others = [*given, *arrays_of((Y, dY, remembered))]
    if any(np.shares_memory(g, X) for g in gradients for X in others):
        return conduct("gradient_shares_memory")
    if any(np.shares_memory(g, other) for i, g in enumerate(gradients) for other in gradients[:i]):
        return conduct("gradients_share_memory")
    return None


def repeatability(trial: Trial) -> Verdict:
    """Called again, with other calls in between, it answers the same to the last bit, and its earlier answers stay."""
    Y, remembered = trial.pair.run(cast(trial.operands, trial.dtype), trial.options_in(trial.dtype))
    gradients = trial.aligned(trial.pair.pull(trial.as_upstream(trial.upstream), remembered))
    answered = list(_values((Y, gradients)))
    before = [X.copy() for X in answered]
    other = {n: -0.7 * X if n in trial.names else X for n, X in cast(trial.operands, trial.dtype).items()}
    _, elsewhere = trial.pair.run(other, trial.options_in(trial.dtype))
    trial.pair.pull(trial.as_upstream(tuple(-1.3 * u for u in trial.upstream)), elsewhere)
    if _changed(answered, before):
        return conduct("later_call_changes")
    again = list(_values(trial.aligned(trial.pair.pull(trial.as_upstream(trial.upstream), remembered))))
    if _changed(again, list(_values(gradients))):
        return conduct("backward_answers_differently")
    afresh = trial.answer()
    if _changed(list(_values((afresh.outputs, afresh.gradients))), list(_values((Y, gradients)))):
        return conduct("answers_differently")
    return None


def _values(value: Any) -> Any:
    """Every array and number in a nest."""
    if isinstance(value, tuple | list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, dict):
        yield from _values(tuple(value.values()))
    elif value is not None:
        yield np.asarray(value)


def _changed(arrays: list[Array], before: list[Array]) -> bool:
    pairs = zip(arrays, before, strict=True)
    return any(not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in pairs)


def linear(trial: Trial) -> Verdict:
    """backward(dY - 2 dZ) = backward(dY) - 2 backward(dZ), within the rounding of all three."""
    dZ = tuple(np.asarray(trial.rng.standard_normal(u.shape)) for u in trial.upstream)
    dZ = tuple(z.astype(trial.dtype).astype(np.float64) for z in dZ)
    both = tuple(u - 2.0 * z for u, z in zip(trial.upstream, dZ, strict=True))
    one, other, sums = trial.right, trial.answer(upstream=dZ), trial.answer(upstream=both)
    size = 1.0 + 2.0 * max(largest(z) for z in dZ) / max(*(largest(u) for u in trial.upstream), 1e-300)
    for i, name in enumerate(gradient_names(trial)):
        g, z, s = (np.asarray(answer.gradients[i], ORACLE) for answer in (one, other, sums))
        rounding = trial.precision.unit * (largest(g) + 2.0 * largest(z) + largest(s))
        error = np.abs(s - (g - 2.0 * z))
        if error.size and not float(error.max()) <= 2.0 * size * allowed(trial)[name] + 8.0 * rounding:
            return Finding("not_linear", name, numbers={"gap": float(error.max()), "scale": largest(s)})
    return None


def layouts(trial: Trial) -> Verdict:
    """Transposed, strided and reversed views of the same numbers give the same answer."""
    operands = cast(trial.operands, trial.dtype)
    chosen = {
        n: LAYOUTS[int(trial.rng.integers(3))] for n, X in operands.items() if isinstance(X, np.ndarray) and X.ndim
    }
    if not chosen:
        return UNJUDGED
    views = {n: lay_out(X, chosen[n]) if n in chosen else X for n, X in operands.items()}
    got, right, room = named(trial, trial.answer(views)), named(trial, trial.right), allowed(trial)
    for name, value in got.items():
        if np.shape(value) != np.shape(right[name]) or largest(np.asarray(value) - right[name]) > room[name]:
            said = ", ".join(f"{n} {layout}" for n, layout in chosen.items())
            return Finding("depends_on_layout", name, numbers={"layouts": said})
    return None


def adjoint(trial: Trial, slopes: Slopes) -> Verdict:
    """<dY, J v> = <J^T dY, v> for a dense random v: J v from the forward alone, J^T dY from the backward."""
    v = slopes.random_direction()
    pairs = list(zip(trial.names, trial.right.gradients, strict=True))
    terms = np.concatenate([(np.asarray(g, ORACLE) * v[n]).ravel() for n, g in pairs])
    room = sum(allowed(trial)[f"d{n}"] * float(np.abs(v[n]).sum()) for n in trial.names)
    value, scale = float(terms.sum()), float(np.abs(terms).sum())
    room += (terms.size + 1) * trial.precision.unit * scale
    slope = slopes.along(v)
    if abs(value - slope.value) > slope.bound + room:
        slope = slopes.closer(v)
    if not np.isfinite(slope.bound + room):
        return UNJUDGED
    if not abs(value - slope.value) > slope.bound + room:
        return None
    gap = abs(value - slope.value)
    return Finding(
        "not_adjoint", numbers={"backward": value, "forward": slope.value, "gap": gap, "witness": slopes.how}
    )


LAWS: dict[str, Callable[[Trial], Verdict]] = {
    "shape of every gradient": shape,
    "dtype out = dtype in": dtype,
    "finite answers": finite,
    "purity": purity,
    "aliasing": aliasing,
    "repeatability": repeatability,
    "linear in the upstream gradient": linear,
    "layouts": layouts,
}


# Laws that hold for some functions only: asked for by name


def batch(shapes: Shapes, trial: Trial) -> Verdict:
    """Leading axes are independent samples: each sample alone gives its part, and shared operands get the sum."""
    operands, _ = shapes.draw(SeededDraws(trial.rng), False, (3,))
    whole = _another(trial, operands)
    pieces = []
    for i in range(3):
        own = {n: X[i : i + 1] if "..." in shapes.axes[n] else X for n, X in whole.operands.items()}
        upstream = tuple(u[i : i + 1] if u.ndim else u for u in whole.upstream)
        if any(u.shape[:1] != (3,) for u in whole.upstream):
            return Finding("batch_dependent", "Y")
        pieces.append(_another(trial, own, upstream))
    room = {name: 2.0 * (e + sum(allowed(p)[name] for p in pieces)) for name, e in allowed(whole).items()}
    parts = [named(piece, piece.right) for piece in pieces]
    for name, value in named(whole, whole.right).items():
        together = name.startswith("d") and "..." not in shapes.axes[name[1:]]
        values = [part[name] for part in parts]
        expected = sum(np.asarray(v, ORACLE) for v in values) if together else np.concatenate(values)
        if largest(np.asarray(value, ORACLE) - expected) > room[name]:
            return Finding("batch_dependent", name)
    return None


def permutation(shapes: Shapes, letter: str, trial: Trial) -> Verdict:
    """Permuting a letter in all operands permutes it in the output (where it has an axis of that size) and gradients."""
    draws = SeededDraws(trial.rng)
    for _ in range(200):
        operands, sizes = shapes.draw(draws, False)
        size = sizes[letter]
        if size > 2 and all(other != size for name, other in sizes.items() if name != letter):
            break
    else:
        return UNJUDGED
    one = _another(trial, operands)
    order = np.roll(trial.rng.permutation(size), 1)

    def moved(X: Array, axes: list[int]) -> Array:
        for axis in axes:
            X = np.take(X, order, axis)
        return X

    def axes_of(name: str) -> list[int]:
        axes = shapes.axes[name]
        return [i - len(axes) for i, axis in enumerate(axes) if axis == letter]

    def of_size(X: Any) -> list[int]:
        return [i for i, length in enumerate(np.shape(X)) if length == size]

    other = _another(
        trial,
        {n: moved(X, axes_of(n)) for n, X in one.operands.items()},
        tuple(moved(u, of_size(u)) for u in one.upstream),
    )
    room, right = allowed(one), named(one, one.right)
    for name, value in named(other, other.right).items():
        axes = axes_of(name[1:]) if name.startswith("d") else of_size(value)
        expected = moved(np.asarray(right[name], ORACLE), axes)
        if largest(np.asarray(value, ORACLE) - expected) > room[name] + allowed(other)[name]:
            return Finding("not_equivariant", name, numbers={"letter": letter})
    return None


def _another(trial: Trial, operands: dict[str, Any], upstream: tuple[Array, ...] = ()) -> Trial:
    """A trial of the same pair in the same dtype on other operands."""
    made = Trial(trial.pair, trial.dtype, operands, trial.options, trial.rng)
    made.begin(upstream)
    return made
