"""Laws of saving and loading; the part is a namespace with save_checkpoint and load_checkpoint."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from safetensors import safe_open

from equivalence_tests.laws.common import first
from equivalence_tests.parts._guard import told
from equivalence_tests.parts._part import Law
from equivalence_tests.parts.checkpoint_example import MOMENTS, difference, example, folder_of_its_own
from equivalence_tests.parts.checkpoint_input import (
    refuses_a_damaged_file,
    refuses_a_file_with_other_tensors,
    refuses_to_save_what_could_not_be_read_again,
    refuses_what_is_no_checkpoint,
)
from equivalence_tests.refusals import _refused
from reference_numpy.optimizer import adamw_step


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk does, without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def comes_back_to_the_last_bit(part: Any) -> str:
    with folder_of_its_own() as folder:
        for dtype in ("float64", "float32"):
            for steps in (0, 1, 3):
                saved = example(dtype, steps)
                part.save_checkpoint(folder / "c", saved)
                wrong = difference(part.load_checkpoint(folder / "c"), example(dtype, steps))
                if wrong or difference(saved, example(dtype, steps)):
                    return wrong or "saving has changed what was saved"
        return "" if [file.name for file in folder.iterdir()] == ["c"] else "something else lies beside the checkpoint"


def gives_arrays_of_their_own(part: Any) -> str:
    """Writable, contiguous, and of memory that is nobody else's: the optimizer works in place."""
    with folder_of_its_own() as folder:
        part.save_checkpoint(folder / "c", example())
        for loaded in (part.load_checkpoint(folder / "c"), part.load_checkpoint(str(folder / "c"))):
            for arrays in (loaded.params, *(loaded.state[moment] for moment in MOMENTS)):
                for name, array in arrays.items():
                    if not (array.flags.writeable and array.flags.c_contiguous and array.flags.owndata):
                        return f"{name} cannot be written, or is a view"
                    array += 1.0
        return difference(part.load_checkpoint(folder / "c"), example())


def goes_on_as_if_it_had_never_stopped(part: Any) -> str:
    """CKP-04: p = 1, gradients 1, 0, 0, 0: two steps, a checkpoint and two steps are four steps."""
    gradients = [np.array([x]) for x in (1.0, 0.0, 0.0, 0.0)]
    whole: dict[str, Any] = {}
    p = {"p": np.array([1.0])}
    for g in gradients:
        adamw_step(p, {"p": g}, whole, lr=0.1, weight_decay=0.0)
    now = example()
    now.params, now.state = {"p": np.array([1.0])}, {}
    with folder_of_its_own() as folder:
        for g in gradients:
            adamw_step(now.params, {"p": g}, now.state, lr=0.1, weight_decay=0.0)
            part.save_checkpoint(folder / "c", now)
            now = part.load_checkpoint(folder / "c")
    return "" if now.params["p"].tobytes() == p["p"].tobytes() else f"p is {now.params['p']}, expected {p['p']}"


def is_a_safetensors_file(part: Any) -> str:
    """Every array under its name, read by the library; and the same checkpoint is the same bytes."""
    saved = example()
    with folder_of_its_own() as folder:
        for name in ("c", "d"):
            part.save_checkpoint(folder / name, saved)
        if (folder / "c").read_bytes() != (folder / "d").read_bytes():
            return "saved twice, the bytes differ"
        with safe_open(folder / "c", "numpy") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    right = {f"params/{name}": p for name, p in saved.params.items()}
    right |= {f"{moment}/{name}": x for moment in MOMENTS for name, x in saved.state[moment].items()}
    if found.keys() != right.keys():
        return f"the tensors are {sorted(found)}"
    return first(f"{name} has other numbers" for name, x in right.items() if found[name].tobytes() != x.tobytes())


def keeps_the_last_good_one_when_there_is_no_room(part: Any) -> str:
    """One line of OSError that names the path; the old checkpoint loads, and nothing lies beside it."""
    with folder_of_its_own() as folder:
        path = folder / "good"
        part.save_checkpoint(path, example(steps=1))
        large = example(steps=2)
        large.params = {"w": np.ones(4096)}
        large.state = {}
        for size in (0, 100, 8192):
            with no_room(size):
                wrong = _refused(f"room for {size} bytes", "good", OSError, partial(part.save_checkpoint, path, large))
            wrong = wrong or difference(part.load_checkpoint(path), example(steps=1))
            if wrong or [file.name for file in folder.iterdir()] != ["good"]:
                return wrong or f"with room for {size} bytes, a piece is left behind"
        where = folder / "no folder" / "new"
        return _refused("no such folder", "new", OSError, partial(part.save_checkpoint, where, example()))


def is_not_hindered_by_what_was_left_behind(part: Any) -> str:
    """Whatever lies there under the temporary name, or any other: it is not read, and does not become more."""
    with folder_of_its_own() as folder:
        (folder / "c.tmp").write_bytes(b"half a checkpoint" * 1000)
        part.save_checkpoint(folder / "c", example())
        wrong = difference(part.load_checkpoint(folder / "c"), example())
        return wrong or ("" if len(list(folder.iterdir())) <= 2 else "files accumulate")


PARTS: dict[str, tuple[Law, ...]] = {
    "checkpoint": told(
        comes_back_to_the_last_bit,
        gives_arrays_of_their_own,
        goes_on_as_if_it_had_never_stopped,
        is_a_safetensors_file,
        keeps_the_last_good_one_when_there_is_no_room,
        is_not_hindered_by_what_was_left_behind,
        refuses_a_damaged_file,
        refuses_a_file_with_other_tensors,
        refuses_what_is_no_checkpoint,
        refuses_to_save_what_could_not_be_read_again,
    ),
}
