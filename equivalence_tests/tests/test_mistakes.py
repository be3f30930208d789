"""Every known mistake is caught, and by what."""

import inspect
import io
import json

import pytest
from rich.console import Console

import reference_numpy
from equivalence_tests.checks import find_fault
from equivalence_tests.implementations import load
from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES, Mistake, as_implementation, command, matrix, quiet
from equivalence_tests.ops import OPS
from equivalence_tests.parts import PARTS

CASES = 200

# The rows of the list of known mistakes that concern the ops of the table.
LISTED = (
    "M002 M003 M005 M006 M008 M009 M011 M012 M014 M015 M017 M018 M020 M021 M023 M024 M026 M027 M029 M030 M032 M033 "
    "M035 M036 M038 M039 M041 M042 M044 M045 M047 M048 M050 M051 M053 M054 M056 M057 M059 M060 M062 M063 M066 M068 "
    "M069 M071 M072 M074 M078 M080 M081 M083 M084 M086b M087 M089 M090 M092 M093 M095 M096 M098 M099 M101 M102 M104 "
    "M105 M107 M108 M110 M134 M135 M137 M138 M140 M141 M143 M144 M177 "
)

# The rows that concern the parts around them; M167 and M168 are about beam search, which is not here.
LISTED_PARTS = (
    "M086 M113 M114 M116 M117 M119 M120 M122 M123 M126 M128 M129 M131 M132 M146 M147 M149 M150 M152 M153 M155 M156 M158 "
    "M159 M161 M162 M164 M165 M170 M171 M173 M174 M176 M179"
)

# What neither agreement nor conduct can see, since the cases leave it out on purpose.
ONLY_BY_LAW = {
    "M032": "no case holds NaN",
    "F04": "no case holds NaN",
    "M110": "no case goes so far out that a square overflows in float32",
    "POS-06": "bad input is no case",
    "M078": "bad input is no case",
    "M084": "bad input is no case",
    "E04": "bad input is no case",
    "E05": "bad input is no case",
}


def cases_of(mistake):
    return -(-CASES // OPS[mistake.op].every)


OF_OPS = {id: mistake for id, mistake in MISTAKES.items() if not OPS[mistake.op].model}


@pytest.mark.parametrize("mistake", OF_OPS.values(), ids=OF_OPS)
def test_every_mistake_is_caught(mistake):
    """Of the models' mistakes the next test says so: all of a model's laws, which come first here, take half a minute."""
    with quiet():
        fault = find_fault(as_implementation(mistake), OPS[mistake.op], cases=CASES)
    assert fault is not None, f"{mistake.sentence} Shown by: {mistake.shown_by}"
    assert "Warning" not in fault.what


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_agreement_and_conduct_catch_it_without_any_law(mistake):
    caught = matrix.without_laws(mistake, cases_of(mistake))
    assert (caught is None) == (mistake.id in ONLY_BY_LAW), f"{mistake.sentence} Shown by: {mistake.shown_by}"
    assert not OPS[mistake.op].model or "Warning" not in caught.what


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_the_reference_is_not_rejected(op):
    few = {"cases": 3, "dtypes": ("float32",)} if op.model else {"cases": 20}
    fault = find_fault(load("reference_numpy"), op, **few)
    assert fault is None, str(fault)


def test_every_listed_mistake_is_coded():
    assert [id for id in LISTED.split() if id not in MISTAKES] == []


def test_every_part_has_laws_and_mistakes_and_no_id_is_taken_twice():
    """That each is caught by a law of its part, and the right part by none, is tested beside each part."""
    assert {mistake.op for mistake in PART_MISTAKES.values()} == PARTS.keys()
    assert all(len(laws) >= 1 for laws in PARTS.values())
    assert not MISTAKES.keys() & PART_MISTAKES.keys()
    assert [id for id in LISTED_PARTS.split() if id not in PART_MISTAKES] == []


@pytest.mark.parametrize("id", ["M113", "M147", "M165", "M171", "M176"])
def test_the_matrix_catches_a_mistake_of_a_part(id):
    with quiet():
        row = matrix.row_of_part(PART_MISTAKES[id])
    assert row.caught
    assert row.agreement == {}


def test_every_op_has_mistakes():
    assert {mistake.op for mistake in MISTAKES.values()} == OPS.keys()


def test_a_mistake_takes_what_the_reference_takes():
    """What a signature does not name is not on offer, and its cases would be skipped."""
    for mistake in MISTAKES.values():
        given = inspect.signature(as_implementation(mistake).forward(mistake.op)).parameters.values()
        right = inspect.signature(getattr(reference_numpy, mistake.op)).parameters.values()
        assert [(each.name, each.kind) for each in given] == [(each.name, each.kind) for each in right], mistake.id


def test_a_mistake_says_what_it_is():
    for mistake in MISTAKES.values():
        assert mistake.forward or mistake.backward, mistake.id
        assert mistake.sentence.endswith("."), mistake.id
        assert mistake.hidden_on, mistake.id
        assert mistake.shown_by, mistake.id


def test_no_mistake_is_listed_twice():
    every = MISTAKES.values()
    assert len({(mistake.op, mistake.forward, mistake.backward) for mistake in every}) == len(every)
    assert len({(mistake.op, mistake.sentence) for mistake in every}) == len(every)


@pytest.fixture
def three(monkeypatch):
    """A mistake of values, one of conduct, and the reference, which is none."""
    chosen = {id: MISTAKES[id] for id in ("M006", "D04")}
    chosen["none"] = Mistake("none", "relu", "No mistake [at all].", "everything", "nothing")
    monkeypatch.setattr(matrix, "MISTAKES", chosen)
    monkeypatch.setattr(matrix, "PART_MISTAKES", {})


@pytest.mark.usefixtures("three")
def test_the_matrix_says_which_checks_catch_what():
    told = []
    softmax, dropout, none = matrix.matrix(cases=30, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert softmax.agreement.keys() == {"float64", "float32"}
    assert softmax.agreement["float64"].tensor == "dX"
    assert softmax.agreement["float64"].share > 1.0
    assert "the_gradient_sums_to_0" in {law.check for law in softmax.laws}
    assert softmax.conduct is None
    assert dropout.agreement == {}
    assert dropout.conduct is not None
    assert "shares memory" in dropout.conduct.what
    assert [row.caught for row in (softmax, dropout, none)] == [True, True, False]


@pytest.mark.usefixtures("three")
def test_an_escape_is_named_and_the_exit_code_is_1(capsys):
    assert command.main(["--quick", "--cases", "30"]) == 1
    shown = capsys.readouterr()
    assert "No mistake [at all]." in shown.out
    assert "NOTHING" in shown.out
    assert shown.out.splitlines()[-1] == "2 of 3 mistakes caught"
    assert shown.err == "3 of 3 mistakes tried\n"


@pytest.mark.usefixtures("three")
def test_the_matrix_as_json(capsys):
    assert command.main(["--quick", "--cases", "30", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["caught"], found["mistakes"]) == (2, 3)
    assert [row["id"] for row in found["rows"] if not row["caught"]] == ["none"]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_matrix_fits_the_terminal(width):
    rows = matrix.matrix(cases=5)
    page = io.StringIO()
    matrix.report(rows, Console(file=page, width=width))
    lines = page.getvalue().splitlines()
    assert max(len(line) for line in lines) <= width
    for row in rows:
        assert any(row.mistake.id in line for line in lines)


def test_cases_and_seed_are_checked(capsys):
    for argument in ("--cases", "--seed"):
        with pytest.raises(SystemExit) as stopped:
            command.main([argument, "-1"])
        assert stopped.value.code == 2
        assert f"{argument}: -1 came" in capsys.readouterr().err
