"""One step of a GPT with a key-value cache."""

from __future__ import annotations

import torch
from torch import Tensor

from reference_numpy import _parameters
from reference_numpy.config import GPTConfig
from reference_numpy.decoding import tokens_so_far
from reference_numpy.gpt import check_ids, gpt_shapes
from torch_impl import _check
from torch_impl.activations import gelu
from torch_impl.attention import attention
from torch_impl.embedding import embedding
from torch_impl.layer_norm import layer_norm
from torch_impl.linear import linear
from torch_impl.self_attention import merge_heads, split_heads

Past = tuple[tuple[Tensor, Tensor], ...]


def gpt_step(
    params: dict[str, Tensor], ids: Tensor, config: GPTConfig, past: Past | None = None
) -> tuple[Tensor, Past]:
    """The logits of further tokens and the keys and values of all tokens so far: what the whole sequence would give

    ids: (..., n) further tokens, at positions t ... t + n - 1; past: (K, V) of every block, (..., H, t, c), or None for
    t = 0; logits: (..., n, vocab_size).

    For generation: nothing is dropped, and `past` is not changed. Whoever generates says what to do when t + n would pass
    context_window.
    Raises as gpt does; ValueError for a past of another shape, and if t + n is above context_window.
    """
    _parameters.check_config("gpt_step", config, GPTConfig)
    _parameters.check_parameters("gpt_step", params, gpt_shapes(config), _check.TORCH)
    check_ids("gpt_step", ids, config.context_window, _check.TORCH)
    t = tokens_so_far(ids, config, past, params["lm_head.bias"], _check.TORCH)
    n = ids.shape[-1]
    X = embedding(ids, params["token_embedding.weight"]) + params["position_embedding.weight"][t : t + n]
    present = []
    for layer in range(config.num_layers):
        block = _parameters.part(params, f"blocks.{layer}")
        N = layer_norm(X, block["norm_1.scale"], block["norm_1.shift"])
        Q, K, V = (
            split_heads(linear(N, block[f"attention.{name}.weight"]), config.num_heads)
            for name in ("query", "key", "value")
        )
        if past is not None:
            K, V = torch.cat([past[layer][0], K], -2), torch.cat([past[layer][1], V], -2)
        present.append((K, V))
        C = attention(Q, K, V, causal=True, query_offset=t)
        X = X + linear(merge_heads(C), block["attention.projection.weight"])
        M = layer_norm(X, block["norm_2.scale"], block["norm_2.shift"])
        inner = gelu(linear(M, block["feed_forward.expand.weight"], block["feed_forward.expand.bias"]))
        X = X + linear(inner, block["feed_forward.contract.weight"], block["feed_forward.contract.bias"])
    N = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    return linear(N, head, params["lm_head.bias"]), tuple(present)
