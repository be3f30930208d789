"""What is known of a mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A broken implementation of one op, as somebody would really have written it.

    `forward` and `backward` take the place of the reference's for that op; None leaves the reference's own, so the cache
    is the reference's. `hidden_on` says on which inputs nobody can see it, `shown_by` what brings it out. `stages` are the
    lines of the formula, or options, where a careful reader would place it, and `kinds` the families he would count it to,
    in the words of vocabulary.py; a part has neither.
    """

    id: str
    op: str
    sentence: str
    hidden_on: str
    shown_by: str
    forward: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None
    source: str = ""  # public reports of it, by their case, where the id is not that case already
    accepts: bool = False  # the mistake is that bad input is accepted; all others refuse what the reference refuses
    stages: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


def labelled(mistakes: Sequence[Mistake], labels: dict[str, str]) -> tuple[Mistake, ...]:
    """The mistakes with their stages and kinds. A label is "stage, stage: kind, kind".

    ValueError if a mistake has no label or a label no mistake.
    """
    found = tuple(
        replace(mistake, stages=_parts(labels[mistake.id], 0), kinds=_parts(labels[mistake.id], 1))
        for mistake in mistakes
        if mistake.id in labels
    )
    known = {mistake.id for mistake in mistakes}
    if known != labels.keys():
        raise ValueError(f"labels: {sorted(known ^ labels.keys())} stand on one side only")
    return found


def _parts(label: str, side: int) -> tuple[str, ...]:
    return tuple(label.split(": ")[side].split(", "))
