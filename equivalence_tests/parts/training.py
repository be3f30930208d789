"""Laws of the training loop and of the evaluation, held against learners that only write down what they are asked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.checks import global_state
from equivalence_tests.parts._guard import told
from equivalence_tests.parts._part import Law
from reference_numpy.config import GPTConfig
from reference_numpy.dataset import TextDataset
from reference_numpy.optimizer import learning_rate
from reference_numpy.train import TrainingConfig

STORIES = ("a b c d e f g h", "a", "b a", "c d", "e f g a b c d e f", "g", "h a b", "c", "d e f g", "a a a a a a", "b")
DATA = TextDataset(STORIES, 30)
CONFIG = GPTConfig(DATA.tokenizer.vocab_size, 30, 8, 1, 1, 2, 1, 0.5)


class Scribe:
    """A learner that writes down what it is given; a loss is the mean over its targets of a number for each token."""

    config = CONFIG

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self.events: list[tuple[Any, ...]] = []

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Any, weight: float) -> float:
        self.events.append(("gather", ids.copy(), targets.copy(), keep, weight))
        return self._mean(targets, ignore_index)

    def update(self, lr: float, weight_decay: float, clip_norm: float | None) -> float | None:
        self.events.append(("update", lr, weight_decay, clip_norm))
        return None if clip_norm is None else 0.5

    def loss(self, ids: Array, targets: Array, ignore_index: int) -> float:
        self.events.append(("loss", ids.copy(), targets.copy()))
        return self._mean(targets, ignore_index)

    def step(self, ids: Array, past: Any) -> Any:
        raise NotImplementedError

    def snapshot(self) -> Any:
        raise NotImplementedError

    def _mean(self, targets: Array, ignore_index: int) -> float:
        counted = targets[targets != ignore_index]
        return self.scale * float(np.mean(np.square(counted + 1.0)))

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [event[1:] for event in self.events if event[0] == kind]


def _truth(scale: float = 1.0) -> float:
    """The mean over all targets of the data set."""
    targets = np.concatenate([row[1:] for row in DATA.data])
    return scale * float(np.mean(np.square(targets + 1.0)))


def the_mean_is_over_tokens(part: Any) -> str:
    """Whatever the batches: a mean of batches' means would weigh a short story's token more."""
    for size in (1, 2, 3, 5, 100):
        loss, tokens = part(Scribe(), DATA, size)
        if tokens != DATA.num_tokens:
            return f"{tokens} tokens in batches of {size}, expected {DATA.num_tokens}"
        if not abs(loss - _truth()) <= 1e-12 * _truth():  # sums of a few dozen numbers below 100
            return f"{loss} in batches of {size}, expected {_truth()}"
    return ""


def the_sum_is_taken_in_float64(part: Any) -> str:
    """Beyond 2^24 a float32 sum does not see one token more."""
    loss, _ = part(Scribe(1e8 / 3.0), DATA, 1)
    expected = _truth(1e8 / 3.0)
    return "" if abs(loss - expected) <= 1e-12 * expected else f"{loss}, expected {expected}"


def evaluating_neither_trains_nor_draws(part: Any) -> str:
    """No step, no mask, no global random state; twice the same."""
    before = global_state()
    one, other = Scribe(), Scribe()
    losses = part(one, DATA, 3), part(other, DATA, 3)
    if one.of("gather") or one.of("update"):
        return "it trains"
    if losses[0] != losses[1]:
        return f"{losses[0]}, then {losses[1]}"
    return "" if before == global_state() else "it draws from the global random state"


def it_is_exp_of_the_mean(part: Any) -> str:
    """A uniform guess among V has perplexity V; beyond float64 it is infinite, and no error."""
    for size in (1, 2, 60198):
        if not abs(part(math.log(size)) - size) <= 4e-15 * size * (
            1.0 + math.log(size)
        ):  # two roundings of log, one of exp
            return f"{part(math.log(size))} for a uniform guess among {size}"
    return "" if part(1e4) == math.inf else f"{part(1e4)} for a loss of 10,000 nats"


SETTINGS = TrainingConfig(epochs=3, batch_size=2, seq_length=30, accumulation=2, warmup_steps=3, cosine=True, seed=5)


def _trained(part: Any, settings: TrainingConfig = SETTINGS, **options: Any) -> tuple[Scribe, list[dict[str, Any]]]:
    scribe: Scribe = options.pop("learner", Scribe())
    rows: list[dict[str, Any]] = []
    part(scribe, DATA, settings, watch=rows.append, **options)
    return scribe, rows


def _steps(scribe: Scribe) -> list[list[tuple[Any, ...]]]:
    """What was gathered for each update."""
    steps: list[list[tuple[Any, ...]]] = [[]]
    for event in scribe.events:
        if event[0] == "gather":
            steps[-1].append(event)
        elif event[0] == "update":
            steps.append([])
    return steps[:-1]


def _rows(scribe: Scribe) -> list[tuple[int, ...]]:
    """The rows of the data set that were given, without padding: the inputs and the last target."""
    rows = []
    for ids, targets, *_ in scribe.of("gather"):
        for row in np.concatenate([ids, targets[:, -1:]], 1):
            rows.append(tuple(row[row != DATA.tokenizer.pad_id].tolist()))
    return rows


def batches_of_a_step_weigh_as_their_tokens(part: Any) -> str:
    """The weights of a step's batches are their shares of its counted targets: they sum to 1, and are rarely equal."""
    scribe, rows = _trained(part)
    steps = _steps(scribe)
    for row, some in zip(rows, steps, strict=True):
        targets = [event[2][event[2] != DATA.tokenizer.pad_id] for event in some]
        tokens = sum(each.size for each in targets)
        for event, each in zip(some, targets, strict=True):
            if not abs(event[4] - each.size / tokens) <= 1e-15:
                return f"a weight of {event[4]} for {each.size} of {tokens} targets"
        expected = float(np.mean(np.square(np.concatenate(targets) + 1.0)))
        if not abs(row["loss"] - expected) <= 1e-12 * expected:
            return f"step {row['step']} says a loss of {row['loss']}, expected {expected}"
        if row["tokens"] != tokens:
            return f"step {row['step']} says {row['tokens']} tokens, expected {tokens}"
    unequal = any(len({event[4] for event in some}) > 1 for some in steps)
    return "" if unequal else "no step had batches of several sizes"


def targets_are_the_next_tokens(part: Any) -> str:
    """targets_t is the token after ids_t, once shifted: rows of the data set, without their last and first token."""
    scribe, _ = _trained(part)
    for ids, targets, _, _ in scribe.of("gather"):
        if not np.array_equal(ids[:, 1:], targets[:, :-1]):
            return "targets are not the next tokens"
    strange = set(_rows(scribe)) - {tuple(row.tolist()) for row in DATA.data}
    return f"{strange.pop()} is no row of the data set" if strange else ""


def every_epoch_has_its_own_order(part: Any) -> str:
    """The same stories in another order, from the seed alone."""
    settings = TrainingConfig(epochs=3, batch_size=2, seq_length=30, drop_last=False, seed=5)

    def epochs(seed: int) -> list[list[tuple[int, ...]]]:
        scribe, _ = _trained(part, TrainingConfig(**{**vars(settings), "seed": seed}))
        rows = _rows(scribe)
        size = len(DATA)
        return [rows[at : at + size] for at in range(0, len(rows), size)]

    one, again, other = epochs(5), epochs(5), epochs(6)
    if one != again:
        return "the same seed gave another order"
    if one == other:
        return "another seed gave the same order"
    if any(sorted(epoch) != sorted(one[0]) for epoch in one):
        return "an epoch has other stories"
    return "" if one[0] != one[1] != one[2] else "two epochs have one order"


def every_step_has_masks_of_its_own(part: Any) -> str:
    """Drawn from seed, step and place in the step: all different from the start, and the same for whoever trains."""
    (scribe, _), (again, _) = _trained(part), _trained(part)
    masks, others = (
        [keep["embedding"].tobytes()[:16] for _, _, keep, _ in each.of("gather")] for each in (scribe, again)
    )
    if masks != others:
        return "another training drops other units"
    return "" if len(set(masks)) == len(masks) else "two batches have the same masks"


def a_training_taken_up_goes_on_as_if_never_stopped(part: Any) -> str:
    """From any step: the same batches, masks, weights and learning rates as from there on in one go."""
    whole, _ = _trained(part)
    for at in (1, 2, 4, 7):
        broken = Scribe()
        _trained(part, learner=broken, stop=at)
        first = len(broken.events)
        _trained(part, learner=broken, step=at)
        if not _same(whole.events, broken.events):
            return f"stopped after step {at} ({first} events), it went on otherwise"
    return ""


def evaluating_changes_nothing(part: Any) -> str:
    """A training with held-out stories takes the same steps as one without, and evaluates after every epoch."""
    plain, _ = _trained(part)
    watched, rows = _trained(part, held_out=DATA)
    steps = [event for event in watched.events if event[0] != "loss"]
    if not _same(plain.events, steps):
        return "held-out stories change the training"
    held = [row for row in rows if "held_out_loss" in row]
    if len(held) != SETTINGS.epochs:
        return f"{len(held)} evaluations in {SETTINGS.epochs} epochs"
    wrong = [row for row in held if abs(row["held_out_loss"] - _truth()) > 1e-12 * _truth()]
    return f"a held-out loss of {wrong[0]['held_out_loss']}, expected {_truth()}" if wrong else ""


def the_learning_rate_follows_its_schedule(part: Any) -> str:
    """Warm-up, then a cosine to 0 at the last step; the rate that is told is the rate of the update."""
    scribe, rows = _trained(part)
    rates = [lr for lr, _, _ in scribe.of("update")]
    peak = SETTINGS.learning_rate
    expected = [learning_rate(s, peak=peak, warmup_steps=3, total_steps=len(rates)) for s in range(len(rates))]
    if rates != expected:
        return f"rates {rates[:4]}, expected {expected[:4]}"
    return "" if rates == [row["learning_rate"] for row in rows] else "another rate is told than is used"


def it_saves_what_it_says(part: Any) -> str:
    """At the start, every checkpoint_every steps and at the end; never in the middle of a step, never before its row."""
    scribe = Scribe()
    seen: list[Any] = []
    settings = TrainingConfig(epochs=2, batch_size=3, seq_length=30, checkpoint_every=2, seed=5)
    total = part(
        scribe,
        DATA,
        settings,
        watch=lambda row: seen.append(("row", row["step"])),
        save=lambda step: seen.append(("save", step, len(scribe.of("update")))),
    )
    updates = len(scribe.of("update"))
    if total != updates:
        return f"{total} steps are told, {updates} were taken"
    saved = [event[1:] for event in seen if event[0] == "save"]
    steps = sorted({0, *range(2, total + 1, 2), total})
    if saved != [(step, step) for step in steps]:
        return f"saved {saved}, expected after steps {steps}"
    late = [step for step, _ in saved if step and seen.index(("row", step)) > seen.index(("save", step, step))]
    return f"step {late[0]} is saved before it is told" if late else ""


def a_loss_that_is_no_number_stops_it(part: Any) -> str:
    """Before the update: the last checkpoint stays good."""
    scribe = Scribe(math.nan)
    try:
        _trained(part, learner=scribe)
    except ValueError as error:
        return "" if "nan" in str(error) and not scribe.of("update") else f"refused late or unclearly: {error}"
    return "accepted"


def _same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    return bool(np.array_equal(one, other))


PARTS: dict[str, tuple[Law, ...]] = {
    "evaluate": told(the_mean_is_over_tokens, the_sum_is_taken_in_float64, evaluating_neither_trains_nor_draws),
    "perplexity": told(it_is_exp_of_the_mean),
    "train_model": told(
        batches_of_a_step_weigh_as_their_tokens,
        targets_are_the_next_tokens,
        every_epoch_has_its_own_order,
        every_step_has_masks_of_its_own,
        a_training_taken_up_goes_on_as_if_never_stopped,
        evaluating_changes_nothing,
        the_learning_rate_follows_its_schedule,
        it_saves_what_it_says,
        a_loss_that_is_no_number_stops_it,
    ),
}
