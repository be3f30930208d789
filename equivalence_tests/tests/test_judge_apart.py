"""The judge and the candidate live in two processes: what the candidate does to NumPy or Python changes no verdict."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import pytest

from equivalence_tests import check_process
from equivalence_tests.cases import Case
from equivalence_tests.check_process import check_in_process
from equivalence_tests.checking import no_watch
from equivalence_tests.checks import draw_case
from equivalence_tests.observe import observe
from equivalence_tests.ops import OPS
from equivalence_tests.probing.__main__ import main as probe_main
from equivalence_tests.process import Ended
from equivalence_tests.remote import Remote, candidate_there
from equivalence_tests.request import Request

HERE = Path(__file__).parent / "candidates"
PATCHING = HERE / "patching_ones.py"
COUNT = len(re.findall(r'^    "[^"]+": \(', PATCHING.read_text(), re.MULTILINE))


def request(spec, like="softmax", out="", **candidate):
    told = {"spec": f"{HERE / spec}", "like": like, "options": [], "without": [], **candidate}
    settings = {"cases": 8, "seed": 0, "dtypes": None, "sizes": {}, "strict": False, "accept": [], "trace": False}
    return {"candidate": told, "laws_only": False, "settings": settings, "out": str(out)}


@pytest.mark.parametrize("patch", ["np.abs is the real part", "np.abs is 0"])
def test_a_patched_numpy_makes_no_wrong_softmax_right(patch, monkeypatch, tmp_path):
    monkeypatch.setenv("GEMELOS_TEST_PATCH", patch)
    report = check_in_process(request("patching_ones.py:half", out=tmp_path), 10.0, no_watch)
    assert report.verdict == "wrong"
    assert report.findings[0].numbers["named"] == "1/2"


def test_no_patch_of_numpy_or_python_makes_half_a_softmax_right():
    assert COUNT >= 24
    case = next(case for i in range(20) if not (case := draw_case(OPS["softmax"], 0, i)).hard)
    asked = Request(f"{PATCHING}:half_with_the_next_patch", "softmax", without=("axis",))
    case = Case(case.operands, {}, case.upstream)
    with candidate_there(asked, 10.0, no_watch) as (candidate, _):
        for _ in range(COUNT):
            assert observe(candidate.implementation, candidate.op, case, "float64").wrong


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("leaves_a_session", "ends_process"),
        ("forks", "ends_process"),
        ("writes_everywhere", "writes_rubbish"),
        ("terabytes", "wrong_dtype"),
    ],
)
def test_what_a_hostile_candidate_does_is_wrong_and_leaves_nothing(name, code, monkeypatch, tmp_path):
    monkeypatch.setenv("GEMELOS_TEST_MARK", mark := f"mark-{tmp_path}")
    monkeypatch.setattr(check_process, "_fails", lambda *_: True)  # it would do the same once more
    began = time.monotonic()
    report = check_in_process(request(f"hostile_ones.py:{name}", out=tmp_path), 10.0, no_watch)
    assert (report.verdict, report.findings[0].code) == ("wrong", code)
    assert time.monotonic() - began < 30
    assert mark not in commands()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("objects", "of dtype object"),
        ("words", "of dtype str"),
        ("terabytes", "1099511627776 elements"),
        ("shouts", ""),
    ],
)
def test_what_is_no_answer_is_wrong_in_a_line_that_a_terminal_can_show(name, says):
    case = next(case for i in range(20) if not (case := draw_case(OPS["softmax"], 0, i)).hard)
    with candidate_there(Request(f"{HERE / 'hostile_ones.py'}:{name}", "softmax"), 10.0, no_watch) as (candidate, _):
        wrong = observe(candidate.implementation, candidate.op, Case(case.operands, {}, case.upstream), "float64").wrong
    assert says in wrong
    assert 0 < len(wrong) < 400
    assert wrong.isprintable()


def commands() -> str:
    """The command lines of every process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text(errors="replace"))
    return "\n".join(found)


def test_a_counterexample_that_starts_a_session_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setenv("GEMELOS_TEST_MARK", mark := f"mark-{tmp_path}")
    script = tmp_path / "script.py"
    code = "hostile_ones.leaves_a_session(0)"
    script.write_text(f"import sys; sys.path.insert(0, {str(HERE)!r}); import hostile_ones; {code}")
    began = time.monotonic()
    assert check_process._fails(str(script), 10.0)
    assert time.monotonic() - began < 30
    assert mark not in commands()


def test_an_import_that_sleeps_takes_no_longer_than_a_call_may():
    began = time.monotonic()
    report = check_in_process(request("sleepy_one.py:softmax"), 1.0, no_watch)
    assert report.findings[0].code == "hangs"
    assert report.findings[0].numbers == {"seconds": 1.0, "at": "import"}
    assert time.monotonic() - began < 6.0  # six times the limit is for an import that works


@pytest.mark.parametrize(
    ("function", "says"), [("os:abort", "ends the process (SIGABRT"), ("SLEEPY", "no answer within 1 s")]
)
def test_a_function_that_takes_its_process_down_cannot_be_probed(function, says, capsys):
    function = function.replace("SLEEPY", f"{HERE / 'sleepy_one.py'}:softmax")
    assert probe_main([function, "--like", "softmax", "--time-limit", "1"]) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def answering(value):
    """The other end of a candidate that answers every request with this."""
    there = Remote(None, 0, 0, None, 1.0)
    there.ask = lambda name, *values: value
    return there


@pytest.mark.parametrize(
    "junk", [7, "text", [["no_such_code", "", {}, True]], [["own_line", "", {}, True]], [[1]], None]
)
def test_a_note_that_cannot_be_said_is_dropped(junk):
    assert answering(junk).notes() == []


def test_a_note_cannot_move_the_cursor():
    (note,) = answering([["gradients_not_returned", "", {"names": "dX\x1b[2J"}, True]]).notes()
    assert "\x1b" not in note.say()


@pytest.mark.parametrize("junk", ["in_place", ["no_such_rule", "", ""], [1, 2, 3], {"code": "in_place"}])
def test_conduct_that_is_no_rule_is_rubbish(junk):
    with pytest.raises(Ended) as ended:
        answering(junk).conduct(None, OPS["softmax"], None, {}, "float32")
    assert ended.value.finding.code == "writes_rubbish"
