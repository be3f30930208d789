"""Values as plain bytes, between the judge and the process of a candidate: what comes is read, and never run.

A message is a head, a line of JSON, and the bytes of its arrays one after the other. NumPy's methods and the functions of
json are bound here, before any candidate is imported.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import fields
from json import dumps, loads
from typing import Any

import numpy as np

from equivalence_tests.candidate import Convention
from equivalence_tests.cases import Case
from equivalence_tests.implementations import Tensor
from equivalence_tests.signatures import Plan
from reference_numpy.config import GPTConfig, RNNConfig

HEAD = struct.Struct("<8sQQ")  # a mark, the bytes of the JSON, the bytes of the arrays
MARK = b"gemelos\n"
MOST = 2**31  # bytes of a message: no case has a thousandth of that
RECORDS = {kind.__name__: kind for kind in (Case, Tensor, Plan, Convention, GPTConfig, RNNConfig)}

_ndarray, _tobytes = np.ndarray, np.ndarray.tobytes


class Junk(ValueError):
    """What came is no message."""


def pack(value: Any) -> bytes:
    """TypeError for what is no plain value."""
    arrays: list[bytes] = []
    told = dumps(_plain(value, arrays)).encode()
    return b"".join([HEAD.pack(MARK, len(told), sum(len(each) for each in arrays)), told, *arrays])


def _plain(value: Any, arrays: list[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is _ndarray or isinstance(value, np.generic):
        arrays.append(_tobytes(value) if type(value) is _ndarray else value.tobytes())
        return {"array": [value.dtype.str, list(value.shape), type(value) is not _ndarray]}
    if type(value) in (tuple, list, frozenset):
        return {type(value).__name__: [_plain(each, arrays) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[str(key), _plain(each, arrays)] for key, each in value.items()]}
    if RECORDS.get(type(value).__name__) is type(value):
        told = {each.name: _plain(getattr(value, each.name), arrays) for each in fields(value)}
        return {"record": [type(value).__name__, told]}
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def unpack(told: bytes, arrays: bytes) -> Any:
    """The value of a message. Junk, whatever is wrong with it."""
    try:
        return _value(loads(told), _Pieces(arrays))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise Junk(f"the message cannot be read: {type(error).__name__}") from None


def lengths(head: bytes) -> tuple[int, int]:
    """The bytes of the two parts that follow a head. Junk if it is none."""
    mark, told, arrays = HEAD.unpack(head)
    if mark != MARK or told + arrays > MOST:
        raise Junk("this is no head of a message")
    return told, arrays


class _Pieces:
    """The arrays' bytes, read from the front."""

    def __init__(self, arrays: bytes) -> None:
        self.arrays, self.at = arrays, 0

    def next(self, count: int) -> bytearray:
        if self.at + count > len(self.arrays):
            raise ValueError("an array is cut off")
        self.at += count
        return bytearray(self.arrays[self.at - count : self.at])


def _value(told: Any, pieces: _Pieces) -> Any:
    if not isinstance(told, dict):
        return told
    ((kind, inner),) = told.items()
    if kind == "array":
        dtype, shape, scalar = inner
        return _array(dtype, shape, scalar, pieces)
    if kind == "dict":
        return {key: _value(each, pieces) for key, each in inner}
    if kind == "record":
        return RECORDS[inner[0]](**{name: _value(each, pieces) for name, each in inner[1].items()})
    made: Any = {"tuple": tuple, "list": list, "frozenset": frozenset}[kind]
    return made(_value(each, pieces) for each in inner)


def _array(dtype: str, shape: list[int], scalar: bool, pieces: _Pieces) -> Any:
    kind = np.dtype(dtype)
    if kind.kind not in "biufc" or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("this is no array of numbers")
    array = _ndarray(tuple(shape), kind, pieces.next(kind.itemsize * math.prod(shape)))
    return array[()] if scalar else array


def read_exactly(descriptor: int, count: int) -> bytes:
    """So many bytes, waiting for them; fewer at the end."""
    found = bytearray()
    while len(found) < count:
        chunk = os.read(descriptor, min(count - len(found), 1 << 20))
        if not chunk:
            break
        found += chunk
    return bytes(found)


def write_all(descriptor: int, message: bytes) -> None:
    at = memoryview(message)
    while at:
        at = at[os.write(descriptor, at) :]
