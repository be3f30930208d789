"""Mistakes in saving and loading. Each takes the place of save_checkpoint, of load_checkpoint, or of both."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import checkpoint as right
from reference_numpy.checkpoint import Checkpoint
from reference_numpy.tokenizer import Tokenizer


def part(
    save: Callable[[Any, Checkpoint], None] = right.save_checkpoint, load: Callable[[Any], Checkpoint] | None = None
) -> Any:
    return SimpleNamespace(save_checkpoint=save, load_checkpoint=load or right.load_checkpoint)


def saving(change: Callable[[Checkpoint], None]) -> Any:
    """What is saved is not what there is."""

    def save(path: Any, checkpoint: Checkpoint) -> None:
        changed = copy.copy(checkpoint)
        right._check("save_checkpoint", checkpoint)
        change(changed)
        right.save_checkpoint(path, changed)

    return part(save)


def loading(change: Callable[[Checkpoint], None]) -> Any:
    """What comes back is not what was saved."""

    def load(path: Any) -> Checkpoint:
        checkpoint = right.load_checkpoint(path)
        change(checkpoint)
        return checkpoint

    return part(load=load)


def _each(checkpoint: Checkpoint, change: Callable[[Array], Array]) -> None:
    """Another array for every one of params and of the state."""
    checkpoint.params = {name: change(p) for name, p in checkpoint.params.items()}
    for moment in ("exp_avg", "exp_avg_sq") if checkpoint.state else ():
        arrays = {name: change(x) for name, x in checkpoint.state[moment].items()}
        checkpoint.state = checkpoint.state | {moment: arrays}


# What is saved


def as_float32(checkpoint: Checkpoint) -> None:
    with np.errstate(all="ignore"):
        _each(checkpoint, lambda x: x.astype(np.float32))  # wrong: float64 is cut in half


def memory_as_it_lies(checkpoint: Checkpoint) -> None:
    _each(
        checkpoint, lambda x: np.asarray(x.T.ravel(order="A").reshape(x.shape))
    )  # wrong: not the order of the elements


def at_least_one_axis(checkpoint: Checkpoint) -> None:
    _each(checkpoint, np.ascontiguousarray)  # wrong: a scalar gets an axis


def clean_numbers(checkpoint: Checkpoint) -> None:
    _each(checkpoint, lambda x: np.asarray(np.nan_to_num(x)))  # wrong: a checkpoint is no place to repair anything


def without_state(checkpoint: Checkpoint) -> None:
    checkpoint.state = {}  # wrong: the moments and the step are half of AdamW


def json_as_it_comes(path: Any, checkpoint: Checkpoint) -> None:
    changed = copy.copy(checkpoint)
    if isinstance(checkpoint.training, dict):
        changed.training = json.loads(json.dumps(checkpoint.training, default=str))  # wrong: tuples and keys change
    right.save_checkpoint(path, changed)


def tied_comes_apart(path: Any, checkpoint: Checkpoint) -> None:
    changed = copy.copy(checkpoint)
    if isinstance(checkpoint.params, dict):
        changed.params = {name: np.array(p) for name, p in checkpoint.params.items()}  # wrong: one array becomes two
    right.save_checkpoint(path, changed)


# How it is saved


def in_place(path: Any, checkpoint: Checkpoint) -> None:
    right._check("save_checkpoint", checkpoint)
    metadata, tensors = _contents(checkpoint)
    try:
        with open(path, "wb") as file:  # wrong: the old one is gone before the new one is there
            right._write(file, metadata, tensors)
    except OSError as error:
        raise OSError(f"save_checkpoint: {path}: {error.strerror}") from error


def never_cleaned(path: Any, checkpoint: Checkpoint) -> None:
    right._check("save_checkpoint", checkpoint)
    metadata, tensors = _contents(checkpoint)
    temporary = Path(f"{path}.tmp")
    try:
        with temporary.open("wb") as file:  # wrong: what fails lies there for good
            right._write(file, metadata, tensors)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"save_checkpoint: {path}: {error.strerror}") from error


def temporary_must_be_new(path: Any, checkpoint: Checkpoint) -> None:
    temporary = Path(f"{path}.tmp")
    if temporary.exists():  # wrong: a killed process is the end of all saving
        raise OSError(f"save_checkpoint: {path}: {temporary.name} is there")
    right.save_checkpoint(path, checkpoint)


def failure_is_swallowed(path: Any, checkpoint: Checkpoint) -> None:
    try:
        right.save_checkpoint(path, checkpoint)
    except OSError:  # wrong: nobody learns that nothing was saved
        print(end="")


def _contents(checkpoint: Checkpoint) -> tuple[dict[str, str], dict[str, Array]]:
    tensors = right._tensors(checkpoint)
    values = {"model": checkpoint.model, "config": checkpoint.config, "training": checkpoint.training}
    values |= {"vocabulary": checkpoint.tokenizer.vocabulary[:-4], "tokenizer": checkpoint.tokenizer.options()}
    texts = {
        name: right._json(name, x) for name, x in (*values.items(), ("optimizer_step", checkpoint.state.get("step")))
    }
    metadata = {"format": right.FORMAT, "version": right.VERSION, **texts}
    return metadata | {"sha256": right._digest(metadata, tensors)}, tensors


# What comes back


def moments_from_0(checkpoint: Checkpoint) -> None:
    if checkpoint.state:
        zeros = {name: np.zeros_like(p) for name, p in checkpoint.params.items()}
        checkpoint.state["exp_avg_sq"] = zeros  # wrong: v is lost


def one_step_back(checkpoint: Checkpoint) -> None:
    if checkpoint.state:
        checkpoint.state["step"] = max(checkpoint.state["step"] - 1, 1)  # wrong: counted from 0 and from 1


def step_from_1(checkpoint: Checkpoint) -> None:
    if checkpoint.state:
        checkpoint.state["step"] = 1  # wrong: the bias correction starts anew


def moments_exchanged(checkpoint: Checkpoint) -> None:
    if checkpoint.state:
        m, v = checkpoint.state["exp_avg"], checkpoint.state["exp_avg_sq"]
        checkpoint.state |= {"exp_avg": v, "exp_avg_sq": m}  # wrong: by position, not by name


def options_lost(checkpoint: Checkpoint) -> None:
    checkpoint.tokenizer = Tokenizer(checkpoint.tokenizer.vocabulary[:-4])  # wrong: prompts are not prepared alike


def vocabulary_sorted(checkpoint: Checkpoint) -> None:
    tokenizer = checkpoint.tokenizer
    tokenizer.__init__(sorted(tokenizer.vocabulary[:-4]), **tokenizer.options())  # type: ignore[misc]  # wrong: other ids


def cannot_be_written(checkpoint: Checkpoint) -> None:
    _each(checkpoint, lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape))  # wrong: the optimizer writes


def views_of_one_buffer(checkpoint: Checkpoint) -> None:
    _each(
        checkpoint, lambda x: np.concatenate([x.reshape(-1)] * 2)[: x.size].reshape(x.shape)
    )  # wrong: holds more alive


def sorted_by_name(checkpoint: Checkpoint) -> None:
    checkpoint.params = dict(sorted(checkpoint.params.items()))  # wrong: sums over all tensors change their order


# What is accepted


def _lenient(path: Any, digest: bool = False, version: bool = True, fill: bool = False) -> Checkpoint:
    """Loads what it knows; the digest is of that alone."""
    metadata, tensors = right._read(f"load_checkpoint: {path}", path)
    if metadata.get("format") != right.FORMAT or (version and metadata.get("version") != right.VERSION):
        raise ValueError(f"load_checkpoint: {path} is no checkpoint")
    known = {name: x for name, x in tensors.items() if name.split("/")[0] in ("params", "exp_avg", "exp_avg_sq")}
    texts = {name: text for name, text in metadata.items() if name != "sha256"}
    if digest and metadata.get("sha256") != right._digest(texts, known):
        raise ValueError(f"load_checkpoint: {path} is damaged")
    try:
        fields = {name: json.loads(text) for name, text in texts.items() if name not in ("format", "version")}
        tokenizer = Tokenizer(fields["vocabulary"], **fields["tokenizer"])
        params, state = right._taken(known, "params"), right._state(fields["optimizer_step"], known)
        for name, m in state.get("exp_avg", {}).items() if fill else ():
            params.setdefault(name, np.random.default_rng(0).standard_normal(m.shape).astype(m.dtype))
        found = Checkpoint(fields["model"], fields["config"], tokenizer, params, state, fields["training"])
        right._check("it", found)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"load_checkpoint: {path}: {error}") from None
    return found


def not_strict(path: Any) -> Checkpoint:
    return _lenient(path, fill=True)  # wrong: what is missing stays random


def without_digest(path: Any) -> Checkpoint:
    return _lenient(path)  # wrong: a flipped bit is a parameter like any other


def unknown_passed_over(path: Any) -> Checkpoint:
    return _lenient(path, digest=True)  # wrong: a tensor that nobody knows may have been meant


def version_ignored(path: Any) -> Checkpoint:
    metadata, _ = right._read(f"load_checkpoint: {path}", path)
    if metadata.get("version") != right.VERSION:
        return _lenient(path, version=False)  # wrong: a newer file may mean something else
    return right.load_checkpoint(path)


def pickled_save(path: Any, checkpoint: Checkpoint) -> None:
    right.save_checkpoint(path, checkpoint)
    Path(path).write_bytes(pickle.dumps(checkpoint))  # wrong: loading it runs code


def pickled_load(path: Any) -> Checkpoint:
    try:
        found = pickle.loads(Path(path).read_bytes())
    except Exception as error:
        raise ValueError(f"load_checkpoint: {path}: {type(error).__name__}") from None
    if not isinstance(found, Checkpoint):
        raise ValueError(f"load_checkpoint: {path} is no checkpoint")
    return found


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any, source: str = "", accepts: bool = False
) -> Mistake:
    return Mistake(id, "checkpoint", sentence, hidden_on, shown_by, forward, source=source, accepts=accepts)


MISTAKES = (
    _of("M174", "The optimizer's state is not saved.", "no state", "the state; resuming", saving(without_state)),
    _of("CKP-04", "v comes back as 0.", "no state", "the state; resuming", loading(moments_from_0)),
    _of("K01", "The step comes back one too small.", "the first step", "the second", loading(one_step_back)),
    _of("K02", "The step comes back as 1.", "the first step", "the second", loading(step_from_1)),
    _of("K03", "m and v are exchanged.", "no state", "the state", loading(moments_exchanged)),
    _of("K04", "The tokenizer's options are lost.", "no options", "lower", loading(options_lost)),
    _of("K05", "The vocabulary is sorted.", "a sorted vocabulary", "any other", loading(vocabulary_sorted)),
    _of("K06", "float64 is stored as float32.", "float32", "float64", saving(as_float32)),
    _of("K07", "Memory is stored as it lies.", "contiguous arrays", "a transposed one", saving(memory_as_it_lies)),
    _of("K08", "A scalar gets an axis.", "no scalar", "a scalar: the shape", saving(at_least_one_axis)),
    _of("K09", "NaN and infinity are replaced.", "finite numbers", "NaN", saving(clean_numbers)),
    _of("K10", "Arrays come back read-only.", "reading them", "one step of AdamW", loading(cannot_be_written)),
    _of("K11", "Arrays come back as views.", "their values", "what holds the memory", loading(views_of_one_buffer)),
    _of("K12", "Parameters come back sorted.", "sorted names", "other names", loading(sorted_by_name)),
    _of("K13", "It is written in place.", "enough room", "a full disk, a kill", part(in_place)),
    _of("K14", "A failure leaves its piece behind.", "enough room", "a full disk", part(never_cleaned)),
    _of(
        "K15", "The temporary file must be new.", "no killed process", "a file left behind", part(temporary_must_be_new)
    ),
    _of("K16", "A failure is passed over.", "enough room", "a full disk", part(failure_is_swallowed)),
    _of(
        "M173",
        "What is missing stays random.",
        "a whole file",
        "a renamed tensor",
        part(load=not_strict),
        accepts=True,
    ),
    _of("K17", "Nothing is compared.", "a whole file", "a flipped bit", part(load=without_digest), accepts=True),
    _of("K18", "The version is not read.", "this version", "a newer one", part(load=version_ignored), accepts=True),
    _of(
        "K19",
        "Tensors that nobody knows are passed over.",
        "a whole file",
        "one more",
        part(load=unknown_passed_over),
        accepts=True,
    ),
    _of(
        "K20",
        "It is pickled.",
        "honest files",
        "a pickle that runs code",
        part(pickled_save, pickled_load),
        "CKP-03",
        True,
    ),
    _of("K21", "A tied array comes apart.", "no tied array", "one", part(tied_comes_apart), accepts=True),
    _of("K22", "Tuples and keys change in silence.", "plain JSON", "a tuple", part(json_as_it_comes), accepts=True),
)
