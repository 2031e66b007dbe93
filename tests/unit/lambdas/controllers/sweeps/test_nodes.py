"""A node that nothing disrupts is opened again; one that must go, or whose claim is leaving, keeps its taint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.move_history import MoveHistory, Rollout
from core.disruption.target.move_price import settings_digest
from core.lifecycle.claims import INITIALIZATION_TIMEOUT
from core.lifecycle.draining import REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import resources
from core.model.plan import Command
from core.reasons.code import TerminationReason
from lambdas.controllers.sweeps.nodes import ORPHANED_AFTER
from tests.builders import a_stored_target
from tests.fakes.lab import Lab, a_joining_node, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import (
    NOT_READY,
    a_round,
    a_working_node,
    amend,
    event_objects,
    finalizers,
    sweep,
)
from tests.unit.lifecycle.records_for_tests import a_command

# A Node that somebody deletes is drained before it goes.


def delete_as_a_user(lab: Lab) -> None:
    """Removes a Node as the API server does, when its last finalizer goes."""
    body = {"metadata": {"deletionTimestamp": lab.clock.now().isoformat()}}
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, body)


def test_a_deleted_node_is_drained_before_it_goes() -> None:
    """Otherwise, `kubectl delete node` kills its pods, whatever protects them."""
    lab = a_working_node(protected=True)
    assert finalizers(lab) == [labels.TERMINATION_FINALIZER]
    delete_as_a_user(lab)
    lab.reconcile()
    lab.tick(8)
    assert len(lab.cloud.instances()) == 1
    assert finalizers(lab) == [labels.TERMINATION_FINALIZER]
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert lab.kubernetes.evicted == ["default/p"]
    assert (lab.claims, lab.cloud.instances()) == ((), ())


def test_disrupt_is_woken_when_the_instance_is_told_to_end_not_when_its_node_is_gone() -> None:
    """Its place in the budgets is free then, and EC2 takes up to a minute for the rest."""
    lab = a_working_node()
    lab.kubernetes.protected.clear()
    delete_as_a_user(lab)
    lab.reconcile()
    lab.run_requests.take()
    for _ in range(20):
        lab.tick()
        if lab.claims and lab.claim.deletion is not None and lab.claim.deletion.terminated_at is not None:
            break
    assert len(lab.run_requests.take()) == 1
    lab.tick(20)
    assert (lab.claims, lab.run_requests.take()) == ((), [])


def test_a_foreign_finalizer_stays_where_it_is() -> None:
    """Otherwise, we break another controller's work before the node goes."""
    lab = a_working_node()
    (name,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.amend(
        resources.NODES, name, {"metadata": {"finalizers": ["example.com/mine", labels.TERMINATION_FINALIZER]}}
    )
    delete_as_a_user(lab)
    lab.reconcile()
    lab.tick(20)
    assert finalizers(lab) == ["example.com/mine"]
    assert lab.cloud.instances() == ()


def test_a_node_that_joined_again_under_its_name_works_again() -> None:
    """Its Node was deleted past its finalizers, and its kubelet started again before anyone looked."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    node, instance, opened = lab.claim.node_name, lab.claim.instance_id, lab.claim.initialized_at
    launched_at = lab.claim.moments.launched_at
    lab.clock.advance(minutes=10)
    lab.kubernetes.drop(resources.NODES, node)
    lab.boot()
    assert lab.taints() == ["karpenter.sh/unregistered"]
    lab.reconcile()
    lab.tick(6)
    assert lab.taints() == []
    metadata = lab.kubernetes.raw(resources.NODES, node)["metadata"]
    assert metadata["labels"][labels.INITIALIZED] == metadata["labels"][labels.REGISTERED] == "true"
    assert labels.TERMINATION_FINALIZER in metadata["finalizers"]
    assert (lab.claim.phase, lab.claim.instance_id, lab.claim.deletion) == (ClaimPhase.INITIALIZED, instance, None)
    assert opened is not None
    assert lab.claim.initialized_at is not None
    assert lab.claim.initialized_at > opened
    assert lab.claim.moments.launched_at == launched_at


# A node that is smaller than its type is reported, and stays.


def a_small_node(cpu: str) -> Lab:
    """A working node, launched with two processors and a pod that requests some, whose status says it has `cpu`."""
    lab = a_working_node()
    assert (lab.claim.machine or pytest.fail("no machine")).capacity["cpu"] == 2000
    (name,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.amend(resources.NODES, name, {"status": {"capacity": {"cpu": cpu}}})
    lab.clock.advance(minutes=10)
    return lab


def test_a_node_smaller_than_its_type_is_reported_once_and_stays() -> None:
    """Otherwise, it is unknown why pods that were planned for it do not fit (Karpenter, consistency checks)."""
    lab = a_small_node("1799m")
    for _ in range(2):
        report = lab.reconcile()
        assert report.counts["inconsistentNodes"] == 1
        lab.tick(2)
        lab.clock.advance(minutes=70)
    (name,) = lab.kubernetes.names(resources.NODES)
    assert event_objects(lab, "FailedConsistencyCheck") == [("Node", name)]
    assert lab.claim.message == f"node {name} has 1799m of cpu where 2 was expected"
    assert lab.claim.deletion is None


def test_a_node_with_nine_tenths_of_its_type_is_large_enough() -> None:
    """Memory is estimated before a first boot."""
    lab = a_small_node("1800m")
    report = lab.reconcile()
    lab.tick(2)
    assert not report.counts.get("inconsistentNodes")
    assert event_objects(lab, "FailedConsistencyCheck") == []


def test_a_claim_whose_node_is_gone_is_compared_with_nothing() -> None:
    lab = a_small_node("1000m")
    (name,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.drop(resources.NODES, name)
    assert sweep(lab, "inconsistentNodes").counts == {"inconsistentNodes": 0}


# Node objects without an instance are released, and others are left alone.


def test_pods_of_a_node_object_that_is_gone_are_evicted_before_its_instance_ends() -> None:
    """Such nodes are older than our finalizer, or lost it."""
    lab = a_working_node(protected=True)
    lab.kubernetes.drop(resources.NODES, lab.claim.node_name)
    lab.reconcile()
    lab.tick(8)
    assert len(lab.cloud.instances()) == 1
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert lab.kubernetes.evicted == ["default/p"]
    assert (lab.claims, lab.cloud.instances()) == ((), ())


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_deleted_node_is_drained_though_the_work_queue_is_dead(*, is_deleted: bool) -> None:
    """The claim's row does not say that it is due, so no scheduled run of `execute` found it for as long."""
    lab = a_working_node(protected=True)
    lab.kubernetes.drop(resources.NODES, lab.claim.node_name) if is_deleted else delete_as_a_user(lab)
    for expected in (None, TerminationReason.NODE_DELETED):
        lab.clock.advance(minutes=2)
        lab.reconcile()
        lab.work.take()  # every message is lost
        assert (lab.claim.deletion and lab.claim.deletion.reason) == expected


def test_a_deleted_node_object_without_an_instance_is_released() -> None:
    """Otherwise, it is counted, and our finalizer keeps it forever."""
    lab = a_working_node()
    name = lab.claim.node_name
    lab.rows.claims.clear()
    lab.cloud.terminate([instance.instance_id for instance in lab.cloud.instances()])
    lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
    lab.reconcile()
    assert lab.kubernetes.names(resources.NODES) == [name]
    lab.kubernetes.amend(resources.NODES, name, NOT_READY)
    lab.kubernetes.delete(resources.NODES, name)
    assert lab.kubernetes.names(resources.NODES) == [name]
    report = lab.reconcile()
    assert lab.kubernetes.names(resources.NODES) == []
    assert ("forget", name, "StrayNode") in {(d.kind, d.subject, d.reason) for d in report.decisions}


def test_unmanaged_node_objects_are_not_deleted() -> None:
    lab = a_working_node()
    theirs = a_joining_node("theirs", "aws:///us-east-1a/i-theirs")
    lab.kubernetes.put({**theirs, **NOT_READY})
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert "theirs" in lab.kubernetes.names(resources.NODES)


def test_a_node_object_kept_by_a_foreign_finalizer_is_reported_once() -> None:
    """Otherwise, each round reports its release, for as long as the other finalizer stays."""
    lab = a_working_node()
    name = lab.claim.node_name
    lab.rows.claims.clear()
    lab.cloud.terminate([instance.instance_id for instance in lab.cloud.instances()])
    lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
    both = {"finalizers": [*finalizers(lab), "example.com/theirs"]}
    lab.kubernetes.amend(resources.NODES, name, {**NOT_READY, "metadata": both})
    lab.kubernetes.delete(resources.NODES, name)
    told = [d for _ in range(3) for d in lab.reconcile().decisions if d.reason == "StrayNode"]
    assert len(told) == 1
    assert finalizers(lab) == ["example.com/theirs"]


def test_a_node_object_that_becomes_ready_or_is_replaced_meanwhile_stays() -> None:
    """Its instance was not listed because EC2's answer was old; another object of this name is another node."""
    for meanwhile in (
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"uid": "another"}},
    ):
        lab = a_working_node()
        name = lab.claim.node_name
        lab.rows.claims.clear()
        lab.cloud.terminate([instance.instance_id for instance in lab.cloud.instances()])
        lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
        lab.kubernetes.amend(resources.NODES, name, NOT_READY)
        lab.kubernetes.delete(resources.NODES, name)
        round_ = a_round(lab)
        lab.kubernetes.amend(resources.NODES, name, meanwhile)
        report = sweep(lab, "strayNodes", round_)
        assert lab.kubernetes.names(resources.NODES) == [name]
        assert [decision for decision in report.decisions if decision.reason == "StrayNode"] == []


NAME = "strayTaints"


def taint(lab: Lab, reason: str = TerminationReason.EMPTY) -> None:
    """Mark the node as a drain does."""
    metadata = {
        "annotations": {REASON_ANNOTATION: reason},
        "labels": {labels.EXCLUDE_FROM_BALANCERS: "karpenter"},
    }
    taints = [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}, {"key": "team", "effect": "NoExecute"}]
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, {"metadata": metadata, "spec": {"taints": taints}})


def node(lab: Lab) -> dict[str, Any]:
    return lab.kubernetes.raw(resources.NODES, lab.claim.node_name)


@pytest.fixture
def lab() -> Lab:
    lab = a_working_node()
    lab.work.take()
    return lab


def test_a_stray_taint_goes_with_its_label_and_reason(lab: Lab) -> None:
    taint(lab)
    report = sweep(lab, NAME)
    assert lab.taints() == ["team"]
    assert REASON_ANNOTATION not in node(lab)["metadata"]["annotations"]
    assert labels.EXCLUDE_FROM_BALANCERS not in node(lab)["metadata"]["labels"]
    (decision,) = report.decisions
    assert (decision.kind, decision.reason, decision.subject) == ("abandon", "StrayTaint", lab.claim.node_name)
    assert lab.work.sent == []


def test_a_claim_that_still_counts_as_leaving_stays_and_holds_its_limits_again(lab: Lab) -> None:
    """The run that gave its command up died before the end: the place in the budget would be taken for ever."""
    held = lab.claim.reserved
    assert held
    amend(lab, is_disrupting=True)
    assert sweep(lab, NAME).decisions == []
    assert (lab.claim.is_disrupting, lab.claim.reserved) == (False, held)
    machine = lab.claim.machine
    assert machine is not None
    amend(lab, reserved={})
    sweep(lab, NAME)
    assert lab.claim.reserved == {**machine.capacity, "nodes": 1}


def test_a_node_in_order_is_not_touched(lab: Lab) -> None:
    before, calls = lab.claim, list[str]()
    round_ = a_round(lab)
    lab.cloud.before_call = lab.kubernetes.before_call = calls.append
    sweep(lab, NAME, round_)
    assert (lab.claim, calls) == (before, [])


def test_a_node_that_must_go_keeps_it_and_its_removal_goes_on(lab: Lab) -> None:
    """The table was restored: its claim does not know that the instance is being taken away."""
    taint(lab, TerminationReason.SPOT_INTERRUPTED)
    assert sweep(lab, NAME).decisions == []
    assert labels.DISRUPTED_TAINT in lab.taints()
    assert [message["claim"] for message, _ in lab.work.sent] == [lab.claim.name]


def test_a_node_whose_instance_is_gone_keeps_it(lab: Lab) -> None:
    taint(lab)
    lab.cloud.terminate([lab.claim.instance_id])
    sweep(lab, NAME)
    assert labels.DISRUPTED_TAINT in lab.taints()


def test_a_claim_that_began_to_leave_since_the_look_keeps_it(lab: Lab) -> None:
    taint(lab)
    round_ = a_round(lab)
    lab.interrupt()
    sweep(lab, NAME, round_)
    assert labels.DISRUPTED_TAINT in lab.taints()


def test_a_claim_that_is_gone_since_the_look_is_no_error(lab: Lab) -> None:
    taint(lab)
    round_ = a_round(lab)
    name = lab.claim.node_name
    lab.rows.claims.clear()
    report = sweep(lab, NAME, round_)
    assert (report.decisions, report.counts) == ([], {})
    assert len(lab.kubernetes.raw(resources.NODES, name)["spec"]["taints"]) == 2


@pytest.mark.parametrize(("claims", "is_kept"), [(("other",), False), (("other", ""), True)])
def test_a_node_of_a_command_keeps_it(lab: Lab, claims: tuple[str, ...], *, is_kept: bool) -> None:
    taint(lab)
    names = tuple(name or lab.claim.name for name in claims)
    command = Command(reason="Empty", method="emptiness", nodes=("n",), claims=names)
    lab.rows.commands["x"] = a_command(age=timedelta(seconds=1), command=command)
    sweep(lab, NAME)
    assert (labels.DISRUPTED_TAINT in lab.taints()) == is_kept


def test_a_node_that_is_gone_gives_its_claim_its_places_back(lab: Lab) -> None:
    taint(lab)
    amend(lab, is_disrupting=True)
    round_ = a_round(lab)
    lab.kubernetes.drop(resources.NODES, lab.claim.node_name)
    assert sweep(lab, NAME, round_).decisions == []
    assert not lab.claim.is_disrupting


def test_a_node_whose_instance_is_ending_is_not_opened(lab: Lab) -> None:
    """A restored table does not know that EC2 was asked to terminate the instance: pods would be placed on its last minute."""
    claim = lab.claim
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    lab.kubernetes.amend(resources.NODES, claim.node_name, {"spec": {"taints": [taint]}})
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, state="shutting-down"))
    lab.reconcile()
    assert lab.kubernetes.raw(resources.NODES, claim.node_name)["spec"]["taints"] == [taint]


def test_a_taint_without_a_command_is_removed(lab: Lab) -> None:
    """Otherwise, a crash long ago keeps a good node from taking pods."""
    body = {
        "spec": {
            "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {"key": "t", "effect": "NoSchedule"}]
        }
    }
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, body)
    lab.reconcile()
    assert lab.kubernetes.raw(resources.NODES, lab.claim.node_name)["spec"]["taints"] == [
        {"key": "t", "effect": "NoSchedule"}
    ]


# A node that does not start in time goes, unless pods run on it.


def a_node_that_does_not_start() -> Lab:
    """It has joined for a pod, and is not ready."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    (instance,) = lab.cloud.instances()
    lab.kubernetes.put({**a_joining_node("node", instance.provider_id), **NOT_READY})
    lab.tick(4)
    lab.work.take()
    assert lab.claim.phase is ClaimPhase.REGISTERED
    return lab


def test_a_node_that_does_not_start_in_time_goes_and_its_pods_are_planned_again() -> None:
    """Otherwise, they wait for it forever, without any report."""
    lab = a_node_that_does_not_start()
    first = lab.claim
    lab.provision()
    assert lab.claims == (first,)
    lab.clock.advance(seconds=INITIALIZATION_TIMEOUT.total_seconds())
    lab.provision()
    assert len(lab.claims) == 2
    report = lab.reconcile()
    told = next(d for d in report.decisions if d.reason == "InitializationTimeout")
    assert (told.subject, "not ready" in told.message) == ("node", True)
    lab.tick(4)
    assert first.instance_id not in {instance.instance_id for instance in lab.cloud.instances()}
    assert first.name not in {claim.name for claim in lab.claims}


def test_a_node_that_does_not_start_stays_for_its_running_pods() -> None:
    """Otherwise, healthy pods are evicted for a device that only others need."""
    lab = a_node_that_does_not_start()
    (instance,) = lab.cloud.instances()
    lab.bind("p")
    lab.clock.advance(seconds=INITIALIZATION_TIMEOUT.total_seconds())
    for _ in range(3):
        lab.clock.advance(minutes=2)
        lab.reconcile()
        lab.tick(3)
    assert lab.claim.instance_id == instance.instance_id
    assert lab.claim.deletion is None
    assert lab.kubernetes.evicted == []


def test_a_node_that_does_not_start_in_time_gets_one_event_on_it_and_on_its_pods() -> None:
    """Otherwise, their owner sees a pending pod and a launched node, without any connection."""
    lab = a_node_that_does_not_start()
    lab.clock.advance(seconds=INITIALIZATION_TIMEOUT.total_seconds() - 60)
    lab.reconcile()
    lab.tick(2)
    assert event_objects(lab, "InitializationTimeout") == []
    lab.clock.advance(minutes=1)
    lab.reconcile()
    lab.tick(4)
    assert event_objects(lab, "InitializationTimeout") == [("Node", "node"), ("Pod", "p")]


def test_a_node_that_has_drifted_is_marked_until_it_is_current_again(lab: Lab) -> None:
    """Otherwise, the scheduler binds the successor of a moved pod to a node that the same roll-out replaces later."""
    assert sweep(lab, "markedNodes").decisions == []
    current = lab.claim.plan
    before = lab.taints()
    annotations = {**current.annotations, labels.NODEPOOL_HASH: "of-an-older-template"}
    amend(lab, plan=msgspec.structs.replace(current, annotations=annotations))
    sweep(lab, "markedNodes")
    assert lab.taints() == [*before, "fleetwright.dev/outdated"]
    sweep(lab, "markedNodes")
    assert lab.taints() == [*before, "fleetwright.dev/outdated"]
    amend(lab, plan=current)
    sweep(lab, "markedNodes")
    assert lab.taints() == before


def test_a_node_that_the_target_drains_later_is_marked_until_it_is_not(lab: Lab) -> None:
    """Otherwise, a pod that an early wave moves is bound to a node of a later one, and moves twice."""
    before, now = lab.taints(), lab.clock.now()
    digest = settings_digest(lab.app.shared.observer.observe().snapshot)
    lab.app.adapters.targets.write(a_stored_target(lab.claim.node_name, made_at=now, settings=digest))
    sweep(lab, "markedNodes")
    assert lab.taints() == [*before, "fleetwright.dev/leaving"]
    sweep(lab, "markedNodes")
    assert lab.taints() == [*before, "fleetwright.dev/leaving"]
    lab.app.adapters.targets.write(a_stored_target("other", made_at=now, settings=digest))
    sweep(lab, "markedNodes")
    assert lab.taints() == before


# A specification that changes again and again.


@pytest.mark.parametrize("changes", [0, 1])
def test_only_a_specification_that_changed_again_is_told_with_its_writers(lab: Lab, changes: int) -> None:
    """Every first change waits two minutes: it is no fight, and a warning about it would be noise."""
    now = lab.clock.now()
    before = tuple(now - timedelta(minutes=9) for _ in range(changes))
    lab.rows.moves = MoveHistory(
        rollouts={"default": Rollout(node_pool="default", target="t", started_at=now, changed_at=before)}
    )
    report = sweep(lab, "changingSpecifications")
    assert [told.reason for told in report.decisions] == ["RolloutSettling"] * changes
