"""Docstrings name what is there: an attribute or argument that was renamed keeps its old name in prose otherwise."""

from __future__ import annotations

import ast
import re

from tests.tidy.test_manners import FILES, relative

ENTRY = re.compile(r"    \*{0,2}([A-Za-z_][\w, *]*?):(?: |$)")


def named(docstring: str, heading: str) -> list[str]:
    """The names that a section of a docstring explains."""
    found: list[str] = []
    for line in docstring.partition(f"{heading}:\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        if match := ENTRY.match(line):
            found += [name.strip(" *") for name in match[1].split(",")]
    return found


def attributes(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            found.add(inner.name)
        elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
    return found


def arguments(node: ast.ClassDef | ast.FunctionDef) -> set[str]:
    functions = (
        [node] if isinstance(node, ast.FunctionDef) else [n for n in node.body if isinstance(n, ast.FunctionDef)]
    )
    function = next((f for f in functions if isinstance(node, ast.FunctionDef) or f.name == "__init__"), None)
    if function is None:
        return set()
    given = function.args
    more = [one for one in (given.vararg, given.kwarg) if one is not None]
    return {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more)}


def test_what_a_docstring_explains_is_there() -> None:
    lost = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            text = ast.get_docstring(node) or ""
            gone = set(named(text, "Args")) - arguments(node)
            if isinstance(node, ast.ClassDef):
                gone |= set(named(text, "Attributes")) - attributes(node)
            lost += [f"{relative(path)}:{node.lineno} {node.name}: {name}" for name in sorted(gone)]
    assert not lost
