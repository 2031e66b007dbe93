"""Checks by static analysis that a bundle contains every module that its functions import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.packaging.bundles import BASE, Bundle
from infra.packaging.sources import PACKAGES
from installation.wiring import FunctionSpec

SOLVER_SEAMS: Final = frozenset(
    {
        "core.scheduling.planner",
        "core.scheduling.existing_node",
        "core.scheduling.fleet_rows",
        "core.disruption.decision",
    }
)
"""Modules that import the solver within functions, which only Lambda functions with `needs_solver` call, or which go on without
it. In `base`, the bundle without the solver, these lazy imports do not count."""

SUFFIXES: Final = (".py", ".pyc", ".so", ".*.so")


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """A module imports another; `name` may be of ours or of a package."""

    module: str
    name: str


def missing(folder: Path, bundle: Bundle, functions: Iterable[FunctionSpec]) -> Sequence[Import]:
    """Return every import of the functions, at module level or lazy, that the bundle in `folder` cannot satisfy."""
    imports = _reached_from(folder, bundle, functions)
    return [
        imported
        for imported in imports
        if _source(folder, imported.name) is None and not _is_there(folder, imported.name)
    ]


def modules(folder: Path, bundle: Bundle, functions: Iterable[FunctionSpec]) -> Sequence[str]:
    """Return the names of all modules that the functions import, at module level or lazily, sorted."""
    return sorted({imported.name for imported in _reached_from(folder, bundle, functions)})


def _reached_from(folder: Path, bundle: Bundle, functions: Iterable[FunctionSpec]) -> Sequence[Import]:
    """Return the imports of all our modules that the functions reach, sorted."""
    seen: set[str] = set()
    waiting = [spec.handler.rpartition(".")[0] for spec in functions]
    imports: set[Import] = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        path = _source(folder, module)
        if path is None:
            raise FileNotFoundError(f"{module} is not in {folder}")
        for name in _imports(folder, path, lazily=not (bundle is BASE and module in SOLVER_SEAMS)):
            imports.add(Import(module, name))
            if _source(folder, name) is not None:
                waiting += _with_packages(name)
    return sorted(imports)


def _imports(folder: Path, path: Path, *, lazily: bool) -> Iterator[str]:
    """Yield the modules that a source imports; for `from a import b` it is `a`, and `a.b` if that is a module of ours."""
    for node in _reached(ast.parse(path.read_text(encoding="utf-8")), lazily=lazily):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = str(node.module)
            yield base
            inner = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name for name in inner if _source(folder, name) is not None)


def _reached(tree: ast.AST, *, lazily: bool) -> Iterator[ast.AST]:
    """Yield every statement outside of `if TYPE_CHECKING`; those in functions only with `lazily`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.FunctionDef) and not lazily:
            continue
        yield child
        yield from _reached(child, lazily=lazily)


def _source(folder: Path, name: str) -> Path | None:
    """Return the file of one of our modules; None if the module is not ours or does not exist."""
    if _first(name) not in PACKAGES:
        return None
    stem = folder.joinpath(*name.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


def _is_there(folder: Path, name: str) -> bool:
    """Whether a third-party module is in the standard library or in the bundle; a package counts by its folder alone."""
    if _first(name) in sys.stdlib_module_names:
        return True
    stem = folder.joinpath(*name.split("."))
    files = (path for suffix in SUFFIXES for path in stem.parent.glob(f"{stem.name}{suffix}"))
    return stem.is_dir() or next(files, None) is not None


def _with_packages(name: str) -> Iterator[str]:
    """Yield the packages that contain the module, which run first, and the module."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _first(name: str) -> str:
    return name.partition(".")[0]
