"""Nodes that have been unhealthy for long enough to be replaced (docs/engineering/handbook/expiry-and-repair.md)."""

from __future__ import annotations

from datetime import timedelta

from core import labels
from core.model.plan import NodeClaim
from core.model.snapshot import Node, Snapshot

_PATIENCE = {
    ("Ready", "False"): 30, ("Ready", "Unknown"): 30, ("AcceleratedHardwareReady", "False"): 10, ("StorageReady", "False"): 30,
    ("NetworkingReady", "False"): 30, ("KernelReady", "False"): 30, ("ContainerRuntimeReady", "False"): 30,
}  # fmt: skip
"""Condition and status → minutes."""


def node_of(snapshot: Snapshot, claim: NodeClaim) -> Node | None:
    """The node of a claim."""
    return next((node for node in snapshot.nodes if node.provider_id == claim.provider_id), None)


def is_ill(snapshot: Snapshot, claim: NodeClaim) -> bool:
    """Whether a condition of its node has lasted long enough."""
    node = node_of(snapshot, claim)
    for condition in node.conditions if node is not None else ():
        minutes, since = _PATIENCE.get((condition.type, condition.status)), condition.changed_at
        if minutes is not None and since is not None and snapshot.now - since >= timedelta(minutes=minutes):
            return True
    return False


def are_many_ill(snapshot: Snapshot, pool: str) -> bool:
    """Whether more than a fifth of the pool's nodes, rounded up, are unhealthy, for any length of time."""
    own = [node for node in snapshot.nodes if node.labels.get(labels.NODEPOOL) == pool]
    own = [node for node in own if node.labels.get(labels.REGISTERED) == "true"]
    bad = [node for node in own if any((c.type, c.status) in _PATIENCE for c in node.conditions)]
    return len(bad) * 5 > len(own) + 4 if len(own) % 5 else len(bad) * 5 > len(own)
