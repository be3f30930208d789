"""Arrays in .npy files, read without trust: nothing in them is ever executed, and no file may lie about its size."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import Tensor

BFLOAT16 = np.dtype("V2")  # what NumPy writes of ml_dtypes' bfloat16: two bytes that it has no name for
READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy(file: BinaryIO, size: int) -> Tensor:
    """The array in an open .npy file of `size` bytes, in this machine's byte order, and the name of its dtype.

    bfloat16 (two bytes without a name) comes as float32 numbers. ValueError, one line, for what is no such file, is cut
    short or longer than its header says, or holds anything but numbers and truth values.
    """
    shape, fortran, dtype = _header(file)
    expected = math.prod(shape) * dtype.itemsize
    held = size - file.tell()
    if held != expected:
        raise ValueError(f"holds {held} bytes of numbers, its shape {shape} of {dtype} takes {expected}")
    data = file.read(expected)
    if len(data) != expected:
        raise ValueError(f"ends after {len(data)} of {expected} bytes of numbers")
    array: Array = np.ndarray(shape, dtype, data, order="F" if fortran else "C")
    if dtype == BFLOAT16:
        bits = np.ascontiguousarray(array).view("<u2").reshape(shape).astype(np.uint32) << np.uint32(16)
        return Tensor(bits.view(np.float32), "bfloat16")
    native = array.astype(dtype.newbyteorder("="), order="C")
    return Tensor(native, str(native.dtype))


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ValueError("is no .npy file") from None
    if version not in READERS:
        raise ValueError(f"is of .npy version {version[0]}.{version[1]}, expected 1.0 or 2.0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = READERS[version](file)
    except Exception:  # the header is a Python literal, and may be any rubbish
        raise ValueError("has a header that cannot be read") from None
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are never read: expected numbers")
    if dtype.kind not in "biufc" and dtype != BFLOAT16:
        raise ValueError(f"holds {dtype}, expected numbers")
    if min(shape, default=0) < 0:
        raise ValueError(f"has the shape {shape}")
    return shape, fortran, dtype


def write_npy(path: Path, value: Any, dtype: str) -> None:
    """What a program in any language finds easy to read: version 1.0, this machine's byte order, C order, four dtypes.

    float64 arrays are written in `dtype` (bfloat16 as float32, which holds the same numbers), integers as int64, truth
    values as bool; a number has no axes, and one that is no integer is float64.
    """
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    elif array.dtype == np.float64 and isinstance(value, np.ndarray):
        array = array.astype("float32" if dtype == "bfloat16" else dtype)
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
