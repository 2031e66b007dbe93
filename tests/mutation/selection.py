"""Selects the tests that run on a mutant, and their order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec

from tests.mutation.areas import CODE, ROOT, SUITES, WHOLE_RESULTS, Place, area_of, defined, is_of_area, own_tests
from tests.mutation.coverage_map import CoverageMap
from tests.mutation.mutants import Mutant

_STEPS: Final = (0.02, 0.1, 0.5, 2.0, 8.0)
"""Cheap tests are asked first; within a step, those of the module's own, then those that run most of the module."""

_TABLE: Final = re.compile(r'"(\w+\.txt)"')

_MADE_MAX: Final = 40
"""Beyond so many names, nearly every test says one of them."""

_LATE_TESTS_MAX: Final = 400
"""The most tests for a mutant in code that runs at import: each test module is imported again for it."""


def suites_of(chosen: Sequence[Mutant]) -> list[str]:
    """What must be collected: the tests of the areas of these mutants, each once."""
    areas = sorted({area_of(mutant.path) for mutant in chosen})
    return list(dict.fromkeys(suite for area in areas for suite in SUITES[area]))


def own_suites(chosen: Sequence[Mutant]) -> list[str]:
    """The tests at the modules' own paths; for a module without any, those in the folder where they would be."""
    own = [Path(own_tests(mutant.path)) for mutant in chosen]
    found = [path if (ROOT / path).is_file() else next(f for f in path.parents if (ROOT / f).is_dir()) for path in own]
    return list(dict.fromkeys(map(str, found)))


def whole_suites(chosen: Sequence[Mutant]) -> list[str]:
    """The tests of whole results of the areas of these mutants."""
    areas = sorted({area_of(mutant.path) for mutant in chosen})
    return list(dict.fromkeys(test for area in areas for test in WHOLE_RESULTS.get(area, ())))


def tests_for(mutant: Mutant, place: Place, known: CoverageMap, collected: Iterable[str]) -> list[str]:
    """The tests of its area that execute the mutant's statement."""
    area, own = area_of(mutant.path), own_tests(mutant.path)
    tests = set(known.tests_of(mutant.path, place.first, place.last)).intersection(collected)

    def order(test: str) -> tuple[int, bool, int, str]:
        steps = sum(known.seconds(test) > step for step in _STEPS)
        return steps, test.partition("::")[0] != own, -known.lines_run(test, mutant.path), test

    return sorted((test for test in tests if is_of_area(test, area)), key=order)


def tests_at_import(mutant: Mutant, place: Place, known: CoverageMap, collected: Iterable[str]) -> list[str]:
    """The tests of its area for what runs when the module is imported.

    Those at the module's path, those whose files say one of its names or of a name that is made of them, and those that execute
    a line that does; by file, for each is imported again.
    """
    area, own = area_of(mutant.path), own_tests(mutant.path)
    of_area = [test for test in collected if is_of_area(test, area) and known.seconds(test) < _STEPS[-1]]
    names = place.names or (place.function.rpartition(".")[2],)
    names += made_of(names[:1], mutant.path)
    says = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names))
    by_text = {file for file in {test.partition("::")[0] for test in of_area} if says.search(_text(file))}
    by_line: set[str] = set()
    for path, text in _code():
        lines = [number for number, line in enumerate(text.splitlines(), 1) if says.search(line)]
        by_line.update(known.tests_of_lines(path, lines))
    asked = [test for test in of_area if test.partition("::")[0] in by_text | {own} or test in by_line]

    def order(test: str) -> tuple[bool, bool, str]:
        file = test.partition("::")[0]
        return file != own, file not in by_text, file

    return sorted(asked, key=order)[:_LATE_TESTS_MAX]


def made_of(names: Sequence[str], path: str) -> tuple[str, ...]:
    """What is made of a module's names while modules are imported: a table or a class carries a fault in a constant."""
    found = list(names)
    for one in found:
        says = re.compile(rf"\b{re.escape(one)}\b")
        modules = [_module(file, text) for file, text in _code() if one in text]
        users = [made for module in modules if module.path == path or one in module.known for made in module.made]
        found += dict.fromkeys(
            name for defines, text in users if says.search(text) for name in defines if name not in found
        )
        if len(found) > _MADE_MAX:
            break
    return tuple(found[len(names) :])


class _Module(msgspec.Struct, frozen=True):
    """What a module imports, takes of what it imports, or makes by name, and each statement that makes something at import.

    Of a statement: the names that it defines, and its text.
    """

    path: str
    known: frozenset[str]
    made: tuple[tuple[tuple[str, ...], str], ...]


@cache
def _module(path: str, text: str) -> _Module:
    body = ast.parse(text).body
    imported = {name.asname or name.name for one in body if isinstance(one, ast.ImportFrom) for name in one.names}
    attributes = [one for statement in body for one in ast.walk(statement) if isinstance(one, ast.Attribute)]
    taken = {one.attr for one in attributes if isinstance(one.value, ast.Name) and one.value.id in imported}
    made = []
    for one in body:
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None:
            made.append((tuple(defined(one)), ast.unparse(one.value)))
        elif isinstance(one, ast.ClassDef):
            inside = [part for part in one.body if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            made.append(((one.name,), "\n".join(map(ast.unparse, (*one.bases, *inside)))))
    return _Module(path, frozenset(imported.union(taken, *(names for names, _ in made))), tuple(made))


@lru_cache(maxsize=2048)
def _text(file: str) -> str:
    """The text of a module of tests, and of the tables beside it that it reads."""
    path = ROOT / file
    text = path.read_text()
    tables = [path.with_name(name) for name in _TABLE.findall(text)]
    return "\n".join((text, *(table.read_text() for table in tables if table.is_file())))


@lru_cache(maxsize=1)
def _code() -> tuple[tuple[str, str], ...]:
    files = sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))
    return tuple((str(file.relative_to(ROOT)), file.read_text()) for file in files)
