"""A search under a clock is replayed with the clock's stored answers."""

from __future__ import annotations

from itertools import count

from core import codec
from core.ledger.search_time import RecordedTime, replayed_clock
from core.scheduling import schedule
from tests.builders import a_pod, a_pool, a_snapshot, a_type


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
