"""A training step, loss and all gradients, as fast as torch can do it: one dataclass of settings, one function.

It computes what `gpt_loss` and `generative_rnn_loss` do, but looks at shapes alone: whether ids are in range is a number on
the device, and to read it would make the host wait. An id out of range is torch's own error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from reference_numpy import _parameters
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import RECURRENT, rnn_shapes
from reference_numpy.gpt import gpt_keep_shapes, gpt_shapes
from torch_impl import _check
from torch_impl.chunked_cross_entropy import chunked_cross_entropy
from torch_impl.rnn import rnn
from torch_impl.self_attention import merge_heads, split_heads

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
ONLY_CUDA = ("efficient", "cudnn")
Params = dict[str, Tensor]
Keep = dict[str, Tensor]
Step = Callable[..., tuple[Tensor, Params]]


@dataclass(frozen=True)
class StepSettings:
    """How a training step is computed. The numbers are the same within the error budget, but for autocast and tf32."""

    attention: str = (
        "sdpa"  # "composed" of products and a softmax; "sdpa", whose backend torch chooses; or one of BACKENDS
    )
    loss_rows: int | None = None  # the tokens whose logits exist at a time; None: the logits whole
    compiled: bool = False  # torch.compile; the first step, and the second shape, takes long
    autocast: bool = False  # products in bfloat16
    precision: str = "highest"  # or "tf32": products in TensorFloat-32, CUDA alone
    cuda_graph: bool = False  # the whole step recorded once for every shape and played, CUDA alone

    def __post_init__(self) -> None:
        if self.attention not in ("composed", "sdpa", *BACKENDS):
            expected = ", ".join(("composed", "sdpa", *BACKENDS))
            raise ValueError(f"StepSettings: attention is {self.attention!r}, expected one of {expected}")
        if self.precision not in ("highest", "tf32"):
            raise ValueError(f"StepSettings: precision is {self.precision!r}, expected highest or tf32")
        if self.loss_rows is not None and self.loss_rows < 1:
            raise ValueError(f"StepSettings: loss_rows is {self.loss_rows}, expected None or at least 1")


def training_step(
    config: GPTConfig | RNNConfig,
    params: Params,
    settings: StepSettings | None = None,
    ignore_index: int | None = None,
) -> Step:
    """step(ids, targets, keep=None) -> (loss, grads), grads by the names of `params`

    ids, targets: (..., n); keep: the masks of `dropout_masks`, of a GPT; loss: (). The parameters are read at every call:
    an optimizer may change them in place; their `grad` is not touched. With cuda_graph what a call returns is overwritten
    by the next.
    Raises TypeError for dtypes, ValueError for missing parameters, for settings that need CUDA where the parameters
    are not there, and in a call for shapes, and for keep with an attention of torch's own kernels.
    """
    settings = settings or StepSettings()
    device = _checked(config, params, settings)
    leaves = {name: each.detach().requires_grad_() for name, each in params.items()}
    ignored = -100 if ignore_index is None else ignore_index

    def plain(ids: Tensor, targets: Tensor, keep: Keep | None) -> Tensor:
        X = states(leaves, ids, config, keep, settings.attention)
        logits = F.linear(X, *head(leaves, config)).flatten(0, -2)
        return F.cross_entropy(logits, targets.flatten(), ignore_index=ignored)

    def chunked(ids: Tensor, targets: Tensor, keep: Keep | None) -> Tensor:
        X = states_of(leaves, ids, config, keep, settings.attention)
        return chunked_cross_entropy(X, *head(leaves, config), targets, ignored, settings.loss_rows or 1)

    states_of = torch.compile(states) if settings.compiled else states  # the loop over chunks stays outside
    whole = torch.compile(plain) if settings.compiled else plain
    loss_function = whole if settings.loss_rows is None else chunked

    def both(ids: Tensor, targets: Tensor, keep: Keep | None) -> tuple[Tensor, Params]:
        with _modes(settings, device), torch.enable_grad():
            loss = loss_function(ids, targets, keep)
        with _modes(replace(settings, autocast=False), device):
            gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    run = _Recorded(both) if settings.cuda_graph else both

    def step(ids: Tensor, targets: Tensor, keep: Keep | None = None) -> tuple[Tensor, Params]:
        return run(*_in_rows(ids, targets, keep, config, settings))

    return step


def states(params: Params, ids: Tensor, config: GPTConfig | RNNConfig, keep: Keep | None, attention: str) -> Tensor:
    """X, what the head reads: (B, n, d) of ids (B, n). Nothing is checked."""
    if isinstance(config, RNNConfig):
        W_ih, W_hh, b_ih, b_hh = (params[f"rnn.{name}_l0"] for name in RECURRENT)
        return rnn(F.embedding(ids, params["embedding.weight"]), W_ih, W_hh, b_ih, b_hh)[0]
    n, p = ids.shape[-1], config.dropout
    X = F.embedding(ids, params["token_embedding.weight"]) + params["position_embedding.weight"][:n]
    X = _drop(X, keep, "embedding", p)
    future = _future(n, X) if attention == "composed" else None
    for layer in range(config.num_layers):
        block = f"blocks.{layer}"
        X = X + _attention(_norm(X, params, f"{block}.norm_1"), params, block, config, keep, future)
        X = X + _drop(
            _feed_forward(_norm(X, params, f"{block}.norm_2"), params, block), keep, f"{block}.feed_forward", p
        )
    return _norm(X, params, "norm")


def head(params: Params, config: GPTConfig | RNNConfig) -> tuple[Tensor, Tensor]:
    tied = isinstance(config, GPTConfig) and config.tied_head
    return params["token_embedding.weight" if tied else "lm_head.weight"], params["lm_head.bias"]


def _attention(
    X: Tensor, params: Params, block: str, config: GPTConfig, keep: Keep | None, future: Tensor | None
) -> Tensor:
    Q, K, V = (
        split_heads(F.linear(X, params[f"{block}.attention.{name}.weight"]), config.num_heads)
        for name in ("query", "key", "value")
    )  # (B, H, n, c)
    if future is None:
        C = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    else:
        scaled = (Q * (1.0 / math.sqrt(config.head_dim))) @ K.mT
        A = torch.softmax(scaled + future, -1)
        C = _drop(A, keep, f"{block}.attention", config.dropout) @ V
    return F.linear(merge_heads(C), params[f"{block}.attention.projection.weight"])


def _future(n: int, X: Tensor) -> Tensor:
    """-inf where a key lies ahead, else 0: cheaper to add than to select by."""
    return torch.full((n, n), -math.inf, dtype=X.dtype, device=X.device).triu(1)


def _norm(X: Tensor, params: Params, name: str) -> Tensor:
    scale = params[f"{name}.scale"]
    return F.layer_norm(X, scale.shape, scale, params[f"{name}.shift"])


def _feed_forward(X: Tensor, params: Params, block: str) -> Tensor:
    part = f"{block}.feed_forward"
    inner = F.linear(X, params[f"{part}.expand.weight"], params[f"{part}.expand.bias"])
    return F.linear(
        F.gelu(inner, approximate="tanh"), params[f"{part}.contract.weight"], params[f"{part}.contract.bias"]
    )


def _drop(X: Tensor, keep: Keep | None, name: str, p: float) -> Tensor:
    return X if keep is None else torch.where(keep[name], X / (1.0 - p), 0.0)


def _checked(config: GPTConfig | RNNConfig, params: Params, settings: StepSettings) -> torch.device:
    op = "training_step"
    if not isinstance(config, RNNConfig):
        _parameters.check_config(op, config, GPTConfig)
    shapes = gpt_shapes(config) if isinstance(config, GPTConfig) else rnn_shapes(config)
    _parameters.check_parameters(op, params, shapes, _check.TORCH)
    _check.same_device(op, **{f"params[{name}]": each for name, each in params.items()})
    first = next(iter(params.values()))
    if first.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{op}: the parameters are {_name(first)}, expected float32 or float64 (autocast narrows products)"
        )
    if settings.autocast and first.dtype != torch.float32:
        raise TypeError(f"{op}: the parameters are {_name(first)}, expected float32 with autocast")
    if first.device.type != "cuda":
        asked = {
            f"attention={settings.attention!r}": settings.attention in ONLY_CUDA,
            "precision='tf32'": settings.precision == "tf32",
            "cuda_graph=True": settings.cuda_graph,
        }
        for setting, is_asked in asked.items():
            if is_asked:
                raise ValueError(f"{op}: {setting} needs CUDA, but the parameters are on {first.device}")
    return first.device


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _in_rows(
    ids: Tensor, targets: Tensor, keep: Keep | None, config: GPTConfig | RNNConfig, settings: StepSettings
) -> tuple[Tensor, Tensor, Keep | None]:
    """ids and targets as (B, n), of int64, and the masks with one leading axis. Shapes are all that is looked at."""
    op = "training_step"
    if ids.ndim == 0 or ids.shape != targets.shape or ids.numel() == 0:
        raise ValueError(
            f"{op}: ids has shape {tuple(ids.shape)}, targets {tuple(targets.shape)}, expected (..., n) of both"
        )
    rows = ids.long().reshape(-1, ids.shape[-1]), targets.long().reshape(-1, ids.shape[-1])
    if isinstance(config, GPTConfig) and ids.shape[-1] > config.context_window:
        raise ValueError(f"{op}: ids has {ids.shape[-1]} tokens, expected at most {config.context_window}")
    if keep is None:
        return *rows, None
    if isinstance(config, RNNConfig) or settings.attention != "composed":
        raise ValueError(f"{op}: keep was given, expected none but for a GPT with attention='composed'")
    _parameters.check_keep(op, keep, gpt_keep_shapes(config, tuple(ids.shape)), _check.TORCH)
    lead = ids.ndim - 1
    return *rows, {name: mask.reshape(-1, *mask.shape[lead:]) for name, mask in keep.items()}


@contextmanager
def _modes(settings: StepSettings, device: torch.device) -> Iterator[None]:
    """What torch keeps in global switches: set for this step alone."""
    with ExitStack() as stack:
        if settings.attention in BACKENDS:
            stack.enter_context(sdpa_kernel(BACKENDS[settings.attention]))
        if settings.autocast:
            stack.enter_context(torch.autocast(device.type, torch.bfloat16, cache_enabled=not settings.cuda_graph))
        if device.type == "cuda":
            stack.enter_context(tf32(settings.precision == "tf32"))
        yield


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether CUDA's products may round their operands to TensorFloat-32: cuDNN's do, unless they are told not to."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


class _Recorded:
    """A function of tensors as a CUDA graph, recorded at the first call of each shape."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.graphs: dict[Any, tuple[Any, list[Tensor], Any]] = {}

    def __call__(self, ids: Tensor, targets: Tensor, keep: Keep | None) -> Any:
        given = [ids, targets, *(keep or {}).values()]
        key = tuple(tuple(each.shape) for each in given)
        if key not in self.graphs:
            self.graphs[key] = self._record(ids, targets, keep)
        graph, inputs, outputs = self.graphs[key]
        for old, new in zip(inputs, given, strict=True):
            old.copy_(new)
        graph.replay()
        return outputs

    def _record(self, ids: Tensor, targets: Tensor, keep: Keep | None) -> tuple[Any, list[Tensor], Any]:
        own_keep = None if keep is None else {name: mask.clone() for name, mask in keep.items()}
        arguments = (ids.clone(), targets.clone(), own_keep)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries set themselves up, and compiled code compiles, outside of the graph
            for _ in range(3):
                self.function(*arguments)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self.function(*arguments)
        return graph, [*arguments[:2], *(own_keep or {}).values()], outputs
