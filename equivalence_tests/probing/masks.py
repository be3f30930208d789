"""What an attention function makes of masks: what True means, where numbers are added, rows with nothing to attend to."""

from __future__ import annotations

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.attention import Q3, Attention, softmax
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.scores import measured_scale

LARGEST_FILL = 30  # powers of ten: nobody fills with less, but for the smallest number of the dtype and minus infinity


def probe_masks(subject: Attention, scale: float) -> list[Convention]:
    """Boolean and additive masks, alone and with the causal one. `scale` is what the function multiplies scores by."""
    boolean = _boolean_mask(subject)
    empty = [_empty_row(subject, boolean), _empty_row_bias(subject)]
    return [boolean, _additive_mask(subject), *empty, _fill(subject, boolean, scale), _both(subject, boolean)]


def _boolean_mask(subject: Attention) -> Convention:
    keep = np.array([[True, False, True], [False, True, True], [True, False, True]])
    given = {"mask[-1]": keep[-1], "Q[-1]": Q3[-1], "K": "I"}
    if not subject.subject.takes("mask"):
        return Convention("boolean_mask", "no_option")

    def decide() -> Convention:
        A, S = subject.masked(keep, "mask")[-1], subject.row()
        s = measured_scale(np.exp(S), Q3[-1])
        kept = keep[-1]
        alternatives = {
            "keeps": softmax(np.where(kept, S, -np.inf)),
            "drops": softmax(np.where(kept, -np.inf, S)),
            "added": softmax(S + kept),
            "added_before": softmax(S + s * kept),
            "multiplied": softmax(s * Q3[-1] * kept),
            "weights_multiplied": softmax(S) * kept,
            "ignored": softmax(S),
        }
        return choose("boolean_mask", A, alternatives, given, "A[-1]", roundoff=subject.subject.roundoff)

    return asked("boolean_mask", given, decide)


def _additive_option(subject: Attention) -> str | None:
    """Where a floating-point mask goes: a parameter of its own, or the mask's."""
    return next((name for name in ("bias", "mask") if subject.subject.takes(name)), None)


def _additive_mask(subject: Attention) -> Convention:
    added = np.array([[0.5, 0.0, 1.0]] * 3)
    given = {"mask[-1]": added[-1], "Q[-1]": Q3[-1], "K": "I"}
    option = _additive_option(subject)
    if option is None:
        return Convention("additive_mask", "no_option")

    def decide() -> Convention:
        A, S = subject.masked(added, option)[-1], subject.row()
        b = added[-1]
        s = measured_scale(np.exp(S), Q3[-1])
        alternatives = {
            "after": softmax(S + b),
            "before": softmax(S + s * b),
            "to_weights": softmax(S) + b,
            "subtracted": softmax(S - b),
            "multiplied": softmax(s * Q3[-1] * b),
            "read_as_boolean": softmax(np.where(b != 0, S, -np.inf)),
            "read_as_boolean_drops": softmax(np.where(b != 0, -np.inf, S)),
            "ignored": softmax(S),
        }
        return choose("additive_mask", A, alternatives, given, "A[-1]", roundoff=subject.subject.roundoff)

    return asked("additive_mask", given, decide)


def _emptied(subject: Attention, name: str, mask: Array, option: str) -> Convention:
    """The last row of a mask lets nothing through."""
    given = {"mask[-1]": mask[-1], "Q[-1]": Q3[-1], "K": "I"}

    def decide() -> Convention:
        A, before = subject.masked(mask, option)[-1], softmax(subject.row())
        alternatives = {"zero": np.zeros(3), "nan": np.full(3, np.nan), "mean": np.full(3, 1 / 3), "ignored": before}
        return choose(name, A, alternatives, given, "A[-1]", roundoff=subject.subject.roundoff)

    return asked(name, given, decide)


def _empty_row(subject: Attention, boolean: Convention) -> Convention:
    """By the boolean mask, as it is read."""
    if boolean.answer not in ("keeps", "drops"):
        return Convention("empty_row", "no_option" if boolean.answer == "no_option" else "no_boolean")
    visible = np.array([[True] * 3, [True] * 3, [False] * 3])
    return _emptied(subject, "empty_row", visible if boolean.answer == "keeps" else ~visible, "mask")


def _empty_row_bias(subject: Attention) -> Convention:
    """By minus infinity in the additive mask."""
    option = _additive_option(subject)
    if option is None:
        return Convention("empty_row_bias", "no_option")
    return _emptied(subject, "empty_row_bias", np.where(np.arange(3)[:, None] == 2, -np.inf, np.zeros((3, 3))), option)


def _fill(subject: Attention, boolean: Convention, scale: float) -> Convention:
    """How far below the others a score must lie before a masked one comes through: the fill, if it is finite."""
    if boolean.answer not in ("keeps", "drops"):
        return Convention("fill", "no_option" if boolean.answer == "no_option" else "no_boolean")
    visible = np.array([[True, True], [True, False]])
    mask = visible if boolean.answer == "keeps" else ~visible

    def comes_through(low: float) -> Array:
        A: Array = subject.masked(mask, "mask", [[0.0, 0.0], [low, 0.0]], np.eye(2))[-1]
        return A

    def decide() -> Convention:
        largest = int(subject.subject.largest * np.log10(2.0))
        for power in range(min(largest, LARGEST_FILL) + 1):
            low = -(10.0**power)
            A = comes_through(low)
            if A[1] > 0.5:
                break
        else:
            return Convention("fill", "infinite", {"Q[-1]": [low, 0], "K": "I", "mask[-1]": mask[-1]}, {"A[-1]": A})
        high = low / 10.0
        for _ in range(12):  # halved so often, a factor of ten leaves a thousandth
            middle = -float(np.sqrt(low * high))
            low, high = (middle, high) if comes_through(middle)[1] > 0.5 else (low, middle)
        given = {"Q[-1]": [low, 0], "K": "I", "mask[-1]": mask[-1]}
        return Convention("fill", "finite", given, {"A[-1]": comes_through(low)}, {"fill": scale * low})

    return asked("fill", {"mask[-1]": mask[-1]}, decide)


def _both(subject: Attention, boolean: Convention) -> Convention:
    """A causal and a boolean mask at once."""
    if boolean.answer not in ("keeps", "drops") or not (subject.always or subject.subject.takes("causal")):
        return Convention("both_masks", "no_option")
    visible = np.array([[True, True, True], [True, False, True], [True, True, True]])
    given = {"mask[1]": visible[1] if boolean.answer == "keeps" else ~visible[1], "Q": "zeros"}
    options = {} if subject.always else {"causal": True}

    def decide() -> Convention:
        mask = visible if boolean.answer == "keeps" else ~visible
        A = subject.masked(mask, "mask", np.zeros((3, 3)), **options)[1]
        alternatives = {"both": [1, 0, 0], "mask_only": [0.5, 0, 0.5], "causal_only": [0.5, 0.5, 0]}
        return choose("both_masks", A, alternatives, given, "A[1]", roundoff=subject.subject.roundoff)

    return asked("both_masks", given, decide)
