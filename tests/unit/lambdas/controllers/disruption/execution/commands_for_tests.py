"""Commands and the fleets that they are about, for the tests of how commands are carried out."""

from __future__ import annotations

from datetime import timedelta

from core.disruption.move_history import CHANGE_SETTLES_AFTER
from core.lifecycle.records import CommandPhase, CommandRecord
from core.manifests.wire import resources
from core.model.plan import Command
from core.model.values.taints import DISRUPTED
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

LATE = timedelta(minutes=11)


def a_late_command(lab: Lab, name: str, *claims: str, phase: CommandPhase = CommandPhase.REPLACING) -> CommandRecord:
    """A command about these claims that was decided eleven minutes ago."""
    at = lab.clock.now() - LATE
    command = Command(reason="Drifted", method="drift", nodes=claims, claims=claims)
    return CommandRecord(id=name, command=command, created_at=at, verify_at=at, phase_since=at, phase=phase)


def drifting() -> Lab:
    """One node with a pod on it that is to be replaced."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1000h"}))
    return settled(lab)


def settled(lab: Lab) -> Lab:
    """Let the changed NodePool stand still for as long as `disrupt` waits before it follows."""
    lab.disrupt()
    lab.clock.advance(seconds=CHANGE_SETTLES_AFTER.total_seconds())
    lab.run_requests.take()
    return lab


def drifted_fleet(*, has_settled: bool = True) -> Lab:
    """Two nodes with a pod each, of a NodePool whose template has changed, and been seen and stood still if `has_settled`."""
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
    for n, node in enumerate(lab.kubernetes.names(resources.NODES)):
        body = {"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": []}}
        lab.kubernetes.amend(resources.PODS, f"p{n}", body, namespace="default")
    changed = a_node_pool(disruption=budgets, template={"terminationGracePeriod": "1h"})
    lab.kubernetes.put(changed)
    return settled(lab) if has_settled else lab


def tainted(lab: Lab) -> list[str]:
    """Nodes that are on their way out."""
    nodes = [lab.kubernetes.raw(resources.NODES, name) for name in lab.kubernetes.names(resources.NODES)]
    return [
        node["metadata"]["name"]
        for node in nodes
        if any(taint["key"] == DISRUPTED.key for taint in node["spec"].get("taints", ()))
    ]
