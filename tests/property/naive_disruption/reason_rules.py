"""Judges whether the stated reason of each disrupted node is true."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.plan import INSTANCE_TERMINATING, Command, NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Node, PodDisruptionBudget, Snapshot
from core.model.values.quantity import parse_duration
from core.model.values.taints import Taint
from tests.property.naive.places import must_move
from tests.property.naive.reading import is_protected, meets_all, selects, tolerates
from tests.property.naive_disruption.residents import are_many_ill, is_ill

# Judges what protects a node, or a pod on it, from disruption, one object at a time.


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
    budgets = [b for b in snapshot.budgets if b.namespace == pod.namespace and selects(b.selector, pod.labels)]
    if len(budgets) == 1 and pod.is_ready is False and budgets[0].unhealthy_pod_eviction_policy == "AlwaysAllow":
        return []  # of two budgets the API ignores neither: it answers with an error
    return budgets


def evictions_allowed(snapshot: Snapshot, budget: PodDisruptionBudget) -> int:
    """How many pods of a budget may be evicted now: its status, or what the disruption controller would write there."""
    if budget.disruptions_allowed is not None:
        return budget.disruptions_allowed
    selected = [
        pod for pod in snapshot.pods if pod.namespace == budget.namespace and selects(budget.selector, pod.labels)
    ]
    selected = [pod for pod in selected if pod.phase not in ("Succeeded", "Failed")]
    well = [pod for pod in selected if pod.phase == "Running" and pod.deleted_at is None and pod.is_ready is not False]
    text = budget.max_unavailable if budget.max_unavailable is not None else budget.min_available
    if text is None:
        return len(well)
    number = -(-len(selected) * int(text[:-1]) // 100) if text.endswith("%") else int(text)
    desired = max(0, len(selected) - number) if budget.max_unavailable is not None else number
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
        budgets = guards(snapshot, pod)
        if len(budgets) > 1:
            yield f"pod {pod.key} has two budgets"
        elif any(evictions_allowed(snapshot, budget) <= 0 for budget in budgets):
            yield f"the budget of pod {pod.key} lets nobody go"


_UNIT = 2**27
_EMPTY = "it is empty"


def moving_cost(pods: list[Pod]) -> int:
    """The disruption cost of these pods, in 2^27ths of an ordinary pod, plus one for the node itself."""
    total = _UNIT
    for pod in pods:
        if must_move(pod):
            annotated = pod.annotations.get(labels.DISRUPTION_COST, pod.annotations.get(labels.POD_DELETION_COST, "0"))
            cost = _UNIT + int(annotated) + pod.spec.priority * 4
            total += min(max(cost, 0), 10 * _UNIT)
    return total


def quiet_since(claim: NodeClaim) -> datetime | None:
    """The time since which no pod came or went."""
    begun = claim.conditions.get("Initialized")
    return claim.last_pod_event_at or (begun.changed_at if begun is not None else None) or claim.created_at


def is_recently_changed(pool: NodePool, claim: NodeClaim, now: datetime) -> bool:
    """Whether consolidateAfter still protects the node."""
    after, since = pool.disruption.consolidate_after, quiet_since(claim)
    return after is None or (since is not None and now - since < after)


def is_drifted(snapshot: Snapshot, claim: NodeClaim, pool: NodePool) -> bool:
    """Whether it differs from its NodePool's template; classes and images are not part of these worlds."""
    told = claim.conditions.get("Drifted")
    if told is not None and told.status == "True":
        return True
    ours = [claim.annotations.get(key) for key in (labels.NODEPOOL_HASH_VERSION, labels.NODEPOOL_HASH)]
    theirs = [pool.own_annotations.get(key) for key in (labels.NODEPOOL_HASH_VERSION, labels.NODEPOOL_HASH)]
    if None not in (*ours, *theirs) and ours[0] == theirs[0] and ours[1] != theirs[1]:
        return True
    if not meets_all(pool.requirements, claim.labels):
        return True
    kind = claim.labels.get(labels.INSTANCE_TYPE)
    place = (kind, claim.labels.get(labels.ZONE), claim.labels.get(labels.CAPACITY_TYPE))
    types = snapshot.catalogue.types_for(pool.node_class.name)
    offered = {(t.name, o.zone, o.capacity_type) for t in types for o in t.offerings}
    is_old = claim.created_at is not None and snapshot.now - claim.created_at > timedelta(hours=1)
    return is_old and place not in offered


def reason_violations(snapshot: Snapshot, command: Command) -> Iterator[str]:
    """Every node of a command that may not go, or not for that reason, when the command is carried out."""
    nodes, claims = ({obj.name: obj for obj in objects} for objects in (snapshot.nodes, snapshot.node_claims))
    if len(command.nodes) != len(command.claims) or len(set(command.nodes)) != len(command.nodes) or not command.nodes:
        yield f"lists: {command.nodes} and {command.claims}"
        return
    for node_name, claim_name in zip(command.nodes, command.claims, strict=True):
        node, claim = nodes.get(node_name), claims.get(claim_name)
        if node is None or claim is None or node.provider_id != claim.provider_id:
            yield f"lists: {node_name} and {claim_name} are no node and its claim"
            continue
        if claim.created_at == snapshot.now:
            yield f"lists: {node_name} is to be launched by an earlier command"
        for why in may_not_go(snapshot, node, claim, command.reason):
            if why == _EMPTY and len(command.nodes) > 1:
                # pods may have moved to it before it went; the command that moved them is merged into this one
                continue
            yield f"{command.method}: {node_name} goes for {command.reason} although {why}"
    if command.method in ("emptiness", "static-drift", "repair", "single") and len(command.nodes) != 1:
        yield f"lists: {command.method} takes {command.nodes}"


def may_not_go(snapshot: Snapshot, node: Node, claim: NodeClaim, reason: str) -> Iterator[str]:
    """Why a node may not be disrupted for a reason; budgets and places for its pods aside."""
    yield from node_objections(snapshot, node, claim, reason)
    pool = pool_of(snapshot, claim)
    if pool is None:
        return
    if reason != "Unhealthy" and (reason != "Drifted" or claim.termination_grace_period is None):
        yield from pod_objections(snapshot, node)
    if reason == "Drifted":
        if not is_drifted(snapshot, claim, pool):
            yield "it has not drifted"
    elif reason == "Unhealthy":
        if not snapshot.options.feature_gates.node_repair:
            yield "nodes are not repaired here"
        if not is_ill(snapshot, claim):
            yield "it is well"
        if "true" in (obj.annotations.get("karpenter.sh/do-not-repair") for obj in (node, claim)):
            yield "it is annotated do-not-repair"
        if are_many_ill(snapshot, pool.name):
            yield "too many are ill"
    elif reason in ("Empty", "Underutilized"):
        yield from _not_worth_it(snapshot, node, claim, pool, reason)
    else:
        yield "nobody knows the reason"


def _not_worth_it(snapshot: Snapshot, node: Node, claim: NodeClaim, pool: NodePool, reason: str) -> Iterator[str]:
    if pool.replicas is not None:
        yield "its NodePool keeps a fixed number"
    if is_recently_changed(pool, claim, snapshot.now):
        yield "consolidateAfter is not over"
    is_empty = moving_cost(pods_on(snapshot, node.name)) <= _UNIT
    if reason == "Empty" and not is_empty:
        yield "somebody would miss it"
    if reason == "Underutilized":
        if is_empty:
            yield _EMPTY
        if pool.disruption.policy == "WhenEmpty":
            yield "only empty nodes are to go"
        type_names = {kind.name for kind in snapshot.catalogue.types_for(pool.node_class.name)}
        if node.labels.get(labels.INSTANCE_TYPE) not in type_names:
            yield "it has no price"
