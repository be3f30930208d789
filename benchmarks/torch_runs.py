"""What the torch contestants run: torch's own primitives, unchecked, with no word from the host to the device between."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import sdpa_kernel

import torch_impl
from benchmarks.torch_contestants import ATTENTIONS, CHUNKED, STEPS
from benchmarks.work import Inputs, OutOfMemory, Prepared, Work
from equivalence_tests.arithmetic import Array
from equivalence_tests.ops import OPS
from reference_numpy.config import GPTConfig
from torch_impl import fused
from torch_impl.self_attention import merge_heads, split_heads
from torch_impl.training_step import BACKENDS, StepSettings, head, states, tf32, training_step

LOSS_ROWS = 512
COPIES = {"copy to device": "cpu", "copy to host": "cuda"}


def prepare(kind: str, work: Work, inputs: Inputs, options: dict[str, Any], device: str) -> Prepared:
    """kind: the contestant's name without "torch" and the device."""
    if work.part in COPIES:
        return Copy(work.part, inputs)
    dtype = torch.bfloat16 if work.dtype == "bfloat16" and work.work not in STEPS else None
    tensors = {name: tensor(X, device, dtype) for name, X in inputs.items()}
    own = {name: on_device(value, device) for name, value in options.items()}
    if work.work in STEPS:
        return Step(kind, work, tensors, own, device)
    if work.work == "generate":
        return Generate(kind, tensors, own, device)
    return OpRun(kind, work, tensors, own, device)


def tensor(X: Array, device: str, dtype: torch.dtype | None = None) -> Tensor:
    made = torch.from_numpy(np.array(X, order="C"))
    return made.to(device, dtype if made.is_floating_point() else None)


def on_device(value: Any, device: str) -> Any:
    if isinstance(value, dict):
        return {name: on_device(each, device) for name, each in value.items()}
    return tensor(value, device) if isinstance(value, np.ndarray) else value


def as_array(value: Tensor) -> Array:
    there = value.detach()
    array: Array = (there.float() if there.dtype == torch.bfloat16 else there).cpu().numpy()
    return array


class Timed:
    """One repetition: the last answers are gone before it begins, and the device is done when it ends."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.answers: dict[str, Tensor] = {}
        self.settings: dict[str, Any] = {"threads": torch.get_num_threads()} if device == "cpu" else {}
        self.peak_bytes: Callable[[], int] | None = None  # the process knows that of the CPU's memory
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self.peak_bytes = torch.cuda.max_memory_allocated

    def compute(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def run(self) -> None:
        self.answers = {}
        try:
            self.answers = self.compute()
            if self.device == "cuda":
                torch.cuda.synchronize()
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(str(error).splitlines()[0]) from None
        except RuntimeError as error:
            if "can't allocate memory" in str(error):
                raise OutOfMemory(str(error).splitlines()[0]) from None
            raise

    def outputs(self) -> dict[str, Array]:
        return {name: as_array(value) for name, value in self.answers.items()}


class Step(Timed):
    """Loss and all gradients, by torch_impl.training_step."""

    def __init__(self, kind: str, work: Work, inputs: dict[str, Tensor], options: dict[str, Any], device: str) -> None:
        super().__init__(device)
        method, config, keep = kind.removesuffix(CHUNKED), options["config"], options.get("keep")
        composed = method == "eager" or keep is not None
        settings = StepSettings(
            attention="composed"
            if composed
            else method.removeprefix("sdpa ")
            if method.startswith("sdpa ")
            else "sdpa",
            loss_rows=LOSS_ROWS if kind.endswith(CHUNKED) else None,
            compiled=method == "compile",
            autocast=work.dtype == "bfloat16",
            precision="tf32" if work.dtype == "tf32" else "highest",
            cuda_graph=method == "graph",
        )
        self.settings |= {name: value for name, value in asdict(settings).items() if value is not None}
        params = {name: X for name, X in inputs.items() if "." in name}
        self.step = training_step(config, params, settings)
        self.arguments = (inputs["ids"], inputs["targets"], keep)

    def compute(self) -> dict[str, Tensor]:
        loss, grads = self.step(*self.arguments)
        return {"loss": loss} | {f"d{name}": each for name, each in grads.items()}


class OpRun(Timed):
    """An op of the table: forward without a graph, backward on a graph that is kept, or both."""

    def __init__(self, kind: str, work: Work, inputs: dict[str, Tensor], options: dict[str, Any], device: str) -> None:
        super().__init__(device)
        self.op, self.part, self.options = OPS[work.work], work.part, options
        given = [f"d{name}" for name in self.op.outputs] if self.op.differentiable else []
        self.upstream = [inputs[name] for name in given]
        operands = {name: X for name, X in inputs.items() if name not in given}
        self.backend = BACKENDS[kind.removeprefix("sdpa ")] if kind.startswith("sdpa ") else None
        self.allowed = work.dtype == "tf32"
        function = function_of(self.op.name, kind, work.dtype, options)
        self.function = torch.compile(function) if kind == "compile" else function
        wanted = [n for n, X in operands.items() if ("." in n if self.op.model else n in self.op.differentiable)]
        if work.part != "forward":
            for name in wanted:
                operands[name].requires_grad_()
        self.leaves = {f"d{name}": operands[name] for name in wanted}
        self.arguments = self.op.arguments(operands)
        self.Ys: tuple[Tensor, ...] = ()
        if work.part == "backward":
            with self._modes():
                self.Ys = self._forward()

    def _modes(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        if self.backend is not None:
            stack.enter_context(sdpa_kernel(self.backend))
        if self.device == "cuda":
            stack.enter_context(tf32(self.allowed))
        return stack

    def _forward(self) -> tuple[Tensor, ...]:
        Y = self.function(*self.arguments, **self.options)
        return Y if isinstance(Y, tuple) else (Y,)

    def compute(self) -> dict[str, Tensor]:
        with self._modes():
            if self.part == "forward":
                with torch.no_grad():
                    return {n: Y for n, Y in zip(self.op.outputs, self._forward(), strict=True) if Y is not None}
            kept = self.part == "backward"
            Ys = self.Ys if kept else self._forward()
            leaves = list(self.leaves.values())
            gradients = torch.autograd.grad(Ys, leaves, self.upstream, retain_graph=kept, materialize_grads=True)
        outputs = {} if kept else dict(zip(self.op.outputs, Ys, strict=True))
        return outputs | dict(zip(self.leaves, gradients, strict=True))


def function_of(op: str, kind: str, dtype: str, options: dict[str, Any]) -> Callable[..., Any]:
    """Torch's primitive for an op; torch_impl's own where it does more: in half precision, with a mask or an offset."""
    narrow = dtype == "bfloat16"
    if op not in ATTENTIONS:
        own = narrow or "ignore_index" in options or op not in PRIMITIVES
        chosen: Callable[..., Any] = getattr(torch_impl, op) if own else PRIMITIVES[op]
        return chosen
    fuses = kind != "eager" and options.get("keep") is None
    if options.keys() - {"causal", "num_heads", "scale"} or (narrow and not fuses):
        whole: Callable[..., Any] = getattr(fused if fuses else torch_impl, op)
        return whole
    attend = _fused if fuses else _composed
    attentions: dict[str, Callable[..., Any]] = {
        "attention": attend,
        "simple_attention": lambda X: attend(X, X, X, scale=1.0),
        "self_attention": lambda X, Wq, Wk, Wv, **how: attend(X @ Wq, X @ Wk, X @ Wv, **how),
        "multi_head_attention": _multi_head(attend),
    }
    return attentions[op]


def _fused(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    if Q.ndim == 4:
        return F.scaled_dot_product_attention(Q, K, V, is_causal=causal, scale=scale)
    lead = math.prod(Q.shape[:-2])  # the fast kernels take four axes
    q, k, v = (X.reshape(lead, 1, *X.shape[-2:]) for X in (Q, K, V))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale).reshape(*Q.shape[:-1], V.shape[-1])


def _composed(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    scaled = (Q * (1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale)) @ K.mT
    if causal:
        n, m = scaled.shape[-2:]
        scaled = scaled + torch.full((n, m), -math.inf, dtype=Q.dtype, device=Q.device).triu(1)
    return torch.softmax(scaled, -1) @ V


def _multi_head(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def multi_head_attention(
        X: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, num_heads: int, **how: Any
    ) -> Tensor:
        Q, K, V = (split_heads(X @ W, num_heads) for W in (Wq, Wk, Wv))
        return merge_heads(attend(Q, K, V, **how)) @ Wo

    return multi_head_attention


def _model(params: dict[str, Tensor], ids: Tensor, config: Any, keep: dict[str, Tensor] | None = None) -> Tensor:
    return F.linear(states(params, ids, config, keep, "composed"), *head(params, config))


def _loss(params: dict[str, Tensor], ids: Tensor, targets: Tensor, config: Any) -> Tensor:
    return F.cross_entropy(_model(params, ids, config).flatten(0, -2), targets.flatten())


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


PRIMITIVES: dict[str, Callable[..., Any]] = {
    "softmax": lambda X, axis=-1: torch.softmax(X, axis),
    "log_softmax": lambda X, axis=-1: torch.log_softmax(X, axis),
    "layer_norm": lambda X, scale, shift, epsilon=1e-5: F.layer_norm(X, scale.shape, scale, shift, epsilon),
    "linear": F.linear,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": lambda X: F.gelu(X, approximate="tanh"),
    "embedding": F.embedding,
    "dropout": lambda X, keep, p: torch.where(keep, X / (1.0 - p), 0.0),
    "cross_entropy": _cross_entropy,
    "gpt": _model,
    "generative_rnn": _model,
    "gpt_loss": _loss,
    "generative_rnn_loss": _loss,
}


class Generate(Timed):
    """Tokens one after the other, each the one of the largest logit."""

    def __init__(self, kind: str, inputs: dict[str, Tensor], options: dict[str, Any], device: str) -> None:
        super().__init__(device)
        self.params = {name: X for name, X in inputs.items() if "." in name}
        self.prompt, self.options = inputs["ids"], options
        self.attention = "composed" if kind == "eager" else "sdpa"

    @torch.no_grad()
    def compute(self) -> dict[str, Tensor]:
        config: GPTConfig = self.options["config"]
        ids, past, added = self.prompt, None, []
        for _ in range(self.options["tokens"]):
            if self.options["cache"]:
                logits, past = torch_impl.gpt_step(self.params, ids, config, past)
                last = logits[:, -1]
            else:  # the head reads the last token alone
                last = F.linear(
                    states(self.params, ids, config, None, self.attention)[:, -1], *head(self.params, config)
                )
            added.append(last.argmax(-1, keepdim=True))
            ids = added[-1] if self.options["cache"] else torch.cat([ids, added[-1]], 1)
        return {"ids": torch.cat(added, 1), "logits": last}


class Copy(Timed):
    """All arrays of a work, to the device or back, from ordinary memory."""

    def __init__(self, part: str, inputs: Inputs) -> None:
        super().__init__("cuda")
        self.to = "cuda" if part == "copy to device" else "cpu"
        self.tensors = {name: tensor(X, COPIES[part]) for name, X in inputs.items()}

    def compute(self) -> dict[str, Tensor]:
        return {name: X.to(self.to) for name, X in self.tensors.items()}
