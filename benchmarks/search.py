"""What the comparison trains: one split of the text, and for each family of models every setting of an equal search."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from rich.console import Console

from equivalence_tests.train import progress
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.dataset import TextDataset, split_texts
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import init_gpt
from reference_numpy.learner import Learner, NumpyLearner
from reference_numpy.train import Row, TrainingConfig, evaluate, steps_of_an_epoch, train_model

SEED, SPLIT = 0, 0  # every random number comes from the seed; the stream that splits the stories
WINDOW = 128  # targets of a row: windows of 129 tokens that overlap by one

Sizes = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How much is trained. Each family is tried at every size and learning rate: equally many settings."""

    tokens: int = 580_000  # about 12 epochs of the tales
    stories: int | None = None
    learning_rates: tuple[float, ...] = (1e-3, 3e-3)
    rnn: tuple[Sizes, ...] = ({"embedding_dim": 128}, {"embedding_dim": 256})
    gpt: tuple[Sizes, ...] = (
        {"embedding_dim": 96, "num_layers": 3, "num_heads": 4, "head_dim": 24, "dropout": 0.1},
        {"embedding_dim": 128, "num_layers": 3, "num_heads": 4, "head_dim": 32, "dropout": 0.1},
    )
    batch_size: int = 4
    warmup_steps: int = 50  # at most; a tenth of the steps, where that is fewer
    max_tokens: int = 120


QUICK = Plan(
    tokens=12_000,
    stories=40,
    rnn=({"embedding_dim": 16}, {"embedding_dim": 24}),
    gpt=tuple({"embedding_dim": d, "num_layers": 1, "num_heads": 2, "head_dim": 8, "dropout": 0.1} for d in (16, 24)),
    batch_size=6,
    max_tokens=20,
)


@dataclass(frozen=True)
class Text:
    """One split by story; the vocabulary is the training set's."""

    train: TextDataset
    validation: TextDataset
    test: TextDataset

    def parts(self) -> dict[str, TextDataset]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


@dataclass
class Run:
    """One setting of the search, trained. rows: those of `train_model`."""

    family: str
    config: GPTConfig | RNNConfig
    training: TrainingConfig
    learner: Learner
    num_parameters: int
    rows: list[Row] = field(default_factory=list)
    train_loss: float = float("nan")
    seconds: float = 0.0

    @property
    def curve(self) -> list[Row]:
        """Every epoch's mean training loss, dropout and all, and its validation loss."""
        held = [row for row in self.rows if "held_out_loss" in row]
        found = []
        for row in held:
            steps = [each for each in self.rows if each["epoch"] == row["epoch"] and "loss" in each]
            total = sum(each["tokens"] for each in steps)
            loss = sum(each["tokens"] * each["loss"] for each in steps) / total
            found.append(
                {"epoch": row["epoch"], "step": row["step"], "train": loss, "validation": row["held_out_loss"]}
            )
        return found

    def described(self) -> Row:
        curve = self.curve
        best = min(curve, key=lambda row: float(row["validation"]))
        return {
            "family": self.family,
            "config": asdict(self.config),
            "training": asdict(self.training),
            "parameters": self.num_parameters,
            "tokens_seen": sum(row["tokens"] for row in self.rows if "tokens" in row),
            "seconds": round(self.seconds, 1),
            "train_loss": self.train_loss,
            "last_validation_loss": curve[-1]["validation"],
            "best_validation_loss": best["validation"],
            "best_epoch": best["epoch"],
            "curve": curve,
        }


def split(stories: list[str]) -> Text:
    """80 %, 10 %, 10 % of the different stories: for training, for choosing among the settings, for the table."""
    rng = np.random.default_rng([SEED, SPLIT])
    rest, test = split_texts(stories, 0.1, rng)
    train, validation = split_texts(rest, 1.0 / 9.0, rng)
    data = TextDataset(train, WINDOW + 1, min_frequency=2, strip_accents=True, nfc=True)
    held = (TextDataset(texts, WINDOW + 1, tokenizer=data.tokenizer) for texts in (validation, test))
    return Text(data, *held)


def settings(text: Text, plan: Plan, epochs: int, twin: str) -> list[Run]:
    """The search: both families over the same batches, so that all have seen the same tokens at every step."""
    v = text.train.tokenizer.vocab_size
    configs: list[GPTConfig | RNNConfig] = [RNNConfig(v, **sizes) for sizes in plan.rnn]
    configs += [GPTConfig(v, context_window=WINDOW, **sizes) for sizes in plan.gpt]
    training = TrainingConfig(
        epochs=epochs,
        batch_size=plan.batch_size,
        seq_length=WINDOW + 1,
        clip_norm=1.0,
        cosine=True,
        drop_last=False,  # so that an epoch is every token once
        seed=SEED,
    )
    steps = epochs * steps_of_an_epoch(len(text.train), training)
    training = replace(training, warmup_steps=min(plan.warmup_steps, steps // 10))
    rates = [replace(training, learning_rate=rate) for rate in plan.learning_rates]
    return [prepared(config, each, twin) for config in configs for each in rates]


def prepared(config: GPTConfig | RNNConfig, training: TrainingConfig, twin: str) -> Run:
    """A model at its beginning, which the seed and the sizes settle: the same for every learning rate and either twin."""
    rng = np.random.default_rng(SEED)
    params = init_gpt(config, rng) if isinstance(config, GPTConfig) else init_rnn(config, rng)
    count = sum(array.size for array in params.values())
    learner: Learner = NumpyLearner(config, params)
    if twin == "torch":
        from torch_impl.learner import TorchLearner

        learner = TorchLearner.from_params(config, params)
    return Run("gpt" if isinstance(config, GPTConfig) else "rnn", config, training, learner, count)


def train(run: Run, text: Text, say: Console) -> None:
    """Train one setting. Ctrl-C ends all of it: a table of some of the settings would compare nothing."""
    width, rate = run.config.embedding_dim, run.training.learning_rate
    say.print(f"{run.family}, width {width}, learning rate {rate:g}, {run.num_parameters:,} parameters", style="bold")
    total = run.training.epochs * steps_of_an_epoch(len(text.train), run.training)
    start = time.perf_counter()
    with progress(say, 0, total) as show:

        def watch(row: Row) -> None:
            run.rows.append(row)
            show(row)

        done = train_model(run.learner, text.train, run.training, held_out=text.validation, watch=watch)
    if done < total:
        raise KeyboardInterrupt
    run.seconds = time.perf_counter() - start
    run.train_loss = evaluate(run.learner, text.train, run.training.batch_size)[0]


def choose(runs: list[Run]) -> Run:
    """By the loss at the end, not at the best epoch: that one has seen fewer tokens."""
    return min(runs, key=lambda run: float(run.curve[-1]["validation"]))
