"""A tiny GPT, trained on a few tales by the learner's own backward: what the last kata is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.dojo.guard import Guard
from equivalence_tests.dojo.judging import Answer
from reference_numpy import GPTConfig, adamw_step, clip_gradients, generate_tokens, gpt_step, init_gpt
from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import TextDataset, batches, inputs_and_targets, read_texts
from reference_numpy.sampling import SamplingConfig

TALES, LENGTH, BATCH = 8, 33, 8  # few: so that it learns them in seconds
STEPS, RATE, CLIP, SEED = 300, 1e-2, 1.0, 0
WIDTH, TEMPERATURE = 32, 0.5
PROMPT, WRITTEN = "Había una vez", 40  # tokens


def train(answer: Answer, guard: Guard, watch: Callable[[str], None]) -> dict[str, Any]:
    """The losses, and how a tale goes on after the training."""
    module = guard.load(compile(answer.text, str(answer.path), "exec", dont_inherit=True))
    forward, backward = (guard.wrap(getattr(module, name)) for name in answer.functions)
    data = TextDataset(read_texts(corpus_path())[:TALES], LENGTH, lower=True)
    tokenizer = data.tokenizer
    sizes = GPTConfig(
        vocab_size=tokenizer.vocab_size,
        context_window=LENGTH - 1,
        embedding_dim=WIDTH,
        num_layers=2,
        num_heads=2,
        head_dim=WIDTH // 2,
        ff_factor=2,
        dropout=0.0,
    )
    rng = np.random.default_rng(SEED)
    params, state = init_gpt(sizes, rng, np.float64), {}  # type: dict[str, Any], dict[str, Any]
    losses: list[float] = []
    while len(losses) < STEPS:
        for batch in batches(data, BATCH, rng):
            ids, targets = inputs_and_targets(batch)
            loss, cache = forward(params, ids, targets, sizes, ignore_index=tokenizer.pad_id)
            grads, _ = clip_gradients(backward(1.0, cache), CLIP)
            adamw_step(params, grads, state, lr=RATE * (1.0 - len(losses) / STEPS))
            losses.append(float(loss))
            watch(f"{len(losses)} of {STEPS}, {losses[-1]:.2f}")
            if len(losses) == STEPS:
                break
    sampling = SamplingConfig(temperature=TEMPERATURE, max_tokens=WRITTEN)
    step = partial(_step, params, sizes)
    text = generate_tokens(step, tokenizer, PROMPT, sampling, seed=SEED, context_window=LENGTH - 1)[0]
    return {"losses": losses, "text": text, "parameters": sum(p.size for p in params.values())}


def _step(params: Any, sizes: GPTConfig, ids: Any, past: Any) -> Any:
    return gpt_step(params, ids, sizes, past)
