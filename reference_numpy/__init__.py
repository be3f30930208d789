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
from reference_numpy.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.corpus import corpus_path
from reference_numpy.cross_entropy import cross_entropy, cross_entropy_backward
from reference_numpy.dataset import TextDataset, batches, inputs_and_targets, read_texts, split_texts
from reference_numpy.decoding import gpt_step
from reference_numpy.dropout import dropout, dropout_backward
from reference_numpy.embedding import embedding, embedding_backward
from reference_numpy.feed_forward import feed_forward, feed_forward_backward
from reference_numpy.generate import generate_ids, generate_tokens
from reference_numpy.generative_rnn import (
    generative_rnn,
    generative_rnn_backward,
    generative_rnn_loss,
    generative_rnn_loss_backward,
    generative_rnn_step,
    init_rnn,
)
from reference_numpy.gpt import attention_maps, dropout_masks, gpt, gpt_backward, gpt_loss, gpt_loss_backward, init_gpt
from reference_numpy.layer_norm import layer_norm, layer_norm_backward
from reference_numpy.learner import Learner, NumpyLearner
from reference_numpy.linear import linear, linear_backward
from reference_numpy.optimizer import adamw_step, clip_gradients, learning_rate
from reference_numpy.rnn import rnn, rnn_backward
from reference_numpy.sampling import SamplingConfig, choose, probabilities
from reference_numpy.self_attention import (
    multi_head_attention,
    multi_head_attention_backward,
    self_attention,
    self_attention_backward,
    simple_attention,
    simple_attention_backward,
)
from reference_numpy.softmax import log_softmax, log_softmax_backward, softmax, softmax_backward
from reference_numpy.tokenizer import Tokenizer
from reference_numpy.train import TrainingConfig, evaluate, perplexity, train_model
from reference_numpy.transformer_block import transformer_block, transformer_block_backward

__all__ = [
    "AttentionCache",
    "AttentionStages",
    "Checkpoint",
    "GPTConfig",
    "Learner",
    "NumpyLearner",
    "RNNConfig",
    "SamplingConfig",
    "TextDataset",
    "Tokenizer",
    "TrainingConfig",
    "adamw_step",
    "attention",
    "attention_backward",
    "attention_maps",
    "attention_stages",
    "batches",
    "choose",
    "clip_gradients",
    "corpus_path",
    "cross_entropy",
    "cross_entropy_backward",
    "dropout",
    "dropout_backward",
    "dropout_masks",
    "embedding",
    "embedding_backward",
    "evaluate",
    "feed_forward",
    "feed_forward_backward",
    "gelu",
    "gelu_backward",
    "generate_ids",
    "generate_tokens",
    "generative_rnn",
    "generative_rnn_backward",
    "generative_rnn_loss",
    "generative_rnn_loss_backward",
    "generative_rnn_step",
    "gpt",
    "gpt_backward",
    "gpt_loss",
    "gpt_loss_backward",
    "gpt_step",
    "init_gpt",
    "init_rnn",
    "inputs_and_targets",
    "layer_norm",
    "layer_norm_backward",
    "learning_rate",
    "linear",
    "linear_backward",
    "load_checkpoint",
    "log_softmax",
    "log_softmax_backward",
    "multi_head_attention",
    "multi_head_attention_backward",
    "perplexity",
    "probabilities",
    "read_texts",
    "relu",
    "relu_backward",
    "rnn",
    "rnn_backward",
    "save_checkpoint",
    "self_attention",
    "self_attention_backward",
    "simple_attention",
    "simple_attention_backward",
    "softmax",
    "softmax_backward",
    "split_texts",
    "tanh",
    "tanh_backward",
    "train_model",
    "transformer_block",
    "transformer_block_backward",
]
