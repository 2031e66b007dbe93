"""What it costs to evict pods, and which pods ReplicaSets remove first on scale-in.

Chooses which pods ReplicaSets remove first on scale-in: those of nodes that are drained next (k8s#2935).

A ReplicaSet first removes the pods with the lowest `controller.kubernetes.io/pod-deletion-cost`. Scale-in then empties the
nodes that a target drains, and fewer pods are evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.model.plan import NodeClaim, StoredTarget
from core.model.pod import Pod
from core.model.snapshot import FeatureGates
from core.pods import int32

LEAVES_FIRST: Final = "-1"
"""Lower than the default cost of 0, and negligible in the cost of an eviction."""

NODES_MAX: Final = 20
"""The most nodes whose pods are marked at once; the next ones follow as these go."""

CHANGES_MAX: Final = 50
"""The most writes of one run."""


class DeletionCostChange(msgspec.Struct, frozen=True, kw_only=True):
    """Annotations to write to a pod; None removes one."""

    namespace: str
    name: str
    uid: str
    annotations: dict[str, str | None]


def nodes_going_next(target: StoredTarget | None) -> frozenset[str]:
    """Return the nodes that a target drains next: those with the highest worth, ties by name."""
    drains = sorted(target.drains, key=lambda drain: (-drain.worth, drain.node)) if target is not None else []
    return frozenset(drain.node for drain in drains[:NODES_MAX])


def deletion_cost_changes(pods: Iterable[Pod], going: Collection[str]) -> tuple[DeletionCostChange, ...]:
    """Return what to write so that the ReplicaSets' pods on the nodes that go, and no others, carry our deletion cost.

    Costs that users set stay. If one pod of a ReplicaSet has one, no other pod of it gets ours: its user ranks them.
    Removals come first.
    """
    pool_pods = sorted((pod for pod in pods if pod.is_active and _has_replica_set(pod)), key=lambda pod: pod.key)
    ranked = {pod.workload for pod in pool_pods if _is_users(pod)}
    undone, made = [], []
    for pod in pool_pods:
        is_ours = labels.STEERED in pod.annotations
        wanted = pod.node_name in going and pod.workload not in ranked
        if is_ours and not wanted:
            removed: dict[str, str | None] = {labels.STEERED: None}
            if not _is_users(pod):
                removed[labels.POD_DELETION_COST] = None
            undone.append(_change(pod, removed))
        elif wanted and not is_ours:
            made.append(_change(pod, {labels.POD_DELETION_COST: LEAVES_FIRST, labels.STEERED: LEAVES_FIRST}))
    return tuple([*undone, *made][:CHANGES_MAX])


def _change(pod: Pod, annotations: dict[str, str | None]) -> DeletionCostChange:
    return DeletionCostChange(namespace=pod.namespace, name=pod.name, uid=pod.uid, annotations=annotations)


def _has_replica_set(pod: Pod) -> bool:
    return any(owner.kind == "ReplicaSet" for owner in pod.owners)


def _is_users(pod: Pod) -> bool:
    """Whether the pod's deletion cost differs from the one that we wrote."""
    cost = pod.annotations.get(labels.POD_DELETION_COST)
    return cost is not None and cost != pod.annotations.get(labels.STEERED)


# Computes the cost of moving pods, by Karpenter's formula: 1 + annotated cost / 2^27 + priority / 2^25, within ±10.


UNIT: Final = 2**27
"""The cost of evicting one ordinary pod."""

_BOUND: Final = 10 * UNIT


NO_GATES: Final = FeatureGates()


def eviction_cost(pod: Pod, gates: FeatureGates = NO_GATES) -> int:
    """Return the cost of evicting the pod.

    Its disruption cost hides its deletion cost, even if it cannot be read. With the gate PodDeletionCostManagement, deletion
    costs order the pods of a ReplicaSet and say nothing of evictions (Karpenter).
    """
    text = pod.annotations.get(labels.DISRUPTION_COST)
    if text is None and not gates.pod_deletion_cost_management:
        text = pod.annotations.get(labels.POD_DELETION_COST)
    return max(-_BOUND, min(_BOUND, UNIT + (int32(text or "") or 0) + 4 * pod.spec.priority))


def reschedule_cost(pods: Iterable[Pod], gates: FeatureGates = NO_GATES) -> int:
    """Return the cost of moving all pods of a node: one unit for the node plus each pod's cost, at least zero each.

    A cost of one unit or less means that the node counts as empty: pods that cost nothing to evict do not keep it.
    """
    return UNIT + sum(max(0, eviction_cost(pod, gates)) for pod in pods)


def disruption_cost(pods: Iterable[Pod], claim: NodeClaim, now: datetime, gates: FeatureGates = NO_GATES) -> int:
    """Return the cost of disrupting a node that repair or a shrinking static NodePool may take (Karpenter).

    All pods of the node count, negative costs too, and the sum shrinks with the share of `expireAfter` that is left.
    """
    cost = sum(eviction_cost(pod, gates) for pod in pods)
    if not claim.expire_after or claim.created_at is None:
        return cost
    second = timedelta(seconds=1)
    lifetime, age = claim.expire_after // second, (now - claim.created_at) // second
    return cost * max(0, min(lifetime, lifetime - age)) // max(lifetime, 1)
