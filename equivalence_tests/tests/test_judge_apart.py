"""The judge and the candidate live in two processes: what the candidate does to NumPy or Python changes no verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from equivalence_tests.cases import Case
from equivalence_tests.check_process import check_in_process
from equivalence_tests.checking import no_watch
from equivalence_tests.checks import draw_case
from equivalence_tests.observe import observe
from equivalence_tests.ops import OPS
from equivalence_tests.remote import candidate_there
from equivalence_tests.request import Request

HERE = Path(__file__).parent / "candidates"
PATCHING = HERE / "patching_ones.py"
COUNT = len(re.findall(r'^    "[^"]+": \(', PATCHING.read_text(), re.MULTILINE))


def request(spec, like="softmax", out="", **candidate):
    told = {"spec": f"{HERE / spec}", "like": like, "options": [], "without": [], **candidate}
    settings = {"cases": 8, "seed": 0, "dtypes": None, "sizes": {}, "strict": False}
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
