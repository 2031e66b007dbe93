"""What happens to nodes between their launch and their end without an event."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.brakes.brake import Action, Brake, BrakeKind
from core.brakes.breaker import OPENS_AFTER
from core.lifecycle.claims import INITIALIZATION_TIMEOUT
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from core.model.node_claim import Hold
from lambdas.controllers.resting.reconciliation_rest import WITHOUT_PODS_EVERY
from lambdas.controllers.sweeps.instances.impaired import IMPAIRED_FOR
from lambdas.controllers.sweeps.nodes.orphaned import ORPHANED_AFTER
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen
from lambdas.messages import work_on_claim
from lambdas.metric_names import LOST_INSTANCES_HELD
from lambdas.ports import Impairment
from lambdas.run_report import RunReport
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod

NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


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


def a_working_node(*, protected: bool = False) -> Lab:
    """One node with one pod on it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    if protected:
        lab.kubernetes.protected.add("default/p")
    return lab


def finalizers(lab: Lab) -> list[str]:
    (name,) = lab.kubernetes.names(kinds.NODES)
    found: list[str] = lab.kubernetes.raw(kinds.NODES, name)["metadata"].get("finalizers", [])
    return found


def delete_as_a_user(lab: Lab) -> None:
    """Removes a Node as the API server does, when its last finalizer goes."""
    body = {"metadata": {"deletionTimestamp": lab.clock.now().isoformat()}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, body)


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
    assert first.instance_id not in {found.instance_id for found in lab.cloud.instances()}
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


def event_objects(lab: Lab, reason: str) -> list[tuple[str, str]]:
    """Kind and name of the objects of events with that reason."""
    found = [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]
    return sorted((e["involvedObject"]["kind"], e["involvedObject"]["name"]) for e in found if e["reason"] == reason)


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


def a_small_node(cpu: str) -> Lab:
    """A working node, launched with two processors and a pod that requests some, whose status says it has `cpu`."""
    lab = a_working_node()
    assert (lab.claim.machine or pytest.fail("no machine")).capacity["cpu"] == 2000
    (name,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.amend(kinds.NODES, name, {"status": {"capacity": {"cpu": cpu}}})
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
    (name,) = lab.kubernetes.names(kinds.NODES)
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
    (name,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.amend(
        kinds.NODES, name, {"metadata": {"finalizers": ["example.com/mine", labels.TERMINATION_FINALIZER]}}
    )
    delete_as_a_user(lab)
    lab.reconcile()
    lab.tick(20)
    assert finalizers(lab) == ["example.com/mine"]
    assert lab.cloud.instances() == ()


def test_pods_of_a_node_object_that_is_gone_are_evicted_before_its_instance_ends() -> None:
    """Such nodes are older than our finalizer, or lost it."""
    lab = a_working_node(protected=True)
    lab.kubernetes.drop(kinds.NODES, lab.claim.node_name)
    lab.reconcile()
    lab.tick(8)
    assert len(lab.cloud.instances()) == 1
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert lab.kubernetes.evicted == ["default/p"]
    assert (lab.claims, lab.cloud.instances()) == ((), ())


def test_a_deleted_node_object_without_an_instance_is_released() -> None:
    """Otherwise, it is counted, and our finalizer keeps it forever."""
    lab = a_working_node()
    name = lab.claim.node_name
    lab.rows.claims.clear()
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
    lab.reconcile()
    assert lab.kubernetes.names(kinds.NODES) == [name]
    lab.kubernetes.amend(kinds.NODES, name, NOT_READY)
    lab.kubernetes.delete(kinds.NODES, name)
    assert lab.kubernetes.names(kinds.NODES) == [name]
    report = lab.reconcile()
    assert lab.kubernetes.names(kinds.NODES) == []
    assert ("forget", name, "StrayNode") in {(d.kind, d.subject, d.reason) for d in report.decisions}


def test_unmanaged_node_objects_are_not_deleted() -> None:
    lab = a_working_node()
    theirs = a_joining_node("theirs", "aws:///us-east-1a/i-theirs")
    lab.kubernetes.put({**theirs, **NOT_READY})
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert "theirs" in lab.kubernetes.names(kinds.NODES)


def test_an_instance_that_fails_its_checks_is_replaced_without_forcing_its_pods() -> None:
    """Otherwise, a node with a broken host keeps its pods, or a false alarm of EC2 kills them."""
    lab = a_working_node(protected=True)
    sick = lab.claim.instance_id
    since = lab.clock.now()
    lab.cloud.failing = [Impairment("i-of-somebody", "system", since), Impairment(sick, "system", since)]
    lab.clock.advance(seconds=IMPAIRED_FOR.total_seconds() - 1)
    assert lab.reconcile().counts["impairedInstances"] == 1
    assert lab.claim.deletion is None
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    lab.reconcile()
    lab.tick(6)
    assert lab.claim.deletion is not None
    assert (lab.claim.deletion.reason, "system status check" in lab.claim.deletion.message) == ("Unhealthy", True)
    assert [found.instance_id for found in lab.cloud.instances()] == [sick]


def test_impaired_instances_wait_for_the_budgets() -> None:
    """Otherwise, ten minutes of trouble in a zone cost all nodes in it."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "0"}]}))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "instance", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_node_that_is_not_ready_does_not_use_up_its_own_budget() -> None:
    """An unready node uses up a place: with one place, it would wait for itself forever."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}))
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, NOT_READY)
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    lab.reconcile()
    assert lab.claim.deletion is not None


def test_budgets_for_other_reasons_do_not_keep_impaired_instances() -> None:
    """As for node repair: a NodePool that must not drift may still be repaired."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "0", "reasons": ["Drifted"]}]}))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    lab.reconcile()
    assert lab.claim.deletion is not None


def test_an_impaired_instance_with_a_protected_pod_is_left_alone() -> None:
    """Otherwise, it is tainted and restored in every round."""
    lab = a_working_node()
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    lab.kubernetes.amend(kinds.PODS, "p", veto, namespace="default")
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_instance_with_a_protected_node_is_left_alone() -> None:
    """The annotation on the node is a veto, for failed status checks as for node repair."""
    lab = a_working_node()
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, veto)
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_instance_that_a_command_replaces_is_left_to_it() -> None:
    """Otherwise, the node is drained before its replacements are ready, and the command is dropped."""
    lab = Lab(feature_gates="NodeRepair=true")
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, is_disrupting=True))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = RunReport()
    round_ = ReconcileRound(
        Seen((), lab.app.observer.observe()), report, lab.clock.now() + timedelta(minutes=5), lab.clock
    )
    next(sweep for sweep in lab.app.sweeps if sweep.name == "impairedInstances").run(round_)
    assert lab.claim.deletion is None


def test_an_impaired_instance_whose_drain_was_given_back_is_left_alone_for_a_while() -> None:
    """Its obstacle may remain; the node would be closed and opened again in every round."""
    lab = a_working_node()
    hold = Hold(lab.clock.now() + IMPAIRED_FOR, "DrainBlocked", "its drain was given back")
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, hold=hold))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    lab.reconcile()
    assert lab.claim.deletion is None
    lab.clock.advance(seconds=IMPAIRED_FOR.total_seconds())
    lab.reconcile()
    assert lab.claim.deletion is not None


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_half_open_breaker_stops_repair(*, is_stopped: bool) -> None:
    """The table of brakes says so: unhealthy nodes are not exchanged for nodes that may not join."""
    lab = Lab(feature_gates="NodeRepair=true")
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    ill = {"type": "Ready", "status": "Unknown", "lastTransitionTime": lab.clock.now().isoformat()}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, {"status": {"conditions": [ill]}})
    lab.clock.advance(hours=1)
    if is_stopped:
        lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "half open", node_pool="default"), lab.clock.now())
    report = lab.disrupt()
    assert len(lab.rows.commands) == (not is_stopped)
    assert (BrakeKind.POOL_PROBE in {d.reason for d in report.decisions}) == is_stopped


def test_two_unhealthy_nodes_are_repaired_one_after_the_other() -> None:
    """The validation must not count the other unhealthy node, which waits for its turn, against the first."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
            ]
        }
    }
    lab = Lab(feature_gates="NodeRepair=true")
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}], "consolidateAfter": "Never"}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", affinity=apart) for n in range(6)))
    lab.settle()
    for n in range(6):
        lab.kubernetes.drop(kinds.PODS, f"p{n}", "default")
    ill = {"type": "Ready", "status": "Unknown", "lastTransitionTime": lab.clock.now().isoformat()}
    for name in lab.kubernetes.names(kinds.NODES)[:2]:
        lab.kubernetes.amend(kinds.NODES, name, {"status": {"conditions": [ill]}})
    lab.clock.advance(hours=1)
    lab.disrupt()
    lab.tick(4)
    assert sum(claim.is_disrupting for claim in lab.claims) == 1


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_launch_that_was_never_tried_does_not_count_in_the_breaker(attempts: int) -> None:
    """Otherwise, a kill switch that stops launches for five minutes opens the breakers of all growing pools."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    stored, now = lab.claim, lab.clock.now()
    lab.cloud.terminate([stored.instance_id])
    untried = {"machine": None, "phase": ClaimPhase.REQUESTED, "requested_at": now - timedelta(minutes=6)}
    lab.rows.claims[stored.name] = msgspec.structs.replace(stored, attempts=attempts, **untried)
    for _ in range(OPENS_AFTER - 1):
        lab.brakes.failed("default", "failed before", now)
    lab.execute(work_on_claim(stored.name, now))
    assert lab.claims == ()
    assert (lab.brakes.engaged().stopping(Action.EXPIRE, "default") is not None) == bool(attempts)


def test_a_node_object_kept_by_a_foreign_finalizer_is_reported_once() -> None:
    """Otherwise, each round reports its release, for as long as the other finalizer stays."""
    lab = a_working_node()
    name = lab.claim.node_name
    lab.rows.claims.clear()
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
    both = {"finalizers": [*finalizers(lab), "example.com/theirs"]}
    lab.kubernetes.amend(kinds.NODES, name, {**NOT_READY, "metadata": both})
    lab.kubernetes.delete(kinds.NODES, name)
    told = [d for _ in range(3) for d in lab.reconcile().decisions if d.reason == "StrayNode"]
    assert len(told) == 1
    assert finalizers(lab) == ["example.com/theirs"]


def test_few_claims_go_at_once_because_their_instances_vanished() -> None:
    """Otherwise, a list of another account or region terminates a fleet whose nodes a network fault has cut off."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="3") for number in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    for name in lab.kubernetes.names(kinds.NODES):
        lab.kubernetes.amend(kinds.NODES, name, NOT_READY)
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(minutes=5)
    report = lab.reconcile()
    assert len([claim for claim in lab.claims if claim.deletion is not None]) == 1
    assert report.counts[LOST_INSTANCES_HELD] == 2
    assert "ManyInstancesGone" in {d.reason for d in report.decisions}
    lab.tick(6)
    for _ in range(4):
        lab.clock.advance(minutes=2)
        lab.reconcile()
        lab.tick(10)
    assert lab.claims == ()


def test_a_registration_restores_no_taint_that_was_removed_after_the_list() -> None:
    """A node that was Ready when it was registered became not-ready for good, and was never initialized (seed 82)."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.boot()
    (name,) = lab.kubernetes.names(kinds.NODES)
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    own = lab.kubernetes.raw(kinds.NODES, name)["spec"]["taints"]
    lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": [*own, not_ready]}})

    def becomes_ready(call: str) -> None:
        if call == "get nodes":
            lab.kubernetes.before_call = lambda _: None
            lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": own}})

    lab.kubernetes.before_call = becomes_ready
    lab.tick(4)
    assert lab.kubernetes.raw(kinds.NODES, name)["spec"].get("taints", []) == []
    assert lab.claim.is_settled
