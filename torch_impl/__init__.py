"""The PyTorch twin: the same functions on torch's own primitives, gradients by autograd, on any device.

A function takes tensors of one dtype (float16, bfloat16, float32, float64) on one device and returns Y alone. `fused`
holds the attentions again, in torch's fused kernels. What knows no framework (text, training, sampling, checkpoints) is
the NumPy twin's, by the same names.
"""

from reference_numpy.checkpoint import load_checkpoint, save_checkpoint
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.dataset import TextDataset
from reference_numpy.generate import generate_tokens
from reference_numpy.tokenizer import Tokenizer
from reference_numpy.train import TrainingConfig, train_model
from torch_impl.activations import gelu, relu, tanh
from torch_impl.attention import AttentionStages, attention, attention_stages
from torch_impl.chunked_cross_entropy import chunked_cross_entropy
from torch_impl.cross_entropy import cross_entropy
from torch_impl.decoding import gpt_step
from torch_impl.dropout import dropout
from torch_impl.embedding import embedding
from torch_impl.feed_forward import FeedForward
from torch_impl.generative_rnn import GenerativeRNN, generative_rnn, generative_rnn_loss, generative_rnn_step
from torch_impl.gpt import GPT, gpt, gpt_loss
from torch_impl.layer_norm import LayerNorm, layer_norm
from torch_impl.learner import TorchLearner
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
from torch_impl.training_step import StepSettings, training_step
from torch_impl.transformer_block import TransformerBlock

__all__ = [
    "GPT",
    "AttentionConfig",
    "AttentionStages",
    "FeedForward",
    "GPTConfig",
    "GenerativeRNN",
    "LayerNorm",
    "MultiHeadSelfAttention",
    "RNNConfig",
    "SelfAttentionHead",
    "SelfAttentionV1",
    "SelfAttentionV2",
    "SimpleSelfAttention",
    "StepSettings",
    "TextDataset",
    "Tokenizer",
    "TorchLearner",
    "TrainingConfig",
    "TransformerBlock",
    "attention",
    "attention_stages",
    "chunked_cross_entropy",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "generate_tokens",
    "generative_rnn",
    "generative_rnn_loss",
    "generative_rnn_step",
    "gpt",
    "gpt_loss",
    "gpt_step",
    "layer_norm",
    "linear",
    "load_checkpoint",
    "log_softmax",
    "multi_head_attention",
    "relu",
    "rnn",
    "save_checkpoint",
    "self_attention",
    "simple_attention",
    "softmax",
    "tanh",
    "train_model",
    "training_step",
]
