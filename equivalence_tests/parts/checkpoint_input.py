"""What must not be loaded, and what must not be saved."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from equivalence_tests.parts.checkpoint_example import MOMENTS, difference, example, folder_of_its_own
from equivalence_tests.refusals import _refused


def refuses_a_damaged_file(part: Any) -> str:
    """A changed byte, a missing end, an end too many; unless what comes back is what was saved."""
    with folder_of_its_own() as folder:
        path = folder / "damaged"
        part.save_checkpoint(path, example())
        whole = path.read_bytes()
        changed = [(f"byte {i} changed", _flipped(whole, i)) for i in range(0, len(whole), 23)]
        cut = [
            (f"cut at {i}", whole[:i]) for i in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 8, len(whole) - 1)
        ]
        for what, content in (*changed, *cut, ("8 bytes too many", whole + bytes(8)), ("twice", whole * 2)):
            path.write_bytes(content)
            wrong = _refused(what, "damaged", ValueError, partial(part.load_checkpoint, path))
            if wrong and not ("accepted" in wrong and _same(part, path)):
                return wrong
    return ""


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def _same(part: Any, path: Path) -> bool:
    return not difference(part.load_checkpoint(path), example())


def refuses_a_file_with_other_tensors(part: Any) -> str:
    """One renamed, left out, added, exchanged, or of another shape, the rest as it was."""

    def renamed(tensors: dict[str, Any]) -> None:
        tensors["model/scalar"] = tensors.pop("params/scalar")

    def left_out(tensors: dict[str, Any]) -> None:
        for kind in ("params", *MOMENTS):
            del tensors[f"{kind}/scalar"]

    def added(tensors: dict[str, Any]) -> None:
        tensors["params/more"] = np.ones(2)

    def added_elsewhere(tensors: dict[str, Any]) -> None:
        tensors["ema/scalar"] = np.ones(())

    def exchanged(tensors: dict[str, Any]) -> None:
        tensors["exp_avg/a/b"], tensors["exp_avg_sq/a/b"] = tensors["exp_avg_sq/a/b"], tensors["exp_avg/a/b"]

    def reshaped(tensors: dict[str, Any]) -> None:
        for kind in ("params", *MOMENTS):
            tensors[f"{kind}/lm_head.weight"] = tensors[f"{kind}/lm_head.weight"].reshape(5, 3)

    changes: tuple[Callable[[dict[str, Any]], None], ...] = (
        renamed,
        left_out,
        added,
        added_elsewhere,
        exchanged,
        reshaped,
    )
    with folder_of_its_own() as folder:
        path = folder / "other"
        for change in changes:
            part.save_checkpoint(path, example())
            with safe_open(path, "numpy") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata = file.metadata()
            change(tensors)
            save_file(tensors, path, metadata)
            wrong = _refused(f"a tensor {change.__name__}", "other", ValueError, partial(part.load_checkpoint, path))
            if wrong:
                return wrong
    return ""


RAN: list[str] = []


class Bomb:
    """A pickle of it runs code when it is loaded."""

    def __reduce__(self) -> Any:
        return RAN.append, ("ran",)


def _no_checkpoints(folder: Path, part: Any) -> Iterator[str]:
    """Makes the file `other` in many ways, and says what it is."""
    path = folder / "other"
    yield "nothing"
    for what, content in (
        ("an empty file", b""),
        ("text", "Había una vez\n".encode() * 99),
        ("noise", bytes(range(256))),
    ):
        path.write_bytes(content)
        yield what
    path.write_bytes(pickle.dumps(Bomb()))
    yield "a pickle"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    yield "a torch file"
    with path.open("wb") as file:
        np.savez(file, p=np.ones(2))
    yield "an npz file"
    save_file({"params/p": np.ones(2)}, path)
    yield "a safetensors file of something else"
    part.save_checkpoint(path, example())
    with safe_open(path, "numpy") as reader:
        tensors = {name: reader.get_tensor(name) for name in reader.keys()}  # noqa: SIM118
        metadata = reader.metadata() or {}
    for key, value in (("version", "2"), ("format", "pt"), ("model", '"bert"'), ("sha256", "")):
        save_file(tensors, path, {**metadata, key: value})
        yield f"{key} {value}"
    save_file({**tensors, "params/scalar": np.ones((), np.float16)}, path, metadata)
    yield "half precision"
    path.unlink()
    path.mkdir()
    yield "a folder"


def refuses_what_is_no_checkpoint(part: Any) -> str:
    """CKP-03 too: a pickle is refused and not run."""
    RAN.clear()
    with folder_of_its_own() as folder:
        for what in _no_checkpoints(folder, part):
            wrong = _refused(what, "other", ValueError, partial(part.load_checkpoint, folder / "other"))
            if wrong:
                return wrong
    return "a pickle was run" if RAN else ""


def refuses_to_save_what_could_not_be_read_again(part: Any) -> str:
    with folder_of_its_own() as folder:
        path = folder / "c"
        part.save_checkpoint(path, example())
        W = np.ones((2, 2))
        step2 = example().state | {"step": 0}
        bad: list[tuple[str, str, str, type[Exception], Any]] = [
            ("another model", "model", "model", ValueError, "bert"),
            ("another vocabulary", "config", "vocab_size", ValueError, {"vocab_size": 4}),
            ("no vocabulary size", "config", "vocab_size", ValueError, {}),
            ("config as a list", "config", "config", TypeError, [9]),
            ("training as a list", "training", "training", TypeError, []),
            ("a tuple", "training", "training", ValueError, {"betas": (0.9, 0.999)}),
            ("a number for a key", "training", "training", ValueError, {"losses": {1: 2.0}}),
            ("NaN", "training", "training", ValueError, {"best": np.nan}),
            ("infinity", "training", "training", ValueError, {"best": np.inf}),
            ("an array", "training", "training", ValueError, {"losses": np.ones(2)}),
            ("a tokenizer's name", "tokenizer", "tokenizer", TypeError, "bpe"),
            ("no parameters", "params", "params", ValueError, {}),
            ("half precision", "params", "params", TypeError, {"p": np.ones(2, np.float16)}),
            ("integers", "params", "params", TypeError, {"p": np.ones(2, int)}),
            ("objects", "params", "params", TypeError, {"p": np.array([Bomb()])}),
            ("a tied array under two names", "params", "params", ValueError, {"a": W, "b": W}),
            ("half a surrogate pair", "params", "params", ValueError, {"\ud800": W}),
            ("a state of other parameters", "state", "state", ValueError, {"step": 1, "exp_avg": {}, "exp_avg_sq": {}}),
            ("half a state", "state", "state", ValueError, {"step": 1}),
            ("step 0 with moments", "state", "state", ValueError, step2),
        ]
        for what, attribute, argument, error, value in bad:
            wrong_one = example(steps=0 if attribute == "params" else 3)
            setattr(wrong_one, attribute, value)
            text = _refused(what, argument, error, partial(part.save_checkpoint, path, wrong_one))
            text = text or difference(part.load_checkpoint(path), example())
            if text:
                return text
    return ""
