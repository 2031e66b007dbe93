"""Looks of `disrupt` come when something may have changed, and not more often than they are worth."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from adapters.ports import JsonObject, TransientError
from adapters.store import DECIDER
from lambdas.controllers.resync.run_requests import (
    DELAY_MAX,
    GATHERED,
    SPACING,
    WIDEST_SPACING,
    RunPace,
    RunRequests,
    SpacedRequests,
)
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.world import FakeClock, FakeQueue

SECOND = timedelta(seconds=1)


class LostQueue(FakeQueue):
    """SQS does not answer."""

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        raise TransientError("sqs:SendMessageBatch", "no answer")


def test_one_request_serves_moments_that_are_close() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    requests = RunRequests(queue, clock)
    assert requests.ask("x", NOW + 30 * SECOND)
    assert not requests.ask("x", NOW + 30 * SECOND - GATHERED)
    assert not requests.ask("x", NOW + 60 * SECOND), "the earlier look asks again"
    assert requests.ask("x", NOW + 20 * SECOND)
    clock.advance(seconds=31)
    assert requests.ask("x", NOW + 60 * SECOND)
    assert [delay for _, delay in queue.sent] == [30 * SECOND, 20 * SECOND, 29 * SECOND]


def test_what_is_too_far_off_is_left_to_later_looks() -> None:
    """SQS would deliver it too early, again and again."""
    queue = FakeQueue()
    assert not RunRequests(queue, FakeClock(NOW)).ask("x", NOW + DELAY_MAX + SECOND)
    assert queue.sent == []


def test_a_lost_request_fails_nothing() -> None:
    """The schedule makes up for it."""
    assert not RunRequests(LostQueue(), FakeClock(NOW)).ask("x", NOW)


def test_a_stream_of_changes_is_one_request_in_ten_seconds() -> None:
    """Otherwise, each delivery of a busy cluster's audit log starts a run."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    requests = SpacedRequests(queue, clock)
    moments = []
    for _ in range(120):
        before = len(queue.sent)
        requests.ask("audit log")
        moments += [clock.now() + delay for _, delay in queue.sent[before:]]
        clock.advance(milliseconds=500)
    assert moments[0] == NOW
    assert all(later - earlier >= SPACING for earlier, later in pairwise(moments))
    assert len(moments) >= 6, "and the last change is followed by one, too"


def test_looks_that_find_nothing_come_less_often_and_one_that_does_resets_that() -> None:
    pace, now, spacings = RunPace(), NOW, []
    assert pace.earliest(now) == now
    for _ in range(5):
        pace.ended(now, found=False)
        spacings.append(pace.earliest(now) - now)
        now += spacings[-1]
    assert spacings == [SPACING, SPACING, 2 * SPACING, 4 * SPACING, WIDEST_SPACING]
    pace.ended(now, found=True)
    assert pace.earliest(now) - now == SPACING


def test_a_known_moment_comes_before_the_spacing_is_over() -> None:
    """Otherwise, a fleet whose `consolidateAfter` ends just after a pass waits for ten seconds more."""
    pace = RunPace()
    pace.ended(NOW, found=False)
    pace.awaits(NOW + 6 * SECOND)
    assert pace.earliest(NOW) == NOW + 6 * SECOND
    assert pace.earliest(NOW + 7 * SECOND) == NOW + 7 * SECOND
    pace.awaits(NOW + 60 * SECOND)
    assert pace.earliest(NOW) == NOW + SPACING
    pace.awaits(None)
    assert pace.earliest(NOW) == NOW + SPACING


def test_a_known_moment_that_is_always_near_adds_few_passes() -> None:
    """In a cluster whose pods come and go all day, `consolidateAfter` of some node is always about to end."""

    def passes(known: timedelta | None) -> list[datetime]:
        pace, now, found = RunPace(), NOW, list[datetime]()
        while now < NOW + timedelta(minutes=10):
            found.append(now)
            pace.ended(now, found=False)
            pace.awaits(None if known is None else now + known)
            now = pace.earliest(now)
        return found

    near = passes(SECOND)
    assert all(later - earlier >= GATHERED for earlier, later in pairwise(near))
    assert len(near) <= 1.1 * len(passes(None))


@pytest.fixture
def lab() -> Lab:
    """A node with a pod that has just come, whose NodePool waits before it consolidates."""
    found = Lab()
    found.kubernetes.put(a_pending_pod("p", cpu="3"))
    found.settle()
    found.bind("p")
    found.clock.advance(minutes=2)
    return found


def test_a_woken_run_looks_at_once_and_the_next_one_waits(lab: Lab) -> None:
    """Otherwise, messages that come one after the other list all pods each time."""
    assert "spacedRuns" not in lab.disrupt(is_woken=True).counts
    lab.run_requests.take()
    lab.clock.advance(seconds=4)
    asked: list[str] = []
    lab.kubernetes.before_call = asked.append
    assert lab.disrupt(is_woken=True).counts == {"spacedRuns": 1}
    assert asked == []
    assert [delay for _, delay in lab.run_requests.sent] == [6 * SECOND]
    lab.disrupt(is_woken=True)
    assert len(lab.run_requests.sent) == 1


def test_runs_do_not_decide_at_the_same_time(lab: Lab) -> None:
    """Both would decide the same commands; the one that comes second looks later."""
    leases = lab.app.adapters.leases
    lease = leases.acquire(DECIDER, "another", now=lab.clock.now(), for_=timedelta(minutes=1))
    assert lease is not None
    assert lab.disrupt().counts["busyRuns"] == 1
    assert len(lab.run_requests.take()) == 1
    leases.release(lease)
    assert "busyRuns" not in lab.disrupt().counts


def test_the_end_of_consolidate_after_is_looked_at(lab: Lab) -> None:
    """Otherwise, a node that may go is paid for until the schedule's next run."""
    patient = a_node_pool(disruption={"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"})
    lab.kubernetes.put(patient, a_pending_pod("q", cpu="100m"))
    lab.bind("q")
    lab.disrupt()
    assert [delay for _, delay in lab.run_requests.sent] == [30 * SECOND]
