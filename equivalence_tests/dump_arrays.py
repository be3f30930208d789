"""The arrays of a dump: an .npz, or a folder of .npy files, that somebody wrote out of a running system.

They are called as in the op's signature: operands, options, the upstream gradient (dC), outputs and gradients, and any line
of the formula (Omega, A, dS; see `dump_lines`). Numbers are arrays without axes. A model's config is config.json, or its
fields; its masks are keep.NAME. bfloat16 is read from ml_dtypes' two bytes, or from float32 numbers where that is said.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.dump_lines import lines_of, upstream_of
from equivalence_tests.implementations import Tensor
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.loading import nearest
from equivalence_tests.npy import read_npy
from equivalence_tests.ops import Op
from equivalence_tests.signatures import options_of
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import rnn_shapes
from reference_numpy.gpt import gpt_shapes

CONFIG = "config.json"
INTEGERS: tuple[str, ...] = ("ids", "targets")
MASKS = ("mask", "keep")
WHOLE = ("query_offset", "num_heads", "axis", "ignore_index")  # the others are real numbers
ROW_STATISTICS = (
    "delta",
    "mean(X)",
    "var",
    "r",
    "mean(dN)",
    "mean(dN * N)",
)  # one number a row, with an axis or without
BY_HEADS = ("Q", "K", "V", "C", "dC", "dQ", "dK", "dV")  # of a multi-head attention: (..., H, n, c)


@dataclass(frozen=True)
class Dump:
    """`numbers` are all floating arrays, with their dtype; `integers` ids and targets; `options` the constants of the op.

    `operands` and `upstream` are the names that the op needs, there or not. `notes` say what was taken for granted.
    """

    numbers: dict[str, Tensor]
    integers: dict[str, Array]
    options: dict[str, Any]
    operands: tuple[str, ...]
    upstream: tuple[str, ...]
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What the formula is given: operands in the order of the signature, the upstream gradient, a bias."""
        given = {**self.numbers, **self.integers}
        wanted = (*self.operands, *self.upstream, *(("bias",) if "bias" not in self.operands else ()))
        return [name for name in wanted if name in given]


def read_dump(path: Path, op: Op, options: Mapping[str, Any] | None = None, dtype: str | None = None) -> Dump:
    """The dump of an op. `options` are constants that are not in it, `dtype` what its floating arrays hold.

    ValueError, one line, for what cannot be read, a constant of the wrong kind, or arrays that do not fit each other.
    """
    if dtype is not None and dtype not in PRECISIONS:
        raise ValueError(f"--dtype: {dtype!r} came, {nearest(dtype, PRECISIONS)}")
    notes: list[str] = []
    found = dict(_files(path, notes))
    config = found.pop(CONFIG, None)
    arrays: dict[str, Tensor] = {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
    constants = _options(op, arrays, config, options or {})
    operands = _operands(op, constants)
    integers: dict[str, Array] = {name: _integers(name, arrays.pop(name).value) for name in INTEGERS if name in arrays}
    upstream = () if op.name == "attention_stages" else upstream_of(op)
    lines = lines_of(op, [*operands, *upstream], constants)
    known = [*operands, *upstream, *(name for line in lines for name in line.names), "bias", *integers]
    for name in [name for name in arrays if name not in known]:
        notes.append(f"{name} is nothing of {op.name} and is left out, {nearest(name, known)}")
        del arrays[name]
    numbers = {name: _floating(name, tensor, dtype) for name, tensor in arrays.items()}
    dump = Dump(_shaped(op, numbers, constants), integers, constants, operands, upstream, notes)
    _complete(op, dump)
    _check(op, dump)
    return dump


# Files


def _files(path: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    """Every array by name, and the text of the config."""
    if path.is_dir():
        for each in sorted(path.iterdir()):
            if each.name == CONFIG:
                yield CONFIG, each.read_bytes()
            elif each.suffix == ".npy" and each.is_file():
                with each.open("rb") as file:
                    yield each.stem, _array(path / each.name, file, each.stat().st_size)
            else:
                notes.append(f"{each.name} is no .npy file and is left out")
    elif path.is_file():
        yield from _members(path, notes)
    else:
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        raise ValueError(f"there is no file or folder {path}" + (f", {nearest(path.name, beside)}" if beside else ""))


def _members(path: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for each in archive.infolist():
                if each.filename == CONFIG:
                    yield CONFIG, archive.read(each)
                elif each.filename.endswith(".npy"):
                    with archive.open(each) as file:
                        yield (
                            each.filename.removesuffix(".npy"),
                            _array(f"{path}: {each.filename}", file, each.file_size),
                        )
                else:
                    notes.append(f"{each.filename} is no .npy file and is left out")
    except zipfile.BadZipFile:
        raise ValueError(f"{path} is no .npz file or is damaged, expected an .npz or a folder of .npy files") from None
    except (OSError, RuntimeError, NotImplementedError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _array(where: Any, file: Any, size: int) -> Tensor:
    try:
        return read_npy(file, size)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


# What is what


def _operands(op: Op, options: dict[str, Any]) -> tuple[str, ...]:
    if not op.model:
        return tuple(PATTERNS[op.name].operands)
    config = options["config"]
    names = gpt_shapes(config) if isinstance(config, GPTConfig) else rnn_shapes(config)
    return (*names, "ids", *(("targets",) if op.scalar else ()))


def _options(op: Op, arrays: dict[str, Tensor], config: bytes | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The constants of the op, taken out of the arrays; those that came beside the dump may not contradict it."""
    known = [name for name in options_of(op) if name not in ("bias", "config")]
    for name in given:
        if name not in known:
            raise ValueError(f"{name!r} is no option of {op.name}, {nearest(name, known) if known else 'it has none'}")
    options: dict[str, Any] = {"config": _config(op, arrays, config)} if op.model else {}
    for name in known:
        if op.model and name == "keep":
            masks = [each for each in arrays if each.startswith("keep.")]
            if masks:
                options["keep"] = {each.removeprefix("keep."): _mask(each, arrays.pop(each).value) for each in masks}
        elif name in arrays:
            value = arrays.pop(name).value
            options[name] = _mask(name, value) if name in MASKS else _number(name, value)
    for name, value in given.items():
        if name in options and not np.array_equal(options[name], value):
            raise ValueError(f"{name} is {value} by what was said, and {options[name]} in the dump")
        options.setdefault(name, value)
    if op.name == "dropout":
        options = {"keep": None, "p": 0.0} | options
    if op.name == "multi_head_attention" and "num_heads" not in options:
        raise ValueError("num_heads is not in the dump, and a multi-head attention cannot be judged without it")
    return options


def _config(op: Op, arrays: dict[str, Tensor], text: bytes | None) -> GPTConfig | RNNConfig:
    kind = RNNConfig if "rnn" in op.name else GPTConfig
    try:
        values = json.loads(text) if text else {}
        if not isinstance(values, dict):
            raise ValueError("no object")
    except ValueError:
        raise ValueError(f"{CONFIG} cannot be read, expected an object with the fields of {kind.__name__}") from None
    names = [each.name for each in fields(kind)]
    values |= {name: _plain(name, arrays.pop(name).value) for name in names if name in arrays}
    for each in fields(kind):
        if each.name not in values and each.default is MISSING:
            raise ValueError(f"{each.name} is not in the dump, expected {CONFIG} or an array without axes")
    for name in values:
        if name not in names:
            raise ValueError(f"{CONFIG}: {name!r} is no field of {kind.__name__}, {nearest(name, names)}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _plain(name: str, value: Array) -> Any:
    if value.size != 1:
        raise ValueError(f"{name} has shape {value.shape}, expected a number")
    return value.reshape(()).item()


def _number(name: str, value: Array) -> Any:
    number = _plain(name, value)
    if name == "causal":
        if number not in (0, 1):
            raise ValueError(f"causal is {number}, expected a truth value")
        return bool(number)
    if name not in WHOLE:
        return float(number)
    if number != int(number):
        raise ValueError(f"{name} is {number}, expected an integer")
    return int(number)


def _mask(name: str, value: Array) -> Array:
    """A truth value for every element; other languages write 0 and 1."""
    if value.dtype != bool and not np.isin(value, (0, 1)).all():
        hint = "; what is added to the scores is called bias" if name == "mask" else ""
        raise ValueError(f"{name} holds {value.dtype} numbers other than 0 and 1, expected truth values{hint}")
    return value.astype(bool)


def _integers(name: str, value: Array) -> Array:
    if value.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {value.dtype}, expected integers")
    return value


def _floating(name: str, tensor: Tensor, dtype: str | None) -> Tensor:
    if tensor.dtype not in PRECISIONS:
        raise ValueError(f"{name} has dtype {tensor.dtype}, expected {', '.join(PRECISIONS)}")
    return Tensor(tensor.value, dtype or tensor.dtype)


def _shaped(op: Op, numbers: dict[str, Tensor], options: dict[str, Any]) -> dict[str, Tensor]:
    """With the last axis of what is one number a row, and with an axis of heads."""
    wide = next((numbers[name].value.ndim for name in ("A", "Q", "X", "dA", "dN", "N") if name in numbers), 0)
    shaped = {}
    for name, tensor in numbers.items():
        value = tensor.value
        if name in ROW_STATISTICS and value.ndim == wide - 1:
            value = value[..., None]
        if op.name == "multi_head_attention" and name in BY_HEADS:
            hidden = next((numbers[each].value.ndim for each in ("X", "Y", "dY") if each in numbers), 0)
            if value.ndim == hidden and value.shape[-1] % options["num_heads"] == 0:
                value = np.stack(np.split(value, options["num_heads"], -1), -3)
        shaped[name] = Tensor(value, tensor.dtype)
    return shaped


def _complete(op: Op, dump: Dump) -> None:
    """What a running system hardly writes down: the loss's own gradient is 1, an output that leads nowhere has 0."""
    numbers = dump.numbers
    dtype = next((numbers[name].dtype for name in dump.operands if name in numbers), "float64")
    if op.scalar and "dloss" not in numbers:
        numbers["dloss"] = Tensor(np.ones(()), dtype)
        dump.notes.append("dloss is not in the dump: 1 is taken")
    if op.name == "rnn" and "H" in numbers and ("dH" in numbers) != ("dh_last" in numbers):
        missing = "dh_last" if "dH" in numbers else "dH"
        shape = numbers["H"].value.shape
        shape = shape if missing == "dH" else (*shape[:-2], shape[-1])
        numbers[missing] = Tensor(np.zeros(shape), dtype)
        dump.notes.append(f"{missing} is not in the dump: 0 is taken")
    if "keep" in dump.options and dump.options["keep"] is not None and "p" not in dump.options and not op.model:
        dump.notes.append("keep is in the dump and p is not: p = 0 is taken")


def _check(op: Op, dump: Dump) -> None:
    """What the reference refuses cannot be judged: its line says why. It is asked only if all operands are there."""
    optional = PATTERNS[op.name].optional if op.name in PATTERNS else ()
    if any(name not in dump.names and name not in optional for name in dump.operands):
        return
    given = {name: dump.integers.get(name) for name in dump.operands if name in dump.integers}
    given |= {name: dump.numbers[name].value.astype(np.float64) for name in dump.operands if name in dump.numbers}
    options = dict(dump.options)
    if "bias" in dump.names and "bias" not in dump.operands:
        options["bias"] = dump.numbers["bias"].value.astype(np.float64)
    arguments = op.arguments({name: given[name] for name in dump.operands if name in given})
    with np.errstate(all="ignore"):
        try:
            answer = getattr(reference_numpy, op.name)(*arguments, **options)
            backward = getattr(reference_numpy, f"{op.name}_backward", None)
            if backward is not None and all(name in dump.names for name in dump.upstream):
                dY = tuple(dump.numbers[name].value.astype(np.float64) for name in dump.upstream)
                backward(dY[0].item() if op.scalar else dY[0] if len(dY) == 1 else dY, answer[1])
        except (ValueError, TypeError) as error:
            raise ValueError(str(error).splitlines()[0]) from None
