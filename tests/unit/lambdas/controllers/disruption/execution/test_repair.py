"""Unhealthy nodes are repaired one after the other."""

from __future__ import annotations

from core.manifests.wire import resources
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


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
