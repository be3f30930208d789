"""Candidates that cheat or err oddly. None of them is to pass, and none is to take the check down."""

import os
import sys
import time

import numpy as np

calls = 0
buffers: dict = {}
answers: dict = {}


def right(X, axis=-1):
    e = np.exp(X - X.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def hangs(X):
    time.sleep(1000)


def exits(X):
    os._exit(3)


def ends_with_0(X):
    os._exit(0)


def system_exit(X):
    sys.exit(0)


def crashes(X):
    os.abort()


def prints(X, axis=-1):
    print("x" * 1_000_000)
    return right(X, axis)


def writes_to_the_descriptor(X, axis=-1):
    os.write(1, b"x" * 100_000)
    return right(X, axis) * 2


def raises(X, axis=-1):
    raise KeyError("nothing here")


def interrupts(X, axis=-1):
    raise KeyboardInterrupt


def changes_its_input(X, axis=-1):
    X -= X.max(axis, keepdims=True)
    return right(X, axis)


def changes_its_input_where_it_may(X, axis=-1):
    Y = right(X, axis)
    if X.flags.writeable:
        X[...] = 0
    return Y


def returns_its_input(X, axis=-1):
    return X


def same_buffer_twice(X, axis=-1):
    Y = right(X, axis)
    buffer = buffers.setdefault((Y.shape, Y.dtype), np.empty_like(Y))
    buffer[...] = Y
    return buffer


def unwritten_memory(X, axis=-1):
    return np.empty_like(X)


def nan_everywhere(X, axis=-1):
    return np.full_like(X, np.nan)


def wrong_dtype(X, axis=-1):
    return right(X, axis).astype(np.float16)


def always_double(X, axis=-1):
    return right(X.astype(np.float64), axis)


def python_list(X, axis=-1):
    return right(X, axis).tolist()


def nothing(X, axis=-1):
    return None


def remembers_by_shape(X, axis=-1):
    return answers.setdefault((X.shape, axis), right(X, axis))


def wrong_after_300_calls(X, axis=-1):
    global calls
    calls += 1
    return right(X, axis) * (1.0 if calls < 300 else 1.5)


def every_other_call_rounds_up(X, axis=-1):
    global calls
    calls += 1
    return right(X, axis) * (1.0 + (calls % 2) * 2.0**-52)


def depends_on_time(X, axis=-1):
    return right(X, axis) * (1.0 + (time.perf_counter_ns() % 3) * 2.0**-52)


def a_view_of_its_input(X, axis=-1):
    Y = right(X, axis)
    if X.flags.writeable:
        X[...] = Y
        return X[...]
    return Y
