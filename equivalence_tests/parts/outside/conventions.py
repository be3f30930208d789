"""What is another habit and no mistake: known entries that are documented elsewhere, schedules of other libraries, and the
laws that only the reference promises to keep."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

from equivalence_tests.mistakes import PART_MISTAKES, Mistake
from equivalence_tests.parts.outside.adapters import reference_of
from reference_numpy import generate

# Entries of the library that other libraries document as their own rule.
DOCUMENTED = frozenset(
    {
        "ADW-01",  # TensorFlow's "epsilon hat"; the last form of section 2 in Kingma and Ba
        "O23",  # tf.clip_by_global_norm
        "M131",  # torch.nn.utils.clip_grad_norm_ squares as they are
        "M132",
        "O25",  # torch clips in place
        "O26",
        "M147",  # transformers keeps every token that equals the k-th
        "M150",  # llama's sample_top_p
        "G18",
        "G17",
        "M126",
        "G42",
        "G05",
        "T73",
    }
)

# Laws that bad input is refused, and what else the contract asks of the reference alone.
STRICT = frozenset(
    {
        "refuses_bad_input_and_then_changes_nothing",
        "refuses_what_has_no_norm",
        "refuses_what_is_no_plan",
        "ids_outside_the_vocabulary_are_refused",
        "what_is_no_text_is_refused",
        "a_csv_that_would_lose_text_is_refused",
        "what_cannot_be_split_is_refused",
        "the_window_is_the_end",
        "a_wrong_past_is_refused",
        "a_state_of_another_batch_is_refused",
        "refuses_a_damaged_file",
        "refuses_a_file_with_other_tensors",
        "refuses_what_is_no_checkpoint",
        "refuses_to_save_what_could_not_be_read_again",
    }
)
# Laws at whose edge right implementations differ: broken, they are told, and no verdict hangs on them.
EDGES = frozenset(
    {
        "p_may_be_a_partial_sum",
        "p_of_1_is_everything",
        "returns_new_arrays",
        "counts_a_tied_array_once",
        "what_is_certain_is_chosen",
    }
)


def _transformers(
    step: int, *, peak: float, warmup_steps: int = 0, total_steps: int | None = None, floor: float = 0.0
) -> float:
    """get_cosine_schedule_with_warmup: step / warm-up, and the cosine from there to step total."""
    if step < warmup_steps:
        return peak * step / warmup_steps
    if total_steps is None:
        return peak
    share = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return floor + (peak - floor) * max(0.0, 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0))))


def _nano(first: int, more: int) -> Any:
    """nanoGPT's get_lr: (step + first) / (warm-up + more), then the cosine from the warm-up to step total."""

    def rate(
        step: int, *, peak: float, warmup_steps: int = 0, total_steps: int | None = None, floor: float = 0.0
    ) -> float:
        if step < warmup_steps:
            return peak * (step + first) / (warmup_steps + more)
        if total_steps is None:
            return peak
        if step > total_steps:
            return floor
        share = (step - warmup_steps) / max(1, total_steps - warmup_steps)
        return floor + (peak - floor) * 0.5 * (1.0 + math.cos(math.pi * share))

    return rate


def _other(id: str, sentence: str, forward: Any) -> Mistake:
    return Mistake(id, "learning_rate", sentence, "", "", forward)


OTHERS: dict[str, tuple[Mistake, ...]] = {
    "learning_rate": (
        _other(
            "LRS-01",
            "The warm-up is step / warmup_steps and the cosine ends at total_steps (transformers).",
            _transformers,
        ),
        _other("LRS-02", "The warm-up is (step + 1) / warmup_steps and the cosine ends at total_steps.", _nano(1, 0)),
        _other(
            "LRS-03",
            "The warm-up is (step + 1) / (warmup_steps + 1) and the cosine ends at total_steps (nanoGPT).",
            _nano(1, 1),
        ),
    )
}


def is_convention(mistake: Mistake) -> bool:
    return mistake.id in DOCUMENTED or mistake.id.startswith("LRS-")


@cache
def library(part: str) -> list[Mistake]:
    """The known mistakes of a part, and the other habits that have a name."""
    if part == "generate_tokens":
        return [_through_tokens(mistake) for mistake in library("generate_ids")]
    return [*(each for each in PART_MISTAKES.values() if each.op == part), *OTHERS.get(part, ())]


def _through_tokens(mistake: Mistake) -> Mistake:
    """generate_tokens on top of a broken generate_ids."""

    def generate_tokens(*args: Any, **named: Any) -> Any:
        with patch.object(generate, "generate_ids", mistake.forward):
            return reference_of("generate_tokens")(*args, **named)

    return replace(mistake, op="generate_tokens", forward=generate_tokens)
