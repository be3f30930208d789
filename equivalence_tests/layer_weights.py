"""Where the weights of a layer lie, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

FIELDS = ("data", "value", "val")  # of an object that holds a weight, with its gradient as `grad`
NESTS = ("params", "parameters", "weights", "grads", "gradients")


@dataclass(frozen=True)
class Place:
    """Where a weight lies: `name` in a dict (the attributes of the layer are one), or in an object that holds it."""

    operand: str
    layer: Any
    holder: Any
    name: str

    def read(self) -> Any:
        return self.holder[self.name] if isinstance(self.holder, dict) else getattr(self.holder, self.name)

    def set_to(self, new: Any) -> None:
        if isinstance(self.holder, dict) and self.holder is not vars(self.layer):
            self.holder[self.name] = new
        else:
            setattr(self.layer if isinstance(self.holder, dict) else self.holder, self.name, new)

    def gradient(self) -> Any:
        if isinstance(self.holder, dict):
            return gradient_beside(self.layer, self.name)
        return getattr(self.holder, "grad", None)


def cast(values: dict[str, Any], dtype: Any) -> None:
    """Every array of floating-point numbers among the values of a dict, and of dicts, lists and objects in it, in place."""
    for name, value in list(values.items()):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            values[name] = value.astype(dtype)
        elif isinstance(value, dict):
            cast(value, dtype)
        elif isinstance(value, list):
            value[:] = [x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in value]
        elif any(isinstance(getattr(value, field, None), np.ndarray) for field in FIELDS) and hasattr(
            value, "__dict__"
        ):
            cast(vars(value), dtype)


def gradient_beside(layer: Any, name: str) -> Any:
    """The gradient of an attribute: dW, d_W, grad_W, W_grad, or in a dict of gradients."""
    own = {key.lower().strip("_"): value for key, value in vars(layer).items()}
    low = name.lower().strip("_")
    spelt = (f"d{low}", f"d_{low}", f"grad_{low}", f"{low}_grad", f"{low}grad")
    nests = [{str(k).lower(): v for k, v in own[n].items()} for n in NESTS[3:] if isinstance(own.get(n), dict)]
    for each in (own, *nests):
        found = next((each[key] for key in spelt if each.get(key) is not None), None)
        if found is not None:
            return found
    return next((each[low] for each in nests if each.get(low) is not None), None)
