"""The escalation steps of a drain that does not end, and when a node is given back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core import labels
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.draining.deletion import emptied
from core.lifecycle.draining.escalation import DEADLINES, EscalationLevel
from core.lifecycle.draining.evictions import identity
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import EvictionTry
from core.model.storage import VolumeAttachment
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node

LEAVING = a_node(leaving=True)
POD = a_pod("a", node_name="n", phase="Running")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def step_of(blocked_for: timedelta, *, tried: str = "PodDisruptionBudget", **changes: object) -> object:
    """The next step of a drain without progress for this long."""
    tries = {identity(POD): EvictionTry(30, tried, NOW + MINUTE)}
    fields = {"reason": "SpotInterrupted", "tries": tries, "evicted_at": NOW - blocked_for, **changes}
    record = a_leaving(tainted=timedelta(days=9), asked_at=NOW - timedelta(days=9), **fields)
    return next_claim_step(record, ClaimFacts(nodes=(LEAVING,), pods=(POD,)), NOW)


@pytest.mark.parametrize("escalation_level", list(EscalationLevel))
def test_each_step_is_reported_once_at_its_time(escalation_level: EscalationLevel) -> None:
    early = step_of(DEADLINES[escalation_level] - SECOND, escalation_level=escalation_level - 1)
    late = step_of(DEADLINES[escalation_level], escalation_level=escalation_level - 1)
    again = step_of(DEADLINES[escalation_level], escalation_level=escalation_level)
    assert isinstance(early, steps.Wait)
    assert isinstance(late, steps.Escalate)
    assert late.escalation_level == escalation_level
    assert isinstance(again, steps.Wait)


def test_the_message_names_what_keeps_the_node() -> None:
    step = step_of(5 * MINUTE)
    assert isinstance(step, steps.Escalate)
    assert "pod default/a was not evicted in 30 attempts: a PodDisruptionBudget allows no eviction" in step.message
    assert f"; no pod was evicted from node n since {NOW - 5 * MINUTE:%Y-%m-%dT%H:%M:%SZ}" in step.message
    assert [(b.pod, b.reason) for b in step.blockers] == [(POD, "PodDisruptionBudget")]


def test_a_drain_with_progress_is_not_blocked() -> None:
    """A node with thirty pods of one budget takes half an hour, without any fault."""
    assert isinstance(step_of(4 * MINUTE), steps.Wait)


@pytest.mark.parametrize("escalation_level", list(EscalationLevel))
def test_time_under_a_brake_does_not_count(escalation_level: EscalationLevel) -> None:
    """A brake that stops evictions is no pod that does not leave: drains were cancelled, and alarms raised, for it."""
    for held_for in (MINUTE, 30 * HOUR):
        under = {"escalation_level": escalation_level - 1, "held_since_progress": held_for}
        early = step_of(DEADLINES[escalation_level] + held_for - SECOND, **under)
        late = step_of(DEADLINES[escalation_level] + held_for, **under)
        assert isinstance(early, steps.Wait)
        assert isinstance(late, steps.Escalate)


@pytest.mark.parametrize("reason", ["Underutilized", "SpotInterrupted"])
def test_no_drain_is_escalated_or_cancelled_while_a_brake_holds_it(reason: str) -> None:
    assert isinstance(step_of(30 * HOUR, reason=reason, held_at=NOW - 30 * HOUR), steps.Wait)


def test_a_bounded_drain_needs_no_escalation() -> None:
    assert not isinstance(step_of(6 * HOUR, deadline=NOW + HOUR), steps.Escalate)


@pytest.mark.parametrize(("tried", "code"), [("PodDisruptionBudget",) * 2, ("WebhookFailed", "DrainBlocked")])
@pytest.mark.parametrize("reason", ["Underutilized", "Expired"])
def test_a_voluntary_drain_is_cancelled_after_an_hour(reason: str, tried: str, code: str) -> None:
    """This holds even if other pods have left: nothing is final before the instance is terminated."""
    step = step_of(HOUR, reason=reason, tried=tried, escalation_level=EscalationLevel.BLOCKED)
    assert isinstance(step, steps.CancelDrain)
    assert step.reason == code
    assert isinstance(
        step_of(HOUR, reason=reason, is_final=True, escalation_level=EscalationLevel.BLOCKED), steps.Escalate
    )


def test_a_pod_that_is_terminating_is_named_with_its_time() -> None:
    pod = a_pod("p", node_name="n", phase="Running", deleted_at=NOW + 5 * MINUTE)
    record = a_leaving(reason="NodePoolDeleted", tainted=5 * MINUTE)
    step = next_claim_step(record, ClaimFacts(nodes=(LEAVING,), pods=(pod,)), NOW)
    assert isinstance(step, steps.Escalate)
    assert [blocker.reason for blocker in step.blockers] == ["Terminating"]
    assert step.message.startswith(f"pod default/p is terminating until {NOW + 5 * MINUTE:%Y-%m-%dT%H:%M:%SZ}")


def test_the_protected_pod_is_named() -> None:
    pod = a_pod("p", node_name="n", phase="Running", annotations={labels.DO_NOT_DISRUPT: "true"})
    record = a_leaving(reason="NodePoolDeleted", tainted=5 * MINUTE)
    step = next_claim_step(record, ClaimFacts(nodes=(LEAVING,), pods=(POD, pod)), NOW)
    assert isinstance(step, steps.Escalate)
    assert [blocker.reason for blocker in step.blockers] == ["NotAsked", "DoNotDisrupt"]
    assert step.message.startswith("pod default/p has karpenter.sh/do-not-disrupt")


ATTACHED = ClaimFacts(
    nodes=(LEAVING,),
    attachments=tuple(VolumeAttachment(name=name, node_name="n", volume_name=f"pv-{name}") for name in ("b", "a")),
)
"""A node without pods whose volumes are not detached, as when its CSI driver is gone."""


def test_volumes_that_are_not_detached_are_told_of() -> None:
    """If this failed, an empty node would keep its place in the budgets for good, and nobody would know why."""
    for since, expected in ((5 * MINUTE - SECOND, steps.Wait), (5 * MINUTE, steps.Escalate)):
        record = a_leaving(reason="NodePoolDeleted", tainted=HOUR, emptied_at=NOW - since)
        step = next_claim_step(record, ATTACHED, NOW)
        assert isinstance(step, expected)
    assert isinstance(step, steps.Escalate)
    assert step.blockers == ()
    told = "2 volumes are still attached to node n, the first is pv-a; the last pod had left by "
    assert step.message == f"{told}{NOW - 5 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("left", [None, 5 * SECOND, HOUR, 24 * HOUR])
@pytest.mark.parametrize("reason", ["Underutilized", "Drifted", "SpotInterrupted"])
def test_volumes_have_their_time_from_the_last_pod_on(reason: str, left: timedelta | None) -> None:
    """Its pods may have had a grace of an hour, or have ended by themselves: the drain was cancelled at once."""
    evicted_at = NOW - left if left else None
    record = a_leaving(reason=reason, tainted=timedelta(days=2), evicted_at=evicted_at, escalation_level=2)
    assert next_claim_step(record, ATTACHED, NOW) == steps.NoteEmpty("n")
    after = emptied(record, NOW)
    assert after.deletion is not None
    assert (after.deletion.emptied_at, after.deletion.escalation_level) == (NOW, 0)
    assert isinstance(next_claim_step(after, ATTACHED, NOW), steps.Wait)


def test_a_pod_that_arrives_late_has_its_time_from_the_moment_of_emptiness() -> None:
    assert isinstance(step_of(HOUR, reason="Drifted", emptied_at=NOW - 5 * MINUTE + SECOND), steps.Wait)
    step = step_of(HOUR, reason="Drifted", emptied_at=NOW - 5 * MINUTE)
    assert isinstance(step, steps.Escalate)
    assert step.escalation_level == EscalationLevel.SLOW


def test_a_bounded_drain_needs_no_moment_of_emptiness() -> None:
    """Its volumes have until the deadline, and the row would be written for nothing."""
    assert isinstance(next_claim_step(a_leaving(deadline=NOW + HOUR), ATTACHED, NOW), steps.Wait)


def test_a_voluntary_drain_that_volumes_hold_up_is_cancelled_after_an_hour() -> None:
    record = a_leaving(reason="Empty", tainted=2 * HOUR, emptied_at=NOW - HOUR)
    step = next_claim_step(record, ATTACHED, NOW)
    assert isinstance(step, steps.CancelDrain)
    assert step.reason == "DrainBlocked"


def test_nothing_is_told_of_a_node_that_waits_for_nothing() -> None:
    step = next_claim_step(a_leaving(reason="NodePoolDeleted", tainted=HOUR), ClaimFacts(nodes=(LEAVING,)), NOW)
    assert isinstance(step, steps.TerminateInstance)
