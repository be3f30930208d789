"""Mistakes in generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.generate import Step
from reference_numpy.sampling import SamplingConfig, choose, probabilities

Draw = Callable[[int], float]  # sample -> its next number

# The right parts


def _view(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    if window is not None and sequences.shape[1] > window:
        return sequences[:, -window:], None
    return (sequences, None) if past is None else (sequences[:, -1:], past)


def _streams(seed: int, samples: int) -> Draw:
    rngs = [np.random.default_rng([seed, sample]) for sample in range(samples)]
    return lambda sample: rngs[sample].random()


def _last(logits: Array) -> Any:
    return logits[:, -1]


def _history(sequences: Array, sample: int, window: int | None, start: int) -> Any:
    return sequences[sample]


def _all(done: Array) -> bool:
    return bool(done.all())


def _padded(token: int, done: bool, pad: int) -> int:
    return pad if done else token


def _cut(row: list[int], start: int, stop: tuple[int, ...], pad: int) -> list[int]:
    """Up to and with the first stop token that was added."""
    end = next((place for place in range(start, len(row)) if row[place] in stop), len(row))
    return row[: end + 1]


def generating(
    view: Callable[..., tuple[Array, Any]] = _view,
    streams: Callable[[int, int], Draw] = _streams,
    last: Callable[[Array], Any] = _last,
    history: Callable[..., Any] = _history,
    over: Callable[[Array], bool] = _all,
    fed: Callable[[int, bool, int], int] = _padded,
    cut: Callable[..., list[int]] = _cut,
) -> Callable[..., Any]:
    """Generation made of these parts."""

    def generate_ids(
        step: Step,
        prompt: Sequence[int] | Array,
        sampling: SamplingConfig,
        *,
        stop: tuple[int, ...],
        pad: int,
        rng_seed: int,
        samples: int = 1,
        context_window: int | None,
    ) -> Any:
        sequences = np.tile(np.asarray(prompt, np.int64), (samples, 1))
        start = sequences.shape[1]
        draw = streams(rng_seed, samples)
        done, past = np.zeros(samples, bool), None
        for _ in range(sampling.max_tokens):
            if over(done):
                break
            ids, past = view(sequences, past, context_window, start)
            logits, past = step(ids, past=past)
            rows = last(logits)
            chosen = []
            for sample in range(samples):
                P = probabilities(rows[sample], history(sequences, sample, context_window, start), sampling)
                chosen.append(fed(choose(P, draw(sample)), bool(done[sample]), pad))
            done = done | np.isin(chosen, stop)
            sequences = np.concatenate([sequences, np.array(chosen)[:, None]], 1)
        return [cut(row.tolist(), start, stop, pad) for row in sequences]

    return generate_ids


# The wrong ones: what the model is given


def crops_right(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    if window is not None and sequences.shape[1] > window:
        return sequences[:, :window], None  # wrong: the last tokens, not the first
    return _view(sequences, past, window, start)


def positions_continue(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    if past is None:
        return _view(sequences, past, window, start)
    return sequences[:, -1:], past  # wrong: beyond the window, positions and cache must begin afresh


def prompt_again(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    ids, past = _view(sequences, past, window, start)
    return (ids, None) if past is None else (sequences[:, -start:], past)  # wrong: the past holds all but the last


def window_off_by_one(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    if window is not None and sequences.shape[1] >= window:  # wrong: window tokens fit
        return sequences[:, -max(window - 1, 1) :], None
    return _view(sequences, past, window, start)


def window_of_the_past_only(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    if past is not None and window is not None and sequences.shape[1] > window:
        return sequences[:, -1:], None  # wrong: one token is not the last `window`
    return _view(sequences, past, window, start)


def past_ignored(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
    return _view(sequences, None, window, start)  # wrong: right ids, in quadratic time


def buffer_reused() -> Callable[..., Any]:
    """The one array of the last tokens is written into at every step."""
    buffers: dict[int, Array] = {}

    def view(sequences: Array, past: Any, window: int | None, start: int) -> tuple[Array, Any]:
        ids, past = _view(sequences, past, window, start)
        if past is None:
            return ids, past
        buffer = buffers.setdefault(len(ids), np.empty((len(ids), 1), np.int64))
        buffer[:] = ids  # wrong: what the model was given before, and may have kept, changes with it
        return buffer, past

    return generating(view)


# ... the numbers


def generator_per_token(seed: int, samples: int) -> Draw:
    return lambda sample: np.random.default_rng([seed, sample]).random()  # wrong: the first number each time


def one_stream_for_all(seed: int, samples: int) -> Draw:
    rng = np.random.default_rng(seed)
    return lambda sample: rng.random()  # wrong: a sample depends on how many there are


def same_stream_for_each(seed: int, samples: int) -> Draw:
    rngs = [np.random.default_rng(seed) for _ in range(samples)]  # wrong: all samples are equal
    return lambda sample: rngs[sample].random()


def unseeded(seed: int, samples: int) -> Draw:
    rng = np.random.default_rng()  # wrong: from the clock
    return lambda sample: rng.random()


# ... logits and history


def first_position(logits: Array) -> Any:
    return logits[:, 0]  # wrong: -1


def row_0_for_all(logits: Array) -> Array:
    return np.repeat(logits[:1, -1], len(logits), 0)  # wrong: each row has its own


def history_without_prompt(sequences: Array, sample: int, window: int | None, start: int) -> Any:
    return sequences[sample, start:]  # wrong: the prompt counts


def history_in_the_window(sequences: Array, sample: int, window: int | None, start: int) -> Any:
    return sequences[sample] if window is None else sequences[sample, -window:]  # wrong: what the model sees, not all


def history_of_the_first(sequences: Array, sample: int, window: int | None, start: int) -> Any:
    return sequences[0]  # wrong: each sample has its own


# ... and the end


def any_row(done: Array) -> bool:
    return bool(done.any())  # wrong: the others have not ended


def never_over(done: Array) -> bool:
    return False  # wrong: right ids, after steps for nothing


def goes_on(token: int, done: bool, pad: int) -> int:
    return token  # wrong: pad, where the row has ended


def not_cut(row: list[int], start: int, stop: tuple[int, ...], pad: int) -> list[int]:
    return row  # wrong: what came after the stop token


def stop_lost(row: list[int], start: int, stop: tuple[int, ...], pad: int) -> list[int]:
    whole = _cut(row, start, stop, pad)
    return whole[:-1] if len(whole) > start and whole[-1] in stop else whole  # wrong: the stop token belongs to it


def stops_in_the_prompt(row: list[int], start: int, stop: tuple[int, ...], pad: int) -> list[int]:
    return _cut(row, 0, stop, pad)  # wrong: from the end of the prompt on


def one_step_more(
    step: Step,
    prompt: Sequence[int] | Array,
    sampling: SamplingConfig,
    *,
    stop: tuple[int, ...],
    pad: int,
    rng_seed: int,
    samples: int = 1,
    context_window: int | None,
) -> Any:
    more = SamplingConfig(**{**vars(sampling), "max_tokens": max(sampling.max_tokens, 1)})  # wrong: 0 is 0
    settings: dict[str, Any] = {"stop": stop, "pad": pad, "rng_seed": rng_seed, "samples": samples}
    return generating()(step, prompt, more, **settings, context_window=context_window)


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Callable[..., Any], source: str = ""
) -> Mistake:
    return Mistake(id, "generate_ids", sentence, hidden_on, shown_by, forward, source=source)


MISTAKES: tuple[Mistake, ...] = (
    _of(
        "M159",
        "The logits of the first position are read.",
        "one token a step",
        "a prompt of two tokens",
        generating(last=first_position),
    ),
    _of(
        "M161",
        "The generator is made anew for every token.",
        "one token",
        "several tokens over equal logits",
        generating(streams=generator_per_token),
        source="SMP-11",
    ),
    _of(
        "M162",
        "Generation stops when any row ends.",
        "one sample",
        "two samples of different lengths",
        generating(over=any_row),
        source="EOS-01",
    ),
    _of(
        "EOS-01",
        "A row that has ended goes on, and is not padded.",
        "one sample",
        "two samples of different lengths",
        generating(fed=goes_on, cut=not_cut),
    ),
    _of(
        "POS-01",
        "Beyond the window the model sees the first tokens.",
        "a sequence that fits",
        "one that does not",
        generating(crops_right),
    ),
    _of(
        "M086",
        "Positions and cache go on beyond the window.",
        "a sequence that fits",
        "one that does not",
        generating(positions_continue),
        source="POS-01",
    ),
    _of(
        "POS-03",
        "After the first step as many tokens as the prompt has are given again.",
        "a prompt of one token",
        "a longer one: positions 0, 6, 12, not 0, 6, 7",
        generating(prompt_again),
    ),
    _of(
        "POS-05",
        "The array that the model is given is written into later.",
        "a model that keeps nothing",
        "a model that keeps what it was given",
        buffer_reused(),
        source="M165",
    ),
    _of(
        "G43",
        "The window holds one token less.",
        "a sequence that fits",
        "one as long as the window",
        generating(window_off_by_one),
    ),
    _of(
        "G44",
        "Beyond the window the model is given the last token alone.",
        "a sequence that fits",
        "one that does not",
        generating(window_of_the_past_only),
    ),
    _of("G45", "The cache is not used.", "the ids that come out", "what the model is given", generating(past_ignored)),
    _of(
        "G46",
        "All samples share one stream of numbers.",
        "one sample",
        "2 samples against 7",
        generating(streams=one_stream_for_all),
    ),
    _of(
        "G47",
        "All samples have the same numbers.",
        "one sample",
        "two samples",
        generating(streams=same_stream_for_each),
    ),
    _of("G48", "The numbers are not seeded.", "temperature 0", "any other", generating(streams=unseeded)),
    _of(
        "G49",
        "The logits of the first row are read for all.",
        "one sample",
        "two samples",
        generating(last=row_0_for_all),
    ),
    _of(
        "G50",
        "The penalty does not see the prompt.",
        "no penalty",
        "a penalty and a token of the prompt",
        generating(history=history_without_prompt),
    ),
    _of(
        "G51",
        "The penalty sees the window only.",
        "a sequence that fits",
        "one that does not",
        generating(history=history_in_the_window),
    ),
    _of(
        "G52",
        "The history of the first sample is everybody's.",
        "one sample",
        "two samples and a penalty",
        generating(history=history_of_the_first),
    ),
    _of(
        "G53",
        "The loop goes on after the last sample has ended.",
        "the ids that come out",
        "how often the model is asked",
        generating(over=never_over),
    ),
    _of(
        "G54",
        "The padding is given out.",
        "one sample",
        "two samples of different lengths",
        generating(cut=not_cut),
    ),
    _of(
        "G55",
        "The stop token is not given out.",
        "no stop token",
        "a sample that ends",
        generating(cut=stop_lost),
    ),
    _of(
        "G56",
        "A stop token in the prompt ends the sequence.",
        "a prompt without one",
        "a prompt with one",
        generating(cut=stops_in_the_prompt),
    ),
    _of("G57", "One token comes even for max_tokens = 0.", "any other number", "max_tokens = 0", one_step_more),
)
