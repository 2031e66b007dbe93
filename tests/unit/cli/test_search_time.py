"""How long the search for cheaper nodes may take: by the processor's time, or four times as long by the clock."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import pytest

from cli import search_time
from cli.search_time import TimeLimit, share_of_time, time_limit_line, timing


class Clocks:
    """A processor's time and the clock, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worked, self.passed, self.readings = 100.0, 5000.0, 0
        monkeypatch.setattr(time, "process_time", self._read)
        monkeypatch.setattr(time, "monotonic", lambda: self.passed)

    def _read(self) -> float:
        self.readings += 1
        return self.worked

    def go_on(self, worked: float, passed: float) -> None:
        self.worked += worked
        self.passed += passed


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_time_counts_from_the_first_question(clocks: Clocks) -> None:
    """Reading the cluster takes no time from the search."""
    limit = TimeLimit(2.0)
    clocks.go_on(60, 60)
    assert limit() == 0
    clocks.go_on(0.5, 0.5)
    assert limit() == 0.25
    clocks.go_on(1.0, 1.0)
    assert limit() == 0.75
    assert (limit.was_over, limit.stopped_by) == (False, "iterations")
    clocks.go_on(0.5, 0.5)
    assert limit() == 1.0
    assert (limit.was_over, limit.stopped_by) == (True, "time")


def test_on_a_busy_machine_a_search_ends_after_four_times_as_long(clocks: Clocks) -> None:
    limit = TimeLimit(1.0)
    limit()
    clocks.go_on(0.1, 2.0)
    assert limit() == 0.5
    clocks.go_on(0.1, 2.0)
    assert limit() == 1.0


def test_a_measurement_is_used_for_a_fiftieth_of_a_second(clocks: Clocks) -> None:
    limit = TimeLimit(1.0)
    limit()
    clocks.go_on(0.5, 0.0195)
    assert (limit(), clocks.readings) == (0, 1)
    clocks.go_on(0, 0.0006)
    assert (limit(), clocks.readings) == (0.5, 2)


def test_once_time_was_over_the_plan_depends_on_the_machine(clocks: Clocks) -> None:
    limit = TimeLimit(1.0)
    limit()
    clocks.go_on(1.5, 1.5)
    limit()
    clocks.go_on(-1.0, 1.0)
    limit()
    assert limit.stopped_by == "time"


def test_without_any_time_the_first_plan_is_taken_everywhere(clocks: Clocks) -> None:
    """A budget of zero gives the same answer on each machine, so nothing is said of the clock."""
    limit = TimeLimit(0.0)
    assert limit() == 1.0
    assert (limit.was_over, limit.stopped_by) == (True, "iterations")


def test_steps_bound_the_search_without_a_clock() -> None:
    assert share_of_time(Namespace(improve_iterations=0, time_budget=1.0)) is None
    limit = share_of_time(Namespace(improve_iterations=None, time_budget=0.0))
    assert limit is not None
    assert limit() == 1.0


def test_durations_are_shown_only_where_the_clock_counts(clocks: Clocks) -> None:
    inputs: Any = Namespace(decode_seconds=0.123456)
    assert timing(inputs, 1.98762, None) == {"decodeSeconds": None, "solveSeconds": None}
    assert timing(inputs, 1.98762, TimeLimit(1.0)) == {
        "decodeSeconds": 0.1235,
        "solveSeconds": 1.9876,
        "stoppedBy": "iterations",
    }


def test_a_search_that_the_clock_stopped_says_how_to_repeat_it() -> None:
    told = " ".join(time_limit_line(search_time.TIME).split())
    assert told == (
        "the clock stopped the search for cheaper nodes, so another run may answer otherwise: a larger --time-budget lets it "
        "go on, --improve-iterations N gives the same answer everywhere"
    )
    assert time_limit_line("iterations") == time_limit_line(None) == ""
