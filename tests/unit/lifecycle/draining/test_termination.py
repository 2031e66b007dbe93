from __future__ import annotations

from datetime import timedelta

import pytest

from core import labels
from core.lifecycle import steps
from core.lifecycle.draining.deletion import leaving, tainted
from core.lifecycle.draining.termination import next_termination_step
from core.lifecycle.facts import INSTANCE_CHECK_AFTER, ClaimFacts
from core.lifecycle.records import ClaimPhase, Deletion
from core.model.pod import Owner, Pod
from core.model.storage import VolumeAttachment
from core.model.values.taints import DISRUPTED, NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from core.pods.disposition import is_drainable
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node, a_record

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
DAEMON = Owner("DaemonSet", "d", "apps/v1", is_controller=True)
LEAVING = a_node(leaving=True)


def a_running(name: str, **changes: object) -> Pod:
    return a_pod(name, node_name="n", phase="Running", **changes)


def evicted(step: object) -> list[str]:
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
        assert evicted(next_termination_step(a_leaving(), facts, NOW)) == [pod.name]


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
    asked = leaving(a_record(), TerminationReason.EMPTY, "", NOW + timedelta(minutes=4))
    facts = ClaimFacts(nodes=(a_node(leaving=True),))
    record = tainted(asked, NOW)
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
    assert evicted(step) == ["p"]
    stuck = a_running("p", deleted_at=NOW)
    assert isinstance(next_termination_step(a_leaving(), ClaimFacts(pods=(stuck,)), NOW), steps.Wait)
    assert next_termination_step(a_leaving(), ClaimFacts(), NOW) == steps.TerminateInstance()
