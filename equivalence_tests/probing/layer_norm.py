"""The conventions of layer normalisation, of `(X, scale, shift)`, of `(X, normalized_shape, ...)` or of a module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.subject import Refused, Subject, of_shape

ALIASES = {
    "X": ("input", "inputs", "hidden_states"),
    "normalized_shape": ("norm_shape",),
    "scale": ("weight", "gamma", "g", "gain", "w"),
    "shift": ("bias", "beta", "b", "offset"),
    "epsilon": ("eps", "layer_norm_epsilon", "layer_norm_eps", "variance_epsilon"),
}
WIDTH = 4
AXES = {"last": (-1,), "first": (0,), "middle": (1,), "last_two": (-2, -1), "all": (0, 1, 2)}


class Norm:
    """The function, with a scale that leaves things as they are and a shift of 0 where it wants them.

    That scale, `neutral`, is 1; it is 0 where a scale of 0 does not give zeros: there 1 + scale multiplies.
    """

    def __init__(self, function: Any) -> None:
        self.function, self.subject = function, Subject(function, ALIASES, ("X",))
        self.width = WIDTH
        self.affine: dict[str, Any] = {}
        if self.subject.module:
            parameters = dict(function.named_parameters())
            self.affine = {name: p for name, p in parameters.items() if p.ndim == 1}
            self.width = next((p.shape[0] for p in parameters.values()), _said_shape(function))
        self.neutral = 0.0
        self.set(0.0, 0.0)
        self.subject.settle(self.values(np.random.default_rng(0).standard_normal((2, 3, self.width))))
        X = np.random.default_rng(0).standard_normal((1, 1, self.width))
        self.neutral = 1.0 if not self(X).any() or not self.takes_scale else 0.0
        self.set(self.neutral, 0.0)

    @property
    def takes_scale(self) -> bool:
        return bool(self.affine) or "scale" in self.subject.names

    def set(self, scale: float, shift: float) -> None:
        """Scale and shift for the calls to come; into a module's own parameters, of which the second is the shift."""
        self.scale, self.shift = scale, shift
        for parameter, value in zip(self.affine.values(), (scale, shift), strict=False):
            parameter.data.fill_(value)

    def values(self, X: Array) -> dict[str, Any]:
        names = self.subject.names
        vector = np.ones(self.width)
        optional = {"scale": vector * self.scale, "shift": vector * self.shift, "normalized_shape": (self.width,)}
        return {"X": X, **{name: value for name, value in optional.items() if name in names}}

    def __call__(self, X: Array, **options: Any) -> Array:
        return of_shape(self.subject(**self.values(X), **options)[0], *X.shape)


def _said_shape(module: Any) -> int:
    shape = getattr(module, "normalized_shape", (WIDTH,))
    return int(shape[-1] if isinstance(shape, tuple | list) else shape)


def probe_layer_norm(function: Any) -> list[Convention]:
    """Axes, centring, variance, epsilon and its place, scale and shift, cancellation. Refused if no call is answered."""
    norm = Norm(function)
    axes = asked("norm_axes", {}, lambda: _axes(norm))
    if axes.answer not in ("last", "last_two"):  # what is asked next is asked of rows
        return [axes, *_affine(norm)]
    centre, variance = _moments(norm)
    ddof = 1 if variance.answer == "unbiased" else 0
    questions = [
        axes,
        centre,
        variance,
        *_epsilon(norm, ddof),
        _epsilon_option(norm),
        *_affine(norm),
        _cancels(norm, centre),
    ]
    return questions


def standardised(X: Array, axes: tuple[int, ...], centred: bool = True, ddof: int = 0) -> Array:
    centre = X.mean(axes, keepdims=True) if centred else 0.0
    count = np.prod([X.shape[axis] for axis in axes]) - ddof
    return np.asarray((X - centre) / np.sqrt(((X - centre) ** 2).sum(axes, keepdims=True) / count))


def _axes(norm: Norm) -> Convention:
    """Which axes have the mean 0 (or the mean square 1, without centring). Large numbers, so that no epsilon is seen."""
    X = np.random.default_rng(0).standard_normal((2, 3, norm.width)) * 1e3
    alternatives = {}
    for code, axes in AXES.items():
        for centred in (True, False):
            for ddof in (0, 1):
                alternatives[f"{code} {centred} {ddof}"] = standardised(X, axes, centred, ddof)
    given = {"X": f"1000 random{X.shape}"}
    Y = norm(X)
    found = choose("norm_axes", Y, alternatives, given, roundoff=norm.subject.roundoff)
    return Convention("norm_axes", found.answer.split()[0], given, {"Y[0, 0]": Y[0, 0][:4]}, found.numbers)


def _row(norm: Norm) -> Array:
    """Deviations that sum to 0 and are of size 1, in every width from 2 on; then a mean is added."""
    row = np.array([(-1.0) ** i for i in range(norm.width)])
    row[-1] -= row.sum()
    return row


def _moments(norm: Norm) -> tuple[Convention, Convention]:
    """Whether the mean is taken off, and what the sum of squares is divided by."""
    X = (_row(norm) * 2e3 + 1e3)[None]
    given = {"X": X[0][:4]}
    alternatives = {
        f"{centre} {variance}": standardised(X, (-1,), centre == "yes", ddof)
        for centre in ("yes", "no")
        for variance, ddof in (("biased", 0), ("unbiased", 1))
    }

    def decide(name: str, place: int) -> Convention:
        Y = norm(X)
        found = choose(name, Y, alternatives, given, roundoff=norm.subject.roundoff)
        answer = found.answer.split()[place] if found.told else found.answer
        return Convention(name, answer, given, {"Y": Y[0][:4]}, found.numbers)

    return (
        asked("norm_centre", given, lambda: decide("norm_centre", 0)),
        asked("norm_variance", given, lambda: decide("norm_variance", 1)),
    )


def _epsilon(norm: Norm, ddof: int) -> list[Convention]:
    """Rows of ever smaller spread: what is left of them tells epsilon, and how that falls off its place."""
    row = _row(norm)
    spreads = 10.0 ** -np.arange(1, 13 if norm.subject.dtype != "float16" else 3)
    X = spreads[:, None] * row
    deviation = spreads * np.sqrt((row**2).sum() / (norm.width - ddof))
    given = {"X": "s [1 -1 ..]", "s": spreads[3:8:2]}
    names = ("epsilon_place", "epsilon")
    try:
        Y = norm(X)
    except Refused as refused:
        return [Convention(name, "refused", given, {}, {"error": str(refused)}) for name in names]
    size = Y[:, 0] / row[0]
    shrunk = spreads / size  # what the deviations were divided by
    last = float(shrunk[-1])
    estimates: dict[str, tuple[float, Callable[[float], Array]]] = {
        "inside": (last**2 - deviation[-1] ** 2, lambda e: np.sqrt(deviation**2 + e)),
        "outside": (last - deviation[-1], lambda e: deviation + e),
        "at_least": (last**2, lambda e: np.sqrt(np.maximum(deviation**2, e))),
    }
    got = {"Y[:, 0]": size[3:8:2]}
    if np.abs(shrunk / deviation - 1).max() < np.sqrt(norm.subject.roundoff):
        constant = norm(np.ones((1, norm.width)))[0]
        answers = {"Y of a constant row": constant[:2]}
        return [
            Convention("epsilon_place", "nowhere", given, got),
            Convention("epsilon", "none" if np.isnan(constant).any() else "below", given, answers),
        ]
    alternatives = {code: spreads / formula(e) for code, (e, formula) in estimates.items() if e > 0}
    place = choose("epsilon_place", size, alternatives, given, "Y[:, 0]", roundoff=norm.subject.roundoff)
    place = replace(place, got=got)
    if not place.told:
        return [place, Convention("epsilon", "unmatched", given, got)]
    return [place, Convention("epsilon", "value", given, got, {"epsilon": float(estimates[place.answer][0])})]


def _epsilon_option(norm: Norm) -> Convention:
    if "epsilon" not in norm.subject.names:
        return Convention("epsilon_option", "no_option")
    X = (_row(norm) * 1.0)[None]
    given = {"X": X[0][:4], "epsilon": 3.0}

    def decide() -> Convention:
        before, Y = norm(X), norm(X, epsilon=3.0)
        answer = "ignored" if np.array_equal(before, Y) else "taken"
        return Convention("epsilon_option", answer, given, {"Y": Y[0][:4]})

    return asked("epsilon_option", given, decide)


def _affine(norm: Norm) -> list[Convention]:
    """What a scale of 3 and a shift of 2 do."""
    names = norm.subject.names
    if not (norm.affine or {"scale", "shift"} & names.keys()):
        return [Convention("norm_affine", "no_option")]
    X = np.random.default_rng(0).standard_normal((2, 3, norm.width)) * 1e3
    given = {"scale": 3, "shift": 2, "N": "without them"}

    def decide() -> Convention:
        N = norm(X)
        norm.set(3.0, 2.0)
        try:
            Y = norm(X)
        finally:
            norm.set(norm.neutral, 0.0)
        times = {"both": 3 * N + 2, "scale_only": 3 * N}
        about_one = {"about_one": 4 * N + 2, "about_one_only": 4 * N}
        alternatives = {"shift_only": N + 2, "ignored": N, **(times if norm.neutral else about_one)}
        found = choose("norm_affine", Y, alternatives, given, roundoff=norm.subject.roundoff)
        return replace(found, given=given | {"N": N[0, 0][:3]}, got={"Y": Y[0, 0][:3]})

    return [asked("norm_affine", given, decide)]


def _cancels(norm: Norm, centre: Convention) -> Convention:
    """A mean of 40000 beside a spread of 1: `E[x^2] - E[x]^2` has no digit left in float32."""
    if norm.subject.dtype != "float32" or centre.answer != "yes":
        return Convention("norm_cancels", "out_of_reach")
    X = (40000.0 + np.arange(norm.width))[None]
    given = {"X": X[0][:4]}

    def decide() -> Convention:
        Y, shifted = norm(X), norm(X - 40000.0)
        wrong = np.abs(Y - shifted).max() > np.sqrt(norm.subject.roundoff) * np.abs(shifted).max()
        wrong = wrong or not np.isfinite(Y).all()
        return Convention("norm_cancels", "yes" if wrong else "no", given, {"Y": Y[0][:4]})

    return asked("norm_cancels", given, decide)
