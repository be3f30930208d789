"""Whatever a learner's file does, it is said in one clear line within its time limit, and no progress is lost."""

import os
import time

import pytest
from rich.console import Console

from equivalence_tests.dojo import progress
from equivalence_tests.dojo.folder import kata_named, path_of, start
from equivalence_tests.dojo.judging import judge, read_answer, unwatched
from equivalence_tests.dojo.matrix import judged_text
from equivalence_tests.dojo.process import judge_file
from equivalence_tests.dojo.progress import State
from equivalence_tests.dojo.session import Session
from equivalence_tests.dojo.sources import source_of
from equivalence_tests.dojo.verdict import Verdict
from equivalence_tests.mistakes import quiet

FORWARD = """
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


"""
RIGHT = "def softmax_backward(dA, cache):\n    return cache * (dA - (cache * dA).sum(-1, keepdims=True))\n"
LIMIT = 1.5


def backward(*lines):
    return FORWARD + "def softmax_backward(dA, cache):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.fixture(scope="module")
def kata():
    return kata_named("softmax_backward", "en")


@pytest.fixture
def judged(tmp_path, kata):
    """What is said of a text, by the worker's own process or, where nothing hangs or ends it, by this one."""

    def judge_text(text, own_process=True):
        path = tmp_path / kata.file
        if isinstance(text, bytes):
            path.write_bytes(text)
        elif text is not None:
            path.write_text(text, encoding="utf-8")
        began = time.monotonic()
        verdict = judge_file(kata, path, LIMIT) if own_process else judged_here(kata, path)
        assert time.monotonic() - began < 4 * LIMIT + 10
        for language in ("en", "es"):
            assert "\n" not in verdict.say(language)
            assert "Traceback" not in verdict.say(language)
        return verdict

    return judge_text


def judged_here(kata, path):
    answer = read_answer(kata, path)
    with quiet():
        return answer if isinstance(answer, Verdict) else judge(answer, unwatched(path), lambda _: None)


NEEDS_A_PROCESS = (
    "an endless loop",
    "an endless loop on import",
    "a loop that swallows everything",
    "sleeps",
    "os._exit",
    "a signal",
    "input",
)


BAD = {
    "syntax error": (FORWARD + "def softmax_backward(dA, cache)\n    return dA\n", "syntax", "line 11"),
    "indentation": (FORWARD + "def softmax_backward(dA, cache):\nreturn dA\n", "syntax", "line 12"),
    "no Python at all": (b"\x00\x01", "syntax", "line 1"),
    "not UTF-8": ("# máscara\n".encode("latin-1"), "not_utf8", "line 1"),
    "nothing": ("", "no_function", "no function softmax"),
    "no file": (None, "no_file", "start"),
    "the stub": (backward("raise NotImplementedError"), "unwritten", "line 12"),
    "a gap": (backward("A = cache", "return A * ..."), "unwritten", "line 13"),
    "an endless loop": (backward("while True:", "    pass"), "hangs", "line 1"),
    "an endless loop on import": ("while True:\n    pass\n", "hangs", "line 1"),
    "sleeps": (backward("import time", "time.sleep(60)", "return dA"), "hangs", "line 13"),
    "a loop that swallows everything": (
        backward("while True:", "    try:", "        pass", "    except BaseException:", "        pass"),
        "hangs",
        "line 1",
    ),
    "sys.exit": (backward("import sys", "sys.exit(0)"), "exits", "line 13"),
    "exit on import": ("raise SystemExit(3)\n", "exits", "line 1"),
    "os._exit": (backward("import os", "os._exit(0)"), "ends_process", "exit status 0"),
    "a signal": (backward("import os", "os.kill(os.getpid(), 9)"), "ends_process", "SIGKILL"),
    "None": (backward("pass"), "returns", "returned None"),
    "two gradients": (backward("return dA, dA"), "returns", "to return dX"),
    "a tuple of one": (backward("return (dA,)"), "returns", "to return dX"),
    "a string": (backward('return "dX"'), "returns", "returned str"),
    "no pair": (FORWARD.replace("return A, A", "return A") + RIGHT, "returns", "(A, cache)"),
    "another shape": (backward("return dA.sum(-1)"), "wrong", "shape"),
    "an exception": (backward("return dA / cache['A']"), "raises", "line 12"),
    "an exception on import": ("import numpy as np\nnp.no_such_thing\n", "raises", "line 2"),
    "writes into its upstream gradient": (backward("dA *= cache", "return dA"), "writes", "line 12 writes"),
    "recursion": (backward("return softmax_backward(dA, cache)"), "recursion", "line 12"),
    "memory": (backward("return [0] * 10**11"), "memory", "line 12"),
    "another signature": (FORWARD + "def softmax_backward():\n    return 0\n", "raises_elsewhere", "softmax raises"),
    "a renamed function": (FORWARD + RIGHT.replace("softmax_backward", "backward"), "no_function", "softmax_backward"),
    "no function": (FORWARD + "softmax_backward = 3\n", "no_function", "softmax_backward"),
    "input": (backward("return input()"), "raises", "EOFError"),
    "the reference's own": ("from reference_numpy import softmax, softmax_backward\n", "takes", "softmax_backward"),
    "the reference's own, all": ("from reference_numpy import *\n", "takes", "*"),
    "the reference's own, as an attribute": (
        "import reference_numpy as r\n" + backward("return r.softmax_backward(dA, (cache, -1))"),
        "takes",
        "softmax_backward",
    ),
    "autograd": ("import torch\n" + FORWARD + RIGHT, "takes", "torch"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_said_in_one_line(judged, name):
    text, code, says = BAD[name]
    verdict = judged(text, name in NEEDS_A_PROCESS)
    assert verdict.code == code, verdict
    assert says.casefold() in verdict.say("en").casefold()


def test_a_syntax_error_shows_the_line_and_the_place(judged):
    verdict = judged(BAD["syntax error"][0], own_process=False)
    assert verdict.excerpt[0].endswith("| def softmax_backward(dA, cache)")
    assert verdict.excerpt[1].rstrip().endswith("^")


def test_a_print_storm_is_counted_and_its_first_lines_are_shown(judged):
    verdict = judged(backward("for i in range(200):", "    print('storm', i)", "return -dA"))
    assert verdict.code == "wrong"
    assert verdict.printed["bytes"] > 10_000
    assert verdict.printed["lines"][:2] == ["storm 0", "storm 1"]
    assert len(verdict.printed["lines"]) == 20
    assert verdict.printed["more"]


def test_small_prints_are_those_of_the_case_that_is_shown(judged):
    verdict = judged(backward("print(dA.tolist())", "return dA"))
    assert verdict.printed["lines"] == [str(verdict.example.given["dA"])]


def test_prints_do_not_make_an_answer_wrong(judged):
    verdict = judged(FORWARD + RIGHT.replace("    return", "    print('here')\n    return"))
    assert verdict.passed
    assert verdict.printed["lines"] == ["here"]


def test_a_right_answer_passes_with_a_byte_order_mark(judged):
    assert judged(("\ufeff" + FORWARD + RIGHT).encode(), own_process=False).passed


def test_what_stands_beside_the_file_may_be_imported(judged, tmp_path):
    (tmp_path / "helper_of_mine.py").write_text("def inner(A, dA):\n    return (A * dA).sum(-1, keepdims=True)\n")
    text = "from helper_of_mine import inner\n" + backward("return cache * (dA - inner(cache, dA))")
    assert judged(text, own_process=False).passed


def test_a_bad_file_loses_no_progress(tmp_path, kata):

    start(tmp_path, "es")
    progress.update(tmp_path, lambda before: before.with_state("softmax", State(True, 4, 1)))
    with open(os.devnull, "w") as nowhere:
        console = Console(file=nowhere)
        session = Session(tmp_path, "es", console, console, LIMIT)
        for name in ("os._exit", "an endless loop", "syntax error"):
            path_of(tmp_path, kata).write_text(BAD[name][0], encoding="utf-8")
            session.check(kata)
    kept = progress.read(tmp_path)
    assert kept.of("softmax") == State(True, 4, 1)
    assert kept.of(kata.name).attempts == 3
    assert "línea" in kept.of(kata.name).last["es"]


@pytest.mark.parametrize(
    "refusal",
    [
        "if mask is not None:",
        "if mask is not None and causal:",
        "if Q.ndim != 2:",
        "if n != m:",
        "if n:",
    ],
)
def test_a_kata_may_refuse_nothing(refusal):
    """A check leaves out what a candidate refuses; an answer to a kata has to take every case."""
    attention = kata_named("attention", "en")
    line = "    allowed = np.ones((n, m), bool)\n"
    text = source_of(attention).solution.replace(line, f"{line}    {refusal}\n        raise ValueError('not this')\n")
    with quiet():
        verdict = judged_text(attention, text, "tried")
    assert (verdict.passed, verdict.code) == (False, "raises")
    assert "ValueError: not this" in verdict.say("en")
