"""What a part is asked so that a known mistake can be told by its answers: every call that the laws make of the reference,
and, where a part is a class or keeps something, small scripts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.implementations import NotOffered
from equivalence_tests.parts import PARTS
from equivalence_tests.parts.outside.adapters import reference_of
from equivalence_tests.parts.outside.answers import Answer, flat
from equivalence_tests.parts.outside.scripts import SCRIPTS
from equivalence_tests.parts.outside.words import short

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
COSINE, WARM = "falls_along_half_a_cosine", "warms_up_in_equal_steps"
MORE: dict[str, tuple[Call, ...]] = {  # for those that take less than the reference
    "learning_rate": tuple(
        (COSINE, (step,), {"peak": 1.0, "warmup_steps": warm, "total_steps": total, "floor": floor})
        for warm, total, floor in ((0, 5, 0.0), (2, 6, 0.0), (3, 9, 0.1))
        for step in range(total + 2)
    )
    + tuple((WARM, (step,), {"peak": 1.0, "warmup_steps": 4}) for step in range(7)),
}
MOST = 250  # calls of one law: of more, as many are asked evenly
SCRIPTED = (
    "Tokenizer",
    "TextDataset",
    "read_texts",
    "checkpoint",
    "train_model",
    "evaluate",
    "generate_tokens",
)  # no plain calls


@dataclass(frozen=True)
class Question:
    """`shown` is the call in words, `size` how long it is: of several that differ the shortest is told."""

    law: str
    shown: str
    ask: Callable[[Any], Answer | None]

    @property
    def size(self) -> int:
        return len(self.shown)


def asked(question: Question, part: Any) -> Answer | None:
    """The answer; None if the part does not offer what is asked for."""
    np.random.seed(7)  # noqa: NPY002  # so that draws from the global state are the same
    try:
        return question.ask(part)
    except NotOffered:
        return None
    except BaseException as error:
        reraise_interrupt(error)
        return {"raises": True}


@cache
def questions_of(part: str) -> tuple[Question, ...]:
    scripts = [Question(law, shown, _script(script)) for law, shown, script in SCRIPTS.get(part, ())]
    if part in SCRIPTED:
        return tuple(scripts)
    by_law: dict[str, list[Question]] = {}
    for question in _recorded(part):
        by_law.setdefault(question.law, []).append(question)
    return (*(question for each in by_law.values() for question in _spread(each)), *scripts)


def _spread(questions: list[Question]) -> list[Question]:
    step = max(1.0, len(questions) / MOST)
    return [questions[int(i * step)] for i in range(min(MOST, len(questions)))]


def _script(script: Callable[[Any], Any]) -> Callable[[Any], Answer]:
    return lambda part: flat(script(part), "answer")


def _recorded(part: str) -> Iterator[Question]:
    """The calls that the laws make of the reference, each once."""
    right = reference_of(part)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for law in PARTS[part]:

        def recorder(*args: Any, law: str = law.__name__, **named: Any) -> Any:
            calls.append((law, *copy.deepcopy((args, named))))
            return right(*args, **named)

        law(recorder)
    seen = set()
    for law_name, args, named in (*calls, *MORE.get(part, ())):
        shown = f"{part}({_arguments(args, named)})"
        key = _key((args, named))
        if key not in seen:
            seen.add(key)
            yield Question(law_name, shown, _call(args, named))


def _key(value: Any) -> str:
    leaves = flat(value)
    return repr([(name, x.tobytes() if isinstance(x, np.ndarray) else x) for name, x in leaves.items()])


def _arguments(args: tuple[Any, ...], named: dict[str, Any]) -> str:
    return ", ".join([*map(_word, args), *(f"{name}={_word(value)}" for name, value in named.items())])


def _word(value: Any) -> str:
    if isinstance(value, np.ndarray | int | float | str | bytes | list | tuple | type(None)):
        return short(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_word(each)}" for name, each in list(value.items())[:4]) + "}"
    if isinstance(value, np.random.Generator):
        return "rng"
    return short(value) if "object at" not in repr(value) and "<function" not in repr(value) else type(value).__name__


def _call(args: tuple[Any, ...], named: dict[str, Any]) -> Callable[[Any], Answer]:
    def ask(part: Any) -> Answer:
        own_args, own_named = copy.deepcopy((args, named))
        value = part(*own_args, **own_named)
        given = list(_arrays((own_args, own_named)))
        shared = any(np.shares_memory(x, y) for x in _arrays(value) for y in given)
        told = flat(value, "answer") | flat((*own_args, own_named), "given")
        return {name: x for name, x in told.items() if " keys" not in name or name.startswith("answer")} | {
            "shares memory": shared,
            "dtypes": ", ".join(x.dtype.name for x in _arrays(value)),
            "type": type(value).__name__,
        }

    return ask


def _arrays(value: Any) -> Iterator[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _arrays(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _arrays(each)
