"""A mutant is asked in rounds: each costs only what the one before left alive, and none is lost between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.mutation import coverage_map, fates
from tests.mutation.fates import Fate, fates_of
from tests.mutation.mutants import Mutant
from tests.mutation.session import Answer, Asked, Limits

MUTANTS = [Mutant("core/model/m.py", line, 0, 0, "a", "b") for line in range(4)]
KILLERS = {(0, "own"): "own::x", (1, "rest"): "rest::x", (2, "whole"): "whole::x"}
"""(line of the mutant, suite) → what kills it."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], Asked]]:
    """Which lines each round was asked of, in place of the session that would ask."""
    rounds: list[tuple[list[int], Asked]] = []

    def one_round(living: Sequence[Fate], asked: Asked, processes: int) -> Iterator[tuple[Fate, Answer]]:
        assert processes == 2
        rounds.append(([fate.mutant.line for fate in living], asked))
        for number, fate in reversed(list(enumerate(living))):
            killer = KILLERS.get((fate.mutant.line, asked.suites[0]), "")
            yield fate, Answer(number, killer, asked=10, left_out=fate.mutant.line)

    monkeypatch.setattr(fates, "_round", one_round)
    monkeypatch.setattr(fates, "import_libraries", lambda: None)
    return rounds


def test_each_round_is_asked_of_what_lives(asked: list[tuple[list[int], Asked]]) -> None:
    limits = Limits(tests=3)
    found = {
        fate.mutant.line: fate
        for fate in fates_of(MUTANTS, [lambda _, n=n: [n] for n in ("own", "whole", "rest")], 2, limits)
    }
    assert [lines for lines, _ in asked] == [[0, 1, 2, 3], [1, 2, 3], [1, 3]]
    assert [(one.suites, one.before) for _, one in asked] == [
        (("own",), ()),
        (("whole",), ("own",)),
        (("rest",), ("own", "whole")),
    ]
    assert {one.limits for _, one in asked} == {limits}
    assert {line: fate.killer for line, fate in found.items()} == {0: "own::x", 1: "rest::x", 2: "whole::x", 3: ""}
    assert {line: (fate.asked, fate.left_out) for line, fate in found.items()} == {
        0: (10, 0),
        1: (30, 3),
        2: (20, 4),
        3: (30, 9),
    }


def test_the_tests_of_a_mutant_end_at_the_limits() -> None:
    """What is left out can only leave a mutant alive."""
    runs = {f"t.py::{n}": coverage_map.TestRun(seconds, {}, fails=False) for n, seconds in enumerate((1.0, 2.0, 3.0))}
    known, tests = coverage_map.CoverageMap(files={"t.py": coverage_map.TestFile("", runs)}), list(runs)
    assert Limits().within(tests, known) == tests
    assert Limits(tests=2).within(tests, known) == tests[:2]
    assert Limits(seconds=3.0).within(tests, known) == tests[:2]
    assert Limits(seconds=2.9).within(tests, known) == tests[:1]
    assert Limits(seconds=0.5).within(tests, known) == []
