"""Which op a function is like, by its name and by what its parameters are called."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from equivalence_tests.probing.heads import role_of
from equivalence_tests.probing.subject import is_module
from equivalence_tests.signatures import signature_of

BY_NAME = (
    ("optimizer", r"adam|optimi|sgd|^step$"),
    ("layer_norm", r"norm|^ln"),
    ("multi_head_attention", r"multi_?head|^mha|heads"),
    ("self_attention", r"self_?att"),
    ("attention", r"attention|attend|attn|sdpa"),
    ("gelu", r"gelu|silu|activation"),
    ("cross_entropy", r"cross_?entropy|nll|^ce$|_ce$|loss|xent"),
    ("gpt", r"gpt|lm_?head|transformer|encoder_?layer|decoder_?layer|block|llama|bert"),
    ("softmax", r"softmax"),
    ("embedding", r"embed"),
    ("dropout", r"drop"),
    ("rnn", r"rnn|elman"),
)
BY_PARAMETERS = (
    ("attention", ({"q", "k", "v"}, {"query", "key", "value"}, {"queries", "keys", "values"})),
    ("multi_head_attention", ({"x", "wq", "wk", "wv", "wo"},)),
    ("self_attention", ({"x", "wq", "wk", "wv"}, {"x", "w_q", "w_k", "w_v"})),
    ("optimizer", ({"params", "grads"}, {"w", "dw"})),
    ("cross_entropy", ({"logits", "targets"}, {"logits", "labels"}, {"probs", "y"}, {"logits", "y"})),
    ("layer_norm", ({"gamma", "beta"}, {"scale", "shift"})),
    ("rnn", ({"w_ih", "w_hh"}, {"wxh", "whh"}, {"wx", "wh"})),
    ("embedding", ({"ids", "weight"}, {"idx", "w"}, {"ids", "table"})),
    ("gpt", ({"params", "ids", "config"},)),
)


def guess(function: Any) -> str | None:
    """The op, or None. Parameters tell more than a name: they come first, but for a module's."""
    function = function.func if isinstance(function, partial) else function
    name = type(function).__name__ if is_module(function) else getattr(function, "__name__", type(function).__name__)
    signature = None if is_module(function) or isinstance(function, type) else signature_of(function)
    names = {each.lower() for each in signature.parameters} if signature else set()
    for op, sets in BY_PARAMETERS:
        if any(each <= names for each in sets):
            return op
    spelt = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    for op, pattern in BY_NAME:
        if re.search(pattern, spelt):
            if op == "attention" and is_module(function) and list(function.parameters()):
                return "multi_head_attention"
            return op
    if is_module(function) and {"q", "k", "v"} <= {role_of(name, (1, 1)) for name, _ in function.named_parameters()}:
        return "multi_head_attention"
    return None
