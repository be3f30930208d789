"""What a check found, as a code with numbers; the sentences that people read, in English and Spanish, from one table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LANGUAGES = ("en", "es")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: the code says what, `tensor` the output or gradient in which it shows, `stage` the line
    of the formula in which it happens, `numbers` how much. `sure` tells what is proved from what is guessed.
    """

    code: str
    tensor: str = ""
    stage: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    sure: bool = True

    @property
    def kind(self) -> str:
        """The family of the mistake: a factor, a term, an axis, an option, ... as in `Mistake.kinds`."""
        return SENTENCES[self.code].kind

    def say(self, language: str = "en") -> str:
        """The sentence, with the evidence behind it. KeyError for a language that is not in LANGUAGES."""
        sentence = {"en": SENTENCES[self.code].en, "es": SENTENCES[self.code].es}[language]
        shown = {name: _shown(value) for name, value in self.numbers.items()}
        return sentence.format(tensor=self.tensor, stage=self.stage, **shown)

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "tensor": self.tensor,
            "stage": self.stage,
            "numbers": self.numbers,
            "sure": self.sure,
            "says": {language: self.say(language) for language in LANGUAGES},
        }


@dataclass(frozen=True)
class Sentence:
    """How a code is said. Each placeholder is `tensor`, `stage` or one of the finding's numbers."""

    kind: str
    en: str
    es: str


def _shown(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


SENTENCES: dict[str, Sentence] = {
    "raises": Sentence(
        "special",
        "it raises {error} on a case that is right ({cases} of {of} cases)",
        "lanza {error} en un caso correcto ({cases} de {of} casos)",
    ),
    "wrong_dtype": Sentence(
        "dtype", "{tensor} is {got} where {expected} went in", "{tensor} es {got} aunque entró {expected}"
    ),
    "wrong_shape": Sentence(
        "shape", "{tensor} has shape {got}, expected {expected}", "{tensor} tiene forma {got}; se esperaba {expected}"
    ),
    "missing": Sentence("shape", "{tensor} is not returned", "no se devuelve {tensor}"),
    "conduct": Sentence("conduct", "{what}", "{what_es}"),
    "worst_element": Sentence(
        "value",
        "{tensor}[{index}] is {got}, expected {expected}: {share} times what rounding explains",
        "{tensor}[{index}] es {got}; se esperaba {expected}: {share} veces lo que explica el redondeo",
    ),
}
