"""Releases our Node objects that belong to no claim and whose instance is gone.

EKS deletes such Nodes itself; only our finalizer then keeps them. The sweep removes the finalizer, so it needs no permission to
delete.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from adapters.ports import CloudProvider, Kubernetes
from core import labels
from core.model.node import Node
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.nodes.node_patches import delete_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

ORPHANED_AFTER: Final = timedelta(minutes=5)
"""The minimum age: a younger Node may have joined after the instances were listed."""


class OrphanedNodes(Sweep):
    """Releases deleted Nodes. EC2 is queried once more by id, and a node that reports Ready is kept."""

    name = "strayNodes"

    def __init__(self, kubernetes: Kubernetes, cloud: CloudProvider) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud

    def run(self, round_: ReconcileRound) -> None:
        """Release the nodes that are old and not ready."""
        present = {found.provider_id for found in round_.instances}
        known = {record.provider_id for record in round_.view.claims.values()}
        unknown = (node for node in round_.view.snapshot.nodes if node.provider_id not in present | known)
        now = round_.clock.now()
        orphans = [node for node in unknown if labels.CLAIM in node.annotations and _is_dead(node, now)]
        if not orphans:
            return
        alive = {found.provider_id for found in self._cloud.instances([_instance_of(node) for node in orphans])}
        reader = NodeStateReader(self._kubernetes, self._cloud, round_.clock)

        def remove(node: Node) -> None:
            seen = reader.node(node.name)
            if seen is not None and seen.node.uid == node.uid and _is_dead(seen.node, round_.clock.now()):
                delete_node(self._kubernetes, seen)
                round_.report.decide(
                    DecisionKind.FORGET, node.name, ClaimReason.STRAY_NODE, f"its instance {_instance_of(node)} is gone"
                )

        gone = [node for node in orphans if node.provider_id not in alive]
        round_.each(gone, remove, subject=lambda node: node.name)


def _is_dead(node: Node, now: datetime) -> bool:
    """Whether we may release the node: it is deleted, old and not Ready, and has our finalizer."""
    old = node.created_at is None or now - node.created_at >= ORPHANED_AFTER
    awaits_finalizer = node.deleted_at is not None and labels.TERMINATION_FINALIZER in node.finalizers
    return old and not node.is_ready and awaits_finalizer


def _instance_of(node: Node) -> str:
    return node.provider_id.rpartition("/")[2]
