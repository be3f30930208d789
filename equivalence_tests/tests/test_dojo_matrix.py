"""A part of the dojo's matrix, and the judges that it rests on: limits, predictions, measured budgets."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equivalence_tests import law_words
from equivalence_tests.checking import check
from equivalence_tests.dojo import (
    by_check,
    by_part,
    by_value,
    limits,
    matrix,
    matrix_report,
    measured,
    part_words,
    scan,
    tiny_gpt,
)
from equivalence_tests.dojo.folder import kata_named
from equivalence_tests.dojo.judging import judge, parsed, unwatched
from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.message_faults import message_faults
from equivalence_tests.dojo.sources import Source, Wrong, source_of
from equivalence_tests.laws import LAWS
from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES, quiet
from reference_numpy import adamw_step, clip_gradients

SAMPLE = ("softmax_backward", "predict_loss", "softmax_jacobian")
TEXT = {"en": "a", "es": "b"}


@pytest.fixture(scope="module")
def rows():
    return [matrix.row_of(name) for name in SAMPLE]


def test_every_start_fails_and_every_solution_passes(rows):
    assert [row.kata for row in rows if not row.sound] == []


def test_every_mistake_is_caught_and_enough_are_named(rows):
    assert [each for row in rows for each in row.counted if not each.caught] == []
    assert matrix.enough(rows)
    assert all(len(row.counted) >= 3 for row in rows)


def test_no_message_has_a_fault(rows):
    assert [fault for row in rows for each in row.mistakes for fault in each.faults] == []


def test_a_mistake_is_left_out_only_where_nobody_could_see_it(rows):
    """With an option that the kata leaves out, or in float32: whatever else is not caught counts against the dojo."""
    assert {each.left_out for row in rows for each in row.mistakes} - {""} <= set(matrix.LEFT_OUT)
    kata = kata_named("softmax_backward", "en")
    axis, float32 = MISTAKES["S05"], kata_named("cross_entropy", "en")
    assert matrix._why_unseen(matrix.as_candidate(kata, axis), axis) == matrix.LEFT_OUT[3]
    plain = MISTAKES["SMX-03b"]  # any case shows it
    assert matrix._why_unseen(matrix.as_candidate(kata, plain), plain) == ""
    remembered = MISTAKES["C17"]
    assert matrix._why_unseen(matrix.as_candidate(float32, remembered), remembered) == matrix.LEFT_OUT[1]


def test_what_the_table_hides_is_caught_in_a_forward_alone():
    """Scores in the thousands overflow where no maximum is subtracted; the table's do not reach that in float64."""
    handed = matrix._handed(kata_named("attention", "en"), MISTAKES["A08"])
    assert (handed.caught, handed.named) == (True, True), handed


def test_a_start_that_passes_or_a_mistake_that_escapes_fails_the_matrix():
    caught, escaped = (matrix.Handed("M", "", is_caught, is_caught, "") for is_caught in (True, False))
    assert matrix.enough([matrix.Row("a", "unwritten", "passed", [caught])])
    assert not matrix.enough([matrix.Row("a", "unwritten", "passed", [*[caught] * 99, escaped])])
    unnamed = [matrix.Handed("M", "", True, i > 0, "") for i in range(10)]
    assert not matrix.enough([matrix.Row("a", "unwritten", "passed", unnamed)])
    spoken = replace(caught, faults=["es: the English word 'is'"])
    assert not matrix.enough([matrix.Row("a", "unwritten", "passed", [spoken])])
    assert not matrix.Row("a", "passed", "passed").sound
    assert not matrix.Row("a", "unwritten", "wrong").sound


def test_the_command_prints_rows_and_totals(capsys, monkeypatch, rows):
    monkeypatch.setattr(matrix_report, "run_all", lambda names, told: rows)
    assert matrix_report.run([], as_json=False, everything=False) == 0
    said = capsys.readouterr().out
    assert f"{len(SAMPLE)} of {len(SAMPLE)} starts fail, {len(SAMPLE)} of {len(SAMPLE)} solutions pass" in said
    assert matrix_report.run([], as_json=True, everything=False) == 0
    assert [row["kata"] for row in json.loads(capsys.readouterr().out)] == list(SAMPLE)


# Parts


@pytest.mark.parametrize(("part", "right"), [("adamw_step", adamw_step), ("clip_gradients", clip_gradients)])
def test_the_mistakes_of_a_part_are_caught_and_named_in_both_languages(part, right):
    assert by_part.judged(right, part).passed
    for mistake in by_part.mistakes_of(part)[::3]:  # the matrix tries all
        with quiet():
            verdict = by_part.judged(mistake.forward, part)
        assert not verdict.passed, mistake.id
        named = verdict.numbers["named"]
        if mistake.id == "O15":  # its arrays outlive a law: it never answers twice alike
            continue
        assert mistake.id in named, (mistake.id, named)
        assert verdict.say("en") in {PART_MISTAKES[each].sentence for each in named}
        assert verdict.say("es") != verdict.say("en")
        assert message_faults(kata_named(part, "en"), verdict) == []


# Laws


def test_every_law_is_said_in_spanish():
    assert {law.__name__ for laws in LAWS.values() for law in laws} == law_words.SPANISH.keys()
    parts = {law.__name__ for kata in KATAS if kata.part for law in by_part.laws_of(kata.part)}
    assert parts == part_words.LAWS.keys()


# A GPT of the learner's own


def test_the_learners_own_backward_trains_the_gpt(monkeypatch):
    monkeypatch.setattr(tiny_gpt, "STEPS", 12)
    kata = kata_named("gpt_loss_backward", "en")
    right = source_of(kata).solution
    told = []
    stories = []
    for text in (
        right,
        right + "\n\ndef gpt_loss_backward(dloss, cache, own=gpt_loss_backward):\n"
        "    return {name: 0.0 * g for name, g in own(dloss, cache).items()}\n",
    ):
        answer = parsed(kata, Path("gpt.py"), text)
        stories.append(tiny_gpt.train(answer, unwatched(Path("gpt.py")), told.append))
    learnt, idle = (story["losses"][0] - story["losses"][-1] for story in stories)
    assert learnt > 0.5 > idle
    assert stories[0]["text"].startswith("había una vez")
    assert told[0].startswith("1 of 12, ")


# Limits


def answer_of(name, text):
    kata = kata_named(name, "en")
    path = Path(f"{name}_tried.py")
    answer = parsed(kata, path, text)
    with quiet():
        return judge(answer, unwatched(path), lambda _: None)


def test_a_loop_over_rows_is_slow_and_a_loop_over_a_constant_is_not():
    source = source_of(kata_named("embedding_faster", "en"))
    assert answer_of("embedding_faster", source.start).code == "steps"
    busy = source.solution.replace("return", "for _ in range(5):\n        pass\n    return", 1)
    assert answer_of("embedding_faster", busy).passed
    hidden = source.solution.replace("return", "sum(1 for _ in ids.reshape(-1))\n    return", 1)
    assert answer_of("embedding_faster", hidden).code == "steps"


def test_an_n_by_n_array_is_seen():
    source = source_of(kata_named("attention_tiled", "en"))
    verdict = answer_of("attention_tiled", source.start)
    assert verdict.code == "holds"
    assert verdict.numbers["peak"] > verdict.numbers["limit"]
    assert answer_of("attention_tiled", source.solution).passed


def test_statements_are_counted_without_docstring_and_comments():
    tree = ast.parse('def f(x):\n    "text"\n    # no\n    a = x\n    if a:\n        a = 2\n    return a\n')
    assert scan.statements(scan.function_named(tree, "f")) == 4


def test_lines_are_counted_in_the_learners_file_alone():
    space = {}
    exec(compile("def f(n):\n    for i in range(n):\n        len('a')\n", "mine.py", "exec"), space)
    assert limits.lines_of("mine.py", lambda: space["f"](10)) > limits.lines_of("mine.py", lambda: space["f"](2)) > 0
    assert limits.lines_of("other.py", lambda: space["f"](10)) == 0


# Predictions


@pytest.mark.parametrize(
    ("got", "right", "agrees"),
    [
        ((2, 3), (2, 3), True),
        ([2, 3], (2, 3), True),
        ((3, 2), (2, 3), False),
        ((2, 3, 1), (2, 3), False),
        (4.0, 4, True),
        (5, 4, False),
        (True, 1, False),
        ("greedy", "greedy", True),
        (1.386, 1.386, True),
        (1.3862943611198906, 1.386, True),
        (1.39, 1.386, False),
        (1.387, 1.386, False),
        (2.52, 2.5, False),
        (2.5, 2.5, True),
        (1.386, 1.3862943611198906, True),
        (1.39, 1.3862943611198906, False),
        (1.3862943611198906, 1.3862943611198906, True),
        (np.float64(0.25), 0.25, True),
        (np.array([1.0, 2.0]), (1.0, 2.0), True),
        (None, 0.0, False),
        (float("nan"), 0.0, False),
        (float("inf"), 1.0, False),
    ],
)
def test_a_prediction_is_right_to_the_digits_that_are_asked(got, right, agrees):
    assert (next(by_value.disagreements("x", got, right), None) is None) is agrees


# Measured budgets


def source(solution, check, *mistakes):
    wrong = tuple(Wrong({"en": text, "es": text}, code) for text, code in mistakes)
    return Source(TEXT, "", TEXT, TEXT, "", solution, check, wrong)


MEAN = source(
    "def centred(X):\n    return X - X.mean(-1, keepdims=True)\n",
    "def draw(rng):\n    return {'X': 1e4 + rng.standard_normal((3, int(rng.integers(2, 9))))}\n",
    ("the axis", "def centred(X):\n    return X - X.mean(0, keepdims=True)\n"),
    ("the sign", "def centred(X):\n    return X.mean(-1, keepdims=True) - X\n"),
)


def test_other_roundings_pass_and_mistakes_are_named():
    assert by_check.judged(measured.namespace_of(MEAN.solution)["centred"], "centred", MEAN).passed
    assert by_check.judged(lambda X: X - X.sum(-1, keepdims=True) / X.shape[-1], "centred", MEAN).passed
    assert by_check.judged(lambda X: X - (X / X.shape[-1]).sum(-1)[:, None], "centred", MEAN).passed
    for wrong in MEAN.mistakes:
        assert by_check.judged(measured.namespace_of(wrong.code)["centred"], "centred", MEAN).sentence == wrong.sentence
    other = by_check.judged(lambda X: 2.0 * X, "centred", MEAN)
    assert (other.code, other.sentence) == ("differs", {})
    assert other.example.given["X"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda X: (X - X.mean(-1, keepdims=True)).astype(np.float32).astype(np.float64),
        lambda X: X - X.mean(-1, keepdims=True) + 1e-9,
        lambda X: X - X.mean(-1, keepdims=True) * (1.0 + 1e-13),
    ],
)
def test_the_budget_is_one_of_rounding(wrong):
    assert by_check.judged(wrong, "centred", MEAN).code == "differs"


def test_what_is_returned_and_what_is_changed_is_seen():
    def changes(X):
        X -= X.mean(-1, keepdims=True)
        return X.copy()

    assert by_check.judged(changes, "centred", MEAN).code == "changes_arguments"
    assert by_check.judged(lambda X: None, "centred", MEAN).code == "returns"
    assert by_check.judged(lambda X: (X, X), "centred", MEAN).code == "returns"
    assert by_check.judged(lambda X: X[0], "centred", MEAN).code == "returns"
    assert by_check.judged(lambda X: X * np.nan, "centred", MEAN).code == "differs"


def test_equal_numbers_are_moved_alike():
    X = np.array([1.0, 2.0, 1.0, np.inf, 0.0])
    moved = measured.Rounding(3)(X)
    assert moved[0] == moved[2] != 1.0
    assert moved[3] == np.inf
    assert moved[4] == 0.0


def test_every_call_that_is_ill_conditioned_is_a_defect_of_the_source():
    hopeless = source(
        "def f(X):\n    return (X + 1e30) - 1e30\n", "def draw(rng):\n    return {'X': rng.standard_normal(3)}\n"
    )
    with pytest.raises(ValueError, match="ill-conditioned"):
        by_check.calls_of(hopeless, "f")


def test_a_mistake_of_a_forward_alone_is_named():
    """The library's answers have gradients, the candidate's have none."""
    report = check(lambda X: np.exp(X) / np.exp(X).sum(-1, keepdims=True), "softmax", cases=40, dtype="float64")
    assert report.kind == "forward"
    assert report.findings[0].code == "known_mistake"
    assert report.findings[0].numbers["id"] == "S02"
