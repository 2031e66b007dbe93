"""Virtual time: order, overlap, end."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from simulator.clock import VirtualClock
from simulator.processes import Lost, each_forked

START = datetime(2026, 11, 20, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_what_falls_due_at_one_moment_happens_in_the_order_in_which_it_was_asked_for() -> None:
    """If this failed, two steps of one minute could change places between runs."""
    clock, seen = VirtualClock(START), []
    for name in ("a", "b", "c"):
        clock.at(START + SECOND, lambda name=name: seen.append(name))
    clock.run_until(START + SECOND)
    assert seen == ["a", "b", "c"]
    assert clock.now() == START + SECOND


def test_functions_overlap_while_they_wait() -> None:
    """If this failed, ten functions of a second each would take ten seconds, and no race between two could ever show."""
    clock, seen = VirtualClock(START), []

    def work(name: str) -> None:
        seen.append((name, clock.now()))
        clock.spend(SECOND)
        seen.append((name, clock.now()))

    for name in ("a", "b"):
        clock.begin(lambda name=name: work(name))
    clock.run_until(START + 5 * SECOND)
    assert seen == [("a", START), ("b", START), ("a", START + SECOND), ("b", START + SECOND)]


def test_time_spent_with_nothing_else_to_do_just_passes() -> None:
    """If this failed, a lone function would hang."""
    clock, seen = VirtualClock(START), []

    def work() -> None:
        clock.spend(SECOND)
        seen.append(clock.now())

    clock.begin(work)
    clock.run_until(START + 5 * SECOND)
    assert seen == [START + SECOND]


def test_time_passes_at_once_only_where_nothing_is_due_before_its_end() -> None:
    """If this failed, functions would not overlap, or the record would have events in the past."""
    clock, seen = VirtualClock(START), []

    def work() -> None:
        seen.append((clock.passes(SECOND), clock.now()))
        seen.append((clock.passes(SECOND), clock.now()))

    clock.begin(work)
    clock.at(START + 2 * SECOND, lambda: None)
    clock.run_until(START + 5 * SECOND)
    assert seen == [(True, START + SECOND), (False, START + SECOND)]
    assert not clock.passes(SECOND), "outside a process everything else comes first"


def test_a_function_that_outlives_the_run_touches_nothing_more() -> None:
    """If this failed, the record could have lines behind its last one."""
    clock, seen = VirtualClock(START), []

    def work() -> None:
        try:
            clock.spend(10 * SECOND)
        finally:
            clock.spend(SECOND)
            seen.append("after the end")

    clock.begin(work)
    clock.run_until(START + SECOND)
    clock.abandon()
    assert seen == []


def test_what_a_process_raises_reaches_who_runs_it() -> None:
    """If this failed, a bug of the simulator inside a function would pass unseen."""
    clock = VirtualClock(START)

    def work() -> None:
        raise ValueError("broken")

    clock.begin(work)
    with pytest.raises(ValueError, match="broken"):
        clock.run_until(START + SECOND)


# Work in forked processes: what one does costs no other's result.


SOON = timedelta(seconds=30)


def work(task: str) -> str:
    """What the task's name says."""
    if task == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "raises":
        raise ValueError("broken")
    if task == "hangs":
        time.sleep(60)
    return f"{task} {os.getpid()}"


def test_each_task_has_a_process_of_its_own() -> None:
    """If this failed, what one seed leaves behind could change the next."""
    results = dict(each_forked([str(n) for n in range(5)], work, processes=2, limit=SOON))
    assert sorted(results) == list("01234")
    assert len({str(result).split()[1] for result in results.values()} | {str(os.getpid())}) == 6


def test_who_dies_or_raises_costs_its_own_result_alone() -> None:
    """If this failed, one bad seed would end the campaign, or be missing from it."""
    results = dict(each_forked(["dies", "raises", "well"], work, processes=2, limit=SOON))
    assert results["dies"] == Lost("died with exit code -9")
    assert isinstance(raised := results["raises"], Lost)
    assert "ValueError: broken" in raised.why
    assert str(results["well"]).startswith("well")


def test_who_takes_too_long_is_ended() -> None:
    """If this failed, a seed that never ends would hold the campaign up forever."""
    limit = timedelta(seconds=1)
    results = dict(each_forked(["hangs", "well"], work, processes=1, limit=limit))
    assert results["hangs"] == Lost(f"took longer than {limit}")
    assert str(results["well"]).startswith("well")
