"""The flat dict: parameters and gradients by name, in torch's `state_dict` layout."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

T = TypeVar("T")
Params = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]


def part(tree: dict[str, T], name: str) -> dict[str, T]:
    """The entries `name.rest`, as `rest`."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in tree.items() if key.startswith(prefix)}


def named(name: str, tree: dict[str, T]) -> dict[str, T]:
    """The entries `rest`, as `name.rest`: what `part` took apart."""
    return {f"{name}.{key}": value for key, value in tree.items()}


def check_config(op: str, config: Any, kind: type) -> None:
    if not isinstance(config, kind):
        raise TypeError(f"{op}: config is a {type(config).__name__}, expected a {kind.__name__}")


def check_dtype(op: str, dtype: Any) -> None:
    """What parameters may begin in."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        raise TypeError(f"{op}: dtype is {dtype!r}, expected float32 or float64") from None
    if name not in _check.NUMPY.floats:
        raise TypeError(f"{op}: dtype is {name}, expected float32 or float64")


def check_parameters(op: str, params: Any, shapes: Shapes, family: _check.Family = _check.NUMPY) -> None:
    """`params` is a dict with exactly the keys and shapes given, all of one floating dtype."""
    if isinstance(params, dict) and _as_expected(params, shapes, family):
        return
    if not isinstance(params, dict):
        raise TypeError(f"{op}: params is a {type(params).__name__}, expected a dict of arrays by name")
    for name in shapes:
        if name not in params:
            raise ValueError(f"{op}: params lacks {name}")
    for name in params:
        if name not in shapes:
            raise ValueError(f"{op}: params has {name}, which no part of the model takes")
    _check.floats(op, family, **{f"params[{name}]": params[name] for name in shapes})
    for name, shape in shapes.items():
        given = tuple(params[name].shape)
        if given != shape:
            raise ValueError(f"{op}: params[{name}] has shape {given}, expected {shape}")


def _as_expected(params: dict[str, Any], shapes: Shapes, family: _check.Family) -> bool:
    """The answer for what is right, without a message for each parameter: a small model's step is not much longer."""
    if params.keys() != shapes.keys():
        return False
    dtype = getattr(next(iter(params.values())), "dtype", None)
    if dtype is None or _check.dtype_name(next(iter(params.values()))) not in family.floats + family.also:
        return False
    return all(
        isinstance(array, family.kind) and array.dtype == dtype and array.shape == shapes[name]
        for name, array in params.items()
    )


def check_keep(op: str, keep: Any, shapes: Shapes, family: _check.Family = _check.NUMPY) -> None:
    """`keep` is a dict of boolean arrays with exactly the keys and shapes given."""
    if not isinstance(keep, dict):
        raise TypeError(f"{op}: keep is a {type(keep).__name__}, expected a dict of boolean arrays by name")
    if keep.keys() != shapes.keys():
        odd = sorted(keep.keys() ^ shapes.keys(), key=str)[0]
        raise ValueError(f"{op}: keep {'has an entry' if odd in keep else 'has no entry'} {odd}")
    for name, shape in shapes.items():
        _check.boolean(op, f"keep[{name}]", keep[name], family)
        _check.same_shape(op, f"keep[{name}]", keep[name], shape, "what it drops from")
