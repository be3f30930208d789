"""The GPT as a module, and as functions of the flat dict."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from reference_numpy import _parameters
from reference_numpy._check import Array
from reference_numpy.config import GPTConfig
from reference_numpy.gpt import check_ids, gpt_keep_shapes, gpt_shapes, init_gpt
from torch_impl import _check
from torch_impl.cross_entropy import cross_entropy
from torch_impl.dropout import drop
from torch_impl.embedding import embedding
from torch_impl.layer_norm import LayerNorm
from torch_impl.linear import linear
from torch_impl.transformer_block import TransformerBlock


class GPT(nn.Module):
    """logits = head(norm(block_L(... block_1(dropout(token_embedding[ids] + position_embedding[0 .. n-1])))))

    ids: (..., n) integers, n <= context_window; logits: (..., n, vocab_size), logits_t for the token after ids_t.

    Its `state_dict` is the NumPy twin's flat dict, and it begins with the same numbers, `init_gpt` with this seed.
    In training units are dropped: those that `keep` (see `dropout_masks`) says, or else drawn by torch. In evaluation none
    are, and every block's `attention.attn_matrix` holds its map. Source 2.
    """

    def __init__(self, config: GPTConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.position_embedding = nn.Embedding(config.context_window, config.embedding_dim)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.num_layers))
        self.norm = LayerNorm(config.embedding_dim)
        self.lm_head = nn.Linear(config.embedding_dim, config.vocab_size)
        if config.tied_head:
            del self.lm_head.weight  # the token embedding takes its place, and its name does not exist
        if not self.lm_head.bias.is_meta:
            load_parameters(self, init_gpt(config, np.random.default_rng(seed)))

    def forward(self, ids: Tensor, keep: dict[str, Tensor] | None = None) -> Tensor:
        check_ids("GPT", ids, self.config.context_window, _check.TORCH)
        X = embedding(ids, self.token_embedding.weight) + self.position_embedding.weight[: ids.shape[-1]]
        X = drop(self, X, None if keep is None else keep["embedding"], self.config.dropout)
        for layer, block in enumerate(self.blocks):
            X = block(X, None if keep is None else _parameters.part(keep, f"blocks.{layer}"))
        head = self.token_embedding.weight if self.config.tied_head else self.lm_head.weight
        return linear(self.norm(X), head, self.lm_head.bias)


@lru_cache(maxsize=16)
def _skeleton(config: GPTConfig) -> GPT:
    """A GPT without numbers, in training: its parameters come with each call."""
    with torch.device("meta"):
        return GPT(config).train()


def gpt(params: dict[str, Tensor], ids: Tensor, config: GPTConfig, keep: dict[str, Tensor] | None = None) -> Tensor:
    """logits = head(norm(block_L(... block_1(dropout(token_embedding[ids] + position_embedding[0 .. n-1])))))

    ids: (..., n) integers, n <= context_window; logits: (..., n, vocab_size). The module GPT, given its parameters.

    keep: the masks of `dropout_masks`, as tensors; without them nothing is dropped (evaluation). Source 2.
    Raises TypeError for dtypes, ValueError for missing parameters, ids out of range and rows longer than the window.
    """
    _parameters.check_config("gpt", config, GPTConfig)
    _parameters.check_parameters("gpt", params, gpt_shapes(config), _check.TORCH)
    check_ids("gpt", ids, config.context_window, _check.TORCH)
    if keep is None:
        config = replace(config, dropout=0.0)
    else:
        _parameters.check_keep("gpt", keep, gpt_keep_shapes(config, tuple(ids.shape)), _check.TORCH)
    logits: Tensor = functional_call(_skeleton(config), params, (ids, keep), strict=True)
    return logits


def gpt_loss(
    params: dict[str, Tensor],
    ids: Tensor,
    targets: Tensor,
    config: GPTConfig,
    ignore_index: int | None = None,
    keep: dict[str, Tensor] | None = None,
) -> Tensor:
    """loss = cross_entropy(gpt(params, ids), targets)

    ids, targets: (..., n); targets_t is the token after ids_t, or ignore_index (the padding); loss: ().

    The mean is over the counted targets of the whole batch, not over sequences. Source 2.
    Raises as gpt and cross_entropy do.
    """
    return cross_entropy(gpt(params, ids, config, keep), targets, ignore_index)


def load_parameters(module: nn.Module, params: dict[str, Array]) -> None:
    """Give a module the numbers of the NumPy dict, in the dict's dtype. Raises RuntimeError for other keys or shapes."""
    module.to(getattr(torch, next(iter(params.values())).dtype.name))
    module.load_state_dict({name: torch.from_numpy(array) for name, array in params.items()})
