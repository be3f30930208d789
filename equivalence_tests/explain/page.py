"""One HTML file: the data, the style and the script go inside, and nothing is ever fetched."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equivalence_tests.arithmetic import Array
from equivalence_tests.explain.head import TEMPERATURES, Given, states
from equivalence_tests.explain.steps import AXES, STEPS, as_data
from equivalence_tests.explain.texts import table
from equivalence_tests.matrix_text import printable

FOLDER = Path(__file__).parent
SCRIPTS = ("state.js", "matrices.js", "explanation.js", "map.js", "page.js")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def page(given: Given, language: str = "en") -> str:
    """The whole page as text."""
    style = (FOLDER / "page.css").read_text("utf-8")
    script = "\n".join((FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    data = as_json(data_of(given, language))
    texts = table()[language]
    inside = {
        "policy": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'",
        "language": language,
        "title": html.escape(texts["title"]),
        "noscript": html.escape(texts["noscript"]),
        "style": style,
        "data": data,
        "script": script,
    }
    template = (FOLDER / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda hole: inside[hole[1]], template)  # in one pass: words are never holes


def data_of(given: Given, language: str) -> dict[str, Any]:
    """All that the page shows. Matrices that several states share stand once, in `pool`; -inf is null."""
    n, d = given.matrices["X"].shape
    pool: dict[str, int] = {}
    rows = [
        {
            "causal": state.causal,
            "scaled": state.scaled,
            "temperature": state.temperature,
            "scale": state.scale,
            "matrices": {
                name: pool.setdefault(json.dumps(numbers(name, M)), len(pool)) for name, M in state.matrices.items()
            },
        }
        for state in states(given)
    ]
    return {
        "language": language,
        "words": labels(given.words),
        "n": n,
        "d": d,
        "c": given.matrices["Wq"].shape[1],
        "seed": given.seed,
        "block": given.block,
        "head": given.head,
        "temperatures": TEMPERATURES,
        "states": rows,
        "pool": [json.loads(each) for each in pool],
        "axes": AXES,
        "steps": [as_data(step) for step in STEPS],
        "texts": table(),
    }


def numbers(name: str, M: Array) -> list[Any]:
    """The entries of a matrix, every digit of them; of the Jacobians, which are symmetric, the lower triangles."""
    if name == "J":
        return [[row[: j + 1] for j, row in enumerate(triangle)] for triangle in M.tolist()]
    return [[None if entry == -float("inf") else entry for entry in row] for row in M.tolist()]


def labels(words: Sequence[str]) -> list[str]:
    """The words, those that come again with their position: la₂, la₆."""
    shown = [printable(word).replace(" ", "␣") for word in words]  # a trained model's tokens may be blank
    times = Counter(shown)
    return [word if times[word] == 1 else f"{word}{str(i).translate(SUBSCRIPTS)}" for i, word in enumerate(shown, 1)]


def as_json(data: Any) -> str:
    """JSON that may stand inside a script element: no word can end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
