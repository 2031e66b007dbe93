"""Warns about kinds that a command needs and the input lacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from cli.manifests import KUBECTL
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource

CONSOLIDATE: Final = "consolidate"

_FOLLOWS: Final[Mapping[Resource, str]] = {
    resources.NODE_POOLS: "NodePools (nothing can be launched)",
    resources.NODE_CLAIMS: "NodeClaims (no node counts as ours)",
    resources.DAEMON_SETS: "DaemonSets (new nodes are planned without room for them)",
    resources.PODS: "Pods (every node looks empty)",
    resources.POD_DISRUPTION_BUDGETS: "PodDisruptionBudgets (evictions look unlimited)",
}
_NEEDED: Final[Mapping[str, tuple[Resource, ...]]] = {
    "plan": (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.DAEMON_SETS, resources.PODS),
    "explain": (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.DAEMON_SETS),
    CONSOLIDATE: tuple(_FOLLOWS),
    "status": (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.PODS),
}
"""Command → the kinds that it needs from a cluster, besides nodes."""


def missing(command: str, present: Mapping[Resource, Collection[Any]], *, ours_by_annotation: bool) -> str:
    """Return a warning about kinds that a cluster's input lacks, empty if it lacks none or is not from a cluster.

    Args:
        command: The command.
        present: The objects of the input by kind.
        ours_by_annotation: Whether a node names its claim itself, so that NodeClaims are not needed.
    """
    if not present.get(resources.NODES):
        return f"the input has no Nodes, so none can go; complete: {KUBECTL}" if command == CONSOLIDATE else ""
    lacking = [kind for kind in _NEEDED.get(command, ()) if not present.get(kind)]
    if ours_by_annotation and resources.NODE_CLAIMS in lacking:
        lacking.remove(resources.NODE_CLAIMS)
    if not lacking:
        return ""
    return f"the input has Nodes but no {', '.join(_FOLLOWS[kind] for kind in lacking)}; complete: {KUBECTL}"
