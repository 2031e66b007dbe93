"""Pods that were moved stay for a while, so that one pod is not moved again and again to save cents."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.model.moved_workload import DWELL, MovedWorkload
from tests.builders import NOW, a_pod

MINUTE = timedelta(minutes=1)
MOVED = MovedWorkload(name="default/ReplicaSet/web", moving_since=NOW - 5 * MINUTE, moved_at=NOW - MINUTE)


@pytest.mark.parametrize(
    ("started", "now", "stays"),
    [
        (NOW - 2 * MINUTE, NOW, True),
        (NOW - 6 * MINUTE, NOW, False),
        (NOW - 2 * MINUTE, NOW - MINUTE + DWELL, False),
    ],
)
def test_a_pod_that_was_moved_stays_for_a_while(started: object, now: object, stays: bool) -> None:
    """A pod older than the moves may go; after the dwell time, all may."""
    pod = msgspec.structs.replace(a_pod("p"), started_at=started)
    assert bool(MOVED.keeps(pod, now)) is stays  # type: ignore[arg-type]


def test_a_hold_keeps_every_pod_of_the_workload() -> None:
    """Any of them would be placed like the one before."""
    held = msgspec.structs.replace(MOVED, held_until=NOW + MINUTE)
    old = msgspec.structs.replace(a_pod("p"), started_at=NOW - timedelta(days=9))
    assert "new nodes were launched" in held.keeps(old, NOW)
    assert held.keeps(old, NOW + MINUTE) == ""
