"""Time limits of commands, and rollouts whose replacements do not join."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle.records import CommandPhase, CommandRecord
from core.manifests.wire import api_resources as kinds
from core.model.plan import Command
from core.model.values.taints import DISRUPTED
from lambdas.ports import DeniedError
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

LATE = timedelta(minutes=11)


def a_late_command(lab: Lab, name: str, *claims: str, phase: CommandPhase = CommandPhase.REPLACING) -> CommandRecord:
    """A command about these claims that was decided eleven minutes ago."""
    at = lab.clock.now() - LATE
    command = Command(reason="Drifted", method="drift", nodes=claims, claims=claims)
    return CommandRecord(id=name, command=command, created_at=at, verify_at=at, phase_since=at, phase=phase)


@pytest.mark.parametrize(
    ("others", "phase", "is_done"),
    [
        (1, CommandPhase.REPLACING, False),
        (15_000, CommandPhase.REPLACING, True),
        (15_000, CommandPhase.VERIFYING, False),
    ],
)
def test_the_time_limit_counts_the_nodes_of_all_started_commands(
    others: int, phase: CommandPhase, is_done: bool
) -> None:
    """Karpenter: 80 ms for each node in the queue; commands that have not started are not in it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    name = lab.claim.name
    commands = lab.app.adapters.stores.commands
    commands.add(a_late_command(lab, "late", name))
    names = tuple(f"other-{number}" for number in range(others))
    queued = a_late_command(lab, "queued", *names, phase=phase)
    commands.add(msgspec.structs.replace(queued, created_at=lab.clock.now(), verify_at=lab.clock.now() + LATE))
    lab.execute({"command": "late", "dueAt": lab.clock.now().isoformat()})
    assert commands.get("late") is None
    assert (lab.claim.deletion is not None) is is_done


def drifted_fleet() -> Lab:
    """Two nodes with a pod each, of a NodePool whose template has just changed."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
            ]
        }
    }
    lab = Lab()
    budgets = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    lab.kubernetes.put(a_node_pool(disruption=budgets))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", affinity=apart) for n in range(2)))
    lab.settle()
    for n, node in enumerate(lab.kubernetes.names(kinds.NODES)):
        body = {"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": []}}
        lab.kubernetes.amend(kinds.PODS, f"p{n}", body, namespace="default")
    changed = a_node_pool(disruption=budgets, template={"terminationGracePeriod": "1h"})
    lab.kubernetes.put(changed)
    return lab


def conditions(lab: Lab) -> dict[str, str]:
    status = lab.kubernetes.raw(kinds.NODE_POOLS, "default").get("status") or {}
    return {found["type"]: found["status"] for found in status.get("conditions", ())}


def test_an_image_that_never_joins_terminates_instances_ever_more_slowly() -> None:
    """It launched ten machines for one node in three hours and went on, without any report."""
    lab = drifted_fleet()
    started, stops = len(lab.cloud.instances()), 0
    ever = {instance.instance_id for instance in lab.cloud.instances()}
    for minute in range(180):
        lab.clock.advance(minutes=1)
        stops += lab.disrupt().counts.get("rolloutsStopped", 0) > 0
        lab.execute()
        for record in lab.app.adapters.stores.commands.all():
            lab.execute({"command": record.id})
        if minute % 2 == 0:
            lab.reconcile()
            lab.execute()
        ever |= {instance.instance_id for instance in lab.cloud.instances()}
    assert len(ever) - started <= 3
    assert stops > 90
    assert conditions(lab)["RolloutStopped"] == "True"
    events = [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]
    assert "RolloutStopped" in {event["reason"] for event in events}
    assert all(claim.deletion is None for claim in lab.claims if claim.initialized_at), "working nodes stay"


def test_the_second_node_of_a_rollout_waits_for_the_pods_of_the_first() -> None:
    """Otherwise, a fleet loses all its nodes to an image on which no pod becomes ready."""
    lab = drifted_fleet()
    lab.clock.advance(minutes=1)
    lab.disrupt()
    assert len(lab.app.adapters.stores.commands.all()) == 1


def test_nothing_is_decided_before_the_last_decision_is_validated() -> None:
    """Otherwise, each run adds a round of commands on top of one that may be dropped a moment later."""
    lab = drifted_fleet()
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]}))
    lab.kubernetes.drop(kinds.PODS, "p0", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    (first,) = lab.rows.commands.values()
    lab.kubernetes.drop(kinds.PODS, "p1", "default")
    lab.clock.advance(minutes=1)
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == ["CommandPending"]
    assert list(lab.rows.commands.values()) == [first]


def test_a_command_that_never_started_leaves_the_taint_of_another_hand() -> None:
    """Its nodes were never closed by it; whoever closed one did so for another reason."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    node = lab.claim.node_name
    late = a_late_command(lab, "late", lab.claim.name, phase=CommandPhase.VERIFYING)
    command = msgspec.structs.replace(late.command, nodes=(node,))
    lab.app.adapters.stores.commands.add(msgspec.structs.replace(late, command=command))
    taint = {"key": DISRUPTED.key, "effect": DISRUPTED.effect}
    lab.kubernetes.amend(kinds.NODES, node, {"spec": {"taints": [taint]}})
    report = lab.execute({"command": "late", "dueAt": lab.clock.now().isoformat()})
    assert [(decision.kind, decision.reason) for decision in report.decisions] == [("abandon", "Stale")]
    assert [found["key"] for found in lab.kubernetes.raw(kinds.NODES, node)["spec"]["taints"]] == [DISRUPTED.key]


def test_a_node_that_a_webhook_keeps_closed_keeps_no_other_of_its_command_closed() -> None:
    """Its neighbours stayed tainted, and the replacements were paid for, as long as the webhook refused."""
    lab = drifted_fleet()
    claims = tuple(claim.name for claim in lab.claims)
    nodes = tuple(claim.node_name for claim in lab.claims)
    record = a_late_command(lab, "late", *claims)
    command = msgspec.structs.replace(record.command, nodes=nodes)
    commands = lab.app.adapters.stores.commands
    commands.add(msgspec.structs.replace(record, command=command))
    taint = {"key": DISRUPTED.key, "effect": DISRUPTED.effect}
    for node in nodes:
        lab.kubernetes.amend(kinds.NODES, node, {"spec": {"taints": [taint]}})
    refusals = iter([DeniedError("kube:patch nodes", "403")])

    def refuse_first(call: str) -> None:
        error = next(refusals, None) if call == "patch nodes" else None
        if error is not None:
            raise error

    lab.kubernetes.before_call = refuse_first
    lab.execute({"command": "late"})
    closed = [bool(lab.kubernetes.raw(kinds.NODES, node)["spec"].get("taints")) for node in nodes]
    assert closed == [True, False]
    assert commands.get("late") is not None
    lab.execute({"command": "late"})
    assert not lab.kubernetes.raw(kinds.NODES, nodes[0])["spec"].get("taints")
    assert commands.get("late") is None
