"""Small changes of an expression: another operand, axis, sign, factor, function, one term more or less.

Where two lines could each bind another value and the answer would be right, the line that a small change of its own text
mends is the wrong one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

NUMPY = "__gemelos_numpy__"  # NumPy in a changed expression, whatever the user's file calls it
MOST = 1500  # changes of one expression

SIMPLE, NEAR, FAR = 1.0, 1.4, 1.7  # what a change costs: the cheapest that mends a line is told

Change = tuple[float, ast.expr]
REDUCTIONS = ("sum", "mean", "max")
SWAPPED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
}


@dataclass(frozen=True)
class Changed:
    """One change of an expression: its cost, its code, and where it was made."""

    cost: float
    code: CodeType
    expression: ast.Expression
    owner: ast.AST
    field: str
    position: int | None
    new: ast.expr

    def said(self) -> str:
        """The changed expression as text."""
        before = _put(self.owner, self.field, self.position, self.new)
        text = ast.unparse(self.expression.body).replace(NUMPY, "np")
        _put(self.owner, self.field, self.position, before)
        return text


def changes(expression: ast.expr, scope: Sequence[str], unused: frozenset[str], most: float) -> list[Changed]:
    """Every change of one place of the expression up to a cost, the cheapest first. `scope` are the names that it could
    use; those that are `unused` afterwards are the likeliest to be missing."""
    whole = ast.fix_missing_locations(ast.Expression(expression))
    names = [(ast.parse(name, mode="eval").body, SIMPLE + 0.2 if name in unused else NEAR) for name in scope]
    nodes = list(ast.walk(expression))
    fixed, indices = _fixed(nodes), _inside(nodes, ast.Subscript, "slice")
    found: list[Changed] = []
    for owner, field, position, node in _children(whole):
        if id(node) in fixed:
            continue
        made = _index(node) if id(node) in indices else [*_own(node), *_operands(node, names), *_around(node, names)]
        for cost, new in made:
            if cost > most or len(found) >= MOST:
                continue
            ast.fix_missing_locations(new)
            before = _put(owner, field, position, new)
            try:
                code = compile(whole, "<change>", "eval")
                found.append(Changed(cost, code, whole, owner, field, position, new))
            except (SyntaxError, ValueError, TypeError):
                pass
            _put(owner, field, position, before)
    return sorted(found, key=lambda each: each.cost)


def _children(whole: ast.Expression) -> list[tuple[ast.AST, str, int | None, ast.expr]]:
    """Every expression with where it stands, from the outside inwards."""
    found: list[tuple[ast.AST, str, int | None, ast.expr]] = []
    for owner in ast.walk(whole):
        for field, value in ast.iter_fields(owner):
            for position, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(each, ast.expr):
                    found.append((owner, field, position, each))
    return found


def _put(owner: ast.AST, field: str, position: int | None, new: ast.expr) -> ast.expr:
    """Another expression in a place; the one that stood there."""
    value = getattr(owner, field)
    before: ast.expr = value if position is None else value[position]
    if position is None:
        setattr(owner, field, new)
    else:
        value[position] = new
    return before


def _fixed(nodes: list[ast.AST]) -> set[int]:
    """What is no value: the name of a function, and the module that it is taken from."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Call):
            found.add(id(node.func))
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                name = node.func.value.id
                if name in ("np", "numpy", "torch", "F", "math"):
                    found.add(id(node.func.value))
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and not _known(node.attr)):
            found.add(id(node)) if node.attr in ("T", "mT", "shape", "dtype", "newaxis", "ndim") else None
        if isinstance(node, ast.Starred | ast.Slice | ast.Tuple | ast.keyword):
            found.add(id(node))
    return found


def _known(attribute: str) -> bool:
    return attribute in ("T", "mT", "shape", "dtype", "ndim")


def _inside(nodes: list[ast.AST], kind: type[ast.AST], field: str) -> set[int]:
    return {id(x) for node in nodes if isinstance(node, kind) for x in ast.walk(getattr(node, field))}


def _index(node: ast.expr) -> Iterator[Change]:
    """t to t + 1 and t - 1, and back."""
    if isinstance(node, ast.Name):
        for operator in (ast.Add(), ast.Sub()):
            yield SIMPLE, ast.BinOp(node, operator, ast.Constant(1))
    elif isinstance(node, ast.BinOp):
        yield SIMPLE, node.left
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        for number in {0, 1, -1, -2, node.value + 1, node.value - 1} - {node.value}:
            yield SIMPLE, ast.Constant(number)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield SIMPLE, node.operand


def _own(node: ast.expr) -> Iterator[Change]:
    """Changes of what the node itself does."""
    if isinstance(node, ast.BinOp):
        for operator in SWAPPED.get(type(node.op), ()):
            yield SIMPLE, ast.BinOp(node.left, operator(), node.right)
        yield SIMPLE, node.left
        yield SIMPLE, node.right
        if isinstance(node.right, ast.Name):
            yield NEAR, _called("where", [node.right, node.left, ast.Constant(float("-inf"))])
        if not isinstance(node.op, ast.Add | ast.Mult):
            yield SIMPLE, ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.UnaryOp):
        yield SIMPLE, node.operand
    elif isinstance(node, ast.IfExp):
        yield SIMPLE, node.body
        yield SIMPLE, node.orelse
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for comparison in (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq):
            if not isinstance(node.ops[0], comparison):
                yield SIMPLE, ast.Compare(node.left, [comparison()], node.comparators)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        v = node.value
        for number in dict.fromkeys([-v, v + 1, v - 1, v / 2, v * 2, v * 10, v / 10, 0, 1, 2, 3, 0.5, float("-inf")]):
            if number != v:
                yield SIMPLE, ast.Constant(number)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield SIMPLE, node.value


def _call(node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in REDUCTIONS:
        for name in REDUCTIONS:
            if name != node.func.attr:
                yield SIMPLE, ast.Call(ast.Attribute(node.func.value, name, ast.Load()), node.args, node.keywords)
    if isinstance(node.func, ast.Attribute) and node.func.attr in (
        "exp2",
        "expm1",
        "exp",
        "log2",
        "log10",
        "log1p",
        "log",
    ):
        for name in ("exp", "log"):
            if name != node.func.attr:
                yield SIMPLE, ast.Call(ast.Attribute(node.func.value, name, ast.Load()), node.args, node.keywords)
    axes = [k for k in node.keywords if k.arg in ("axis", "dim")]
    place = next((i for i, a in enumerate(node.args) if _is_axis(a)), None)
    for axis in (-1, 0, 1, -2, None):
        if axes:
            rest = [k for k in node.keywords if k is not axes[0]]
            yield SIMPLE, ast.Call(node.func, node.args, [*rest, ast.keyword(axes[0].arg, ast.Constant(axis))])
        elif place is not None and axis is not None:
            args = [ast.Constant(axis) if i == place else a for i, a in enumerate(node.args)]
            yield SIMPLE, ast.Call(node.func, args, node.keywords)
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in REDUCTIONS
        and not axes
        and place is None
        and not node.args
    ):
        for axis in (-1, 0, 1, -2):
            keywords = [ast.keyword("axis", ast.Constant(axis)), ast.keyword("keepdims", ast.Constant(True))]
            yield SIMPLE, ast.Call(node.func, [], keywords)
    for k in node.keywords:
        yield SIMPLE, ast.Call(node.func, node.args, [other for other in node.keywords if other is not k])
    if isinstance(node.func, ast.Attribute) and not node.args:
        yield SIMPLE, node.func.value
    elif len(node.args) == 1:
        yield SIMPLE, node.args[0]
    if len(node.args) == 2:
        yield SIMPLE, ast.Call(node.func, node.args[::-1], node.keywords)


def _is_axis(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool)


def _operands(node: ast.expr, names: Sequence[tuple[ast.expr, float]]) -> Iterator[Change]:
    """Another name in the place of a name."""
    if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        said = ast.unparse(node)
        for name, _ in names:
            if ast.unparse(name) != said:
                yield SIMPLE, name
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):  # len(x)
        for name, _ in names:
            yield NEAR, name
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        for name, _ in names:
            yield NEAR, ast.Subscript(name, node.slice, ast.Load())


def _around(node: ast.expr, names: Sequence[tuple[ast.expr, float]]) -> Iterator[Change]:
    """One operation more."""
    if isinstance(node, ast.Constant | ast.Compare | ast.BoolOp | ast.Lambda | ast.List | ast.ListComp):
        return
    yield SIMPLE, ast.UnaryOp(ast.USub(), node)
    yield NEAR, _called("swapaxes", [node, ast.Constant(-1), ast.Constant(-2)])
    for name in ("exp", "log", "square", "sqrt", "reciprocal", "tanh"):
        yield FAR, _called(name, [node])
    for name in ("sum", "mean"):
        for axis in (-1, 0):
            keywords = [ast.keyword("axis", ast.Constant(axis)), ast.keyword("keepdims", ast.Constant(True))]
            yield FAR, ast.Call(ast.Attribute(ast.Name(NUMPY, ast.Load()), name, ast.Load()), [node], keywords)
    yield FAR, ast.BinOp(ast.Constant(1), ast.Sub(), node)
    for number in (2, 0.5, 3):
        yield FAR, ast.BinOp(node, ast.Mult(), ast.Constant(number))
    for other, cost in names:
        for operator in (ast.Mult(), ast.Div(), ast.Sub(), ast.Add()):
            yield cost, ast.BinOp(node, operator, other)
        yield cost + 0.4, ast.BinOp(node, ast.Div(), ast.BinOp(other, ast.Pow(), ast.Constant(0.5)))
        yield cost + 0.3, ast.BinOp(node, ast.Div(), _called("size", [other, ast.Constant(-1)]))


def _called(name: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(NUMPY, ast.Load()), name, ast.Load()), args, [])
