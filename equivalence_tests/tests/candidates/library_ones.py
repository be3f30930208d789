"""A softmax over the arrays of another library."""

import array_library as al


def softmax(x):
    e = al.exp(x.minus(al.largest(x)))
    return e.over(al.total(e))


def softmax_gradient(dA, x):
    A = softmax(x)
    return A.times(dA.minus(al.total(A.times(dA))))


def softmax_without_sum(dA, x):
    return softmax(x).times(dA)
