"""When `provision` runs next: once for all that ask, and never right after a plan because EC2 refused it."""

from __future__ import annotations

from datetime import timedelta

from adapters.messages import WokenBy, wake_up
from lambdas.controllers.provisioning.next_run import NextRun
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.world import FakeClock, FakeQueue

SECOND = timedelta(seconds=1)
FIVE = timedelta(seconds=5)


def test_runs_that_meet_a_planning_one_request_one_more_run_together() -> None:
    """Each of sixteen messages would come again five seconds later, and in each of them every claim is read."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    for _ in range(16):
        next_run.ask("planner was busy", clock.now() + timedelta(seconds=15), FIVE)
        clock.advance(milliseconds=100)
    assert [delay for _, delay in queue.sent] == [FIVE]


def test_a_run_at_the_end_of_its_chain_does_not_stand_for_a_new_one() -> None:
    """It may request no further run: what is news now would wait for the schedule."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    next_run.ask("planner was busy", NOW + FIVE, FIVE)
    next_run.ask("planner was busy", NOW + 3 * FIVE, FIVE)
    assert len(queue.sent) == 2


def test_no_run_is_requested_after_the_end_of_its_chain() -> None:
    queue = FakeQueue()
    NextRun(queue, FakeClock(NOW)).ask("EC2 had no capacity", NOW + FIVE - SECOND, FIVE)
    assert queue.sent == []


def test_news_right_after_a_plan_is_heard_a_second_later_and_once(lab: Lab) -> None:
    """Where EC2 refuses everything, each refusal wakes the next plan: eighteen followed each other in one minute."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision(wake_up("PodUnschedulable"))
    lab.wake_ups.take()
    lab.kubernetes.put(a_pending_pod("q", cpu="3"))
    assert lab.provision(wake_up("refused launch")).counts == {"spacedRuns": 1}
    assert lab.provision(wake_up("refused launch")).counts == {"spacedRuns": 1}
    ((message, delay),) = lab.wake_ups.sent
    assert (message, delay) == (wake_up("spaced"), SECOND)
    lab.clock.advance(seconds=1)
    lab.provision(message)
    assert len(lab.claims) == 2


def test_the_schedule_and_a_quiet_start_wait_for_nothing() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    assert not next_run.is_too_early(WokenBy.NEWS)
    next_run.planned()
    assert not next_run.is_too_early(WokenBy.SCHEDULE)
    clock.advance(seconds=1)
    assert not next_run.is_too_early(WokenBy.NEWS)
    assert queue.sent == []


def test_a_runs_own_request_right_after_a_plan_is_dropped() -> None:
    """The plan that has just ended requested what comes next; sent again as news it would start a chain of its own."""
    queue = FakeQueue()
    next_run = NextRun(queue, FakeClock(NOW))
    next_run.planned()
    assert next_run.is_too_early(WokenBy.ITSELF)
    assert queue.sent == []


def test_a_requested_run_that_may_request_one_more_stands_for_both() -> None:
    """Its chain ends at the very moment at which the one more would come."""
    queue = FakeQueue()
    next_run = NextRun(queue, FakeClock(NOW))
    next_run.ask("planner was busy", NOW + 2 * FIVE, FIVE)
    next_run.ask("planner was busy", NOW + 9 * FIVE, FIVE)
    assert [delay for _, delay in queue.sent] == [FIVE]
    next_run.ask("planner was busy", NOW + 9 * FIVE, FIVE - SECOND)
    assert [delay for _, delay in queue.sent] == [FIVE, FIVE - SECOND]


def test_a_run_at_the_very_end_of_its_chain_is_requested() -> None:
    queue = FakeQueue()
    NextRun(queue, FakeClock(NOW)).ask("EC2 had no capacity", NOW + FIVE, FIVE)
    assert queue.sent == [(wake_up("EC2 had no capacity", NOW + FIVE), FIVE)]


def test_news_after_the_next_plan_is_requested_again() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    for _ in range(2):
        next_run.planned()
        assert next_run.is_too_early(WokenBy.NEWS)
        assert next_run.is_too_early(WokenBy.NEWS)
        clock.advance(seconds=1)
    assert queue.sent == [(wake_up("spaced"), SECOND)] * 2
