"""`gemelos check --lang es`: the verdict, the table, laws and conduct, with nothing of English in them."""

import numpy as np
import pytest
from rich.console import Console

from equivalence_tests import check
from equivalence_tests.dojo.message_faults import english_phrases, text_faults
from equivalence_tests.findings import Finding
from equivalence_tests.laws_only import check_laws
from equivalence_tests.misconduct import SENTENCES, Misconduct
from equivalence_tests.report import show
from reference_numpy import softmax


def printed(report, language="es"):
    console = Console(width=1000, color_system=None)
    with console.capture() as capture:
        show(report, console, language)
    return capture.get()


def outside_the_bracket(dA, cache):
    A, axis = cache
    return A * dA - (A * dA).sum(axis, keepdims=True)


def transposed(dA, cache):
    A, _ = cache
    return (A * (dA - (A * dA).sum(-1, keepdims=True))).swapaxes(-1, -2)


def remembered(X, axis=-1, seen=[]):  # noqa: B006 (answers otherwise when called again)
    seen.append(1)
    A, cache = softmax(X, axis)
    return A + 1e-9 * len(seen), cache


def right_one(dA, cache):
    A, axis = cache
    return A * (dA - (A * dA).sum(axis, keepdims=True))


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (softmax, outside_the_bracket),
        (softmax, transposed),
        (remembered, right_one),
        (lambda X: X, None),
        (lambda X, axis=-1: np.full(X.shape, np.nan), None),
        (softmax, right_one),
    ],
)
def test_a_report_against_the_table_is_spanish(forward, backward):
    report = check(forward, "softmax", backward=backward, cases=16)
    named = [f"internal name {each.numbers['id']!r}" for each in report.findings if "id" in each.numbers]
    assert [each for each in text_faults(printed(report), "es") if each not in named] == [], printed(report)
    assert [each for each in text_faults(printed(report, "en"), "en") if each not in named] == []


def test_a_law_is_named_in_the_readers_language():
    report = check(softmax, "softmax", backward=outside_the_bracket, cases=16)
    broken = [each for each in report.findings if each.code == "law_broken"]
    said = [each.say("es") for each in broken]
    assert "no se cumple una ley: el gradiente suma 0" in said
    assert any(each.say("en").startswith("the gradient sums to 0: ") for each in broken)
    edge = Finding("edge", numbers={"law": "gelu far out is relu", "what": "Y is 1, expected 2"})
    assert edge.say("es") == "en un caso extremo no se cumple una ley: lejos de 0, gelu es relu"


@pytest.mark.parametrize("backward", [right_one, outside_the_bracket])
def test_a_report_of_the_laws_alone_is_spanish(backward):
    report = check_laws(softmax, backward, like="softmax", cases=6).as_report("mine.py:softmax")
    text = printed(report)
    assert list(text_faults(text, "es")) == [], text
    assert "gradiente de X" in text
    assert "permutar las entradas permuta la respuesta" in text


def test_a_rule_of_conduct_is_never_quoted_in_english():
    assert Misconduct("not_linear", "dX").say("es") == "-2 veces el gradiente que recibe no da -2 veces dX"
    for code in SENTENCES:
        assert list(text_faults(Misconduct(code, "dX", "KeyError").say("es"), "es")) == []


def test_a_phrase_of_the_diagnosis_is_spanish_everywhere():
    numbers = {"axis": "the first axis", "cases": 2, "of": 2}
    assert "recorre otro eje: el primer eje" in Finding("wrong_axis", "Y", "mean(X)", numbers).say("es")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Da los valores correctos: p of ADW-01[0] is 1, expected 0.95.", "internal name 'ADW-01'"),
        ("No se cumple una ley: agrees in float64. It is wrong.", "the English word 'is'"),
        ("a law: rows_sum_to_1", "internal name 'rows_sum_to_1'"),
        ("Y es 0.41418; se esperaba 0.41418: 3 veces", "two numbers that look equal: 0.41418"),
        ("x es 1, pero lo correcto es 1.", "two numbers that look equal: 1"),
        ("falta {stage}", "a gap"),
        ("dX is not linear in the upstream gradient: off by 1", "the English phrase"),
    ],
)
def test_a_fault_of_a_text_is_seen(text, fault):
    assert any(each.startswith(fault) for each in text_faults(text, "es"))
    assert english_phrases()
