"""Existing nodes as every plan begins with them."""

from __future__ import annotations

import sys
from datetime import timedelta
from random import Random

import msgspec
import pytest

from core import labels
from core.model.node_pool import Disruption
from core.model.plan import INITIALIZED, Condition, NodeClaim
from core.model.pod import NodeSelectorTerm
from core.model.snapshot import DaemonSet, Node
from core.model.values.quantity import AMOUNT_MAX
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from core.scheduling.context import KnownParts, SchedulingContext
from core.scheduling.existing_node import USED_MIN, NodeIndex, RoomLeft, daemon_pods
from core.scheduling.primitives import RequirementTable, ResourceAxis, has_room, positions
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, places, plan_of

# The room that DaemonSets leave on a new node.


def a_daemon_set(name: str, cpu: str, **spec: object) -> DaemonSet:
    return DaemonSet(namespace="default", name=name, spec=a_pod(cpu=cpu, memory="0", **spec).spec)


def test_only_types_that_get_the_pod_have_less_room() -> None:
    """Otherwise, a pod does not fit the node that was launched for it, or a larger one is launched without need."""
    only_b = (Requirement.one_of(labels.INSTANCE_TYPE, "b"),)
    daemons = (a_daemon_set("all", "500m"), a_daemon_set("some", "1", node_selector=only_b))
    context = context_of(types=(a_type("a", cpu="4"), a_type("b", cpu="4")), daemon_sets=daemons)
    (template,), cpu = context.templates, context.axis.names.index("cpu")
    assert [room[cpu] for room in template.types.room.vectors] == [3500, 2500]


def test_each_alternative_of_a_daemonsets_affinity_counts_on_every_type() -> None:
    """Karpenter drops an alternative that a type does not meet for all types that it looks at later."""
    either = tuple(NodeSelectorTerm((Requirement.one_of(labels.INSTANCE_TYPE, name),)) for name in ("a", "c"))
    types = tuple(a_type(name, cpu="4") for name in ("a", "b", "c", "d"))
    context = context_of(types=types, daemon_sets=(a_daemon_set("some", "1", required_terms=either),))
    (template,), cpu = context.templates, context.axis.names.index("cpu")
    assert [room[cpu] for room in template.types.room.vectors] == [3000, 4000, 3000, 4000]


def test_a_preference_against_pods_keeps_no_daemon_away() -> None:
    """The DaemonSet controller places its pods there, so room that is planned for others would be theirs."""
    daemons = (a_daemon_set("all", "500m"),)
    for effect, room in ((PREFER_NO_SCHEDULE, 3500), (NO_SCHEDULE, 4000)):
        pool = a_pool(taints=(Taint("dedicated", effect),))
        context = context_of(types=(a_type("a", cpu="4"),), node_pools=(pool,), daemon_sets=daemons)
        (template,), cpu = context.templates, context.axis.names.index("cpu")
        assert template.types.room.vectors[0][cpu] == room


def test_a_daemonset_that_needs_resource_claims_is_left_out() -> None:
    """Otherwise, room is kept for pods that are not planned for."""
    table = RequirementTable(labels.WELL_KNOWN)
    dra = a_daemon_set("gpu", "1", resource_claims=("gpu",))
    assert [d.source.name for d in daemon_pods((dra, a_daemon_set("a", "1")), ResourceAxis(["cpu"]), table)] == ["a"]


TYPE = a_type("m")


def test_initialized_nodes_are_tried_before_nodes_that_boot() -> None:
    """Otherwise, a pod that could run at once waits for a node whose name comes first."""
    claim, node = a_node_of(TYPE, "a")
    boots = msgspec.structs.replace(node, labels={k: v for k, v in node.labels.items() if k != labels.INITIALIZED})
    waits = msgspec.structs.replace(claim, conditions={k: v for k, v in claim.conditions.items() if k != INITIALIZED})
    ready_claim, ready = a_node_of(TYPE, "b")
    world = {"nodes": (boots, ready), "node_claims": (waits, ready_claim), "pods": (a_pod("p"),)}
    assert [node.name for node in context_of(types=(TYPE,), **world).existing_nodes] == ["b", "a"]
    assert places(plan_of(types=(TYPE,), **world)) == {"p": "b"}


def recently_changed(
    claim: NodeClaim | None, node: Node, after: timedelta | None = timedelta(minutes=5), pool: str = "default"
) -> bool:
    pools = (a_pool(pool, disruption=Disruption(consolidate_after=after)),)
    claims = () if claim is None else (claim,)
    (found,) = context_of(types=(TYPE,), nodes=(node,), node_claims=claims, node_pools=pools).existing_nodes
    return found.takes_no_moves


def test_a_node_has_recently_changed_while_its_consolidate_after_runs() -> None:
    """Consolidation moves no pod onto it: the node would never become quiet."""
    claim, node = a_node_of(TYPE, "a")
    fresh = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=4))
    assert recently_changed(fresh, node)
    assert not recently_changed(msgspec.structs.replace(fresh, last_pod_event_at=NOW - timedelta(minutes=5)), node)
    assert not recently_changed(fresh, node, after=None), "nothing consolidates it"
    assert not recently_changed(fresh, node, after=timedelta(0))
    assert not recently_changed(fresh, node, pool="another"), "its NodePool is gone"


@pytest.mark.parametrize(("phase", "is_moved_to"), [("Running", True), ("Pending", False)])
def test_consolidation_moves_no_pods_to_a_node_of_others_on_which_nothing_runs(
    phase: str, *, is_moved_to: bool
) -> None:
    """Anyone who may create Nodes can write one without an instance; kube-scheduler may bind to it, but no node goes for it."""
    node = a_node_of(TYPE, "a")[1]
    pod = a_pod("p", node_name="a", phase=phase)
    (seen,) = context_of(types=(TYPE,), nodes=(node,), node_claims=(), pods=(pod,)).existing_nodes
    assert seen.takes_no_moves is not is_moved_to


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
        existing = SchedulingContext(snapshot, known=known).existing_nodes
        alone = SchedulingContext(snapshot).existing_nodes
        assert [msgspec.structs.astuple(node) for node in existing] == [msgspec.structs.astuple(node) for node in alone]


def test_the_room_of_an_unchanged_node_is_computed_once() -> None:
    claim, node = a_node_of(TYPE, "a")
    snapshot = a_snapshot(types=(TYPE,), nodes=(node,), node_claims=(claim,), pods=(a_pod("p", node_name="a"),))
    known = KnownParts()
    frees = [
        SchedulingContext(msgspec.structs.replace(snapshot, now=now), known=known).existing_nodes[0].free
        for now in (NOW, NOW + timedelta(minutes=1))
    ]
    assert frees[0] is frees[1]


# Queries over all nodes at once.


NODE_INDEX_TYPE = a_type("m", cpu="4")


def test_suitable_nodes_agree_with_checking_each() -> None:
    """Otherwise, a pod is placed on a node that does not meet its requirements."""
    plain = a_node_of(NODE_INDEX_TYPE, "n0", zone=ZONES[0])
    tainted = a_node_of(NODE_INDEX_TYPE, "n1", zone=ZONES[1], taints=(Taint("team", NO_SCHEDULE, "a"),))
    context = context_of(types=(NODE_INDEX_TYPE,), nodes=(plain[1], tainted[1]), node_claims=(plain[0], tainted[0]))
    table = context.table
    index = NodeIndex(context.existing_nodes, table)
    anywhere = table.conjunction(())
    second = table.conjunction((Requirement.one_of(labels.ZONE, ZONES[1]),))
    tolerant = (Toleration(key="team", operator="Exists"),)
    assert [node.name for node in index.nodes] == ["n0", "n1"]
    assert (index.suitable((anywhere,), ()), index.suitable((anywhere,), tolerant)) == (0b01, 0b11)
    assert (index.suitable((second,), tolerant), index.suitable((second,), ())) == (0b10, 0)
    assert dict(index.domains(labels.ZONE)) == {ZONES[0]: 0b01, ZONES[1]: 0b10}
    assert list(index.values("absent")) == [None, None]
    assert index.with_room(context.existing_nodes[0].free) == 0b11


def test_every_node_with_a_label_suits_pods_that_need_it() -> None:
    """Otherwise, a node with room stays unused, and another is launched."""
    pairs = [a_node_of(NODE_INDEX_TYPE, f"n{number}", zone=ZONES[number]) for number in range(3)]
    context = context_of(
        types=(NODE_INDEX_TYPE,), nodes=tuple(node for _, node in pairs), node_claims=tuple(c for c, _ in pairs)
    )
    index = NodeIndex(context.existing_nodes, context.table)
    exists = Requirement.of(labels.ZONE, "Exists")
    elsewhere = context.table.conjunction((exists, Requirement.of(labels.ZONE, "NotIn", ["zone-x"])))
    not_first = context.table.conjunction((exists, Requirement.of(labels.ZONE, "NotIn", [ZONES[0]])))
    unknown = context.table.conjunction((Requirement.of("team", "Exists"), Requirement.of("team", "NotIn", ["red"])))
    assert index.suitable((elsewhere,), ()) == 0b111
    assert index.suitable((not_first,), ()) == 0b110
    assert index.suitable((unknown,), ()) == 0


def test_the_nodes_that_lack_room_are_those_that_a_check_of_each_refuses() -> None:
    """Otherwise, a pod is kept off a node that has room, and a new one is launched for it."""
    draw = Random(1)  # noqa: S311 - not for secrets
    pairs = [a_node_of(NODE_INDEX_TYPE, f"n{number:02}") for number in range(USED_MIN + 8)]
    nodes, node_claims = tuple(node for _, node in pairs), tuple(claim for claim, _ in pairs)
    # A pod with a request of nothing may join a node that is overcommitted.
    sizes = [{}, {"cpu": 500}, {"cpu": 3000, "memory": 2**30}, {"memory": AMOUNT_MAX}]
    pods = tuple(a_pod(f"p{number}", requests=amounts) for number, amounts in enumerate(sizes))
    context = context_of(types=(NODE_INDEX_TYPE,), nodes=nodes, node_claims=node_claims, pods=pods)
    requests = [context.pod_groups.of(pod).requests for pod in context.pending]
    room = RoomLeft(context.node_index)
    for _ in range(USED_MIN - 1):
        room.take(len(room.used), requests[0])
    assert room.lacking(requests[3]) == 0  # few are in use, so each is checked by itself
    for _ in range(60):
        room.take(draw.randrange(len(nodes)), draw.choice(requests))
        for wanted in requests:
            free = [room.used.get(node.index, node.free) for node in context.existing_nodes]
            short = {p for p, free_room in enumerate(free) if not has_room(wanted, free_room)}
            assert set(positions(room.lacking(wanted))) == (short if len(room.used) >= USED_MIN else set())
    other = RoomLeft(context.node_index)
    other.take_like(room)
    assert [other.lacking(wanted) for wanted in requests] == [room.lacking(wanted) for wanted in requests]


def test_a_function_without_numpy_compares_each_node_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """`execute` validates commands, and its bundle has no solver: an import that fails would end the validation."""
    pairs = [a_node_of(NODE_INDEX_TYPE, f"n{number:02}") for number in range(USED_MIN)]
    nodes, node_claims = tuple(node for _, node in pairs), tuple(claim for claim, _ in pairs)
    large = [a_pod(f"p{number:02}", cpu="3") for number in range(USED_MIN)]
    pods = (*large, a_pod("q0", cpu="2"), a_pod("q1", cpu="1"))
    snapshot = {"types": (NODE_INDEX_TYPE,), "nodes": nodes, "node_claims": node_claims, "pods": pods}
    expected = plan_of(**snapshot)
    assert len(expected.bindings) == USED_MIN + 1
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert plan_of(**snapshot) == expected
