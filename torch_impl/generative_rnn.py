"""The Elman language model as a module, and as functions of the flat dict."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from reference_numpy import _parameters
from reference_numpy.config import RNNConfig
from reference_numpy.generative_rnn import RECURRENT, init_rnn, rnn_shapes
from reference_numpy.gpt import check_ids
from torch_impl import _check
from torch_impl.cross_entropy import cross_entropy
from torch_impl.embedding import embedding
from torch_impl.gpt import load_parameters
from torch_impl.linear import linear
from torch_impl.rnn import rnn


class GenerativeRNN(nn.Module):
    """logits_t = C h_t + e,  h_t = tanh(A emb(ids_t) + B h_{t-1} + d),  h_0 = 0

    ids: (..., n) integers; logits: (..., n, vocab_size), logits_t for the token after ids_t.

    Its `state_dict` is the NumPy twin's flat dict, and it begins with the same numbers, `init_rnn` with this
    seed. Source 2.
    """

    def __init__(self, config: RNNConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.rnn = nn.RNN(config.embedding_dim, config.embedding_dim, batch_first=True)
        self.lm_head = nn.Linear(config.embedding_dim, config.vocab_size)
        if not self.lm_head.bias.is_meta:
            load_parameters(self, init_rnn(config, np.random.default_rng(seed)))

    def forward(self, ids: Tensor) -> Tensor:
        check_ids("GenerativeRNN", ids, None, _check.TORCH)
        return _from_state(dict(self.named_parameters()), ids, None)[0]


def generative_rnn(params: dict[str, Tensor], ids: Tensor, config: RNNConfig) -> Tensor:
    """logits_t = C h_t + e,  h_t = tanh(A emb(ids_t) + B h_{t-1} + d),  h_0 = 0

    ids: (..., n) integers; logits: (..., n, vocab_size), logits_t for the token after ids_t. Source 2.

    Raises TypeError for dtypes, ValueError for missing parameters and ids out of range.
    """
    _parameters.check_config("generative_rnn", config, RNNConfig)
    _parameters.check_parameters("generative_rnn", params, rnn_shapes(config), _check.TORCH)
    check_ids("generative_rnn", ids, None, _check.TORCH)
    return _from_state(params, ids, None)[0]


def generative_rnn_loss(
    params: dict[str, Tensor], ids: Tensor, targets: Tensor, config: RNNConfig, ignore_index: int | None = None
) -> Tensor:
    """loss = cross_entropy(generative_rnn(params, ids), targets)

    ids, targets: (..., n); targets_t is the token after ids_t, or ignore_index (the padding); loss: ().

    The mean is over the counted targets of the whole batch, not over sequences. Source 2.
    Raises as generative_rnn and cross_entropy do.
    """
    return cross_entropy(generative_rnn(params, ids, config), targets, ignore_index)


def generative_rnn_step(
    params: dict[str, Tensor], ids: Tensor, config: RNNConfig, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The logits of further tokens and the state behind them: what the whole sequence would give

    ids: (..., n), past: (..., d), the state behind the tokens before (None: there are none); logits: (..., n, vocab_size).

    For generation. Raises as generative_rnn does.
    """
    _parameters.check_config("generative_rnn_step", config, RNNConfig)
    _parameters.check_parameters("generative_rnn_step", params, rnn_shapes(config), _check.TORCH)
    check_ids("generative_rnn_step", ids, None, _check.TORCH)
    return _from_state(params, ids, past)


def _from_state(params: dict[str, Tensor], ids: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    X = embedding(ids, params["embedding.weight"])
    W_ih, W_hh, b_ih, b_hh = (params[f"rnn.{name}_l0"] for name in RECURRENT)
    H, last = rnn(X, W_ih, W_hh, b_ih, b_hh, state)
    return linear(H, params["lm_head.weight"], params["lm_head.bias"]), last
