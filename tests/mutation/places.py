"""Locates a mutant: its function, the lines of its statement, and the names by which other code refers to it."""

from __future__ import annotations

import ast
from functools import lru_cache

import msgspec

from tests.mutation.mutants import Mutant

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(msgspec.Struct, frozen=True):
    """A mutant's surroundings.

    Attributes:
        function: The qualified name of the outermost function whose body holds it; empty for code that runs at import, which
            includes defaults of parameters and decorators.
        function_line: The first line of that function, its decorators included; 0 without one.
        first, last: The lines of its statement; only the head of one that has a body.
        names: What the statement defines, where it runs at import: constants, fields, functions, classes.
    """

    function: str
    function_line: int
    first: int
    last: int
    names: tuple[str, ...]


def place_of(mutant: Mutant, source: str) -> Place:
    """The place of a mutant in the text of its module.

    Raises:
        LookupError: If the module has no such line.
    """
    inner: ast.stmt | None = None
    function, function_line, qualified, names = "", 0, "", []
    body: list[ast.stmt] = _tree(source).body
    while (found := _at(body, mutant.line)) is not None:
        inner = found
        if isinstance(found, _Function | ast.ClassDef):
            qualified = f"{qualified}.{found.name}" if qualified else found.name
        if not function and isinstance(found, _Function) and mutant.line >= found.body[0].lineno:
            function, function_line = qualified, _first_line(found)
        if not function:
            names += defined(found)
        body = [statement for statement in _inside(found) if isinstance(statement, ast.stmt)]
    if inner is None:
        raise LookupError(f"{mutant.path} has no statement in line {mutant.line}")
    return Place(function, function_line, _first_line(inner), _last_line_of_head(inner), tuple(names))


@lru_cache(maxsize=8)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _at(body: list[ast.stmt], line: int) -> ast.stmt | None:
    return next((one for one in body if _first_line(one) <= line <= (one.end_lineno or one.lineno)), None)


def _inside(statement: ast.stmt) -> list[ast.AST]:
    """The statements one level below, also those of handlers and cases."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.ExceptHandler | ast.match_case):
            found += child.body
        else:
            found.append(child)
    return found


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _last_line_of_head(statement: ast.stmt) -> int:
    below = [one.lineno for one in _inside(statement) if isinstance(one, ast.stmt)]
    if not below:
        return statement.end_lineno or statement.lineno
    return max(statement.lineno, min(below) - 1)


def defined(statement: ast.stmt) -> list[str]:
    """The names that a statement gives to what it makes."""
    if isinstance(statement, _Function | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [one.id for target in targets if target is not None for one in ast.walk(target) if isinstance(one, ast.Name)]
