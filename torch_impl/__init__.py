"""The PyTorch twin: the same functions on torch's own primitives, gradients by autograd, on any device.

A function takes tensors of one dtype (float16, bfloat16, float32, float64) on one device and returns Y alone. `fused`
holds the attentions again, in torch's fused kernels.
"""

from torch_impl.activations import gelu, relu, tanh
from torch_impl.attention import AttentionStages, attention, attention_stages
from torch_impl.cross_entropy import cross_entropy
from torch_impl.dropout import dropout
from torch_impl.embedding import embedding
from torch_impl.layer_norm import LayerNorm, layer_norm
from torch_impl.linear import linear
from torch_impl.rnn import rnn
from torch_impl.self_attention import (
    AttentionConfig,
    MultiHeadSelfAttention,
    SelfAttentionHead,
    SelfAttentionV1,
    SelfAttentionV2,
    SimpleSelfAttention,
    multi_head_attention,
    self_attention,
    simple_attention,
)
from torch_impl.softmax import log_softmax, softmax

__all__ = [
    "AttentionConfig",
    "AttentionStages",
    "LayerNorm",
    "MultiHeadSelfAttention",
    "SelfAttentionHead",
    "SelfAttentionV1",
    "SelfAttentionV2",
    "SimpleSelfAttention",
    "attention",
    "attention_stages",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "multi_head_attention",
    "relu",
    "rnn",
    "self_attention",
    "simple_attention",
    "softmax",
    "tanh",
]
