"""The dojo's own matrix: every kata's start fails, its solution passes, every known mistake is caught and named.

A mistake is handed in as an answer. Left out are those that nobody could hand in: that lie in accepting bad input, in a
backward where the kata asks for none, that show only with options the kata leaves out, or only in float32.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import SeededDraws
from equivalence_tests.checking import no_watch
from equivalence_tests.checks import attempt
from equivalence_tests.diagnosis.known import answered_alike
from equivalence_tests.dojo import by_op, by_part, more_laws
from equivalence_tests.dojo.judging import Answer, judge, parsed, unwatched
from equivalence_tests.dojo.katas import KATAS, Kata
from equivalence_tests.dojo.message_faults import message_faults
from equivalence_tests.dojo.sharing import library_of, sharing
from equivalence_tests.dojo.sources import source_of
from equivalence_tests.dojo.verdict import Verdict
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Implementation, NotOffered
from equivalence_tests.mistakes import MISTAKES, Mistake, as_implementation, quiet
from equivalence_tests.observe import observe
from equivalence_tests.ops import OPS, Op

BAR = 0.95  # of the mistakes that are to be named
SEARCHED = 240  # cases in which a mistake that was not caught is looked for
ALIKE = 60  # cases on which two mistakes that are one answer the same


@dataclass(frozen=True)
class Handed:
    """What became of one mistake: caught, named rightly, in faultless words; or why it cannot be handed in."""

    id: str
    sentence: str
    caught: bool
    named: bool
    said: str
    left_out: str = ""
    faults: list[str] = field(default_factory=list)  # of the words, in either language


@dataclass(frozen=True)
class Row:
    """One kata: what its start and its solution came to, and its mistakes."""

    kata: str
    start: str
    solution: str
    mistakes: list[Handed] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def counted(self) -> list[Handed]:
        return [each for each in self.mistakes if not each.left_out]

    @property
    def sound(self) -> bool:
        """The start fails and the solution passes."""
        return self.start != "passed" and self.solution == "passed"


def rows_of(names: Sequence[str]) -> list[Row]:
    return [row_of(name) for name in names]


def row_of(name: str) -> Row:
    """The whole of one kata."""
    began = time.monotonic()
    kata = next(kata for kata in KATAS if kata.name == name)
    source = source_of(kata)
    with quiet():
        start, solution = judged_text(kata, source.start, "start"), judged_text(kata, source.solution, "solution")
        mistakes = list(handed_in(kata))
    codes = [verdict.code if verdict.code != "wrong" else verdict.say("en") for verdict in (start, solution)]
    return Row(name, codes[0], codes[1], mistakes, time.monotonic() - began)


def judged_text(kata: Kata, text: str, label: str) -> Verdict:
    """What the kata's judge says of a text, in this process."""
    path = Path(f"{kata.name}_{label}.py")
    answer = parsed(kata, path, text)
    return answer if isinstance(answer, Verdict) else judge(answer, unwatched(path), no_watch)


def handed_in(kata: Kata) -> Iterator[Handed]:
    """Every mistake that belongs to the kata, handed in."""
    source = source_of(kata)
    for number, wrong in enumerate(source.mistakes, 1):
        verdict = judged_text(kata, wrong.code, f"mistake_{number}")
        named = verdict.sentence == wrong.sentence
        yield _handed_over(kata, str(number), wrong.sentence["en"], verdict, named)
    if kata.part:
        for mistake in by_part.mistakes_of(kata.part):
            assert mistake.forward is not None
            verdict = by_part.judged(mistake.forward, kata.part)
            named = mistake.id in verdict.numbers.get("named", ())
            yield _handed_over(kata, mistake.id, mistake.sentence, verdict, named)
    if kata.like:
        for mistake in (mistake for mistake in MISTAKES.values() if mistake.op == kata.like):
            yield _handed(kata, mistake)


def _handed(kata: Kata, mistake: Mistake) -> Handed:
    answer = _solution(kata)
    pair = len(answer.functions) == 2
    if mistake.accepts:
        return _left_out(mistake, LEFT_OUT[0])
    if mistake.forward is None and not pair:
        return _left_out(mistake, LEFT_OUT[1])
    asked = (mistake.id, kata.without, *(str(signature) for signature in _signatures(kata).values()))
    if asked not in _ASKED:  # katas that ask for the same function judge it in the same way
        _ASKED[asked] = _judged(kata, mistake)
    return _ASKED[asked]


_ASKED: dict[tuple[Any, ...], Handed] = {}


def _judged(kata: Kata, mistake: Mistake) -> Handed:
    candidate = as_candidate(kata, mistake)
    verdict = by_op.judged(candidate, source_of(kata).formula, library=library_of(kata.like))
    if verdict.passed:
        why = _why_unseen(candidate, mistake)
        if why:
            return _left_out(mistake, why)
    return _handed_over(kata, mistake.id, mistake.sentence, verdict, _rightly(candidate, mistake, verdict))


def _handed_over(kata: Kata, id: str, sentence: str, verdict: Verdict, named: bool) -> Handed:
    said, faults = verdict.say("en"), message_faults(kata, verdict)
    return Handed(id, sentence, not verdict.passed, named, said, faults=faults)


def _left_out(mistake: Mistake, why: str) -> Handed:
    return Handed(mistake.id, mistake.sentence, False, False, "", why)


@cache
def _solution(kata: Kata) -> Answer:
    answer = parsed(kata, Path(f"{kata.name}_solution.py"), source_of(kata).solution)
    if isinstance(answer, Verdict):
        raise ValueError(f"{kata.name}: the solution cannot be judged: {answer.say('en')}")
    return answer


@cache
def _signatures(kata: Kata) -> dict[str, inspect.Signature]:
    answer = _solution(kata)
    module = unwatched(answer.path).load(compile(answer.text, str(answer.path), "exec", dont_inherit=True))
    return {name: inspect.signature(getattr(module, name)) for name in answer.functions}


def as_candidate(kata: Kata, mistake: Mistake) -> Candidate:
    """A mistake behind the signatures that the kata's solution has."""
    broken = as_implementation(mistake)
    pair = len(_solution(kata).functions) == 2
    op, functions = OPS[kata.like], {}

    def forward(*arguments: Any, **keywords: Any) -> Any:
        answer = broken.forward(kata.like)(*arguments, **keywords)
        return answer if pair or not op.differentiable else answer[0]

    made: list[tuple[str, Callable[..., Any]]] = [(kata.function, forward)]
    if pair:
        backward = broken.backward(kata.like)
        made.append((f"{kata.function}_backward", lambda dY, cache: backward(dY, cache)))
    for name, function in made:
        function.__name__ = name
        function.__signature__ = _signatures(kata)[name]  # type: ignore[attr-defined]
        functions[name] = function
    return sharing(by_op.candidate_of(kata, functions))


def _rightly(candidate: Candidate, mistake: Mistake, verdict: Verdict) -> bool:
    """Itself, one that answers as it does wherever the kata looks, or the stage and the kind that it is labelled with."""
    if not verdict.findings:
        return False
    first: Finding = verdict.findings[0]
    if first.code == "known_mistake":
        names = [first.numbers["id"], *first.numbers["others"]]
        if mistake.id in names:
            return True
        return _alike(candidate, mistake, MISTAKES[names[0]])
    return first.stage in mistake.stages and first.kind in mistake.kinds


def _alike(candidate: Candidate, one: Mistake, other: Mistake) -> bool:
    cases = []
    for index in range(ALIKE):
        try:
            cases.append((candidate.taken(candidate.row.draw(by_op.draws(index), index % 2 == 1)), "float64"))
        except NotOffered:
            continue
    return answered_alike(library_of(one.op), one, other, cases)


LEFT_OUT = (
    "accepts bad input",
    "lies in a backward",
    "is about dtypes alone",
    "needs an option that the kata leaves out",
    "shows in float32 alone",
)


def _why_unseen(candidate: Candidate, mistake: Mistake) -> str:
    """Why nobody could see a mistake in what the kata asks for; nothing if the dojo should have.

    First the kata's own question is put many more times: whatever shows there was missed. Then the whole op is asked, with
    every option: in float64, and in float32.
    """
    if mistake.kinds == ("dtype",):
        return LEFT_OUT[2]
    if _shows(candidate.implementation, more_laws.completed(candidate), candidate, "float64"):
        return ""
    whole, row = as_implementation(mistake), candidate.row
    if candidate.kind == "forward" and row.differentiable and not _outputs_wrong(whole, row):
        return LEFT_OUT[1]
    if _shows(whole, whole, None, "float64", row):
        return LEFT_OUT[3]
    return LEFT_OUT[4] if _shows(whole, whole, None, "float32", row) else ""


def _shows(
    implementation: Implementation,
    lawful: Implementation,
    candidate: Candidate | None,
    dtype: str,
    row: Op | None = None,
) -> bool:
    """Whether some case of the table is wrong, or some law is broken."""
    op = candidate.op if candidate is not None else row
    assert op is not None
    for index in range(SEARCHED // op.every):
        case = op.draw(SeededDraws(np.random.default_rng([4, index])), index % 2 == 1)
        try:
            asked = candidate.taken(case) if candidate is not None else case
            if observe(implementation, op, asked, dtype, index).wrong:
                return True
        except NotOffered:
            continue
    laws = more_laws.laws_of(op.name) if not op.model else []
    draws = range(2 * more_laws.DRAWS)
    return any(attempt(partial(law, lawful, dtype, more_laws.draws_of(draw))) for law in laws for draw in draws)


def _outputs_wrong(whole: Implementation, op: Op) -> bool:
    """Whether what the forward answers is wrong in some case, and not only what the backward makes of it."""
    for index in range(SEARCHED):
        case = op.draw(SeededDraws(np.random.default_rng([4, index])), index % 2 == 1)
        seen = observe(whole, op, case, "float64", index)
        if seen.raised or any(seen.verdicts[name].wrong for name in op.outputs):
            return True
    return False


def enough(rows: Sequence[Row]) -> bool:
    """Every mistake is caught, no message has a fault, enough mistakes are named."""
    counted = [each for row in rows for each in row.counted]
    faultless = all(each.caught and not each.faults for each in counted)
    return faultless and sum(each.named for each in counted) >= BAR * len(counted)
