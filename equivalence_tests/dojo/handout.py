"""The paper-sized example as a page to print: boxes to fill in, or the key, in English or Spanish."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.dojo.paper import (
    BACKWARD,
    FORWARD,
    GIVEN,
    MINUS,
    Step,
    last_digit,
    numbers,
    worked,
    written,
)

LANGUAGES = ("en", "es")
SYMBOLS = {"Wq": "W<sub>q</sub>", "Wk": "W<sub>k</sub>", "Wv": "W<sub>v</sub>"}
SYMBOLS |= {f"d{name}": f"(d{symbol})" for name, symbol in SYMBOLS.items()}
SYMBOLS |= {"Omega": "Ω", "dOmega": "dΩ", "scaled": "S", "delta": "δ"}
WORDS = {
    "title": ("One head of attention, by hand", "Una cabeza de atención, a mano"),
    "name": ("Name: ____________________", "Nombre: ____________________"),
    "key": ("Key", "Soluciones"),
    "given": ("Given", "Datos"),
    "forward": ("Forward", "Paso hacia adelante"),
    "backward": ("Backward", "Paso hacia atrás"),
    "checks": ("Does it add up?", "¿Cuadra todo?"),
    "intro": (
        "Three tokens (n = 3), embeddings and head of width 2 (d = c = 2). Fill in every box; one entry of each matrix is "
        "worked out for you. Write fractions while the numbers are rational, leave √2 as a symbol, and from E on use four "
        "decimals. If you go on with rounded numbers, your last digit may differ from the key by up to {digit}.",
        "Tres tokens (n = 3); embeddings y cabeza de anchura 2 (d = c = 2). Rellena todas las casillas; de cada matriz "
        "tienes una entrada resuelta. Escribe fracciones mientras los números sean racionales, deja √2 como símbolo y, a "
        "partir de E, usa cuatro decimales. Si sigues calculando con números redondeados, tu última cifra puede diferir "
        "de la solución hasta en {digit}.",
    ),
}


def handout(language: str = "en", key: bool = False) -> str:
    """One HTML page without anything from outside: the example with boxes to fill in, or with `key` all its numbers.

    Raises ValueError for a language other than "en" and "es".
    """
    if language not in LANGUAGES:
        raise ValueError(f"handout: language is {language!r}, expected en or es")
    matrices, number = numbers(), 0
    parts = []
    for name, steps in (("forward", FORWARD), ("backward", BACKWARD)):
        cards = "\n".join(_card(step, number + k, matrices, language, key) for k, step in enumerate(steps, 1))
        number += len(steps)
        parts.append(f"<h2 class='{name}'>{_word(name, language)}</h2>\n<section class='grid'>\n{cards}\n</section>")
    corner = f"<p class='key'>{_word('key', language)}</p>" if key else f"<p>{_word('name', language)}</p>"
    given = "".join(
        f"<figure><span>{SYMBOLS.get(name, name)} =</span>{_table(name, GIVEN[name], None, True)}</figure>"
        for name in GIVEN
    )
    style = Path(__file__).with_name("handout.css").read_text("utf-8")
    return f"""<!doctype html>
<html lang='{language}'>
<head>
<meta charset='utf-8'>
<meta name='viewport' content='width=device-width, initial-scale=1'>
<meta http-equiv='Content-Security-Policy' content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_word("title", language)}</title>
<style>
{style}</style>
</head>
<body class='{"is-key" if key else "is-blank"}'>
<header><h1>{_word("title", language)}</h1>{corner}</header>
<p class='intro'>{_word("intro", language).format(digit=last_digit())}</p>
<h2>{_word("given", language)}</h2>
<section class='inputs'>{given}</section>
{parts[0]}
{parts[1]}
<h2>{_word("checks", language)}</h2>
<ul class='checks'>
{_checks(matrices, language, key)}
</ul>
</body>
</html>
"""


def _word(name: str, language: str) -> str:
    return WORDS[name][LANGUAGES.index(language)]


def _card(step: Step, number: int, matrices: dict[str, Array], language: str, key: bool) -> str:
    """One step: its equation, a sentence, the entry that is worked out, and the matrix."""
    values, (i, j) = matrices[step.name], step.place
    once, twice = (written("E", float(np.exp(-power / np.sqrt(2.0)))) for power in (1, 2))
    sentence = (step.en, step.es)[LANGUAGES.index(language)].format(
        minus=MINUS, once=once, twice=twice, root=written("dOmega", float(np.sqrt(2.0)))
    )
    result = written(step.name, values[i, j])
    sum_ = worked(step, matrices)
    equals = "" if sum_ == result else f" = {result}"
    place = i + 1 if values.shape[1] == 1 else f"{i + 1}{j + 1}"
    entry = f"{SYMBOLS.get(step.name, step.name)}<sub>{place}</sub>"
    return (
        f"<article class='step'><h3><small>{number}</small>{step.equation}</h3>"
        f"<p>{sentence}</p><p class='worked'>{entry} = {sum_}{equals}</p>"
        f"{_table(step.name, values, step.place, key)}</article>"
    )


def _table(name: str, values: Array, shown: tuple[int, int] | None, key: bool) -> str:
    """A matrix of boxes: empty but for the entry at `shown`, or all filled in."""
    rows = []
    for i, row in enumerate(values):
        cells = []
        for j, value in enumerate(row):
            kind = "shown" if shown in (None, (i, j)) else "answer"
            text = written(name, float(value)) if key or kind == "shown" else ""
            cells.append(f"<td class='{kind}'>{text}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table data-matrix='{name}' aria-label='{name}'>{''.join(rows)}</table>"


def _checks(matrices: dict[str, Array], language: str, key: bool) -> str:
    """What must hold whatever the numbers are, so that a mistake shows before the key is looked at."""
    inner = {name: (matrices[f"d{name}"] * matrices[name]).sum() for name in "QKVC"}
    lines = (
        ("Each row of A sums to 1.", "Cada fila de A suma 1.", matrices["A"].sum(-1)),
        ("Each row of dS sums to 0.", "Cada fila de dS suma 0.", matrices["dS"].sum(-1)),
        ("Each column of dK sums to 0.", "Cada columna de dK suma 0.", matrices["dK"].sum(0)),
        (
            "Each column of dV sums to that of dC.",
            "Cada columna de dV suma lo mismo que la de dC.",
            matrices["dV"].sum(0),
        ),
        (_inner("Q", "K"), _inner("Q", "K"), (inner["Q"], inner["K"])),
        (_inner("V", "C"), _inner("V", "C"), (inner["V"], inner["C"])),
    )
    return "\n".join(
        f"<li>{line[LANGUAGES.index(language)]}"
        + (f" <b>{', '.join(written('sum', float(value)) for value in line[2])}</b>" if key else "")
        + "</li>"
        for line in lines
    )


def _inner(one: str, other: str) -> str:
    """The equation that <d one, one> = <d other, other>."""
    return " = ".join(f"Σ<sub>ij</sub> d{name}<sub>ij</sub> {name}<sub>ij</sub>" for name in (one, other))
