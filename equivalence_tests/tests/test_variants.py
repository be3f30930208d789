"""The budgets turn no right implementation away, however it rounds."""

from dataclasses import replace
from functools import cache

import pytest

from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import Case
from equivalence_tests.checks import agreement, conduct, draw_case, law_fault
from equivalence_tests.implementations import load, run
from equivalence_tests.ops import OPS
from equivalence_tests.variants import STORED, VARIANTS, implementation

CASES = 60
DTYPES = ("float64", "float32")
FAMILIES = ["softmax", "layer_norm", "attention", "linear", "gelu", "cross_entropy", "rnn", "gpt"]
EVERY = [pytest.param(op, variant, id=f"{op}-{variant}") for op, variants in VARIANTS.items() for variant in variants]


@cache
def cases_of(op: str) -> list[tuple[str, Case, dict[str, Bounded]]]:
    """Dtype, rounded case and exact answer, worked out once: all variants of an op are judged on the same ones."""
    cases = []
    for index in range(-(-CASES // OPS[op].every)):
        case = draw_case(OPS[op], 0, index)
        for dtype in DTYPES:
            rounded = case.rounded(PRECISIONS[dtype])
            cases.append((dtype, rounded, OPS[op].exact(rounded, PRECISIONS[dtype])))
    return cases


@pytest.mark.parametrize(("op", "variant"), EVERY)
def test_a_right_implementation_passes_whatever_its_roundings(op, variant):
    pair = implementation(op, variant, checked=False)
    for dtype, rounded, exact in cases_of(op):
        for judgement in agreement(pair, OPS[op], rounded, exact, dtype).values():
            assert not judgement.wrong, dtype
        assert not conduct(pair, OPS[op], rounded, exact, dtype), dtype


@pytest.mark.parametrize(
    ("op", "who", "dtype", "seed", "index"),
    [
        ("gpt", "dropped apart", "float64", 1001, 165),
        ("gpt", "attention in tiles, delta from dC C", "float32", 1000, 123),
        ("gpt", "torch_impl", "bfloat16", 1032, 27),
        ("gpt_loss", "torch_impl", "bfloat16", 1032, 27),
    ],
)
def test_who_was_called_wrong_once_agrees(op, who, dtype, seed, index):
    """Among 120,030 right cases: a token and a position that cancel, a log-sum-exp far from 0, a gradient lost whole."""
    rounded = draw_case(OPS[op], seed, index).rounded(PRECISIONS[dtype])
    exact = OPS[op].exact(rounded, PRECISIONS[dtype])
    pair = load(who) if who == "torch_impl" else implementation(op, who, checked=False)
    assert [each.wrong for each in agreement(pair, OPS[op], rounded, exact, dtype).values() if each.wrong] == []


@pytest.mark.parametrize(("op", "variant"), EVERY)
def test_a_right_implementation_obeys_every_law_whatever_its_roundings(op, variant):
    for dtype in DTYPES[1:] if OPS[op].model else DTYPES:
        assert not law_fault(implementation(op, variant), OPS[op], dtype, seed=0, times=1), dtype


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "cross_entropy", "attention"])
def test_the_wider_budget_is_asked_for_by_a_stored_log_sum_exp_and_is_named(op):
    for variant in STORED[op]:
        pair = implementation(op, variant, checked=False)
        verdicts = [
            verdict
            for dtype, rounded, exact in cases_of(op)
            for verdict in agreement(pair, OPS[op], rounded, exact, dtype).values()
        ]
        assert {verdict.tolerated for verdict in verdicts} == {"", "stored_log_sum_exp"}, variant
        held = replace(pair, ordinary=True)
        assert any(
            verdict.wrong
            for dtype, rounded, exact in cases_of(op)
            for verdict in agreement(held, OPS[op], rounded, exact, dtype).values()
        ), variant


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_there_ten_times(family):
    pairs = VARIANTS[family].values()
    assert len({id(function) for pair in pairs for function in pair}) == 2 * len(pairs) >= 20


@pytest.mark.parametrize("op", FAMILIES)
def test_no_two_variants_agree_to_the_last_bit(op):
    cases = [rounded for dtype, rounded, _ in cases_of(op) if dtype == "float32"][:40]
    bits = {}
    for variant in VARIANTS[op]:
        pair = implementation(op, variant, checked=False)
        answers = [run(pair, OPS[op], case, "float32") for case in cases]
        bits[variant] = b"".join(tensor.value.tobytes() for answer in answers for tensor in answer.values())
    twins = {one: other for one in bits for other in bits if one < other and bits[one] == bits[other]}
    assert not twins
