"""What a check says: the verdict, a row for each property, the findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equivalence_tests.findings import Finding
from equivalence_tests.law_words import law_phrase
from equivalence_tests.observe import Observation
from equivalence_tests.part_words import LAWS_ES

TOLD = 3  # findings that are printed, beside the worst element
EXIT = {"agrees": 0, "wrong": 1, "not judged": 2, "another convention": 3}


# The report's own words, by language.
WORDS: dict[str, dict[str, str]] = {
    "es": {
        "agrees": "coincide",
        "wrong": "está mal",
        "wrong cases": "mal",
        "not judged": "no se pudo juzgar",
        "another convention": "coincide, con otra convención",
        "judged": "casos juzgados",
        "of": "de",
        "property": "propiedad",
        "cases": "casos",
        "verdict": "veredicto",
        "holds": "se cumple",
        "none": "ningún caso",
        "not checked": "no comprobado (su firma no lo acepta)",
        "guess": "quizá: ",
        "note": "nota: ",
        "files": "contraejemplo",
        "largest error": "mayor error",
        "of its budget": "de su margen",
        "agrees in": "coincide en",
        "one token": "una sola posición",
        "one key": "una sola clave",
        "rows with nothing to attend to": "filas sin nada que atender",
        "huge, tiny and far-off numbers": "números enormes, diminutos y lejanos",
        "views that are not contiguous": "vistas no contiguas",
        "with": "con",
        "changes nothing it was given": "no cambia nada de lo que recibe",
        "answers the same when called again": "responde igual al repetir",
        "shares no memory": "no comparte memoria",
        "batches and heads do not meet": "lotes y cabezas no se mezclan",
        "laws": "otras leyes",
        "answers the same in another order": "responde igual en otro orden",
        "runs": "se ejecuta",
        "shape of every gradient": "forma de cada gradiente",
        "a gradient for every operand": "un gradiente por operando",
        "dtype out = dtype in": "el dtype que sale es el que entra",
        "finite answers": "respuestas finitas",
        "where the first NaN or infinity arises": "dónde surge el primer NaN o infinito",
        "purity": "pureza",
        "aliasing": "memoria compartida",
        "repeatability": "repetición",
        "linear in the upstream gradient": "lineal en el gradiente que recibe",
        "layouts": "disposición en memoria",
        "adjoint identity": "identidad del adjunto",
        "gradient": "gradiente",
        "answers the same in a fresh process": "responde igual en un proceso nuevo",
        "batch": "lote",
        "permutation": "permutación",
        "gradient of": "gradiente de",
        **{law.replace("_", " "): words.lower() for law, words in LAWS_ES.items()},
    }
}


@dataclass(frozen=True)
class Property:
    """One thing that was looked at, in how many cases, in how many of them it was wrong, and the first of these.

    `share` is the largest error over its budget and `units` the largest error in units of roundoff, of what agrees.
    """

    name: str
    cases: int
    wrong: int
    what: str = ""
    share: float = 0.0
    units: float = 0.0


@dataclass(frozen=True)
class Report:
    """`verdict` is "agrees", "another convention", "wrong" or "not judged".

    The first finding is the answer, the others support it. `conventions` are those that the candidate follows instead of
    the table's: everything was judged under them. `judged` says, for each tensor, in how many cases it was judged and how
    many were drawn.
    """

    candidate: str
    like: str
    kind: str
    framework: str
    verdict: str
    dtypes: tuple[str, ...] = ()
    cases: int = 0
    rows: tuple[Property, ...] = ()
    findings: tuple[Finding, ...] = ()
    conventions: tuple[Finding, ...] = ()
    judged: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: tuple[Finding, ...] = ()
    not_checked: tuple[str, ...] = ()
    counterexample: Observation | None = None
    digests: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.verdict == "agrees"

    @property
    def exit_code(self) -> int:
        return EXIT[self.verdict]

    def as_json(self) -> dict[str, Any]:
        return {
            "candidate": self.candidate,
            "like": self.like,
            "kind": self.kind,
            "framework": self.framework,
            "verdict": self.verdict,
            "dtypes": list(self.dtypes),
            "cases": self.cases,
            "properties": [vars(row) for row in self.rows],
            "findings": [finding.as_json() for finding in self.findings],
            "conventions": [finding.as_json() for finding in self.conventions],
            "judged": {name: list(counts) for name, counts in self.judged.items()},
            "notes": [finding.as_json() for finding in self.notes],
            "not_checked": list(self.not_checked),
            "files": list(self.files),
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Report:
        """What another process found, but for its counterexample, which lies in `files`."""

        def findings(each: list[dict[str, Any]]) -> tuple[Finding, ...]:
            return tuple(Finding(f["code"], f["tensor"], f["stage"], f["numbers"], f["sure"]) for f in each)

        return cls(
            **{name: told[name] for name in ("candidate", "like", "kind", "framework", "verdict", "cases", "seconds")},
            dtypes=tuple(told["dtypes"]),
            rows=tuple(Property(**row) for row in told["properties"]),
            findings=findings(told["findings"]),
            conventions=findings(told["conventions"]),
            judged={name: (judged, drawn) for name, (judged, drawn) in told["judged"].items()},
            notes=findings(told["notes"]),
            not_checked=tuple(told["not_checked"]),
            files=tuple(told["files"]),
        )

    def __str__(self) -> str:
        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            show(self, console)
        return capture.get()


def show(report: Report, console: Console, language: str = "en") -> None:
    """The verdict first, then what is wrong, then a row for each property."""

    def word(text: str) -> str:
        known = WORDS.get(language, {})
        first, _, rest = text.partition(" ")
        if text in known:
            return known[text]
        if first == "agrees" and rest.startswith("in "):
            return f"{known.get('agrees in', 'agrees in')} {rest[3:]}"
        if text.startswith("gradient of "):
            return f"{known.get('gradient of', 'gradient of')} {rest.removeprefix('of ')}"
        if first in known and first in ("with", "permutation"):
            return f"{known[first]} {rest}"
        return law_phrase(text, language) if language != "en" else text

    style = {"agrees": "bold green", "wrong": "bold red"}.get(report.verdict, "bold yellow")
    like = f"--like {report.like}" if report.like else "--laws-only"
    verdict = "agrees, with another convention" if report.verdict == "another convention" else report.verdict
    verdict = verdict if language == "en" else word(report.verdict)
    console.print(Text(f"{report.candidate} {like}: {verdict}", style))
    for each in report.conventions:
        console.print(Text(f"  ~ {each.say(language)} (--accept {each.numbers['accept']})"))
    show_findings(report.findings, console, language)
    if report.rows:
        table = Table(word("property"), word("cases"), word("verdict"), box=None, pad_edge=False, expand=False)
        table.columns[1].justify = "right"
        for row in report.rows:
            table.add_row(word(row.name), str(row.cases), _verdict(row, word), style="red" if row.wrong else "")
        console.print(table)
    if report.judged:
        counts = [f"{name} {judged} {word('of')} {drawn}" for name, (judged, drawn) in report.judged.items()]
        console.print(Text(f"{word('judged')}: {', '.join(counts)}"))
    if report.not_checked:
        told = "not checked (its signature does not take them)" if language == "en" else word("not checked")
        console.print(Text(f"{told}: {', '.join(report.not_checked)}"))
    for note in report.notes:
        console.print(Text(f"{word('note') if language != 'en' else 'note: '}{note.say(language)}"))
    if report.files:
        console.print(Text(f"{word('files') if language != 'en' else 'counterexample'}: {', '.join(report.files)}"))


def show_findings(findings: Sequence[Finding], console: Console, language: str = "en") -> None:
    """The answer, and what supports it."""
    for number, finding in enumerate(_told(findings)):
        guess = "" if finding.sure else WORDS.get(language, {}).get("guess", "perhaps: ")
        console.print(Text(f"  {'=>' if number == 0 else ' -'} {guess}{finding.say(language)}"))


def _told(findings: Sequence[Finding]) -> list[Finding]:
    """The answer, a few that support it, and the worst element: all of them stand in the JSON."""
    first = [each for each in findings if each.code != "worst_element"][:TOLD]
    return first + [each for each in findings if each.code == "worst_element"][:1]


def _verdict(row: Property, word: Callable[[str], str]) -> Text:
    if row.wrong:
        bad = word("wrong cases")
        if bad != "wrong cases":  # what broke is told in English alone
            return Text(f"{row.wrong} {bad}")
        return Text(f"{row.wrong} wrong" + (f": {row.what}" if row.what else ""))
    if not row.cases:
        return Text(word("none"))
    if row.share or row.units:
        largest = f"{word('largest error')} {row.units:.2g} u, {100 * row.share:.0f}% {word('of its budget')}"
        return Text(f"{word('holds')}, {largest}")
    return Text(word("holds"))
