"""A search under a clock is replayed with the clock's stored answers."""

from __future__ import annotations

from itertools import count

import pytest

from core import codec
from core.ledger.entry import LedgerEntry
from core.ledger.search_time import RecordedTime, recorded_clock, replayed_clock
from core.scheduling import schedule
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type


def test_a_search_that_time_ended_is_replayed() -> None:
    """Otherwise, replay calls every decision of a slow minute different."""
    types = tuple(
        a_type(f"m5.{n}", cpu=str(n), memory=f"{4 * n}Gi", price=0.05 * n + 0.003 * (n % 3)) for n in (2, 3, 5, 8)
    )
    pods = tuple(a_pod(f"p{n}", cpu=f"{600 + 37 * (n % 11)}m") for n in range(60))
    snapshot = a_snapshot(pods=pods, node_pools=(a_pool(),), types=types)
    for speed in (3, 17, 90):
        ticks = count()
        clock = RecordedTime(lambda ticks=ticks, speed=speed: next(ticks) / speed)  # type: ignore[misc]
        plan = codec.encode_plan(schedule(snapshot, clock))
        assert clock.elapsed
        assert codec.encode_plan(schedule(snapshot, replayed_clock(clock.elapsed))) == plan


def test_after_the_last_answer_time_is_over() -> None:
    clock = replayed_clock([0, 250])
    assert [clock(), clock(), clock(), clock()] == [0.0, 0.25, 1.0, 1.0]


def test_a_reading_is_a_whole_number_of_thousandths_and_what_the_search_gets() -> None:
    """A search that got more digits than are stored could end elsewhere when it is replayed."""
    readings = iter((0.0, 0.2507, 0.9999))
    clock = RecordedTime(lambda: next(readings))
    assert [clock(), clock(), clock()] == [0.0, 0.25, 0.999]
    assert clock.elapsed == [0, 250, 999]


@pytest.mark.parametrize(
    ("is_greedy", "bound", "elapsed", "answers"),
    [
        (True, None, (250,), None),
        (False, 3, (), None),
        (False, 3, (250,), [0.25, 1.0]),
        (False, None, (), [1.0, 1.0]),
        (False, None, (250,), [0.25, 1.0]),
    ],
)
def test_a_search_is_repeated_under_the_clock_that_bounded_it(
    is_greedy: bool, bound: int | None, elapsed: tuple[int, ...], answers: list[float] | None
) -> None:
    """None bounded a greedy plan, or a search that ended by its steps; one that time ended at once gets no time again."""
    header = {
        "cluster": "c",
        "function": "provision",
        "version": "1",
        "catalogue": "d",
        "base": "b",
        "plan_digest": "p",
    }
    entry = LedgerEntry(
        id="i", at=NOW, what="", reason="", is_greedy=is_greedy, improve_iterations=bound, elapsed=elapsed, **header
    )
    clock = recorded_clock(entry)
    assert (None if clock is None else [clock(), clock()]) == answers
