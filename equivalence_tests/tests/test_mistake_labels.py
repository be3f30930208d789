"""Every known mistake of an op is placed: at lines of the op's formula, in kinds that have a name."""

import re

import pytest

from equivalence_tests.checks import find_fault
from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES, Mistake, as_implementation, quiet
from equivalence_tests.mistakes._mistake import labelled
from equivalence_tests.mistakes.held_out import HELD_OUT
from equivalence_tests.mistakes.spanish import SPANISH
from equivalence_tests.mistakes.vocabulary import CONDUCT, KINDS, STAGES
from equivalence_tests.ops import OPS


def test_the_vocabulary_has_every_op_and_no_word_twice():
    assert STAGES.keys() == OPS.keys()
    for op, stages in STAGES.items():
        assert len(set(stages)) == len(stages), op


@pytest.mark.parametrize("mistake", HELD_OUT, ids=lambda mistake: mistake.id)
def test_what_is_held_out_is_no_part_of_the_library_and_is_caught(mistake):
    assert mistake.id not in MISTAKES
    assert set(mistake.stages) <= set(STAGES[mistake.op])
    assert set(mistake.kinds) <= KINDS.keys()
    few = {"cases": 8, "dtypes": ("float32",)} if OPS[mistake.op].model else {"cases": 30}
    with quiet():
        assert find_fault(as_implementation(mistake), OPS[mistake.op], **few)


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_of_an_op_has_labels_from_the_vocabulary(mistake):
    assert 1 <= len(mistake.stages) <= 4  # four: an operand and its option, or the gradients of Q, K and V at once
    assert 1 <= len(mistake.kinds) <= 2
    assert set(mistake.stages) <= set(STAGES[mistake.op])
    assert set(mistake.kinds) <= KINDS.keys() - {"value"}
    assert len(set(mistake.stages)) == len(mistake.stages)
    assert len(set(mistake.kinds)) == len(mistake.kinds)


def test_conduct_alone_is_placed_in_no_line():
    for mistake in MISTAKES.values():
        if mistake.kinds == ("conduct",):
            assert set(mistake.stages) <= set(CONDUCT), mistake.id
        elif "conduct" not in mistake.kinds:
            assert not set(mistake.stages) & set(CONDUCT), mistake.id


def test_what_the_backward_alone_does_wrong_is_no_line_of_the_forward():
    """Unless the backward computes the line again, as it does A, or the mistake is about what it makes of an option."""
    for mistake in MISTAKES.values():
        if mistake.forward is None and mistake.op not in ("gpt", "gpt_loss"):
            lines = [s for s in mistake.stages if not re.match(r"d[A-Z_a-z]|sum\(A|sum\(d|mean\(d|A \* dA|backward", s)]
            options = {"axis", "mask", "bias", "causal", "scale", "keep", "p", "count", "ignore_index", "P", "h0"}
            recomputed = {"A", "masked"} if "attention" in mistake.op else set()
            assert set(lines) <= recomputed | options | {"merged", "split"}, (mistake.id, lines)


def test_every_kind_but_value_has_a_mistake():
    assert {kind for mistake in MISTAKES.values() for kind in mistake.kinds} == KINDS.keys() - {"value"}


def test_a_part_has_no_labels():
    assert all(not mistake.stages and not mistake.kinds for mistake in PART_MISTAKES.values())


@pytest.mark.parametrize("labels", [{}, {"X1": "Y: term", "X2": "Y: term"}])
def test_a_label_too_few_or_too_many_is_named(labels):
    with pytest.raises(ValueError, match=r"X[12]"):
        labelled((Mistake("X1", "relu", "Wrong.", "nothing", "anything"),), labels)


def test_every_mistake_of_an_op_is_said_in_spanish():
    assert SPANISH.keys() == MISTAKES.keys()
    for id, sentence in SPANISH.items():
        assert sentence.endswith("."), id
        assert sentence != MISTAKES[id].sentence, id


def test_the_spanish_sentences_follow_the_english_ones_one_to_one():
    """Where two mistakes are said alike in one language, so are they in the other; within an op no two are."""
    assert len({(mistake.op, SPANISH[mistake.id]) for mistake in MISTAKES.values()}) == len(MISTAKES)
    english = {}
    for id, mistake in MISTAKES.items():
        english.setdefault(mistake.sentence, set()).add(SPANISH[id])
    for sentence, spanish in english.items():
        assert len(spanish) == 1, (sentence, spanish)
