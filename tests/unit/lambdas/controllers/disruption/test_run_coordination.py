"""Runs of `disrupt` follow each other as closely as what they wait for can come."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, cast

from adapters.observation.cluster_state import ClusterState
from adapters.run_report import RunReport
from core.lifecycle.records import CommandPhase
from lambdas.controllers.disruption.run_coordination import FOLLOWED_AFTER, RunCoordination
from lambdas.controllers.resync.run_requests import GATHERED, SPACING
from tests.builders import NOW, a_snapshot
from tests.fakes.store import MemoryLeases, Rows
from tests.fakes.world import FakeClock, FakeQueue
from tests.unit.lifecycle.records_for_tests import a_command, a_leaving, a_record


def test_a_command_that_is_validated_late_is_asked_for_less_and_less_often() -> None:
    """Its message comes back after minutes where `execute` died; twelve runs a minute would read the whole table in vain."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    command = a_command(verify_at=NOW)
    asked = []
    for _ in range(5):
        turns.ask_after_validation([command])
        (_, delay), queue.sent = queue.sent[0], []
        asked.append(delay)
        clock.advance(seconds=delay.total_seconds())
    assert asked[:2] == [FOLLOWED_AFTER, FOLLOWED_AFTER]
    assert all(later == 2 * earlier for earlier, later in pairwise(asked[1:]))


def test_a_command_that_waits_is_followed_soon_after_its_validation() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    turns.ask_after_validation([a_command(verify_at=NOW + 3 * FOLLOWED_AFTER)])
    assert [delay for _, delay in queue.sent] == [4 * FOLLOWED_AFTER]


def is_postponed(turns: RunCoordination, now: datetime, moment: timedelta) -> bool:
    """Whether a run that begins now leaves its decision to a later one, where a node may go that much later."""
    return turns.is_postponed(a_snapshot(now=now, nominated_until={"n": now + moment}), RunReport())


def test_a_decision_waits_for_nodes_that_may_go_seconds_later() -> None:
    """Otherwise, each of them is a target of its own, with a validation of its own."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    assert is_postponed(turns, NOW, GATHERED)
    assert [delay for _, delay in queue.sent] == [GATHERED]


def test_a_decision_waits_once_and_not_for_long() -> None:
    """Where pods come and go all the time, some node is always about to be disruptable."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    assert not is_postponed(turns, NOW, GATHERED + timedelta(seconds=1))
    assert queue.sent == [], "the run that decides asks for the next one at its end"
    found = [is_postponed(turns, NOW, timedelta(seconds=1)) for _ in range(4)]
    assert found == [True, False, True, False]


class Sandbox:
    """One sandbox, its clock and its queue."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.queue, self.clock, self.report = FakeQueue(), FakeClock(NOW), RunReport()
        self.turns = RunCoordination(MemoryLeases(rows or Rows()), self.queue, self.clock)

    def ended(self, *, is_new: bool = True, found: bool = False, **state: Any) -> None:
        fields = {"claims": {}, "commands": (), "node_pools": {}, "node_classes": {}, "snapshot": a_snapshot()}
        view = ClusterState(**{**fields, **state})
        self.turns.ended(view, is_new=is_new, found=found)

    def asked(self) -> list[tuple[str, timedelta]]:
        found = [(message["wakeUp"], delay) for message, delay in self.queue.sent]
        self.queue.take()
        return found

    def early(self, seconds: float) -> bool:
        """Whether a run is too early so long after now."""
        self.clock.advance(seconds=seconds)
        return self.turns.is_too_early(self.report)


def test_the_first_run_is_never_too_early() -> None:
    sandbox = Sandbox()
    assert not sandbox.early(0)
    assert (sandbox.asked(), sandbox.report.counts) == ([], {})


def test_a_run_soon_after_a_pass_is_put_off_and_asked_for() -> None:
    sandbox = Sandbox()
    sandbox.ended(found=True)
    assert sandbox.early(4)
    assert sandbox.asked() == [("spaced", SPACING - timedelta(seconds=4))]
    assert sandbox.report.counts == {"spacedRuns": 1}
    assert not sandbox.early(6)


def test_passes_without_commands_are_spaced_wider_and_wider_unless_something_moves() -> None:
    """A cluster whose pods come and go all day must not cost much more than the schedule; one in a drain must not wait."""
    for state, widened in (
        ({}, True),
        ({"claims": {"c": a_record()}}, True),
        ({"claims": {"c": a_leaving()}}, False),
        ({"commands": (a_command(),)}, False),
        ({"found": True}, False),
        ({"is_new": False}, False),
    ):
        sandbox = Sandbox()
        for _ in range(2):
            sandbox.ended(**state)
            sandbox.clock.advance(seconds=SPACING.total_seconds())
        sandbox.ended(**state)
        assert sandbox.early(SPACING.total_seconds()) is widened, state


def test_one_run_decides_at_a_time_and_the_other_is_followed() -> None:
    rows = Rows()
    one, other = Sandbox(rows), Sandbox(rows)
    lease = one.turns.take("one", one.report)
    assert lease is not None
    assert other.turns.take("other", other.report) is None
    assert (other.asked(), other.report.counts) == ([("another run decides", FOLLOWED_AFTER)], {"busyRuns": 1})
    one.turns.give_up(lease)
    assert other.turns.take("other", other.report) is not None
    assert one.report.counts == {}


def test_the_next_known_moment_is_asked_for_but_not_at_once() -> None:
    for later, asked in ((timedelta(seconds=30), timedelta(seconds=30)), (timedelta(seconds=3), GATHERED)):
        sandbox = Sandbox()
        sandbox.ended(snapshot=a_snapshot(nominated_until={"n": NOW + later}), found=True)
        assert sandbox.asked() == [("known moment", asked)]
    sandbox = Sandbox()
    sandbox.ended()
    assert sandbox.asked() == []


def test_only_commands_that_wait_for_their_validation_are_awaited() -> None:
    sandbox = Sandbox()
    sandbox.turns.ask_after_validation([a_command(CommandPhase.STARTING, verify_at=NOW + timedelta(hours=1))])
    assert sandbox.asked() == []
