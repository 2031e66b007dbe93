"""Judges whether the stated reason of each disrupted node is true."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from core import labels
from core.model.node_pool import NodePool
from core.model.plan import Command, NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Node, Snapshot
from tests.property.naive.places import must_move
from tests.property.naive.reading import meets_all
from tests.property.naive_disruption.illness import are_many_ill, is_ill
from tests.property.naive_disruption.protection import node_objections, pod_objections, pods_on, pool_of

_UNIT = 2**27
_EMPTY = "it is empty"


def moving_cost(pods: list[Pod]) -> int:
    """The disruption cost of these pods, in 2^27ths of an ordinary pod, plus one for the node itself."""
    total = _UNIT
    for pod in pods:
        if must_move(pod):
            asked = pod.annotations.get(labels.DISRUPTION_COST, pod.annotations.get(labels.POD_DELETION_COST, "0"))
            cost = _UNIT + int(asked) + pod.spec.priority * 4
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
    nodes, claims = ({one.name: one for one in found} for found in (snapshot.nodes, snapshot.node_claims))
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
        if "true" in (found.annotations.get("karpenter.sh/do-not-repair") for found in (node, claim)):
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
        known = {kind.name for kind in snapshot.catalogue.types_for(pool.node_class.name)}
        if node.labels.get(labels.INSTANCE_TYPE) not in known:
            yield "it has no price"
