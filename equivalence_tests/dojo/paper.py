"""The paper-sized example: one head of attention, forward and backward, n = 3 and d = c = 2, step by step as by hand.

The five matrices that are given are chosen so that the arithmetic is pleasant: all scores are integers, and in each row
they are at most 2 below the largest, so that only two exponentials occur. Everything else comes from the reference.
Numbers are written as exact fractions while they are rational, with sqrt(2) as a symbol, then with four decimals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from equivalence_tests.arithmetic import Array
from reference_numpy import attention_stages, self_attention, self_attention_backward

GIVEN: dict[str, Array] = {
    "X": np.array([[1.0, 1.0], [1.0, 2.0], [0.0, 1.0]]),
    "Wq": np.array([[0.0, 2.0], [1.0, -1.0]]),
    "Wk": np.array([[-1.0, 1.0], [1.0, 0.0]]),
    "Wv": np.array([[0.0, 1.0], [0.5, 0.5]]),
    "dC": np.array([[1.0, 1.0], [2.0, -1.0], [-1.0, 2.0]]),
}
EXACT = frozenset({*GIVEN, "Q", "K", "V", "Omega", "dA"})
DECIMALS = 4
MINUS = "\u2212"


@dataclass(frozen=True)
class Step:
    """One matrix to work out: its equation and a sentence in each language, all as HTML; the entry that is worked out for
    the reader; and, if it is a sum of matrix products, their factors (".T": transposed).
    """

    name: str
    equation: str
    place: tuple[int, int]
    en: str
    es: str
    products: tuple[tuple[str, str], ...] = ()


FORWARD = (
    Step("Q", "Q = X W<sub>q</sub>", (1, 0), "What each token asks.", "Lo que pregunta cada token.", (("X", "Wq"),)),
    Step("K", "K = X W<sub>k</sub>", (1, 0), "What it can answer to.", "A qué puede responder.", (("X", "Wk"),)),
    Step("V", "V = X W<sub>v</sub>", (0, 1), "What it has to say.", "Lo que tiene que decir.", (("X", "Wv"),)),
    Step(
        "Omega",
        "Ω = Q K<sup>T</sup>",
        (0, 1),
        "Row i: query i with each of the three keys.",
        "Fila i: la consulta i con cada una de las tres claves.",
        (("Q", "K.T"),),
    ),
    Step("scaled", "S = Ω / √c", (0, 1), "c = 2: keep √2 as a symbol.", "c = 2: deja √2 como símbolo."),
    Step(
        "E",
        f"E<sub>ij</sub> = exp(S<sub>ij</sub> {MINUS} max<sub>k</sub> S<sub>ik</sub>)",
        (1, 0),
        "It holds 1, e<sup>{minus}1/√2</sup> = {once} and e<sup>{minus}2/√2</sup> = {twice}.",
        "Contiene 1, e<sup>{minus}1/√2</sup> = {once} y e<sup>{minus}2/√2</sup> = {twice}.",
    ),
    Step(
        "A",
        "A<sub>ij</sub> = E<sub>ij</sub> / Σ<sub>k</sub> E<sub>ik</sub>",
        (1, 0),
        "Each row divided by its sum.",
        "Cada fila, dividida entre su suma.",
    ),
    Step("C", "C = A V", (0, 0), "Mixtures of the rows of V.", "Mezclas de las filas de V.", (("A", "V"),)),
)
BACKWARD = (
    Step(
        "dV",
        "dV = A<sup>T</sup> dC",
        (0, 0),
        "Column j of A: who listened to token j.",
        "Columna j de A: quién escuchó al token j.",
        (("A.T", "dC"),),
    ),
    Step("dA", "dA = dC V<sup>T</sup>", (2, 0), "Exact once more.", "Otra vez exacto.", (("dC", "V.T"),)),
    Step(
        "delta",
        "δ<sub>i</sub> = Σ<sub>j</sub> A<sub>ij</sub> dA<sub>ij</sub>",
        (0, 0),
        "The mean of row i of dA, weighted by A.",
        "La media de la fila i de dA, ponderada con A.",
    ),
    Step(
        "dS",
        f"dS<sub>ij</sub> = A<sub>ij</sub> (dA<sub>ij</sub> {MINUS} δ<sub>i</sub>)",
        (0, 0),
        "The whole backward of softmax.",
        "Todo el paso hacia atrás de softmax.",
    ),
    Step(
        "dOmega",
        "dΩ = dS / √2",
        (0, 0),
        "Without it, dQ and dK are {root} times too large.",
        "Sin esta escala, dQ y dK se multiplican por {root}.",
    ),
    Step(
        "dQ", "dQ = dΩ K", (0, 1), "Row i of dΩ, with the keys.", "La fila i de dΩ, con las claves.", (("dOmega", "K"),)
    ),
    Step(
        "dK",
        "dK = dΩ<sup>T</sup> Q",
        (0, 0),
        "Column j of dΩ, with the queries.",
        "La columna j de dΩ, con las consultas.",
        (("dOmega.T", "Q"),),
    ),
    Step(
        "dWq",
        "dW<sub>q</sub> = X<sup>T</sup> dQ",
        (1, 0),
        "One matrix served three tokens: a sum over them.",
        "Una matriz sirvió a los tres tokens: una suma sobre ellos.",
        (("X.T", "dQ"),),
    ),
    Step("dWk", "dW<sub>k</sub> = X<sup>T</sup> dK", (1, 0), "In the same way.", "Del mismo modo.", (("X.T", "dK"),)),
    Step("dWv", "dW<sub>v</sub> = X<sup>T</sup> dV", (1, 0), "In the same way.", "Del mismo modo.", (("X.T", "dV"),)),
    Step(
        "dX",
        "dX = dQ W<sub>q</sub><sup>T</sup> + dK W<sub>k</sub><sup>T</sup> + dV W<sub>v</sub><sup>T</sup>",
        (2, 1),
        "X was read three times: three paths, one sum.",
        "X se leyó tres veces: tres caminos, una suma.",
        (("dQ", "Wq.T"), ("dK", "Wk.T"), ("dV", "Wv.T")),
    ),
)


def numbers() -> dict[str, Array]:
    """Every matrix by name: the five that are given and what the reference makes of them.

    E, which the reference keeps to itself, is exp(scaled - the maximum of its row).
    """
    X, Wq, Wk, Wv, dC = GIVEN.values()
    _, cache = self_attention(X, Wq, Wk, Wv)
    Q, K, V = cache[-1][:3]
    stages = attention_stages(Q, K, V, dC)._asdict()
    dX, dWq, dWk, dWv = self_attention_backward(dC, cache)
    E = np.exp(stages["scaled"] - stages["scaled"].max(-1, keepdims=True))
    return {**GIVEN, "Q": Q, "K": K, "V": V, **stages, "E": E, "dX": dX, "dWq": dWq, "dWk": dWk, "dWv": dWv}


def by_hand() -> dict[str, Array]:
    """The same, for somebody who rounds every entry to four decimals before going on with it."""
    made = dict(GIVEN)

    def keep(name: str, value: Array) -> None:
        made[name] = np.round(value, DECIMALS)

    for step in (*FORWARD, *BACKWARD):
        if step.products:
            keep(step.name, np.sum([factor(made, left) @ factor(made, right) for left, right in step.products], 0))
        elif step.name == "scaled":
            made["scaled"] = made["Omega"] / math.sqrt(2)  # a symbol: nothing is rounded
        elif step.name == "E":
            keep("E", np.exp(made["scaled"] - made["scaled"].max(-1, keepdims=True)))
        elif step.name == "A":
            keep("A", made["E"] / made["E"].sum(-1, keepdims=True))
        elif step.name == "delta":
            keep("delta", (made["A"] * made["dA"]).sum(-1, keepdims=True))
        elif step.name == "dS":
            keep("dS", made["A"] * (made["dA"] - made["delta"]))
        elif step.name == "dOmega":
            keep("dOmega", made["dS"] / math.sqrt(2))
    return made


def last_digit() -> int:
    """By how much the last decimal differs at most if every step goes on with rounded numbers."""
    exact, rounded = numbers(), by_hand()
    return max(
        int(np.abs(np.round(exact[s.name], DECIMALS) - rounded[s.name]).max() * 10**DECIMALS + 0.5)
        for s in (*FORWARD, *BACKWARD)
    )


def factor(matrices: dict[str, Array], name: str) -> Array:
    """A matrix by name, transposed if the name ends in ".T"."""
    return matrices[name[:-2]].T if name.endswith(".T") else matrices[name]


def written(name: str, value: float) -> str:
    """An entry of the matrix `name` as the page has it: 3, 1/2, 2/√2 or 0.4931.

    Raises ValueError if an entry that should be rational is no fraction with a small denominator.
    """
    if name in EXACT:
        exact = Fraction(value).limit_denominator(8)
        if float(exact) != value:
            raise ValueError(f"{name} holds {value}, expected a fraction with a denominator of at most 8")
        text = str(exact)
    elif name == "scaled":
        over = round(value * math.sqrt(2))
        text = f"{over}/√2" if over else "0"
    elif name == "E" and value == 1.0:
        text = "1"
    else:
        text = f"{round(value, DECIMALS) + 0.0:.{DECIMALS}f}"  # + 0.0: no minus before a zero
    return text.replace("-", MINUS)


def worked(step: Step, matrices: dict[str, Array]) -> str:
    """The arithmetic of the step's entry `place`, without its result: 1·0 + 1·1."""
    i, j = step.place
    if step.products:
        return " + ".join(
            f"{_inside(left, a)}·{_inside(right, b)}"
            for left, right in step.products
            for a, b in zip(factor(matrices, left)[i], factor(matrices, right)[:, j], strict=True)
        )
    if step.name == "scaled":
        return f"{written('Omega', matrices['Omega'][i, j])}/√2"
    if step.name == "E":
        row = matrices["scaled"][i]
        return f"exp({written('scaled', row[j])} {MINUS} {written('scaled', row.max())})"
    if step.name == "A":
        row = [written("E", value) for value in matrices["E"][i]]
        return f"{row[j]} / ({' + '.join(row)})"
    if step.name == "delta":
        pairs = zip(matrices["A"][i], matrices["dA"][i], strict=True)
        return " + ".join(f"{_inside('A', a)}·{_inside('dA', b)}" for a, b in pairs)
    if step.name == "dS":
        a, b, mean = matrices["A"][i, j], matrices["dA"][i, j], matrices["delta"][i, 0]
        return f"{written('A', a)}·({written('dA', b)} {MINUS} {written('delta', mean)})"
    return f"{written('dS', matrices['dS'][i, j])} / √2"


def _inside(name: str, value: float) -> str:
    """An entry within a product: a negative one or a fraction in brackets."""
    text = written(name.removesuffix(".T"), value)
    return f"({text})" if text.startswith(MINUS) or "/" in text else text
