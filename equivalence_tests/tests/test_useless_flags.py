"""Flags that would change nothing, and values that no check can use: one line, and exit status 2."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equivalence_tests.check_command import _letters, main
from equivalence_tests.laws_only import check_laws
from equivalence_tests.ops import OPS
from equivalence_tests.request import Request

CANDIDATES = Path(__file__).parent / "candidates"
SOFTMAX = [f"{CANDIDATES / 'numpy_ones.py'}:softmax", "--like", "softmax"]
LAWS = [*SOFTMAX, "--laws-only"]
PROGRAM = ["--command", f"{sys.executable} DIR_IN DIR_OUT", "--like", "softmax"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*SOFTMAX, "--sizes", "zz=3"], "--sizes: softmax has no 'zz', expected one of"),
        ([*SOFTMAX, "--sizes", "m=99999999999"], "--sizes: m=99999999999 came, expected at most 4096"),
        ([*SOFTMAX, "--inputs", "x.py:f"], "--inputs: it came with a function, where it changes nothing"),
        ([*SOFTMAX, "--options", "causal"], "--options: it came with a function"),
        ([*SOFTMAX, "--shapes", "X: n"], "--shapes: it came with a function"),
        ([*SOFTMAX, "--mask-true", "drops"], "--mask-true: softmax has no mask"),
        ([*SOFTMAX, "--backward", ""], "--backward: '' came"),
        ([*SOFTMAX, "--lead", "99"], "--lead: 99 came, expected at most 8"),
        ([*SOFTMAX, "--time-limit", "inf"], "--time-limit: inf came, expected seconds above 0 and at most 86400"),
        ([*SOFTMAX, "--time-limit", "1e30"], "--time-limit: 1e30 came"),
        ([*SOFTMAX, "--time-limit", "soon"], "--time-limit: soon came"),
        ([*SOFTMAX, "--out", __file__], "is a file, expected a folder"),
        ([*LAWS, "--strict"], "--strict: --laws-only does not read it"),
        ([*PROGRAM, "--layout", "bnhc"], "--layout: it came with --command"),
        ([*PROGRAM, "--lead", "1"], "--lead: it came with --command"),
        ([*PROGRAM, "--without", "axis"], "--without: it came with --command"),
        (["--command", "", "--like", "softmax"], "--command: '' came, expected a program"),
    ],
)
def test_what_would_be_ignored_is_refused_in_one_line(arguments, says, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert says in told.err
    assert len(told.err.splitlines()) == 1


def test_the_letters_of_an_op_are_those_that_its_cases_are_drawn_with():
    assert {"c", "e", "m", "n"} <= set(_letters("attention"))
    assert "d" not in _letters("attention")
    assert {"H", "c", "d"} <= set(_letters("multi_head_attention"))


def test_operands_may_have_fixed_sizes_alone():
    assert check_laws(lambda X: (2 * X, None), lambda dY, _: 2 * dY, shapes="X: 5", cases=2).passed


def test_a_program_may_say_what_it_always_uses():
    asked = Request(f"{sys.executable} DIR_IN DIR_OUT", "attention", command=True, options=("causal!", "mask"))
    command = asked.candidate().implementation.command
    assert (command.always, command.offered) == (("causal",), ("causal", "mask"))
    from equivalence_tests.checks import draw_case
    from equivalence_tests.implementations import NotOffered

    taken = []
    for index in range(60):
        case = draw_case(OPS["attention"], 0, index)
        try:
            command.taken(OPS["attention"], case)
        except NotOffered:
            continue
        taken.append(case.options.get("causal"))
    assert taken
    assert all(taken)
