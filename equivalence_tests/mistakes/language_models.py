"""Mistakes in the Elman language model, and in the losses of both models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes import cross_entropy, rnn
from equivalence_tests.mistakes._gpt import Params
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.config import GPTConfig, RNNConfig

RECURRENT = tuple(f"rnn.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

# The Elman model in replaceable parts


def _weights(params: Params) -> list[Array]:
    return [params[name] for name in RECURRENT]


def _head(params: Params, H: Array) -> Any:
    return reference.linear(H, params["lm_head.weight"], params["lm_head.bias"])


def generative_rnn_with(
    run: Callable[..., Any] = reference.rnn,
    weights: Callable[[Params], list[Array]] = _weights,
    states: Callable[[Array, Array], Any] = lambda H, last: H,
    head: Callable[..., Any] = _head,
) -> Callable[..., Any]:
    def generative_rnn(params: Params, ids: Array, config: RNNConfig) -> Any:
        X, embedding_cache = reference.embedding(ids, params["embedding.weight"])
        (H, last), rnn_cache = run(X, *weights(params))
        logits, head_cache = head(params, states(H, last))
        return logits, (embedding_cache, rnn_cache, head_cache)

    return generative_rnn


def no_tanh(X: Array, *weights: Array) -> Any:
    W_ih, W_hh, b_ih, b_hh = weights
    return rnn.rnn_with(rnn.relu_for_tanh)(X, W_ih, W_hh, b_ih, b_hh)


def state_goes_on(X: Array, *weights: Array) -> Any:
    W_ih, W_hh, b_ih, b_hh = weights
    return rnn.state_leaks(X, W_ih, W_hh, b_ih, b_hh)


def matrices_exchanged(params: Params) -> list[Array]:
    W_ih, W_hh, b_ih, b_hh = _weights(params)
    return [W_hh, W_ih, b_ih, b_hh]  # wrong: both are (d, d), and the shape does not tell


def second_bias_dropped(params: Params) -> list[Array]:
    W_ih, W_hh, b_ih, b_hh = _weights(params)
    return [W_ih, W_hh, b_ih, np.zeros_like(b_hh)]  # wrong: nn.RNN has two


def last_state_for_all(H: Array, last: Array) -> Any:
    return np.broadcast_to(last[..., None, :], H.shape).copy()  # wrong: each token has its own state


def state_before(H: Array, last: Array) -> Any:
    return np.concatenate([np.zeros_like(H[..., :1, :]), H[..., :-1, :]], -2)  # wrong: one token behind


def rnn_bias_twice(params: Params, H: Array) -> Any:
    logits, cache = _head(params, H)
    return logits + params["lm_head.bias"], cache  # wrong: linear has added it


def generative_rnn_backward_with(
    last: Callable[[Array], Any] = lambda dH: np.zeros_like(dH[..., -1, :]),
    states: Callable[[Array], Any] = lambda dH: dH,
    run: Callable[..., Any] = reference.rnn_backward,
    tokens: Callable[..., Any] = reference.embedding_backward,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda grads: grads,
) -> Callable[..., Any]:
    def generative_rnn_backward(dlogits: Array, cache: Any) -> Any:
        embedding_cache, rnn_cache, head_cache = cache
        dH, dhead, dbias = reference.linear_backward(dlogits, head_cache)
        dX, *drecurrent = run((states(dH), last(dH)), rnn_cache)
        grads = {"embedding.weight": tokens(dX, embedding_cache), **dict(zip(RECURRENT, drecurrent, strict=True))}
        return change(grads | {"lm_head.weight": dhead, "lm_head.bias": dbias})

    return generative_rnn_backward


def last_output_twice(dH: Array) -> Any:
    return dH[..., -1, :].copy()  # wrong: the last state leads nowhere but to its logits


def last_output_alone(dH: Array) -> Any:
    only = np.zeros_like(dH)
    only[..., -1, :] = dH[..., -1, :]  # wrong: every state has logits
    return only


def repeats_overwritten(dX: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    dweight[ids] = dX  # wrong: a token that comes twice keeps one of its gradients
    return dweight


def repeats_averaged(dX: Array, cache: Any) -> Any:
    ids, weight = cache
    counts = np.bincount(ids.ravel().astype(np.int64), minlength=len(weight))[:, None]
    return reference.embedding_backward(dX, cache) / np.maximum(counts, 1).astype(weight.dtype)  # wrong: a sum


def one_bias_learns(grads: dict[str, Any]) -> dict[str, Any]:
    return grads | {RECURRENT[3]: np.zeros_like(grads[RECURRENT[3]])}  # wrong: each gets all of it


def one_bias_for_two(grads: dict[str, Any]) -> dict[str, Any]:
    bias = grads[RECURRENT[2]]
    return grads | {RECURRENT[3]: bias}  # wrong: an update in place of one changes the other


# The losses, of either model

Loss = Callable[[Array, Array, int | None], Any]  # logits, targets, ignore_index -> loss and its cache


def gpt_loss_with(loss: Loss = reference.cross_entropy, dropping: bool = True) -> Callable[..., Any]:
    def gpt_loss(
        params: Params,
        ids: Array,
        targets: Array,
        config: GPTConfig,
        ignore_index: int | None = None,
        keep: dict[str, Array] | None = None,
    ) -> Any:
        logits, cache = reference.gpt(params, ids, config, keep if dropping else None)
        value, loss_cache = loss(logits, targets, ignore_index)
        return value, (cache, loss_cache)

    return gpt_loss


def rnn_loss_with(loss: Loss) -> Callable[..., Any]:
    def generative_rnn_loss(
        params: Params, ids: Array, targets: Array, config: RNNConfig, ignore_index: int | None = None
    ) -> Any:
        logits, cache = reference.generative_rnn(params, ids, config)
        value, loss_cache = loss(logits, targets, ignore_index)
        return value, (cache, loss_cache)

    return generative_rnn_loss


def shifted_twice(logits: Array, targets: Array, ignore_index: int | None) -> Any:
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    counted[..., 0] = False
    if not counted.any():
        return reference.cross_entropy(logits, targets, ignore_index)
    before = np.concatenate([logits[..., :1, :], logits[..., :-1, :]], -2)
    away = logits.shape[-1] + 7
    return reference.cross_entropy(before, np.where(counted, targets, away), away)  # wrong: targets are shifted already


def ignored_are_counted(logits: Array, targets: Array, ignore_index: int | None) -> Any:
    return reference.cross_entropy(logits, np.clip(targets, 0, logits.shape[-1] - 1))  # wrong: padding is no token


def of_probabilities(logits: Array, targets: Array, ignore_index: int | None) -> Any:
    return reference.cross_entropy(reference.softmax(logits)[0], targets, ignore_index)  # wrong: takes logits


def per_token_in_bits(logits: Array, targets: Array, ignore_index: int | None) -> Any:
    loss, cache = reference.cross_entropy(logits, targets, ignore_index)
    return loss * loss.dtype.type(1.0 / math.log(2.0)), cache  # wrong: base 2


def dloss_ignored(model_backward: Callable[..., Any]) -> Callable[..., Any]:
    def backward(dloss: float, cache: Any) -> Any:
        model_cache, loss_cache = cache
        return model_backward(reference.cross_entropy_backward(1.0, loss_cache), model_cache)  # wrong: dloss

    return backward


def mean_again(model_backward: Callable[..., Any]) -> Callable[..., Any]:
    def backward(dloss: float, cache: Any) -> Any:
        model_cache, loss_cache = cache
        dlogits = reference.cross_entropy_backward(dloss, loss_cache)
        return model_backward(dlogits / len(dlogits), model_cache)  # wrong: cross_entropy has divided

    return backward


_rnn = "generative_rnn"


def _forward(id: str, sentence: str, hidden_on: str, shown_by: str, source: str = "", **parts: Any) -> Mistake:
    return Mistake(id, _rnn, sentence, hidden_on, shown_by, generative_rnn_with(**parts), source=source)


def _back(id: str, sentence: str, hidden_on: str, shown_by: str, **parts: Any) -> Mistake:
    return Mistake(id, _rnn, sentence, hidden_on, shown_by, backward=generative_rnn_backward_with(**parts))


def _losses(id: str, sentence: str, hidden_on: str, shown_by: str, loss: Loss, source: str = "") -> tuple[Mistake, ...]:
    """The same mistake in the loss of either model."""
    return (
        Mistake(id, "gpt_loss", sentence, hidden_on, shown_by, gpt_loss_with(loss), source=source),
        Mistake(f"{id}b", "generative_rnn_loss", sentence, hidden_on, shown_by, rnn_loss_with(loss), source=source),
    )


MISTAKES = (
    _forward(
        "L40", "A sequence begins in the state of the one before.", "one sequence", "two", "RNN-05", run=state_goes_on
    ),
    _forward("L41", "relu for tanh.", "inputs near 0 from above, roughly", "any value", run=no_tanh),
    _forward("L42", "The two matrices are exchanged.", "equal ones", "any other", weights=matrices_exchanged),
    _forward("L43", "The second bias is dropped.", "a bias of 0", "any other", weights=second_bias_dropped),
    _forward("L44", "All tokens read the last state.", "one token", "two tokens", states=last_state_for_all),
    _forward("L45", "Logits come from the state before.", "never right", "any value", states=state_before),
    _forward("L46", "The head's bias is added twice.", "a bias of 0", "any other", head=rnn_bias_twice),
    _back("L47", "The last output's gradient comes in twice.", "never right", "any value", last=last_output_twice),
    _back("L48", "Only the last output hands back.", "one token", "two tokens", states=last_output_alone),
    _back("L49", "No gradient is carried to the step before.", "one token", "two tokens", run=rnn.one_step_only),
    _back(
        "L50", "A repeated token's gradients overwrite.", "tokens that differ", "a repeat", tokens=repeats_overwritten
    ),
    _back(
        "L51", "A repeated token's gradients are averaged.", "tokens that differ", "a repeat", tokens=repeats_averaged
    ),
    _back("L52", "The second bias does not learn.", "never right", "any value", change=one_bias_learns),
    _back("L53", "Both biases have one array as gradient.", "their values", "their memory", change=one_bias_for_two),
    *_losses("L54", "Targets are shifted a second time.", "one token", "two tokens", shifted_twice, "M080"),
    *_losses(
        "L55",
        "The loss is the mean of the sequences' means.",
        "nothing ignored",
        "sequences of different length",
        cross_entropy.mean_of_means,
    ),
    *_losses("L56", "Ignored targets are counted.", "nothing ignored", "an ignored target", ignored_are_counted),
    *_losses(
        "L57",
        "The mean is over ignored targets too.",
        "nothing ignored",
        "an ignored target",
        cross_entropy.divided_by_all,
    ),
    *_losses("L58", "The loss is a sum.", "one token", "two tokens", cross_entropy.summed),
    *_losses("L59", "softmax stands before the loss.", "never right", "any value", of_probabilities),
    *_losses("L60", "The loss is in bits.", "a loss of 0", "any other", per_token_in_bits),
    Mistake(
        "L61",
        "gpt_loss",
        "The masks are not passed on to the model.",
        "no dropout",
        "dropout",
        gpt_loss_with(dropping=False),
    ),
    Mistake(
        "L62",
        "gpt_loss",
        "dloss is taken for 1.",
        "dloss = 1",
        "any other dloss",
        backward=dloss_ignored(reference.gpt_backward),
    ),
    Mistake(
        "L63",
        _rnn + "_loss",
        "dloss is taken for 1.",
        "dloss = 1",
        "any other dloss",
        backward=dloss_ignored(reference.generative_rnn_backward),
    ),
    Mistake(
        "L64",
        "gpt_loss",
        "The gradient is divided by the batch again.",
        "one sequence",
        "two",
        backward=mean_again(reference.gpt_backward),
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "L40": "rnn: operand",
    "L41": "rnn: term",
    "L42": "rnn: operand",
    "L43": "rnn: term",
    "L44": "logits, rnn: operand",
    "L45": "logits, rnn: operand",
    "L46": "logits: term",
    "L47": "drnn: accumulation, term",
    "L48": "drnn: accumulation, term",
    "L49": "drnn: term",
    "L50": "dembedding: accumulation",
    "L51": "dembedding: accumulation, factor",
    "L52": "drnn: term",
    "L53": "backward: conduct",
    "L54": "loss: operand",
    "L54b": "loss: operand",
    "L55": "loss: accumulation, axis",
    "L55b": "loss: accumulation, axis",
    "L56": "loss, ignore_index: option",
    "L56b": "loss, ignore_index: option",
    "L57": "loss, ignore_index: factor, option",
    "L57b": "loss, ignore_index: factor, option",
    "L58": "loss: factor",
    "L58b": "loss: factor",
    "L59": "loss: term, operand",
    "L59b": "loss: term, operand",
    "L60": "loss: factor",
    "L60b": "loss: factor",
    "L61": "keep, embedding: option",
    "L62": "dlogits, dloss: factor, operand",
    "L63": "dlogits, dloss: factor, operand",
    "L64": "dlogits: factor",
}
