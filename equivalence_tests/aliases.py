"""What others call the operands and options of the table, and parameters that follow from an operand's shape."""

from __future__ import annotations

from typing import Any

ALIASES = {
    "attn_mask": "mask",
    "attention_mask": "mask",
    "is_causal": "causal",
    "eps": "epsilon",
    "axes": "axis",
    "dim": "axis",
    "n_heads": "num_heads",
    "n_head": "num_heads",
    "nhead": "num_heads",
    "heads": "num_heads",
    "attn_bias": "bias",
}
OPERAND_ALIASES = {
    "X": ("input", "inputs"),
    "logits": ("input", "inputs", "scores"),
    "targets": ("target", "label", "labels"),
    "ids": ("input", "indices", "idx", "input_ids", "tokens"),
    "weight": ("w", "weights", "table"),
    "bias": ("b",),
    "scale": ("gamma", "weight", "gain", "g", "w"),
    "shift": ("beta", "bias", "b"),
    "Q": ("query", "queries"),
    "K": ("key", "keys"),
    "V": ("value", "values"),
    "Wq": ("w_q", "w_query", "wquery"),
    "Wk": ("w_k", "w_key", "wkey"),
    "Wv": ("w_v", "w_value", "wvalue"),
    "Wo": ("w_o", "w_out", "wout"),
    "W_ih": ("wx", "wxh", "w_xh", "w_x", "weight_ih"),
    "W_hh": ("wh", "whh", "w_h", "weight_hh"),
    "b_ih": ("bias_ih", "bx"),
    "b_hh": ("bias_hh", "bh"),
    "h0": ("hx", "h_0"),
}
# Parameters that no case names: a size of an operand, or its whole shape.
DERIVED: dict[str, tuple[tuple[str, int | None], ...]] = {
    "normalized_shape": (("scale", None),),
    "num_classes": (("logits", -1),),
    "vocab_size": (("weight", 0), ("logits", -1)),
    "num_embeddings": (("weight", 0),),
    "embedding_dim": (("weight", 1),),
    "d_k": (("K", -1),),
    "head_dim": (("K", -1),),
}
# Options that have a value even where a case says nothing of them.
DEFAULTS: dict[str, Any] = {"axis": -1, "epsilon": 1e-5, "causal": False, "query_offset": 0}
CACHES = ("cache", "ctx", "context", "saved", "state", "residuals", "remembered", "tape")
