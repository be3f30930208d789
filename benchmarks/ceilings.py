"""What this machine can do at most: a large matrix product, a large matrix-vector product, a large copy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Row
from benchmarks.work import Inputs, NotHere, Work
from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import NotOffered

WORKS = ("gemm", "gemv", "copy")
PACKAGES = {"numpy": "NumPy", "torch": "PyTorch", "torch cuda": "PyTorch on CUDA"}


def inputs_of(work: Work) -> Inputs:
    rng = np.random.default_rng(work.seed)
    dtype = np.float64 if work.dtype == "float64" else np.float32
    n = int(work.sizes["n"])
    if work.work == "copy":
        return {"X": rng.standard_normal(n, dtype)}
    d = int(work.sizes.get("d", n))
    right = (d, n) if work.work == "gemm" else (d,)
    return {"X": rng.standard_normal((n, d), dtype), "Y": rng.standard_normal(right, dtype)}


class Ceiling:
    """A call into memory that is there already."""

    def __init__(self, call: Callable[[], object], synchronise: Callable[[], object], answer: Callable[[], Array]):
        self.call, self.synchronise, self.answer = call, synchronise, answer

    def run(self) -> None:
        self.call()
        self.synchronise()

    def outputs(self) -> dict[str, Array]:
        return {"Z": self.answer()}


def prepare(contestant: str, work: Work, inputs: Inputs) -> Ceiling:
    if work.work not in WORKS:
        raise NotOffered(work.work)
    if contestant == "numpy":
        return _numpy(work, inputs)
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        raise NotHere("not installed", "torch is not installed") from None
    if contestant == "torch cuda" and not torch.cuda.is_available():
        raise NotHere("no GPU", "there is no GPU that torch can use")
    return _torch(torch, "cuda" if contestant == "torch cuda" else "cpu", work, inputs)


def _numpy(work: Work, inputs: Inputs) -> Ceiling:
    if work.dtype not in ("float32", "float64"):
        raise NotOffered(work.dtype)
    X = inputs["X"]
    if work.work == "copy":
        Z = np.zeros_like(X)
        return Ceiling(lambda: np.copyto(Z, X), lambda: None, lambda: Z)
    Y = inputs["Y"]
    Z = np.zeros((*X.shape[:1], *Y.shape[1:]), X.dtype)
    return Ceiling(lambda: np.matmul(X, Y, out=Z), lambda: None, lambda: Z)


def _torch(torch: Any, device: str, work: Work, inputs: Inputs) -> Ceiling:
    if work.dtype == "tf32" and device == "cpu":
        raise NotOffered("tf32 on the CPU")
    torch.backends.cuda.matmul.allow_tf32 = work.dtype == "tf32"
    kind = torch.bfloat16 if work.dtype == "bfloat16" else None
    tensors = {name: torch.from_numpy(X).to(device, kind) for name, X in inputs.items()}
    X = tensors["X"]
    synchronise = torch.cuda.synchronize if device == "cuda" else lambda: None
    if work.work == "copy":
        Z = torch.zeros_like(X)
        return Ceiling(lambda: Z.copy_(X), synchronise, lambda: Z.float().cpu().numpy())
    Y = tensors["Y"]
    Z = torch.zeros((*X.shape[:1], *Y.shape[1:]), dtype=X.dtype, device=device)
    return Ceiling(lambda: torch.matmul(X, Y, out=Z), synchronise, lambda: _array(Z))


def _array(Z: Any) -> Array:
    array: Array = (Z.float() if str(Z.dtype) == "torch.bfloat16" else Z).cpu().numpy()
    return array


def ceilings_of(rows: list[Row]) -> dict[str, float]:
    """From the rows of the roofline: the fastest run of each library, and the best of all on the CPU."""
    found: dict[str, float] = {}
    for row in rows:
        if row.suite != "roofline" or row.status != "ok" or not row.minimum:
            continue
        amount = row.flops if row.work == "gemm" else row.bytes
        if amount is None:
            continue
        kind = "copy" if row.work == "copy" else f"{row.work} {row.dtype}"
        rate = amount / row.minimum
        for key in (f"{kind} {row.contestant}", *([kind] if row.device == "cpu" else [])):
            found[key] = max(found.get(key, 0.0), rate)
    return found
