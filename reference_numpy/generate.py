"""Text out of a language model: token after token, several samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from reference_numpy import _arguments, _check
from reference_numpy._check import Array
from reference_numpy.sampling import LOGITS, SamplingConfig, choose, probabilities, token_ids
from reference_numpy.tokenizer import Tokenizer


class Step(Protocol):
    """What a model offers: ids (B, n) and its past -> logits (B, n, v), past

    `past` is None at first, and otherwise what the step itself returned: its own business. `gpt_step` with its parameters
    and its configuration bound, `partial(gpt_step, params, config=config)`, is a step.
    """

    def __call__(self, ids: Array, /, past: Any) -> tuple[Array, Any]: ...


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
) -> list[list[int]]:
    """id_{t+1} = choose(probabilities(logits_t, id_0 ... id_t), uniform_{t+1}), until an id of `stop` or max_tokens

    prompt: (t,) ids, the same for all samples; the answer: for each sample its prompt and what it added, up to and with
    its stop token. A stop token inside the prompt stops nothing.

    Sample s takes one number a token from `default_rng([rng_seed, s])`, whatever others are drawn beside it and however
    long those become. All samples run as one batch; one that has ended is fed `pad` until the last ends too.

    The prompt goes in at once, then one token a step through `past`. Once the sequence is longer than context_window,
    every step is given its last context_window tokens afresh, with no past and so with positions from 0: the answer is
    always that of the full forward on the last tokens. None (an RNN) is no limit. A step without a cache returns None for
    its past and is given everything each time. The repetition penalty and the n-grams see the whole sequence.

    Source 2, which decodes one sequence without a cache.
    Raises as `probabilities` does, ValueError for an empty prompt, ids outside the vocabulary, or logits of another shape.
    """
    samples = _arguments.integer("samples", samples, 1)
    seed = _arguments.integer("rng_seed", rng_seed, 0)
    pad = _arguments.integer("pad", pad, 0)
    stops = set(token_ids("stop", stop).tolist())
    start = token_ids("prompt", prompt)
    if start.size == 0:
        raise ValueError("prompt: 0 ids came, expected at least 1")
    window = None if context_window is None else _arguments.integer("context_window", context_window, 1)
    streams = [np.random.default_rng([seed, s]) for s in range(samples)]
    sequences = np.tile(start, (samples, 1))
    lengths = np.full(samples, start.size + sampling.max_tokens)
    past = None
    for length in range(start.size, start.size + sampling.max_tokens):
        running = lengths > length
        if not running.any():
            break
        ids, past = _next_input(sequences, past, window)
        logits, past = step(ids, past=past)
        last = _last_logits(logits, ids, pad)
        chosen = np.full((samples, 1), pad)
        for s in np.flatnonzero(running):
            chosen[s] = choose(probabilities(last[s], sequences[s], sampling), streams[s].random())
            if int(chosen[s, 0]) in stops:
                lengths[s] = length + 1
        sequences = np.concatenate([sequences, chosen], 1)  # a new array: a step may have kept what it was given
    return [sequence[:length].tolist() for sequence, length in zip(sequences, lengths, strict=True)]


def generate_tokens(
    step: Step,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: SamplingConfig,
    *,
    seed: int = 0,
    samples: int = 1,
    context_window: int | None,
) -> list[str]:
    """The prompt, as the tokenizer prepares it, and how each sample goes on; without special tokens

    The model is given <BOS> and the prompt, which may be empty. <UNK>, <BOS> and <PAD> are banned, beside what
    `sampling` bans; <EOS> ends a sample (and so would <PAD>).

    Source 2. Raises as `generate_ids` does, ValueError for a prompt none of whose words and signs is known.
    """
    encoded = tokenizer.encode(prompt)
    known = tokenizer.decode_text(encoded).strip()
    if prompt.strip() and not known:
        shown = repr(prompt if len(prompt) <= 40 else f"{prompt[:40]}...")
        raise ValueError(f"prompt: {shown} came, expected at least one word or sign that the vocabulary knows")
    start = [tokenizer.bos_id, *encoded]
    unwanted = {tokenizer.unk_id, tokenizer.bos_id, tokenizer.pad_id}
    sequences = generate_ids(
        step,
        start,
        replace(sampling, banned=tuple(sorted(unwanted.union(sampling.banned)))),
        stop=(tokenizer.eos_id, tokenizer.pad_id),
        pad=tokenizer.pad_id,
        rng_seed=_arguments.integer("seed", seed, 0),
        samples=samples,
        context_window=context_window,
    )
    beginning = tokenizer.prepare(prompt)  # not decoded: an unknown word stays as it was typed
    return [beginning + tokenizer.decode_text(sequence[len(start) :]) for sequence in sequences]


def _next_input(sequences: Array, past: Any, window: int | None) -> tuple[Array, Any]:
    """What the next step is given: the last token and the past, or all that the model may see and no past."""
    if window is not None and sequences.shape[1] > window:
        return sequences[:, -window:], None  # a window that moves moves every position, so no key of the past is right
    return (sequences, None) if past is None else (sequences[:, -1:], past)


def _last_logits(logits: Any, ids: Array, pad: int) -> Array:
    """(B, v) logits after the last token of each row."""
    _check.floats("step", LOGITS, logits=logits)
    if logits.ndim != 3 or logits.shape[:2] != ids.shape:
        raise ValueError(f"step: logits has shape {logits.shape}, expected ({', '.join(map(str, ids.shape))}, v)")
    if pad >= logits.shape[-1]:
        raise ValueError(f"pad: {pad} came, expected an id from 0 to {logits.shape[-1] - 1}")
    last: Array = logits[:, -1]
    return last
