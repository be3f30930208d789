"""A softmax over the arrays of another library."""

import array_library as al


def softmax(x):
    e = al.exp(x.minus(al.largest(x)))
    return e.over(al.total(e))
