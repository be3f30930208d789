"""A small array library that speaks DLPack and nothing of NumPy's own protocols."""

import numpy as np


class Tensor:
    __array_ufunc__ = None

    def __init__(self, numbers):
        self._numbers = numbers

    def __dlpack__(self, **options):
        return self._numbers.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._numbers.__dlpack_device__()

    def minus(self, other):
        return Tensor(self._numbers - other._numbers)

    def over(self, other):
        return Tensor(self._numbers / other._numbers)


def from_dlpack(x):
    return Tensor(np.from_dlpack(x))


def exp(x):
    return Tensor(np.exp(x._numbers))


def largest(x):
    return Tensor(x._numbers.max(-1, keepdims=True))


def total(x):
    return Tensor(x._numbers.sum(-1, keepdims=True))
