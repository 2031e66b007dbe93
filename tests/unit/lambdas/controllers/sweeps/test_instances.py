"""Instances that fail EC2's status checks are replaced, within budgets and without forcing their pods."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import Impairment
from adapters.run_report import RunReport
from core import labels
from core.brakes import STOPS, Action, Brake, BrakeKind
from core.catalogue.node_class import CAPACITY_BLOCK
from core.catalogue.reservations import LEAVES_BEFORE, RECLAIMED_BEFORE, ULTRASERVER_RECLAIMED_BEFORE
from core.lifecycle.records import ClaimPhase, Deletion
from core.lifecycle.steps import INSTANCE_CHECK_AFTER
from core.manifests.wire import resources
from core.model.catalogue import Offering
from core.model.plan import Hold, LaunchOrder
from core.model.values.quantity import nanodollars
from core.reasons.code import TerminationReason
from installation.metric_names import LOST_INSTANCES_HELD, SWEEP_BRAKE, UNKNOWN_INSTANCES
from lambdas.controllers.reconciliation import WITHOUT_PODS_EVERY
from lambdas.controllers.sweeps.instances import IMPAIRED_FOR, SHARE_PERCENT, UNKNOWN_AFTER
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen
from tests.builders import NOW, a_type
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import ALONE, a_fleet, ids, lose
from tests.unit.lambdas.controllers.sweeps.one_node import NOT_READY, a_round, a_working_node, amend, sweep

# Claims in a capacity block go before EC2 ends its instances.


CAPACITY_BLOCKS_NAME = "capacityBlocks"


def in_block(lab: Lab, kind: str = CAPACITY_BLOCK) -> Lab:
    """The claim's instance is in the reservation cr-1."""
    offering = Offering("m5.large", "us-east-1a", labels.RESERVED, 0, reservation_id="cr-1", reservation_type=kind)
    amend(lab, machine=msgspec.structs.replace(lab.claim.machine, offering=offering))
    return lab


def ending(lab: Lab, end: str, identity: str = "cr-1", **changes: Any) -> None:
    reservation = {"id": identity, "reservationType": CAPACITY_BLOCK, "endTime": end, **changes}
    body = {"status": {"capacityReservations": [reservation]}}
    lab.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", body)


def written(moment: datetime) -> str:
    return moment.isoformat()


@pytest.mark.parametrize("goes", [False, True])
@pytest.mark.parametrize(
    ("instance_type", "lead"), [("p5.48xlarge", RECLAIMED_BEFORE), ("trn2u.48xlarge", ULTRASERVER_RECLAIMED_BEFORE)]
)
def test_a_claim_goes_some_time_before_ec2_takes_it(instance_type: str, lead: timedelta, *, goes: bool) -> None:
    """Instances of UltraServers are taken earlier; their nodes ended without a drain."""
    lab = in_block(a_working_node())
    end = lab.clock.now() + lead + LEAVES_BEFORE + timedelta(seconds=0 if goes else 1)
    ending(lab, written(end), instanceType=instance_type)
    sweep(lab, CAPACITY_BLOCKS_NAME)
    deletion = lab.claim.deletion
    assert (deletion is not None) == goes
    if deletion is not None:
        assert deletion.reason == TerminationReason.CAPACITY_BLOCK_ENDS
        assert deletion.message == f"capacity block cr-1 ends at {end:%Y-%m-%dT%H:%M:%SZ}"
        assert deletion.ends_at == end - lead


def test_once_ec2_may_end_it_replacements_are_not_waited_for() -> None:
    lab = in_block(a_working_node())
    ending(lab, written(lab.clock.now() + timedelta(minutes=10)))
    sweep(lab, CAPACITY_BLOCKS_NAME)
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.ends_at == lab.clock.now()


def test_other_claims_stay() -> None:
    """One of a plain reservation becomes on-demand at its end; others are in no block, or in another one."""
    plain, reserved, other, unreadable = (a_working_node() for _ in range(4))
    in_block(reserved, kind="default")
    in_block(other)
    in_block(unreadable)
    for lab in (plain, reserved):
        ending(lab, written(NOW))
    ending(other, written(NOW), identity="cr-2")
    ending(unreadable, "soon")
    for lab in (plain, reserved, other, unreadable):
        sweep(lab, CAPACITY_BLOCKS_NAME)
        assert lab.claim.deletion is None


def test_a_class_that_cannot_be_read_ends_nothing() -> None:
    lab = in_block(a_working_node())
    lab.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", {"status": {"capacityReservations": "many"}})
    assert sweep(lab, CAPACITY_BLOCKS_NAME).counts == {}
    assert lab.claim.deletion is None


# An instance whose reservation has ended is an on-demand one from then on.


NAME = "demotedInstances"
OWN = {labels.RESERVATION_ID: "cr-1", labels.RESERVATION_TYPE: "default", labels.RESERVATION_INTERRUPTIBLE: "false"}


@pytest.fixture
def demoted_lab() -> Lab:
    """The node's instance was launched into a reservation, and EC2 lists it as on-demand now."""
    lab = a_working_node()
    machine = lab.claim.machine
    assert machine is not None
    reserved = msgspec.structs.replace(machine.offering, capacity_type=labels.RESERVED, price=0, reservation_id="cr-1")
    machine_labels = {**machine.labels, labels.CAPACITY_TYPE: labels.RESERVED, **OWN}
    amend(lab, machine=msgspec.structs.replace(machine, offering=reserved, labels=machine_labels))
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, {"metadata": {"labels": machine_labels}})
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, capacity_type=labels.ON_DEMAND))
    return lab


def node_labels(lab: Lab) -> dict[str, str]:
    labels_of_node: dict[str, str] = lab.kubernetes.raw(resources.NODES, lab.claim.node_name)["metadata"]["labels"]
    return labels_of_node


def test_its_claim_and_node_say_so_and_it_has_a_price(demoted_lab: Lab) -> None:
    """Otherwise, consolidation takes it for free and never replaces it."""
    report = sweep(demoted_lab, NAME)
    machine = demoted_lab.claim.machine
    assert machine is not None
    zone = machine.offering.zone
    assert machine.offering == Offering("m5.large", zone, labels.ON_DEMAND, nanodollars(0.1))
    for present_labels in (machine.labels, node_labels(demoted_lab)):
        assert present_labels[labels.CAPACITY_TYPE] == labels.ON_DEMAND
        assert not OWN.keys() & present_labels.keys()
    (decision,) = report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("relabel", demoted_lab.claim.name, "ReservationEnded")
    assert decision.message == f"instance {demoted_lab.claim.instance_id} is on-demand now"
    assert demoted_lab.claim.deletion is None


def test_it_is_done_once(demoted_lab: Lab) -> None:
    sweep(demoted_lab, NAME)
    before = demoted_lab.claim
    assert sweep(demoted_lab, NAME).decisions == []
    assert demoted_lab.claim == before


def test_an_instance_still_in_its_reservation_stays_so(demoted_lab: Lab) -> None:
    (instance,) = demoted_lab.cloud.instances()
    demoted_lab.cloud.put(msgspec.structs.replace(instance, capacity_type=labels.RESERVED))
    before = demoted_lab.claim
    assert sweep(demoted_lab, NAME).decisions == []
    assert (demoted_lab.claim, node_labels(demoted_lab)[labels.CAPACITY_TYPE]) == (before, labels.RESERVED)


def test_an_on_demand_instance_that_never_was_reserved_is_not_relabelled() -> None:
    lab = a_working_node()
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, capacity_type=labels.ON_DEMAND))
    before = lab.claim
    assert sweep(lab, NAME).decisions == []
    assert lab.claim == before


def test_a_claim_without_a_node_yet_is_followed_too(demoted_lab: Lab) -> None:
    demoted_lab.kubernetes.drop(resources.NODES, demoted_lab.claim.node_name)
    amend(demoted_lab, node_name="")
    sweep(demoted_lab, NAME)
    assert demoted_lab.claim.machine is not None
    assert demoted_lab.claim.machine.offering.capacity_type == labels.ON_DEMAND


def test_a_type_that_the_catalogue_lacks_has_no_price(demoted_lab: Lab) -> None:
    (instance,) = demoted_lab.cloud.instances()
    demoted_lab.cloud.put(msgspec.structs.replace(instance, instance_type="x9.large"))
    sweep(demoted_lab, NAME)
    assert demoted_lab.claim.machine is not None
    assert (demoted_lab.claim.machine.offering.instance_type, demoted_lab.claim.machine.offering.price) == (
        "x9.large",
        0,
    )


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
    assert [instance.instance_id for instance in lab.cloud.instances()] == [sick]


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
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, NOT_READY)
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
    lab.kubernetes.amend(resources.PODS, "p", veto, namespace="default")
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_instance_with_a_protected_node_is_left_alone() -> None:
    """The annotation on the node is a veto, for failed status checks as for node repair."""
    lab = a_working_node()
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, veto)
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
        Seen((), lab.app.shared.observer.observe()), report, lab.clock.now() + timedelta(minutes=5), lab.clock
    )
    next(sweep for sweep in lab.app.sweeps if sweep.name == "impairedInstances").run(round_)
    assert lab.claim.deletion is None


def test_an_impaired_instance_whose_drain_was_cancelled_is_left_alone_for_a_while() -> None:
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
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, {"status": {"conditions": [ill]}})
    lab.clock.advance(hours=1)
    if is_stopped:
        lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "half open", node_pool="default"), lab.clock.now())
    report = lab.disrupt()
    assert len(lab.rows.commands) == (not is_stopped)
    assert (BrakeKind.POOL_PROBE in {d.reason for d in report.decisions}) == is_stopped


# Claims of a table that is older than the index of instances.


def test_claims_older_than_the_index_are_found_by_their_instances(lab: Lab) -> None:
    """Otherwise, a spot interruption of such an instance is ignored, and its pods die with it."""
    lab.rows.unindex(lab.claim.instance_id)
    assert lab.app.adapters.stores.claims.of_instance(lab.claim.instance_id) is None
    lab.reconcile()
    assert lab.app.adapters.stores.claims.of_instance(lab.claim.instance_id) == lab.claim


# Claims whose instances vanished go a few at a time.


def test_few_claims_go_at_once_because_their_instances_vanished() -> None:
    """Otherwise, a list of another account or region terminates a fleet whose nodes a network fault has cut off."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="3") for number in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    for name in lab.kubernetes.names(resources.NODES):
        lab.kubernetes.amend(resources.NODES, name, NOT_READY)
    lab.cloud.terminate([instance.instance_id for instance in lab.cloud.instances()])
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


LOST_NAME = "lostInstances"


def losing(lab: Lab) -> Lab:
    """EC2 no longer knows the instance, and the node is not ready."""
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, NOT_READY)
    lab.cloud.terminate([lab.claim.instance_id])
    lab.clock.advance(hours=1)
    return lab


def is_leaving(lab: Lab) -> bool:
    sweep(lab, LOST_NAME)
    return lab.claim.deletion is not None


def test_a_claim_whose_instance_is_gone_says_so() -> None:
    lab = losing(a_working_node())
    assert is_leaving(lab)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == TerminationReason.INSTANCE_GONE
    assert deletion.message == f"instance {lab.claim.instance_id} is gone and its node is not ready"


def test_a_claim_without_a_node_goes_too() -> None:
    lab = losing(a_working_node())
    lab.kubernetes.drop(resources.NODES, lab.claim.node_name)
    assert is_leaving(lab)


@pytest.mark.parametrize(
    ("age", "goes"), [(INSTANCE_CHECK_AFTER - timedelta(seconds=1), False), (INSTANCE_CHECK_AFTER, True)]
)
def test_a_young_claim_is_not_judged_by_a_list(age: timedelta, *, goes: bool) -> None:
    """EC2 itself may not list an instance yet."""
    lab = losing(a_working_node())
    amend(lab, phase_since=lab.clock.now() - age)
    assert is_leaving(lab) == goes


def test_an_instance_that_is_found_by_its_id_is_not_lost() -> None:
    lab = a_working_node()
    (instance,) = lab.cloud.instances()
    round_ = a_round(losing(lab))
    lab.cloud.put(instance)
    sweep(lab, LOST_NAME, round_)
    assert lab.claim.deletion is None


def test_a_claim_without_an_instance_cannot_lose_it() -> None:
    lab = losing(a_working_node())
    amend(lab, machine=None, phase=ClaimPhase.REQUESTED, node_name="")
    assert not is_leaving(lab)


def test_of_sixty_claims_three_go_in_a_round() -> None:
    lab = losing(a_working_node())
    record = lab.claim
    for number in range(59):
        machine = msgspec.structs.replace(
            record.machine, instance_id=f"i-x{number:02d}", provider_id=f"aws:///z/i-x{number:02d}"
        )
        lab.rows.claims[f"x{number:02d}"] = msgspec.structs.replace(record, name=f"x{number:02d}", machine=machine)
    report = sweep(lab, LOST_NAME)
    assert len([claim for claim in lab.claims if claim.deletion is not None]) == 3
    assert report.counts[LOST_INSTANCES_HELD] == 57
    (held,) = [decision for decision in report.decisions if decision.reason == "ManyInstancesGone"]
    assert held.message.startswith(
        "EC2 no longer lists the instances of 60 of 60 claims, such as i-x02; 3 are removed per round, the others later: "
    )


def test_a_claim_without_its_instance_ends_once_its_node_is_not_ready(lab: Lab) -> None:
    """Otherwise, pods wait on a node that does not exist. A Ready node is stronger evidence than an EC2 list."""
    lab.cloud.terminate([lab.claim.instance_id])
    lab.clock.advance(minutes=3)
    lab.reconcile()
    assert lab.claim.deletion is None
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, not_ready)
    lab.reconcile()
    lab.tick(3)
    assert lab.claims == ()
    assert lab.kubernetes.names(resources.NODES) == []


def test_an_instance_missing_from_a_list_is_not_gone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, an incomplete list while a zone is cut off costs all nodes in it."""
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, not_ready)
    lab.clock.advance(minutes=3)
    listed = lab.cloud.instances
    monkeypatch.setattr(lab.cloud, "instances", lambda ids=(): listed(ids) if ids else ())
    lab.reconcile()
    assert lab.claim.deletion is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Client.InternalError", TerminationReason.START_FAILED),
        ("Client.UserInitiatedShutdown", TerminationReason.INSTANCE_GONE),
    ],
)
def test_an_instance_that_ended_before_its_node_joined_says_why(code: str, reason: TerminationReason) -> None:
    """Where event and check were lost, the claim went without a cause, and the next instance ended like it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.work.take()
    lab.cloud.end(lab.claim.instance_id, code, "because")
    lab.clock.advance(seconds=INSTANCE_CHECK_AFTER.total_seconds())
    sweep(lab, LOST_NAME)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == reason
    assert deletion.message.endswith(f": {code}: because")
    assert (("default", code) in lab.rows.denials) == (reason is TerminationReason.START_FAILED)


def test_an_instance_whose_node_had_joined_is_not_asked_for() -> None:
    """Whatever ended it is no reason against further launches."""
    lab = losing(a_working_node())
    lab.cloud.end(lab.claim.instance_id, "Client.InternalError")
    assert is_leaving(lab)
    assert lab.rows.denials == {}


# Instances that cannot be rebuilt are ended late and few at a time.


def an_untracked(lab: Lab, claim: str, *, pool: str = "default", joins: bool = False) -> str:
    """An instance with our tags and without a record."""
    order = LaunchOrder(
        claim=claim,
        node_pool=pool,
        token=f"untracked-{claim}-{pool}",
        offerings=(Offering("m5.large", "us-east-1a", "spot", 1),),
        node_class={},
        node_labels={},
        taints=(),
        tags={labels.NODEPOOL: pool, labels.NODECLAIM: claim, labels.CLAIM: claim, labels.NODECLASS: "default"},
    )
    instance = lab.cloud.launch(order).instances[0]
    if joins:
        lab.kubernetes.put(a_joining_node(f"node-{instance.instance_id}", instance.provider_id))
    return instance.instance_id


def test_an_old_instance_without_a_node_is_not_rebuilt_and_ended_as_not_joined() -> None:
    """Otherwise, an API server that lists no nodes ends a whole fleet whose rows are lost."""
    lab = a_fleet(3)
    lose(lab)
    for name in lab.kubernetes.names(resources.NODES):
        lab.kubernetes.drop(resources.NODES, name)
    running = ids(lab)
    lab.clock.advance(minutes=16)
    lab.provision()
    lab.reconcile()
    lab.tick(5)
    assert (ids(lab), lab.claims) == (running, ())


@pytest.mark.parametrize("why", ["duplicate", "no pool", "no node"])
def test_an_instance_that_cannot_be_rebuilt_is_ended_when_it_is_old(why: str) -> None:
    """Otherwise, an instance without a decision is paid for."""
    lab = a_fleet(1)
    claim = lab.claim.name if why == "duplicate" else "nobody"
    unknown = an_untracked(lab, claim, pool="gone" if why == "no pool" else "default")
    lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds() - 1)
    lab.reconcile()
    lab.tick()
    assert unknown in ids(lab)
    lab.clock.advance(seconds=2)
    report = lab.reconcile()
    lab.tick(2)
    assert unknown not in ids(lab)
    assert len(ids(lab)) == 1
    assert ("terminate", unknown, "UnknownInstance") in {(d.kind, d.subject, d.reason) for d in report.decisions}


def test_an_unknown_instance_with_a_node_is_drained_first() -> None:
    """Otherwise, its pods are killed with it, whatever protects them."""
    lab = a_fleet(1)
    unknown = an_untracked(lab, "nobody", pool="gone", joins=True)
    pod = a_pending_pod("q", nodeName=f"node-{unknown}")
    lab.kubernetes.put({**pod, "status": {"phase": "Running", "conditions": []}})
    lab.kubernetes.protected.add("default/q")
    lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds())
    lab.reconcile()
    lab.tick(6, seconds=30)
    assert unknown in ids(lab)
    lab.kubernetes.protected.clear()
    lab.tick(12, seconds=30)
    lab.reconcile()
    lab.tick(12, seconds=30)
    assert lab.kubernetes.evicted == ["default/q"]
    assert unknown not in ids(lab)


@pytest.mark.parametrize("joins", [True, False])
def test_it_becomes_a_claim_that_leaves_for_a_stated_reason_and_holds_no_limits(*, joins: bool) -> None:
    """It is drained as one that has joined only if it has: nobody waits for a node that never came."""
    lab = a_fleet(1)
    unknown = an_untracked(lab, "nobody", pool="gone", joins=joins)
    lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds())
    lab.reconcile()
    claim = lab.rows.claims[f"unknown-{unknown}"]
    assert (claim.phase, claim.node_name) == (("registered", f"node-{unknown}") if joins else ("launched", ""))
    assert (claim.instance_id, claim.reserved) == (unknown, {})
    assert claim.deletion is not None
    assert claim.deletion == Deletion(
        reason="UnknownInstance", message="its NodePool gone does not exist", asked_at=lab.clock.now()
    )


def test_more_than_a_few_unknown_instances_stop_everything() -> None:
    """Otherwise, NodePools deleted by mistake together with the table take all nodes with them."""
    lab = a_fleet(3)
    running = ids(lab)
    lose(lab)
    pool = lab.kubernetes.raw(resources.NODE_POOLS, "default")
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.clock.advance(hours=1)
    for _ in range(3):
        report = lab.reconcile()
        lab.tick(5)
    assert ids(lab) == running
    assert [brake.kind for brake in lab.brakes.held()] == [BrakeKind.UNKNOWN_INSTANCES]
    assert (report.counts[UNKNOWN_INSTANCES], report.counts[SWEEP_BRAKE]) == (3, 1)
    told = next(d for d in report.decisions if d.reason == BrakeKind.UNKNOWN_INSTANCES)
    assert "NodePool default does not exist" in told.message
    assert all(instance in told.message for instance in running)
    lab.kubernetes.put(pool)
    report = lab.reconcile()
    assert (len(lab.claims), lab.brakes.held()) == (3, ())
    assert [d.reason for d in report.decisions if d.kind == "abandon"] == [BrakeKind.UNKNOWN_INSTANCES]


@pytest.mark.parametrize("joins", [True, False])
def test_instances_with_copied_tags_are_named_and_stop_nothing_else(*, joins: bool) -> None:
    """Whoever may launch instances can copy tags: two of them stopped all voluntary disruption of a cluster.

    Those that join as nodes have the tags of a claim with another instance, which says nothing of the table.
    """
    lab = a_fleet(1)
    names = (lab.claim.name,) * 2 if joins else ("one", "two")
    fakes = [an_untracked(lab, name, pool=f"gone-{n}", joins=joins) for n, name in enumerate(names)]
    lab.clock.advance(hours=1)
    report = lab.reconcile()
    (brake,) = lab.brakes.held()
    assert brake.kind is BrakeKind.FOREIGN_INSTANCES
    assert all(fake in brake.message for fake in fakes)
    assert STOPS[brake.kind] == (Action.END_UNKNOWN,)
    assert set(fakes) <= set(ids(lab))
    lab.cloud.terminate(fakes)
    report = lab.reconcile()
    assert lab.brakes.held() == ()
    assert [d.reason for d in report.decisions if d.kind == "abandon"] == [BrakeKind.FOREIGN_INSTANCES]


def test_a_joined_instance_beside_a_foreign_one_is_counted_and_not_named_as_foreign() -> None:
    """The advice is to terminate what the message names; pods may run on a node."""
    lab = a_fleet(1)
    foreign = an_untracked(lab, "one", pool="gone")
    joined = an_untracked(lab, "two", pool="gone", joins=True)
    lab.clock.advance(hours=1)
    lab.reconcile()
    (brake,) = lab.brakes.held()
    assert brake.message.startswith("1 instances have this cluster's tags but no claim, and no node")
    assert (foreign in brake.message, joined in brake.message) == (True, False)
    assert "1 more that have a node of their own are drained" in brake.message


def test_while_too_many_are_unknown_no_node_goes_with_its_node_pool() -> None:
    lab = a_fleet(1)
    lab.brakes.hold(Brake(BrakeKind.UNKNOWN_INSTANCES, "as of the round before"), lab.clock.now())
    for name in ("one", "two"):
        an_untracked(lab, name, pool="gone", joins=True)
    lab.clock.advance(hours=1)
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    assert lab.claim.deletion is None


def test_no_more_than_a_share_is_ended_in_a_round() -> None:
    assert (5, timedelta(minutes=20)) == (SHARE_PERCENT, UNKNOWN_AFTER)
    lab = Lab()
    for number in range(40):
        lab.kubernetes.put(a_pending_pod(f"p{number}", metadata={"labels": {"a": "b"}}, affinity=ALONE))
    for _ in range(3):
        lab.provision()
        lab.execute()
    assert len(lab.claims) == 40
    for name in ("one", "two", "three"):
        an_untracked(lab, name, pool="gone")
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert len(ids(lab)) == 43
    lab.cloud.terminate(ids(lab)[-1:])
    lab.reconcile()
    lab.reconcile()
    assert len([claim for claim in lab.claims if claim.name.startswith("unknown-")]) == 2


# Instances without a row: those of others and of launches under way are left alone, known ones are adopted.


def test_an_instance_that_was_just_launched_is_left_to_its_launch() -> None:
    """Its claim may be stored a moment later: rebuilt meanwhile, it would be known under two versions of one row."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    name = lab.claim.name
    lose(lab, name)
    lab.clock.advance(seconds=30)
    lab.reconcile()
    assert lab.claims == ()
    lab.clock.advance(seconds=31)
    lab.reconcile()
    assert [claim.name for claim in lab.claims] == [name]


def launch_behind_our_back(lab: Lab, claim: str, *, owned: bool = True) -> str:
    """An instance without a record."""
    tags = {"karpenter.sh/nodepool": "default", "karpenter.sh/nodeclaim": claim} | (
        {labels.CLAIM: claim} if owned else {}
    )
    order = LaunchOrder(
        claim=claim,
        node_pool="default",
        token=f"behind-{claim}",
        offerings=(Offering("m5.large", "us-east-1a", "spot", 1),),
        node_class={},
        node_labels={},
        taints=(),
        tags=tags,
    )
    return lab.cloud.launch(order).instances[0].instance_id


def test_another_provisioners_instances_are_left_alone(lab: Lab) -> None:
    """Karpenter's nodes have the same tags; during a migration both run."""
    theirs = launch_behind_our_back(lab, "theirs", owned=False)
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert theirs in ids(lab)


def test_an_instance_whose_launch_reply_was_lost_is_adopted() -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    launched = lab.claim
    lab.rows.claims[launched.name] = msgspec.structs.replace(launched, machine=None, phase=ClaimPhase.REQUESTED)
    lab.reconcile()
    assert lab.claim.instance_id == launched.instance_id
    assert lab.claim.phase is ClaimPhase.LAUNCHED


def test_an_adopted_instance_of_an_unknown_type_keeps_what_its_claim_reserved() -> None:
    """What it has is not known, so the limits would seem to have its room: more would be launched than they allow."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    launched = lab.claim
    lab.rows.claims[launched.name] = msgspec.structs.replace(launched, machine=None, phase=ClaimPhase.REQUESTED)
    lab.types = (a_type("c5.large"),)
    lab.restart()
    lab.reconcile()
    assert (lab.claim.instance_id, lab.claim.reserved) == (launched.instance_id, launched.reserved)
    assert launched.reserved["cpu"] > 0
