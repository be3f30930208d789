"""What is said of an answer: a code with numbers, and the sentences of the codes in both languages."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from equivalence_tests.findings import LANGUAGES, SENTENCES, Finding
from equivalence_tests.law_words import law_phrase

Text = dict[str, str]  # by language


@dataclass(frozen=True)
class Example:
    """One call on which an answer is wrong: what went in, and beside each other what came and what is right.

    Arrays as nested lists, left out where they are too large to be read; `wrong` marks entries, as 0 and 1.
    """

    given: dict[str, Any]
    tensor: str
    got: Any
    expected: Any
    wrong: Any = None


@dataclass(frozen=True)
class Verdict:
    """`code` is "passed", "wrong" (what the kit found then says it) or one of SAID. `excerpt` are lines of the learner's
    file, `formula` the line of the kata's formula that the first finding belongs to, `named` the mistake that it was
    taken for, `equal` others that cannot be told from it."""

    code: str
    numbers: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    sentence: Text = field(default_factory=dict)  # of a mistake that the source foresees
    example: Example | None = None
    excerpt: tuple[str, ...] = ()
    formula: Text = field(default_factory=dict)
    printed: dict[str, Any] = field(default_factory=dict)
    picture: str = ""
    cases: int = 0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.code == "passed"

    @property
    def attempted(self) -> bool:
        """Whether there was an answer to be judged."""
        return self.code not in NO_ATTEMPT

    def say(self, language: str) -> str:
        """The one sentence of it."""
        if self.sentence:
            return self.sentence[language]
        if self.code == "wrong":
            first = self.findings[0]
            return ("" if first.sure else PERHAPS[language]) + said(first, language)
        return SAID[self.code][LANGUAGES.index(language)].format(**self.numbers)

    def texts(self) -> Text:
        return {language: self.say(language) for language in LANGUAGES}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Verdict:
        findings = tuple(Finding(**finding) for finding in told["findings"])
        example = Example(**told["example"]) if told["example"] else None
        return cls(**told | {"findings": findings, "example": example, "excerpt": tuple(told["excerpt"])})


COUNTS = re.compile(r" \([^()]*(?:\bcases\b|\bcasos\b)[^()]*\)$")


def said(finding: Finding, language: str) -> str:
    """A finding's sentence, of a known mistake the mistake alone: how many cases agree with it is nothing for a learner."""
    if finding.code == "known_mistake":
        sentences = [finding.numbers["sentence" if language == "en" else "sentence_es"]]
        sentences += finding.numbers.get("also", {}).get(language, [])
        return f" {OR[language]}: ".join(f"{sentence}." for sentence in sentences)
    if finding.code == "law_broken":
        law = law_phrase(str(finding.numbers["law"]), language)
        return SAID["law"][LANGUAGES.index(language)].format(law=law)
    text = COUNTS.sub("", finding.say(language))
    if not _begins_with_symbol(finding, language):
        text = text[:1].upper() + text[1:]
    return text + "." * (not text.endswith("."))


def _begins_with_symbol(finding: Finding, language: str) -> bool:
    """dOmega, var, mean(X) or a parameter stay as they are written in the code."""
    sentence = SENTENCES[finding.code]
    return (sentence.en if language == "en" else sentence.es).startswith("{") and finding.code not in PHRASED


PHRASED = ("conduct", "repeats")  # whose sentence begins with a phrase that is filled in
OR = {"en": "Or", "es": "O bien"}
PERHAPS = {"en": "perhaps: ", "es": "quizá: "}
NO_ATTEMPT = ("no_file", "unreadable", "not_utf8", "unwritten", "unchanged")
SAID: dict[str, tuple[str, str]] = {
    "passed": ("It is right: {cases} cases agree.", "Está bien: coincide en {cases} casos."),
    "no_file": (
        "{file} is not there; `gemelos dojo start` puts it back and leaves the others alone.",
        "Falta {file}; `gemelos dojo start` lo vuelve a poner y no toca los demás.",
    ),
    "unreadable": ("{file} cannot be read: {error}.", "No se puede leer {file}: {error}."),
    "not_utf8": (
        "{file} is not UTF-8 text: line {line} has the byte {byte}. Save it as UTF-8.",
        "{file} no es texto UTF-8: la línea {line} tiene el byte {byte}. Guárdalo como UTF-8.",
    ),
    "syntax": (
        "{file}, line {line}: Python cannot read this ({error}).",
        "{file}, línea {line}: Python no puede leer esto ({error}).",
    ),
    "unwritten": (
        "It is not written yet: line {line} of {file} waits for your code.",
        "Aún no está escrito: la línea {line} de {file} espera tu código.",
    ),
    "unchanged": (
        "Nothing has changed yet: the bug is still in {file}. The numbers below show what it does; find the line.",
        "Todavía no has cambiado nada: el error sigue en {file}. Abajo ves con números lo que hace; encuentra la línea.",
    ),
    "takes": (
        "Line {line} takes {name} from elsewhere: that is what you are to write yourself.",
        "La línea {line} toma {name} de otro lugar: eso es justo lo que te toca escribir.",
    ),
    "no_function": (
        "{file} has no function {name}: keep the name that it had at the start.",
        "{file} no tiene ninguna función {name}: conserva el nombre que tenía al principio.",
    ),
    "no_value": (
        "{file} gives {name} no value: keep the name that it had at the start.",
        "{file} no le da ningún valor a {name}: conserva el nombre que tenía al principio.",
    ),
    "signature": (
        "{name} cannot be called as at the start: {error}.",
        "A {name} ya no se la puede llamar como al principio: {error}.",
    ),
    "raises": ("Line {line} raises {error}.", "La línea {line} lanza {error}."),
    "raises_elsewhere": (
        "{name} raises {error}.",
        "{name} lanza {error}.",
    ),
    "writes": (
        "Line {line} writes into an array that it was given: work on a copy.",
        "La línea {line} escribe en un arreglo que recibió: trabaja con una copia.",
    ),
    "exits": (
        "Line {line} ends the program ({error}): a function returns its answer, it does not exit.",
        "La línea {line} termina el programa ({error}): una función devuelve su respuesta, no sale del programa.",
    ),
    "recursion": (
        "Line {line} calls itself without end (RecursionError).",
        "La línea {line} se llama a sí misma sin fin (RecursionError).",
    ),
    "memory": (
        "Line {line} asks for too much memory (MemoryError): more than {limit} GiB.",
        "La línea {line} pide demasiada memoria (MemoryError): más de {limit} GiB.",
    ),
    "hangs": (
        "No answer after {seconds:g} s: line {line} was still running. Does a loop not end?",
        "Sin respuesta tras {seconds:g} s: seguía en la línea {line}. ¿Hay un bucle que no acaba?",
    ),
    "hangs_somewhere": (
        "No answer after {seconds:g} s. Does a loop not end?",
        "Sin respuesta tras {seconds:g} s. ¿Hay un bucle que no acaba?",
    ),
    "ends_process": (
        "Your code ended the whole process ({how}): a function returns its answer.",
        "Tu código terminó el proceso entero ({how}): una función devuelve su respuesta.",
    ),
    "returns": (
        "{name} returned {got}; it is to return {expected}.",
        "{name} devolvió {got}; debe devolver {expected}.",
    ),
    "changes_arguments": (
        "{name} changes its argument {argument}: work on a copy.",
        "{name} modifica su argumento {argument}: trabaja con una copia.",
    ),
    "differs": (
        "{place} is {got}, but {expected} is right.",
        "{place} es {got}, pero lo correcto es {expected}.",
    ),
    "predicted": ("{place} is not {got}.", "{place} no es {got}."),
    "more_digits": (
        "{place} is {got}: right so far, but give {digits} decimals.",
        "{place} es {got}: va bien, pero da {digits} decimales.",
    ),
    "law": ("A law does not hold: {law}.", "No se cumple una ley: {law}."),
    "steps": (
        "It is right, but not faster yet: Python takes {small} steps for small arrays and {large} for larger ones. "
        "With operations on whole arrays the two are the same.",
        "Está bien, pero aún no es más rápido: Python da {small} pasos con arreglos pequeños y {large} con otros mayores. "
        "Con operaciones sobre arreglos enteros serían los mismos.",
    ),
    "holds": (
        "It is right, but at n = {n} it holds {peak:.1f} MiB at once, and a single n x n array is {limit:.1f} MiB: never "
        "make one.",
        "Está bien, pero con n = {n} ocupa {peak:.1f} MiB a la vez, y un solo arreglo de n x n ocupa {limit:.1f} MiB: no "
        "crees ninguno.",
    ),
    "statements": (
        "It is right, but {name} has {got} statements: it can be said in {limit}.",
        "Está bien, pero {name} tiene {got} instrucciones: se puede decir en {limit}.",
    ),
    "defect": (
        "This is a defect of the dojo, not of your code: {error}",
        "Esto es un defecto del dojo, no de tu código: {error}",
    ),
}
