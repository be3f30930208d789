"""What the fast twin keeps inside is not to be seen outside: by other threads, after errors, in a fork, in memory."""

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.checks import agreement, draw_case
from equivalence_tests.implementations import load
from equivalence_tests.ops import OPS
from equivalence_tests.tests.fast_settings import TINY, blas_threads, fused, set_to
from equivalence_tests.tests.test_fast import bits, work
from reference_numpy import GPTConfig, RNNConfig, fast, init_gpt, init_rnn
from reference_numpy.fast import _rows, _threads, _tiles

ROOT = Path(__file__).parents[2]
DOUBLE = PRECISIONS["float64"]


@pytest.mark.parametrize("op", ["attention", "gpt_loss"])
def test_two_threads_of_the_user_get_the_right_answers(op):
    """Each on cases of its own, at the same time; BLAS has its threads back in the end."""
    implementation = fused(fast) if op == "gpt_loss" else load("reference_numpy.fast")
    cases = [draw_case(OPS[op], 8, i).rounded(DOUBLE) for i in range(6)]
    exact = [OPS[op].exact(case, DOUBLE) for case in cases]
    start = threading.Barrier(2)

    def user(number):
        start.wait(60)
        wrong = []
        for _ in range(10):
            for case, truth in list(zip(cases, exact, strict=True))[number::2]:
                verdicts = agreement(implementation, OPS[op], case, truth, "float64")
                wrong += [verdict.wrong for verdict in verdicts.values() if verdict.wrong]
        return wrong

    with set_to(TINY, 3):
        with ThreadPoolExecutor(2) as users:
            assert [each.result(120) for each in [users.submit(user, i) for i in range(2)]] == [[], []]
        assert blas_threads() == [3] * len(blas_threads())


def python(code, **environment):
    """What a fresh process prints, with threads of its own number and no test around it."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


OVERLAP = """
import threading
from threadpoolctl import threadpool_info
from reference_numpy.fast import _threads
first_runs, second_runs, first_is_done = (threading.Event() for _ in range(3))
def first():
    _threads.run([lambda: first_runs.set() or second_runs.wait(60), lambda: None])
    first_is_done.set()
def second():
    first_runs.wait(60)
    _threads.run([lambda: second_runs.set() or first_is_done.wait(60), lambda: None])
before = threadpool_info()
_threads.count = lambda *_: 3  # as both see it who ask before either begins
users = [threading.Thread(target=each) for each in (first, second)]
for each in users:
    each.start()
for each in users:
    each.join(60)
print(threadpool_info() == before)
"""


def test_calls_that_overlap_leave_blas_its_threads():
    """The second begins while the first runs and ends after it: it must not put back the number that it found."""
    assert python(OVERLAP, OMP_NUM_THREADS="3", OPENBLAS_NUM_THREADS="3") == "True\n"


def raising(error, right, where):
    """The right function, which raises at its second call, in the caller's thread or in another one."""
    calls = []

    def broken(*args):
        caller = threading.current_thread() is threading.main_thread()
        if caller == (where == "caller"):
            calls.append(caller)
            if len(calls) == 2:
                raise error
        elif not calls:
            time.sleep(0.01)  # the others' turn: the caller alone would be done before they are awake
        return right(*args)

    return broken


def again(call):
    for _ in range(50):  # a worker may come too late for a second job
        call()


@pytest.mark.parametrize("where", ["caller", "worker"])
@pytest.mark.parametrize(
    "error", [MemoryError(), KeyboardInterrupt(), ValueError("no")], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize(
    ("module", "function", "name"),
    [
        (_tiles, "forward", "attention"),
        (_tiles, "backward", "attention"),
        (_rows, "gelu", "gelu"),
        (_rows, "gelu", "gpt_loss_gradients, dropped"),
        (_tiles, "backward", "gpt_loss_gradients, dropped"),
    ],
)
def test_after_an_error_the_next_call_is_right(monkeypatch, module, function, name, error, where):
    with set_to(TINY, 3):
        call, right = work()[name], bits(work()[name]())
        with monkeypatch.context() as broken:
            broken.setattr(module, function, raising(error, getattr(module, function), where))
            with pytest.raises(type(error)) as raised:
                again(call)
            assert raised.value is error
        assert blas_threads() == [3] * len(blas_threads())
        assert bits(call()) == right
        assert all(bits(each()) == bits(each()) for each in work(n=6).values())


@pytest.mark.parametrize("times", [1, 3])
def test_nobody_writes_any_more_once_ctrl_c_is_raised(times):
    """It comes while the caller waits for the others, where a caller mostly is; once, or again and again."""
    done, main, both = [], threading.main_thread(), threading.Barrier(2)

    def job():
        both.wait(60)
        if threading.current_thread() is main:
            return
        for _ in range(times):
            time.sleep(0.1)
            signal.pthread_kill(main.ident, signal.SIGINT)
        time.sleep(0.1)
        done.append(True)

    with set_to({}, 2):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                _threads.run([job, job])
            assert done == [True]
        finally:
            signal.signal(signal.SIGINT, before)
        assert blas_threads() == [2] * len(blas_threads())


FORK = """
import os, threading, warnings
import numpy as np
from reference_numpy import fast
from reference_numpy.fast import _threads
warnings.simplefilter("ignore")  # newer Pythons warn of every fork beside threads
Q, K, V = np.random.default_rng(0).standard_normal((3, 4, 300, 16))
def answer():
    C, cache = fast.attention(Q, K, V, causal=True)
    return b"".join(each.tobytes() for each in (C, *fast.attention_backward(C, cache)))
right = answer()
def child():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if answer() == right and not _threads._one.locked() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
codes = [child() for _ in range(3)]
stop = threading.Event()
def busy():
    while not stop.is_set():
        answer()
other = threading.Thread(target=busy)
other.start()
codes += [child() for _ in range(10)]  # while another thread is inside
stop.set()
other.join()
print(codes, answer() == right)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_computes_too():
    assert python(FORK) == f"{[0] * 13} True\n"


PEAK = """
import resource, sys
import numpy as np
from reference_numpy import fast
from reference_numpy.fast import _threads, _tiles
def attend(n, c=64):
    Q, K, V, dC = np.random.default_rng(0).standard_normal((4, n, c), np.float32)
    C, cache = fast.attention(Q, K, V, causal=True)
    return fast.attention_backward(dC, cache)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
attend(1024)  # what Python, BLAS and the tiles take whatever n is
before = peak()
attend(8192)
print(peak() - before, _threads.count())
"""


def test_attention_takes_memory_of_its_operands_size_and_no_more():
    """n = 8192, one head: the operands and answers, for each thread what it keeps of them, and nothing of (n, n).

    Of (n, c) there are Q, K, V, dC, C, dQ, dK, dV: 8. A thread has dK, dV, and K, V with a column of its own: 4. Behind
    them come the sums dK, dV, and two more are left to the allocator: 4.
    """
    grown, threads = map(int, python(PEAK).split())
    n, c = 8192, 64
    assert grown <= (12 + 4 * threads) * n * (c + 1) * 4 < n * n


def peak_of(call):
    """Bytes of arrays that exist at the same time at most."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("causal", [False, True])
def test_twice_the_tokens_take_twice_the_memory_of_attention(causal):
    """a + b n at n = 2000 and 4000, and with (n, n) anywhere it would be four times as much."""

    def peak(n):
        Q, K, V, dC = np.random.default_rng(0).standard_normal((4, n, 8), np.float32)
        return peak_of(lambda: fast.attention_backward(dC, fast.attention(Q, K, V, causal=causal)[1]))

    with set_to({"_tiles.QUERIES": 64, "_tiles.KEYS": 64}, 1):
        assert peak(4000) <= 2 * peak(2000)


@pytest.mark.parametrize("model", ["gpt", "rnn"])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_loss_never_holds_the_logits_of_all_rows(model, at_once):
    """(N, vocabulary) in float32 against the most that exists at any time, beside the gradients that are asked for."""
    N, v, rng = 2048, 4000, np.random.default_rng(0)
    config = GPTConfig(v, 64, 4, 1, 1, 4, 1) if model == "gpt" else RNNConfig(v, 4)
    params = (init_gpt if model == "gpt" else init_rnn)(config, rng)
    ids, targets = rng.integers(0, v, (2, N // 64, 64))
    name = "gpt_loss" if model == "gpt" else "generative_rnn_loss"
    operands = params, ids, targets, config

    def call():
        if at_once:
            return getattr(fast, f"{name}_gradients")(1.0, *operands)
        loss, cache = getattr(fast, name)(*operands)
        return loss, getattr(fast, f"{name}_backward")(1.0, cache)

    with set_to({"_head.LOGITS": N * v // 8, "_small.FEW": -1}, 1):
        assert peak_of(call) < N * v * 4 / 2
