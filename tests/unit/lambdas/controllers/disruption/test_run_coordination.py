"""Runs of `disrupt` follow each other as closely as what they wait for can come."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, cast

from lambdas.controllers.disruption.run_coordination import FOLLOWED_AFTER, RunCoordination
from lambdas.controllers.resting.run_requests import GATHERED
from lambdas.run_report import RunReport
from tests.builders import NOW, a_snapshot
from tests.fakes.world import FakeClock, FakeQueue
from tests.unit.lifecycle.records_for_tests import a_command


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
    found = [is_postponed(turns, NOW, timedelta(seconds=1)) for _ in range(4)]
    assert found == [True, False, True, False]
