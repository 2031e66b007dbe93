"""The pytest session in whose forks mutants are played: collects once, measures what is not known, answers mutant by mutant."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import pytest

from tests.mutation.applied import NotAppliedError
from tests.mutation.areas import ROOT
from tests.mutation.coverage_map import kept_map
from tests.mutation.forks import forked
from tests.mutation.mutants import Mutant
from tests.mutation.places import place_of
from tests.mutation.selection import tests_at_import, tests_for
from tests.mutation.tracing import Tracing
from tests.mutation.warm import Warm

OPTIONS: Final = (
    *("-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler"),
    *("-m", "not slow and not e2e", "--hypothesis-profile=mutants", "--no-header", "--tb=no"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
_TRACING_SECONDS_MAX: Final = 7200.0
_TRACED_TOGETHER: Final = 500
"""Tests whose lines are noted in one child: what it found is kept, whatever becomes of the next one."""


class Answer(msgspec.Struct, frozen=True):
    """What became of a mutant.

    Attributes:
        number: Its place in what was asked.
        killer: The test that failed; empty for a survivor.
        asked: How many tests execute its lines.
        left: For one that its module must be imported with: the tests to ask; nothing was asked yet.
    """

    number: int
    killer: str = ""
    asked: int = 0
    left: tuple[str, ...] | None = None


class Session:
    """A plugin of pytest that takes the place of its loop over tests.

    Args:
        chosen: The mutants.
        processes: How many forks play them.
        write: The pipe for an answer a line.
        tests_max: A mutant is asked of so many tests, the cheapest; None: of all that run its line.
    """

    def __init__(self, chosen: Sequence[Mutant], processes: int, write: int, tests_max: int | None) -> None:
        self._chosen = chosen
        self._processes = processes
        self._write = write
        self._tests_max = tests_max
        self._known = kept_map()
        self._tracing = Tracing()

    def pytest_configure(self) -> None:
        """Note what runs at import, before anything is imported."""
        self._tracing.start()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure, then play."""
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected: run pytest on them first")
        items = {item.nodeid: item for item in session.items}
        self._measure(items)
        self._tracing.stop()
        warm = Warm(items, self._known)
        hands = [self._hand(warm, items, first) for first in range(self._processes)]
        for hand in hands:
            os.waitpid(hand, 0)
        return True

    def _measure(self, items: dict[str, pytest.Item]) -> None:
        unknown = self._known.unknown(items)
        if not unknown:
            return
        sys.stderr.write(f"noting which lines {len(unknown)} tests execute\n")
        for start in range(0, len(unknown), _TRACED_TOGETHER):
            self._measure_part(items, unknown[start : start + _TRACED_TOGETHER])
        self._known = kept_map()

    def _measure_part(self, items: dict[str, pytest.Item], unknown: Sequence[str]) -> None:
        def body(say: Callable[[str], None]) -> int:
            next(iter(items.values())).config.pluginmanager.register(self._tracing)
            runs, imported = self._tracing.run([items[test] for test in unknown])
            known = kept_map()  # another run may have added to it
            known.note(runs, imported)
            known.save()
            say("\n".join(self._tracing.failed))
            return 0

        # Nothing is broken here: a test that waits for a process of its own on a busy machine is no mutant that hangs.
        ended = forked(body, _TRACING_SECONDS_MAX, idle_max=_TRACING_SECONDS_MAX)
        if ended.status:
            raise pytest.UsageError(f"the tests could not be measured: {ended.status} {ended.said}")
        if ended.said:
            sys.stderr.write(f"these fail without any mutant while lines are noted:\n{ended.said}\n")

    def _hand(self, warm: Warm, items: dict[str, pytest.Item], first: int) -> int:
        """Fork a process that plays its share of the mutants; returns its process id."""
        hand = os.fork()
        if hand == 0:
            try:
                for answer in self._answers(warm, items, first):
                    os.write(self._write, msgspec.json.encode(answer) + b"\n")
            finally:
                os._exit(0)
        return hand

    def _answers(self, warm: Warm, items: dict[str, pytest.Item], first: int) -> Iterator[Answer]:
        for number in range(first, len(self._chosen), self._processes):
            mutant = self._chosen[number]
            place = place_of(mutant, (ROOT / mutant.path).read_text())
            if not place.function:
                yield Answer(number, left=tuple(tests_at_import(mutant, place, self._known, items)))
                continue
            tests = tests_for(mutant, place, self._known, items)
            if self._known.runs_at_import(mutant.path, place.first, place.last):
                yield Answer(number, left=(*tests, *tests_at_import(mutant, place, self._known, items)))
                continue
            try:
                yield Answer(number, warm.killer_of(mutant, place, tests[: self._tests_max]), len(tests))
            except NotAppliedError:
                yield Answer(number, left=tuple(tests))


def run_session(
    chosen: Sequence[Mutant], suites: Sequence[str], processes: int, write: int, tests_max: int | None
) -> int:
    """Play these mutants on tests of these suites in this process, which must not have imported the project.

    Returns:
        pytest's status.
    """
    return int(pytest.main([*OPTIONS, *suites], plugins=[Session(chosen, processes, write, tests_max)]))
