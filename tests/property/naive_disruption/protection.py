"""Judges what protects a node, or a pod on it, from disruption, one object at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.plan import INSTANCE_TERMINATING, NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Node, PodDisruptionBudget, Snapshot
from core.model.values.quantity import parse_duration
from core.model.values.taints import Taint
from tests.property.naive.reading import is_protected, selects, tolerates


def pool_of(snapshot: Snapshot, claim: NodeClaim) -> NodePool | None:
    """The NodePool of a claim."""
    name = claim.labels.get(labels.NODEPOOL)
    return next((pool for pool in snapshot.node_pools if pool.name == name), None)


def pods_on(snapshot: Snapshot, node: str) -> list[Pod]:
    """Every pod on a node that has not finished."""
    return [pod for pod in snapshot.pods if pod.node_name == node and pod.phase not in ("Succeeded", "Failed")]


def is_going(snapshot: Snapshot, claim: NodeClaim) -> bool:
    """Whether the node is already being removed."""
    told = claim.conditions.get(INSTANCE_TERMINATING)
    is_ending = told is not None and told.status == "True"
    return claim.deleted_at is not None or is_ending or claim.name in snapshot.marked_for_deletion


def node_objections(snapshot: Snapshot, node: Node, claim: NodeClaim, reason: str) -> Iterator[str]:
    """Why the node may not be disrupted for a reason, its pods aside."""
    rebooting = claim.conditions.get("Rebooting")
    if rebooting is not None and rebooting.status == "True":
        yield "it is being rebooted"
    if is_going(snapshot, claim) or node.deleted_at is not None:
        yield "it is going already"
    is_new = node.labels.get(labels.INITIALIZED) != "true"
    is_repair = reason == "Unhealthy"
    if is_new and not (is_repair and node.labels.get(labels.REGISTERED) == "true"):
        yield "it is not initialized"
    for name in (node.name, claim.name) if not is_new else ():
        if name in snapshot.nominated_until and snapshot.nominated_until[name] > snapshot.now:
            yield "a pod was nominated to it"
    mark = node.annotations.get(labels.DO_NOT_DISRUPT)
    lasting = parse_duration(mark) if mark is not None and mark != "true" else None
    born = node.created_at or snapshot.now
    is_young = lasting is not None and lasting > timedelta(0) and snapshot.now < born + lasting
    if (mark == "true" or is_young) and not is_repair:
        yield "the node is annotated do-not-disrupt"
    if claim.hold is not None and claim.hold.until > snapshot.now and not is_new:
        yield "it is held"
    if node.unreadable or any(pod.unreadable for pod in pods_on(snapshot, node.name)):
        yield "it cannot be read"
    yield from pool_objections(snapshot, pool_of(snapshot, claim))


def pool_objections(snapshot: Snapshot, pool: NodePool | None) -> Iterator[str]:
    """Why no node of the pool may be disrupted."""
    if pool is None:
        yield "it has no NodePool"
    elif pool.problem:
        yield "its NodePool is invalid"
    elif pool.name in snapshot.paused_pools:
        yield "its NodePool is paused"
    elif not snapshot.catalogue.types_for(pool.node_class.name):
        yield "its NodePool has no types"


def guards(snapshot: Snapshot, pod: Pod) -> list[PodDisruptionBudget]:
    """The PodDisruptionBudgets that the eviction API would check for the pod."""
    if pod.deleted_at is not None or pod.phase in ("Succeeded", "Failed") or is_protected(pod, snapshot.now):
        return []
    if any(owner.kind == "Node" for owner in pod.owners):
        return []
    if tolerates(pod.spec.tolerations, [Taint(labels.DISRUPTED_TAINT, "NoSchedule")]):
        return []
    found = [b for b in snapshot.budgets if b.namespace == pod.namespace and selects(b.selector, pod.labels)]
    if len(found) == 1 and pod.is_ready is False and found[0].unhealthy_pod_eviction_policy == "AlwaysAllow":
        return []  # of two budgets the API ignores neither: it answers with an error
    return found


def evictions_allowed(snapshot: Snapshot, budget: PodDisruptionBudget) -> int:
    """How many pods of a budget may be evicted now: its status, or what the disruption controller would write there."""
    if budget.disruptions_allowed is not None:
        return budget.disruptions_allowed
    own = [pod for pod in snapshot.pods if pod.namespace == budget.namespace and selects(budget.selector, pod.labels)]
    own = [pod for pod in own if pod.phase not in ("Succeeded", "Failed")]
    well = [pod for pod in own if pod.phase == "Running" and pod.deleted_at is None and pod.is_ready is not False]
    text = budget.max_unavailable if budget.max_unavailable is not None else budget.min_available
    if text is None:
        return len(well)
    number = -(-len(own) * int(text[:-1]) // 100) if text.endswith("%") else int(text)
    desired = max(0, len(own) - number) if budget.max_unavailable is not None else number
    return max(0, len(well) - desired)


def with_statuses(snapshot: Snapshot) -> Snapshot:
    """The snapshot whose PodDisruptionBudgets say how many pods may be evicted now.

    That holds for all commands (Karpenter reads the status): a protected pod stays on its node until the grace period is over,
    so that other pods' budgets count it as long.
    """
    budgets = (
        msgspec.structs.replace(budget, disruptions_allowed=evictions_allowed(snapshot, budget))
        for budget in snapshot.budgets
    )
    return msgspec.structs.replace(snapshot, budgets=tuple(budgets))


def pod_objections(snapshot: Snapshot, node: Node) -> Iterator[str]:
    """The pods that block the node's disruption."""
    for pod in pods_on(snapshot, node.name):
        if is_protected(pod, snapshot.now):
            yield f"pod {pod.key} is annotated do-not-disrupt"
        asked = guards(snapshot, pod)
        if len(asked) > 1:
            yield f"pod {pod.key} has two budgets"
        elif any(evictions_allowed(snapshot, budget) <= 0 for budget in asked):
            yield f"the budget of pod {pod.key} lets nobody go"
