"""The conventions of cross-entropy: what goes in, over what the mean is taken, what is ignored."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, asked, choose, close
from equivalence_tests.probing.subject import Refused, Subject, of_shape

ALIASES = {
    "logits": ("input", "inputs", "pred", "preds", "predictions", "scores", "y_pred", "log_probs", "probs", "output"),
    "targets": ("target", "labels", "label", "y", "y_true"),
    "ignore_index": ("ignore_id", "ignored", "padding_idx", "pad_id", "pad_token_id", "ignore"),
    "smoothing": ("label_smoothing", "smooth"),
}
P = np.array([[0.5, 0.15, 0.25, 0.1], [0.1, 0.6, 0.1, 0.2], [0.3, 0.3, 0.3, 0.1]])  # logits as well as probabilities
T = np.array([1, 2, 1])  # neither the first class nor the last, which may be ignored
LAYOUTS = ("rows", "columns", "sequences", "sequences_second")  # (N, v), (v, N), (1, N, v), (1, v, N)


class Loss:
    """The function on rows (N, v), in the layout that it takes; `kind` is what it takes for `logits`."""

    def __init__(self, function: Any) -> None:
        self.subject = Subject(function, ALIASES, ("logits", "targets"))
        self.layout, self.kind, self.one_hot = LAYOUTS[0], "logits", False
        self.reduction = "mean"

    def laid(self, rows: Array, targets: Array) -> dict[str, Any]:
        if self.one_hot:
            if self.layout != "rows" or not ((targets >= 0) & (targets < rows.shape[-1])).all():
                raise Refused("its targets are one-hot rows")
            return {"logits": rows, "targets": np.eye(rows.shape[-1])[targets]}
        match self.layout:
            case "columns":
                return {"logits": rows.T, "targets": targets}
            case "sequences":
                return {"logits": rows[None], "targets": targets[None]}
            case "sequences_second":
                return {"logits": rows.T[None], "targets": targets[None]}
        return {"logits": rows, "targets": targets}

    def __call__(self, rows: Array, targets: Any, **options: Any) -> Array:
        """One number, or one for each row. Refused if it is as many as it was not before."""
        L = self.subject(**self.laid(rows, np.asarray(targets)), **options)[0]
        if self.reduction == "none":
            return of_shape(L.reshape(-1), len(rows))
        return of_shape(L.reshape(-1), 1).reshape(())

    def losses(self, rows: Array, targets: Any) -> Array:
        """The right loss of each row, as this function understands its input."""
        return -np.take_along_axis(_log(self.kind, rows), np.asarray(targets)[:, None], 1)[:, 0]

    def reduced(self, losses: Array) -> Array:
        """As the function does it without anything ignored."""
        return np.asarray({"none": losses, "sum": losses.sum()}.get(self.reduction, losses.mean()))


def _log(kind: str, rows: Array) -> Array:
    match kind:
        case "log_probabilities":
            return rows
        case "probabilities":
            return np.asarray(np.log(rows))
        case "softmax_twice":
            rows = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
    return np.asarray(rows - np.log(np.exp(rows).sum(-1, keepdims=True)))


def probe_cross_entropy(function: Any) -> list[Convention]:
    """Input, axis of the classes, mean, ignored targets, smoothing, range. Refused if no call is answered."""
    loss = Loss(function)
    kind, reduction, targets = _kind(loss)
    if not kind.told:
        return [kind]
    ignored = _ignored(loss)
    index = ignored.numbers.get("index")
    options: dict[str, Any] = {}
    if index is None and "ignore_index" in loss.subject.names:
        index, options = 3, {"ignore_index": 3}
    found = [
        kind,
        targets,
        reduction,
        _classes(loss),
        ignored,
        _counted(loss, index, options),
        _all_ignored(loss, index, options),
    ]
    return [*found, _sequences(loss, index, options), _smoothing(loss), _soft(loss), _range(loss), _unlikely(loss)]


def _kind(loss: Loss) -> tuple[Convention, Convention, Convention]:
    """What the input is taken for, and how the losses become one: with numbers that can be logits and probabilities."""
    kinds = ("logits", "log_probabilities", "probabilities", "softmax_twice")
    found = Convention("ce_input", "unmatched")
    first: Refused | None = None
    for loss.one_hot, loss.layout in [*((False, layout) for layout in LAYOUTS), (True, "rows")]:
        try:
            L = loss.subject.settle(loss.laid(P, T))[1][0]
        except Refused as refused:
            first = first or refused
            continue
        alternatives = {}
        for loss.kind, loss.reduction in itertools.product(kinds, ("mean", "sum", "none")):
            losses = loss.losses(P, T)
            reduced = loss.reduced(losses)
            alternatives[f"{loss.kind} {loss.reduction}"] = (
                np.reshape(reduced, L.shape) if reduced.size == L.size else L * np.nan
            )
        given = {"X": P[:2], "t": T[:2], "rows": 3}
        found = choose("ce_input", L, alternatives, given, "loss", roundoff=loss.subject.roundoff)
        if found.told:
            loss.kind, _, loss.reduction = found.answer.partition(" ")
            targets = "one_hot" if loss.one_hot else "ids"
            answers = {"ce_input": loss.kind, "ce_reduction": loss.reduction, "ce_targets": targets}
            kind, reduction, ids = (replace(found, name=name, answer=answer) for name, answer in answers.items())
            return kind, reduction, ids
    if not found.got and first is not None:
        raise first
    return found, found, found


def _classes(loss: Loss) -> Convention:
    """The axis of the classes where there are sequences: (B, n, v) or (B, v, n)."""
    rows = np.random.default_rng(0).random((2, 3, 4)) + 0.1
    rows /= rows.sum(-1, keepdims=True)
    targets = np.array([T, [2, 1, 2]])
    wanted = loss.reduced(loss.losses(rows.reshape(6, 4), targets.reshape(6)))
    taken = []
    error = ""
    for code, logits in (("last", rows), ("second", rows.swapaxes(1, 2))):
        try:
            L = loss.subject(logits=logits, targets=targets)[0]
        except Refused as refused:
            error = error or str(refused)
            continue
        if L.size == wanted.size and close(L.reshape(-1), wanted.reshape(-1), loss.subject.roundoff):
            taken.append(code)
    given = {"logits": "(2, 3, 4) and (2, 4, 3)", "t": "(2, 3)"}
    answer = "rows_only" if not taken else "both" if len(taken) == 2 else taken[0]
    if loss.layout == "columns" and not taken:
        answer = "columns"
    return Convention("ce_classes", answer, given, {"taken": ", ".join(taken) or error})


def _ignored(loss: Loss) -> Convention:
    """The target that changes nothing, without being told to: -100, -1, 0, the last."""
    rows = P[:2]
    for index in (-100, -1, 0, 3):
        try:
            L = loss(rows, [1, index])
        except Refused:
            continue
        known = float(loss.losses(rows[:1], [1])[0])
        answers = {"mean": (known, known / 2), "sum": (known,), "none": ([known, 0.0],)}[loss.reduction]
        if any(close(L, np.asarray(answer), loss.subject.roundoff) for answer in answers):
            return Convention("ce_ignored", "index", {"X": rows, "t": [1, index]}, {"loss": L}, {"index": index})
    return Convention("ce_ignored", "none", {"t": "-100, -1, 0, 3"}, {"none of them": "left out"})


def _counted(loss: Loss, index: int | None, options: dict[str, Any]) -> Convention:
    """What a sum over two counted rows and an ignored one is divided by."""
    if index is None:
        return Convention("ce_counted", "no_option")
    targets = [2, index, 1]
    given = {"X": P, "t": targets, **options}

    def decide() -> Convention:
        L = loss(P, targets, **options)
        known = loss.losses(P[[0, 2]], [2, 1])
        if loss.reduction == "none":
            return Convention("ce_counted", "each", given, {"loss": L})
        alternatives = {"counted": known.sum() / 2, "all": known.sum() / 3, "sum": known.sum()}
        if index >= 0:
            alternatives["ignored"] = loss.reduced(loss.losses(P, targets))
        return choose("ce_counted", L, alternatives, given, "loss", roundoff=loss.subject.roundoff)

    return asked("ce_counted", given, decide)


def _all_ignored(loss: Loss, index: int | None, options: dict[str, Any]) -> Convention:
    if index is None:
        return Convention("ce_all_ignored", "no_option")
    given = {"t": [index, index], **options}

    def decide() -> Convention:
        L = loss(P[:2], [index, index], **options).reshape(-1)
        answer = "nan" if np.isnan(L).all() else "zero" if not L.any() else "number"
        return Convention("ce_all_ignored", answer, given, {"loss": L if L.size > 1 else L[0]})

    return asked("ce_all_ignored", given, decide)


def _sequences(loss: Loss, index: int | None, options: dict[str, Any]) -> Convention:
    """A mean over tokens, or over sequences first: two sequences of three and of one counted token."""
    if index is None or loss.reduction == "none":
        return Convention("ce_sequences", "no_option" if index is None else "out_of_reach")
    rows = np.tile(P, (2, 1)).reshape(2, 3, 4)
    targets = np.array([T, [2, index, index]])
    given = {"t": targets, **options}

    def decide() -> Convention:
        try:
            L = loss.subject(logits=rows, targets=targets, **options)[0]
        except Refused:
            L = loss.subject(logits=rows.swapaxes(1, 2), targets=targets, **options)[0]
        one, other = loss.losses(P, T), loss.losses(P[:1], [2])
        total = one.sum() + other.sum()
        alternatives = {"tokens": total / 4, "sequences": (one.mean() + other.mean()) / 2, "batch": total / 2}
        alternatives |= {"places": total / 6, "sum": total}
        return choose(
            "ce_sequences", of_shape(L.reshape(-1), 1)[0], alternatives, given, "loss", roundoff=loss.subject.roundoff
        )

    return asked("ce_sequences", given, decide)


def _smoothing(loss: Loss) -> Convention:
    """Where a quarter of the weight goes: to every class, or to the others alone."""
    if "smoothing" not in loss.subject.names:
        return Convention("ce_smoothing", "no_option")
    given = {"X": P[:1], "t": [1], "smoothing": 0.25}

    def decide() -> Convention:
        L = loss(P[:1], [1], smoothing=0.25).reshape(-1)[0]
        log = _log(loss.kind, P[:1])[0]
        alternatives = {
            "all_classes": -0.75 * log[1] - 0.25 * log.mean(),
            "other_classes": -0.75 * log[1] - 0.25 * log[[0, 2, 3]].mean(),
            "ignored": -log[1],
        }
        return choose("ce_smoothing", L, alternatives, given, "loss", roundoff=loss.subject.roundoff)

    return asked("ce_smoothing", given, decide)


def _soft(loss: Loss) -> Convention:
    """Targets as probabilities of classes."""
    targets = np.array([[0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5]])
    given = {"t": targets}

    def decide() -> Convention:
        if loss.layout != "rows":
            return Convention("ce_soft", "out_of_reach")
        L = loss.subject(logits=P[:2], targets=targets)[0]
        losses = -(targets * _log(loss.kind, P[:2])).sum(1)
        wanted = np.reshape(loss.reduced(losses), L.shape) if loss.reduced(losses).size == L.size else np.nan
        return choose("ce_soft", L, {"taken": wanted}, given, "loss", roundoff=loss.subject.roundoff)

    return asked("ce_soft", given, decide)


def _range(loss: Loss) -> Convention:
    """A target that is no class."""
    given = {"t": [1, 4], "v": 4}

    def decide() -> Convention:
        return Convention("ce_range", "accepted", given, {"loss": loss(P[:2], [1, 4])})

    return asked("ce_range", given, decide)


def _unlikely(loss: Loss) -> Convention:
    """A target of probability exp(-1000), or 0: its loss, or what a guard makes of it."""
    if loss.kind not in ("logits", "probabilities"):
        return Convention("ce_unlikely", "out_of_reach")
    logits = loss.kind == "logits"
    rows = np.array([[1000.0 if logits else 1.0, 0.0, 0.0, 0.0]])
    given = {"logits" if logits else "P": rows[0], "t": 1}

    def decide() -> Convention:
        L = float(loss(rows, [1]).reshape(-1)[0])
        right = abs(L / 1000 - 1) < 16 * loss.subject.roundoff if logits else np.inf == L
        answer = "right" if right else "capped" if np.isfinite(L) else "lost"
        return Convention("ce_unlikely", answer, given, {"loss": L}, {"loss": L})

    return asked("ce_unlikely", given, decide)
