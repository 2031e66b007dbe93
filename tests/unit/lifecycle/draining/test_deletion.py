"""What a terminating claim holds of limits and budgets, and until when."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from core.lifecycle.draining.deletion import (
    drain_cancelled,
    emptied,
    expedited,
    is_stopped,
    leaving,
    reclaimed_at,
    staying,
    tainted,
    terminated,
    untainted,
    with_clock,
)
from core.lifecycle.draining.evictions import after_tries
from core.lifecycle.records import ClaimPhase
from core.model.node_claim import Hold
from core.reasons.termination import TerminationReason
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_only_a_node_that_was_ready_takes_a_place_in_the_budgets() -> None:
    """Karpenter counts nodes, and one that never started disrupts no pod."""
    for phase, counts in ((ClaimPhase.INITIALIZED, True), (ClaimPhase.LAUNCHED, False)):
        assert leaving(a_record(phase), TerminationReason.EXPIRED, "", NOW).is_disrupting is counts


def test_a_clock_behind_the_request_does_not_shorten_the_grace_period() -> None:
    """All pods would be forced off at once where the clock is behind by more than terminationGracePeriod."""
    record = a_record(plan=a_plan(termination_grace_period=timedelta(minutes=3)))
    gone = tainted(leaving(record, TerminationReason.DRIFTED, "", NOW), NOW - timedelta(minutes=4)).deletion
    assert gone is not None
    assert (gone.begun_at, gone.deadline) == (NOW, NOW + timedelta(minutes=3))


def test_the_limits_are_free_and_the_deadline_runs_once_the_node_is_tainted() -> None:
    record = a_record(reserved={"cpu": 4000}, plan=a_plan(termination_grace_period=HOUR), is_disrupting=True)
    gone = tainted(leaving(record, TerminationReason.DRIFTED, "", NOW), NOW)
    assert gone.deletion is not None
    assert (gone.reserved, gone.deletion.deadline, gone.is_disrupting) == ({}, NOW + HOUR, True)
    later = tainted(gone, NOW + HOUR)
    assert later.deletion == gone.deletion


def test_a_claim_that_does_not_leave_has_no_drain_to_note_anything_about() -> None:
    record = a_record(reserved={"cpu": 4000})
    assert emptied(record, NOW) == record
    assert tainted(record, NOW).deletion is None
    assert with_clock(record, NOW, is_held=True) == record


def test_the_place_in_the_budgets_is_free_once_the_instance_is_terminated() -> None:
    assert not terminated(a_record(is_disrupting=True), NOW).is_disrupting


def test_a_mandatory_reason_replaces_a_voluntary_one() -> None:
    chosen = a_leaving(reason="Underutilized")
    must = expedited(chosen, TerminationReason.SPOT_INTERRUPTED, "", NOW)
    assert must.deletion is not None
    assert must.deletion.reason == TerminationReason.SPOT_INTERRUPTED
    assert expedited(must, TerminationReason.EXPIRED, "", None) is must


@pytest.mark.parametrize("reason", ["Drifted", "Expired", "RebalanceRecommended", "NodeClaimDeleted"])
@pytest.mark.parametrize("own", [None, NOW + 20 * MINUTE])
@pytest.mark.parametrize("tainted", [None, MINUTE])
def test_the_announced_end_of_a_leaving_node_is_known_whatever_it_leaves_for(
    reason: str, own: datetime | None, tainted: timedelta | None
) -> None:
    """Its pods that may not be evicted need a node until EC2 takes the instance, not until our own bound is over."""
    record, end = a_leaving(reason=reason, ends_at=own, tainted=tainted), NOW + 40 * MINUTE
    announced = expedited(record, TerminationReason.CAPACITY_BLOCK_ENDS, "", end)
    assert (reclaimed_at(record), reclaimed_at(announced)) == (None, end)
    assert expedited(announced, TerminationReason.CAPACITY_BLOCK_ENDS, "", end) is announced
    assert expedited(announced, TerminationReason.CAPACITY_BLOCK_ENDS, "", end + MINUTE) is announced
    due = expedited(announced, TerminationReason.SCHEDULED_CHANGE_DUE, "", NOW + MINUTE)
    assert reclaimed_at(due) == end
    assert reclaimed_at(expedited(due, TerminationReason.SPOT_INTERRUPTED, "", NOW + 2 * MINUTE)) == NOW + 2 * MINUTE


def test_a_row_of_an_earlier_version_has_its_announced_end() -> None:
    record = a_leaving(reason="SpotInterrupted", ends_at=NOW + HOUR)
    assert record.deletion is not None
    assert (record.deletion.reclaimed_at, reclaimed_at(record)) == (None, NOW + HOUR)
    assert reclaimed_at(a_record()) is None


def test_a_claim_that_holds_its_share_or_has_no_machine_is_not_changed() -> None:
    """A claim that is written without need loses a race for nothing."""
    for record in (a_record(reserved={"cpu": 1}), a_record(ClaimPhase.REQUESTED)):
        assert untainted(record) is record


def test_a_node_that_stays_holds_its_share_again() -> None:
    record = a_leaving()
    assert record.machine is not None
    hold = Hold(NOW + HOUR, "DrainBlocked", "")
    kept = drain_cancelled(record, hold)
    assert (kept.deletion, kept.is_disrupting, kept.cancelled_drains, kept.hold) == (None, False, 1, hold)
    assert kept.reserved == untainted(record).reserved == {"nodes": 1}
    assert not staying(record).is_disrupting


def test_one_voluntary_reason_does_not_replace_another() -> None:
    """The events and the budgets of the first would no longer say the same."""
    record = a_leaving(reason="Underutilized")
    assert expedited(record, TerminationReason.DRIFTED, "it has drifted", None) is record


def test_all_time_under_brakes_is_added_to_the_deadline_and_counted() -> None:
    record = a_leaving(deadline=NOW + HOUR)
    for stopped, released in ((5, 15), (20, 50)):
        held = with_clock(record, NOW + stopped * MINUTE, is_held=True)
        assert with_clock(held, NOW + released * MINUTE, is_held=True) is held
        record = with_clock(held, NOW + released * MINUTE, is_held=False)
    assert record.deletion is not None
    found = record.deletion
    assert (found.deadline, found.held_for, found.held_at) == (NOW + HOUR + 40 * MINUTE, 40 * MINUTE, None)
    backwards = with_clock(with_clock(record, NOW, is_held=True), NOW - MINUTE, is_held=False)
    assert backwards == record, "another sandbox's clock may be behind"


def test_an_end_that_we_set_moves_with_the_deadline_and_one_that_aws_sets_does_not() -> None:
    """A brake keeps replacements of expired nodes from being launched, and no instance from being reclaimed."""
    for reason, ends_at in (
        (TerminationReason.EXPIRED, NOW + HOUR),
        (TerminationReason.SPOT_INTERRUPTED, NOW + MINUTE),
    ):
        held = with_clock(a_leaving(reason=reason, ends_at=NOW + MINUTE), NOW, is_held=True)
        released = with_clock(held, NOW + 59 * MINUTE, is_held=False)
        assert released.deletion is not None
        assert (released.deletion.ends_at, released.deletion.deadline) == (ends_at, None)


def test_only_time_under_brakes_since_the_last_progress_is_left_out_of_the_escalation() -> None:
    """What was evicted, or left by itself while a brake held the drain, begins a new period."""
    record = a_leaving(tainted=MINUTE)
    for _ in range(2):
        held = with_clock(record, NOW, is_held=True)
        record = with_clock(held, NOW + 10 * MINUTE, is_held=False)
    assert record.deletion is not None
    assert (record.deletion.held_since_progress, record.deletion.held_for) == (20 * MINUTE, 20 * MINUTE)
    left = emptied(with_clock(record, NOW + 20 * MINUTE, is_held=True), NOW + 25 * MINUTE)
    released = with_clock(left, NOW + 30 * MINUTE, is_held=False)
    assert released.deletion is not None
    assert (released.deletion.held_since_progress, released.deletion.held_for) == (5 * MINUTE, 30 * MINUTE)
    moved = after_tries(released.deletion, (), {}, NOW + HOUR, moved=True)
    assert (moved.held_since_progress, moved.held_for) == (timedelta(0), 30 * MINUTE)


def test_a_drain_is_stopped_while_a_brake_holds_it() -> None:
    """Not before it has begun, and not after it is over."""
    for changes, stopped in (
        ({}, False),
        ({"held_at": NOW}, True),
        ({"held_at": NOW, "tainted": None}, False),
        ({"held_at": NOW, "terminated_at": NOW}, False),
    ):
        assert is_stopped(a_leaving(**changes)) is stopped
    assert not is_stopped(a_record())
