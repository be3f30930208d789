"""The counted work of one run: floating-point operations, bytes that must move at least, tokens."""

from __future__ import annotations

from benchmarks.rows import Sizes
from benchmarks.work import Work

BACKWARD = {"forward": 1.0, "backward": 2.0, "forward+backward": 3.0, "step": 3.0}
STORED, RECOMPUTED = 2.0, 2.5  # an attention's backward, in forwards: with A kept, or made again
ITEM = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2}


def matrix_parameters(sizes: Sizes) -> float:
    """Parameters that enter a matrix product: of a model the head does, the embeddings do not."""
    d, v = sizes["d"], sizes["v"]
    if "L" not in sizes:
        return 2 * d * d + v * d
    return sizes["L"] * (4 * d * sizes["H"] * sizes["c"] + 8 * d * d) + v * d


def tokens_of(work: Work) -> int | None:
    if work.work == "generate":
        return int(work.sizes["B"] * work.extra["tokens"])
    if work.part == "step" or work.work in ("gpt", "gpt_loss", "generative_rnn", "generative_rnn_loss"):
        return int(work.sizes["B"] * work.sizes["n"])
    return None


def flops_of(work: Work) -> float | None:
    """As the rules count: a product 2 N in out, its backward twice that; attention 4 B H n m c, half of it if causal, its
    backward 2 forwards (A is stored); a step per token 6 N + 6 L d n. None where only memory is moved."""
    s, times = work.sizes, BACKWARD.get(work.part, 0.0)
    if work.work == "gemm":
        return 2.0 * s["n"] ** 3
    if work.work == "gemv":
        return 2.0 * s["n"] * s["d"]
    if work.part.startswith("copy") or work.work in ("copy", "embedding", "relu", "dropout"):
        return None
    if work.work == "generate":
        count = work.extra["tokens"]
        return 2.0 * matrix_parameters(s) * s["B"] * count if work.extra["cache"] else None
    causal = 0.5 if work.extra.get("causal", True) else 1.0
    rows = s.get("B", 1) * s.get("n", 1)
    if "v" in s and "d" in s:
        attending = 2.0 * s["L"] * s["H"] * s["c"] * s["n"] if "L" in s else 0.0  # causal: half of 4 L d n
        return times * rows * (2.0 * matrix_parameters(s) + attending)
    if work.work == "linear":
        return times * 2.0 * rows * s["d"] * s["k"]
    if work.work == "rnn":
        return times * 2.0 * rows * (s["d"] * s["k"] + s["k"] ** 2)
    if work.work in ("attention", "attention_stages"):
        return times * causal * 4.0 * rows * s["H"] * s["n"] * s["c"]
    if work.work == "simple_attention":
        return times * 4.0 * rows * s["n"] * s["d"]
    if work.work in ("self_attention", "multi_head_attention"):
        width, out = s["c"] * s.get("H", 1), int("H" in s)
        return times * rows * (2.0 * (3 + out) * s["d"] * width + causal * 4.0 * s["n"] * width)
    return None


def bytes_of(work: Work) -> float | None:
    """What has to be read and written at least once, from operands to results; of a step nobody counts."""
    s, item = work.sizes, ITEM[work.dtype]
    if work.work == "gemm":
        return 3.0 * s["n"] ** 2 * item
    if work.work == "gemv":
        return float(s["n"] * s["d"] * item)
    if work.work == "copy":
        return 2.0 * s["n"] * item
    if work.work == "generate" and work.extra["cache"]:
        return (
            float(work.extra["tokens"]) * matrix_parameters(s) * item
        )  # every weight once a token, whatever the batch
    rows = s.get("B", 1) * s.get("n", 1)
    times = {"forward": 1.0, "backward": 1.5, "forward+backward": 2.5}.get(work.part)
    if times is None:
        return None
    if work.work in ("softmax", "log_softmax"):
        return times * 2.0 * rows * s["m"] * item
    if work.work in ("relu", "tanh", "gelu", "dropout", "layer_norm"):
        return times * 2.0 * rows * s["d"] * item
    if work.work == "attention":
        return times * 4.0 * rows * s["H"] * s["c"] * item
    if work.work == "linear":
        return times * (rows * (s["d"] + s["k"]) + s["d"] * s["k"]) * item
    if work.work == "cross_entropy":
        return (2.0 if work.part != "forward" else 1.0) * rows * s["v"] * item
    return None
