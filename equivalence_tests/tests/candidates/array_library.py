"""A small array library that speaks DLPack and nothing of NumPy's own protocols. It takes no strided arrays, and compiles
each operation for each shape."""

import numpy as np

compiled = set()


class Tensor:
    __array_ufunc__ = None

    def __init__(self, numbers):
        self._numbers = numbers

    def __dlpack__(self, **options):
        return self._numbers.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._numbers.__dlpack_device__()

    def minus(self, other):
        return _run("minus", np.subtract, self, other)

    def times(self, other):
        return _run("times", np.multiply, self, other)

    def over(self, other):
        return _run("over", np.divide, self, other)


def from_dlpack(x):
    numbers = np.from_dlpack(x)
    if not numbers.flags.c_contiguous:
        raise RuntimeError("UNIMPLEMENTED: only arrays without strides")
    return Tensor(numbers)


def exp(x):
    return _run("exp", np.exp, x)


def largest(x):
    return _run("largest", lambda numbers: numbers.max(-1, keepdims=True), x)


def total(x):
    return _run("total", lambda numbers: numbers.sum(-1, keepdims=True), x)


def _run(name, function, *operands):
    numbers = [x._numbers for x in operands]
    compiled.add((name, *(x.shape for x in numbers)))
    return Tensor(function(*numbers))
