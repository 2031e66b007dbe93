"""Small deliberate faults, made from the syntax of a module: each one place, one change."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from tests.mutation.left_out import kind_of, mark

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip
BY_TEXT: Final = -1
"""The column of a mutant that is made by replacing a text that stands once in its module."""

_CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(msgspec.Struct, frozen=True, order=True):
    """One fault.

    Attributes:
        path: The module, from the root of the repository.
        line, column: Where it is; the number tells apart faults at one place.
        was, now: The piece of code before and after.
    """

    path: str
    line: int
    column: int
    number: int
    was: str
    now: str


def mutants(path: str, source: str) -> list[Mutant]:
    """Every fault that is made of a module, in the order of its lines."""
    return sorted(mutant for mutant, kind in _made(path, source) if not kind)


def left_out(path: str, source: str) -> Counter[str]:
    """Kind of code → how many faults could be made of it, but are not (`tests.mutation.left_out`)."""
    return Counter(kind for _, kind in _made(path, source) if kind)


def broken(source: str, mutant: Mutant) -> str:
    """The module with that fault; its other lines keep their numbers, unless it is one by text.

    Raises:
        LookupError: If the module has no such place.
    """
    if mutant.column == BY_TEXT and source.count(mutant.was) == 1:
        return source.replace(mutant.was, mutant.now)
    for node in ast.walk(ast.parse(source)):
        is_there = (getattr(node, "lineno", 0), getattr(node, "col_offset", -1)) == (mutant.line, mutant.column)
        if is_there and isinstance(node, ast.expr | ast.stmt) and ast.unparse(node) == mutant.was:
            lines = source.encode().splitlines(keepends=True)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            head = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
            tail = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
            gap = b"\n" * (node.end_lineno - node.lineno)
            now = f"({mutant.now})" if isinstance(node, ast.expr) else mutant.now
            return (head + now.encode() + (gap if not tail.strip(b"\n") else b"") + tail).decode()
    raise LookupError(f"{mutant.path}:{mutant.line}: there is no `{mutant.was}`")


def _made(path: str, source: str) -> Iterator[tuple[Mutant, str]]:
    """Every fault, with the kind of its code if that is left out."""
    tree = ast.parse(source)
    mark(tree, path)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        was = ast.unparse(node)
        for number, now in enumerate(_changed(node)):
            if now != was:
                yield Mutant(path, node.lineno, node.col_offset, number, was, now), kind_of(node)


def _changed(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        yield _with(node, ops=[_COMPARED[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for number in range(len(node.values)):
            rest = [*node.values[:number], *node.values[number + 1 :]]
            yield ast.unparse(rest[0]) if len(rest) == 1 else _with(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        yield _with(node, op=_COMPUTED[type(node.op)]())
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.IfExp):
        yield ast.unparse(node.body)
        yield ast.unparse(node.orelse)
    elif isinstance(node, ast.stmt):
        yield from _statements(node)


def _statements(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return None"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "pass"
    elif isinstance(node, ast.Continue):
        yield "break"
    elif isinstance(node, ast.Break):
        yield "continue"


def _constants(node: ast.Constant) -> Iterator[str]:
    if isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node.value, int):
        yield str(node.value + 1)


def _calls(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        yield _with(node, func=ast.Name(_CALLED[node.func.id]))
    for number, keyword in enumerate(node.keywords):
        is_default = keyword.arg is None or isinstance(keyword.value, ast.Constant)
        if not is_default:
            rest = [*node.keywords[:number], *node.keywords[number + 1 :]]
            yield _with(node, keywords=rest)


def _with(node: ast.AST, **changes: object) -> str:
    fields = {name: getattr(node, name) for name in node._fields}
    return ast.unparse(type(node)(**{**fields, **changes}))
