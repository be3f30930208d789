"""Laws of the steps that generation takes: token by token or in chunks, a model says what it says of the whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.ops import OPS
from equivalence_tests.parts._guard import not_refused, told
from equivalence_tests.parts._part import Law
from equivalence_tests.small_models import VOCABULARY, WINDOW, model_case
from reference_numpy.config import GPTConfig, RNNConfig

DOUBLE = PRECISIONS["float64"]
CHUNKS = ((1, 1, 1, 1), (4,), (1, 3), (3, 1), (2, 2), (2, 1, 1))
Config = GPTConfig | RNNConfig


def _drawn(
    model: str, seed: int, lead: tuple[int, ...], tied: bool = False
) -> tuple[dict[str, Array], Array, Config, Case]:
    """Parameters, ids of 4 tokens, the configuration; and the case of the whole model."""
    draws = SeededDraws(np.random.default_rng([seed, len(lead), tied]))
    case = model_case(model, draws, "float64", lead, layers=2, tied=tied)
    params = {name: value for name, value in case.operands.items() if "." in name}
    ids = draws.rng.integers(0, VOCABULARY, (*lead, 4))
    upstream = {"dlogits": np.zeros((*ids.shape, VOCABULARY))}
    return params, ids, case.options["config"], Case({**params, "ids": ids}, case.options, upstream)


def _stepped(part: Any, params: dict[str, Array], ids: Array, config: Config, chunks: tuple[int, ...]) -> Array:
    past, logits, t = None, [], 0
    for size in chunks:
        Y, past = part(params, ids[..., t : t + size], config, past)
        logits.append(Y)
        t += size
    return np.concatenate(logits, -2)


def _copy(past: Any) -> Any:
    return (
        past.copy() if isinstance(past, np.ndarray) else tuple(tuple(array.copy() for array in pair) for pair in past)
    )


def _arrays(past: Any) -> list[Array]:
    return [past] if isinstance(past, np.ndarray) else [array for pair in past for array in pair]


def _same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(_arrays(one), _arrays(other), strict=True))


def _whole(part: Any, model: str) -> str:
    """However the tokens are cut into steps, the logits are the whole model's, within its budget."""
    for seed, lead, tied in ((0, (), False), (1, (2,), True), (2, (3, 1), False)):
        params, ids, config, case = _drawn(model, seed, lead, tied and model == "gpt")
        truth = OPS[model].exact(case, DOUBLE)["logits"]
        for chunks in CHUNKS:
            logits = _stepped(part, params, ids, config, chunks)
            if logits.shape != truth.value.shape or logits.dtype != np.float64:
                return f"in steps of {chunks} came {logits.dtype} {logits.shape}, expected {truth.value.shape}"
            if not (np.abs(logits.astype(ORACLE) - truth.value) <= truth.budget()).all():
                return f"in steps of {chunks}{' tied' if tied else ''} the logits are not those of the whole"
    return ""


def _unchanged(part: Any, model: str) -> str:
    """The past stays as it was, whoever goes on from it: two continuations do not know of each other."""
    params, ids, config, _ = _drawn(model, 3, (2,))
    _, first = part(params, ids[:, :1], config, None)
    _, past = part(params, ids[:, 1:2], config, first)
    before = _copy(past)
    one, after_one = part(params, ids[:, 2:3], config, past)
    kept = _copy(after_one)
    part(params, (ids[:, 2:3] + 1) % VOCABULARY, config, past)
    if not _same(after_one, kept):
        return "a step changed what an earlier one had answered"
    again, after_again = part(params, ids[:, 2:3], config, past)
    if not _same(past, before):
        return "a step changed the past that it was given"
    return "" if np.array_equal(one, again) and _same(after_one, after_again) else "the same step answered differently"


def steps_are_the_whole(part: Any) -> str:
    return _whole(part, "gpt")


def a_past_is_unchanged(part: Any) -> str:
    return _unchanged(part, "gpt")


def the_past_holds_every_token_of_every_block(part: Any) -> str:
    """(K, V) of each block, (..., H, t, c), in the tokens' order: what is there first is what was there before."""
    params, ids, config, _ = _drawn("gpt", 4, (2,))
    assert isinstance(config, GPTConfig)
    _, past = part(params, ids[:, :3], config, None)
    _, longer = part(params, ids[:, 3:], config, past)
    if not isinstance(longer, tuple) or len(longer) != config.num_layers:
        return f"past has {len(longer)} entries, expected a tuple of {config.num_layers}"
    for before, after in zip(_arrays(past), _arrays(longer), strict=True):
        shape = (2, config.num_heads, 4, config.head_dim)
        if after.shape != shape:
            return f"past holds an array of shape {after.shape}, expected {shape}"
        if not np.array_equal(after[..., :3, :], before) or not after.any(-1).all():
            return "past does not hold what it held before, or a row of zeros"
    return ""


def the_window_is_the_end(part: Any) -> str:
    """As many tokens as positions, and not one more: ValueError that names ids."""
    params, ids, config, _ = _drawn("gpt", 5, (2,))
    full = np.concatenate([ids, ids], -1)[:, :WINDOW]
    _, past = part(params, full, config, None)
    cases = [
        (full[:, :1], past),
        (np.concatenate([full, full[:, :1]], -1), None),
        (full[:, :3], _cut(past, WINDOW - 2)),
    ]
    return _first_accepted([partial(part, params, more, config, before) for more, before in cases], "ids")


def _first_accepted(calls: list[Callable[[], Any]], naming: str) -> str:
    return next((text for call in calls if (text := not_refused(call, naming))), "")


def _cut(past: Any, t: int) -> Any:
    return tuple(tuple(array[..., :t, :] for array in pair) for pair in past)


def a_wrong_past_is_refused(part: Any) -> str:
    """Of another batch, another number of blocks or heads, K and V of different length: ValueError that names the past."""
    params, ids, config, _ = _drawn("gpt", 6, (2,))
    _, past = part(params, ids[:, :2], config, None)
    (K, V), second = past
    wrong = {
        "of one sequence": tuple(tuple(array[:1] for array in pair) for pair in past),
        "of one block": past[:1],
        "of two heads": tuple(tuple(array[:, :2] for array in pair) for pair in past),
        "whose V is shorter": ((K, V[..., :1, :]), second),
        "whose blocks differ in length": ((K, V), tuple(array[..., :1, :] for array in second)),
        "empty": (),
    }
    for what, each in wrong.items():
        if text := not_refused(partial(part, params, ids[:, 2:], config, each), "past"):
            return f"a past {what}: {text}"
    return ""


def rnn_steps_are_the_whole(part: Any) -> str:
    return _whole(part, "generative_rnn")


def a_state_is_unchanged(part: Any) -> str:
    return _unchanged(part, "generative_rnn")


def no_state_is_a_state_of_0(part: Any) -> str:
    """Before the first token the state is 0; behind it there is one for every sequence."""
    params, ids, config, _ = _drawn("generative_rnn", 7, (2,))
    logits, state = part(params, ids, config, None)
    if state.shape != (2, config.embedding_dim):
        return f"the state has shape {state.shape}, expected {(2, config.embedding_dim)}"
    zeros, _ = part(params, ids, config, np.zeros_like(state))
    return "" if np.array_equal(logits, zeros) else "no state is not a state of 0"


def a_state_of_another_batch_is_refused(part: Any) -> str:
    params, ids, config, _ = _drawn("generative_rnn", 8, (2,))
    _, state = part(params, ids, config, None)
    wrong = (state[:1], state[0], state[:, :1])
    return _first_accepted([partial(part, params, ids, config, each) for each in wrong], "h0")


PARTS: dict[str, tuple[Law, ...]] = {
    "gpt_step": told(
        steps_are_the_whole,
        a_past_is_unchanged,
        the_past_holds_every_token_of_every_block,
        the_window_is_the_end,
        a_wrong_past_is_refused,
    ),
    "generative_rnn_step": told(
        rnn_steps_are_the_whole,
        a_state_is_unchanged,
        no_state_is_a_state_of_0,
        a_state_of_another_batch_is_refused,
    ),
}
