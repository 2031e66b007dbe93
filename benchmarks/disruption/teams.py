"""Drawn fleets as teams of one cluster: none of their pods may use another team's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from core import labels
from core.model.plan import NodeClaim
from core.model.snapshot import Node, Snapshot
from core.model.values.taints import Taint, Toleration


def of_team(snapshot: Snapshot, team: str) -> Snapshot:
    """The same cluster with names of its own; a taint keeps pods of other teams from its nodes, and its pods tolerate it."""
    taint = Taint("team", "NoSchedule", team)
    tolerations = (Toleration(key="team", operator="Equal", value=team, effect="NoSchedule"),)
    replace = msgspec.structs.replace

    def named(name: str) -> str:
        return f"{team}-{name}"

    def labelled(of_node: dict[str, str]) -> dict[str, str]:
        of_team: dict[str, str] = {
            key: named(of_node[key]) for key in (labels.NODEPOOL, labels.HOSTNAME) if key in of_node
        }
        return {**of_node, **of_team, "team": team}

    def machine(obj: Node | NodeClaim) -> dict[str, Any]:
        return {
            "name": named(obj.name),
            "provider_id": named(obj.provider_id),
            "labels": labelled(obj.labels),
            "taints": (taint,),
        }

    return replace(
        snapshot,
        nodes=tuple(replace(node, **machine(node)) for node in snapshot.nodes),
        node_claims=tuple(
            replace(claim, **machine(claim), node_name=named(claim.node_name)) for claim in snapshot.node_claims
        ),
        node_pools=tuple(replace(pool, name=named(pool.name), taints=(taint,)) for pool in snapshot.node_pools),
        pods=tuple(
            replace(
                pod,
                namespace=team,
                node_name=pod.node_name and named(pod.node_name),
                spec=replace(pod.spec, tolerations=tolerations),
            )
            for pod in snapshot.pods
        ),
        budgets=tuple(replace(budget, namespace=team) for budget in snapshot.budgets),
    )


def together(clusters: Sequence[Snapshot], **options: Any) -> Snapshot:
    """These clusters as one, with changed options."""
    joined_fields = {
        name: tuple(obj for cluster in clusters for obj in getattr(cluster, name))
        for name in ("nodes", "node_claims", "node_pools", "pods", "budgets")
    }
    changed = msgspec.structs.replace(clusters[0].options, **options)
    return msgspec.structs.replace(clusters[0], options=changed, **joined_fields)
