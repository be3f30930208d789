"""Candidates that leave processes behind, write where they should not, or answer with what is no answer."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np

SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)", os.environ.get("GEMELOS_TEST_MARK", "")]


def right(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def leaves_a_session(X):
    subprocess.Popen(SLEEPER, start_new_session=True)
    os._exit(3)


def forks(X):
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            time.sleep(300)
            os._exit(0)
    os._exit(3)


def writes_everywhere(X):
    for descriptor in range(64):
        with suppress(OSError):
            os.write(descriptor, b"\x00junk\n" * 9)
    return right(X)


def objects(X):
    return right(X).astype(object)


def words(X):
    return np.full(X.shape, "a word")


def terabytes(X):
    return np.broadcast_to(np.zeros((), X.dtype), (2**20, 2**20))


def shouts(X):
    raise ValueError("\x1b[31m" + "x" * 100_000)
