"""Judge a user's own part (optimizer, clipping, schedule, sampler, tokenizer, data set, cache, generation, checkpoint,
training) as it is written: its own signature, in place or returned, and name what is wrong by its answers."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from typing import Any

from equivalence_tests.checks import attempt
from equivalence_tests.findings import Finding
from equivalence_tests.mistakes import Mistake, quiet
from equivalence_tests.part_names import ALIASES
from equivalence_tests.parts import PARTS
from equivalence_tests.parts.outside import adamw, adamw_styles, adapters, classes, conventions, pair
from equivalence_tests.parts.outside.adapters import Adapted
from equivalence_tests.parts.outside.answers import Answer, answers_apart
from equivalence_tests.parts.outside.naming import Match, matches
from equivalence_tests.parts.outside.questions import Question, asked, questions_of
from equivalence_tests.parts.outside.report import Judged, law_finding, noted, report_of
from equivalence_tests.parts.outside.showing import differs
from equivalence_tests.report import Report

CLASSES = ("Tokenizer", "TextDataset")

Watch = Callable[[str], None]


def check_part(
    function: Any, like: str, *, label: str = "", strict: bool = False, watch: Watch = lambda _: None
) -> Report:
    """Hold a function, or a class, against a part. ValueError, one line with an example, if it cannot be called as one.

    `strict` asks for what only the reference promises too: bad input is refused, nothing is changed in place, and the
    conventions are the reference's.
    """
    part = ALIASES.get(like, like)
    label = label or getattr(function, "__name__", type(function).__name__)
    began = time.monotonic()
    with quiet(), redirect_stdout(_NOWHERE):
        judged, found = _judge(function, part, label, strict, watch)
    habits = found[:1] if found and conventions.is_convention(found[0].mistake) and not strict else []
    return report_of(label, like, judged, found, habits, time.monotonic() - began)


def _judge(function: Any, part: str, label: str, strict: bool, watch: Watch) -> tuple[Judged, list[Match]]:
    if part == "adamw_step":
        return _adamw(function, label, strict, watch)
    if part == "checkpoint":
        return _checkpoint(function, label, strict, watch)
    if part in CLASSES:
        return _answers(classes.adapted(part, function, label, strict), part, strict, watch)
    if part == "penalise" and not strict:
        told = adapters.adapted(part, function, label, strict)
        if adapters.counts_once(function, label):
            told.note("part_once", once=True)
        return _answers(told, part, strict, watch)
    return _answers(adapters.adapted(part, function, label, strict), part, strict, watch)


# Parts that are asked questions


def _answers(told: Adapted, part: str, strict: bool, watch: Watch) -> tuple[Judged, list[Match]]:
    judged = Judged()
    _laws(told, part, strict, judged, watch)
    watch("law answers")
    questions = questions_of(part)
    right = right_answers(part)
    got = [_own_answer(question, told) for question in questions]
    wrong: list[tuple[Question, Answer, Answer]] = []
    for question, mine, exact in zip(questions, got, right, strict=True):
        if mine is None or exact is None or exact.get("raises"):
            continue
        judged.cases += 1
        broken = _wrong(mine, exact)
        if question.law in conventions.STRICT and not strict:
            continue
        edge = question.law in conventions.EDGES and not strict
        judged.count(question.law, broken and not edge)
        if broken and edge and question.law not in judged.edges:
            judged.edges.append(question.law)
        if broken and not edge:
            wrong.append((question, mine, exact))
    _refuse_what_never_ran(told, part, got, right)
    if wrong:
        question, mine, exact = min(wrong, key=lambda each: each[0].size)
        judged.faults.insert(0, differs(question.shown, mine, exact, len(wrong), judged.cases))
    found: list[Match] = []
    if judged.faults or judged.edges:
        watch("diagnosis: naming")
        told_apart = [not judged.faults or strict or question.law not in conventions.EDGES for question in questions]
        kept = [answer if asked_for else None for answer, asked_for in zip(got, told_apart, strict=True)]
        found = _named(part, strict, kept, told)
    _tell(told, judged)
    return judged, found


def _own_answer(question: Question, told: Adapted) -> Answer | None:
    told.replaced = False
    answer = asked(question, told.part)
    return None if told.replaced else answer


def _wrong(mine: Answer, exact: Answer) -> bool:
    only = frozenset(name for name in exact if name.startswith("answer"))
    if mine.get("raises"):
        return True
    return answers_apart(mine, exact, only) > 1.0 or any(n.startswith("answer") and n not in exact for n in mine)


def _laws(told: Adapted, part: str, strict: bool, judged: Judged, watch: Watch) -> None:
    for law in PARTS.get(part, ()):
        name = law.__name__
        if name in conventions.STRICT and not strict:
            continue
        watch(f"law {name}")
        before = told.refused
        what = attempt(partial(law, told.part))
        if told.refused > before and (not what or "NotOffered" in what):
            continue  # it stopped at something that the signature does not take
        edge = name in conventions.EDGES and not strict
        judged.count(name, bool(what) and not edge)
        if what and edge:
            judged.edges.append(name)
        elif what:
            judged.faults.append(law_finding("part_law", name))


def _refuse_what_never_ran(
    told: Adapted, part: str, got: Sequence[Answer | None], right: Sequence[Answer | None]
) -> None:
    """ValueError if every single call raises, or none could be made: then it is the call that is wrong."""
    pairs = [(g, r) for g, r in zip(got, right, strict=True) if r is not None and not r.get("raises")]
    if any(g is not None and not g.get("raises") for g, _ in pairs):
        return
    question = next((q for q, r in zip(questions_of(part), right, strict=True) if r and not r.get("raises")), None)
    raised = attempt(lambda: question.ask(told.part) and "" if question else "")
    why = raised.removeprefix("raised ") or f"it does not take {', '.join(sorted(told.lacking))}"
    raise ValueError(f"{told.shown}: no call of it runs ({why}), expected {_example(part)}")


def _example(part: str) -> str:
    if part == "checkpoint":
        return pair.EXAMPLE
    return classes.example_of(part) if part in CLASSES else adapters.example_of(part)


def explained(function: Any, part: str) -> tuple[list[Mistake], Finding | None]:
    """Of a function in the reference's own signature: the known mistakes that give its answers, the best first, and the
    shortest call that is wrong."""
    with quiet(), redirect_stdout(_NOWHERE):
        if part == "adamw_step":
            style = adamw_styles.contract_style(function)
            found = _named_adamw(style, strict=True) or _named_adamw(style, strict=False)
            faults = adamw.faults(style, lambda _: None)
            return [match.mistake for match in found], faults[0].finding if faults else None
        questions, right = questions_of(part), right_answers(part)
        for strict in (True, False):
            told = adapters.adapted(part, function, part, strict)
            got = [_own_answer(question, told) for question in questions]
            found = _named(part, strict, got, told)
            if found:
                break
        rows = [(q, g, r) for q, g, r in zip(questions, got, right, strict=True) if g and r and not r.get("raises")]
        wrong = [row for row in rows if _wrong(row[1], row[2])]
    if not wrong:
        return [match.mistake for match in found], None
    question, mine, exact = min(wrong, key=lambda row: row[0].size)
    return [match.mistake for match in found], differs(question.shown, mine, exact, len(wrong), len(rows))


def _named(part: str, strict: bool, got: Sequence[Answer | None], told: Adapted) -> list[Match]:
    return matches(
        got,
        right_answers(part),
        conventions.library(part),
        lambda mistake, i: _answer_of_mistake(part, strict, mistake, i),
        told.hidden,
    )


def _named_adamw(style: adamw_styles.Style, strict: bool) -> list[Match]:
    """Whether NaN is refused, whose arrays change and in which dtype is asked of the reference's own way alone."""
    right = adamw.right_trace(style.steady)
    return matches(
        _leaves(adamw.trace(style), style.steady),
        [{name: x} for name, x in right.items()],
        conventions.library("adamw_step"),
        lambda mistake, i: _adamw_answers(mistake, style.steady)[i],
        () if strict else ("of NaN",),
    )


def _tell(told: Adapted, judged: Judged) -> None:
    judged.notes.append(Finding("part_called", numbers={"call": told.shown}))
    judged.notes += noted(told.noted)
    judged.not_asked = tuple(sorted(told.lacking))


@cache
def right_answers(part: str) -> tuple[Answer | None, ...]:
    return tuple(asked(question, _reference(part)) for question in questions_of(part))


def _reference(part: str) -> Any:
    return pair.REFERENCE if part == "checkpoint" else adapters.reference_of(part)


_ANSWERS: dict[tuple[str, str, bool, int], Answer | None] = {}


def _answer_of_mistake(part: str, strict: bool, mistake: Mistake, i: int) -> Answer | None:
    """A known mistake is asked in the same way as the candidate, each question once."""
    key = (part, mistake.id, strict, i)
    if key not in _ANSWERS:
        _ANSWERS[key] = _asked_mistake(part, strict, mistake, questions_of(part)[i])
    return _ANSWERS[key]


def _asked_mistake(part: str, strict: bool, mistake: Mistake, question: Question) -> Answer | None:
    if strict or part in (*CLASSES, "checkpoint"):
        return asked(question, mistake.forward)
    return _own_answer(question, _adapted_mistake(part, mistake))


@cache
def _adapted_mistake(part: str, mistake: Mistake) -> Adapted:
    return adapters.adapted(part, mistake.forward, mistake.id, strict=False)


# AdamW


@cache
def _adamw_answers(mistake: Mistake, steady: bool) -> Sequence[Answer | None]:
    return _leaves(adamw.trace_of_mistake(mistake.forward, steady), steady)


def _leaves(trace: Answer, steady: bool) -> list[Answer | None]:
    """An answer for every leaf of the reference's trace."""
    return [{name: trace[name]} if name in trace else None for name in adamw.right_trace(steady)]


def _adamw(function: Any, label: str, strict: bool, watch: Watch) -> tuple[Judged, list[Match]]:
    judged = Judged()
    contract = not inspect.isclass(function) and adamw.is_contract(function)
    if contract:
        style = adamw_styles.contract_style(function)
        _laws(Adapted(function, style.shown), "adamw_step", strict, judged, watch)
        faults = adamw.faults(style, watch) if judged.faults else []
        judged.faults = [*(fault.finding for fault in faults), *judged.faults]
    else:
        watch("law gives_the_right_values_of_small_cases")
        style = adamw.style_of(function, label)
        faults = adamw.faults(style, watch)
        judged.faults = [fault.finding for fault in faults]
        for law in adamw.CHECKS:
            judged.count(law, any(fault.law == law for fault in faults))
    judged.cases = sum(cases for cases, _ in judged.rows.values())
    found: list[Match] = []
    if judged.faults:
        watch("diagnosis: naming")
        found = (_named_adamw(style, True) if contract else []) or _named_adamw(style, False)
    judged.notes.append(Finding("part_called", numbers={"call": style.shown}))
    judged.notes += [Finding(word) for word in (*style.words, *(("part_steady",) if style.steady else ()))]
    lacking = {"betas", "epsilon", "weight_decay"} - style.roles - ({"betas"} if "beta1" in style.roles else set())
    judged.not_asked = tuple(sorted(lacking))
    return judged, found


# Checkpoints


def _checkpoint(function: Any, label: str, strict: bool, watch: Watch) -> tuple[Judged, list[Match]]:
    part = pair.contract_of(function)
    if part is None:
        return pair.judge(function, label, watch)
    return _answers(
        Adapted(part, "save_checkpoint(path, checkpoint), load_checkpoint(path)"), "checkpoint", strict, watch
    )


class _Nowhere:
    """Where a candidate's prints go."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


_NOWHERE: Any = _Nowhere()
