"""Existing nodes as every plan begins with them."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.model.node import Node
from core.model.node_claim import INITIALIZED, Condition, NodeClaim
from core.model.node_pool import Disruption
from core.model.policy import DaemonSet
from core.scheduling.context import KnownParts, SchedulingContext
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, places, plan_of

TYPE = a_type("m")


def test_initialized_nodes_are_tried_before_nodes_that_boot() -> None:
    """Otherwise, a pod that could run at once waits for a node whose name comes first."""
    claim, node = a_node_of(TYPE, "a")
    boots = msgspec.structs.replace(node, labels={k: v for k, v in node.labels.items() if k != labels.INITIALIZED})
    waits = msgspec.structs.replace(claim, conditions={k: v for k, v in claim.conditions.items() if k != INITIALIZED})
    ready_claim, ready = a_node_of(TYPE, "b")
    world = {"nodes": (boots, ready), "node_claims": (waits, ready_claim), "pods": (a_pod("p"),)}
    assert [found.name for found in context_of(types=(TYPE,), **world).existing_nodes] == ["b", "a"]
    assert places(plan_of(types=(TYPE,), **world)) == {"p": "b"}


def recently_changed(
    claim: NodeClaim | None, node: Node, after: timedelta | None = timedelta(minutes=5), pool: str = "default"
) -> bool:
    pools = (a_pool(pool, disruption=Disruption(consolidate_after=after)),)
    claims = () if claim is None else (claim,)
    (found,) = context_of(types=(TYPE,), nodes=(node,), node_claims=claims, node_pools=pools).existing_nodes
    return found.is_recently_changed


def test_a_node_has_recently_changed_while_its_consolidate_after_runs() -> None:
    """Consolidation moves no pod onto it: the node would never become quiet."""
    claim, node = a_node_of(TYPE, "a")
    fresh = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=4))
    assert recently_changed(fresh, node)
    assert not recently_changed(msgspec.structs.replace(fresh, last_pod_event_at=NOW - timedelta(minutes=5)), node)
    assert not recently_changed(fresh, node, after=None), "nothing consolidates it"
    assert not recently_changed(fresh, node, after=timedelta(0))
    assert not recently_changed(fresh, node, pool="another"), "its NodePool is gone"
    assert not recently_changed(None, node), "it is a node of others"


def test_without_a_pod_a_node_has_changed_when_it_was_initialized() -> None:
    claim, node = a_node_of(TYPE, "a")
    conditions = {**claim.conditions, INITIALIZED: Condition("True", changed_at=NOW - timedelta(minutes=4))}
    young = msgspec.structs.replace(claim, last_pod_event_at=None, conditions=conditions)
    assert recently_changed(young, node)
    boots = {**conditions, INITIALIZED: Condition("False", changed_at=NOW - timedelta(minutes=4))}
    assert not recently_changed(msgspec.structs.replace(young, conditions=boots), node)
    assert not recently_changed(msgspec.structs.replace(young, conditions={}), node)


def test_known_rooms_are_those_that_each_snapshot_has_alone() -> None:
    """A simulation keeps the rooms of nodes that did not change: nothing else that rooms depend on may be missed."""
    nodes = [a_node_of(TYPE, name) for name in ("a", "b", "c")]
    pods = (a_pod("p", node_name="a"), a_pod("q", node_name="b"), a_pod("w"))
    first = a_snapshot(
        types=(TYPE,),
        pods=pods,
        node_pools=(a_pool(disruption=Disruption(consolidate_after=timedelta(minutes=5))),),
        nodes=tuple(node for _, node in nodes),
        node_claims=tuple(claim for claim, _ in nodes),
    )
    changed = msgspec.structs.replace(nodes[0][0], last_pod_event_at=NOW)
    gpu = a_pod("gpu", node_name="c", requests={"nvidia.com/gpu": 1})
    daemon = DaemonSet(namespace="kube-system", name="agent", spec=a_pod("d", cpu="100m").spec)
    snapshots = [
        first,
        msgspec.structs.replace(first, pods=(*pods[1:], msgspec.structs.replace(pods[0], node_name="c"))),
        msgspec.structs.replace(first, node_claims=(changed, *first.node_claims[1:])),
        msgspec.structs.replace(first, now=NOW + timedelta(hours=1), nodes=first.nodes[1:]),
        msgspec.structs.replace(first, pods=(*pods, gpu)),
        msgspec.structs.replace(first, daemon_sets=(daemon,)),
        msgspec.structs.replace(first, marked_for_deletion=(nodes[1][0].name,)),
        first,
    ]
    known = KnownParts()
    for snapshot in snapshots:
        found = SchedulingContext(snapshot, known=known).existing_nodes
        alone = SchedulingContext(snapshot).existing_nodes
        assert [msgspec.structs.astuple(one) for one in found] == [msgspec.structs.astuple(one) for one in alone]


def test_the_room_of_an_unchanged_node_is_computed_once() -> None:
    claim, node = a_node_of(TYPE, "a")
    snapshot = a_snapshot(types=(TYPE,), nodes=(node,), node_claims=(claim,), pods=(a_pod("p", node_name="a"),))
    known = KnownParts()
    frees = [
        SchedulingContext(msgspec.structs.replace(snapshot, now=now), known=known).existing_nodes[0].free
        for now in (NOW, NOW + timedelta(minutes=1))
    ]
    assert frees[0] is frees[1]
