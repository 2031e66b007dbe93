"""Commands from their validation to their end: replaced, drained, or given up without a node left tainted."""

from __future__ import annotations

from datetime import timedelta

from adapters.messages import work_on_command
from adapters.ports import TooLargeError
from adapters.store import DECIDER
from core.lifecycle.records import ClaimPhase, CommandPhase
from core.manifests.wire import resources
from core.model.values.taints import DISRUPTED
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import settled


def test_an_empty_node_goes_after_its_validation(lab: Lab) -> None:
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    lab.tick(seconds=14)
    assert DISRUPTED.key not in lab.taints()
    lab.tick(8)
    assert lab.claims == ()
    assert lab.cloud.instances() == ()
    assert lab.rows.commands == {}
    assert lab.rows.usage["default"].reserved == {}


def test_a_command_that_is_too_large_affects_no_other(lab: Lab) -> None:
    """A row may have 400 KB: otherwise, one command that is too large keeps all others of its run from being stored."""
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)

    def refuse(call: str) -> None:
        if call == "write" and DECIDER in lab.rows.leases:
            lab.rows.before_call = lambda _: None
            raise TooLargeError("dynamodb:PutItem", "Item size has exceeded the maximum allowed size")

    lab.rows.before_call = refuse
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == ["CommandRefused"]
    assert (lab.rows.commands, lab.work.sent) == ({}, [])


def test_a_command_is_dropped_when_the_world_has_changed(lab: Lab) -> None:
    """Otherwise, a node goes although pods have been bound to it in the meantime."""
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    lab.kubernetes.put(a_pending_pod("q"))
    lab.bind("q")
    (report,) = lab.tick(seconds=15)
    assert [(d.kind, d.reason) for d in report.decisions] == [("abandon", "ValidationFailed")]
    assert lab.rows.commands == {}
    assert lab.claim.deletion is None


def drift(lab: Lab) -> None:
    """Make the only node drift: its NodePool gets another node label."""
    template = {"expireAfter": "1000h"}
    lab.kubernetes.put(a_node_pool(template=template))
    settled(lab).disrupt()
    lab.tick()


def test_a_drifted_node_stays_until_its_replacement_is_initialized(lab: Lab) -> None:
    """Otherwise, pods are evicted and have no place to go."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    assert command.phase is CommandPhase.REPLACING
    assert len(lab.claims) == 2
    assert [claim.deletion for claim in lab.claims] == [None, None]
    lab.tick(3)
    lab.boot()
    lab.tick(4)
    lab.tick(8)
    assert lab.kubernetes.evicted == ["default/p"]
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.INITIALIZED]
    assert command.replacements == (lab.claim.name,)


def test_a_replacement_that_is_ready_wakes_its_command(lab: Lab) -> None:
    """Otherwise, the node that it replaces is paid for until the next check of the command."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    lab.tick(3)
    lab.boot()
    lab.work.take()
    for _ in range(3):
        lab.clock.advance(seconds=20)
        lab.execute({"claim": name})
    assert {"command": command.id} in lab.work.take()


def test_a_replacement_has_room_in_limits_that_its_own_node_fills() -> None:
    """Otherwise, no node of a NodePool at its limit is ever replaced."""
    lab = Lab()
    limits = {"nodes": "1"}
    lab.kubernetes.put(a_node_pool(limits=limits), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.put(a_node_pool(limits=limits, template={"expireAfter": "1000h"}))
    settled(lab).disrupt()
    lab.tick()
    old, new = sorted(lab.claims, key=lambda claim: claim.requested_at)
    assert (old.reserved, old.deletion, new.reserved["nodes"]) == ({}, None, 1)


def test_the_taint_of_a_command_under_way_stays(lab: Lab) -> None:
    """Otherwise, pods are placed on a node that is about to go."""
    drift(lab)
    lab.clock.advance(minutes=1)
    lab.reconcile()
    assert DISRUPTED.key in lab.taints()
    assert sorted(claim.is_disrupting for claim in lab.claims) == [False, True]


def test_checks_of_a_command_end_with_their_chain(lab: Lab) -> None:
    """The sweeps begin another chain for a command that is still there; several for ever would fill the queue."""
    drift(lab)
    (command,) = lab.rows.commands.values()
    for minutes, follows in ((10, True), (0, False)):
        lab.work.take()
        lab.execute(work_on_command(command.id, lab.clock.now(), checked_for=timedelta(minutes=minutes)))
        assert bool(lab.work.sent) is follows


def test_pods_of_a_command_in_flight_are_not_planned_again(lab: Lab) -> None:
    """Otherwise, `provision` launches a second node for the pods that a command moves (found on a real control plane)."""
    drift(lab)
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.REQUESTED, ClaimPhase.INITIALIZED}
    report = lab.provision()
    assert [decision.kind for decision in report.decisions] == []
    assert len(lab.claims) == 2


def test_a_command_whose_replacement_cannot_be_launched_frees_its_node(lab: Lab) -> None:
    """Otherwise, the node stays tainted and half used forever."""
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    reserved = lab.claim.reserved
    drift(lab)
    lab.tick(4)
    assert lab.rows.commands == {}
    assert lab.claim.deletion is None
    assert lab.claim.reserved == reserved
    assert lab.taints() == []


def test_the_limits_are_free_once_the_node_is_tainted(lab: Lab) -> None:
    """Otherwise, a NodePool has more nodes that take pods than its limits allow while the API server is slow."""
    held = lab.claim.reserved
    lab.interrupt()
    assert (lab.claim.reserved, lab.rows.usage["default"].disrupting) == (held, 1)
    lab.wake_ups.sent.clear()
    lab.kubernetes.protected = {"default/p"}
    lab.tick()
    assert DISRUPTED.key in lab.taints()
    assert (lab.claim.reserved, lab.rows.usage["default"].reserved) == ({}, {})
    assert [message for message, _ in lab.wake_ups.sent] == [{"wakeUp": "SpotInterrupted"}], "who waits for the limit"


def test_the_grace_period_starts_with_the_taint() -> None:
    """Otherwise, a node that is tainted late has its pods killed in the same second, without one try to evict them."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(template={"terminationGracePeriod": "1m"}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    lab.clock.advance(minutes=2)
    report = lab.execute()
    assert [decision.reason for decision in report.decisions] == ["PodDisruptionBudget"]
    lab.tick(8)
    assert lab.kubernetes.names(resources.PODS) == []


def test_a_place_in_the_budgets_is_free_once_the_instance_terminates(lab: Lab) -> None:
    """As in Karpenter: a terminating instance disrupts no more pods."""
    lab.interrupt()
    lab.tick(4)
    assert lab.claims == () or lab.claim.deletion.terminated_at is not None  # type: ignore[union-attr]  # it goes
    assert lab.rows.usage["default"].disrupting == 0


# Unhealthy nodes are repaired one after the other.


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
        lab.kubernetes.drop(resources.PODS, f"p{n}", "default")
    ill = {"type": "Ready", "status": "Unknown", "lastTransitionTime": lab.clock.now().isoformat()}
    for name in lab.kubernetes.names(resources.NODES)[:2]:
        lab.kubernetes.amend(resources.NODES, name, {"status": {"conditions": [ill]}})
    lab.clock.advance(hours=1)
    lab.disrupt()
    lab.tick(4)
    assert sum(claim.is_disrupting for claim in lab.claims) == 1
