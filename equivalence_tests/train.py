"""`gemelos train`: a language model from a file of stories, on either twin."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from equivalence_tests.flags import Parser, add_flags, chosen
from equivalence_tests.gradient_pictures import attention_gradient_picture, norms_picture
from equivalence_tests.implementations import check_device, has_torch
from equivalence_tests.model_pictures import loss_picture
from equivalence_tests.training_gradients import Measured, attention_gradients
from reference_numpy.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from reference_numpy.config import GPTConfig, RNNConfig, described
from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import TextDataset, read_texts, split_texts
from reference_numpy.generative_rnn import init_rnn, rnn_shapes
from reference_numpy.gpt import gpt_shapes, init_gpt
from reference_numpy.learner import Learner, NumpyLearner
from reference_numpy.tokenizer import Tokenizer
from reference_numpy.train import TrainingConfig, steps_of_an_epoch, train_model

TWINS = ("numpy", "reference", "torch")
PROMPT = "Habia una vez"  # in whose words many a tale begins
CONFIGS: dict[str, Any] = {"gpt": GPTConfig, "rnn": RNNConfig}
CHECKPOINT, LOG, PICTURE = "checkpoint.safetensors", "log.jsonl", "loss.png"
GRADIENTS, ATTENTION = "gradients.png", "attention.png"
LONGEST_SHOWN = 16  # tokens whose attention is drawn
SPLIT = 0  # the stream of random numbers that holds stories out
MAY_CHANGE = ("epochs", "checkpoint_every")  # in a training that is taken up again

# What readable text takes minutes to learn from the tales, and what source 2 has.
SIZES: dict[str, dict[str, Any]] = {
    "small": {
        "context_window": 128,
        "embedding_dim": 128,
        "num_layers": 3,
        "num_heads": 4,
        "head_dim": 32,
        "seq_length": 129,
        "batch_size": 4,
        "epochs": 12,
        "clip_norm": 1.0,
        "warmup_steps": 50,
        "cosine": True,
        "min_frequency": 2,
    },
    "source": {"seq_length": 256, "truncate": True},
}


@dataclass(frozen=True)
class TextConfig:
    """Which text, and what becomes of it before it is cut into tokens."""

    data: str | None = described(
        None, "a UTF-8 file, one story a line, or a .csv with a column text; default: the tales"
    )
    held_out: float = described(0.1, "share of the stories that are kept for evaluation")
    min_frequency: int = described(1, "times that a token must be there to have an id of its own")
    lower: bool = described(False, "lower case")
    strip_accents: bool = described(True, "without accents, as source 2's text; n keeps its tilde")


def parser() -> argparse.ArgumentParser:
    parse = Parser(
        prog="gemelos train",
        description="Train a language model on stories, with gradients by hand (numpy: engineered for speed; reference: "
        "the textbook) or by autograd (torch). Writes "
        f"{CHECKPOINT}, {LOG} and pictures of the loss and of the gradients into a folder. "
        "Ctrl-C or SIGTERM ends it after the step in progress and saves; --resume goes on, on any twin, as if it had "
        "never stopped. Exit status: 0 done, 130 stopped by Ctrl-C, 143 by SIGTERM, 2 for a wrong argument or file.",
    )
    parse.add_argument("--model", choices=CONFIGS, default="gpt", help="(default: %(default)s)")
    parse.add_argument("--twin", choices=TWINS, default="numpy", help="who computes (default: %(default)s)")
    parse.add_argument("--size", choices=SIZES, default="small", help="small: minutes on 2 cores; source: source 2's")
    parse.add_argument("--dtype", choices=("float32", "float64"), default="float32", help="(default: %(default)s)")
    parse.add_argument("--device", default="cpu", help="of the torch twin: cpu or cuda (default: %(default)s)")
    parse.add_argument("--out", type=Path, help="the folder that is written (default: runs/MODEL)")
    parse.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint, with its settings")
    parse.add_argument("--overwrite", action="store_true", help="begin anew, even where there is a checkpoint already")
    add_flags(parse.add_argument_group("text"), TextConfig)
    training = parse.add_argument_group("training (small sets some of these anew: the settings are printed)")
    add_flags(training, TrainingConfig)
    model = parse.add_argument_group("model (an rnn has a width alone)")
    add_flags(model, GPTConfig, leave_out=("vocab_size",))
    return parse


@dataclass
class Setup:
    """All that a training needs, resolved: from flags and a preset, or from a checkpoint."""

    model: str
    text: TextConfig
    training: TrainingConfig
    config: GPTConfig | RNNConfig
    train: TextDataset
    held: TextDataset | None
    fingerprint: str
    params: dict[str, Any]
    state: dict[str, Any]
    step: int = 0

    def checkpoint(self, learner: Learner, step: int) -> Checkpoint:
        params, state = learner.snapshot()
        training = {
            "settings": asdict(self.training),
            "text": asdict(self.text),
            "data": self.fingerprint,
            "step": step,
            "random": {"seed": self.training.seed, "step": step},  # all random numbers come from these two
        }
        return Checkpoint(self.model, asdict(self.config), self.train.tokenizer, params, state, training)


def main(argv: list[str] | None = None) -> int:
    """0 done, 130 stopped by Ctrl-C, 143 by SIGTERM, 2 for a wrong argument or file."""
    given = parser().parse_args(argv)
    with terminated() as by_sigterm:
        status = _train(given)
    return 143 if status == 130 and by_sigterm() else status


def _train(given: argparse.Namespace) -> int:
    say = Console(soft_wrap="COLUMNS" not in os.environ, highlight=False)
    folder: Path = given.out or Path("runs") / given.model
    try:
        if given.twin == "torch":
            if not has_torch():
                raise ValueError("--twin: torch is not installed, expected numpy (or pip install 'gemelos[torch]')")
            check_device(given.device)
        elif given.device != "cpu":
            raise ValueError(f"--device: {given.device} came, expected cpu for a NumPy twin")
        setup = resume(given, folder) if given.resume else begin(given, folder)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            learner = make_learner(given.twin, setup.config, setup.params, setup.state, given.device)
            describe(setup, given, folder, say)
            done, drawn = run(setup, learner, folder, say)
    except KeyboardInterrupt:
        print(f"\ngemelos train: stopped at once; {folder / CHECKPOINT} is as it was last saved", file=sys.stderr)
        return 130
    except (ValueError, OSError, MemoryError) as error:
        print(f"gemelos train: {one_line(error)}", file=sys.stderr)
        return 2
    total = setup.training.epochs * steps_of_an_epoch(len(setup.train), setup.training)
    if done < total:
        say.print(f"Stopped after step {done} of {total}, and saved. Go on with --resume --out {folder}")
        return 130
    say.print(f"Wrote {', '.join(str(folder / name) for name in (CHECKPOINT, LOG, *drawn))}")
    prompt = shlex.quote(beginning(setup.train))
    say.print(
        f"Now: gemelos generate --checkpoint {folder / CHECKPOINT} --prompt {prompt}", markup=False, soft_wrap=True
    )
    return 0


def beginning(data: TextDataset) -> str:
    """A prompt that the model knows: the tales' own, or the first words of a row of the data."""
    known = data.tokenizer.token_to_id
    if all(token in known for token in data.tokenizer.tokens(PROMPT)):
        return PROMPT
    words = [data.tokenizer.vocabulary[i] for i in data.data[0] if data.tokenizer.vocabulary[i].isalnum()]
    return " ".join(words[: len(PROMPT.split())])


@contextmanager
def terminated() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM came, which a scheduler sends before it kills: it does what Ctrl-C does."""
    came = False

    def note(signum: int, frame: Any) -> None:
        nonlocal came
        came = True
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield lambda: came
        return
    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One training a folder. ValueError if another one writes there; where folders cannot be locked there is no lock."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"--out: another training writes into {folder} now, expected another folder") from None
        yield
    finally:
        os.close(descriptor)


def one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def begin(given: argparse.Namespace, folder: Path) -> Setup:
    if (folder / CHECKPOINT).exists() and not given.overwrite:
        raise ValueError(
            f"--out: {folder / CHECKPOINT} is there already, expected --resume, --overwrite or another folder"
        )
    preset = SIZES[given.size]
    text = TextConfig(**chosen(TextConfig, given, preset))
    kind = CONFIGS[given.model]
    refuse_strangers(given, kind)
    training = TrainingConfig(**chosen(TrainingConfig, given, preset))
    train, held, fingerprint = data_of(text, training, None)
    if not hasattr(given, "warmup_steps"):  # the preset's is for a training of some length
        total = training.epochs * steps_of_an_epoch(len(train), training)
        training = replace(training, warmup_steps=min(training.warmup_steps, total // 10))
    config = kind(vocab_size=train.tokenizer.vocab_size, **chosen(kind, given, preset))
    if isinstance(config, GPTConfig) and training.seq_length > config.context_window + 1:
        most = f"context_window + 1 = {config.context_window + 1}"
        raise ValueError(f"--seq-length: {training.seq_length} came, expected at most {most}")
    rng = np.random.default_rng(training.seed)
    params = (init_gpt if given.model == "gpt" else init_rnn)(config, rng, given.dtype)
    return Setup(given.model, text, training, config, train, held, fingerprint, params, {})


def refuse_strangers(given: argparse.Namespace, kind: type) -> None:
    """A flag of a field that this model does not have."""
    own = {each.name for each in fields(kind)}
    for each in fields(GPTConfig):
        if each.name not in own and hasattr(given, each.name):
            raise ValueError(f"--{each.name.replace('_', '-')}: it came with --model rnn, expected with gpt alone")


def resume(given: argparse.Namespace, folder: Path) -> Setup:
    """Everything from the checkpoint; what may be given anew is where the text is and how long to train."""
    saved = load_checkpoint(folder / CHECKPOINT)
    kind = CONFIGS[saved.model]
    for config in (TextConfig, TrainingConfig, GPTConfig):
        for name in chosen(config, given, {}):
            if name not in (*MAY_CHANGE, "data"):
                raise ValueError(f"--{name.replace('_', '-')}: it came with --resume, expected the checkpoint's own")
    try:
        stored = saved.training
        text = TextConfig(**{**stored["text"], **chosen(TextConfig, given, {})})
        training = TrainingConfig(**{**stored["settings"], **chosen(TrainingConfig, given, {})})
        config, step, fingerprint = kind(**saved.config), stored["step"], stored["data"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / CHECKPOINT}: no training of gemelos train is stored in it ({error})") from None
    check_parameters(saved, config, folder / CHECKPOINT)
    train, held, found = data_of(text, training, saved)
    if found != fingerprint:
        raise ValueError(f"--data: {text.data or corpus_path()} is not the text that the checkpoint was trained on")
    return Setup(saved.model, text, training, config, train, held, found, saved.params, saved.state, step)


def check_parameters(saved: Checkpoint, config: GPTConfig | RNNConfig, path: Path) -> None:
    """The checkpoint's parameters are those of its configuration."""
    shapes = gpt_shapes(config) if isinstance(config, GPTConfig) else rnn_shapes(config)
    found = {name: array.shape for name, array in saved.params.items()}
    if found != shapes:
        odd = sorted({*found.items()} ^ {*shapes.items()})[0][0]
        raise ValueError(f"{path}: its parameters do not fit its configuration, see {odd}")


def data_of(
    text: TextConfig, training: TrainingConfig, saved: Checkpoint | None
) -> tuple[TextDataset, TextDataset | None, str]:
    """The training set, the held-out set, and a fingerprint of both."""
    path = Path(text.data) if text.data is not None else corpus_path()
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"--data: {path} is a pipe or a device, expected a file, which --resume can read once more")
    stories = read_texts(path)
    train, held = split_texts(stories, text.held_out, np.random.default_rng([training.seed, SPLIT]))
    if saved is None:
        tokenizer = Tokenizer.from_texts(
            train, min_frequency=text.min_frequency, lower=text.lower, strip_accents=text.strip_accents, nfc=True
        )
    else:
        tokenizer = saved.tokenizer

    def cut(some: list[str]) -> TextDataset:
        return TextDataset(some, training.seq_length, tokenizer=tokenizer, truncate=training.truncate)

    return cut(train), cut(held) if held else None, hashlib.sha256(json.dumps([train, held]).encode()).hexdigest()


def make_learner(
    twin: str, config: GPTConfig | RNNConfig, params: dict[str, Any], state: dict[str, Any], device: str
) -> Learner:
    """Of one of TWINS; what the others need is not imported."""
    if twin == "reference":
        return NumpyLearner(config, params, state)
    if twin == "numpy":
        from reference_numpy import fast

        return fast.NumpyLearner(config, params, state)
    from torch_impl.learner import TorchLearner

    return TorchLearner.from_params(config, params, state, device)


def describe(setup: Setup, given: argparse.Namespace, folder: Path, say: Console) -> None:
    """What is trained on what, resolved."""
    train, held = setup.train, setup.held
    count = sum(array.size for array in setup.params.values())
    dtype = next(iter(setup.params.values())).dtype
    twin = given.twin if given.device == "cpu" else f"{given.twin} on {given.device}"
    say.print(f"{setup.model} of {count:,} parameters in {dtype}, {twin}, into {folder}/", style="bold")
    text = {**asdict(setup.text), "data": setup.text.data or "the tales"}
    for name, values in (("model", asdict(setup.config)), ("training", asdict(setup.training)), ("text", text)):
        say.print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in values.items()), markup=False)
    rows = f"{len(train)} rows, {train.num_tokens:,} tokens to predict, {train.unknown_rate:.1%} of them unknown"
    say.print(f"training set: {rows}; vocabulary {train.tokenizer.vocab_size:,}")
    if held is not None:
        say.print(f"held out: {len(held)} rows, {held.num_tokens:,} tokens, {held.unknown_rate:.1%} of them unknown")
    if setup.step:
        say.print(f"going on after step {setup.step}")


def run(setup: Setup, learner: Learner, folder: Path, say: Console) -> tuple[int, list[str]]:
    """Train, log, save; the steps done, and the pictures drawn: at the end, or when stopped."""
    log = Log(folder / LOG, setup.step)
    measured = Measured(learner, setup.step)
    total = setup.training.epochs * steps_of_an_epoch(len(setup.train), setup.training)

    def save(step: int) -> None:
        log.sync()
        save_checkpoint(folder / CHECKPOINT, setup.checkpoint(learner, step))

    with log, progress(say, setup.step, total) as show:

        def watch(row: dict[str, Any]) -> None:
            log.add({**row, "norms": measured.found} if "loss" in row and measured.found else row)
            show(row)

        done = train_model(
            measured, setup.train, setup.training, held_out=setup.held, step=setup.step, watch=watch, save=save
        )
    return done, draw(setup, learner, log.rows, folder)


def draw(setup: Setup, learner: Learner, rows: list[dict[str, Any]], folder: Path) -> list[str]:
    """The loss, the norms of the gradients, and of a GPT where a story's tokens look and are to look; what was drawn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a font without emoji draws a box
        return _drawn(setup, learner, rows, folder)


def _drawn(setup: Setup, learner: Learner, rows: list[dict[str, Any]], folder: Path) -> list[str]:
    drawn = []
    if rows:
        loss_picture({f"{setup.model}": rows}, folder / PICTURE)
        drawn.append(PICTURE)
    if any("norms" in row for row in rows):
        norms_picture(rows, folder / GRADIENTS)
        drawn.append(GRADIENTS)
    if isinstance(setup.config, GPTConfig):
        data = setup.train if setup.held is None else setup.held
        ids = data.data[0][: LONGEST_SHOWN + 1]
        found = attention_gradients(learner.snapshot()[0], ids[:-1], ids[1:], setup.config)
        names = [data.tokenizer.vocabulary[i] for i in ids[:-1]]
        attention_gradient_picture(names, found, folder / ATTENTION)
        drawn.append(ATTENTION)
    return drawn


class Log:
    """JSON lines, one for each row; those after the step that the training goes on from are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        self.rows: list[dict[str, Any]] = []
        if step > 0 and path.exists():
            self.rows = [row for row in _lines(path) if row["step"] <= step]
        self.file = path.open("w", encoding="utf-8")
        for row in self.rows:
            self._write(row)
        self.file.flush()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self._write(row)
        self.file.flush()

    def sync(self) -> None:
        """On disk, before a checkpoint says that these steps are done."""
        os.fsync(self.file.fileno())

    def _write(self, row: dict[str, Any]) -> None:
        self.file.write(json.dumps(row) + "\n")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a log, as far as it can be read: its last line may be half written."""
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            return
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            return
        yield row


@contextmanager
def progress(say: Console, step: int, total: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar with the loss on a terminal; a line after every epoch everywhere."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    start, tokens = time.perf_counter(), 0
    with Progress(*columns, console=say, transient=True, disable=not say.is_terminal) as bar:
        task = bar.add_task("steps", total=total, completed=step, loss="-", speed="")

        def show(row: dict[str, Any]) -> None:
            nonlocal tokens
            if "perplexity" in row:
                held = f"held-out loss {row['held_out_loss']:.4f}, perplexity {row['perplexity']:.2f}"
                bar.console.print(f"epoch {row['epoch']}, step {row['step']}: {held}")
                return
            tokens += row["tokens"]
            speed = f"{tokens / (time.perf_counter() - start):,.0f} tokens/s"
            bar.update(task, completed=row["step"], loss=f"{row['loss']:.4f}", speed=speed)

        yield show
