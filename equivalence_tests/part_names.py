"""The names of the parts that `check` judges beside the ops: those of the reference, and some by which they are known."""

from __future__ import annotations

ALIASES = {
    "temperature": "apply_temperature",
    "repetition_penalty": "penalise",
    "save_checkpoint": "checkpoint",
    "load_checkpoint": "checkpoint",
}
PART_NAMES = (
    "adamw_step",
    "clip_gradients",
    "learning_rate",
    "apply_temperature",
    "top_k",
    "top_p",
    "min_p",
    "penalise",
    "block_ngrams",
    "ban",
    "probabilities",
    "choose",
    "Tokenizer",
    "read_texts",
    "split_texts",
    "TextDataset",
    "batches",
    "inputs_and_targets",
    "gpt_step",
    "generative_rnn_step",
    "generate_ids",
    "generate_tokens",
    "checkpoint",
    "evaluate",
    "perplexity",
    "train_model",
    *ALIASES,
)
