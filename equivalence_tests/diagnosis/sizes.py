"""The numbers that a wrong factor may be, by name, from a case's own sizes and options."""

from __future__ import annotations

import math

from equivalence_tests.cases import Case
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.ops import Op

LEADS = ("B", "H", "B2", "B3")


def sizes(op: Op, case: Case) -> dict[str, int]:
    """The letters of the op's shapes; leading axes are B and H, and "rows" is the number of all rows."""
    if op.model:
        config, ids = case.options["config"], case.operands["ids"]
        found = {"n": ids.shape[-1], "sequences": math.prod(ids.shape[:-1]), "rows": ids.size, "axes": ids.ndim + 1}
        fields = {"v": "vocab_size", "d": "embedding_dim", "H": "num_heads", "c": "head_dim", "L": "num_layers"}
        found["len(ids)"] = len(ids)
        return found | {letter: getattr(config, name) for letter, name in fields.items() if hasattr(config, name)}
    pattern = PATTERNS[op.name]
    found, lead = {}, ()
    for name, letters in pattern.operands.items():
        if name not in case.operands:
            continue
        shape, words = case.operands[name].shape, letters.split()
        if words and words[0] == "...":
            words = words[1:]
            lead = shape[: len(shape) - len(words)]
        found |= dict(zip(words, shape[len(shape) - len(words) :], strict=True))
    if op.name == "multi_head_attention":
        found["H"] = case.options["num_heads"]
        found["c"] = found.pop("Hc") // found["H"]
        found |= dict(zip(("B", "B2"), lead, strict=False))
    else:
        found |= dict(zip(LEADS, lead, strict=False))
    found["axes"] = max((x.ndim for x in case.operands.values()), default=0)
    found["sequences"] = math.prod(lead)
    found["rows"] = math.prod(lead) * found.get("n", 1)
    return found


def factors(op: Op, case: Case, simple: bool = False) -> dict[str, float]:
    """Factors by name, the simplest first: constants, options, then sizes, their inverses, roots and (not where
    it is to be simple) products.
    """
    found: dict[str, float] = {"-1": -1.0, "2": 2.0, "1/2": 0.5, "0": 0.0, "3": 3.0, "-2": -2.0}
    found |= {"ln 2": math.log(2), "1/ln 2": 1 / math.log(2), "4": 4.0, "1/4": 0.25}
    letters = sizes(op, case)
    letters.pop("axes", None)
    for name, size in letters.items():
        found |= _powers(name, float(size))
    for name, value in _options(op, case).items():
        found |= _powers(name, value)
    for name, size in letters.items():
        if size > 1:
            found |= {f"{name}/({name} - 1)": size / (size - 1), f"({name} - 1)/{name}": (size - 1) / size}
    if simple:
        return found
    if "M" in found:
        letters["M"] = int(found["M"])
    names = list(letters)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            product = float(letters[one] * letters[other])
            found |= _powers(f"({one} {other})", product)
            if letters[one] and letters[other]:
                found |= _powers(f"({one}/{other})", letters[one] / letters[other])
    return found


def _options(op: Op, case: Case) -> dict[str, float]:
    options = case.options
    found = {}
    if "c" in (letters := sizes(op, case)) and op.name not in (
        "simple_attention",
        "generative_rnn",
        "generative_rnn_loss",
    ):
        scale = options.get("scale")
        found["scale"] = 1 / math.sqrt(letters["c"]) if scale is None else float(scale)
    p = options.get("p", getattr(options.get("config"), "dropout", None))
    if p is not None:
        found |= {"(1 - p)": 1.0 - float(p), "p": float(p)}
    if "dloss" in case.upstream:
        found["dloss"] = float(case.upstream["dloss"])
    if "targets" in case.operands:
        targets = case.operands["targets"]
        found["M"] = float((targets != options.get("ignore_index")).sum())
        found["(M/rows)"] = found["M"] / max(targets.size, 1)
    if "keep" in options and hasattr(options["keep"], "mean"):
        found["(share kept)"] = float(options["keep"].mean())
    return found


def _powers(name: str, value: float) -> dict[str, float]:
    if value == 0.0:
        return {name: 0.0}
    found = {f"1/{name}": 1.0 / value, name: value}
    if value > 0:
        found |= {f"1/sqrt({name.strip('()')})": value**-0.5, f"sqrt({name.strip('()')})": value**0.5}
    found[f"{name}^2"] = value**2
    return found


def all_names_of(named: list[tuple[dict[str, float], float, float]]) -> list[tuple[str, float]]:
    """Every name that has, in every case, the factor found there, and the factor in the first case.

    Each is (the case's factors, the factor found, how far off it may be). A number that is the same in every case is a
    name itself.
    """
    table, first, _ = named[0]
    names = [
        (name, table[name])
        for name in table
        if all(name in known and abs(known[name] - found) <= apart for known, found, apart in named)
    ]
    if names:
        return names
    same = all(abs(found - first) <= apart + named[0][2] for _, found, apart in named)
    return [(f"{first:.6g}", first)] if same else []


def names_of(named: list[tuple[dict[str, float], float, float]]) -> tuple[str, float] | None:
    """The simplest of these names, if there is one."""
    return next(iter(all_names_of(named)), None)


def value_of(name: str, factor: float, known: dict[str, float]) -> float:
    """A factor in another case: 1 where it is a power of a size or option that the case has not."""
    return known.get(name, 1.0 if any(letter.isalpha() for letter in name.replace("e", "")) else factor)


def inverse(name: str) -> str:
    """The name of the inverse."""
    return name[2:] if name.startswith("1/") else f"1/{name}"
