"""What a leaving node says about why it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.lifecycle import steps
from core.lifecycle.claims import next_claim_step
from core.lifecycle.deletion import emptied, leaving, tainted, with_clock
from core.lifecycle.draining import (
    DEADLINES,
    FORCED_ANYWAY_AFTER,
    LONGEST_WAIT,
    PATIENT_AFTER,
    PATIENT_WAIT,
    REASON_ANNOTATION,
    RESTARTED_FOR,
    EscalationLevel,
    EvictionRefusal,
    after_tries,
    back_off,
    drain,
    identity,
    is_overdue,
    is_restarted,
    lacks_marks,
    must_leave_for,
    needs_surge,
    next_check,
    next_termination_step,
    objection,
    restart,
    taint_of,
    without_planned_moves,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandPhase, CommandRecord, Deletion, EvictionTry
from core.lifecycle.steps import INSTANCE_CHECK_AFTER, ClaimFacts
from core.manifests.wire.pod import WireWorkload
from core.model.plan import Binding, Command, Plan
from core.model.pod import Owner, Pod, VolumeAttachment
from core.model.values.taints import DISRUPTED, NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from core.pods import is_drainable
from core.reasons.code import TerminationReason
from core.reasons.pods import EvictionReason
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node, a_plan, a_record

# What a leaving node says about why it leaves.


@pytest.mark.parametrize(
    ("written", "reason", "after"),
    [
        pytest.param("Drifted", "SpotInterrupted", "SpotInterrupted", id="now it must"),
        pytest.param("SpotInterrupted", "Drifted", "SpotInterrupted", id="it must anyway"),
        pytest.param("Drifted", "Empty", "Drifted", id="the first of our choice"),
    ],
)
def test_a_node_is_marked_with_the_reason_for_which_it_must_go(written: str, reason: str, after: str) -> None:
    """A restored table would have the mark of an earlier drift taken off, and pods on an instance that ends."""
    node = a_node(leaving=True, annotations={REASON_ANNOTATION: written})
    assert lacks_marks(node, reason) == (written != after)
    assert taint_of(node, reason).annotations == {REASON_ANNOTATION: after}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("SpotInterrupted", TerminationReason.SPOT_INTERRUPTED),
        ("Drifted", None),
        ("ReasonOfTomorrow", None),
        ("", None),
    ],
)
def test_only_a_known_reason_that_is_never_called_off_counts(written: str, found: TerminationReason | None) -> None:
    """Marks of a voluntary reason may be those of a command that was given up: its node would be drained for nothing."""
    assert must_leave_for(a_node(leaving=True, annotations={REASON_ANNOTATION: written})) == found


def test_a_reason_counts_only_with_the_taint() -> None:
    """A kubelet may annotate its node; it cannot taint it."""
    node = a_node(annotations={REASON_ANNOTATION: "SpotInterrupted"})
    assert DISRUPTED not in node.taints
    assert must_leave_for(node) is None


# The escalation steps of a drain that does not end, and when a node is given back.


LEAVING = a_node(leaving=True)
POD = a_pod("a", node_name="n", phase="Running")
ESCALATION_SECOND, ESCALATION_MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def step_of(blocked_for: timedelta, *, tried: str = "PodDisruptionBudget", **changes: object) -> object:
    """The next step of a drain without progress for this long."""
    tries = {identity(POD): EvictionTry(30, tried, NOW + ESCALATION_MINUTE)}
    fields = {"reason": "SpotInterrupted", "tries": tries, "evicted_at": NOW - blocked_for, **changes}
    record = a_leaving(tainted=timedelta(days=9), asked_at=NOW - timedelta(days=9), **fields)
    return next_claim_step(record, ClaimFacts(nodes=(LEAVING,), pods=(POD,)), NOW)


@pytest.mark.parametrize("escalation_level", list(EscalationLevel))
def test_each_step_is_reported_once_at_its_time(escalation_level: EscalationLevel) -> None:
    early = step_of(DEADLINES[escalation_level] - ESCALATION_SECOND, escalation_level=escalation_level - 1)
    late = step_of(DEADLINES[escalation_level], escalation_level=escalation_level - 1)
    again = step_of(DEADLINES[escalation_level], escalation_level=escalation_level)
    assert isinstance(early, steps.Wait)
    assert isinstance(late, steps.Escalate)
    assert late.escalation_level == escalation_level
    assert isinstance(again, steps.Wait)


def test_the_message_names_what_keeps_the_node() -> None:
    step = step_of(5 * ESCALATION_MINUTE)
    assert isinstance(step, steps.Escalate)
    assert "pod default/a was not evicted in 30 attempts: a PodDisruptionBudget allows no eviction" in step.message
    assert f"; no pod was evicted from node n since {NOW - 5 * ESCALATION_MINUTE:%Y-%m-%dT%H:%M:%SZ}" in step.message
    assert [(b.pod, b.reason) for b in step.blockers] == [(POD, "PodDisruptionBudget")]


def test_a_drain_with_progress_is_not_blocked() -> None:
    """A node with thirty pods of one budget takes half an hour, without any fault."""
    assert isinstance(step_of(4 * ESCALATION_MINUTE), steps.Wait)


@pytest.mark.parametrize("escalation_level", list(EscalationLevel))
def test_time_under_a_brake_does_not_count(escalation_level: EscalationLevel) -> None:
    """A brake that stops evictions is no pod that does not leave: drains were cancelled, and alarms raised, for it."""
    for held_for in (ESCALATION_MINUTE, 30 * HOUR):
        under = {"escalation_level": escalation_level - 1, "held_since_progress": held_for}
        early = step_of(DEADLINES[escalation_level] + held_for - ESCALATION_SECOND, **under)
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
    pod = a_pod("p", node_name="n", phase="Running", deleted_at=NOW + 5 * ESCALATION_MINUTE)
    record = a_leaving(reason="NodePoolDeleted", tainted=5 * ESCALATION_MINUTE)
    step = next_claim_step(record, ClaimFacts(nodes=(LEAVING,), pods=(pod,)), NOW)
    assert isinstance(step, steps.Escalate)
    assert [blocker.reason for blocker in step.blockers] == ["Terminating"]
    assert step.message.startswith(
        f"pod default/p is terminating until {NOW + 5 * ESCALATION_MINUTE:%Y-%m-%dT%H:%M:%SZ}"
    )


def test_the_protected_pod_is_named() -> None:
    pod = a_pod("p", node_name="n", phase="Running", annotations={labels.DO_NOT_DISRUPT: "true"})
    record = a_leaving(reason="NodePoolDeleted", tainted=5 * ESCALATION_MINUTE)
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
    for since, expected in (
        (5 * ESCALATION_MINUTE - ESCALATION_SECOND, steps.Wait),
        (5 * ESCALATION_MINUTE, steps.Escalate),
    ):
        record = a_leaving(reason="NodePoolDeleted", tainted=HOUR, emptied_at=NOW - since)
        step = next_claim_step(record, ATTACHED, NOW)
        assert isinstance(step, expected)
    assert isinstance(step, steps.Escalate)
    assert step.blockers == ()
    told = "2 volumes are still attached to node n, the first is pv-a; the last pod had left by "
    assert step.message == f"{told}{NOW - 5 * ESCALATION_MINUTE:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("left", [None, 5 * ESCALATION_SECOND, HOUR, 24 * HOUR])
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
    assert isinstance(
        step_of(HOUR, reason="Drifted", emptied_at=NOW - 5 * ESCALATION_MINUTE + ESCALATION_SECOND), steps.Wait
    )
    step = step_of(HOUR, reason="Drifted", emptied_at=NOW - 5 * ESCALATION_MINUTE)
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


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
REFUSED = EvictionRefusal(EvictionReason.SERVER_ERROR)


def a_running(name: str, **changes: object) -> Pod:
    return a_pod(name, node_name="n", phase="Running", **changes)


def a_deletion(*, tried: Sequence[tuple[Pod, int]] = (), **changes: object) -> Deletion:
    """Tainted a minute ago; pods with this many attempts may be tried again now."""
    tries = {identity(pod): EvictionTry(attempts, "ServerError", NOW) for pod, attempts in tried}
    asked_at = changes.get("tainted_at") or NOW - MINUTE
    return Deletion(**{"reason": "Empty", "asked_at": asked_at, "tainted_at": NOW - MINUTE, "tries": tries, **changes})


def evicted(deletion: Deletion, *pods: Pod) -> list[str]:
    return [pod.name for pod in drain(deletion, pods, NOW).evict]


def forced(deletion: Deletion, *pods: Pod) -> list[tuple[str, int]]:
    return [(pod.name, grace) for pod, grace in drain(deletion, pods, NOW).force]


def test_the_pod_with_fewest_attempts_comes_first() -> None:
    """Otherwise, a pod whose eviction hangs takes the time of pods whose names come later, in each run."""
    first, last = a_running("a"), a_running("z")
    assert evicted(a_deletion(tried=[(first, 3)]), first, last) == ["z", "a"]


def test_a_refused_pod_is_left_alone_for_a_while_and_its_neighbours_are_not() -> None:
    stuck, free = a_running("a"), a_running("b")
    deletion = after_tries(a_deletion(), [stuck, free], {stuck.key: REFUSED}, NOW, moved=False)
    assert evicted(deletion, stuck, free) == ["b"]
    assert deletion.tries[identity(stuck)].reason == "ServerError"
    assert next_check(deletion, [stuck], NOW) == back_off(1)


def test_the_wait_doubles_and_stays_bounded() -> None:
    waits = [back_off(attempts) for attempts in range(1, 1000)]
    assert waits[:5] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, LONGEST_WAIT]
    assert waits == sorted(waits)
    assert max(waits) == PATIENT_WAIT
    assert (waits[PATIENT_AFTER - 1], waits[PATIENT_AFTER]) == (LONGEST_WAIT, PATIENT_WAIT)


@pytest.mark.parametrize(("left", "again"), [(timedelta(0), ["a"]), (timedelta(microseconds=1), [])])
def test_a_pod_whose_forced_deletion_failed_is_tried_again_when_its_wait_is_over(
    left: timedelta, again: list[str]
) -> None:
    pod = a_running("a", termination_grace_seconds=0)
    tries = {identity(pod): EvictionTry(2, "ServerError", NOW + left, is_forced=True)}
    deletion = a_deletion(deadline=NOW - MINUTE, tainted_at=NOW - 30 * MINUTE, tried_at=NOW - MINUTE)
    deletion = msgspec.structs.replace(deletion, tries=tries)
    assert [name for name, _ in forced(deletion, pod)] == again


def test_an_overloaded_server_is_left_alone() -> None:
    pod = a_running("a")
    refusal = EvictionRefusal(EvictionReason.THROTTLED, retry_after=40 * SECOND)
    deletion = after_tries(a_deletion(), [pod], {pod.key: refusal}, NOW, moved=False)
    assert deletion.tries[identity(pod)].next_at == NOW + 40 * SECOND


def test_only_existing_pods_are_remembered() -> None:
    """Otherwise, the record of a node that is drained for days outgrows its row."""
    gone, there = a_running("gone"), a_running("there")
    deletion = a_deletion(tried=[(gone, 1), (there, 1)])
    assert set(after_tries(deletion, [there], {}, NOW, moved=False).tries) == {identity(there)}


def test_without_a_change_nothing_is_written() -> None:
    deletion = a_deletion()
    assert after_tries(deletion, [a_running("a")], {}, NOW, moved=False) is deletion


def test_recent_progress_sets_the_pace() -> None:
    """Otherwise, a drain whose pods leave one by one is continued every half minute from its fifth minute on."""
    long_ago = a_deletion(asked_at=NOW - 60 * MINUTE, tainted_at=NOW - 60 * MINUTE)
    assert next_check(long_ago, [], NOW) == 30 * SECOND
    assert next_check(after_tries(long_ago, [], {}, NOW, moved=True), [], NOW) == 2 * SECOND


def test_an_eviction_from_an_empty_node_drops_the_time_since_when_it_is_empty() -> None:
    deletion = a_deletion(emptied_at=NOW - 60 * MINUTE)
    assert after_tries(deletion, [], {}, NOW, moved=True).emptied_at is None
    pod = a_running("p")
    assert after_tries(deletion, [pod], {pod.key: REFUSED}, NOW, moved=False).emptied_at == deletion.emptied_at


def test_a_protected_pod_is_not_evicted_before_its_time_is_up() -> None:
    pod = a_running("p", annotations={labels.DO_NOT_DISRUPT: "true"}, termination_grace_seconds=60)
    assert evicted(a_deletion(deadline=NOW + 2 * MINUTE), pod) == []
    assert evicted(a_deletion(deadline=NOW + 59 * SECOND), pod) == ["p"]


GROUPED = {labels.GROUP: "train", labels.GROUP_MINIMUM: "2"}


@pytest.mark.parametrize("reason", ["Drifted", "Expired"])
def test_a_groups_end_is_waited_for_until_the_time_is_up(reason: str) -> None:
    """All of it would start again for a newer node."""
    pod = a_running("p", annotations=GROUPED, termination_grace_seconds=60)
    assert evicted(a_deletion(reason=reason, deadline=NOW + 2 * MINUTE), pod) == []
    assert evicted(a_deletion(reason=reason, deadline=NOW + 59 * SECOND), pod) == ["p"]


@pytest.mark.parametrize(
    ("deletion", "notes"),
    [
        ({"reason": "Unhealthy", "deadline": NOW + 2 * MINUTE}, GROUPED),
        ({"reason": "Drifted"}, GROUPED),
        ({"reason": "Drifted", "deadline": NOW + 2 * MINUTE}, GROUPED | {labels.GROUP_DISRUPTION: "single"}),
        ({"reason": "Drifted", "deadline": NOW + 2 * MINUTE}, {labels.GROUP: "none"}),
    ],
)
def test_a_member_goes_at_once_where_nothing_is_won_by_waiting(deletion: dict[str, Any], notes: dict[str, str]) -> None:
    assert evicted(a_deletion(**deletion), a_running("p", annotations=notes)) == ["p"]


def test_no_pod_is_forced_without_an_eviction_attempt() -> None:
    """Otherwise, one stuck pod costs its neighbours their budget's protection, in the same second."""
    asked, other = a_running("asked"), a_running("other", priority_class="system-node-critical")
    deletion = a_deletion(deadline=NOW + 20 * SECOND, tried=[(asked, 1)])
    assert forced(deletion, asked, other) == [("asked", 20)]
    assert evicted(deletion, asked, other) == ["other"]


def test_the_end_comes_even_without_time_for_attempts() -> None:
    """A round that had time for other pods counts, whether they left or not."""
    pod, other = a_running("p"), a_running("other")
    for refused in ({}, {other.key: REFUSED}):
        for late, expected in ((0 * SECOND, []), (SECOND, [("p", 1)])):
            deletion = a_deletion(deadline=NOW - FORCED_ANYWAY_AFTER - late)
            assert forced(after_tries(deletion, [pod, other], refused, NOW, moved=not refused), pod) == expected


def test_after_an_outage_that_outlasts_the_deadline_every_pod_is_evicted_first() -> None:
    """If this failed, all pods of a node would go past their budgets once the API server answers again."""
    pod, deadline = a_running("p"), NOW - timedelta(hours=1)
    for before in ({}, {"evicted_at": deadline}):
        deletion = a_deletion(deadline=deadline, **before)
        assert forced(deletion, pod) == []
        assert drain(deletion, [pod], NOW).evict == (pod,)


@pytest.mark.parametrize("last_round", [-7 * SECOND, 0 * SECOND, 30 * SECOND, FORCED_ANYWAY_AFTER])
def test_a_round_before_an_outage_is_none_after_it(last_round: timedelta) -> None:
    """If this failed, the neighbours of a refused pod, which is tried again after the deadline, would be forced off untried."""
    refused, untried = a_running("refused"), a_running("untried", termination_grace_seconds=5)
    deadline = NOW - 2 * MINUTE
    before = a_deletion(deadline=deadline, tried=[(refused, 7)])
    deletion = after_tries(
        before, [refused, untried], {refused.key: REFUSED}, deadline + last_round, moved=last_round > 0 * SECOND
    )
    assert forced(deletion, refused, untried) == [("refused", 1)]
    assert evicted(deletion, refused, untried) == ["untried"]


def test_a_pod_with_the_longest_grace_leaves_budgets_the_first_half() -> None:
    """Otherwise, PodDisruptionBudgets have no effect if a pod's grace is as long as terminationGracePeriod."""
    pod = a_running("p", termination_grace_seconds=3600)
    early = a_deletion(tainted_at=NOW - 4 * MINUTE, deadline=NOW + 6 * MINUTE, tried=[(pod, 5)])
    late = a_deletion(tainted_at=NOW - 5 * MINUTE - SECOND, deadline=NOW + 5 * MINUTE - SECOND, tried=[(pod, 5)])
    assert forced(early, pod) == []
    assert forced(late, pod) == [("p", 299)]
    untainted = a_deletion(
        asked_at=NOW - 5 * MINUTE - SECOND, tainted_at=None, deadline=NOW + 5 * MINUTE - SECOND, tried=[(pod, 5)]
    )
    assert forced(untainted, pod) == [("p", 299)], "the time counts from the request until the node is tainted"


def test_budgets_have_their_half_from_the_request_where_the_clock_of_the_taint_was_behind() -> None:
    """From the taint on, which seems to be long ago, there would be time for the whole grace: it would count at once."""
    pod = a_running("p", termination_grace_seconds=180)
    deletion = a_deletion(asked_at=NOW, tainted_at=NOW - 4 * MINUTE, deadline=NOW + 3 * MINUTE)
    assert is_overdue(pod, deletion, NOW + 90 * SECOND) is False
    assert is_overdue(pod, deletion, NOW + 91 * SECOND) is True


@pytest.mark.parametrize(("ran_for", "held_for"), [(1, 1), (1, 6), (2, 600), (4, 60)])
@pytest.mark.parametrize("grace", [5, 10, 120])
def test_time_under_a_brake_counts_for_no_half(ran_for: int, held_for: int, grace: int) -> None:
    """If this failed, pods with a long grace would be forced off past their budgets once a brake is released."""
    pod = a_running("p", termination_grace_seconds=60 * grace)
    tainted_at = NOW - (ran_for + held_for) * MINUTE
    stopped = a_leaving(tainted=NOW - tainted_at, deadline=tainted_at + 5 * MINUTE, held_at=NOW - held_for * MINUTE)
    deletion = with_clock(stopped, NOW, is_held=False).deletion
    assert deletion is not None
    half = NOW + timedelta(minutes=2.5 - ran_for)
    assert is_overdue(pod, deletion, half) is False
    assert is_overdue(pod, deletion, half + SECOND) is True


@pytest.mark.parametrize("ends_in", [0, 1])
def test_a_terminating_pod_is_not_killed_again(ends_in: int) -> None:
    pod = a_running("p", deleted_at=NOW + ends_in * SECOND)
    assert forced(a_deletion(deadline=NOW - MINUTE), pod) == []


def test_the_time_of_force_is_not_missed() -> None:
    """Otherwise, a pod loses part of its grace because no run came in time."""
    pod = a_running("p", termination_grace_seconds=30)
    deletion = a_deletion(asked_at=NOW - 60 * MINUTE, tainted_at=NOW - 60 * MINUTE, deadline=NOW + 37 * SECOND)
    assert next_check(deletion, [pod], NOW) == 7 * SECOND


def test_a_restart_is_asked_for_after_two_four_and_eight_refusals_of_a_budget() -> None:
    """Each try would restart the Deployment again; a server's error says nothing of its budget."""
    budget, error = EvictionReason.POD_DISRUPTION_BUDGET, EvictionReason.SERVER_ERROR
    surging = [attempts for attempts in range(1, 33) if needs_surge(EvictionTry(attempts, budget, NOW))]
    assert surging == [2, 4, 8, 16, 32]
    assert not any(needs_surge(EvictionTry(attempts, error, NOW)) for attempts in range(1, 33))


def test_a_successor_of_the_same_name_starts_without_its_predecessors_tries() -> None:
    """StatefulSets give names again: the new pod would wait for half an hour, or be forced off."""
    old, new = a_running("db-0", uid="u1"), a_running("db-0", uid="u2")
    assert identity(old) != identity(new)
    assert identity(a_running("db-0", uid="")) == "default/db-0"
    assert evicted(a_deletion(tried=[(old, 9)]), new, a_running("other")) == ["db-0", "other"]


@pytest.mark.parametrize(
    ("moved", "refused", "postponed", "is_over"),
    [
        (True, False, False, True),
        (False, True, False, True),
        (True, True, False, True),
        (False, False, False, False),
        (True, False, True, False),
        (False, True, True, False),
        (True, True, True, False),
    ],
)
def test_a_round_is_over_once_every_pod_of_it_was_tried(
    *, moved: bool, refused: bool, postponed: bool, is_over: bool
) -> None:
    """After one that left pods to the next, pods that nobody tried would be forced off."""
    deletion, pod = Deletion(reason="Empty", asked_at=NOW), a_pod()
    refusals = {pod.key: EvictionRefusal(EvictionReason.SERVER_ERROR)} if refused else {}
    after = after_tries(deletion, [pod], refusals, NOW, moved=moved, postponed=postponed)
    assert after.tried_at == (NOW if is_over else None)
    assert after.evicted_at == (NOW if moved else None)
    assert len(after.tries) == int(refused)
    assert (after is deletion) is not (moved or refused)


# Pods that consolidation moves have their places: nothing is launched for them a second time.


CONSOLIDATED = TerminationReason.UNDERUTILIZED
PODS = (a_pod("moves", node_name="n"), a_pod("waits"))


def a_command(reason: str = CONSOLIDATED, phase: CommandPhase = CommandPhase.STARTING) -> CommandRecord:
    """A command that removes the only node."""
    command = Command(reason=reason, method="repack", nodes=("n",), claims=("c",))
    moments = {"created_at": NOW, "verify_at": NOW, "phase_since": NOW - timedelta(seconds=1)}
    return CommandRecord(id="one", command=command, phase=phase, **moments)


def launched(*pods: str, records: tuple[ClaimRecord, ...] = (), commands: tuple[CommandRecord, ...] = ()) -> bool:
    """Whether a claim for these pods stays in the plan."""
    plan = Plan(now=NOW, claims=(a_plan(pods=pods),))
    return bool(without_planned_moves(plan, PODS, records, commands).claims)


def test_the_pods_of_a_command_that_has_not_stored_its_new_nodes_yet_get_no_others() -> None:
    assert not launched("default/moves", records=(a_record(),), commands=(a_command(),))


def test_the_pods_of_a_node_that_consolidation_drains_get_no_new_node() -> None:
    """The command that planned their places has ended by then."""
    assert not launched("default/moves", records=(a_leaving(reason=CONSOLIDATED),))


@pytest.mark.parametrize("pods", [("default/waits",), ("default/moves", "default/waits")])
def test_a_new_node_for_a_pod_that_waits_is_launched(pods: tuple[str, ...]) -> None:
    assert launched(*pods, records=(a_leaving(reason=CONSOLIDATED),), commands=(a_command(),))


@pytest.mark.parametrize(
    ("records", "commands"),
    [
        ((a_record(),), ()),
        ((a_record(),), (a_command(phase=CommandPhase.VERIFYING),)),
        ((a_record(),), (a_command(TerminationReason.DRIFTED),)),
        ((a_leaving(reason=TerminationReason.EXPIRED),), ()),
        ((a_leaving(reason=CONSOLIDATED, ends_at=NOW + timedelta(minutes=2)),), ()),
    ],
)
def test_pods_whose_places_nobody_has_planned_get_new_nodes(
    records: tuple[ClaimRecord, ...], commands: tuple[CommandRecord, ...]
) -> None:
    """An expired node, and one that AWS takes, wait for other places; drift may take a node before its replacement."""
    assert launched("default/moves", records=records, commands=commands)


def test_a_new_node_for_a_capacity_buffer_is_launched() -> None:
    plan = Plan(now=NOW, claims=(a_plan(pods=("default/moves",), buffer_pods=("default/room",)),))
    assert without_planned_moves(plan, PODS, (), (a_command(),)) == plan


def test_nodes_are_expected_to_take_the_pods_that_wait_alone() -> None:
    """Nodes that are expected to take pods may not be consolidated, and these pods go where their command has room."""
    waits, moves = Binding("default/waits", "other"), Binding("default/moves", "another")
    plan = Plan(now=NOW, bindings=(moves, waits))
    assert without_planned_moves(plan, PODS, (), (a_command(),)).bindings == (waits,)
    assert without_planned_moves(plan, PODS, (a_record(),), ()) is plan


def test_a_claim_without_a_node_moves_no_pods() -> None:
    """Pods without a node are not on its node."""
    assert launched("default/waits", records=(msgspec.structs.replace(a_leaving(reason=CONSOLIDATED), node_name=""),))


# Whether a Deployment may be restarted so that its only pod moves without an outage.


SAFE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def a_deployment(status: dict[str, Any] | None = None, **spec: Any) -> WireWorkload:
    fields = {"replicas": 1, "strategy": SAFE, **spec}
    counts = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, **(status or {})}
    metadata = {"name": "web", "generation": 1, "resourceVersion": "7"}
    return msgspec.convert({"metadata": metadata, "spec": fields, "status": counts}, WireWorkload)


def test_a_single_replica_with_a_safe_rollout_is_restarted() -> None:
    assert objection(a_deployment()) == ""
    for surge, unavailable in (("25%", "25%"), ("1%", "99%"), ("100%", "0%"), (2, 0)):
        rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
        # Kubernetes rounds surge up and unavailability down.
        assert objection(a_deployment(strategy={"type": "RollingUpdate", "rollingUpdate": rolling})) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"replicas": 2}, "2 replicas"),
        ({"paused": True}, "paused"),
        ({"strategy": {"type": "Recreate"}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}}, "stops the old pod"),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": "9" * 5000 + "%", "maxUnavailable": "100%"}}},
            "stops the old pod",
        ),
        ({"strategy": {"rollingUpdate": {"maxSurge": "0" * 5000 + "%", "maxUnavailable": 0}}}, "no new pod before"),
        ({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}, "stops the old pod"),
        ({"status": {"updatedReplicas": 0}}, "in progress"),
        ({"status": {"observedGeneration": 0}}, "in progress"),
    ],
)
def test_other_deployments_are_not(changes: dict[str, Any], why: str) -> None:
    assert why in objection(a_deployment(**changes))


def test_the_patch_is_for_the_version_that_was_read_and_for_one_drain() -> None:
    patch = restart(a_deployment(), "claim-1")
    assert patch["metadata"] == {"resourceVersion": "7"}
    marked = a_deployment(template={"metadata": {"annotations": {RESTARTED_FOR: "claim-1"}}})
    assert patch["spec"]["template"]["metadata"]["annotations"] == {RESTARTED_FOR: "claim-1"}
    assert (is_restarted(marked, "claim-1"), is_restarted(marked, "claim-2")) == (True, False)


DAEMON = Owner("DaemonSet", "d", "apps/v1", is_controller=True)


def termination_evicted(step: object) -> list[str]:
    assert isinstance(step, steps.Drain)
    return [pod.name for pod in step.evict]


def test_new_pods_and_load_balancers_are_kept_off_first() -> None:
    """Otherwise, pods are bound to a leaving node, and load balancers send it requests to its end."""
    node = a_node(taints=(Taint(DISRUPTED.key, NO_EXECUTE), Taint("team", NO_SCHEDULE)))
    step = next_termination_step(a_leaving(tainted=None), ClaimFacts(nodes=(node,), pods=(a_running("p"),)), NOW)
    assert isinstance(step, steps.TaintNode)
    assert step.taints == (Taint("team", NO_SCHEDULE), DISRUPTED)
    assert step.labels == {labels.EXCLUDE_FROM_BALANCERS: "karpenter"}


def test_a_removed_mark_for_load_balancers_is_restored() -> None:
    """Without it, they send requests to a node until its last second."""
    node = a_node(leaving=True, labels={})
    step = next_termination_step(a_leaving(), ClaimFacts(nodes=(node,), pods=(a_running("p"),)), NOW)
    assert isinstance(step, steps.TaintNode)


def test_a_removed_taint_is_restored() -> None:
    assert isinstance(next_termination_step(a_leaving(), ClaimFacts(nodes=(a_node(),)), NOW), steps.TaintNode)


def test_pods_leave_tier_by_tier() -> None:
    """Otherwise, DNS and log shippers go before the pods that need them."""
    tiers = [
        a_running("app"),
        a_running("daemon", owners=(DAEMON,)),
        a_running("critical", priority_class="system-cluster-critical"),
        a_running("critical-daemon", owners=(DAEMON,), priority_class="system-node-critical"),
    ]
    for first, pod in enumerate(tiers):
        facts = ClaimFacts(nodes=(LEAVING,), pods=tuple(tiers[first:]))
        assert termination_evicted(next_termination_step(a_leaving(), facts, NOW)) == [pod.name]


def test_the_next_tier_waits_for_pods_that_are_still_terminating() -> None:
    pods = (a_running("app", deleted_at=NOW), a_running("daemon", owners=(DAEMON,)))
    assert isinstance(next_termination_step(a_leaving(), ClaimFacts(nodes=(LEAVING,), pods=pods), NOW), steps.Wait)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("done", node_name="n", phase="Succeeded"),
        a_running("static", owners=(Owner("Node", "n"),)),
        a_running("tolerant", tolerations=(Toleration(key=labels.DISRUPTED_TAINT, operator="Exists"),)),
        a_running("stuck", deleted_at=NOW - MINUTE),
    ],
    ids=lambda pod: pod.name,
)
def test_some_pods_do_not_hold_a_node_up(pod: Pod) -> None:
    """Otherwise, a static pod or a lost kubelet keeps a node forever."""
    assert not is_drainable(pod, NOW)
    facts = ClaimFacts(nodes=(LEAVING,), pods=(pod,))
    assert next_termination_step(a_leaving(), facts, NOW) == steps.TerminateInstance()


def test_a_protected_pod_keeps_the_node() -> None:
    pod = a_running("p", annotations={labels.DO_NOT_DISRUPT: "true"})
    facts = ClaimFacts(nodes=(LEAVING,), pods=(pod,))
    assert isinstance(next_termination_step(a_leaving(reason="SpotInterrupted"), facts, NOW), steps.Wait)


def test_a_pod_that_would_outlive_the_deadline_is_cut_short() -> None:
    pod = a_running("p", deleted_at=NOW + 10 * MINUTE)
    step = next_termination_step(a_leaving(deadline=NOW + MINUTE), ClaimFacts(nodes=(LEAVING,), pods=(pod,)), NOW)
    assert isinstance(step, steps.Drain)
    assert step.force == ((pod, 60),)


def test_an_empty_node_is_watched_for_late_pods() -> None:
    """The scheduler may have bound a pod just when the node was tainted."""
    facts = ClaimFacts(nodes=(LEAVING,))
    assert isinstance(next_termination_step(a_leaving(tainted=4 * SECOND), facts, NOW), steps.Wait)
    assert next_termination_step(a_leaving(tainted=5 * SECOND), facts, NOW) == steps.TerminateInstance()


def test_an_empty_node_is_watched_no_longer_where_the_clock_of_the_request_was_ahead() -> None:
    """Its taint lay in the future, and the node stayed until that moment."""
    leaving_record = leaving(a_record(), TerminationReason.EMPTY, "", NOW + timedelta(minutes=4))
    facts = ClaimFacts(nodes=(a_node(leaving=True),))
    record = tainted(leaving_record, NOW)
    assert isinstance(next_termination_step(record, facts, NOW + timedelta(seconds=4)), steps.Wait)
    assert next_termination_step(record, facts, NOW + timedelta(seconds=5)) == steps.TerminateInstance()


def test_volumes_are_detached_first_unless_time_is_up() -> None:
    """Otherwise, a StatefulSet's next pod waits six minutes for its volume."""
    facts = ClaimFacts(nodes=(LEAVING,), attachments=(VolumeAttachment(name="a", node_name="n", volume_name="v"),))
    assert isinstance(next_termination_step(a_leaving(emptied_at=NOW), facts, NOW), steps.Wait)
    assert next_termination_step(a_leaving(deadline=NOW), facts, NOW) == steps.TerminateInstance()


def test_the_node_object_goes_after_the_instance() -> None:
    """Otherwise, Kubernetes starts a StatefulSet's pod twice."""
    record = a_leaving(terminated_at=NOW)
    waiting = next_termination_step(record, ClaimFacts(nodes=(LEAVING,), is_instance_gone=False), NOW)
    gone = next_termination_step(record, ClaimFacts(nodes=(LEAVING,), is_instance_gone=True), NOW)
    assert isinstance(waiting, steps.Wait)
    assert gone == steps.DeleteNode("n")
    assert next_termination_step(record, ClaimFacts(is_instance_gone=True), NOW) == steps.Forget("Empty")


def test_an_instance_that_ec2_does_not_show_yet_is_terminated_not_forgotten() -> None:
    """It would run without a claim; EC2 shows what was just launched to one call and not to the next."""
    unseen = ClaimFacts(is_instance_gone=True)

    def step_of(age: timedelta, **deletion: object) -> object:
        record = a_record(
            ClaimPhase.LAUNCHED, age=age, deletion=Deletion(reason="ReplacementNotReady", asked_at=NOW, **deletion)
        )
        return next_termination_step(record, unseen, NOW)

    young = INSTANCE_CHECK_AFTER - SECOND
    assert step_of(young) == steps.TerminateInstance()
    assert isinstance(step_of(young, terminated_at=NOW - SECOND), steps.Wait)
    assert step_of(young, terminated_at=NOW - 30 * SECOND) == steps.TerminateInstance()
    assert step_of(INSTANCE_CHECK_AFTER, terminated_at=NOW - SECOND) == steps.Forget("ReplacementNotReady")


def test_the_end_of_a_young_instance_that_ec2_has_told_of_is_believed() -> None:
    record = a_record(ClaimPhase.LAUNCHED, deletion=Deletion(reason="InstanceGone", asked_at=NOW))
    assert next_termination_step(record, ClaimFacts(is_instance_gone=True), NOW) == steps.Forget("InstanceGone")


def test_a_remaining_instance_is_terminated_again() -> None:
    record = a_leaving(terminated_at=NOW - 30 * SECOND)
    step = next_termination_step(record, ClaimFacts(nodes=(LEAVING,), is_instance_gone=False), NOW)
    assert step == steps.TerminateInstance()


def test_pods_of_a_dead_instance_are_not_drained() -> None:
    """Otherwise, evictions wait for a kubelet that does not exist any more."""
    facts = ClaimFacts(nodes=(a_node(is_ready=False),), pods=(a_running("p"),), is_instance_gone=True)
    assert next_termination_step(a_leaving(), facts, NOW) == steps.DeleteNode("n")


@pytest.mark.parametrize(
    ("reason", "pods", "after", "waits"),
    [
        ("SpotInterrupted", ("p",), MINUTE, True),
        ("SpotInterrupted", ("p",), 3 * MINUTE, False),
        ("SpotInterrupted", (), MINUTE, False),
        ("Expired", ("p",), MINUTE, False),
    ],
)
def test_a_claim_stands_for_pods_that_went_with_their_instance(
    reason: str, pods: tuple[str, ...], after: timedelta, waits: bool
) -> None:
    """Nodes that wait for their successors looked empty, and were given back seconds before these were created."""
    record = a_leaving(reason=reason, ends_at=NOW - after)
    facts = ClaimFacts(pods=tuple(map(a_running, pods)), is_instance_gone=True)
    assert isinstance(next_termination_step(record, facts, NOW), steps.Wait if waits else steps.Forget)


def test_a_claim_that_never_registered_is_not_drained() -> None:
    record = a_record(ClaimPhase.LAUNCHED, deletion=Deletion(reason="RegistrationTimeout", asked_at=NOW))
    facts = ClaimFacts(nodes=(a_node(booting=True),), is_instance_gone=False)
    assert next_termination_step(record, facts, NOW) == steps.TerminateInstance()


def test_a_claim_dropped_before_its_launch_was_answered_terminates_its_instance() -> None:
    """Otherwise, an instance whose launch reply was lost runs on without a claim."""
    record = a_record(ClaimPhase.REQUESTED, deletion=Deletion(reason="NodePoolDeleted", asked_at=NOW))
    assert next_termination_step(record, ClaimFacts(tagged_instance="i-1"), NOW) == steps.Adopt("i-1")
    assert next_termination_step(record, ClaimFacts(), NOW) == steps.Forget("NodePoolDeleted")


def a_held(*, asked: timedelta) -> ClaimFacts:
    """The instance is gone; the Node was deleted this long ago and waits for a foreign finalizer."""
    return ClaimFacts(
        nodes=(a_node(leaving=True, deleted_at=NOW - asked, finalizers=("example.com/hold",)),), is_instance_gone=True
    )


def test_a_node_with_a_foreign_finalizer_is_deleted_once() -> None:
    """Otherwise, a foreign finalizer makes us delete one node five hundred times a minute."""
    step = next_termination_step(a_leaving(terminated_at=NOW), a_held(asked=MINUTE), NOW)
    assert isinstance(step, steps.Wait)
    assert step.delay == 6 * SECOND
    assert "example.com/hold" in step.reason


def test_a_claim_does_not_wait_for_foreign_finalizers_forever() -> None:
    """Otherwise, it holds a place of its NodePool's budget until a person removes the foreign finalizer."""
    step = next_termination_step(a_leaving(terminated_at=NOW), a_held(asked=10 * MINUTE), NOW)
    assert isinstance(step, steps.Forget)
    assert step.reason == "NodeHeldByFinalizers"
    assert "example.com/hold" in step.message


def test_pods_of_a_deleted_node_object_are_evicted_before_the_instance_ends() -> None:
    """Kubernetes removes them within minutes; until then they work, and their budgets count."""
    step = next_termination_step(a_leaving(), ClaimFacts(pods=(a_running("p"),)), NOW)
    assert termination_evicted(step) == ["p"]
    stuck = a_running("p", deleted_at=NOW)
    assert isinstance(next_termination_step(a_leaving(), ClaimFacts(pods=(stuck,)), NOW), steps.Wait)
    assert next_termination_step(a_leaving(), ClaimFacts(), NOW) == steps.TerminateInstance()
