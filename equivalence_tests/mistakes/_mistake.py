"""What is known of a mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A broken implementation of one op, as somebody would really have written it.

    `forward` and `backward` take the place of the reference's for that op; None leaves the reference's own, so the cache
    is the reference's. `hidden_on` says on which inputs nobody can see it, `shown_by` what brings it out.
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
