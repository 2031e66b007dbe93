"""Kinds of code in which no fault is put, each with the reason: what changes there, no caller can see.

A single mutant that changes nothing is listed in equivalent.toml; here the reason holds for a kind of code, wherever it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

SETTINGS: Final = ("core/packing/settings.py", "core/packing/settings.py")
"""The modules of the search's tuning constants; a test fails for one that is elsewhere."""

LISTED: Final = "listed"
"""What mutants are counted as that equivalent.toml lists one by one."""

_OF_TYPE_CHECKER: Final = ("TypeVar", "NewType", "ParamSpec", "TypeVarTuple")
_UNSEEN_OPTIONS: Final = ("cache_hash", "frozen", "gc", "kw_only", "slots", "weakref")
_CACHES: Final = ("lru_cache", "ByIdentity")
_SIZES: Final = ("_KEPT", "_REMEMBERED")


class Kind(msgspec.Struct, frozen=True):
    """A kind of code: its name, why a fault in it changes nothing, and which parts of a node of a module belong to it."""

    name: str
    why: str
    parts: Callable[[ast.AST, str], Iterator[ast.AST]]


def mark(tree: ast.AST, path: str) -> None:
    """Note on each node of a module of which kind it is; `kind_of` returns it."""
    for node in ast.walk(tree):
        for kind in KINDS:
            for piece in kind.parts(node, path):
                for one in ast.walk(piece):
                    one.left_out = kind.name  # type: ignore[attr-defined]


def kind_of(node: ast.AST) -> str:
    """The kind of a marked node; empty for code that is broken."""
    return getattr(node, "left_out", "")


def _texts(node: ast.AST, _: str) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node
    if isinstance(node, ast.JoinedStr):
        yield node
    if isinstance(node, ast.Raise) and node.exc is not None:
        yield node.exc


def _of_type_checker(node: ast.AST, _: str) -> Iterator[ast.AST]:
    for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        if part is not None:
            yield part
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    if isinstance(node, ast.Call) and _called(node) in _OF_TYPE_CHECKER:
        yield node


def _options(node: ast.AST, _: str) -> Iterator[ast.AST]:
    if isinstance(node, ast.ClassDef):
        calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
        keywords = [*node.keywords, *(keyword for call in calls for keyword in call.keywords)]
        yield from (keyword.value for keyword in keywords if keyword.arg in _UNSEEN_OPTIONS)
    if isinstance(node, ast.Call) and _called(node) == "zip":
        yield from (keyword.value for keyword in node.keywords)


def _sizes(node: ast.AST, _: str) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and _called(node) in _CACHES:
        yield node
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and f"_{node.target.id}".endswith(_SIZES):
        yield from (one for one in (node.value,) if isinstance(one, ast.Constant))


def _tuning(node: ast.AST, path: str) -> Iterator[ast.AST]:
    if path in SETTINGS and isinstance(node, ast.Constant):
        yield node


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


KINDS: Final = (
    Kind("text", "docstrings, and the wording of messages and errors", _texts),
    Kind("type", "annotations, imports and type variables: only the type checker reads them", _of_type_checker),
    Kind(
        "option",
        "`frozen` and `kw_only` of a class and `strict` of `zip` forbid what no caller does; `gc` and `slots` are costs",
        _options,
    ),
    Kind("cache size", "how many results a pure function remembers: a forgotten one is computed again", _sizes),
    Kind(
        "tuning",
        f"a number of `{'` or `'.join(SETTINGS)}` plus one: plans are valid either way, and `make bench` measures their cost",
        _tuning,
    ),
)
"""Every kind; where two claim one node, the later one has it."""
