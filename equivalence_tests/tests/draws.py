"""Cases drawn by hypothesis, which shrinks what fails: sizes and options towards the first choice, numbers towards 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

T = TypeVar("T")


class HypothesisDraws:
    """Choices by hypothesis. Numbers come from a generator with a drawn seed or, with `floats`, one by one."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], floats: bool = False) -> None:
        self.draw, self.floats, self.fixed = draw, floats, dict[str, int]()
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self.draw(st.integers(0, len(options) - 1)))]

    def normal(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if not self.floats:
            return self.rng.standard_normal(shape)
        elements = st.floats(-4.0, 4.0, width=16, allow_subnormal=False)
        return cast("np.ndarray[Any, Any]", self.draw(hnp.arrays(np.float64, shape, elements=elements)))
