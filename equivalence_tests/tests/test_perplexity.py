"""The n-gram models against their definition, the losses against each other, and the comparison from end to end."""

import copy
import json
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.ngrams import KneserNey
from benchmarks.perplexity import ORDERS, first_two, main
from benchmarks.perplexity_report import markdown, verdict
from benchmarks.search import QUICK, WINDOW, Plan, choose, settings, split
from benchmarks.token_losses import difference, groups, mean_losses, neural_losses, ngram_losses, whole_stories
from equivalence_tests.implementations import has_torch
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import TextDataset, read_texts
from reference_numpy.generate import generate_ids
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import init_gpt
from reference_numpy.learner import NumpyLearner
from reference_numpy.sampling import SamplingConfig
from reference_numpy.train import evaluate

BOS, EOS, PAD, V = 4, 5, 3, 6  # ids 0, 1 and 2 are words
SPECIAL = {"vocab_size": V, "bos_id": BOS, "pad_id": PAD}
EPSILON = float(np.finfo(np.float64).eps)
TWINS = ("numpy", "torch") if has_torch() else ("numpy",)

STORIES = [[BOS, 0, 1, 0, EOS], [BOS, 0, 1, 2, 2, EOS], [BOS, 1, 1, 0, EOS], [BOS, 0, 1, 0, 2, EOS]]
words = st.lists(st.sampled_from([0, 1, 2]), max_size=7)
corpora = st.lists(words.map(lambda inner: [BOS, *inner, EOS]), min_size=1, max_size=6)
orders = st.integers(1, 5)


def exact(stories, order, context, w):
    """P(w | context) by the definition alone: counts over all places, in rational numbers."""

    def occurrences(ngram):
        n = len(ngram)
        places = [(s, i) for s in stories for i in range(len(s) - n + 1) if i + n > 1]
        return [s[i - 1] if i else None for s, i in places if tuple(s[i : i + n]) == ngram]  # what stands before

    def a(ngram, n):
        before = occurrences(ngram)
        return len(before) if n == order or ngram[0] == BOS else len({token for token in before if token is not None})

    def discount(n):
        every = {tuple(s[i : i + n]) for s in stories for i in range(len(s) - n + 1) if i + n > 1}
        of = Counter(a(ngram, n) for ngram in every)
        return Fraction(of[1], of[1] + 2 * of[2]) if of[1] and of[2] else Fraction(1, 2)

    def P(n, h):
        if n == 0:
            return Fraction(0 if w in (BOS, PAD) else 1, V - 2)
        if len(h) < n - 1:
            return P(n - 1, h)
        h = h[len(h) - (n - 1) :]
        counts = [a((*h, token), n) for token in range(V)]
        if sum(counts) == 0:
            return P(n - 1, h[1:])
        D, own = discount(n), a((*h, w), n)
        seen = sum(count > 0 for count in counts)
        return (max(own - D, 0) + D * seen * P(n - 1, h[1:])) / Fraction(sum(counts))

    return P(order, tuple(context))


def contexts(longest):
    """Every context of up to so many tokens, seen or not, with <BOS> at its beginning or nowhere."""
    inner = [EOS, 0, 1, 2]
    for length in range(longest + 1):
        for rest in product(inner, repeat=length):
            yield list(rest)
            yield [BOS, *rest]


@given(corpora, orders)
def test_every_distribution_sums_to_1_and_leaves_out_bos_and_pad_alone(stories, order):
    model = KneserNey(stories, order, **SPECIAL)
    assert all(0.0 < D < 1.0 for D in model.discounts)
    for context in contexts(3):
        P = model.next_distribution(context)
        # a level is a product, a quotient and a sum of at most V terms: V + 4 roundings of numbers that sum to 1
        assert abs(P.sum() - 1.0) <= (V + 4) * order * EPSILON
        assert P[BOS] == P[PAD] == 0.0
        assert (np.delete(P, [BOS, PAD]) > 0.0).all()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_model_is_its_definition(order):
    model = KneserNey(STORIES, order, **SPECIAL)
    for context in contexts(2):
        P = model.next_distribution(context)
        for w in range(V):
            right = exact(STORIES, order, context, w)
            # every term is positive: 5 roundings a level, relative, and as many for the discount, a - D losing at most
            # a factor 1 / (1 - D), below 4 here
            assert abs(P[w] - float(right)) <= 40 * order * EPSILON * float(right)


@given(corpora, orders)
def test_any_model_is_its_definition_where_its_stories_lead(stories, order):
    model = KneserNey(stories, order, **SPECIAL)
    story = stories[0]
    largest = max(1.0 / (1.0 - D) for D in model.discounts)
    for t in range(1, len(story)):
        right = float(exact(stories, order, story[:t], story[t]))
        assert abs(model.next_distribution(story[:t])[story[t]] - right) <= 10 * largest * order * EPSILON * right


def test_the_discount_comes_from_the_counts_of_counts():
    model = KneserNey([[BOS, 0, 0, 1, EOS], [BOS, 2, EOS]], 1, **SPECIAL)  # 0 and <EOS> twice, 1 and 2 once
    assert model.discounts == (2 / (2 + 2 * 2),)
    assert KneserNey([[BOS, 0, 1]], 1, **SPECIAL).discounts == (0.5,)  # nothing stands there twice


def test_a_word_that_follows_one_other_alone_is_improbable_elsewhere():
    """Kneser and Ney's point: 0 is frequent, but only after 1; 2 is rare, but after three different tokens."""
    stories = [[BOS, 1, 0, 1, 0, 1, 0, 1, 0, EOS], [BOS, 2, EOS], [BOS, 1, 2, 2, EOS]]
    assert KneserNey(stories, 1, **SPECIAL).next_distribution([])[[0, 2]].argmax() == 0
    assert KneserNey(stories, 2, **SPECIAL).next_distribution([])[[0, 2]].argmax() == 1


@given(corpora, orders, words)
def test_log_prob_is_the_chain_rule(stories, order, inner):
    model = KneserNey(stories, order, **SPECIAL)
    story = [BOS, *inner, EOS]
    single = [math.log(model.next_distribution(story[:t])[story[t]]) for t in range(1, len(story))]
    # the logarithms of NumPy and of the C library may differ in the last digit each
    assert np.abs(model.log_probs(story) - single).max() <= 2 * EPSILON * max(1.0, max(map(abs, single)))
    assert model.log_prob(story) == model.log_probs(story).sum()


@given(corpora, orders)
def test_the_continuations_of_a_beginning_share_its_probability(stories, order):
    model = KneserNey(stories, order, **SPECIAL)
    for beginning in ([BOS, 0], [BOS, 2, 1]):
        whole = math.exp(model.log_prob(beginning))
        parts = sum(math.exp(model.log_prob([*beginning, w])) for w in (0, 1, 2, EOS))
        # exp of a sum of at most 3 logarithms, each below log(1 / least) in size
        assert abs(parts - whole) <= 100 * EPSILON * whole


@given(corpora, orders, st.data())
def test_a_step_in_pieces_is_the_whole(stories, order, data):
    model = KneserNey(stories, order, **SPECIAL)
    rows = [[BOS, 0, 1, 2, 1, EOS, 0], [BOS, 2, 2, 0, 0, 1, 1]]
    ids = np.array(rows)
    cut = data.draw(st.integers(1, ids.shape[1] - 1))
    whole, _ = model.step(ids, None)
    first, past = model.step(ids[:, :cut], None)
    second, past = model.step(ids[:, cut:], past)
    assert np.array_equal(np.concatenate([first, second], 1), whole)
    assert past.shape == (2, min(order - 1, ids.shape[1]))
    for b, row in enumerate(rows):
        for t in range(len(row)):
            assert np.array_equal(np.exp(whole[b, t]) > 0.0, model.next_distribution(row[: t + 1]) > 0.0)
            with np.errstate(divide="ignore"):
                assert np.array_equal(whole[b, t], np.log(model.next_distribution(row[: t + 1])))


def test_the_projects_sampler_reads_an_ngram_model():
    model = KneserNey(STORIES, 3, **SPECIAL)
    greedy = SamplingConfig(temperature=0.0, repetition_penalty=1.0, max_tokens=10)
    options = {"stop": (EOS,), "pad": PAD, "rng_seed": 0, "context_window": None}
    assert generate_ids(model.step, [BOS], greedy, **options) == [[BOS, 0, 1, 0, EOS]]
    plain = SamplingConfig(temperature=1.0, top_k=None, repetition_penalty=1.0, max_tokens=30)
    drawn = generate_ids(model.step, [BOS], plain, samples=20, **options)
    assert not {BOS, PAD} & {token for row in drawn for token in row[1:]}


@pytest.mark.parametrize(
    ("stories", "order", "special", "kind", "message"),
    [
        ([], 2, {}, ValueError, "stories: 0 without"),
        ([[BOS]], 2, {}, ValueError, "stories: 1 without"),
        ([[]], 2, {}, ValueError, "stories: an empty one"),
        ([[0, EOS]], 2, {}, ValueError, "stories: one that begins with 0"),
        ([[BOS, 0, BOS]], 2, {}, ValueError, "no <BOS> there"),
        ([[BOS, PAD]], 2, {}, ValueError, "no <PAD> there"),
        ([[BOS, V]], 2, {}, ValueError, "holds 6"),
        ([[BOS, -1]], 2, {}, ValueError, "-1 came"),
        ([[BOS, 0.5]], 2, {}, TypeError, "float64 came"),
        (STORIES, 0, {}, ValueError, "order: 0 came"),
        (STORIES, True, {}, TypeError, "order: a bool came"),
        (STORIES, 2, {"pad_id": BOS}, ValueError, "two different ids"),
        (STORIES, 2, {"pad_id": V}, ValueError, "two different ids"),
        (STORIES, 2, {"vocab_size": 2}, ValueError, "vocab_size: 2 came"),
    ],
)
def test_an_ngram_model_refuses_what_it_cannot_read(stories, order, special, kind, message):
    with pytest.raises(kind, match=message) as caught:
        KneserNey(stories, order, **{**SPECIAL, **special})
    assert "\n" not in str(caught.value)


def test_a_context_or_a_story_out_of_range_is_refused():
    model = KneserNey(STORIES, 2, **SPECIAL)
    with pytest.raises(ValueError, match="context holds 6"):
        model.next_distribution([V])
    with pytest.raises(ValueError, match="ids holds 6"):
        model.step(np.array([[V]]), None)
    with pytest.raises(ValueError, match="story: one that begins with 0"):
        model.log_prob([0, 1])


@pytest.fixture(scope="module")
def text():
    return split(read_texts(corpus_path())[:40])


def test_no_story_is_on_two_sides_and_the_vocabulary_is_the_training_sets(text):
    sides = [{tuple(story) for story in whole_stories(data)} for data in text.parts().values()]
    assert [len(side) for side in sides] == [32, 4, 4]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not sides[1] & sides[2]
    tokenizer = text.train.tokenizer
    assert text.validation.tokenizer is text.test.tokenizer is tokenizer
    seen = Counter(token for story in whole_stories(text.train) for token in story.tolist())
    assert all(seen[token] >= 2 for token in range(tokenizer.bos_id))


def test_the_windows_put_together_are_the_stories():
    stories = ["uno dos tres", "a", " ".join(f"palabra{n}" for n in range(40)), "fin."]
    for length in (2, 3, 7, 129, 1000):
        data = TextDataset(stories, length)
        encode, bos, eos = data.tokenizer.encode, data.tokenizer.bos_id, data.tokenizer.eos_id
        right = [[bos, *encode(story), eos] for story in stories]
        assert [story.tolist() for story in whole_stories(data)] == right
        assert sum(len(story) - 1 for story in right) == data.num_tokens


@pytest.mark.parametrize("family", ["gpt", "rnn"])
def test_the_losses_of_single_tokens_are_the_models_loss(family, text):
    v = text.test.tokenizer.vocab_size
    rng = np.random.default_rng(3)
    if family == "gpt":
        config = GPTConfig(v, WINDOW, embedding_dim=6, num_layers=1, num_heads=2, head_dim=3)
        learner = NumpyLearner(config, init_gpt(config, rng, np.float64))
    else:
        config = RNNConfig(v, embedding_dim=6)
        learner = NumpyLearner(config, init_rnn(config, rng, np.float64))
    learner.params["lm_head.weight"] *= 20.0  # so that the tokens differ in loss
    losses = neural_losses(learner, text.test)
    assert [len(each) for each in losses] == [len(story) - 1 for story in whole_stories(text.test)]
    mean, count = evaluate(learner, text.test, 3)
    together = np.concatenate(losses)
    assert together.size == count
    # the same float64 numbers in another order and padding: sums of up to `count` terms, logits of up to 200
    assert abs(together.mean() - mean) <= count * 200 * EPSILON
    # one story at a time, window by window: the right place for every token
    for story, own in zip(whole_stories(text.test), losses, strict=True):
        for start in range(0, len(story) - 1, WINDOW):
            row = story[start : start + WINDOW + 1]
            logits, _ = learner.step(row[None, :-1], None)
            right = np.log(np.exp(logits[0]).sum(-1)) - logits[0][np.arange(len(row) - 1), row[1:]]
            assert np.abs(own[start : start + WINDOW] - right).max() <= 1000 * EPSILON * np.abs(logits).max()


def test_the_groups_part_the_targets_in_two_ways_and_their_means_make_the_whole(text):
    stories = whole_stories(text.train)
    masks = groups(stories, text.train.tokenizer, WINDOW)
    kinds, places = list(masks.values())[:2], list(masks.values())[2:]
    for parts in (kinds, places):
        assert (np.sum(parts, 0) == 1).all()
    vocabulary = text.train.tokenizer.vocabulary
    targets = np.concatenate([story[1:] for story in stories])
    assert {vocabulary[token] for token in targets[kinds[0]]} == {" "}
    rng = np.random.default_rng(0)
    losses = [rng.random(len(story) - 1) for story in stories]
    whole = float(np.concatenate(losses).mean())
    means = mean_losses(losses, masks)
    for some in (list(masks)[:2], list(masks)[2:]):
        again = sum(means[name] * masks[name].sum() for name in some) / targets.size
        assert abs(again - whole) <= targets.size * EPSILON
    long = next(n for n, story in enumerate(stories) if len(story) > WINDOW + 20)
    at = sum(len(story) - 1 for story in stories[:long])
    early, cut, later = (mask[at : at + len(stories[long]) - 1] for mask in places)
    assert [early.sum(), early[:16].sum(), cut[WINDOW : WINDOW + 16].sum(), later[16:WINDOW].sum()] == [16, 16, 16, 112]
    assert mean_losses([np.ones(2)], {"nobody": np.zeros(2, bool)}) == {"nobody": None}


def test_the_difference_of_two_models_and_its_error():
    base = [np.array([1.0, 3.0]), np.array([2.0, 2.0])]
    other = [np.array([2.0, 4.0]), np.array([2.0, 3.0])]  # d = 2 and 1 over 2 tokens each: 0.75 a token
    assert difference(base, base) == (0.0, 0.0)
    # means of the two stories 1 and 0.5: the standard error of the mean of two numbers is half their distance
    assert difference(other, base) == (0.75, 0.25)
    assert difference(other[:1], base[:1]) == (1.0, None)


def test_both_families_get_equally_many_settings_and_the_same_batches(text):
    for plan in (QUICK, Plan()):
        runs = settings(text, plan, 3, "numpy")
        assert Counter(run.family for run in runs) == {"rnn": 4, "gpt": 4}
        schedules = {json.dumps({**vars(run.training), "learning_rate": 0}) for run in runs}
        assert len(schedules) == 1
        assert {run.training.learning_rate for run in runs} == {1e-3, 3e-3}
        assert len({json.dumps(vars(run.config)) for run in runs}) == 4


def test_the_choice_is_by_the_end_not_by_the_best_epoch(text):
    runs = settings(text, QUICK, 2, "numpy")[:2]
    for run, ends in zip(runs, ([3.0, 5.0], [4.5, 4.6]), strict=True):
        for epoch, loss in enumerate(ends, 1):
            run.rows += [
                {"step": 2 * epoch - 1, "epoch": epoch, "loss": 1.0, "tokens": 30},
                {"step": 2 * epoch, "epoch": epoch, "loss": 2.0, "tokens": 10},
                {"step": 2 * epoch, "epoch": epoch, "held_out_loss": loss, "perplexity": math.exp(loss)},
            ]
    assert choose(runs) is runs[1]
    told = runs[0].described()
    assert (told["best_epoch"], told["best_validation_loss"], told["last_validation_loss"]) == (1, 3.0, 5.0)
    assert [row["train"] for row in told["curve"]] == [1.25, 1.25]  # by tokens, no mean of means
    assert told["tokens_seen"] == 80


@pytest.fixture(scope="module", params=TWINS)
def quick(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    assert main(["--quick", "--twin", request.param, "--out", str(folder)]) == 0
    result = json.loads((folder / "perplexity-cuentos-quick.json").read_text("utf-8"))
    return folder, result


def test_a_comparison_writes_a_result_a_report_and_a_picture(quick):
    folder, result = quick
    names = [f"perplexity-cuentos-quick.{suffix}" for suffix in ("json", "md", "png")]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / names[2]).read_bytes().startswith(b"\x89PNG")
    report = (folder / names[1]).read_text("utf-8")
    assert report == markdown(result, names[2])
    for name in (*ORDERS, "RNN", "GPT"):
        assert f"\n| {name} | " in report
        assert f"\n**{name}**\n\n1. Habia una vez" in report
    written = report + json.dumps(result)
    assert str(corpus_path().parent) not in written
    assert str(folder) not in written


def test_all_models_predict_the_same_tokens_and_both_families_saw_equally_many(quick, text):
    _, result = quick
    targets = text.train.num_tokens
    assert len(text.train) % QUICK.batch_size != 0  # or else no window could be left out
    assert {run["tokens_seen"] for run in result["runs"]} == {result["settings"]["epochs"] * targets}
    assert all(len(run["curve"]) == result["settings"]["epochs"] == 2 for run in result["runs"])
    assert result["data"]["test"]["targets"] == text.test.num_tokens
    special = {"vocab_size": text.train.tokenizer.vocab_size}
    special |= {"bos_id": text.train.tokenizer.bos_id, "pad_id": text.train.tokenizer.pad_id}
    for name, order in ORDERS.items():
        losses = ngram_losses(KneserNey(whole_stories(text.train), order, **special), text.test)
        every = float(np.concatenate(losses).mean())
        assert result["models"][name]["test"]["loss"] == every
        assert result["models"][name]["test"]["perplexity"] == math.exp(every)


def test_the_table_shows_the_setting_with_the_lowest_last_validation_loss(quick):
    _, result = quick
    for label in ("RNN", "GPT"):
        own = [n for n, run in enumerate(result["runs"]) if run["family"] == label.lower()]
        assert len(own) == 4
        chosen = result["models"][label]["run"]
        assert chosen == min(own, key=lambda n: result["runs"][n]["last_validation_loss"])
        loss = result["models"][label]["validation"]["loss"]
        # a mean of float32 losses against one of float64 losses over float32 logits: a few roundings of float32 each
        assert loss == pytest.approx(
            result["runs"][chosen]["last_validation_loss"], rel=100 * float(np.finfo(np.float32).eps)
        )
        train = result["models"][label]["train"]["loss"]
        assert train == pytest.approx(result["runs"][chosen]["train_loss"], rel=100 * float(np.finfo(np.float32).eps))


def test_the_column_beside_the_perplexities_is_the_difference_of_two_of_them(quick):
    _, result = quick
    gpt = math.log(result["models"]["GPT"]["test"]["perplexity"])
    for model in result["models"].values():
        gap = math.log(model["test"]["perplexity"]) - gpt
        # an exp and a log of numbers below 8, and sums of some hundred losses in another order
        assert abs(model["test_loss_minus_gpt"]["mean"] - gap) <= 8 * result["data"]["test"]["targets"] * EPSILON


def test_the_samples_are_three_of_each_model_and_the_same_again(quick):
    _, result = quick
    assert set(result["samples"]) == {*ORDERS, "RNN", "GPT"}
    for texts in result["samples"].values():
        assert len(texts) == 3
        assert all(each.startswith("Habia una vez") for each in texts)
    assert result["sampling"]["temperature"] == 0.8
    assert result["sampling"]["top_k"] == 50
    assert result["sampling"]["repetition_penalty"] == 1.01


@pytest.mark.parametrize("best", [*ORDERS, "RNN", "GPT"])
def test_the_verdict_names_whoever_wins(best, quick):
    _, result = quick
    said = copy.deepcopy(result)
    losses = {name: [np.full(10, 2.0), np.full(7, 2.0)] for name in said["models"]}
    losses[best] = [np.full(10, 1.0), np.full(7, 1.5)]
    for name, model in said["models"].items():
        model["test"]["loss"] = float(np.concatenate(losses[name]).mean())
        mean, error = difference(losses[name], losses["GPT"])
        model["test_loss_minus_gpt"] = {"mean": mean, "standard_error": error}
    said["first_two"] = first_two({name: {"test": each} for name, each in losses.items()})
    lines = verdict(said)
    assert lines[0].startswith(f"Test perplexity per token, from the best: {best} ")
    assert lines[1].startswith(f"The best is the {best}: ")
    beaten = "beats" if best == "GPT" else "does not beat"
    assert any(line.startswith(f"The GPT {beaten} the trigram") for line in lines)
    assert any(line.startswith(f"The GPT {beaten} the RNN") for line in lines)
    assert sum(line.startswith("Why not the ") for line in lines) == (0 if best == "GPT" else 2)
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("best_epoch", "said"), [(1, "in all of the 4"), (2, "in none of the 4"), (None, "in 1 of the 4")]
)
def test_the_verdict_says_whether_the_validation_loss_rose(best_epoch, said, quick):
    _, result = quick
    result = copy.deepcopy(result)
    for n, run in enumerate(result["runs"]):
        run["best_epoch"] = best_epoch or (1 if n % 4 == 0 else 2)
    assert sum(said in line for line in verdict(result)) == 2


def test_a_difference_within_its_error_is_called_open(quick):
    _, result = quick
    result = copy.deepcopy(result)
    result["models"]["RNN"]["test_loss_minus_gpt"] = {"mean": 0.01, "standard_error": 0.006}
    assert any("beats the RNN" in line and "do not settle it" in line for line in verdict(result))
    result["models"]["RNN"]["test_loss_minus_gpt"] = {"mean": 0.01, "standard_error": 0.004}
    assert not any("beats the RNN" in line and "do not settle it" in line for line in verdict(result))
    result["models"]["RNN"]["test_loss_minus_gpt"] = {"mean": 0.0, "standard_error": None}
    assert any("does not beat the RNN: the same loss" in line and "one test story" in line for line in verdict(result))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere.txt"], "'nowhere.txt'"),
        (["--tokens", "0"], "--tokens: 0 came"),
        (["--tokens", "-5"], "--tokens: -5 came"),
        (["--threads", "0"], "--threads: 0 came"),
        (["--threads", "2", "--twin", "numpy"], "--threads: it came with --twin numpy"),
    ],
)
def test_a_wrong_argument_is_said_in_one_line(arguments, message, tmp_path, capsys):
    twin = [] if "--twin" in arguments else ["--twin", TWINS[-1]]
    assert main([*arguments, *twin, "--quick", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_the_comparison(tmp_path, monkeypatch, capsys):
    """The first Ctrl-C is taken in by the training itself, which ends early: what follows must not go on without it."""
    monkeypatch.setattr("benchmarks.search.train_model", lambda *arguments, **options: 1)
    assert main(["--quick", "--twin", "numpy", "--out", str(tmp_path)]) == 130
    assert "stopped" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_said_before_the_work(tmp_path, capsys):
    (tmp_path / "file").write_text("", "utf-8")
    assert main(["--quick", "--twin", "numpy", "--out", str(tmp_path / "file")]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "file" in told.err
    assert told.out == ""


def test_too_few_stories_are_said_in_one_line(tmp_path, capsys):
    path = tmp_path / "two.txt"
    path.write_text("uno dos dos\ntres uno uno\n", "utf-8")
    assert main(["--data", str(path), "--twin", "numpy", "--quick", "--out", str(tmp_path / "out")]) == 2
    assert "2 to hold some out" in capsys.readouterr().err


def test_a_tiny_text_that_knows_no_word_of_the_prompt_is_compared_all_the_same(tmp_path):
    path = tmp_path / "[tiny].txt"
    path.write_text("one two one two\ntwo one\none one two two.\n", "utf-8")
    out = tmp_path / "out"
    assert main(["--data", str(path), "--tokens", "1", "--twin", "numpy", "--quick", "--out", str(out)]) == 0
    result = json.loads((out / "perplexity-[tiny]-quick.json").read_text("utf-8"))
    assert result["prompt"] == ""
    assert result["settings"]["epochs"] == 1
    assert result["models"]["GPT"]["test"]["by_group"]["first 16 after a cut"] is None
    assert "one test story" in (out / "perplexity-[tiny]-quick.md").read_text("utf-8")
