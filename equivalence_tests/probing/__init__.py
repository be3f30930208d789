"""Which conventions an implementation follows, each with the input that decided it."""

from __future__ import annotations

import contextlib
import inspect
import io
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from equivalence_tests.loading import nearest
from equivalence_tests.probing.activations import probe_gelu, probe_softmax
from equivalence_tests.probing.attention import Attention
from equivalence_tests.probing.convention import Convention
from equivalence_tests.probing.cross_entropy import probe_cross_entropy
from equivalence_tests.probing.dropout import probe_attention_dropout, probe_dropout
from equivalence_tests.probing.embedding import probe_embedding
from equivalence_tests.probing.gpt import probe_gpt
from equivalence_tests.probing.guess import guess
from equivalence_tests.probing.heads import probe_heads
from equivalence_tests.probing.layer_norm import probe_layer_norm
from equivalence_tests.probing.masks import probe_masks
from equivalence_tests.probing.optimizer import probe_optimizer
from equivalence_tests.probing.rnn import probe_rnn
from equivalence_tests.probing.scores import probe_scores
from equivalence_tests.probing.subject import Refused, guarded, is_module
from equivalence_tests.signatures import signature_of

__all__ = ["PROBES", "Convention", "probe"]


def _probe_attention(function: Any) -> list[Convention]:
    """Layouts, scale, causality, masks, dropout, precision of a function of (Q, K, V)."""
    subject = Attention(function)
    if not subject.conventions[0].told:
        return subject.conventions
    found = probe_scores(subject)
    scale = next((each.numbers["s"] for each in found if each.name == "scale" and "s" in each.numbers), 1.0)
    return [*found, *probe_masks(subject, scale), *probe_attention_dropout(subject)]


PROBES: dict[str, Callable[[Any], list[Convention]]] = {
    "attention": _probe_attention,
    "self_attention": probe_heads,
    "multi_head_attention": probe_heads,
    "layer_norm": probe_layer_norm,
    "softmax": probe_softmax,
    "log_softmax": probe_softmax,
    "gelu": probe_gelu,
    "cross_entropy": probe_cross_entropy,
    "embedding": probe_embedding,
    "dropout": probe_dropout,
    "rnn": probe_rnn,
    "gpt": probe_gpt,
    "optimizer": probe_optimizer,
}


def probe(function: Any, like: str | None = None) -> list[Convention]:
    """The conventions that a function, module, module's class, optimizer's class or factory without arguments follows.

    `like` is one of PROBES, guessed from names if it is None. What a candidate refuses is an answer; its parameters, its
    mode and the random state are as before in the end, and what it prints is not shown.

    Raises ValueError, one line, if `like` is no such op or cannot be guessed, and if no call of the op is answered.
    """
    if like is not None and like not in PROBES:
        raise ValueError(f"like: {like!r} came, {nearest(like, PROBES)}")
    label = getattr(function, "__name__", type(function).__name__)
    with contextlib.redirect_stdout(io.StringIO()), _as_before(), np.errstate(all="ignore"):
        try:
            candidate = _made(function)
            op = like or guess(candidate) or guess(function)
            if op is None:
                raise ValueError(f"like: {label} could be like any op, expected one of {', '.join(PROBES)}")
            with _untouched(candidate):
                return PROBES[op](candidate)
        except Refused as refused:
            raise ValueError(f"{label} answers no call of {like or guess(function) or 'its op'}: {refused}") from None


SIZES = {
    **dict.fromkeys(("d", "embed_dim", "d_model", "embedding_dim", "d_in", "dim", "n_embd", "hidden_dim"), 8),
    **dict.fromkeys(("normalized_shape", "features", "num_features", "embed_size", "c", "d_out", "head_dim"), 8),
    **dict.fromkeys(("num_heads", "nhead", "n_heads", "n_head", "heads"), 2),
    **dict.fromkeys(("input_size", "num_embeddings"), 3),
    **dict.fromkeys(("hidden_size", "hidden", "vocab_size"), 5),
    **dict.fromkeys(("context_length", "block_size", "context_window"), 6),
    "dropout": 0.0,
    "qkv_bias": False,
}


def _made(function: Any) -> Any:
    """What is called: a small instance of a class whose instances can be called, `apply` of an autograd.Function, what a
    factory without arguments gives, and anything else as it is."""
    torch = sys.modules.get("torch")
    if isinstance(function, type):
        if torch is not None and issubclass(function, torch.autograd.Function):
            return _applied(function)
        if not any("__call__" in vars(base) for base in function.__mro__):
            return function  # an optimizer's
    signature = None if is_module(function) else signature_of(function)
    if signature is None:
        return function
    if isinstance(function, type):
        needed = [name for name, parameter in signature.parameters.items() if _required(parameter)]
        unknown = [name for name in needed if name not in SIZES]
        if unknown:
            raise ValueError(
                f"{function.__name__} needs {unknown[0]!r}, expected an instance or a factory without arguments"
            )
        return guarded(function, **{name: SIZES[name] for name in needed})
    if not signature.parameters:
        made = guarded(function)
        if not callable(made):
            raise ValueError(f"the factory gives a {type(made).__name__}, expected a function or a module")
        return made
    return function


def _applied(function: Any) -> Callable[..., Any]:
    """`apply`, which takes no keywords, with the signature of the forward."""
    parameters = list(inspect.signature(function.forward).parameters.values())
    own = inspect.Signature(parameters if "setup_context" in vars(function) else parameters[1:])

    def apply(*positional: Any, **keywords: Any) -> Any:
        given = own.bind(*positional, **keywords)
        given.apply_defaults()
        return function.apply(*given.args, *given.kwargs.values())

    apply.__signature__ = own  # type: ignore[attr-defined]
    apply.__name__ = function.__name__
    return apply


def _required(parameter: inspect.Parameter) -> bool:
    variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not variadic


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """The same random numbers in each run, and the caller's random state afterwards."""
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch.get_rng_state() if torch is not None else None  # noqa: NPY002
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (a candidate may draw from it)
    if torch is not None:
        torch.manual_seed(0)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(states[2])


@contextlib.contextmanager
def _untouched(candidate: Any) -> Iterator[None]:
    """A module's parameters, buffers and modes as they were."""
    if not is_module(candidate):
        yield
        return
    values = {name: value.clone() for name, value in candidate.state_dict().items()}
    modes = [(module, module.training) for module in candidate.modules()]
    try:
        yield
    finally:
        candidate.load_state_dict(values)
        for module, mode in modes:
            module.training = mode
