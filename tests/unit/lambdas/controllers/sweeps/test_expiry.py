"""Nodes that have reached their age: within budgets, or at any price."""

from __future__ import annotations

from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def test_expired_nodes_go_within_the_budget() -> None:
    """Otherwise, a fleet that was launched together goes together."""
    lab = Lab()
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
            ]
        }
    }
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}, disruption={"budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", metadata={"labels": {"a": "b"}}, affinity=anti) for n in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    lab.reconcile()
    assert all(claim.deletion is None for claim in lab.claims)
    lab.clock.advance(hours=1)
    for _ in range(2):
        report = lab.reconcile()
        assert sum(claim.deletion is not None for claim in lab.claims) == 1
    assert report.counts["expiredButBlocked"] == 2


def test_forceful_expiry_asks_neither_budgets_nor_pods() -> None:
    """A hard date is set on the NodePool; replacements still come first."""
    lab = Lab()
    annotations = {"fleetwright.dev/expiry": "Forceful"}
    budgets = {"budgets": [{"nodes": "0"}]}
    lab.kubernetes.put(
        a_node_pool(template={"expireAfter": "1h"}, disruption=budgets, metadata={"annotations": annotations})
    )
    lab.kubernetes.put(a_pending_pod("p", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(hours=1)
    lab.reconcile()
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == "ExpiredForcefully"
    assert deletion.ends_at is not None
