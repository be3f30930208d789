"""The functions that formulas use, by name, with what may stand in their place; and the constants, by their slot."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.diagnosis.activations import EXP, GELU, LOG, RELU, TANH
from equivalence_tests.diagnosis.attending import CHOSEN, DROPPED, MERGE, POSITIONS, PRE_NORM, SPLIT
from equivalence_tests.diagnosis.editing import Editing
from equivalence_tests.diagnosis.other import Other, instead
from equivalence_tests.diagnosis.reductions import (
    AVERAGED,
    GREATEST,
    MEAN_OF_COUNTED,
    OUTER,
    OVER_ROWS,
    ROOT,
    SUMMED,
    TIME,
    TOTAL_OVER,
)
from equivalence_tests.diagnosis.sizes import sizes

ALTERNATIVES: dict[str, tuple[Other, ...]] = {
    "summed": SUMMED,
    "averaged": AVERAGED,
    "over_rows": OVER_ROWS,
    "outer": OUTER,
    "dropped": DROPPED,
    "total_over": TOTAL_OVER,
    "greatest": GREATEST,
    "exp": EXP,
    "log": LOG,
    "tanh": TANH,
    "positive_part": RELU,
    "gelu_of": GELU,
    "chosen": CHOSEN,
    "split_heads": SPLIT,
    "_split": SPLIT,
    "_merge": MERGE,
    "pre_norm": PRE_NORM,
    "counted_from_0": POSITIONS,
    "merge_heads": MERGE,
    "root_of_sum": ROOT,
    "mean_of_counted": MEAN_OF_COUNTED,
    "reversed_time": TIME,
}

# Constants, by the name of the slot


def _other_scale(letters: str, power: float, value: Any, stage: Editing) -> Any:
    known = sizes(stage.op, stage.case)
    size = 1
    for letter in letters.split():
        size *= known[letter]
    return float(size) ** power


FILLS = (-1.0, -10.0, -100.0, -1e3, -1e4, -1e9)
CONSTANTS: dict[str, tuple[Other, ...]] = {
    "axis": (
        instead("wrong_axis", -2, 1.9, axis="the axis before the last"),
        instead("wrong_axis", 0, 2.5, axis="the first axis"),
        instead("wrong_axis", None, axis="the whole array"),
    ),
    "fill": (
        *(instead("finite_fill", fill, 2.0, fill=fill) for fill in FILLS),
        Other(
            "finite_fill",
            lambda _, stage: float(np.finfo(np.float32).min),
            {"fill": "the smallest number", "kind": "special"},
            1.9,
        ),
    ),
    "guard": (instead("empty_row", "none", 1.5),),
    "0.044715": (
        *(instead("wrong_constant", c, got=c, right=0.044715) for c in (0.44715, 0.04715, 0.0447, 0.0, 0.047715)),
    ),
    "sqrt(2/pi)": (
        *(
            instead("wrong_constant", c, got=c, right=0.7978845608)
            for c in (0.79788, 0.7978, 0.7979, 0.798, 0.79788456, 0.8, 1.0)
        ),
    ),
    "scale": tuple(
        Other("wrong_scale", partial(_other_scale, letters, power), {"named": said.format(letters)}, 2.4)
        for letters in ("c", "d", "m", "n", "e", "H c", "v")
        for power, said in ((-0.5, "1/sqrt({})"), (-1.0, "1/{}"), (0.5, "sqrt({})"), (1.0, "{}"))
    ),
    "epsilon": (
        *(
            instead("option_value", c, stage="epsilon", option="epsilon", got=c)
            for c in (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 0.0)
        ),
    ),
}
