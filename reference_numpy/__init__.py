"""The NumPy twin: every operation with its gradient derived and written by hand.

An operation is a pair: `op(inputs, ...) -> (Y, cache)` and `op_backward(dY, cache) -> gradients`. Both are pure.
"""

from reference_numpy.activations import gelu, gelu_backward, relu, relu_backward, tanh, tanh_backward
from reference_numpy.attention import (
    AttentionCache,
    AttentionStages,
    attention,
    attention_backward,
    attention_stages,
)
from reference_numpy.cross_entropy import cross_entropy, cross_entropy_backward
from reference_numpy.dropout import dropout, dropout_backward
from reference_numpy.embedding import embedding, embedding_backward
from reference_numpy.layer_norm import layer_norm, layer_norm_backward
from reference_numpy.linear import linear, linear_backward
from reference_numpy.rnn import rnn, rnn_backward
from reference_numpy.self_attention import (
    multi_head_attention,
    multi_head_attention_backward,
    self_attention,
    self_attention_backward,
    simple_attention,
    simple_attention_backward,
)
from reference_numpy.softmax import log_softmax, log_softmax_backward, softmax, softmax_backward

__all__ = [
    "AttentionCache",
    "AttentionStages",
    "attention",
    "attention_backward",
    "attention_stages",
    "cross_entropy",
    "cross_entropy_backward",
    "dropout",
    "dropout_backward",
    "embedding",
    "embedding_backward",
    "gelu",
    "gelu_backward",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_backward",
    "log_softmax",
    "log_softmax_backward",
    "multi_head_attention",
    "multi_head_attention_backward",
    "relu",
    "relu_backward",
    "rnn",
    "rnn_backward",
    "self_attention",
    "self_attention_backward",
    "simple_attention",
    "simple_attention_backward",
    "softmax",
    "softmax_backward",
    "tanh",
    "tanh_backward",
]
