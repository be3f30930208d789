"""The sampler: its laws, the mistakes that they catch, the public reports, and whatever else hypothesis draws."""

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence_tests.mistakes import filters as filter_mistakes
from equivalence_tests.mistakes import quiet
from equivalence_tests.mistakes import sampling as sampling_mistakes
from equivalence_tests.parts import filters as filter_laws
from equivalence_tests.parts import sampling as sampling_laws
from reference_numpy import sampling
from reference_numpy.sampling import (
    SamplingConfig,
    apply_temperature,
    ban,
    block_ngrams,
    choose,
    min_p,
    penalise,
    probabilities,
    top_k,
    top_p,
)

INF = math.inf
LAWS = {**filter_laws.PARTS, **sampling_laws.PARTS}
MISTAKES = (*filter_mistakes.MISTAKES, *sampling_mistakes.MISTAKES)
LISTED = "M146 M147 M149 M150 M152 M153 M155 M156 M158 SMP-04 SMP-07 SMP-08 SMP-09"  # the known ones of these parts
PLAIN = SamplingConfig(temperature=1.0, top_k=None, repetition_penalty=1.0)
TENTHS = np.log([0.4, 0.3, 0.2, 0.1])


def kept(logits):
    return np.flatnonzero(np.isfinite(logits)).tolist()


# Laws and mistakes


@pytest.mark.parametrize(
    ("name", "law"), [pytest.param(n, law, id=f"{n}-{law.__name__}") for n, laws in LAWS.items() for law in laws]
)
def test_law_holds(name, law):
    assert law(getattr(sampling, name)) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_every_mistake_is_caught(mistake):
    with quiet():
        assert any(law(mistake.forward) for law in LAWS[mistake.op]), mistake.sentence


@pytest.mark.parametrize("name", LAWS)
def test_every_law_catches_a_mistake(name):
    broken = [mistake.forward for mistake in MISTAKES if mistake.op == name]
    with quiet():
        assert [law.__name__ for law in LAWS[name] if not any(law(each) for each in broken)] == []


def test_every_listed_mistake_is_coded_and_takes_what_the_right_part_takes():
    ids = [mistake.id for mistake in MISTAKES]
    assert set(LISTED.split()) <= set(ids)
    assert len(set(ids)) == len(ids)
    for mistake in MISTAKES:
        given, right = (inspect.signature(f).parameters for f in (mistake.forward, getattr(sampling, mistake.op)))
        assert [(p.name, p.kind) for p in given.values()] == [(p.name, p.kind) for p in right.values()], mistake.id


# Public reports, by their number


def test_top_k_of_1_keeps_one():
    """SMP-02"""
    assert kept(top_k(np.array([1.0, 3.0, 2.0]), 1)) == [1]


def test_ties_at_the_cut_keep_exactly_k():
    """SMP-03"""
    assert kept(top_k(np.array([1.0, 2.0, 2.0, 2.0, 3.0]), 3)) == [1, 2, 4]
    assert kept(top_k(np.array([0.0, 5.0, 5.0]), 1)) == [1]


def test_the_token_that_crosses_p_stays():
    """SMP-04; its p = 0.4 depends on how exp rounds: the law on equal logits holds what it means."""
    assert kept(top_p(TENTHS, 0.8)) == [0, 1, 2]
    assert kept(top_p(np.log([0.5, 0.41, 0.09]), 0.9)) == [0, 1]


def test_the_penalty_counts_or_does_not():
    """SMP-07, for which the default here is the power of the count."""
    logits = np.array([2.0, 1.0])
    assert penalise(logits, [0, 0, 0], 2.0).tolist() == [0.25, 1.0]
    assert penalise(logits, [0, 0, 0], 2.0, once=True).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0, 1e-9, 1e-45, 5e-324])
def test_small_temperatures_are_greedy(dtype, temperature):
    """SMP-08"""
    P = probabilities(np.array([1, 3, 2], dtype), [], dataclasses.replace(PLAIN, temperature=temperature))
    assert P.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("changed", "possible"),
    [
        ({"top_p": 0.8, "temperature": 0.5}, [0]),
        ({"top_p": 0.8}, [0, 1]),
        ({"min_p": 0.3}, [0, 1]),
        ({"min_p": 0.3, "temperature": 2.0}, [0, 1, 2]),
        ({"min_p": 0.3, "temperature": 0.5}, [0]),
    ],
)
def test_the_temperature_comes_first(changed, possible):
    """SMP-09"""
    P = probabilities(np.array([3.0, 2.0, 1.0]), [], dataclasses.replace(PLAIN, **changed))
    assert np.flatnonzero(P).tolist() == possible


# Whatever is drawn

finite = st.one_of(
    st.floats(-10, 10),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-2, 2).map(float),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324]),
)


@st.composite
def logits_rows(draw, most=12):
    values = draw(st.lists(st.one_of(finite, finite, finite, st.just(-INF)), min_size=1, max_size=most))
    if not np.isfinite(values).any():
        values[draw(st.integers(0, len(values) - 1))] = draw(finite)
    logits = np.array(values)
    if draw(st.booleans()) and np.abs(logits[np.isfinite(logits)]).max() < 3e38:
        return logits.astype(np.float32)
    return logits


configs = st.builds(
    SamplingConfig,
    temperature=st.one_of(st.just(0.0), st.floats(0, 5), st.floats(0, 1.7e308)),
    top_k=st.one_of(st.none(), st.integers(1, 20)),
    top_p=st.floats(0, 1, exclude_min=True),
    min_p=st.floats(0, 1),
    repetition_penalty=st.one_of(st.floats(0.5, 3), st.floats(0, 1.7e308, exclude_min=True)),
    penalty=st.sampled_from(["count", "once"]),
    no_repeat_ngram=st.integers(0, 4),
)


@given(st.data(), logits_rows(), configs)
def test_what_is_chosen_was_possible(data, logits, config):
    v = logits.size
    ids = data.draw(st.lists(st.integers(0, v - 1), max_size=12))
    free = kept(logits)
    banned = data.draw(st.sets(st.integers(0, v - 1)))
    spared = data.draw(st.sampled_from(free))
    config = dataclasses.replace(config, banned=tuple(banned - {spared}))
    P = probabilities(logits, ids, config)
    assert P.dtype == np.float64
    assert (P >= 0).all()
    assert abs(math.fsum(P) - 1.0) <= 2 * v * 2.0**-53  # the rounding of v quotients and of their denominator
    assert set(np.flatnonzero(P)) <= set(free) - set(config.banned)
    if config.top_k is not None:
        assert np.count_nonzero(P) <= config.top_k
    token = choose(P, data.draw(st.floats(0, 1, exclude_max=True)))
    assert P[token] > 0


@given(st.data(), logits_rows(), st.integers(1, 14), st.floats(0, 1, exclude_min=True))
def test_a_filter_only_forbids_and_keeps_one(data, logits, k, p):
    ids = data.draw(st.lists(st.integers(0, logits.size - 1), max_size=12))
    before = logits.copy()
    for filtered in (top_k(logits, k), top_p(logits, p), min_p(logits, p), block_ngrams(logits, ids, k % 4)):
        left = np.isfinite(filtered)
        assert left.any()
        assert np.array_equal(filtered[left], logits[left].astype(np.float64))
        assert (filtered[~left] == -INF).all()
    assert np.array_equal(logits, before)


@given(logits_rows(), st.integers(1, 14), st.floats(0, 1, exclude_min=True), st.floats(0, 1, exclude_min=True))
def test_a_wider_filter_keeps_at_least_as_much(logits, k, p, q):
    low, high = sorted((p, q))
    assert set(kept(top_k(logits, k))) <= set(kept(top_k(logits, k + 1)))
    assert set(kept(top_p(logits, low))) <= set(kept(top_p(logits, high)))
    assert set(kept(min_p(logits, high))) <= set(kept(min_p(logits, low)))
    ranked = np.argsort(-logits, kind="stable")
    for filtered in (top_k(logits, k), top_p(logits, p)):
        assert kept(filtered) == sorted(ranked[: len(kept(filtered))].tolist())  # always the first ones


@given(logits_rows(), configs)
def test_float32_logits_are_their_values_in_float64(logits, config):
    assert np.array_equal(probabilities(logits, [0], config), probabilities(logits.astype(np.float64), [0], config))


@given(logits_rows(), st.floats(0, 1e6))
def test_a_temperature_keeps_the_order(logits, temperature):
    scaled = apply_temperature(logits, temperature)
    assert scaled.max() == 0.0
    order = np.argsort(logits, kind="stable")
    assert (scaled[order][1:] >= scaled[order][:-1]).all() or temperature == 0.0


@given(logits_rows(), st.lists(st.integers(0, 11), max_size=40), st.floats(1, 1e300), st.booleans())
def test_a_penalty_never_helps_nor_forbids(logits, ids, gamma, once):
    penalised = penalise(logits, [id % logits.size for id in ids], gamma, once)
    assert (penalised <= logits).all()
    assert kept(penalised) == kept(logits)


@given(logits_rows())
def test_one_token_is_certain(logits):
    id = kept(logits)[0]
    others = tuple(set(range(logits.size)) - {id})
    P = probabilities(logits, [id] * 3, SamplingConfig(banned=others, no_repeat_ngram=1))
    assert P.tolist() == np.eye(logits.size)[id].tolist()


def test_a_large_vocabulary_gives_the_shares_of_a_grid():
    """At source 2's 60,198 tokens: a number in the middle of each token's share of [0, 1) chooses that token."""
    logits = np.random.default_rng(0).standard_normal(60198)
    P = probabilities(logits, [], PLAIN)
    ends = P.cumsum()
    for id in range(0, P.size, 997):
        assert choose(P, float(ends[id] - P[id] / 2)) == id  # half a share is 1e9 times the rounding of the sum


def test_dtypes_in_between_and_views_are_taken():
    logits = np.array([1.0, 2.0, 3.0, 4.0], np.float16)
    assert probabilities(logits, [], PLAIN).dtype == np.float64
    assert kept(top_k(np.arange(8.0)[::-2], 2)) == [0, 1]
    assert top_k(np.broadcast_to(np.arange(3.0), (2, 3)), 1).tolist() == [[-INF, -INF, 2.0]] * 2
    assert top_k(np.zeros((0, 3)), 1).shape == (0, 3)
    assert penalise(np.array([1.0, 2.0]), np.array([1], np.uint8), 2.0).tolist() == [1.0, 1.0]


# The configuration, and bad input


def test_the_defaults_are_those_of_the_source_and_explain_themselves():
    config = SamplingConfig()
    assert (config.temperature, config.top_k, config.max_tokens, config.repetition_penalty) == (0.8, 50, 256, 1.01)
    assert (config.penalty, config.top_p, config.min_p, config.no_repeat_ngram) == ("count", 1.0, 0.0, 0)
    assert all(field.metadata["help"] for field in dataclasses.fields(config))
    assert hash(config) == hash(SamplingConfig())


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("temperature", -0.1, ValueError),
        ("temperature", math.nan, ValueError),
        ("temperature", INF, ValueError),
        ("temperature", "1", TypeError),
        ("top_k", 0, ValueError),
        ("top_k", 2.0, TypeError),
        ("top_k", True, TypeError),
        ("top_p", 0.0, ValueError),
        ("top_p", 1.01, ValueError),
        ("min_p", -0.01, ValueError),
        ("min_p", 1.01, ValueError),
        ("repetition_penalty", 0.0, ValueError),
        ("penalty", "twice", ValueError),
        ("no_repeat_ngram", -1, ValueError),
        ("banned", [1], TypeError),
        ("banned", (-1,), ValueError),
        ("banned", (1.0,), TypeError),
        ("max_tokens", -1, ValueError),
        ("max_tokens", None, TypeError),
    ],
)
def test_a_bad_setting_is_refused_in_one_line(field, value, kind):
    with pytest.raises(kind) as caught:
        SamplingConfig(**{field: value})
    message = str(caught.value)
    assert field in message
    assert "expected" in message
    assert "\n" not in message


LOGITS: Any = np.array([1.0, 2.0, 3.0])
LIST: Any = [1.0, 2.0]
WRONG_IDS: Any = {"floats": [0.0], "nested": [[0], [1]], "ragged": [[0], [1, 2]]}


@pytest.mark.parametrize(
    ("call", "kind", "named"),
    [
        (lambda: top_k(LIST, 1), TypeError, "logits"),
        (lambda: top_k(np.array([1, 2]), 1), TypeError, "logits"),
        (lambda: top_k(np.array([1j, 2]), 1), TypeError, "logits"),
        (lambda: top_k(np.array(1.0), 1), ValueError, "logits"),
        (lambda: top_k(np.zeros((2, 0)), 1), ValueError, "logits"),
        (lambda: top_k(np.array([1.0, math.nan]), 1), ValueError, "logits"),
        (lambda: top_p(np.array([1.0, INF]), 0.5), ValueError, "logits"),
        (lambda: min_p(np.array([[0.0, 1.0], [-INF, -INF]]), 0.5), ValueError, "logits"),
        (lambda: probabilities(np.zeros((2, 3)), [], PLAIN), ValueError, "logits"),
        (lambda: top_k(LOGITS, 0), ValueError, "k"),
        (lambda: top_p(LOGITS, 0.0), ValueError, "p"),
        (lambda: min_p(LOGITS, 2.0), ValueError, "share"),
        (lambda: apply_temperature(LOGITS, -1.0), ValueError, "temperature"),
        (lambda: penalise(LOGITS, [3], 2.0), ValueError, "ids"),
        (lambda: penalise(LOGITS, [-1], 2.0), ValueError, "ids"),
        (lambda: penalise(LOGITS, WRONG_IDS["floats"], 2.0), TypeError, "ids"),
        (lambda: penalise(LOGITS, WRONG_IDS["nested"], 2.0), ValueError, "ids"),
        (lambda: penalise(LOGITS, WRONG_IDS["ragged"], 2.0), ValueError, "ids"),
        (lambda: penalise(LOGITS, [0], 0.0), ValueError, "gamma"),
        (lambda: block_ngrams(LOGITS, [0], -1), ValueError, "n"),
        (lambda: ban(LOGITS, (0, 1, 2)), ValueError, "banned"),
        (lambda: ban(np.array([-INF, 1.0]), (1,)), ValueError, "banned"),
        (lambda: ban(LOGITS, (3,)), ValueError, "banned"),
        (lambda: probabilities(LOGITS, [], SamplingConfig(banned=(0, 1, 2))), ValueError, "banned"),
        (lambda: choose(np.array([0.5, 0.4]), 0.0), ValueError, "probabilities"),
        (lambda: choose(np.array([1.5, -0.5]), 0.0), ValueError, "probabilities"),
        (lambda: choose(np.array([1.0, math.nan]), 0.0), ValueError, "probabilities"),
        (lambda: choose(np.array([0.0, INF]), 0.0), ValueError, "probabilities"),
        (lambda: choose(np.array([0.0, 0.0]), 0.0), ValueError, "probabilities"),
        (lambda: choose(np.array([1.0]), 1.0), ValueError, "uniform"),
        (lambda: choose(np.array([1.0]), -1e-9), ValueError, "uniform"),
        (lambda: choose(np.array([1.0]), math.nan), ValueError, "uniform"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, kind, named):
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert named in message
    assert "expected" in message
    assert "\n" not in message
