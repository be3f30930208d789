"""The smallest failing case as a file, with a script beside it that replays it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import Candidate, Translation
from equivalence_tests.cases import Case
from equivalence_tests.misconduct import READ_ONLY
from equivalence_tests.observe import Observation, observe
from equivalence_tests.request import Request, absolute
from equivalence_tests.signatures import functional_arguments, operands_of
from reference_numpy.config import GPTConfig, RNNConfig

NPZ, SCRIPT = "counterexample.npz", "counterexample.py"
LAID_OUT = {  # how an array of the file is laid out as in the case, where that matters
    "transposed": "np.ascontiguousarray({0}.swapaxes(-1, -2)).swapaxes(-1, -2)",
    "strided": "np.repeat({0}, 2, -1)[..., ::2]",
    "reversed": "np.ascontiguousarray({0}[::-1])[::-1]",
    "broadcast": "np.broadcast_to({0}[:1], {0}.shape)",
}
LAID_OUT_TORCH = {
    "transposed": "{0}.mT.contiguous().mT",
    "strided": "{0}.repeat_interleave(2, -1)[..., ::2]",
    "broadcast": "{0}.repeat_interleave(2, -1)[..., ::2]",
}
AXES = {"transposed": 2, "strided": 1, "reversed": 1, "broadcast": 2}  # that an array needs to be laid out so


def write(folder: Path, candidate: Candidate, seen: Observation, request: Request) -> tuple[str, ...]:
    """counterexample.npz (what the candidate was given, what was expected, what rounding allows) and its script."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / NPZ, **arrays(candidate, seen))
    (folder / SCRIPT).write_text(script(candidate, seen, request), encoding="utf-8")
    return str(folder / NPZ), str(folder / SCRIPT)


def arrays(candidate: Candidate, seen: Observation) -> dict[str, Any]:
    """By name, in the candidate's own layout and with its own meaning of a mask."""
    laid = Translation(candidate.op, candidate.plan, candidate.convention, candidate.narrow)
    given = {**seen.case.operands, **seen.case.options, **seen.case.upstream}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, dict):  # a model's masks
            found |= {f"{name}.{key}": each for key, each in value.items()}
        elif hasattr(value, "__dataclass_fields__"):
            found[name] = np.asarray(json.dumps(asdict(value)))
        else:
            found[name] = _stored(laid.widened(laid.laid(value)), seen.dtype)
    if candidate.convention.mask_true == "drops" and "mask" in found:
        found["mask"] = ~found["mask"]
    for name, truth in seen.exact.items():
        found[f"expected_{name}"] = laid.laid(truth.value.astype(np.float64))
        found[f"allowed_{name}"] = laid.laid(np.where(np.isnan(truth.value), np.inf, truth.budget()))
    return found


def _stored(value: Any, dtype: str) -> Array:
    """Numbers of the case's dtype; NumPy has no bfloat16, whose numbers are also those of float32."""
    array = np.asarray(value)
    kept = "float32" if dtype == "bfloat16" else dtype
    return array.astype(kept) if array.dtype == np.float64 and isinstance(value, np.ndarray) else array


def script(candidate: Candidate, seen: Observation, request: Request) -> str:
    """At most 15 lines. Plain functions over arrays or tensors are called as they are; anything else through the kit."""
    told = f"{candidate.op.name}, {seen.dtype}: {seen.wrong}".replace("\\", "/").replace('"', "'")
    torch = "; import torch" if candidate.framework == "torch" else ""
    lines = [f'"""{told}"""', "import sys", "from pathlib import Path", f"import numpy as np{torch}"]
    here = "z = np.load(Path(__file__).with_name('counterexample.npz'))"
    plain = (
        candidate.plain
        and candidate.framework in ("numpy", "torch")
        and (candidate.whole or candidate.kind == "forward")
    )
    if candidate.op.model or candidate.habits or not plain:
        kit = "from equivalence_tests.failing_case import replay"
        call = f"replay(__file__, {request.from_anywhere()!r}, {seen.dtype!r})"
        return "\n".join([*lines[:2], kit, f"sys.exit({call})", ""])
    spec, backward = request.spec, request.backward
    if candidate.beside:
        backward = f"{spec.rpartition(':')[0]}:{candidate.beside}"
    calls = _calls(candidate, seen, spec, backward)
    imports = 1 + (backward is not None)
    lines += [*calls[:imports], here, *calls[imports:]]
    lines += [_alike(candidate, seen), COMPARE, "sys.exit(f'wrong: {bad}' if bad else 0)", ""]
    return "\n".join(lines)


COMPARE = (
    "bad = [n for n in (m[9:] for m in z.files if m.startswith('expected_')) "
    "if not alike(got.get(n), z[f'expected_{n}'], z[f'allowed_{n}'])]"
)


def _alike(candidate: Candidate, seen: Observation) -> str:
    """What an answer must be, as a line: of the expected shape, and of the dtype if it has one, before its values count."""
    numpy = candidate.framework == "numpy"
    dtype = f"getattr(x, 'dtype', {seen.dtype!r}) == {seen.dtype!r} and " if numpy else ""
    values = "((np.abs(x - e) <= a) | (x == e) | np.isinf(a)).all()"
    return f"alike = lambda x, e, a: x is not None and np.shape(x) == e.shape and {dtype}{values}"


def _calls(candidate: Candidate, seen: Observation, spec: str, backward: str | None) -> list[str]:
    """The import, the forward and the backward, as lines."""
    torch = candidate.framework == "torch"
    names = [*seen.case.operands, *(n for n, v in seen.case.options.items() if v is not None)]
    upstream = list(seen.case.upstream)

    def loaded(name: str, grad: bool = False) -> str:
        if name in seen.case.options and not isinstance(seen.case.options[name], np.ndarray):
            return f"z[{name!r}].item()"
        layout = _layout(seen, name)
        if not torch:
            return LAID_OUT.get(layout, "{0}").format(f"z[{name!r}]")
        cast = ".bfloat16()" if seen.dtype == "bfloat16" and _floating(seen, name) else ""
        text = LAID_OUT_TORCH.get(layout, "{0}").format(f"torch.from_numpy(z[{name!r}]){cast}")
        return text + (".requires_grad_()" if grad else "")

    with_gradient = candidate.op.gradient_names(seen.case) if candidate.op.differentiable else []
    values = {name: name for name in names}
    lines = [_import(spec, "f"), *([_import(backward, "b")] if backward else [])]
    autograd = candidate.kind == "autograd"
    loads = [f"{name} = {loaded(name, autograd and name in with_gradient)}" for name in names]
    if with_gradient:
        loads += [f"{name} = {loaded(name)}" for name in upstream]
    if READ_ONLY in seen.raised and not torch:
        arrays = [name for name in (*names, *upstream) if isinstance(_value(seen, name), np.ndarray)]
        loads += [f"{name}.flags.writeable = False" for name in arrays if name in names or with_gradient]
    lines.append("; ".join(loads))
    positional, keywords = candidate.plan.arguments(candidate.plan.as_text(values))
    call = f"f({', '.join([*positional, *(f'{key}={value}' for key, value in keywords.items())])})"
    outputs, dY = ", ".join(candidate.op.outputs), ", ".join(upstream)
    two = len(candidate.op.outputs) > 1
    gradients = [f"d{name}" for name in with_gradient]
    if candidate.kind == "pair":
        lines += [f"({outputs}), cache = {call}", f"gradients = b({f'({dY})' if two else dY}, cache)"]
    else:
        lines.append(f"{outputs} = {call}")
    if autograd and gradients:
        lines.append(f"gradients = torch.autograd.grad(({outputs},), ({', '.join(with_gradient)},), ({dY},))")
    elif candidate.kind == "functional":
        lines.append(f"gradients = {_functional(candidate, upstream)}")
    found = "{" + ", ".join(f"{name!r}: {name}" for name in candidate.op.outputs) + "}"
    if gradients:
        several = "isinstance(gradients, (tuple, list))"
        lines.append(f"named = dict(zip({gradients!r}, gradients if {several} else [gradients]))")
        by_name = "{'d' + n.removeprefix('d'): x for n, x in gradients.items()}"
        found += f" | ({by_name} if isinstance(gradients, dict) else named)"
    lines.append(f"got = {found}")
    if torch:
        right = f"x.dtype == torch.{seen.dtype}"
        lines.append(f"got = {{n: x.detach().double().numpy() if {right} else None for n, x in got.items()}}")
    return lines


def _functional(candidate: Candidate, upstream: list[str]) -> str:
    """The call of a backward of (dY, *inputs), written out."""
    values = {name: name for name in candidate.plan.names.values() if name in operands_of(candidate.row)}
    outputs = candidate.op.outputs[0] if len(candidate.op.outputs) == 1 else tuple(candidate.op.outputs)
    dY = upstream[0] if len(upstream) == 1 else tuple(upstream)
    positional, keywords = functional_arguments(
        candidate.backward, candidate.op, candidate.plan.names, values, outputs, dY
    )
    told = [f"({', '.join(each)})" if isinstance(each, tuple) else each for each in positional]
    return f"b({', '.join([*told, *(f'{key}={value}' for key, value in keywords.items())])})"


def _layout(seen: Observation, name: str) -> str:
    """How an array lies in the case, as far as its axes allow."""
    layout = seen.case.layouts.get(name, "")
    return layout if np.ndim(_value(seen, name)) >= AXES.get(layout, 0) else ""


def _value(seen: Observation, name: str) -> Any:
    return {**seen.case.operands, **seen.case.options, **seen.case.upstream}[name]


def _floating(seen: Observation, name: str) -> bool:
    value = _value(seen, name)
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _import(spec: str, alias: str) -> str:
    """A line that makes the function known by a short name."""
    where, _, name = absolute(spec).rpartition(":")
    if where.endswith(".py"):
        path = Path(where)
        return f"sys.path.insert(0, {str(path.parent)!r}); from {path.stem} import {name} as {alias}"
    return f"from {where} import {name} as {alias}"


def replay(script: str, request: dict[str, Any], dtype: str) -> int:
    """Run the case of the file beside a script once more; 1 and the first thing that is wrong, or 0."""
    with np.load(Path(script).with_name(NPZ)) as file:
        found = {name: file[name] for name in file.files if not name.startswith(("expected_", "allowed_"))}
    candidate = Request(**request).candidate()
    what = observe(candidate.implementation, candidate.op, _case(candidate, found), dtype).wrong
    print(what or "nothing is wrong")
    return int(bool(what))


def _case(candidate: Candidate, found: dict[str, Any]) -> Case:
    """The case in the table's own layout, with its own meaning of a mask."""
    laid = Translation(candidate.op, candidate.plan, candidate.convention).laid
    names = operands_of(candidate.row)
    known = {f"d{name}" for name in candidate.row.outputs}
    values: dict[str, Any] = {}
    for name, array in found.items():
        owner, _, key = name.partition(".")
        value = laid(array.astype(np.float64) if array.dtype.kind == "f" and array.ndim else array)
        if owner == "keep" and key:
            values.setdefault("keep", {})[key] = value
        elif name == "config":
            kind = GPTConfig if candidate.op.name.startswith("gpt") else RNNConfig
            values[name] = kind(**json.loads(str(array)))
        else:
            values[name] = value if array.ndim or name in known else array.item()
    if candidate.convention.mask_true == "drops" and "mask" in values:
        values["mask"] = ~values["mask"]
    operands = {n: v for n, v in values.items() if n in names or ("." in n and candidate.op.model)}
    upstream = {n: np.asarray(v, np.float64) for n, v in values.items() if n in known}
    options = {n: v for n, v in values.items() if n not in operands and n not in upstream}
    return Case(operands, options, upstream)
