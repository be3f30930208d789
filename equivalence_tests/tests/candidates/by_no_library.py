"""It imports nothing at all."""


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def square(x):
    """Any library's arrays will do."""
    return x * (x > 0)
