"""Nodes that have been unhealthy for long enough to be replaced (docs/engineering/handbook/expiry-and-repair.md)."""

from __future__ import annotations

from datetime import timedelta

from core import labels
from core.model.plan import NodeClaim
from core.model.snapshot import Node, Snapshot

_PATIENCE = {
    ("Ready", "False"): 30, ("Ready", "Unknown"): 30, ("AcceleratedHardwareReady", "False"): 30, ("StorageReady", "False"): 30,
    ("NetworkingReady", "False"): 30, ("KernelReady", "False"): 30, ("ContainerRuntimeReady", "False"): 30,
}  # fmt: skip
"""Condition and status → minutes."""

_KNOWN_FAULTS = (46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)
"""Numbers of accelerator faults that are certain after ten minutes."""


def node_of(snapshot: Snapshot, claim: NodeClaim) -> Node | None:
    """The node of a claim."""
    return next((node for node in snapshot.nodes if node.provider_id == claim.provider_id), None)


def is_ill(snapshot: Snapshot, claim: NodeClaim) -> bool:
    """Whether a condition of its node has lasted long enough."""
    node = node_of(snapshot, claim)
    for condition in node.conditions if node is not None else ():
        minutes = _PATIENCE.get((condition.type, condition.status))
        if condition.type == "AcceleratedHardwareReady" and any(f"XID{n}" in condition.reason for n in _KNOWN_FAULTS):
            minutes = minutes and 10
        times = [moment for moment in (condition.changed_at, node and node.created_at) if moment is not None]
        rebooting = claim.conditions.get("Rebooting")
        if rebooting is not None and rebooting.status == "False" and rebooting.changed_at is not None:
            times.append(rebooting.changed_at)
        if minutes is not None and times and snapshot.now - max(times) >= timedelta(minutes=minutes):
            return True
    return False


def are_many_ill(snapshot: Snapshot, pool: str) -> bool:
    """Whether more than a fifth of the pool's nodes, rounded up, are unhealthy, for any length of time."""
    own = [node for node in snapshot.nodes if node.labels.get(labels.NODEPOOL) == pool]
    own = [node for node in own if node.labels.get(labels.REGISTERED) == "true"]
    bad = [node for node in own if any((c.type, c.status) in _PATIENCE for c in node.conditions)]
    return len(bad) * 5 > len(own) + 4 if len(own) % 5 else len(bad) * 5 > len(own)
