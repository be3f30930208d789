"""Threads: as many as BLAS has been given, each of them running BLAS alone. NumPy releases the GIL inside its loops."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from reference_numpy._check import Array

Job = Callable[[], object]
CHUNK = 1 << 16  # elements that an elementwise loop handles at a time: a few such arrays fit in a core's own cache
PARALLEL = 1 << 18  # elements below which threads cost more than they bring
_local = threading.local()


@cache
def _blas() -> ThreadpoolController:
    """One controller, kept: to make one takes longer than many a call here."""
    return ThreadpoolController().select(user_api="blas")


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "gemelos")


def _after_fork() -> None:
    """Threads do not survive a fork, and who held the pool is not there to give it back."""
    global _one
    _pool.cache_clear()
    _one = threading.Lock()


# BLAS has one number of threads for the whole process: two callers would put back what they found in any order.
_one = threading.Lock()
os.register_at_fork(after_in_child=_after_fork)


def count(worth: int = PARALLEL) -> int:
    """The threads at hand for so many elements: BLAS's own number (OMP_NUM_THREADS, threadpoolctl), 1 in a job."""
    if worth < PARALLEL or getattr(_local, "inside", False):
        return 1
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


def scratch(name: str, size: int, dtype: np.dtype[Any]) -> Array:
    """Memory of the calling thread for `size` elements, unwritten; the next call under this name gets the same."""
    kept: dict[tuple[str, str], Array] = _local.__dict__.setdefault("scratch", {})
    key = name, dtype.char
    if key not in kept or kept[key].size < size:
        kept[key] = np.empty(size, dtype)
    return kept[key][:size]


def run(jobs: Iterable[Job], worth: int = PARALLEL) -> None:
    """Call every job once. Whoever is free takes the next one; inside a job there is nobody but the caller.

    Jobs write to places of their own, so their order changes no result. worth: how many elements they handle in all; a few
    are not worth a thread. The first error is raised, when all have stopped.
    """
    todo = list(jobs)
    if getattr(_local, "inside", False):
        for job in todo:
            job()
        return
    threads = min(count(worth), len(todo))
    if threads < 2 and worth >= PARALLEL:  # one job, which may use threads itself
        with np.errstate(over="ignore", invalid="ignore"):
            for job in todo:
                job()
        return
    if threads < 2 or not _one.acquire(blocking=False):  # another thread of the user's has the pool
        _work(iter(todo))
        return
    try:
        _share(todo, threads)
    finally:
        _one.release()


def _share(todo: list[Job], threads: int) -> None:
    queue, others = iter(todo), list[Future[None]]()
    with _blas().limit(limits=1):
        try:
            for _ in range(threads - 1):
                others.append(_pool(threads - 1).submit(_work, queue))
            _work(queue)
        finally:
            _finish(queue, others)
    for other in others:
        if (error := other.exception()) is not None:
            raise error


def _finish(queue: Iterator[Job], others: list[Future[None]]) -> None:
    """After an error or Ctrl-C nobody begins another job; and nobody may still write when the caller goes on.

    So Ctrl-C ends no waiting: it is raised afterwards.
    """
    came: BaseException | None = None
    while True:
        try:
            for _ in queue:
                pass
            wait(others)
            break
        except BaseException as error:
            came = error
    if came is not None:
        raise came


def _work(queue: Iterator[Job]) -> None:
    _local.inside = True
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            for job in queue:
                job()
    finally:
        _local.inside = False


def chunks(rows: int, width: int) -> list[slice]:
    """Slices of so many rows of this width, each of about CHUNK elements; one for a job."""
    step = max(1, CHUNK // max(width, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def over_rows(X: Array, work: Callable[[slice], object]) -> None:
    """work(slice) over all rows of X, (rows, width), in cache-sized chunks, on threads if it is worth it."""
    run([partial(work, piece) for piece in chunks(*X.shape)], X.size)


def parts(total: int, worth: int) -> list[slice]:
    """`total` things of so many elements in as many equal shares as there are threads."""
    shares = max(1, min(count(worth), total))
    edges = [total * share // shares for share in range(shares + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
