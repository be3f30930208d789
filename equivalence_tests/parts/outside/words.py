"""Numbers as they are told: two that differ are never told alike."""

from __future__ import annotations

from typing import Any

import numpy as np


def told_apart(got: float, right: float) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to see that they differ, and one more."""
    for digits in range(4, 18):
        one, other = f"{got:.{digits}g}", f"{right:.{digits}g}"
        if one != other:
            break
    digits = min(digits + 1, 17)
    return f"{got:.{digits}g}", f"{right:.{digits}g}"


def short(value: Any, room: int = 90) -> str:
    """A value in one line, cut where it is long."""
    with np.printoptions(precision=6, threshold=12, edgeitems=3, linewidth=10_000):
        text = " ".join(
            (repr(value.tolist()) if isinstance(value, np.ndarray) and value.size <= 12 else repr(value)).split()
        )
    return text if len(text) <= room else f"{text[: room - 3]}..."
