"""Training: the laws of the loop and their mistakes, all twins as learners, and together over a thousand steps."""

import dataclasses
import inspect
import signal
import threading

import numpy as np
import pytest
import torch

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case
from equivalence_tests.mistakes import training as mistakes
from equivalence_tests.ops import OPS
from equivalence_tests.parts.training import DATA as TINY
from equivalence_tests.parts.training import PARTS, SETTINGS, Scribe
from equivalence_tests.train import TWINS, make_learner
from equivalence_tests.trajectory import LIMITS, largest_gap, side_by_side, tales
from reference_numpy import train
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.dataset import TextDataset, batches, inputs_and_targets
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import init_gpt
from reference_numpy.learner import NumpyLearner
from reference_numpy.train import TrainingConfig, evaluate, steps_of_an_epoch, train_model
from torch_impl.learner import TorchLearner

LAWS = [pytest.param(part, law, id=f"{part}-{law.__name__}") for part, laws in PARTS.items() for law in laws]
VOCABULARY = TINY.tokenizer.vocab_size
CONFIGS = {
    "gpt": GPTConfig(VOCABULARY, 30, 6, 2, 2, 3, 2, 0.3),
    "tied": GPTConfig(VOCABULARY, 30, 6, 1, 2, 3, 2, 0.3, tied_head=True),
    "rnn": RNNConfig(VOCABULARY, 7),
}


def initial(config, dtype=np.float64, seed=3):
    return (init_gpt if isinstance(config, GPTConfig) else init_rnn)(config, np.random.default_rng(seed), dtype)


def learners(config, dtype=np.float64):
    """Of every twin, in the order of TWINS: the fast NumPy, the textbook, torch."""
    params = initial(config, dtype)
    return [make_learner(twin, config, {name: p.copy() for name, p in params.items()}, {}, "cpu") for twin in TWINS]


@pytest.mark.parametrize(("part", "law"), LAWS)
def test_law_holds(part, law):
    assert law(getattr(train, part)) == ""


@pytest.mark.parametrize("mistake", mistakes.MISTAKES, ids=lambda mistake: mistake.id)
def test_every_mistake_is_caught(mistake):
    assert any(law(mistake.forward) for law in PARTS[mistake.op])
    given = inspect.signature(mistake.forward).parameters
    assert list(given) == list(inspect.signature(getattr(train, mistake.op)).parameters)


def test_the_loop_of_the_mistakes_is_right_without_one():
    assert [law(mistakes.loop()) for law in PARTS["train_model"] if law(mistakes.loop())] == []


@pytest.mark.parametrize(("part", "law"), LAWS)
def test_every_law_catches_a_mistake(part, law):
    assert any(law(mistake.forward) for mistake in mistakes.MISTAKES if mistake.op == part)


@pytest.mark.parametrize("name", CONFIGS)
def test_gathering_in_parts_gives_the_gradient_of_the_whole_within_the_budget(name):
    """What two batches add up to, each weighted by its tokens, is the gradient of one batch of all rows."""
    config = CONFIGS[name]
    pad_id = TINY.tokenizer.pad_id
    (rows,) = batches(TINY, 100, np.random.default_rng(0))
    ids, targets = inputs_and_targets(rows)
    tokens = int((targets != pad_id).sum())
    op = OPS["gpt_loss" if isinstance(config, GPTConfig) else "generative_rnn_loss"]
    params = initial(config)
    options = {"config": config, "ignore_index": pad_id}
    case = Case({**params, "ids": ids, "targets": targets}, options, {"dloss": np.asarray(1.0)})
    exact = op.exact(case, PRECISIONS["float64"])
    for learner in learners(config):
        if isinstance(learner, TorchLearner):
            learner.model.config = learner.model.config
            learner.model.eval()
            learner.model.train = lambda mode=True: None  # nothing is dropped: the formula has no masks
        losses = []
        for part in (slice(0, 4), slice(4, None)):
            count = int((targets[part] != pad_id).sum())
            losses.append(count / tokens * learner.gather(ids[part], targets[part], pad_id, None, count / tokens))
        got = (
            learner._gathered
            if isinstance(learner, NumpyLearner)
            else {n: p.grad.numpy() for n, p in learner.model.named_parameters()}
        )
        assert abs(sum(losses) - float(exact["loss"].value)) <= 4.0 * float(exact["loss"].budget())
        for parameter in params:
            truth = exact[f"d{parameter}"]
            # Each part has its own rounding, and their sum one more: the measured budget of the whole, twice.
            assert (np.abs(got[parameter] - truth.value) <= 2.0 * truth.budget()).all(), parameter


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_learner_keeps_its_dtype_and_snapshots_are_copies(name, dtype):
    for learner in learners(CONFIGS[name], dtype):
        train_model(learner, TINY, SETTINGS, stop=2)
        params, state = learner.snapshot()
        before = {n: p.copy() for n, p in params.items()}
        assert {p.dtype for p in params.values()} == {np.dtype(dtype)}
        assert {p.dtype for moment in ("exp_avg", "exp_avg_sq") for p in state[moment].values()} == {np.dtype(dtype)}
        assert state["step"] == 2
        train_model(learner, TINY, SETTINGS, step=2, stop=3)
        assert all(np.array_equal(params[n], before[n]) for n in params)
        assert any(not np.array_equal(learner.snapshot()[0][n], before[n]) for n in params)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("second", TWINS)
@pytest.mark.parametrize("first", TWINS)
def test_one_twin_goes_on_where_the_other_stopped(name, first, second):
    """Four steps of one, four of the other, against eight of the first: as close as two twins are."""
    config = CONFIGS[name]
    whole, begun = (learners(config)[TWINS.index(first)] for _ in range(2))
    settings = dataclasses.replace(SETTINGS, epochs=8, clip_norm=0.5)
    train_model(whole, TINY, settings, stop=8)
    train_model(begun, TINY, settings, stop=4)
    other = make_learner(second, config, *begun.snapshot(), "cpu")
    train_model(other, TINY, settings, step=4, stop=8)
    (_, gap) = largest_gap(whole.snapshot()[0], other.snapshot()[0])
    assert gap == 0.0 if first == second else gap < LIMITS["float64"]


@pytest.mark.parametrize("twin", TWINS)
def test_a_resumed_training_is_the_same_to_the_last_bit(twin):
    config = CONFIGS["gpt"]
    whole, begun = (learners(config, np.float32)[TWINS.index(twin)] for _ in range(2))
    train_model(whole, TINY, SETTINGS, stop=7)
    train_model(begun, TINY, SETTINGS, stop=3)
    again = make_learner(twin, config, *begun.snapshot(), "cpu")
    train_model(again, TINY, SETTINGS, step=3, stop=7)
    (one, moments), (other, others) = whole.snapshot(), again.snapshot()
    assert all(np.array_equal(one[n], other[n]) for n in one)
    assert all(np.array_equal(moments["exp_avg_sq"][n], others["exp_avg_sq"][n]) for n in one)


@pytest.mark.parametrize("name", CONFIGS)
def test_all_twins_evaluate_alike_and_drop_nothing(name):
    everyone = learners(CONFIGS[name])
    (one, tokens), *others = (evaluate(each, TINY, 3) for each in everyone)
    assert {tokens, *(count for _, count in others)} == {TINY.num_tokens}
    for each, (other, _) in zip(everyone[1:], others, strict=True):
        assert abs(one - other) <= 1e-13  # a mean of numbers near log 12, each wrong by a few units of roundoff
        assert evaluate(each, TINY, 3)[0] == other


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", ["gpt", "rnn"])
def test_after_a_thousand_steps_the_twins_are_together(name, dtype):
    """AdamW at 1e-3 with dropout. A wrong epsilon, a mask that differs once, a lost gradient: all part them for good."""
    data = tales(17, 40)  # more than can be learnt by heart: a model that has done that amplifies every difference
    size = data.tokenizer.vocab_size
    config = GPTConfig(size, 16, 16, 1, 2, 8, 2, 0.1) if name == "gpt" else RNNConfig(size, 16)
    curve, losses = side_by_side(config, data, TrainingConfig(batch_size=4, seq_length=17), 1000, dtype, twins=TWINS)
    assert curve[-1][0] == 1000
    assert max(gap for _, gap, _ in curve) <= LIMITS[dtype]
    assert losses["numpy"][-1]["loss"] < 0.7 * losses["numpy"][0]["loss"]


def test_a_twin_that_drops_other_units_is_not_together(monkeypatch):
    right = TorchLearner.gather

    def other_masks(self, ids, targets, ignore_index, keep, weight):
        return right(self, ids, targets, ignore_index, {name: mask[::-1].copy() for name, mask in keep.items()}, weight)

    monkeypatch.setattr(TorchLearner, "gather", other_masks)
    curve, _ = side_by_side(CONFIGS["gpt"], TINY, TrainingConfig(batch_size=4, seq_length=30), 20, "float64")
    assert curve[-1][1] > 1e-3


def test_the_trajectory_is_of_the_tales():
    data = tales(33, 20)
    assert 50 < data.tokenizer.vocab_size < 400
    assert max(len(row) for row in data.data) == 33


def test_rows_that_the_model_cannot_read_are_refused():
    short = dataclasses.replace(CONFIGS["gpt"], context_window=8)
    with pytest.raises(ValueError, match=r"seq_length: 19 came, expected at most context_window \+ 1 = 9"):
        train_model(learners(short)[0], TINY, SETTINGS)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("epochs", 0, ValueError),
        ("batch_size", -1, ValueError),
        ("seq_length", 1, ValueError),
        ("accumulation", 1.5, TypeError),
        ("checkpoint_every", True, TypeError),
        ("learning_rate", -1e-3, ValueError),
        ("learning_rate", float("nan"), ValueError),
        ("clip_norm", "1", TypeError),
        ("cosine", 1, TypeError),
        ("seed", -1, ValueError),
    ],
)
def test_a_wrong_setting_is_named(field, value, error):
    with pytest.raises(error, match=field) as raised:
        TrainingConfig(**{field: value})
    assert "\n" not in str(raised.value)


def test_steps_of_an_epoch_are_those_that_are_taken():
    for windows in range(1, 12):
        data = TextDataset(["a b"] * windows, 9)
        for size in (1, 2, 3, 20):
            for accumulation in (1, 2, 5):
                for drop_last in (True, False):
                    settings = TrainingConfig(1, size, 9, accumulation, drop_last=drop_last)
                    scribe = Scribe()
                    scribe.config = RNNConfig(VOCABULARY, 2)
                    assert train_model(scribe, data, settings) == steps_of_an_epoch(windows, settings)
                    assert len(scribe.of("update")) == steps_of_an_epoch(windows, settings)


def test_ctrl_c_ends_after_the_step_and_saves():
    """The first one is noted, the step in progress is finished and saved; the handler that was there is there again."""
    before = signal.getsignal(signal.SIGINT)
    saved, rows = [], []

    def watch(row):
        rows.append(row["step"])
        if row["step"] == 2:
            signal.raise_signal(signal.SIGINT)

    done = train_model(Scribe(), TINY, SETTINGS, watch=watch, save=saved.append)
    assert (done, rows, saved) == (2, [1, 2], [0, 2])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_at_once():
    class Slow(Scribe):
        def gather(self, *arguments):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError

    saved = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train_model(Slow(), TINY, SETTINGS, save=saved.append)
    assert saved == [0]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_training_in_another_thread_leaves_signals_alone():
    done = []
    thread = threading.Thread(target=lambda: done.append(train_model(Scribe(), TINY, SETTINGS, stop=2)))
    thread.start()
    thread.join()
    assert done == [2]


def test_torch_clips_and_decays_as_asked():
    """The settings reach torch's own optimizer: its options are those of the last step."""
    learner = learners(CONFIGS["rnn"])[TWINS.index("torch")]
    ids, targets = inputs_and_targets(batches(TINY, 4, np.random.default_rng(0))[0])
    learner.gather(ids, targets, TINY.tokenizer.pad_id, None, 1.0)
    norm = learner.update(0.02, 0.3, 1e-3)
    assert norm > 1e-3
    assert (learner.optimizer.param_groups[0]["lr"], learner.optimizer.param_groups[0]["weight_decay"]) == (0.02, 0.3)
    assert all(p.grad is None for p in learner.model.parameters())


def test_a_gradient_that_is_not_finite_stops_every_twin():
    for learner in learners(CONFIGS["rnn"]):
        ids, targets = inputs_and_targets(batches(TINY, 4, np.random.default_rng(0))[0])
        learner.gather(
            ids, targets, TINY.tokenizer.pad_id, None, float("inf") if isinstance(learner, TorchLearner) else 1.0
        )
        if isinstance(learner, NumpyLearner):
            learner._gathered["lm_head.bias"][0] = np.nan
        before, _ = learner.snapshot()
        with pytest.raises((ValueError, RuntimeError), match=r"nan|non-finite"):
            learner.update(1e-3, 0.0, 1.0)
        after, _ = learner.snapshot()
        assert all(np.array_equal(before[name], after[name]) for name in before)
    assert torch.is_grad_enabled()
