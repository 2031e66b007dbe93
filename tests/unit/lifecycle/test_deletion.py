"""When the pods of a node that EC2 takes away are evicted: with time left, and not before they have a place."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.deletion import (
    FIRST_HOLD,
    LONGEST_HOLD,
    MARGIN,
    SHORTEST_DRAIN,
    TAINT_SEEN_WITHIN,
    drain_by,
    drain_cancelled,
    emptied,
    expedited,
    hold_for,
    is_last_check_due,
    is_stopped,
    leaving,
    may_be_cancelled,
    open_again,
    reclaimed_at,
    replacements,
    staying,
    tainted,
    terminated,
    untainted,
    wait_for_replacements,
    with_clock,
)
from core.lifecycle.draining import after_tries
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.lifecycle.steps import ClaimFacts
from core.model.plan import Binding, Hold
from core.model.pod import Owner
from core.model.snapshot import PodDisruptionBudget
from core.model.values import quantity
from core.reasons.code import TerminationReason
from tests.builders import NOW, a_pod, a_selector
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node, a_plan, a_record

# Whether a drain is given back: a protected pod keeps a node that may stay, and never one that must go.


LEAVING = a_node(leaving=True)
PLAIN = a_pod("a", node_name="n", phase="Running", labels={"app": "web"})
PROTECTED = a_pod("b", node_name="n", phase="Running", annotations={labels.DO_NOT_DISRUPT: "true"})
CANCELLATION_MINUTE = timedelta(minutes=1)


def a_budget(**changes: object) -> PodDisruptionBudget:
    fields = {"min_available": "1", "disruptions_allowed": 0, "expected_pods": 1, "selector": a_selector(app="web")}
    return PodDisruptionBudget(**{"namespace": "default", "name": "web", **fields, **changes})


def step_of(*pods: object, budgets: tuple[PodDisruptionBudget, ...] = (), **changes: object) -> object:
    facts = ClaimFacts(nodes=(LEAVING,), pods=pods, budgets=budgets)
    return next_claim_step(a_leaving(**{"reason": "Underutilized", **changes}), facts, NOW)


def test_a_protected_pod_that_came_late_keeps_the_node() -> None:
    """Otherwise, its neighbours are moved for nothing, and the node stays closed until the pod ends."""
    step = step_of(PLAIN, PROTECTED)
    assert step == steps.CancelDrain("n", "DoNotDisrupt", f"pod default/b has {labels.DO_NOT_DISRUPT}")


def test_a_budget_that_never_allows_an_eviction_keeps_the_node() -> None:
    step = step_of(PLAIN, budgets=(a_budget(),))
    assert isinstance(step, steps.CancelDrain)
    assert (
        step.message == "PodDisruptionBudget web never lets pod default/a be evicted: minAvailable 1 wants 1 of 1 pod"
    )
    assert isinstance(step_of(PLAIN, budgets=(a_budget(), a_budget(name="more"))), steps.CancelDrain)


def test_several_budgets_keep_the_node_whatever_else_is_true_of_the_pod() -> None:
    """The eviction API refuses the pod; a rollout restart is tried for a single budget only.

    The drain would stop half-way.
    """
    both = (a_budget(unhealthy_pod_eviction_policy="AlwaysAllow"), a_budget(name="more"))
    broken = msgspec.structs.replace(PLAIN, is_ready=False)
    owner = Owner("ReplicaSet", "web-1", is_controller=True)
    surging = msgspec.structs.replace(PLAIN, owners=(owner,), annotations={labels.SURGE: "true"})
    for pod in (broken, surging):
        assert isinstance(step_of(pod, budgets=both), steps.CancelDrain)
        assert isinstance(step_of(pod, budgets=both[:1]), steps.Drain)


@pytest.mark.parametrize(
    "budget", [a_budget(expected_pods=2), a_budget(expected_pods=None), a_budget(disruptions_allowed=1)]
)
def test_a_budget_that_may_open_is_waited_for(budget: PodDisruptionBudget) -> None:
    """Two nodes that drain one after the other each block the other's budget for a minute."""
    assert isinstance(step_of(PLAIN, budgets=(budget,)), steps.Drain)


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "SpotInterrupted"},
        {"reason": "NodePoolDeleted"},
        {"reason": "Drifted", "deadline": NOW + 30 * CANCELLATION_MINUTE},
        {"reason": "Expired", "deadline": NOW + 30 * CANCELLATION_MINUTE},
        {"evicted_at": NOW},
        {"is_final": True},
    ],
)
def test_drains_of_some_nodes_are_not_cancelled(changes: dict[str, object]) -> None:
    """They must go, their time is bounded, or pods have left already."""
    assert not isinstance(step_of(PLAIN, PROTECTED, **changes), steps.CancelDrain)


@pytest.mark.parametrize("reason", ["Underutilized", "Empty"])
def test_no_pod_is_forced_off_to_save_money(reason: str) -> None:
    """Karpenter: with a terminationGracePeriod, drift overrides a protected pod; consolidation does not."""
    assert isinstance(step_of(PROTECTED, reason=reason, deadline=NOW + 30 * CANCELLATION_MINUTE), steps.CancelDrain)


@pytest.mark.parametrize(
    ("changes", "ago", "cancels"),
    [
        ({}, TAINT_SEEN_WITHIN, True),
        ({}, TAINT_SEEN_WITHIN - timedelta(microseconds=1), False),
        ({"deadline": None}, CANCELLATION_MINUTE, False),
        ({"reason": "SpotInterrupted"}, CANCELLATION_MINUTE, False),
        ({"is_final": True}, CANCELLATION_MINUTE, False),
        ({"tainted_at": None}, CANCELLATION_MINUTE, False),
    ],
)
def test_a_node_that_lost_its_taint_is_kept_if_pods_would_be_forced_off(
    changes: dict[str, object], ago: timedelta, *, cancels: bool
) -> None:
    """A restored table may hold a drain that was given back since, whose deadline passes soon."""
    fields = {
        "reason": "Underutilized",
        "deadline": NOW + CANCELLATION_MINUTE,
        "tainted_at": NOW - ago,
        "asked_at": NOW - ago,
        **changes,
    }
    record = a_leaving(**{key: value for key, value in fields.items() if key != "tainted_at"})
    deletion = msgspec.structs.replace(record.deletion, tainted_at=fields["tainted_at"])
    record = msgspec.structs.replace(record, deletion=deletion)
    assert (open_again(record, a_node(), NOW) is not None) == cancels
    assert open_again(record, LEAVING, NOW) is None
    assert open_again(record, a_node(deleted_at=NOW), NOW) is None


def test_a_node_is_left_alone_for_longer_each_time() -> None:
    holds = [hold_for(times) for times in range(200)]
    assert holds[:3] == [FIRST_HOLD, 2 * FIRST_HOLD, 4 * FIRST_HOLD]
    assert holds == sorted(holds)
    assert holds[-1] == LONGEST_HOLD


def test_a_drain_is_cancelled_while_it_is_voluntary_and_its_node_is_tainted_and_runs() -> None:
    """One by drift has no end of its own only without a deadline; a claim that stays has no drain."""
    for record, expected in (
        (a_record(), False),
        (a_leaving(reason="Empty"), True),
        (a_leaving(reason="Underutilized"), True),
        (a_leaving(reason="Drifted"), True),
        (a_leaving(reason="Drifted", deadline=NOW), False),
        (a_leaving(reason="Empty", deadline=NOW), True),
        (a_leaving(reason="Interrupted"), False),
        (a_leaving(reason="Empty", tainted=None), False),
        (a_leaving(reason="Empty", terminated_at=NOW), False),
        (a_leaving(reason="Empty", is_final=True), False),
    ):
        assert may_be_cancelled(record) is expected, record.deletion
        assert is_last_check_due(record) is expected
    begun = a_leaving(reason="Empty", evicted_at=NOW)
    assert (may_be_cancelled(begun), is_last_check_due(begun)) == (True, False)


# What a terminating claim holds of limits and budgets, and until when.


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


def test_a_limit_in_dollars_counts_a_node_until_its_instance_is_terminated() -> None:
    """Its drain may take long, and it is paid for meanwhile."""
    record = a_leaving(tainted=None)
    paid = msgspec.structs.replace(record, reserved={"cpu": 4, "nodes": 1, quantity.HOURLY: 9})
    after = tainted(paid, NOW)
    assert after.reserved == {quantity.HOURLY: 9}
    assert after.machine is not None
    assert untainted(after).reserved == {"nodes": 1, quantity.HOURLY: after.machine.offering.price}
    assert terminated(after, NOW).reserved == {}


def test_a_forced_end_gives_a_leaving_claim_a_deadline_and_keeps_an_earlier_one() -> None:
    record = a_leaving(reason="OutsideHours")
    hour = NOW + timedelta(hours=1)
    forced = expedited(record, TerminationReason.OUTSIDE_HOURS_FORCED, "", None, hour)
    assert forced.deletion is not None
    assert forced.deletion.deadline == hour
    earlier = a_leaving(reason="OutsideHours", deadline=NOW)
    kept = expedited(earlier, TerminationReason.OUTSIDE_HOURS_FORCED, "", None, hour).deletion
    assert kept is not None
    assert kept.deadline == NOW


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
    deletion = record.deletion
    assert (deletion.deadline, deletion.held_for, deletion.held_at) == (NOW + HOUR + 40 * MINUTE, 40 * MINUTE, None)
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


SECOND, REPLACING_MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SOON = NOW + 2 * REPLACING_MINUTE
POD = a_pod("a", node_name="n", phase="Running", termination_grace_seconds=30)
DAEMON = a_pod("d", node_name="n", phase="Running", owners=(Owner("DaemonSet", "d", "apps/v1", is_controller=True),))


def replacing_step_of(*pods: object, is_ready: bool = False, now: datetime = NOW, **deletion: object) -> object:
    record = a_leaving(**{"reason": "SpotInterrupted", "ends_at": SOON, **deletion})
    facts = ClaimFacts(nodes=(a_node(leaving=True),), pods=pods or (POD,), has_replacements=is_ready)
    return next_claim_step(record, facts, now)


def test_the_node_is_closed_before_anything_is_waited_for() -> None:
    record = a_leaving(tainted=None, ends_at=SOON)
    assert isinstance(next_claim_step(record, ClaimFacts(nodes=(a_node(),), pods=(POD,)), NOW), steps.TaintNode)


def test_pods_stay_until_their_planned_nodes_are_ready() -> None:
    assert isinstance(replacing_step_of(), steps.Wait)
    assert isinstance(replacing_step_of(is_ready=True), steps.Drain)


@pytest.mark.parametrize(
    "deletion",
    [
        {"ends_at": None},
        {"ends_at": NOW + SHORTEST_DRAIN},
        {"ends_at": NOW - REPLACING_MINUTE},
        {"evicted_at": NOW},
        {"deadline": NOW + 30 * SECOND},
    ],
)
def test_an_urgent_drain_does_not_wait(deletion: dict[str, object]) -> None:
    """The end is unknown, near or past, the drain has begun, or pods are about to be forced."""
    assert isinstance(replacing_step_of(**deletion), steps.Drain)


@pytest.mark.parametrize(
    ("asked", "tainted", "next_check", "reason", "waits"),
    [
        (10, None, 75, "SpotInterrupted", False),
        (60, 48, 75, "SpotInterrupted", False),
        (60, 59, 75, "SpotInterrupted", True),
        (9, None, 75, "SpotInterrupted", True),
        (10, None, 0, "SpotInterrupted", True),
        (10, None, 75, "RebalanceRecommended", True),
    ],
)
def test_pods_do_not_wait_for_a_look_that_comes_too_late(
    asked: int, tainted: int | None, next_check: int, reason: str, *, waits: bool
) -> None:
    """Only if no message closed the node in time, so that the queue is late, and if EC2 takes the instance anyway."""
    tainted_at = None if tainted is None else NOW - tainted * SECOND
    deletion = Deletion(
        reason=TerminationReason(reason), asked_at=NOW - asked * SECOND, ends_at=SOON, tainted_at=tainted_at
    )
    record = msgspec.structs.replace(a_leaving(), deletion=deletion)
    facts = ClaimFacts(nodes=(a_node(leaving=True),), pods=(POD,), next_check_within=next_check * SECOND)
    assert (wait_for_replacements(record, facts, (POD,), NOW) is not None) is waits


def test_pods_that_need_no_other_node_are_not_waited_for() -> None:
    assert isinstance(replacing_step_of(DAEMON), steps.Drain)


@pytest.mark.parametrize("held_at", [None, NOW - REPLACING_MINUTE])
def test_an_expired_node_is_not_given_back_while_a_brake_keeps_its_replacements_away(held_at: datetime | None) -> None:
    """Its time goes on when the brake is released; until then, the brake stops the drain."""
    step = replacing_step_of(reason="Expired", ends_at=NOW, held_at=held_at)
    assert isinstance(step, steps.Drain if held_at else steps.CancelDrain)


@pytest.mark.parametrize(
    ("earlier", "drains"), [(timedelta(0), False), (timedelta(microseconds=1), True), (-REPLACING_MINUTE, False)]
)
def test_a_deadline_before_the_end_forces_the_drain(earlier: timedelta, *, drains: bool) -> None:
    """Whoever set a terminationGracePeriod wants the node gone then, replacements or not."""
    step = replacing_step_of(reason="Expired", ends_at=NOW, deadline=NOW - earlier)
    assert isinstance(step, steps.Drain if drains else steps.CancelDrain)


@given(
    graces=st.lists(st.integers(0, 600), min_size=1, max_size=4),
    notice=st.integers(-60, 900),
    period=st.none() | st.integers(0, 900),
    passed=st.integers(0, 900),
)
def test_no_drain_begins_later_than_its_pods_need(
    graces: list[int], notice: int, period: int | None, passed: int
) -> None:
    """Law: once the time left is the longest grace plus a margin, nothing is waited for."""
    pods = [
        a_pod(f"p{number}", node_name="n", phase="Running", termination_grace_seconds=grace)
        for number, grace in enumerate(graces)
    ]
    ends_at = NOW + notice * SECOND
    deadline = None if period is None else NOW + period * SECOND
    now = NOW + passed * SECOND
    first = ends_at if deadline is None else min(ends_at, deadline)
    needed = max(SHORTEST_DRAIN, max(graces) * SECOND + MARGIN)
    step = replacing_step_of(*pods, now=now, ends_at=ends_at, deadline=deadline, tainted=timedelta(0))
    waits = isinstance(step, steps.Wait) and "replacements" in step.reason
    assert waits == (first - now > needed)
    if waits:
        assert isinstance(step, steps.Wait)
        assert now + step.delay <= first - needed + 2 * SECOND


def test_a_ready_replacement_is_noticed_long_before_the_drain_must_begin() -> None:
    """Otherwise, a node that is taken away in an hour keeps its pods for most of it."""
    step = replacing_step_of(POD, now=NOW + 100 * SECOND, ends_at=NOW + 60 * REPLACING_MINUTE)
    assert isinstance(step, steps.Wait)
    assert step.delay <= 30 * SECOND


def test_pods_on_a_node_that_is_dead_are_not_left_there() -> None:
    record = a_leaving(reason="SpotInterrupted", ends_at=SOON)
    facts = ClaimFacts(nodes=(a_node(leaving=True, is_ready=False),), pods=(POD,))
    assert isinstance(next_claim_step(record, facts, NOW), steps.Drain)


def test_terminating_pods_do_not_hurry_the_others() -> None:
    record = a_leaving(ends_at=SOON)
    assert record.deletion is not None
    slow = a_pod("s", node_name="n", phase="Running", termination_grace_seconds=600, deleted_at=NOW)
    assert drain_by(record.deletion, (POD, slow)) == SOON - SHORTEST_DRAIN


def test_pods_wait_for_the_claims_that_were_planned_for_them() -> None:
    """New claims, those of an earlier plan, and claims in flight with room; not working nodes."""
    new = a_record(ClaimPhase.REQUESTED, plan=a_plan(pods=("default/a",)))
    booting = a_record(ClaimPhase.REGISTERED, plan=a_plan(pods=()))
    records = (
        new,
        _named(booting, "booting", node_name="b"),
        _named(a_record(ClaimPhase.INITIALIZED, plan=a_plan(pods=())), "working", node_name="w"),
    )
    bindings = (Binding("default/b", "b"), Binding("default/c", "w"), Binding("default/other", "b"))
    assert replacements(("default/a", "default/b", "default/c"), records, bindings, ()) == ("booting", "c")
    assert replacements(("default/c",), records, bindings, ()) == ()
    assert replacements(("default/c", "default/d"), records, bindings, ("default/d",)) is None


def test_an_earlier_end_counts_and_a_later_one_does_not() -> None:
    """A notice follows a recommendation; events arrive twice and late."""
    waits = a_leaving(reason="RebalanceRecommended", ends_at=SOON)
    assert expedited(waits, "ScheduledChangeDue", "", SOON) is waits
    after = expedited(waits, "SpotInterrupted", "", SOON - REPLACING_MINUTE).deletion
    assert after is not None
    assert (after.reason, after.ends_at) == ("SpotInterrupted", SOON - REPLACING_MINUTE)


@pytest.mark.parametrize("tainted", [None, REPLACING_MINUTE])
def test_a_drain_in_progress_does_not_wait_for_an_end_that_becomes_known(tainted: timedelta | None) -> None:
    """The replacements of a chosen node are ready when its drain begins."""
    chosen = a_leaving(tainted=tainted, reason="Underutilized")
    after = expedited(chosen, "SpotInterrupted", "", SOON).deletion
    assert after is not None
    assert (after.reason, after.ends_at) == ("SpotInterrupted", None if tainted else SOON)


def test_a_terminating_claim_keeps_its_reason() -> None:
    """EC2 reports each instance that we terminate."""
    ending = a_leaving(reason="Empty", terminated_at=NOW)
    assert expedited(ending, "InstanceTerminated", "", None) is ending


def _named(record: ClaimRecord, name: str, **changes: object) -> ClaimRecord:
    return msgspec.structs.replace(record, name=name, **changes)


@pytest.mark.parametrize(
    ("deletion", "capacity_type", "stays"),
    [
        ({"reason": "Expired"}, labels.SPOT, True),
        ({"reason": "Expired", "is_final": True}, labels.SPOT, False),
        ({"reason": "Expired", "deadline": NOW - SECOND}, labels.SPOT, False),
        ({"reason": "Expired"}, labels.RESERVED, False),
        ({"reason": "ExpiredForcefully"}, labels.SPOT, False),
        ({"reason": "SpotInterrupted"}, labels.SPOT, False),
    ],
)
def test_an_expired_node_that_cannot_be_replaced_stays(
    deletion: dict[str, object], capacity_type: str, stays: bool
) -> None:
    """Its pods would be down for lack of capacity; but its reservation's only place may be the one for its successor."""
    record = a_leaving(**{"ends_at": NOW, **deletion})
    assert record.machine is not None
    offering = msgspec.structs.replace(record.machine.offering, capacity_type=capacity_type)
    record = msgspec.structs.replace(record, machine=msgspec.structs.replace(record.machine, offering=offering))
    step = next_claim_step(record, ClaimFacts(nodes=(a_node(leaving=True),), pods=(POD,)), NOW)
    assert isinstance(step, steps.CancelDrain) is stays
