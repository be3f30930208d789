"""Generation: its laws, the mistakes that they catch, both models of the reference, and text."""

import inspect
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence_tests.mistakes import quiet
from equivalence_tests.mistakes.generate import MISTAKES
from equivalence_tests.parts.generate import PARTS, Reader, V
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.decoding import gpt_step
from reference_numpy.generate import generate_ids, generate_tokens
from reference_numpy.generative_rnn import generative_rnn, generative_rnn_step, init_rnn
from reference_numpy.gpt import gpt, init_gpt
from reference_numpy.sampling import SamplingConfig
from reference_numpy.tokenizer import Tokenizer

LAWS = PARTS["generate_ids"]
LISTED = "M159 M161 M162 M086 EOS-01 POS-01 POS-03 POS-05"  # the known ones of this part
SHORT = SamplingConfig(max_tokens=7)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_holds(law):
    assert law(generate_ids) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_every_mistake_is_caught(mistake):
    with quiet():
        assert any(law(mistake.forward) for law in LAWS), mistake.sentence


def test_every_law_catches_a_mistake():
    with quiet():
        assert [law.__name__ for law in LAWS if not any(law(mistake.forward) for mistake in MISTAKES)] == []


def test_every_listed_mistake_is_coded_and_takes_what_the_right_part_takes():
    ids = [mistake.id for mistake in MISTAKES]
    assert set(LISTED.split()) <= set(ids)
    assert len(set(ids)) == len(ids)
    right = [(p.name, p.kind) for p in inspect.signature(generate_ids).parameters.values()]
    for mistake in MISTAKES:
        assert [(p.name, p.kind) for p in inspect.signature(mistake.forward).parameters.values()] == right, mistake.id


# Whatever is drawn


@given(
    prompt=st.lists(st.integers(0, V - 1), min_size=1, max_size=9),
    config=st.builds(
        SamplingConfig,
        temperature=st.floats(0, 3),
        top_k=st.one_of(st.none(), st.integers(1, 10)),
        no_repeat_ngram=st.integers(0, 3),
        max_tokens=st.integers(0, 8),
    ),
    stop=st.sets(st.integers(0, V - 1), max_size=3).map(tuple),
    samples=st.integers(1, 4),
    window=st.one_of(st.none(), st.integers(1, 12)),
    seed=st.integers(0, 2**70),
)
def test_samples_begin_with_the_prompt_and_end_where_they_must(prompt, config, stop, samples, window, seed):
    settings = {"stop": stop, "pad": 0, "rng_seed": seed, "context_window": window}
    found = generate_ids(Reader(), prompt, config, samples=samples, **settings)
    assert found == generate_ids(Reader(), np.array(prompt), config, samples=samples, **settings)
    assert found[:1] == generate_ids(Reader(), prompt, config, **settings)
    for sequence in found:
        added = sequence[len(prompt) :]
        assert sequence[: len(prompt)] == prompt
        assert all(type(id) is int for id in sequence)
        assert not set(added[:-1]) & set(stop)
        assert len(added) == config.max_tokens or (added and added[-1] in stop)


# Both models


def models():
    rng = np.random.default_rng(5)
    gpt_config = GPTConfig(17, context_window=6, embedding_dim=8, num_layers=2, num_heads=2, head_dim=3)
    rnn_config = RNNConfig(17, embedding_dim=8)
    gpt_params = {name: 5.0 * array for name, array in init_gpt(gpt_config, rng, np.float64).items()}
    rnn_params = init_rnn(rnn_config, rng, np.float64)
    return {
        "gpt": (partial(gpt_step, gpt_params, config=gpt_config), partial(gpt, gpt_params, config=gpt_config), 6),
        "rnn": (
            partial(generative_rnn_step, rnn_params, config=rnn_config),
            partial(generative_rnn, rnn_params, config=rnn_config),
            None,
        ),
    }


@pytest.mark.parametrize("model", ["gpt", "rnn"])
def test_the_cache_changes_no_token(model):
    """Cached and full logits differ in their last bits; that no number falls between the two is part of the seed."""
    step, full, window = models()[model]

    def uncached(ids, past):
        return full(ids)[0], past

    settings = {"stop": (3,), "pad": 0, "rng_seed": 8, "samples": 5, "context_window": window}
    config = SamplingConfig(max_tokens=20)
    found = generate_ids(step, [1, 2, 16], config, **settings)
    assert found == generate_ids(uncached, [1, 2, 16], config, **settings)
    assert max(map(len, found)) > 6


@pytest.mark.parametrize("model", ["gpt", "rnn"])
def test_a_prompt_longer_than_the_window_is_kept_whole(model):
    step, _, window = models()[model]
    prompt = [*range(10)]
    settings = {"stop": (), "pad": 0, "rng_seed": 0, "context_window": window}
    config = SamplingConfig(temperature=0.0, repetition_penalty=1.0, max_tokens=3)
    found = generate_ids(step, prompt, config, **settings)[0]
    assert found[:10] == prompt
    assert (found[10:] == generate_ids(step, prompt[-6:], config, **settings)[0][6:]) or window is None
    assert len(found) == 13


# Text

TOKENIZER = Tokenizer(sorted(["habia", "una", "vez", " ", ".", "ñ"]))


def speaker(*tokens):
    """A model that says these tokens, and then the last of them for ever; it remembers what it was asked."""
    said = [TOKENIZER.token_to_id[token] for token in tokens]
    asked = []

    def step(ids, past):
        asked.append(ids.tolist())
        t = past or 0
        logits = np.zeros((*ids.shape, TOKENIZER.vocab_size))
        logits[..., said[min(t, len(said) - 1)]] = 50.0
        return logits, t + 1

    return step, asked


def texts(step, prompt, config=SHORT, **settings):
    return generate_tokens(step, TOKENIZER, prompt, config, context_window=None, **settings)


def test_the_model_is_given_bos_and_the_prompt():
    step, asked = speaker(" ", "vez", ".", "<EOS>")
    assert texts(step, "habia una", samples=2) == ["habia una vez."] * 2
    assert asked[0] == [[TOKENIZER.bos_id, *TOKENIZER.encode("habia una")]] * 2
    assert len(asked) == 4


def test_an_empty_prompt_begins_a_text():
    step, asked = speaker("una", "<EOS>")
    assert texts(step, "") == ["una"]
    assert asked[0] == [[TOKENIZER.bos_id]]


@pytest.mark.parametrize("token", ["<UNK>", "<BOS>", "<PAD>"])
def test_special_tokens_are_never_said(token):
    step, _ = speaker(token, "<EOS>")
    step_alone = SamplingConfig(temperature=0.0, max_tokens=1)
    assert texts(step, "", step_alone) == [" "]  # all others are alike: the lowest id


def test_what_the_setting_bans_is_banned_too():
    step, _ = speaker("una", "<EOS>")
    banned = (TOKENIZER.token_to_id["una"], TOKENIZER.token_to_id[" "])
    assert texts(step, "", SamplingConfig(temperature=0.0, max_tokens=1, banned=banned)) == ["."]


def test_an_unknown_word_of_the_prompt_stays_as_it_was_typed():
    step, asked = speaker(".", "<EOS>")
    assert texts(step, "habia Xyz") == ["habia Xyz."]
    assert asked[0][0][-1] == TOKENIZER.unk_id


def test_the_prompt_comes_back_as_the_tokenizer_prepares_it():
    tokenizer = Tokenizer(TOKENIZER.vocabulary[:-4], lower=True, strip_accents=True)
    step, _ = speaker(".", "<EOS>")
    assert generate_tokens(step, tokenizer, "Había Ñ", SHORT, context_window=None) == ["habia ñ."]


@pytest.mark.parametrize("prompt", ["Xyz", "xyz qwe", "\txyz\n", "ha bia", "!", "xyz" * 99])
def test_a_prompt_of_unknown_words_only_is_refused_in_one_line(prompt):
    with pytest.raises(ValueError, match=r"^prompt: .*expected at least one") as caught:
        texts(speaker("<EOS>")[0], prompt)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 140


@pytest.mark.parametrize("prompt", [" ", "\n\t", "ñ", "xyz."])
def test_white_space_or_one_known_sign_is_prompt_enough(prompt):
    assert texts(speaker("una", "<EOS>")[0], prompt) == [f"{prompt}una"]


def test_a_seed_says_the_same_again_and_another_something_else():
    def level(ids, past):
        return np.zeros((*ids.shape, TOKENIZER.vocab_size), np.float32), None

    assert texts(level, "", seed=1, samples=3) == texts(level, "", seed=1, samples=3)
    assert texts(level, "", seed=1, samples=3) != texts(level, "", seed=2, samples=3)


# Bad input


def settings(**changed):
    return {"stop": (), "pad": 0, "rng_seed": 0, "context_window": None, **changed}


@pytest.mark.parametrize(
    ("prompt", "changed", "kind", "named"),
    [
        ([], {}, ValueError, "prompt"),
        ([[1, 2], [3, 4]], {}, ValueError, "prompt"),
        ([[1, 2], [3]], {}, ValueError, "prompt"),
        ([1.0], {}, TypeError, "prompt"),
        ([True], {}, TypeError, "prompt"),
        (["a"], {}, TypeError, "prompt"),
        ([-1], {}, ValueError, "prompt"),
        (5, {}, ValueError, "prompt"),
        ([1], {"samples": 0}, ValueError, "samples"),
        ([1], {"samples": 1.0}, TypeError, "samples"),
        ([1], {"rng_seed": -1}, ValueError, "rng_seed"),
        ([1], {"rng_seed": None}, TypeError, "rng_seed"),
        ([1], {"context_window": 0}, ValueError, "context_window"),
        ([1], {"pad": -1}, ValueError, "pad"),
        ([1], {"pad": V}, ValueError, "pad"),
        ([1], {"stop": 5}, ValueError, "stop"),
        ([1], {"stop": ("a",)}, TypeError, "stop"),
    ],
)
def test_bad_input_is_refused_in_one_line(prompt, changed, kind, named):
    with pytest.raises(kind) as caught:
        generate_ids(Reader(), prompt, SHORT, **settings(**changed))
    assert str(caught.value).startswith(f"{named}: ")
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("logits", "kind"),
    [
        (np.zeros((1, V)), ValueError),
        (np.zeros((2, 1, V)), ValueError),
        (np.zeros((1, 2, V)), ValueError),
        (np.zeros((1, 1, V), np.int64), TypeError),
        ([[[0.0] * V]], TypeError),
        (np.full((1, 1, V), np.nan), ValueError),
    ],
)
def test_logits_that_are_none_are_refused_in_one_line(logits, kind):
    with pytest.raises(kind, match=r"logits .*expected") as caught:
        generate_ids(lambda ids, past: (logits, None), [1], SHORT, **settings())
    assert "\n" not in str(caught.value)
