"""Plays mutants in forks of one pytest session that has imported and collected everything: milliseconds a mutant."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest

from core.interpreter import TrackedObjects
from tests.mutation.areas import Place
from tests.mutation.coverage_map import Caches, CoverageMap
from tests.mutation.forks import KILLED, NOT_APPLIED, SURVIVED, Ended, allow, forked, sound
from tests.mutation.mutants import Functions, Mutant, NotAppliedError, apply_to_functions, functions

_PATIENCE: Final = 5.0
"""A mutant counts as killed if a test takes this many times as long as on the unchanged project."""

_FIRST_SECONDS: Final = 8.0
"""Added to the limit of each test: a fork fills each memo again."""

_WALL_SECONDS: Final = 120.0
_WALL_PATIENCE: Final = 20.0
"""The limit by the clock, for what waits without computing: other work on the machine must not kill a mutant."""


class Warm:
    """The session's process.

    Args:
        items: All tests that were collected, by name.
        known: How long they take.
    """

    def __init__(self, items: Mapping[str, pytest.Item], known: CoverageMap) -> None:
        self._items = items
        self._known = known
        self._functions: Functions = functions()
        self._passes_alone: dict[str, bool] = {}
        Caches().empty()  # what was computed while tests were collected would hide a mutant
        gc.collect()
        TrackedObjects.freeze()

    def killer_of(self, mutant: Mutant, place: Place, tests: Sequence[str]) -> str:
        """The first test that fails with the mutant, and again when it is asked once more; empty if there is none.

        Raises:
            NotAppliedError: If existing functions cannot run it.
        """

        def break_it() -> None:
            apply_to_functions(mutant, place, self._functions)

        left = list(tests)
        while left:
            ended = self._play(left, break_it)
            if ended.status == NOT_APPLIED:
                raise NotAppliedError(ended.said)
            if ended.status == SURVIVED:
                return ""
            killer = self._last(ended, left)
            status = self._confirmed(left[: left.index(killer) + 1], break_it) if self._passes(killer) else SURVIVED
            if status != SURVIVED:
                return killer if status == KILLED else f"{killer} (ended twice by the clock or a crash: {status})"
            left = [test for test in left if test != killer]
        return ""

    def _last(self, ended: Ended, asked: Sequence[str]) -> str:
        """The test in which a run ended."""
        last = ended.said.splitlines()[-1] if ended.said else ""
        return last if last in self._items else asked[0]

    def _confirmed(self, tests: Sequence[str], break_it: Callable[[], None]) -> int:
        """How the last of these ends with the mutant when it is asked again; `SURVIVED` where the mutant is not the reason.

        It fails alone. If it passes alone, it fails after the others again, and passes after them without the mutant: a test
        that depends on the order of tests kills nothing.
        """
        alone = self._play(tests[-1:], break_it).status
        if alone != SURVIVED or len(tests) == 1:
            return alone
        again = self._play(tests, break_it)
        is_it = again.status != SURVIVED and self._last(again, tests) == tests[-1]
        return again.status if is_it and self._play(tests, lambda: None).status == SURVIVED else SURVIVED

    def _passes(self, test: str) -> bool:
        """Whether a test passes alone without a mutant: one that does not kills nothing."""
        if test not in self._passes_alone:
            self._passes_alone[test] = self._play([test], lambda: None).status == SURVIVED
        return self._passes_alone[test]

    def _play(self, tests: Sequence[str], prepare: Callable[[], None]) -> Ended:
        def body(say: Callable[[str], None]) -> int:
            try:
                prepare()
            except NotAppliedError as error:
                say(str(error))
                return NOT_APPLIED
            return self._run(tests, say)

        seconds = sum(self._known.seconds(test) for test in tests)
        return sound(forked(body, _WALL_SECONDS + _WALL_PATIENCE * seconds))

    def _run(self, tests: Sequence[str], say: Callable[[str], None]) -> int:
        items = [self._items[test] for test in tests]
        failures = Failures()
        items[0].config.pluginmanager.register(failures)
        for number, item in enumerate(items):
            say(f"{item.nodeid}\n")
            allow(_FIRST_SECONDS + _PATIENCE * self._known.seconds(item.nodeid))
            following = items[number + 1] if number + 1 < len(items) else None
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):  # pytest lets these of a test through
                return KILLED
            if failures.seen:
                return KILLED
        return SURVIVED


class Failures:
    """Notices that a test failed."""

    def __init__(self) -> None:
        self.seen = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setting up and tearing down count, too."""
        self.seen = self.seen or report.failed
