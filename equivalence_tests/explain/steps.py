"""The steps of the page in order of time: what each one makes, of what, and the lines of the reference that do it."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import reference_numpy

ATTENTION, SELF, BACK, SOFT = "attention_stages", "self_attention", "self_attention_backward", "softmax_backward"
WEIGHT = (("self_attention", BACK, "return"), ("self_attention", "_weight_gradient", "gradient"))


@dataclass(frozen=True)
class Step:
    """`shows` is the equation in matrices: K^T is K turned over, A[row] the chosen row of A, all else a sign; @ is the
    product of matrices, * the product of their entries, scale a number by which every entry is multiplied.

    `kind` says how an entry is made, `entry` the same in symbols. `lines` are (module, function, name): where the function
    assigns that name, or returns. The sentence is in `texts`, under `name`.
    """

    name: str
    kind: str
    shows: str
    entry: str = ""
    lines: tuple[tuple[str, str, str], ...] = ()

    @property
    def makes(self) -> list[str]:
        return ["Wq", "Wk", "Wv"] if self.name == "W" else ["dS", "J"] if self.name == "J" else [self.name]


def _stage(name: str) -> tuple[str, str, str]:
    return "attention", ATTENTION, name


STEPS = (
    Step("X", "given", "X"),
    Step("W", "given", "Wq Wk Wv"),
    Step("Q", "product", "Q = X @ Wq", "Q[i,j] = Σk X[i,k] Wq[k,j]", (("self_attention", SELF, "Q"),)),
    Step("K", "product", "K = X @ Wk", "K[i,j] = Σk X[i,k] Wk[k,j]", (("self_attention", SELF, "K"),)),
    Step("V", "product", "V = X @ Wv", "V[i,j] = Σk X[i,k] Wv[k,j]", (("self_attention", SELF, "V"),)),
    Step("Omega", "product", "Omega = Q @ K^T", "Omega[i,j] = Σk Q[i,k] K[j,k]", (_stage("Omega"),)),
    Step(
        "scaled",
        "scale",
        "scaled = Omega scale",
        "scaled[i,j] = Omega[i,j] * scale",
        (_stage("scaled"), ("attention", "attention_scale", "return")),
    ),
    Step(
        "masked",
        "mask",
        "masked = mask ( scaled )",
        "masked[i,j] = scaled[i,j];  j > i: -∞",
        (("attention", "_allowed", "allowed"), _stage("masked")),
    ),
    Step(
        "A",
        "softmax",
        "A = softmax ( masked )",
        "A[i,j] = exp(masked[i,j]) / Σk exp(masked[i,k])",
        (_stage("A"), ("attention", "_softmax_over", "E"), ("attention", "_softmax_over", "A")),
    ),
    Step("C", "product", "C = A @ V", "C[i,j] = Σk A[i,k] V[k,j]", (_stage("C"),)),
    Step("dC", "given", "dC"),
    Step("dA", "product", "dA = dC @ V^T", "dA[i,j] = Σk dC[i,k] V[j,k]", (_stage("dA"),)),
    Step(
        "J",
        "jacobian",
        "dS[row]^T = J[row] @ dA[row]^T | A[row]^T",
        "dS[i,j] = Σk J[j,k] dA[i,k]",
        (("softmax", SOFT, "dX"),),
    ),
    Step("delta", "delta", "delta = Σ ( A * dA )", "delta[i] = Σk A[i,k] dA[i,k]", (_stage("delta"),)),
    Step("dS", "difference", "dS = A * ( dA - delta )", "dS[i,j] = A[i,j] (dA[i,j] - delta[i])", (_stage("dS"),)),
    Step("dOmega", "scale", "dOmega = dS scale", "dOmega[i,j] = dS[i,j] * scale", (_stage("dOmega"),)),
    Step("dQ", "product", "dQ = dOmega @ K", "dQ[i,j] = Σk dOmega[i,k] K[k,j]", (_stage("dQ"),)),
    Step("dK", "product", "dK = dOmega^T @ Q", "dK[i,j] = Σk dOmega[k,i] Q[k,j]", (_stage("dK"),)),
    Step("dV", "product", "dV = A^T @ dC", "dV[i,j] = Σk A[k,i] dC[k,j]", (_stage("dV"),)),
    Step(
        "dX",
        "product",
        "dX = dQ @ Wq^T + dK @ Wk^T + dV @ Wv^T",
        "dX[i,j] = Σk dQ[i,k] Wq[j,k] + Σk dK[i,k] Wk[j,k] + Σk dV[i,k] Wv[j,k]",
        (("self_attention", BACK, "dX"),),
    ),
    Step("dWq", "product", "dWq = X^T @ dQ", "dWq[i,j] = Σk X[k,i] dQ[k,j]", WEIGHT),
    Step("dWk", "product", "dWk = X^T @ dK", "dWk[i,j] = Σk X[k,i] dK[k,j]", WEIGHT),
    Step("dWv", "product", "dWv = X^T @ dV", "dWv[i,j] = Σk X[k,i] dV[k,j]", WEIGHT),
)

WORDS, WIDTH, HEAD, ONE = "words", "d", "c", ""
AXES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("X", "dX"), (WORDS, WIDTH)),
    **dict.fromkeys(("Wq", "Wk", "Wv", "dWq", "dWk", "dWv"), (WIDTH, HEAD)),
    **dict.fromkeys(("Q", "K", "V", "C", "dC", "dQ", "dK", "dV"), (WORDS, HEAD)),
    **dict.fromkeys(("Omega", "scaled", "masked", "A", "dA", "J", "dS", "dOmega"), (WORDS, WORDS)),
    "delta": (WORDS, ONE),
}


def as_data(step: Step) -> dict[str, Any]:
    """The step as the page reads it: matrices and signs apart, the lines of source with their place."""
    shows = [operand(token) for token in step.shows.split()]
    terms = [(shows[i - 1], shows[i + 1]) for i, each in enumerate(shows) if each == {"sign": "@"}]
    return {
        "name": step.name,
        "kind": step.kind,
        "makes": step.makes,
        "shows": shows,
        "terms": terms if step.kind == "product" else [],
        "entry": step.entry,
        "lines": [source(*line) for line in step.lines],
    }


def operand(token: str) -> dict[str, Any]:
    name = token.removesuffix("^T").removesuffix("[row]")
    if name not in AXES:
        return {"sign": token}
    return {"name": name, "transposed": token.endswith("^T"), "row": "[row]" in token}


def source(module: str, function: str, name: str) -> dict[str, Any]:
    """The line in which a function of the reference assigns `name`, or returns: its text, file and number."""
    where = import_module(f"reference_numpy.{module}")  # the attribute of that name is the function
    text = inspect.getsource(where)
    (body,) = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef) and each.name == function]
    found = [each for each in ast.walk(body) if isinstance(each, ast.stmt) and _does(each, name)]
    last = max(found, key=lambda each: each.lineno)
    lines = text.splitlines()[last.lineno - 1 : last.end_lineno]
    path = Path(str(where.__file__)).relative_to(Path(str(reference_numpy.__file__)).parent.parent)
    return {"text": "\n".join(line.strip() for line in lines), "file": path.as_posix(), "line": last.lineno}


def _does(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.Return):
        return name == "return"
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)
