"""The user's own source, rewritten so that each statement hands over the value that it binds.

Nothing is imported or run again: the functions of the file are given another code object, line for line the same, and get
their own back afterwards.
"""

from __future__ import annotations

import ast
import copy
import gc
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

HOOK = "__gemelos_value__"
TEXT_LENGTH = 90  # characters of a statement that are shown


@dataclass(frozen=True)
class Place:
    """One value of one statement: `name` is what it is bound to ("return" for an answer), `reads` what the statement reads.

    `stored` marks an array that the statement writes into, `added` what an augmented assignment adds: no value of its own.
    `expression` is what the value was computed by, if the statement says it in one expression.
    """

    file: str
    line: int
    text: str
    name: str
    function: str
    reads: tuple[str, ...]
    stored: bool = False
    added: bool = False
    called: bool = False  # stored by what the statement calls, if at all
    expression: ast.expr | None = None


class _Rewriter(ast.NodeTransformer):
    """Every bound, returned or stored value goes through the hook; `places` says what each of its numbers stands for."""

    def __init__(self, file: str, source: str, places: list[Place]) -> None:
        self.file, self.source, self.places, self.within = file, source, places, list[str]()

    def _hook(
        self, value: ast.expr, statement: ast.AST, name: str, stored: bool = False, added: bool = False
    ) -> ast.expr:
        place = Place(
            self.file,
            getattr(statement, "lineno", 0),
            _shown(self.source, statement),
            name,
            ".".join(self.within),
            _reads(statement),
            stored,
            added,
            isinstance(statement, ast.Expr),
            None if stored else _plain(value),
        )
        self.places.append(place)
        call = ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(len(self.places) - 1), value], [])
        return ast.copy_location(call, value)

    def _bound(self, value: ast.expr, statement: ast.AST, name: str) -> ast.expr:
        """The value of an assignment, or each part of a tuple that is written out and is not merely a name."""
        if isinstance(value, ast.Tuple | ast.List) and not any(isinstance(x, ast.Starred) for x in value.elts):
            names = name.split(", ") if name != "return" else ["return"] * len(value.elts)
            names = names if len(names) == len(value.elts) else [name] * len(value.elts)
            value.elts = [
                x if isinstance(x, ast.Name) else self._bound(x, statement, n)
                for x, n in zip(value.elts, names, strict=True)
            ]
            return value
        if isinstance(value, ast.Dict):
            value.values = [x if isinstance(x, ast.Name) else self._bound(x, statement, name) for x in value.values]
            return value
        if isinstance(value, ast.Constant) and not _is_number(value.value):
            return value
        return self._hook(value, statement, name)

    def visit_FunctionDef(self, node: Any) -> Any:
        self.within.append(node.name)
        self.generic_visit(node)
        self.within.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self.generic_visit(node)
        node.body = self._hook(node.body, node, "return")
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if node.value is not None and not isinstance(node.value, ast.Name):
            node.value = self._bound(node.value, node, "return")
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        first = node.targets[0]
        if isinstance(first, ast.Tuple | ast.List) and isinstance(node.value, ast.Name):
            return node  # a cache is unpacked: nothing is computed
        name = ", ".join(_name(x) for x in (first.elts if isinstance(first, ast.Tuple | ast.List) else [first]))
        node.value = self._bound(node.value, node, name)
        stores = [self._after(node, base) for target in node.targets for base in _bases(target)]
        return [node, *stores] if stores else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        if node.value is not None:
            node.value = self._bound(node.value, node, _name(node.target))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        node.value = self._hook(node.value, node, f"{_name(node.target)}, added", added=True)
        if isinstance(node.target, ast.Subscript):
            return [node, *(self._after(node, base) for base in _bases(node.target))]
        load = ast.parse(ast.unparse(node.target), mode="eval").body
        again = ast.Assign([node.target], self._hook(load, node, _name(node.target)))
        return [node, ast.fix_missing_locations(ast.copy_location(again, node))]

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Call):
            return node
        call = node.value
        given = [*call.args, *(k.value for k in call.keywords)]
        given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        written = [x for x in given if isinstance(x, ast.Name) or _is_own(x)]
        return [node, *(self._after(node, x) for x in written)]

    def _after(self, node: ast.stmt, base: ast.expr) -> ast.Expr:
        """A statement that hands over an array behind the statement that may have written into it."""
        load = ast.parse(ast.unparse(base), mode="eval").body
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(self._hook(load, node, _name(base), True)), node))


class _Unhooked(ast.NodeTransformer):
    """The user's own expression again."""

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        return node.args[1] if isinstance(node.func, ast.Name) and node.func.id == HOOK else node


def _plain(value: ast.expr) -> ast.expr:
    found: ast.expr = _Unhooked().visit(copy.deepcopy(value))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(target: ast.expr) -> str:
    return ast.unparse(target)


def _is_own(node: ast.expr) -> bool:
    """self.x, which may be read again without anything happening."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def _bases(target: ast.expr) -> list[ast.expr]:
    """The arrays that a target stores into."""
    if isinstance(target, ast.Tuple | ast.List):
        return [base for each in target.elts for base in _bases(each)]
    if not isinstance(target, ast.Subscript):
        return []
    base: ast.expr = target
    while isinstance(base, ast.Subscript):
        if isinstance(base.slice, ast.Constant) and isinstance(base.slice.value, str):  # grads["W"][i]: the entry
            return [base] if base is not target and (isinstance(base.value, ast.Name) or _is_own(base.value)) else []
        base = base.value
    return [base] if isinstance(base, ast.Name) or _is_own(base) else []


def _reads(statement: ast.AST) -> tuple[str, ...]:
    found = [x.id for x in ast.walk(statement) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)]
    found += [ast.unparse(x) for x in ast.walk(statement) if isinstance(x, ast.Attribute) and _is_own(x)]
    return tuple(name for name in dict.fromkeys(found) if name != HOOK)


def _shown(source: str, statement: ast.AST) -> str:
    text = " ".join((ast.get_source_segment(source, statement) or "").split())
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 3] + "..."


@contextmanager
def instrumented(files: Sequence[str], hook: Callable[[int, Any], Any]) -> Iterator[list[Place]]:
    """While it lasts, the statements of the files' functions hand over what they bind. A function whose code is not that
    of its file, because the file has changed or a tool rewrote it, is left alone."""
    places: list[Place] = []
    codes: dict[tuple[str, str, int], tuple[CodeType, CodeType]] = {}
    for file in files:
        source = "".join(linecache.getlines(file))
        tree = ast.parse(source, file)
        before = _codes(compile(source, file, "exec", dont_inherit=True))
        rewritten = ast.fix_missing_locations(_Rewriter(file, source, places).visit(tree))
        after = _codes(compile(rewritten, file, "exec", dont_inherit=True))
        codes |= {(file, *key): (before[key], after[key]) for key in before.keys() & after.keys()}
    swapped: list[tuple[FunctionType, CodeType]] = []
    for function in [x for x in gc.get_objects() if type(x) is FunctionType]:
        own = function.__code__
        old, new = codes.get((own.co_filename, own.co_qualname, own.co_firstlineno), (None, None))
        if old is not None and new is not None and old.co_code == own.co_code and old.co_names == own.co_names:
            swapped.append((function, own))
            function.__globals__[HOOK] = hook
            function.__code__ = new
    try:
        yield places
    finally:
        for function, own in swapped:
            function.__code__ = own
            function.__globals__.pop(HOOK, None)


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Every function's code in a module's, by its name and line."""
    found = {(code.co_qualname, code.co_firstlineno): code}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _codes(constant)
    return found
