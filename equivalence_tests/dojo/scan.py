"""What can be told of an answer without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from equivalence_tests.ops import OPS
from equivalence_tests.parts import PARTS

PACKAGES = ("reference_numpy", "torch_impl", "equivalence_tests")
DIFFERENTIATES = ("torch", "jax", "tensorflow", "autograd")
OWN = frozenset({name for op in OPS for name in (op, f"{op}_backward")} | PARTS.keys())


def unwritten(tree: ast.AST) -> int:
    """The first line that still waits for the learner, `raise NotImplementedError` or a lone `...`; 0 if none does."""
    indices = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Subscript) for part in ast.walk(node.slice)}
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and node.value is Ellipsis and id(node) not in indices)
        or (isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node))
    ]
    return min(lines, default=0)


def taken(tree: ast.AST, allowed: frozenset[str]) -> tuple[int, str] | None:
    """Where an answer takes what it is to write itself: the line, and the name of what it takes there."""
    found = sorted((line, name) for line, name in _named(tree) if name not in allowed)
    return found[0] if found else None


def used(*codes: str) -> frozenset[str]:
    """The reference's own functions that some codes take: those that an answer may take too."""
    return frozenset(name for code in codes for _, name in _named(ast.parse(code)))


def _named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        for root in _roots(node):
            if root in DIFFERENTIATES or root == "equivalence_tests":
                yield node.lineno, root
            elif root in PACKAGES and isinstance(node, ast.ImportFrom):
                yield from ((node.lineno, alias.name) for alias in node.names if alias.name in OWN | {"*"})
    bound = {name for node in imports if set(_roots(node)) & {*PACKAGES, "importlib"} for name in _bound(node)}
    by_name = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {"getattr", "__import__", *bound}
    by_string = bool(by_name & {"getattr", "__import__", "importlib"})
    for part in ast.walk(tree):
        if isinstance(part, ast.Attribute) and part.attr in OWN and _base(part) in bound:
            yield part.lineno, part.attr
        elif by_string and isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in OWN:
            yield part.lineno, part.value


def _roots(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return [name.split(".")[0] for name in names]


def _bound(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names that an import gives a value."""
    return [alias.asname or alias.name.split(".")[0] for alias in node.names]


def _base(node: ast.expr) -> str:
    """The first name of a chain such as a.b.c."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def function_named(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The definition that holds when the file has run: the last of this name."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[-1] if found else None


def statements(function: ast.FunctionDef) -> int:
    """Statements in a function's body, its docstring left out."""
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return count - (ast.get_docstring(function) is not None)


def waiting_names(tree: ast.Module) -> list[str]:
    """Names of the file that are to be given a value: `name = ...`."""
    return [
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and node.value.value is Ellipsis
    ]


def same_code(one: ast.Module, other: ast.Module) -> bool:
    """Whether two files differ in comments, layout and docstrings alone."""
    return [ast.dump(node) for node in _without_texts(one)] == [ast.dump(node) for node in _without_texts(other)]


def _without_texts(tree: ast.Module) -> list[ast.stmt]:
    def is_text(node: ast.stmt) -> bool:
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

    return [node for node in tree.body if not is_text(node)]
