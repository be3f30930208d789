"""Of one training step of a NumPy twin: the seconds that each op takes of it, in one thread."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

import reference_numpy
from benchmarks.line_times import Line, line_times
from benchmarks.rows import Row
from benchmarks.timing import Contestant, row_of
from benchmarks.work import Prepared, Work

if TYPE_CHECKING:
    from benchmarks.session import Session

NAME, NAMES = "gpt_step share", ("numpy reference", "numpy fast")
FOLDER = Path(reference_numpy.__file__).parent
ROUNDS = 5
PRODUCTS, REST = "products", "rest"
CALLS = ("matmul", "dot")
# Op by file, and by function where a file has several; a product of matrices counts as one outside of these alone.
WHOLE = {"attention": "attention", "softmax": "attention", "_tiles": "attention",
         "layer_norm": "norms", "activations": "gelu", "linear": PRODUCTS}  # fmt: skip
FILES = {"self_attention": "attention", "cross_entropy": "loss", "_head": "loss", "embedding": "embedding",
         "dropout": "dropout"}  # fmt: skip
FUNCTIONS = {
    "_rows": {"normalise": "norms", "normalise_backward": "norms", "gelu": "gelu"},
    "_block": {"normalise": "norms", "normalise_backward": "norms", "_activate": "gelu", "_multiply": "gelu",
               "fold": "norms", "unfold": "norms", "_unfold": "norms", "drop": "dropout", "_heads": "attention",
               "_attended": "attention", "_split": "attention", "_thirds": "attention"},
    "_small": {"_norm": "norms", "_norm_backward": "norms", "_loss": "loss", "_future": "attention"},
}  # fmt: skip


def op_of(line: Line) -> str:
    """Which op a line belongs to."""
    file, function, number = line
    module, last = Path(file).stem, function.split(".")[0]
    if module in WHOLE:
        return WHOLE[module]
    named = FUNCTIONS.get(module, {}).get(last)
    if named is not None:
        return named
    if module == "_small" and number in statements(file, _is_attention):
        return "attention"
    if number in (statements(file, _is_product) if file else ()):
        return PRODUCTS
    if file and number in statements(file, _is_lookup):
        return "embedding"
    return FILES.get(module, REST)


@cache
def statements(file: str, wanted: Callable[[ast.AST], bool]) -> frozenset[int]:
    """The lines of the statements, those that hold no others, in which there is such a node."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and any(map(wanted, ast.walk(node))):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(found)


def _is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Attribute) and node.attr in CALLS


def _is_attention(node: ast.AST) -> bool:
    """Of the weights of attention or their gradient, where a whole block is one function."""
    return isinstance(node, ast.Name) and node.id in ("A", "dS", "QKV", "dQKV")


def _is_lookup(node: ast.AST) -> bool:
    """Of rows of the table of tokens, or of what belongs to it."""
    return (isinstance(node, ast.Name) and node.id in ("add_rows", "positions")) or (
        isinstance(node, ast.Attribute) and node.attr == "take"
    )


def seconds_of(prepared: Prepared) -> dict[str, Any]:
    """Of some runs, each op's seconds; their sum is the step's. In the contestant's own process."""
    found: list[dict[str, float]] = []
    steps = []
    with threadpool_limits(1):
        prepared.run()
        for _ in range(ROUNDS):
            step, lines = line_times(prepared.run, FOLDER)
            steps.append(step)
            parts: dict[str, float] = {}
            for line, seconds in lines.items():
                op = op_of(line)
                parts[op] = parts.get(op, 0.0) + seconds
            found.append(parts)
    ops = sorted({op for parts in found for op in parts})
    return {"steps": steps, "parts": {op: [parts.get(op, 0.0) for parts in found] for op in ops}}


def measure(session: Session, work: Work, watch: Callable[[str], None], show: Callable[[Row], None]) -> None:
    """A row for each op of each NumPy twin that has just been timed at this work, checked as the step is."""
    truth = session.truth(work)
    for each in session.contestants(work):
        if each.name not in NAMES or isinstance(truth, dict):
            continue
        watch(f"{each.name}: share of each op")
        process = session.process_of(Contestant(each.name))
        asked = {"contestant": each.name, "work": work, "truth": str(truth), "slice": True}
        ready = process.ask("prepare", session.plan.limit, **asked)
        if ready["status"] != "ok":
            continue  # the row of the step itself says why
        told = process.ask("shares", session.plan.limit)
        after = process.ask("finish", session.plan.limit)
        for row in _rows(work, each, ready, told, after):
            session.results.rows.append(row)
            show(row)


def _rows(
    work: Work, contestant: Contestant, ready: dict[str, Any], told: dict[str, Any], after: dict[str, Any]
) -> list[Row]:
    failed = next((answer for answer in (told, after) if "status" in answer), None)
    if failed is None and after["why"]:
        failed = {"status": "wrong", "why": f"after timing, {after['why']}"}
    rows = []
    for op, seconds in {"step": [], **told.get("parts", {})}.items():
        if (op == "step") == (failed is None):
            continue
        row = row_of(work, contestant)
        row.work, row.part, row.flops, row.bytes, row.tokens = NAME, op, None, None, None
        row.share, row.error, row.checked = ready["share"], ready["error"], ready["checked"]
        row.settings |= {"threads": 1}
        if failed is not None:
            row.status, row.why = failed["status"], failed["why"]
            return [row]
        row.share_after = after["share"]
        row.timed(seconds)
        rows.append(row)
    return rows
