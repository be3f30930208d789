"""The sizes of the two language models. Source 2 has the fields and their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from reference_numpy import _check


def described(default: Any, help: str) -> Any:
    """A dataclass field with a default and the sentence that the command line says of it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT; head_dim times num_heads may differ from embedding_dim.

    Raises TypeError for sizes that are no integers, ValueError for sizes below 1 and a dropout outside [0, 1).
    """

    vocab_size: int
    context_window: int = described(256, "the most tokens that the model sees at once")
    embedding_dim: int = described(384, "width d of the embeddings and of every block")
    num_layers: int = described(6, "blocks")
    num_heads: int = described(6, "attention heads of a block")
    head_dim: int = described(64, "width c of a head")
    ff_factor: int = described(4, "inner width of the feed-forward, in embedding_dim")
    dropout: float = described(0.1, "probability of being dropped, in training")
    tied_head: bool = described(False, "use the token embedding as the head's weight")

    def __post_init__(self) -> None:
        _sizes(self)
        chance = _check.number("GPTConfig", "dropout", self.dropout)
        if not 0.0 <= chance < 1.0:
            raise ValueError(f"GPTConfig: dropout is {chance}, expected a number from 0 to below 1")


@dataclass(frozen=True)
class RNNConfig:
    """The sizes of the Elman network: one width for embeddings and states.

    Raises TypeError for sizes that are no integers, ValueError for sizes below 1.
    """

    vocab_size: int
    embedding_dim: int = described(384, "width of the embeddings and of the state")

    def __post_init__(self) -> None:
        _sizes(self)


def _sizes(config: GPTConfig | RNNConfig) -> None:
    name = type(config).__name__
    for each in fields(config):
        if each.name == "dropout":
            continue
        value = getattr(config, each.name)
        if each.name == "tied_head":
            if not isinstance(value, bool):
                raise TypeError(f"{name}: tied_head is a {type(value).__name__}, expected True or False")
        elif isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: {each.name} is a {type(value).__name__}, expected an integer")
        elif value < 1:
            raise ValueError(f"{name}: {each.name} is {value}, expected at least 1")
