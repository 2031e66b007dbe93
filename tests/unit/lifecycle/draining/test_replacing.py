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
from core.lifecycle.draining.deletion import expedited
from core.lifecycle.draining.replacing import MARGIN, SHORTEST_DRAIN, drain_by, replacements
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.plan import Binding
from core.model.pod import Owner
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node, a_plan, a_record

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SOON = NOW + 2 * MINUTE
POD = a_pod("a", node_name="n", phase="Running", termination_grace_seconds=30)
DAEMON = a_pod("d", node_name="n", phase="Running", owners=(Owner("DaemonSet", "d", "apps/v1", is_controller=True),))


def step_of(*pods: object, is_ready: bool = False, now: datetime = NOW, **deletion: object) -> object:
    record = a_leaving(**{"reason": "SpotInterrupted", "ends_at": SOON, **deletion})
    facts = ClaimFacts(nodes=(a_node(leaving=True),), pods=pods or (POD,), has_replacements=is_ready)
    return next_claim_step(record, facts, now)


def test_the_node_is_closed_before_anything_is_waited_for() -> None:
    record = a_leaving(tainted=None, ends_at=SOON)
    assert isinstance(next_claim_step(record, ClaimFacts(nodes=(a_node(),), pods=(POD,)), NOW), steps.TaintNode)


def test_pods_stay_until_their_planned_nodes_are_ready() -> None:
    assert isinstance(step_of(), steps.Wait)
    assert isinstance(step_of(is_ready=True), steps.Drain)


@pytest.mark.parametrize(
    "deletion",
    [
        {"ends_at": None},
        {"ends_at": NOW + SHORTEST_DRAIN},
        {"ends_at": NOW - MINUTE},
        {"evicted_at": NOW},
        {"deadline": NOW + 30 * SECOND},
    ],
)
def test_an_urgent_drain_does_not_wait(deletion: dict[str, object]) -> None:
    """The end is unknown, near or past, the drain has begun, or pods are about to be forced."""
    assert isinstance(step_of(**deletion), steps.Drain)


def test_pods_that_need_no_other_node_are_not_waited_for() -> None:
    assert isinstance(step_of(DAEMON), steps.Drain)


@pytest.mark.parametrize("held_at", [None, NOW - MINUTE])
def test_an_expired_node_is_not_given_back_while_a_brake_keeps_its_replacements_away(held_at: datetime | None) -> None:
    """Its time goes on when the brake is released; until then, the brake stops the drain."""
    step = step_of(reason="Expired", ends_at=NOW, held_at=held_at)
    assert isinstance(step, steps.Drain if held_at else steps.CancelDrain)


@pytest.mark.parametrize(
    ("earlier", "drains"), [(timedelta(0), False), (timedelta(microseconds=1), True), (-MINUTE, False)]
)
def test_a_deadline_before_the_end_forces_the_drain(earlier: timedelta, *, drains: bool) -> None:
    """Whoever set a terminationGracePeriod wants the node gone then, replacements or not."""
    step = step_of(reason="Expired", ends_at=NOW, deadline=NOW - earlier)
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
    step = step_of(*pods, now=now, ends_at=ends_at, deadline=deadline, tainted=timedelta(0))
    waits = isinstance(step, steps.Wait) and "replacements" in step.reason
    assert waits == (first - now > needed)
    if waits:
        assert isinstance(step, steps.Wait)
        assert now + step.delay <= first - needed + 2 * SECOND


def test_a_ready_replacement_is_noticed_long_before_the_drain_must_begin() -> None:
    """Otherwise, a node that is taken away in an hour keeps its pods for most of it."""
    step = step_of(POD, now=NOW + 100 * SECOND, ends_at=NOW + 60 * MINUTE)
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
    after = expedited(waits, "SpotInterrupted", "", SOON - MINUTE).deletion
    assert after is not None
    assert (after.reason, after.ends_at) == ("SpotInterrupted", SOON - MINUTE)


@pytest.mark.parametrize("tainted", [None, MINUTE])
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
