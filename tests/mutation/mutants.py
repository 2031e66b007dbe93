"""Small deliberate faults, made from the syntax of a module: each one place, one change."""

from __future__ import annotations

import ast
import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType
from typing import Final

import msgspec

from tests.mutation.areas import ROOT, Place

# Kinds of code in which no fault is put, each with the reason: what changes there, no caller can see.
#
# A single mutant that changes nothing is listed in equivalent.toml; here the reason holds for a kind of code, wherever it is.


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
    """Kind of code → how many faults could be made of it, but are not (`tests.mutation.mutants`)."""
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
            return (
                head + now.encode() + (gap if isinstance(node, ast.stmt) or not tail.strip(b"\n") else b"") + tail
            ).decode()
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


# Puts a mutant into a running process: into functions that exist, and into modules that are imported later.
#
# Only code objects are replaced, so every name under which a function was imported runs the mutant.


Functions = dict[tuple[str, str, int], list[FunctionType]]
"""(file, qualified name, first line) → the functions that are made of this code."""


class NotAppliedError(Exception):
    """The functions that exist cannot run the mutant: its module must be imported with it."""


def functions() -> Functions:
    """Every function of the project in this process."""
    found: Functions = defaultdict(list)
    root = f"{ROOT}/"
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(root):
            code = one.__code__
            found[(code.co_filename, code.co_qualname, code.co_firstlineno)].append(one)
    return found


def apply_at_import(mutant: Mutant) -> CodeType:
    """Make the module be imported with the mutant from now on; returns its code."""
    file = ROOT / mutant.path
    code = compile(broken(file.read_text(), mutant), str(file), "exec", dont_inherit=True)
    sound: Final = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if self.path == str(file) else sound(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
    return code


def apply_to_functions(mutant: Mutant, place: Place, existing: Functions) -> None:
    """Make the functions that exist run the mutant, also those that its function has made.

    Raises:
        NotAppliedError: If there is none, or if the mutant closes over other variables.
    """
    code = apply_at_import(mutant)
    key = (place.function, place.function_line)
    changed = [one for one in _codes(code) if (one.co_qualname, one.co_firstlineno) == key]
    running = existing.get((code.co_filename, *key), [])
    if len(changed) != 1 or not running:
        raise NotAppliedError(f"{mutant.path}: {len(changed)} times {place.function!r}, {len(running)} functions")
    _replace(running, changed[0])
    inner = {one.co_qualname: one for one in _codes(changed[0])}
    for (file, name, _), made in existing.items():
        if file == code.co_filename and name in inner:
            if sum(one.co_qualname == name for one in _codes(changed[0])) > 1:
                raise NotAppliedError(f"{mutant.path}: several functions are {name!r}")
            _replace(made, inner[name])


def _replace(running: Sequence[FunctionType], code: CodeType) -> None:
    for function in running:
        try:
            function.__code__ = code
        except ValueError as error:
            raise NotAppliedError(str(error)) from error


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)
