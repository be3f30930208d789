"""Mistakes in the steps of generation: the key-value cache, and the state of the Elman model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._gpt import feed, head, norm, part
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import GPTConfig, RNNConfig
from reference_numpy.decoding import tokens_so_far
from reference_numpy.self_attention import merge_heads, split_heads

Params = dict[str, Array]

# The right parts


def _append(before: Array, new: Array) -> Array:
    return np.concatenate([before, new], -2)


def _options(t: int) -> dict[str, Any]:
    return {"causal": True, "query_offset": t}


def _so_far(ids: Array, config: GPTConfig, past: Any) -> int:
    like = past[0][0] if isinstance(past, tuple) and past and isinstance(past[0], tuple) else None
    return tokens_so_far(ids, config, past, like)


def gpt_step_with(
    count: Callable[..., int] = _so_far,
    place: Callable[[int, int, int], Any] = lambda t, n, window: slice(t, t + n),
    options: Callable[[int], dict[str, Any]] = _options,
    append: Callable[[Array, Array], Array] = _append,
    of_block: Callable[[Any, int], Any] = lambda past, layer: past[layer],
    hand_on: Callable[[Any, Any], Any] = lambda past, present: present,
) -> Callable[..., Any]:
    """A step that counts the tokens so far, places the new ones, attends, and hands on keys and values."""

    def gpt_step(params: Params, ids: Array, config: GPTConfig, past: Any = None) -> Any:
        reference.gpt_step(params, ids, config)  # which refuses bad parameters and ids
        t, n = count(ids, config, past), ids.shape[-1]
        X, _ = reference.embedding(ids, params["token_embedding.weight"])
        X = X + params["position_embedding.weight"][place(t, n, config.context_window)]
        present = []
        for layer in range(config.num_layers):
            block = part(params, f"blocks.{layer}")
            N, _ = norm(block, "norm_1", X)
            names = ("query", "key", "value")
            Q, K, V = (split_heads(N @ block[f"attention.{name}.weight"].T, config.num_heads) for name in names)
            if past is not None:
                K, V = (append(old, new) for old, new in zip(of_block(past, layer), (K, V), strict=True))
            present.append((K, V))
            C, _ = reference.attention(Q, K, V, **options(t))
            X = X + merge_heads(C) @ block["attention.projection.weight"].T
            X = X + feed(block, norm(block, "norm_2", X)[0], config, None)[0]
        return head(params, norm(params, "norm", X)[0], config)[0], hand_on(past, tuple(present))

    return gpt_step


def first_slot_empty(past: Any, present: Any) -> Any:
    def written(array: Array) -> Array:
        buffer = np.zeros_like(array)
        buffer[..., 1:, :] = array[..., 1:, :]  # wrong: slot 0 is a slot
        return buffer

    return tuple(tuple(written(array) for array in pair) for pair in present)


class _Counted(tuple):  # type: ignore[type-arg]
    """Keys and values, and how many tokens they are of."""

    offset: Array


def counted(ids: Array, config: GPTConfig, past: Any) -> int:
    if past is None:
        return 0
    tokens_so_far(ids, config, tuple(past), past[0][0])
    return int(past.offset[0]) if isinstance(past, _Counted) else int(past[0][0].shape[-2])


def one_counter_for_all(past: Any, present: Any) -> Any:
    after = _Counted(present)
    if isinstance(past, _Counted):
        after.offset = past.offset
        after.offset += 1  # wrong: the array is also that of the past, and of all who go on from it
    else:
        after.offset = np.array([present[0][0].shape[-2]])
    return after


def appended_in_place(old: Array, new: Array) -> Array:
    t, n = old.shape[-2], new.shape[-2]
    room = old.base
    if room is None or room.shape[:-2] != old.shape[:-2] or room.shape[-2] < t + n:
        room = np.concatenate([old, np.zeros((*old.shape[:-2], 16, old.shape[-1]))], -2)
    room[..., t : t + n, :] = new  # wrong: whoever goes on from the same past writes here too
    return room[..., : t + n, :]


def unchecked(ids: Array, config: GPTConfig, past: Any) -> int:
    return 0 if past is None else int(past[0][0].shape[-2])  # wrong: of which batch, and up to where?


def wrapped(t: int, n: int, window: int) -> Any:
    return np.arange(t, t + n) % window  # wrong: beyond the window there is no position


def head_never_tied(params: Params, ids: Array, config: GPTConfig, past: Any = None) -> Any:
    logits, present = reference.gpt_step(params, ids, config, past)
    return logits, (present, params["lm_head.weight"])[0]  # wrong: with a tied head there is no such key


def last_token_alone(params: Params, ids: Array, config: GPTConfig, past: Any = None) -> Any:
    logits, present = reference.gpt_step(params, ids, config, past)
    return logits[..., -1:, :], present  # wrong: every token has logits


# The Elman model

Rnn = Callable[..., Any]


def state_forgotten(params: Params, ids: Array, config: RNNConfig, past: Array | None = None) -> Any:
    reference.generative_rnn_step(params, ids, config, past)
    return reference.generative_rnn_step(params, ids, config, None)  # wrong: every step begins anew


def state_of_the_first(params: Params, ids: Array, config: RNNConfig, past: Array | None = None) -> Any:
    logits, _ = reference.generative_rnn_step(params, ids, config, past)
    _, first = reference.generative_rnn_step(params, ids[..., :1], config, past)
    return logits, first  # wrong: the state behind the last token


def state_written_over(params: Params, ids: Array, config: RNNConfig, past: Array | None = None) -> Any:
    logits, last = reference.generative_rnn_step(params, ids, config, past)
    if past is None:
        return logits, last
    past[...] = last  # wrong: the past is the caller's
    return logits, past


def state_averaged(params: Params, ids: Array, config: RNNConfig, past: Array | None = None) -> Any:
    reference.generative_rnn_step(params, ids, config, past)
    if past is not None:
        past = np.broadcast_to(past.mean(tuple(range(past.ndim - 1))), past.shape).copy()  # wrong: sequences meet
    return reference.generative_rnn_step(params, ids, config, past)


def any_state(params: Params, ids: Array, config: RNNConfig, past: Array | None = None) -> Any:
    if past is not None:
        past = np.resize(past, (*ids.shape[:-1], config.embedding_dim))  # wrong: a state of another batch is an error
    return reference.generative_rnn_step(params, ids, config, past)


def state_before_it(params: Params, ids: Array, config: RNNConfig, past: Array | None = None) -> Any:
    logits, last = reference.generative_rnn_step(params, ids, config, past)
    if past is None:
        ones = np.ones_like(last)
        return reference.generative_rnn_step(params, ids, config, ones)  # wrong: the first state is 0
    return logits, last


def _gpt(id: str, sentence: str, hidden_on: str, shown_by: str, step: Any, source: str = "") -> Mistake:
    return Mistake(id, "gpt_step", sentence, hidden_on, shown_by, step, source=source)


def _rnn(id: str, sentence: str, hidden_on: str, shown_by: str, step: Any, source: str = "") -> Mistake:
    return Mistake(id, "generative_rnn_step", sentence, hidden_on, shown_by, step, source=source)


MISTAKES = (
    _gpt(
        "M164", "The first slot is not written.", "no cache", "cached = whole", gpt_step_with(hand_on=first_slot_empty)
    ),
    _gpt(
        "M165",
        "The offset is one array, changed in place.",
        "one continuation",
        "two from one past",
        gpt_step_with(counted, hand_on=one_counter_for_all),
    ),
    _gpt(
        "V01",
        "Positions restart at every step.",
        "one step",
        "two steps",
        gpt_step_with(place=lambda t, n, window: slice(0, n)),  # wrong: t ... t + n - 1
        "M086",
    ),
    _gpt(
        "V02",
        "The causal mask restarts at every step.",
        "one step",
        "two steps",
        gpt_step_with(options=lambda t: {"causal": True}),  # wrong: query_offset
    ),
    _gpt(
        "V03",
        "Tokens of one step see each other's future.",
        "token by token",
        "two tokens in a step",
        gpt_step_with(options=lambda t: {}),  # wrong: causal
    ),
    _gpt(
        "V04",
        "New keys stand before the old ones.",
        "one step",
        "two steps",
        gpt_step_with(append=lambda old, new: np.concatenate([new, old], -2)),  # wrong: behind them
    ),
    _gpt(
        "V05",
        "Keys are written in place.",
        "one continuation",
        "two from one past",
        gpt_step_with(append=appended_in_place),
    ),
    _gpt(
        "V06",
        "All blocks go on from block 0's keys.",
        "one block",
        "two blocks",
        gpt_step_with(of_block=lambda past, layer: past[0]),  # wrong: each has its own
    ),
    _gpt(
        "V07",
        "Positions begin again beyond the window.",
        "a sequence that fits",
        "one that does not",
        gpt_step_with(unchecked, wrapped),
    ),
    _gpt("V08", "The head is read untied.", "an untied head", "a tied one", head_never_tied),
    _gpt("V09", "Only the last token has logits.", "token by token", "two tokens in a step", last_token_alone),
    _rnn("V10", "The state is forgotten.", "one step", "two steps", state_forgotten),
    _rnn("V11", "The state is that of the first token.", "token by token", "two tokens in a step", state_of_the_first),
    _rnn("V12", "The state is written over.", "one continuation", "two from one past", state_written_over),
    _rnn("V13", "The states of a batch are averaged.", "one sequence", "two", state_averaged, "RNN-04"),
    _rnn("V14", "A state of another batch is fitted.", "states that fit", "one that does not", any_state),
    _rnn("V15", "The first state is 1.", "a state that is given", "none", state_before_it),
)
