"""The words in which a mistake is placed: the kinds of mistakes, and for each op the lines of its formula."""

from __future__ import annotations

KINDS: dict[str, str] = {
    "factor": "a wrong constant factor or sign",
    "term": "a term or a function is missing, doubled, extra or of another form",
    "axis": "reduced, normalised, split or transposed over the wrong axis; the order of axes",
    "option": "an option ignored, misread, inverted or off by one",
    "operand": "another tensor in its place: swapped, stale, before instead of after",
    "accumulation": "repeats lost, summed over too few or too many, overwritten instead of added",
    "precision": "cancels, overflows, a lower precision inside, an approximation",
    "special": "NaN, infinity, empty rows, size 0 or 1, refused or accepted input, exceptions",
    "dtype": "a result of another dtype",
    "shape": "a result of another shape",
    "conduct": "changes its input or cache, shares memory, answers otherwise when called again, prints, global state",
    "value": "nothing known but the worst element",
}

# How it behaves, where no line of the formula is wrong.
CONDUCT = ("forward", "backward")

_SOFTMAX = ("X - max", "exp", "sum(exp)", "A", "A * dA", "sum(A * dA)", "dX", "axis")
_LOG_SOFTMAX = ("X - max", "sum(exp)", "log(sum(exp))", "Y", "sum(dY)", "dX", "axis")
_LAYER_NORM = ("mean(X)", "X - mean(X)", "var", "r", "N", "Y")
_LAYER_NORM_BACKWARD = ("dN", "mean(dN)", "mean(dN * N)", "dX", "dscale", "dshift", "epsilon")
_ATTENTION = ("Omega", "scaled", "masked", "A", "A * Z", "C", "dV", "dA", "delta", "dS", "dOmega", "dQ", "dK")
_ATTENTION_OPTIONS = ("mask", "bias", "causal", "query_offset", "scale", "keep", "p")
_SELF_ATTENTION = ("Q", "K", "V", *_ATTENTION, "dX", "dWq", "dWk", "dWv", *_ATTENTION_OPTIONS)
_MULTI_HEAD = (*_SELF_ATTENTION, "split", "merged", "Y", "dmerged", "dC", "dWo", "num_heads")
_RNN = ("a", "h", "H", "h_last", "dh", "da", "dX", "dW_ih", "dW_hh", "db_ih", "db_hh", "dh0", "h0")
_GPT_LINES = ("embedding", "position", "norm", "attention", "feed_forward", "residual", "last norm", "logits")
_GPT_PARAMETERS = ("dtoken_embedding", "dposition_embedding", "dlm_head")
_GPT = (*_GPT_LINES, *(f"d{line}" for line in _GPT_LINES), *_GPT_PARAMETERS, "causal", "scale", "epsilon", "keep", "p")
_GENERATIVE_RNN = ("embedding", "rnn", "logits", "dlogits", "drnn", "dembedding", "dlm_head")
_LOSS = ("loss", "dloss", "ignore_index")

# Forward, backward, then the options: an option misread is placed at its name.
STAGES: dict[str, tuple[str, ...]] = {
    op: (*lines, *CONDUCT)
    for op, lines in {
        "softmax": _SOFTMAX,
        "log_softmax": _LOG_SOFTMAX,
        "layer_norm": (*_LAYER_NORM, *_LAYER_NORM_BACKWARD),
        "linear": ("Y", "dX", "dweight", "dbias"),
        "relu": ("Y", "dX"),
        "tanh": ("Y", "dX"),
        "gelu": ("u", "t", "Y", "du", "dX"),
        "embedding": ("Y", "dweight"),
        "dropout": ("Y", "dX", "keep", "p"),
        "attention": (*_ATTENTION, *_ATTENTION_OPTIONS),
        "attention_stages": (*_ATTENTION, *_ATTENTION_OPTIONS),
        "simple_attention": (*_ATTENTION, "dX"),
        "self_attention": _SELF_ATTENTION,
        "multi_head_attention": _MULTI_HEAD,
        "cross_entropy": ("log P", "count", "loss", "P", "dlogits", "ignore_index"),
        "rnn": _RNN,
        "gpt": _GPT,
        "gpt_loss": (*_GPT, *_LOSS),
        "generative_rnn": _GENERATIVE_RNN,
        "generative_rnn_loss": (*_GENERATIVE_RNN, *_LOSS),
    }.items()
}
