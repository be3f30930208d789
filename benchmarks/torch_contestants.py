"""The contestants that compute in torch: who they are, without importing it, and what each is timed with.

A name says everything: "torch", "cuda" on a GPU, then "eager" (composed), "sdpa" (torch's fused attention; "flash",
"efficient", "math" and "cudnn" name its backend), "compile" or "graph" (a CUDA graph); a training
step may have a ", chunked loss".
"""

from __future__ import annotations

import importlib.util
from typing import Any

from benchmarks.work import Inputs, NotHere, Prepared, Work
from equivalence_tests.implementations import NotOffered
from equivalence_tests.ops import OPS

STEPS = ("gpt_step", "rnn_step")
ATTENTIONS = ("attention", "self_attention", "multi_head_attention", "simple_attention")
BACKENDS = {"cpu": ("flash", "math"), "cuda": ("flash", "efficient", "math", "cudnn")}
CHUNKED = ", chunked loss"
PEER = {"cpu": "transformers", "cuda": "transformers cuda"}


def names(device: str) -> list[str]:
    torch = "torch" if device == "cpu" else "torch cuda"
    plain = ["eager", "sdpa", "compile", *(["graph"] if device == "cuda" else [])]
    kinds = [*plain, *(f"{kind}{CHUNKED}" for kind in plain), *(f"sdpa {backend}" for backend in BACKENDS[device])]
    return [*(f"{torch} {kind}" for kind in kinds), PEER[device]]


def prepare(contestant: str, work: Work, inputs: Inputs, options: dict[str, Any]) -> Prepared:
    """NotOffered if the contestant has no such work, NotHere if this machine lacks what it needs."""
    device = "cuda" if " cuda" in contestant else "cpu"
    if contestant not in names(device):
        raise ValueError(f"{contestant!r} came, expected one of {', '.join(names(device))}")
    _offered(contestant, device, work, options)
    for package in ("torch", *(["transformers"] if contestant == PEER[device] else [])):
        if importlib.util.find_spec(package) is None:
            raise NotHere("not installed", f"{package} is not installed")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise NotHere("no GPU", "there is no GPU that torch can use")
    if contestant == PEER[device]:
        from benchmarks import transformers_peer

        return transformers_peer.prepare(work, inputs, options, device)
    from benchmarks import torch_runs

    return torch_runs.prepare(_kind(contestant), work, inputs, options, device)


def _kind(contestant: str) -> str:
    return contestant.removesuffix(CHUNKED).removeprefix("torch cuda ").removeprefix("torch ") + (
        CHUNKED if contestant.endswith(CHUNKED) else ""
    )


def _offered(contestant: str, device: str, work: Work, options: dict[str, Any]) -> None:
    """NotOffered, which makes no row, for what would be another contestant's number under a second name."""
    kind = _kind(contestant)
    step = work.work in STEPS
    if contestant == PEER[device]:
        fits = work.work in ("gpt_step", "generate") and work.dtype == "float32" and not work.sizes.get("dropout")
    elif work.part.startswith("copy"):
        fits = device == "cuda" and kind == "eager"
    elif work.work == "generate":
        fits = kind in ("eager", "sdpa")
    elif step:
        keeps_whole = work.work == "gpt_step" and options.get("keep") is None
        fits = keeps_whole or "sdpa" not in kind  # torch's kernels take no mask, and the RNN has no attention
        fits &= work.work == "gpt_step" or "compile" not in kind  # which has no more to say of one recurrence in C++
    elif work.work not in OPS or kind.endswith(CHUNKED) or kind == "graph":
        fits = False
    else:
        fits = _op_offered(kind, work, options)
    if work.dtype == "tf32":
        fits &= device == "cuda"
    if not fits:
        raise NotOffered(f"{contestant} has no {work.work}, {work.part}, in {work.dtype}")


def _op_offered(kind: str, work: Work, options: dict[str, Any]) -> bool:
    """Of an op of the table: SDPA where there is attention, compile where there is something to fuse."""
    op = OPS[work.work]
    if work.part != "forward" and not op.differentiable:
        return False
    if kind.startswith("sdpa"):
        return work.work in ATTENTIONS and options.get("keep") is None
    compiles = work.dtype != "bfloat16" and work.work not in ("attention_stages", "rnn") and not op.model
    return kind == "eager" or compiles


def offers(contestant: str, work: Work) -> bool:
    """Whether `prepare` would take it, as far as the work itself tells: no process has to be started to find out."""
    options = {"keep": object()} if work.sizes.get("dropout") else {}
    try:
        _offered(contestant, "cuda" if " cuda" in contestant else "cpu", work, options)
    except NotOffered:
        return False
    return True
