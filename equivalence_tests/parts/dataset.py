"""Laws of the data set: windows and rows."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from equivalence_tests.parts._guard import not_refused, told
from equivalence_tests.parts._part import Law
from reference_numpy.tokenizer import Tokenizer

WORDS = [f"p{letter}" for letter in "abcdefghijklmnñopqrstuvwxyz"]


def _story(tokens: int) -> str:
    """A story of that many tokens, words and spaces by turns."""
    return " ".join(WORDS[n % len(WORDS)] for n in range((tokens + 1) // 2)) + " " * (tokens % 2 == 0)


def _whole(tokenizer: Any, story: str) -> list[int]:
    return [tokenizer.bos_id, *tokenizer.encode(story), tokenizer.eos_id]


def every_token_but_the_first_is_a_target_once(part: Any) -> str:
    """Windows joined at the token they share are <BOS> story <EOS>, for every length about the edges of a window."""
    for length in (2, 3, 4, 7):
        for tokens in range(1, 3 * length + 2):
            story = _story(tokens)
            try:
                dataset = part([story], length)
            except ValueError as error:
                return f"{tokens} tokens in windows of {length} were refused: {error}"
            windows = [row.tolist() for row in dataset.data]
            joined = windows[0] + [id for row in windows[1:] for id in row[1:]]
            whole = _whole(dataset.tokenizer, story)
            if joined != whole:
                return f"{tokens} tokens in windows of {length}: {windows}, expected {whole} in parts"
            if any(a[-1] != b[0] for a, b in pairwise(windows)):
                return f"{tokens} tokens in windows of {length}: {windows} do not share a token"
            if any(len(row) != length for row in windows[:-1]) or not 2 <= len(windows[-1]) <= length:
                return f"{tokens} tokens in windows of {length}: lengths {[len(row) for row in windows]}"
    return ""


def targets_are_counted(part: Any) -> str:
    """num_tokens is the stories' tokens and one <EOS> each, whatever the length of a window."""
    stories = [_story(tokens) for tokens in (1, 5, 6, 7, 23)]
    for length in (2, 6, 7, 8, 100):
        found = part(stories, length).num_tokens
        if found != 1 + 5 + 6 + 7 + 23 + 5:
            return f"{found} targets in windows of {length}, expected 47"
    return ""


def no_window_holds_two_stories(part: Any) -> str:
    """The windows of several stories are those of each, one after the other; an empty story has none."""
    stories = [_story(tokens) for tokens in (3, 9, 1, 14)]
    together = part([stories[0], "", *stories[1:]], 6)
    apart = [row.tolist() for story in stories for row in part([story], 6, tokenizer=together.tokenizer).data]
    found = [row.tolist() for row in together.data]
    return "" if found == apart else f"windows {found}, expected {apart}"


def a_row_is_padded_at_its_end_with_a_symbol_of_its_own(part: Any) -> str:
    """dataset[i] is int64 of exactly seq_length: the window, then pad_id, which no window holds."""
    dataset = part([_story(tokens) for tokens in (1, 4, 5, 6, 9)], 7)
    for n, window in enumerate(dataset.data):
        row = dataset[n]
        if row.dtype != np.int64 or row.shape != (7,):
            return f"row {n} is {row.dtype} of shape {row.shape}, expected int64 (7,)"
        expected = window.tolist() + [dataset.tokenizer.pad_id] * (7 - len(window))
        if row.tolist() != expected:
            return f"row {n} is {row.tolist()}, expected {expected}"
        if dataset.tokenizer.pad_id in window:
            return f"window {n} holds pad_id"
    return ""


def the_rows_are_a_sequence(part: Any) -> str:
    """len is the number of windows, an index outside is an IndexError, and so iterating ends."""
    dataset = part([_story(tokens) for tokens in (1, 9)], 5)
    count = len(dataset.data)
    if len(dataset) != count:
        return f"len {len(dataset)} of {count} windows"
    for n in (count, -count - 1):
        try:
            return f"row {n} of {count} is {dataset[n].tolist()}"
        except IndexError:
            pass
    return ""


def a_row_belongs_to_the_caller(part: Any) -> str:
    """Writing into dataset[i] changes nothing in the data set, short windows and full ones."""
    dataset = part([_story(tokens) for tokens in (1, 3, 9)], 5)
    before = [row.tolist() for row in dataset.data]
    for n in range(len(dataset)):
        dataset[n][:] = 0
    return "" if [row.tolist() for row in dataset.data] == before else "the data set has changed with a row"


def the_source_truncates(part: Any) -> str:
    """truncate = True: the first seq_length ids of <BOS> story <EOS>, so that a cut story has no <EOS>."""
    for tokens in range(1, 12):
        story = _story(tokens)
        dataset = part([story], 6, truncate=True)
        found, expected = [row.tolist() for row in dataset.data], [_whole(dataset.tokenizer, story)[:6]]
        if found != expected:
            return f"{tokens} tokens: {found}, expected {expected}"
    return ""


def a_tokenizer_given_is_used(part: Any) -> str:
    """Held-out stories are told in the training vocabulary; unknown_rate is the share of their targets, <EOS> included."""
    train = part(["el gato come", "el perro come"], 4)
    held = part(["el zorro", "la casa come"], 4, tokenizer=train.tokenizer)
    if held.tokenizer is not train.tokenizer:
        return "the held-out set has a vocabulary of its own"
    targets = 4 + 6
    if held.unknown_rate != 3 / targets or train.unknown_rate != 0.0:
        return f"unknown rate {held.unknown_rate}, expected 3 of {targets} targets; in training {train.unknown_rate}"
    return ""


def options_reach_the_tokenizer(part: Any) -> str:
    """The vocabulary is the one that Tokenizer.from_texts makes with them; beside a tokenizer they are refused."""
    stories = ["Él ESTÁ, n\u0303 y ñ", "él está aquí"]
    for options in ({}, {"lower": True}, {"strip_accents": True}, {"nfc": True}, {"min_frequency": 2}):
        expected = Tokenizer.from_texts(stories, **options)
        found = part(stories, 8, **options).tokenizer
        if (found.vocabulary, found.options()) != (expected.vocabulary, expected.options()):
            return f"{options}: vocabulary {found.vocabulary}, expected {expected.vocabulary}"
        told = not_refused(partial(part, stories, 8, tokenizer=expected, **options), "tokenizer")
        if options and told:
            return f"a tokenizer and {options}: {told}"
    return ""


PARTS: dict[str, tuple[Law, ...]] = {
    "TextDataset": told(
        every_token_but_the_first_is_a_target_once,
        targets_are_counted,
        no_window_holds_two_stories,
        a_row_is_padded_at_its_end_with_a_symbol_of_its_own,
        the_rows_are_a_sequence,
        a_row_belongs_to_the_caller,
        the_source_truncates,
        a_tokenizer_given_is_used,
        options_reach_the_tokenizer,
    ),
}
