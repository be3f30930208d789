"""Saving and loading in any style: a path and one thing or several; what comes back is compared bit by bit."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import Array
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import one_line
from equivalence_tests.mistakes import PART_MISTAKES, quiet
from equivalence_tests.parts.checkpoint_example import MOMENTS, example, folder_of_its_own
from equivalence_tests.parts.outside.answers import Answer
from equivalence_tests.parts.outside.calling import Plan, plain, plan_of
from equivalence_tests.parts.outside.naming import Match, matches
from equivalence_tests.parts.outside.report import Judged
from equivalence_tests.parts.outside.words import told_apart
from reference_numpy.checkpoint import Checkpoint
from reference_numpy.tokenizer import Tokenizer

REFERENCE = SimpleNamespace(
    save_checkpoint=reference_numpy.save_checkpoint, load_checkpoint=reference_numpy.load_checkpoint
)
EXAMPLE = "a pair such as save_checkpoint(path, params, state, step) and load_checkpoint(path) -> params, state, step"
ROLES = {
    "path": ("file", "filename", "fname", "filepath", "f", "ckptpath", "where", "dest", "out"),
    "params": ("model", "weights", "parameters", "p", "statedict", "modelstate", "arrays", "tensors"),
    "state": ("optstate", "optimizerstate", "optimizer", "opt", "optimstate"),
    "step": ("t", "iteration", "it", "epoch", "i"),
    "config": ("cfg", "settings", "meta", "metadata"),
    "checkpoint": ("ckpt", "obj", "data", "d", "everything", "tree", "content"),
}
SHAPES = {"head.weight": (4, 4), "W": (3, 3), "wide": (2, 5), "b": (3,), "scalar": ()}
LAW, OWN = "comes_back_to_the_last_bit", "gives_arrays_of_their_own"


def both(function: Any) -> tuple[Any, Any]:
    """save and load: of a namespace or a class, or of the module in which one of them stands."""
    for save, load in (("save_checkpoint", "load_checkpoint"), ("save", "load")):
        if hasattr(function, save) and hasattr(function, load):
            return getattr(function, save), getattr(function, load)
    name = getattr(function, "__name__", "")
    space = getattr(function, "__globals__", None) or vars(sys.modules.get(getattr(function, "__module__", ""), object))
    if "save" in name:
        return function, space.get(name.replace("save", "load")) or space.get("load_checkpoint")
    if "load" in name:
        return space.get(name.replace("load", "save")) or space.get("save_checkpoint"), function
    return None, None


def contract_of(function: Any) -> Any:
    """Both functions, if they take and give a Checkpoint as the reference's do."""
    save, load = both(function)
    if save is None or load is None:
        return None
    try:
        parameters = list(inspect.signature(save).parameters.values())
    except (TypeError, ValueError):
        return None
    if len([p for p in parameters if p.default is p.empty]) != 2:
        return None
    simple = Checkpoint("gpt", {"vocab_size": 5}, Tokenizer(["a"]), {"p": np.ones(2)}, {}, {})
    with folder_of_its_own() as folder:
        try:
            save(folder / "c", simple)
            found = load(folder / "c")
        except BaseException as error:
            reraise_interrupt(error)
            return None
    return SimpleNamespace(save_checkpoint=save, load_checkpoint=load) if isinstance(found, Checkpoint) else None


def saved(steps: int = 3) -> dict[str, Any]:
    """What is to be saved, by role: square matrices among them, one of which does not lie in the order of its elements."""
    rng = np.random.default_rng(4)
    params = {name: np.asarray(rng.standard_normal(shape)) for name, shape in SHAPES.items()}
    params["W"] = np.asfortranarray(params["W"])
    params["odd"] = np.array([np.nan, np.inf, -0.0, 1e-310])
    moments = {
        moment: {n: np.asarray(rng.standard_normal(p.shape), p.dtype) for n, p in params.items()} for moment in MOMENTS
    }
    return {
        "params": params,
        "state": {"step": steps, **moments},
        "step": steps,
        "config": {"vocab_size": 5, "rate": 0.1},
    }


def judge(function: Any, label: str, watch: Callable[[str], None]) -> tuple[Judged, list[Match]]:
    save, load = both(function)
    if save is None or load is None:
        raise ValueError(f"{label}: no function to load what it saves (or to save what it loads), expected {EXAMPLE}")
    saving = plan_of(save, ROLES, ("path",), label, EXAMPLE)
    loading = plan_of(load, ROLES, ("path",), label, EXAMPLE)
    if not saving.roles - {"path"}:
        raise ValueError(f"{label}: it takes nothing to save, expected {EXAMPLE}")
    watch(f"law {LAW}")
    judged = Judged(cases=1)
    judged.notes.append(Finding("part_called", numbers={"call": saving.shown(getattr(save, "__name__", "save"))}))
    before = saved()
    given, back, raised = _round_trip(save, load, saving, loading)
    if back is None:
        raise ValueError(f"{label}: what was saved could not be loaded ({raised}), expected {EXAMPLE}")
    faults = [*_compared(given, back), *_unchanged(given, before)]
    locked = _locked(given, back)
    judged.count(LAW, bool(faults))
    judged.count(OWN, bool(locked))
    judged.faults = [*faults, *locked]
    found: list[Match] = []
    if judged.faults:
        watch("diagnosis: naming")
        library = [m for m in PART_MISTAKES.values() if m.op == "checkpoint" and not m.accepts]
        got, right = _answers(back), _answers({role: before[role] for role in given})
        roles = frozenset(given)
        found = matches(got, right, library, lambda mistake, i: _of_mistake(mistake.id, roles)[i])
    return judged, found


def _round_trip(save: Any, load: Any, saving: Plan, loading: Plan) -> tuple[dict[str, Any], dict[str, Any] | None, str]:
    """What was given by role, and what came back by role; nothing and the reason if no way runs."""
    raised = "nothing came back"
    for whole in ({"params", "state", "step"}, {"params"}, set()):
        given = {role: value for role, value in saved().items() if role in saving.roles}
        values: dict[str, Any] = dict(given)
        if "checkpoint" in saving.roles:
            given = {role: value for role, value in saved().items() if role in (whole or {"params"})}
            values = {"checkpoint": given if whole else given["params"]}
        elif whole != {"params", "state", "step"}:
            break
        template = {name: np.zeros_like(p) for name, p in saved()["params"].items()}
        with folder_of_its_own() as folder:
            try:
                path = str(folder / "c.npz")
                saving.call(save, values | {"path": path})
                answer = loading.call(load, {"path": path, "params": template})
            except BaseException as error:
                reraise_interrupt(error)
                raised = one_line(error)
                continue
        back = _by_role(template if answer is None else answer, given)
        if back is not None:
            return given, back, ""
    return {}, None, raised


def _by_role(answer: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    """What came back, by what was given: in a dict by name, in the same order, or alone."""
    order = list(given)
    if isinstance(answer, dict):
        if all(role in answer for role in order):
            return {role: answer[role] for role in order}
        if "params" in given and set(answer) & set(given["params"]):
            return {"params": answer}
        known = {plain(alias): role for role in order for alias in (role, *ROLES[role])}
        return {known[plain(key)]: each for key, each in answer.items() if plain(str(key)) in known} or None
    if isinstance(answer, tuple | list) and len(answer) >= 1:
        return dict(zip(order, answer, strict=False))
    return {role: getattr(answer, role) for role in order if hasattr(answer, role)} or None


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, each in value.items():
            found |= _flat(each, f"{name}[{key!r}]" if name else str(key))
        return found
    return {name: value}


def _compared(given: dict[str, Any], back: dict[str, Any]) -> list[Finding]:
    found, arrays = [], _flat(back)
    for key, right in _flat(given).items():
        if key not in arrays:
            found.append(Finding("checkpoint_lost", numbers={"key": key}))
        elif isinstance(right, np.ndarray):
            found += _array(key, arrays[key], right)
        elif _plain(arrays[key]) != right:
            numbers = {"key": key, "where": key, "got": repr(arrays[key])[:60], "right": repr(right)}
            found.append(Finding("checkpoint_key", numbers=numbers))
    return found


def _plain(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0) else value
    )


def _array(key: str, got: Any, right: Array) -> list[Finding]:
    kind = f"{got.dtype} {got.shape}" if isinstance(got, np.ndarray | np.generic) else type(got).__name__
    wanted = f"{right.dtype} {right.shape}"
    if kind != wanted:
        return [Finding("checkpoint_shape", numbers={"key": key, "got": kind, "right": wanted})]
    if got.tobytes() == right.tobytes():
        return []
    if right.ndim == 2 and np.array_equal(got.T, right):
        return [Finding("checkpoint_transposed", numbers={"key": key})]
    wrong = np.argwhere(~((got == right) & (np.signbit(got) == np.signbit(right)) | (np.isnan(got) & np.isnan(right))))
    where = tuple(int(i) for i in wrong[0]) if len(wrong) else (0,) * right.ndim
    one, other = told_apart(float(got[where]), float(right[where]))
    return [Finding("checkpoint_key", numbers={"key": key, "where": f"{key}{list(where)}", "got": one, "right": other})]


def _unchanged(given: dict[str, Any], before: dict[str, Any]) -> list[Finding]:
    right = _flat({role: before[role] for role in given})
    now = _flat(given)
    changed = [
        key
        for key, x in right.items()
        if key not in now or (isinstance(x, np.ndarray) and np.asarray(now[key]).tobytes() != x.tobytes())
    ]
    return [Finding("checkpoint_saving_changes", numbers={"key": changed[0]})] if changed else []


def _locked(given: dict[str, Any], back: dict[str, Any]) -> list[Finding]:
    arrays = {key: x for key, x in _flat(back).items() if isinstance(x, np.ndarray) and x.ndim}
    key = next((key for key, x in arrays.items() if not x.flags.writeable), "")
    return [Finding("checkpoint_read_only", numbers={"key": key})] if key else []


def _answers(back: dict[str, Any]) -> Sequence[Answer | None]:
    """An answer for each leaf; moments and step stand under the state alone."""
    leaves = _flat({role: back[role] for role in ("params", "state") if role in back})
    order = _flat({"params": saved()["params"], "state": saved()["state"]})
    return [{"bits": _bits(leaves[key])} if key in leaves else None for key in order]


def _bits(value: Any) -> list[str]:
    if isinstance(value, np.ndarray | np.generic):
        locked = isinstance(value, np.ndarray) and not value.flags.writeable
        return [str(value.dtype), str(value.shape), value.tobytes().hex(), str(locked)]
    return [repr(_plain(value))]


@cache
def _of_mistake(id: str, roles: frozenset[str]) -> Sequence[Answer | None]:
    """What the mistake makes of the same parameters and state."""
    broken: Any = PART_MISTAKES[id].forward
    right = example()
    values = saved()
    right.params, right.state = values["params"], copy.deepcopy(values["state"])
    with quiet(), folder_of_its_own() as folder:
        try:
            broken.save_checkpoint(folder / "c", right)
            found = broken.load_checkpoint(folder / "c")
        except BaseException as error:
            reraise_interrupt(error)
            return [None] * len(_answers(values))
    return _answers({role: each for role, each in (("params", found.params), ("state", found.state)) if role in roles})
