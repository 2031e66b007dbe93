"""Nodes that have reached their age: within budgets, or at any price."""

from __future__ import annotations

from core import labels
from core.manifests.wire import api_resources as kinds
from core.reasons.node import NodeReason
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
    (leaving,) = (claim for claim in lab.claims if claim.deletion is not None)
    (told,) = (found for found in report.decisions if found.reason == NodeReason.BUDGET)
    assert told.subject == "default"
    assert told.message == (
        "2 nodes wait for their turn: the disruption budgets of NodePool default let 1 of 3 nodes go for Expired now; "
        f"their places are taken by {leaving.node_name}"
    )


def test_one_expired_node_that_a_pod_keeps_holds_up_no_other() -> None:
    """Each goes by itself, so what keeps one says nothing about the rest."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}, disruption={"budgets": [{"nodes": "100%"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(3)))
    lab.settle()
    nodes = lab.kubernetes.names(kinds.NODES)
    assert len(nodes) == 3
    veto = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    running = {"spec": {"nodeName": nodes[0]}, "metadata": veto, "status": {"phase": "Running", "conditions": []}}
    lab.kubernetes.amend(kinds.PODS, "p0", running, namespace="default")
    lab.clock.advance(hours=1)
    report = lab.reconcile()
    assert sorted(claim.node_name for claim in lab.claims if claim.deletion is not None) == nodes[1:]
    assert report.counts["expiredButBlocked"] == 1


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
