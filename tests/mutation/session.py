"""The pytest session in whose forks mutants are played: collects once, measures what is not known, answers mutant by mutant."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import accumulate
from typing import Final

import msgspec
import pytest

from tests.mutation.areas import ROOT, is_under, place_of
from tests.mutation.coverage_map import CoverageMap, Tracing, kept_map
from tests.mutation.forks import forked, in_hands
from tests.mutation.mutants import Mutant, NotAppliedError
from tests.mutation.selection import tests_at_import, tests_for
from tests.mutation.warm import Warm

OPTIONS: Final = (
    *("-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler"),
    *("-m", "not slow and not e2e", "--hypothesis-profile=mutants", "--no-header", "--tb=no"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
_TRACING_SECONDS_MAX: Final = 7200.0
_TRACED_TOGETHER: Final = 500
"""Tests whose lines are noted in one child: what it found is kept, whatever becomes of the next one."""


class Limits(msgspec.Struct, frozen=True):
    """What a session may ask of one mutant.

    Attributes:
        tests: So many tests, the cheapest; None for all.
        seconds: As many tests as take no longer than this together, while lines are noted; None for all.
    """

    tests: int | None = None
    seconds: float | None = None

    def within(self, tests: Sequence[str], known: CoverageMap) -> list[str]:
        """The first of these tests, as far as the limits allow."""
        used = accumulate(known.seconds(test) for test in tests)
        asked = [
            test for test, seconds in zip(tests, used, strict=True) if self.seconds is None or seconds <= self.seconds
        ]
        return asked[: self.tests]


class Asked(msgspec.Struct, frozen=True):
    """What a session asks of each mutant: tests of these suites that run its line, but of none that was asked before."""

    suites: tuple[str, ...]
    before: tuple[str, ...]
    limits: Limits


class Answer(msgspec.Struct, frozen=True):
    """What became of a mutant.

    Attributes:
        number: Its place in what was asked.
        killer: The test that failed; empty for a survivor.
        asked: How many tests execute its lines, and may be asked.
        left_out: How many more do, which are beyond the limits.
        left: For one that its module must be imported with: the tests to ask; nothing was asked yet.
    """

    number: int
    killer: str = ""
    asked: int = 0
    left_out: int = 0
    left: tuple[str, ...] | None = None


class Session:
    """A plugin of pytest that takes the place of its loop over tests.

    Args:
        chosen: The mutants.
        asked: What to ask of each.
        processes: How many forks play them.
        write: The pipe for an answer a line.
    """

    def __init__(self, chosen: Sequence[Mutant], asked: Asked, processes: int, write: int) -> None:
        self._chosen = chosen
        self._asked = asked
        self._processes = processes
        self._write = write
        self._known = kept_map()
        self._tracing = Tracing()

    def pytest_configure(self) -> None:
        """Note what runs at import, before anything is imported."""
        self._tracing.start()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure, then play."""
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected: run pytest on them first")
        import_modules(mutant.path for mutant in self._chosen)
        items = {item.nodeid: item for item in session.items if not is_under(item.nodeid, self._asked.before)}
        self._measure(items)
        for test in self._known.failing(items):
            del items[test]
        self._tracing.stop()
        warm = Warm(items, self._known)

        def play(first: int) -> None:
            for answer in self._answers(warm, items, first):
                os.write(self._write, encoded(answer))

        in_hands(self._processes, play)
        return True

    def _measure(self, items: dict[str, pytest.Item]) -> None:
        unknown = self._known.unknown(items)
        if not items or not (unknown or {mutant.path for mutant in self._chosen} - self._known.imported.keys()):
            return
        began = os.times()
        sys.stderr.write(f"noting which lines {len(unknown)} tests execute\n")
        for start in range(0, max(1, len(unknown)), _TRACED_TOGETHER):
            self._measure_part(items, unknown[start : start + _TRACED_TOGETHER])
        self._known = kept_map()
        sys.stderr.write(f"noted in {sum(os.times()[2:4]) - sum(began[2:4]):.0f} s of a processor\n")

    def _measure_part(self, items: dict[str, pytest.Item], unknown: Sequence[str]) -> None:
        def body(_: Callable[[str], None]) -> int:
            next(iter(items.values())).config.pluginmanager.register(self._tracing)
            runs, imported = self._tracing.run([items[test] for test in unknown])
            known = kept_map()  # another run may have added to it
            known.note(runs, imported)
            known.save()
            return 0

        # Nothing is broken here: a test that waits for a process of its own on a busy machine is no mutant that hangs.
        ended = forked(body, _TRACING_SECONDS_MAX, idle_max=_TRACING_SECONDS_MAX)
        if ended.status:
            raise pytest.UsageError(f"the tests could not be measured: {ended.status} {ended.said}")

    def _answers(self, warm: Warm, items: dict[str, pytest.Item], first: int) -> Iterator[Answer]:
        for number in range(first, len(self._chosen), self._processes):
            mutant = self._chosen[number]
            place = place_of(mutant, (ROOT / mutant.path).read_text())
            tests = tests_for(mutant, place, self._known, items) if place.function else []
            if not place.function or self._known.runs_at_import(mutant.path, place.first, place.last):
                tests += tests_at_import(mutant, place, self._known, items)
                yield self._late(number, list(dict.fromkeys(tests)))
                continue
            asked = self._asked.limits.within(tests, self._known)
            try:
                killer = warm.killer_of(mutant, place, asked)
                yield Answer(number, killer, len(asked), len(tests) - len(asked))
            except NotAppliedError:
                yield self._late(number, tests)

    def _late(self, number: int, tests: Sequence[str]) -> Answer:
        asked = self._asked.limits.within(tests, self._known)
        return Answer(number, asked=len(asked), left_out=len(tests) - len(asked), left=tuple(asked))


def import_modules(paths: Iterable[str]) -> None:
    """Import modules that no test has imported yet: what runs then is no part of the first test that needs them."""
    for path in sorted(set(paths)):
        with suppress(ImportError):  # of what only an installation of its own has
            import_module(path.removesuffix(".py").replace("/", "."))


def encoded(answer: Answer) -> bytes:
    """A line for the pipe."""
    return msgspec.json.encode(answer) + b"\n"


def run_session(chosen: Sequence[Mutant], asked: Asked, processes: int, write: int) -> int:
    """Play these mutants on tests in this process, which must not have imported the project.

    Returns:
        pytest's status.
    """
    return int(pytest.main([*OPTIONS, *asked.suites], plugins=[Session(chosen, asked, processes, write)]))
