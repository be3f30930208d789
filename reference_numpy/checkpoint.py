"""Checkpoints: everything a run needs to go on, in one safetensors file that is either whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from reference_numpy._check import Array
from reference_numpy._named_arrays import MOMENTS, check_memory, check_params, check_state
from reference_numpy.tokenizer import SPECIAL_TOKENS, Tokenizer

FORMAT, VERSION = "gemelos-checkpoint", "1"
MODELS = ("gpt", "rnn")
DTYPES = {"F32": np.float32, "F64": np.float64}  # safetensors' names

PathLike = str | os.PathLike[str]


@dataclass(eq=False)
class Checkpoint:
    """A model, its tokenizer, its optimizer and where its training stands

    model: "gpt" or "rnn"; config: its sizes by name, vocab_size that of the tokenizer; params: arrays by name;
    state: AdamW's (see adamw_step), {} before the first step; training: settings, epoch, random state and whatever else.

    config and training hold what JSON gives back as it was: dicts with strings for keys, lists (no tuples), strings,
    finite numbers, booleans and None.
    """

    model: str
    config: dict[str, Any]
    tokenizer: Tokenizer
    params: dict[str, Array]
    state: dict[str, Any]
    training: dict[str, Any]


def save_checkpoint(path: PathLike, checkpoint: Checkpoint) -> None:
    """path <- checkpoint, all of it or nothing

    Tensors params/NAME, exp_avg/NAME and exp_avg_sq/NAME; the rest is JSON in the file's metadata, with a sha256 over all.
    The same checkpoint is always the same bytes.

    It is written to path + ".tmp", brought to the disk and renamed: whenever the process is killed, path holds the old
    checkpoint or the new one. What a killed process leaves behind, the next one overwrites. Of a symbolic link, what it
    points to is replaced. One process at a time may write to a path.
    Raises TypeError or ValueError, before anything is written, for a checkpoint that could not be read again (a tied array
    has one name, and would come back as two); OSError with the path and the reason (no space left, no such folder), and
    path is then as it was.
    """
    _check("save_checkpoint", checkpoint)
    tensors = _tensors(checkpoint)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "model": _json("model", checkpoint.model),
        "config": _json("config", checkpoint.config),
        "vocabulary": _json("vocabulary", checkpoint.tokenizer.vocabulary[: -len(SPECIAL_TOKENS)]),
        "tokenizer": _json("tokenizer", checkpoint.tokenizer.options()),
        "optimizer_step": _json("optimizer_step", checkpoint.state.get("step")),
        "training": _json("training", checkpoint.training),
    }
    metadata["sha256"] = _digest(metadata, tensors)
    try:
        with _replacing(Path(os.path.realpath(path))) as file:
            _write(file, metadata, tensors)
    except OSError as error:
        raise OSError(f"save_checkpoint: {os.fspath(path)} is not written: {error.strerror or error}") from error


def load_checkpoint(path: PathLike) -> Checkpoint:
    """The checkpoint that was saved, to the last bit; its arrays are new, writable and contiguous.

    Names and shapes of params are for the model to check; here the file must be whole, and fit itself.
    Raises ValueError in one line that names the path: not there, no file, unreadable, empty, truncated, damaged, something
    else, of a newer version, or tensors, optimizer state, vocabulary and configuration that do not belong together.
    """
    where = f"load_checkpoint: {os.fspath(path)}"
    metadata, tensors = _read(where, path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{where} is not one of our checkpoints")
    if metadata.get("version") != VERSION:
        raise ValueError(f"{where} has version {metadata.get('version')!r}, expected {VERSION!r}: is it newer?")
    if metadata.pop("sha256", "") != _digest(metadata, tensors):
        raise ValueError(f"{where} is damaged: its contents are not those that were saved")
    try:
        fields = {name: json.loads(text) for name, text in metadata.items() if name not in ("format", "version")}
        checkpoint = Checkpoint(
            model=fields.pop("model"),
            config=fields.pop("config"),
            tokenizer=Tokenizer(fields.pop("vocabulary"), **fields.pop("tokenizer")),
            params=_taken(tensors, "params"),
            state=_state(fields.pop("optimizer_step"), tensors),
            training=fields.pop("training"),
        )
        _check("it", checkpoint)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{where} does not fit itself: {error}") from None
    for name in (*fields, *tensors):
        raise ValueError(f"{where} has {name!r}, which no checkpoint has")
    return checkpoint


def _check(op: str, checkpoint: Checkpoint) -> None:
    """What is written and what is read is one and the same kind of thing."""
    if checkpoint.model not in MODELS:
        raise ValueError(f"{op}: model is {checkpoint.model!r}, expected 'gpt' or 'rnn'")
    for name, value in (("config", checkpoint.config), ("training", checkpoint.training)):
        if not isinstance(value, dict):
            raise TypeError(f"{op}: {name} is a {type(value).__name__}, expected a dict")
    if not isinstance(checkpoint.tokenizer, Tokenizer):
        raise TypeError(f"{op}: tokenizer is a {type(checkpoint.tokenizer).__name__}, expected a Tokenizer")
    size, expected = checkpoint.config.get("vocab_size"), checkpoint.tokenizer.vocab_size
    if size != expected:
        raise ValueError(f"{op}: config has vocab_size {size!r}, expected {expected} like the tokenizer")
    check_params(op, checkpoint.params)
    check_state(op, checkpoint.params, checkpoint.state)
    tensors = _tensors(checkpoint)
    for name in tensors:
        if not name.isprintable():  # half a surrogate pair is no UTF-8
            raise ValueError(f"{op}: params has the name {name!r}, expected printable characters")
    check_memory(op, tensors, {})


def _tensors(checkpoint: Checkpoint) -> dict[str, Array]:
    tensors = {f"params/{name}": p for name, p in checkpoint.params.items()}
    for moment in MOMENTS:
        tensors |= {f"{moment}/{name}": array for name, array in checkpoint.state.get(moment, {}).items()}
    return tensors


def _json(name: str, value: Any) -> str:
    """JSON that gives back the very same value: a tuple would come back as a list, and the key 1 as "1"."""
    try:
        text = json.dumps(value, allow_nan=False)
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"save_checkpoint: {name} is not plain JSON: {error}") from None
    if not same:
        raise ValueError(f"save_checkpoint: {name} would come back changed, expected lists (no tuples) and string keys")
    return text


def _bytes(array: Array) -> memoryview:
    """The elements in C order, little-endian, as bytes; a copy only where they are not that already."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


def _digest(metadata: dict[str, str], tensors: dict[str, Array]) -> str:
    """Over the metadata, and over every tensor's name, dtype, shape and bytes."""
    digest = sha256(json.dumps(sorted(metadata.items())).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, tensor.dtype.name, tensor.shape]).encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _write(file: BinaryIO, metadata: dict[str, str], tensors: dict[str, Array]) -> None:
    """The safetensors format: the header's length in 8 bytes, the header, and the tensors one after the other.

    The library's own save_file leaves a file with a random name behind when it is killed, and the order of its metadata is
    random, so that equal checkpoints are not equal files.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    letters = {np.dtype(dtype): letter for letter, dtype in DTYPES.items()}
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": letters[tensor.dtype], "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    file.write(len(text).to_bytes(8, "little") + text)
    for tensor in tensors.values():
        file.write(_bytes(tensor))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of path when the block ends well, and is gone when it does not."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name is on the disk as well
        finally:
            os.close(folder)


def _read(where: str, path: PathLike) -> tuple[dict[str, str], dict[str, Array]]:
    """The metadata and the tensors of a safetensors file, in the order in which they were written.

    By pread: when somebody cuts a mapped file short, reading it kills the process.
    """
    file = Path(path)
    if not file.exists():
        raise ValueError(f"{where} is not there")
    if not file.is_file():
        raise ValueError(f"{where} is no file")
    try:
        with file.open("rb") as start:
            if not start.read(1):
                raise ValueError(f"{where} is empty")
        with safe_open(file, "numpy", backend="pread") as reader:
            tensors: dict[str, Array] = {}
            for name in reader.offset_keys():
                dtype = reader.get_slice(name).get_dtype()
                if dtype not in DTYPES:
                    raise ValueError(f"{where} has a tensor of {dtype}, expected F32 or F64")
                tensors[name] = np.array(reader.get_tensor(name))
            return dict(reader.metadata() or {}), tensors
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise ValueError(f"{where} is no checkpoint, or a damaged one: {error}") from None


def _taken(tensors: dict[str, Array], kind: str) -> dict[str, Array]:
    """The tensors kind/NAME, by NAME, taken out."""
    names = [name for name in tensors if name.startswith(f"{kind}/")]
    return {name.removeprefix(f"{kind}/"): tensors.pop(name) for name in names}


def _state(step: Any, tensors: dict[str, Array]) -> dict[str, Any]:
    """{} where no step was taken: moments without a step stay among the tensors, where they are found to be too many."""
    return {} if step is None else {"step": step, **{moment: _taken(tensors, moment) for moment in MOMENTS}}
