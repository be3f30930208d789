"""Laws of generation, with toy models that remember what they were given.

Everything is equality of ids: both sides use the same sampler and the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.parts._part import Law
from reference_numpy.sampling import SamplingConfig, choose, probabilities

V = 8
PLAIN = SamplingConfig(temperature=1.0, top_k=None, repetition_penalty=1.0, max_tokens=9)
WINDOWS = (None, 1, 4, 6, 8, 100)  # shorter than the prompt, as long, reached on the way, never reached
PROMPT = [7, 0, 1, 2, 3, 4]


class Reader:
    """A model whose logits depend on every token and its position; its past is the arrays that it was given, as they are.

    The sums run from the first token on, so they are the same to the bit with and without a past.
    """

    def __init__(self) -> None:
        self.weights = np.random.default_rng(21).standard_normal((11, V, V))
        self.calls: list[tuple[list[list[int]], int]] = []  # what came, and how many tokens the past held
        self.given: list[tuple[Array, Array]] = []  # each array, and what it held then

    def __call__(self, ids: Array, past: list[Array] | None) -> tuple[Array, list[Array]]:
        before = past or []
        self.calls.append((ids.tolist(), sum(part.shape[1] for part in before)))
        self.given.append((ids, ids.copy()))
        seen = np.concatenate([*before, ids], 1)
        logits = self.weights[np.arange(seen.shape[1]) % 11, seen].cumsum(1)
        return logits[:, -ids.shape[1] :], [*before, ids]


class Script:
    """A model that says, at its t-th call, rows[b][t] in row b."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.rows = rows
        self.calls: list[list[list[int]]] = []

    def __call__(self, ids: Array, past: int | None) -> tuple[Array, int]:
        t = past or 0
        self.calls.append(ids.tolist())
        said = np.eye(V)[[row[t] for row in self.rows]]
        return np.repeat(said[:, None], ids.shape[1], 1), t + 1


def _level(ids: Array, past: Any) -> tuple[Array, Any]:
    """A model to which all tokens are alike."""
    return np.zeros((*ids.shape, V)), "past"


def _run(part: Any, step: Any, prompt: Sequence[int], sampling: SamplingConfig, **changed: Any) -> Any:
    settings = {"stop": (), "pad": 6, "rng_seed": 3, "samples": 1, "context_window": None, **changed}
    return part(step, prompt, sampling, **settings)


def _one_by_one(sampling: SamplingConfig, window: int | None, sample: int, stop: tuple[int, ...]) -> list[int]:
    """A sample on its own, by the full forward on the last tokens at every step."""
    rng = np.random.default_rng([3, sample])
    sequence = list(PROMPT)
    for _ in range(sampling.max_tokens):
        seen = sequence if window is None else sequence[-window:]
        logits, _ = Reader()(np.array([seen]), None)
        sequence.append(choose(probabilities(logits[0, -1], sequence, sampling), rng.random()))
        if sequence[-1] in stop:
            break
    return sequence


def it_is_the_full_forward_on_the_last_tokens(part: Any) -> str:
    """Whatever is cached, batched and padded: each sample is what it would be alone and without a cache."""
    penalised = SamplingConfig(0.9, 5, 0.95, 0.01, 1.7, no_repeat_ngram=3, max_tokens=9)
    for sampling in (PLAIN, penalised):
        for window in WINDOWS:
            for stop in ((), (5, 2)):
                found = _run(part, Reader(), PROMPT, sampling, samples=3, context_window=window, stop=stop)
                expected = [_one_by_one(sampling, window, sample, stop) for sample in range(3)]
                if found != expected:
                    return f"window {window}, stop {stop}: {found} came, expected {expected}"
    return ""


def the_model_is_given_each_token_once(part: Any) -> str:
    """The prompt, then one token a step with what came back; past the window its last tokens, and no past."""
    for window in WINDOWS:
        step = Reader()
        sequences = np.array(_run(part, step, PROMPT, PLAIN, samples=2, context_window=window))
        for call, (ids, past) in enumerate(step.calls):
            length = len(PROMPT) + call
            if window is not None and length > window:
                first, before = length - window, 0
            else:
                first, before = (length - 1, length - 1) if call else (0, 0)
            expected = sequences[:, first:length].tolist()
            if (ids, past) != (expected, before):
                return f"window {window}, step {call}: {ids} came after {past}, expected {expected} after {before}"
    return ""


def what_was_given_stays(part: Any) -> str:
    """A model may keep the arrays that it was given: nobody writes into them later."""
    for window in WINDOWS:
        step = Reader()
        _run(part, step, PROMPT, PLAIN, samples=2, context_window=window)
        for call, (array, then) in enumerate(step.given):
            if not np.array_equal(array, then):
                return f"window {window}: step {call} was given {then.tolist()}, which is now {array.tolist()}"
    return ""


def a_sample_does_not_depend_on_the_others(part: Any) -> str:
    """Not on how many are drawn beside it, nor on when they end; yet samples differ, and so do seeds."""
    few, many = (_run(part, Reader(), PROMPT, PLAIN, samples=samples, stop=(5,)) for samples in (2, 7))
    if few != many[:2]:
        return f"of 2 samples came {few}, of 7 came {many[:2]}"
    other = _run(part, Reader(), PROMPT, PLAIN, samples=7, stop=(5,), rng_seed=4)
    if len({tuple(sequence) for sequence in many}) == 1 or many == other:
        return f"7 samples are {many}, and {other} from another seed"
    return ""


def one_number_chooses_one_token(part: Any) -> str:
    """Over equal logits the tokens are floor(V u), u the numbers of default_rng([seed, sample]) one after the other."""
    found = _run(part, _level, PROMPT, PLAIN, samples=3)
    drawn = [np.random.default_rng([3, sample]).random(PLAIN.max_tokens) for sample in range(3)]
    expected = [[*PROMPT, *(int(V * u) for u in numbers)] for numbers in drawn]
    return "" if found == expected else f"{found} came, expected {expected}"


def a_sample_ends_with_its_stop_token(part: Any) -> str:
    """It is padded from then on; the loop goes on until the last has ended, and not beyond."""
    step = Script([[0, 7, 7, 7], [5, 0, 7, 7], [5, 5, 3, 7]])
    greedy = SamplingConfig(temperature=0.0, repetition_penalty=1.0, max_tokens=4)
    found = _run(part, step, [1, 0], greedy, samples=3, stop=(0, 3))  # a stop token in the prompt stops nothing
    expected = [[1, 0, 0], [1, 0, 5, 0], [1, 0, 5, 5, 3]]
    if found != expected:
        return f"{found} came, expected {expected}"
    fed = [[[1, 0]] * 3, [[0], [5], [5]], [[6], [0], [5]]]
    return "" if step.calls == fed else f"the model was given {step.calls}, expected {fed}"


def max_tokens_counts_what_is_added(part: Any) -> str:
    """Exactly so many without a stop token; with 0 the prompt comes back and the model is not asked."""
    for count in (0, 1, 5):
        step = Reader()
        found = _run(part, step, PROMPT, SamplingConfig(max_tokens=count), samples=2)
        if [len(sequence) for sequence in found] != [len(PROMPT) + count] * 2 or len(step.calls) != count:
            return f"max_tokens {count}: {found} came after {len(step.calls)} steps"
        if any(sequence[: len(PROMPT)] != PROMPT for sequence in found):
            return f"max_tokens {count}: {found} came, which does not begin with the prompt {PROMPT}"
    return ""


def the_whole_sequence_is_penalised(part: Any) -> str:
    """The prompt and what lies before the window are in the history: over equal logits, no token comes twice."""
    greedy = SamplingConfig(temperature=0.0, no_repeat_ngram=1, max_tokens=6)
    found = _run(part, _level, [0, 3], greedy, context_window=2)
    expected = [[0, 3, 1, 2, 4, 5, 6, 7]]
    return "" if found == expected else f"{found} came, expected {expected}"


def a_step_without_a_cache_is_given_everything(part: Any) -> str:
    """A step that returns None for its past gets the whole sequence (or window) each time: the same ids come out."""

    def uncached(ids: Array, past: None) -> tuple[Array, None]:
        return Reader()(ids, None)[0], None

    for window in WINDOWS:
        found, expected = (_run(part, step, PROMPT, PLAIN, context_window=window) for step in (uncached, Reader()))
        if found != expected:
            return f"window {window}: {found} came without a cache, {expected} with one"
    return ""


PARTS: dict[str, tuple[Law, ...]] = {
    "generate_ids": (
        it_is_the_full_forward_on_the_last_tokens,
        the_model_is_given_each_token_once,
        what_was_given_stays,
        a_sample_does_not_depend_on_the_others,
        one_number_chooses_one_token,
        a_sample_ends_with_its_stop_token,
        max_tokens_counts_what_is_added,
        the_whole_sequence_is_penalised,
        a_step_without_a_cache_is_given_everything,
    ),
}
