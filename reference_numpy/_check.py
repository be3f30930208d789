"""What every op asks of its operands, and the one line it says when it does not get it.

The functions read `shape`, `ndim` and `dtype` alone, so both twins use them; a `Family` says whose arrays are meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Family(NamedTuple):
    """Whose arrays an op takes: the type, its name in messages, the floating dtypes for ops."""

    kind: Any
    noun: str
    floats: tuple[str, ...]
    also: tuple[str, ...] = ()  # let through, but not advertised


STRANGE = (np.ma.MaskedArray, np.matrix)  # arrays by type alone: a mask would be dropped, and * is another product
OPTIONAL = ("bias", "h0")  # the operands that may be left out

NUMPY = Family(np.ndarray, "NumPy array", ("float32", "float64"), also=("complex128",))  # complex-step needs complex128


def dtype_name(array: Any) -> str:
    return _name(array.dtype)


@cache
def _name(dtype: Any) -> str:
    """Kept, since NumPy spells a dtype anew each time: a tenth of a tiny model's step."""
    return str(dtype).removeprefix("torch.")


def floats(op: str, family: Family = NUMPY, **operands: Any) -> None:
    """Every operand is an array of the family, and all share one floating dtype. None may stand for an optional one."""
    first = ""
    for name, array in operands.items():
        if array is None and name in OPTIONAL:
            continue
        member(op, name, array, family)
        if dtype_name(array) not in family.floats + family.also:
            raise TypeError(f"{op}: {name} has dtype {dtype_name(array)}, expected {' or '.join(family.floats)}")
        if not first:
            first = name
        elif array.dtype != operands[first].dtype:
            expected = f"{dtype_name(operands[first])} like {first}"
            raise TypeError(f"{op}: {name} has dtype {dtype_name(array)}, expected {expected}")


def member(op: str, name: str, array: Any, family: Family = NUMPY) -> None:
    """An array of the family, and no subclass that computes otherwise."""
    if not isinstance(array, family.kind) or isinstance(array, STRANGE):
        raise TypeError(f"{op}: {name} is a {type(array).__name__}, expected a {family.noun}")


def axis(op: str, value: Any, shape: Sequence[int]) -> int:
    """An axis of X, by an integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{op}: axis is {value!r}, expected an integer")
    if not -len(shape) <= value < len(shape):
        raise ValueError(f"{op}: axis is {value}, expected an axis of X, whose shape is {tuple(shape)}")
    if shape[int(value)] == 0:
        raise ValueError(f"{op}: X has shape {tuple(shape)}, expected at least 1 along axis {value}")
    return int(value)


def shapes(op: str, **operands: tuple[Any, str]) -> dict[str, int]:
    """Match shapes against patterns such as `X=(X, "... n d"), Wq=(Wq, "d c")` and return the size of each letter.

    `...` stands for any number of leading axes, equal wherever it is written. A letter has one size throughout, and that
    size is not 0; only leading axes may be 0.
    """
    sizes: dict[str, int] = {}
    lead: tuple[int, ...] | None = None
    owner: dict[str, str] = {}
    for name, (array, pattern) in operands.items():
        if array is None:
            continue
        letters = pattern.split()
        leading = letters[0] == "..."
        if leading:
            letters = letters[1:]
        shape = tuple(array.shape)
        wanted = f"({', '.join(pattern.split())}{',' if len(pattern.split()) == 1 else ''})"
        if len(shape) < len(letters) or (not leading and len(shape) != len(letters)):
            raise ValueError(f"{op}: {name} has shape {shape}, expected {wanted}")
        tail = shape[len(shape) - len(letters) :]
        for letter, size in zip(letters, tail, strict=True):
            if size == 0:
                raise ValueError(f"{op}: {name} has shape {shape}, expected {wanted} with {letter} at least 1")
            if sizes.setdefault(letter, size) != size:
                expected = f"{wanted} with {letter} = {sizes[letter]} like {owner[letter]}"
                raise ValueError(f"{op}: {name} has shape {shape}, expected {expected}")
            owner.setdefault(letter, name)
        if leading:
            front = shape[: len(shape) - len(letters)]
            if lead is None:
                lead, owner["..."] = front, name
            elif front != lead:
                expected = f"{wanted} with leading axes {lead} like {owner['...']}"
                raise ValueError(f"{op}: {name} has shape {shape}, expected {expected}")
    return sizes


def integers(op: str, name: str, array: Any, upper: int, family: Family = NUMPY, besides: int | None = None) -> None:
    """`array` holds integers in [0, upper), or equal to `besides`."""
    member(op, name, array, family)
    if "int" not in dtype_name(array):
        raise TypeError(f"{op}: {name} has dtype {dtype_name(array)}, expected integers")
    outside = (array < 0) | (array >= upper)
    if besides is not None:
        if isinstance(besides, bool) or not hasattr(besides, "__index__"):
            raise TypeError(f"{op}: ignore_index is a {type(besides).__name__}, expected an integer or None")
        outside = outside & (array != besides)
    if bool(outside.any()):
        worst = int(array[outside].reshape(-1)[0])
        raise ValueError(f"{op}: {name} holds {worst}, expected integers from 0 to {upper - 1}")


def boolean(op: str, name: str, array: Any, family: Family = NUMPY) -> None:
    member(op, name, array, family)
    if dtype_name(array) != "bool":
        raise TypeError(f"{op}: {name} has dtype {dtype_name(array)}, expected bool")


def same_shape(op: str, name: str, array: Any, shape: Sequence[int], like: str) -> None:
    if tuple(array.shape) != tuple(shape):
        raise ValueError(f"{op}: {name} has shape {tuple(array.shape)}, expected {tuple(shape)} like {like}")


def broadcasts(op: str, name: str, array: Any, shape: Sequence[int]) -> None:
    """`array` broadcasts to `shape`, except that its last axis must be there: a key axis of 1 would mean nothing."""
    given, shape = tuple(array.shape), tuple(shape)
    fits = 1 <= len(given) <= len(shape) and given[-1] == shape[-1]
    if not fits or any(a not in (1, b) for a, b in zip(reversed(given), reversed(shape), strict=False)):
        rule = f"a shape that broadcasts to {shape} and ends in {shape[-1]}"
        raise ValueError(f"{op}: {name} has shape {given}, expected {rule}")


def number(op: str, name: str, value: Any) -> float:
    """A finite real number, as a Python float: a NumPy scalar would turn float32 into float64."""
    is_number = isinstance(value, Real | np.ndarray) and not isinstance(value, bool)
    if not is_number or np.ndim(value) != 0 or np.iscomplexobj(value):
        raise TypeError(f"{op}: {name} is a {type(value).__name__}, expected a real number")
    real = float(value)
    if not math.isfinite(real):
        raise ValueError(f"{op}: {name} is {real}, expected a finite number")
    return real


def probability(op: str, p: Any, keep: Any) -> float:
    """`p` of a dropout: in [0, 1], and 0 when nothing is dropped."""
    chance = number(op, "p", p)
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"{op}: p is {chance}, expected a number from 0 to 1")
    if chance > 0.0 and keep is None:
        raise ValueError(f"{op}: p is {chance} but keep is None, expected the mask of what is kept (or p = 0)")
    return chance


def upstream(op: str, name: str, gradient: Any, like: Array) -> None:
    """The upstream gradient has the dtype and the shape of the output that it belongs to."""
    member(op, name, gradient)
    if gradient.dtype != like.dtype or gradient.dtype.name not in NUMPY.floats:
        expected = str(like.dtype) if like.dtype.name in NUMPY.floats else "float32 or float64"
        raise TypeError(f"{op}: {name} has dtype {gradient.dtype}, expected {expected}")
    same_shape(op, name, gradient, like.shape, "the output")
