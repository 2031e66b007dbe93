"""Plays mutants that run at import: each fork imports the project, the mutant in it, and runs pytest from the beginning."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import msgspec
import pytest

from tests.mutation.forks import KILLED, SURVIVED, allow, forked, sound
from tests.mutation.mutants import Mutant, apply_at_import
from tests.mutation.session import OPTIONS

_LIBRARIES: Final = ("highspy", "hypothesis", "moto", "msgspec", "numpy", "pydantic", "scipy.sparse", "yaml")
_FIRST_FILES: Final = 4
"""So many modules of tests are asked before the rest is imported at all."""

_SECONDS: Final = 240.0
_WALL_SECONDS: Final = 1200.0
_OTHER_END: Final = 2
"""pytest ended for another reason than a test or an import: it counts as a crash does."""

_BEGUN, _FAILED, _IMPORT = "begun ", "failed ", "import "


class _Played(msgspec.Struct, frozen=True):
    """How a run of pytest ended.

    Attributes:
        status: `SURVIVED`, `KILLED`, or another for a crash, the clock or an end of pytest that no test explains.
        failed: The tests that failed, and the modules of tests that cannot be imported.
        last: The test that ran last; empty if none did.
    """

    status: int
    failed: tuple[str, ...]
    last: str


def import_libraries() -> None:
    """Import what all forks need, and nothing of the project."""
    for library in _LIBRARIES:
        try:
            importlib.import_module(library)
        except ImportError:
            continue


def killer_of(mutant: Mutant, tests: Sequence[str]) -> str:
    """The first test that fails with the mutant and passes without, or what else ended the run; empty if there is none."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    first = set(files[:_FIRST_FILES])
    stages = [
        [test for test in tests if test.partition("::")[0] in first],
        [test for test in tests if test.partition("::")[0] not in first],
    ]
    return next(filter(None, (_killer_in(mutant, stage) for stage in stages)), "")


def _killer_in(mutant: Mutant, stage: Sequence[str]) -> str:
    """A test that fails without the mutant, too, is dropped, and the rest is asked."""
    left = list(stage)
    while left:
        found = _played(mutant, left)
        if found.status not in (SURVIVED, KILLED):
            found = _played(mutant, left)  # a crash or the clock counts if it happens twice
        if found.status == SURVIVED:
            return ""
        without = _without_mutant(tuple(_up_to(found, left)))
        if found.status == KILLED and found.failed[0] not in without.failed:
            said = found.failed[0]
            return said if "::" in said else f"the import of {said}"
        if found.status != KILLED and without.status in (SURVIVED, KILLED):
            return f"a crash or the clock, twice: {found.status} in {found.last or 'the collection'}"
        dropped = {*without.failed, *found.failed[:1], *(() if found.status == KILLED else (found.last or left[0],))}
        left = [test for test in left if test not in dropped and test.partition("::")[0] not in dropped]
    return ""


def _up_to(found: _Played, tests: Sequence[str]) -> list[str]:
    """The tests of the modules up to the one where a run ended."""
    end = (found.failed[0] if found.status == KILLED else found.last).partition("::")[0]
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    until = set(files[: files.index(end) + 1] if end in files else files)
    return [test for test in tests if test.partition("::")[0] in until]


@cache
def _without_mutant(tests: tuple[str, ...]) -> _Played:
    return _played(None, tests)


def _played(mutant: Mutant | None, tests: Sequence[str]) -> _Played:
    """Run these with the mutant until one fails; without a mutant, run all."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests)

    def body(say: Callable[[str], None]) -> int:
        if mutant is not None:
            apply_at_import(mutant)
        allow(_SECONDS)
        watch = Watch(say, frozenset(tests))
        until = ["--continue-on-collection-errors"] if mutant is None else ["-x"]
        status = pytest.main([*OPTIONS, *until, *files], plugins=[watch])
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return SURVIVED
        is_explained = status in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED) and watch.has_failed
        return KILLED if is_explained else _OTHER_END

    ended = sound(forked(body, _WALL_SECONDS))
    lines = ended.said.splitlines()
    failed = [line.removeprefix(said) for line in lines for said in (_FAILED, _IMPORT) if line.startswith(said)]
    begun = [line.removeprefix(_BEGUN) for line in lines if line.startswith(_BEGUN)]
    return _Played(ended.status, tuple(failed), begun[-1] if begun else "")


class Watch:
    """Runs these tests of what is collected, and says which begin, which fail and which modules cannot be imported.

    A test that the mutant gives another name, or none, is not asked.
    """

    def __init__(self, say: Callable[[str], None], asked: frozenset[str]) -> None:
        self._say = say
        self._asked = asked
        self.has_failed = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the others out."""
        items[:] = [item for item in items if item.nodeid in self._asked]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._say(f"{_BEGUN}{nodeid}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test fails."""
        if report.failed:
            self.has_failed = True
            self._say(f"{_FAILED}{report.nodeid}\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module of tests cannot be imported."""
        if report.failed:
            self.has_failed = True
            self._say(f"{_IMPORT}{report.nodeid}\n")
