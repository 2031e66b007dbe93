"""Plays mutants that run at import: each fork imports the project, the mutant in it, and runs pytest from the beginning."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.mutation.applied import apply_at_import
from tests.mutation.forks import KILLED, SURVIVED, allow, forked
from tests.mutation.mutants import Mutant
from tests.mutation.session import OPTIONS

_LIBRARIES: Final = ("highspy", "hypothesis", "moto", "msgspec", "numpy", "pydantic", "scipy.sparse", "yaml")
_FIRST_FILES: Final = 4
"""So many modules of tests are asked before the rest is imported at all."""

_SECONDS: Final = 240.0
_WALL_SECONDS: Final = 1200.0


def import_libraries() -> None:
    """Import what all forks need, and nothing of the project."""
    for library in _LIBRARIES:
        try:
            importlib.import_module(library)
        except ImportError:
            continue


def killer_of(mutant: Mutant, tests: Sequence[str]) -> str:
    """The first test that fails with the mutant, or what else ended the run; empty if all pass."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    first = set(files[:_FIRST_FILES])
    stages = [
        [test for test in tests if test.partition("::")[0] in first],
        [test for test in tests if test.partition("::")[0] not in first],
    ]
    for stage in stages:
        killer = _played(mutant, stage) if stage else ""
        if killer:
            return killer
    return ""


def _played(mutant: Mutant | None, tests: Sequence[str]) -> str:
    def body(say: Callable[[str], None]) -> int:
        if mutant is not None:
            apply_at_import(mutant)
        allow(_SECONDS)
        first = First(say)
        status = pytest.main([*OPTIONS, "-x", *tests], plugins=[first])
        return SURVIVED if status == pytest.ExitCode.OK else KILLED

    ended = forked(body, _WALL_SECONDS)
    if ended.status == SURVIVED:
        return ""
    return ended.said.splitlines()[0] if ended.said else f"a crash or the clock: {ended.status}"


class First:
    """Says which test or import failed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test."""
        if report.failed:
            self._say(f"{report.nodeid}\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module of tests that cannot be imported."""
        if report.failed:
            self._say(f"the import of {report.nodeid}\n")
