"""The language models over numbers of hundreds of digits, from the equations alone; `many_digits` knows them by name.

Parameters come as keywords by their names in the flat dict, as in the operands of a case.
"""

from __future__ import annotations

from typing import Any

from equivalence_tests import many_digits as exact
from equivalence_tests.many_digits import Booleans, Exact, Integers
from reference_numpy.config import GPTConfig, RNNConfig

Params = dict[str, Exact]


def gpt(*, ids: Integers, config: GPTConfig, keep: dict[str, Booleans] | None = None, **params: Exact) -> Exact:
    """logits = head(norm(block_L(... block_1(dropout(token_embedding[ids] + position_embedding[t])))))"""
    drops: dict[str, Any] = {} if keep is None else keep
    p = 0.0 if keep is None else config.dropout
    tokens = params["token_embedding.weight"]
    X = exact.embedding(ids, tokens) + params["position_embedding.weight"][: ids.shape[-1]]
    X = exact.dropout(X, drops.get("embedding"), p)
    for layer in range(config.num_layers):
        X = _block(X, params, f"blocks.{layer}", config, drops, p)
    N = exact.layer_norm(X, params["norm.scale"], params["norm.shift"])
    return exact.linear(N, tokens if config.tied_head else params["lm_head.weight"], params["lm_head.bias"])


def _block(X: Exact, params: Params, name: str, config: GPTConfig, drops: dict[str, Any], p: float) -> Exact:
    """Z = X + attention(norm_1(X));  Y = Z + feed_forward(norm_2(Z))"""

    def of(part: str) -> Exact:
        return params[f"{name}.{part}"]

    N = exact.layer_norm(X, of("norm_1.scale"), of("norm_1.shift"))
    Wq, Wk, Wv, Wo = (of(f"attention.{part}.weight").T for part in ("query", "key", "value", "projection"))
    options: dict[str, Any] = {"causal": True, "keep": drops.get(f"{name}.attention"), "p": p}
    Z = X + exact.multi_head_attention(N, Wq, Wk, Wv, Wo, config.num_heads, **options)
    M = exact.layer_norm(Z, of("norm_2.scale"), of("norm_2.shift"))
    inner = exact.gelu(exact.linear(M, of("feed_forward.expand.weight"), of("feed_forward.expand.bias")))
    outer = exact.linear(inner, of("feed_forward.contract.weight"), of("feed_forward.contract.bias"))
    Y: Exact = Z + exact.dropout(outer, drops.get(f"{name}.feed_forward"), p)
    return Y


def gpt_loss(*, targets: Integers, ignore_index: int | None = None, **model: Any) -> Exact:
    """loss = cross_entropy(gpt(...), targets)"""
    return exact.cross_entropy(gpt(**model), targets, ignore_index)


def generative_rnn(*, ids: Integers, config: RNNConfig, **params: Exact) -> Exact:
    """logits_t = C h_t + e,  h_t = tanh(A emb(ids_t) + a + B h_{t-1} + b),  h_0 = 0"""
    recurrent = (params[f"rnn.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    H, _ = exact.rnn(exact.embedding(ids, params["embedding.weight"]), *recurrent)
    return exact.linear(H, params["lm_head.weight"], params["lm_head.bias"])


def generative_rnn_loss(*, targets: Integers, ignore_index: int | None = None, **model: Any) -> Exact:
    """loss = cross_entropy(generative_rnn(...), targets)"""
    return exact.cross_entropy(generative_rnn(**model), targets, ignore_index)


exact.FORWARDS.update({each.__name__: each for each in (gpt, gpt_loss, generative_rnn, generative_rnn_loss)})
