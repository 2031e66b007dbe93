"""The order in which the greedy planner takes pods and the virtual pods of capacity buffers."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

from core import labels
from core.model.feature_gates import FeatureGates
from core.model.overlay import CapacityBuffer
from core.model.pod import DO_NOT_SCHEDULE, NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, TopologySpread
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.planner import Planner
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_stored_target
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.scheduling.greedy.types_for_tests import SMALL
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of


def test_a_pending_pod_gets_the_last_of_a_limit_before_a_buffer_does() -> None:
    """Otherwise, spare room would take the only node that the NodePool may still launch."""
    spare = PodSpec(requests={"cpu": 1900, "memory": 2**30, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    pool = a_pool("default", limits={"nodes": 1})
    plan = plan_of(types=(SMALL,), node_pools=(pool,), buffers=(buffer,), options=on, pods=(a_pod("p", cpu="500m"),))
    assert [claim.pods for claim in plan.claims] == [("default/p",)]
    assert [(room.buffer, room.without_room) for room in plan.buffers] == [("default/spare", 1)]


def test_a_buffer_uses_no_room_of_a_pod_that_must_wait_for_another_pod() -> None:
    """The larger pod fails at first, the pod that it needs comes second, and the buffer took the room in between."""
    near = (PodAffinityTerm(labels.ZONE, a_selector(app="db")),)
    spare = PodSpec(requests={"cpu": 1000, "memory": 2**20, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    pool = a_pool("default", limits={"nodes": 1})
    pods = (a_pod("seeker", cpu="1", affinity=near), a_pod("db", cpu="900m", labels={"app": "db"}))
    plan = plan_of(types=(SMALL,), node_pools=(pool,), buffers=(buffer,), options=on, pods=pods)
    assert reasons_of(plan) == {}


def test_a_pod_with_an_affinity_is_not_satisfied_by_a_buffer() -> None:
    """The scheduler does not see virtual pods: the explanation named a place, although the pod stayed pending."""
    web = {"app": "web"}
    near = (PodAffinityTerm(labels.ZONE, a_selector(app="web")),)
    spare = PodSpec(requests={"cpu": 100, "memory": 2**20, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare, labels=web)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    plan = plan_of(types=(SMALL,), buffers=(buffer,), options=on, pods=(a_pod("seeker", affinity=near),))
    assert reasons_of(plan) == {"seeker": PodReason.POD_AFFINITY}
    assert "no pod that has or gets a node matches the pod's affinity" in plan.unschedulable[0].message


TERMS = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
"""The first zone, or else the second, where a node has room."""


def test_a_pod_that_waits_gets_a_node_for_its_first_alternative() -> None:
    """Karpenter relaxes to the next alternative only if no node, running or new, meets the first."""
    claim, node = a_node_of(SMALL, zone=ZONES[1])
    plan = plan_of(types=(SMALL,), nodes=(node,), node_claims=(claim,), pods=(a_pod("p", required_terms=TERMS),))
    assert claim_of(plan, "p").zones == ZONES[:1]


def test_a_pod_that_consolidation_moves_joins_a_node_for_any_alternative() -> None:
    """Otherwise, a node is launched, and paid for, beside one with room; under Karpenter's policy it is."""
    claim, leaving = a_node_of(SMALL)
    other_claim, staying = a_node_of(SMALL, "node-2", zone=ZONES[1])
    moved = pod_on(leaving.name, "p", required_terms=TERMS)
    world = {"types": (SMALL,), "nodes": (leaving, staying), "node_claims": (claim, other_claim), "pods": (moved,)}
    plan = Planner(a_snapshot(**world)).what_if([leaving.name], consolidation=True).plan
    assert places(plan) == {"p": "node-2"}
    as_karpenter = a_snapshot(**world, options=Options(karpenter_moves_only=True))
    (launched,) = Planner(as_karpenter).what_if([leaving.name], consolidation=True).plan.claims
    assert launched.zones == ZONES[:1]


def with_slots(wanted: list[tuple[int, int]], *, taken: str = "1m", **demands: object) -> list[tuple[str, str]]:
    """Where five pods of half a vCPU go with so many slots by node: three nodes of two vCPU, `taken` is used on the last."""
    pairs = [a_node_of(SMALL, f"n{number}", zone=ZONES[number]) for number in range(3)]
    claims, nodes = zip(*pairs, strict=True)
    pods = tuple(a_pod(f"p{number}", cpu="450m", **demands) for number in range(5))
    context = context_of(
        types=(SMALL,), nodes=nodes, node_claims=claims, pods=(*pods, a_pod("there", cpu=taken, node_name="n2"))
    )
    slots = {group_of(context, "p0").index: wanted}
    queue = queue_of(context, [(context.pending, False)])
    found = GreedyScheduler(context, queue, frozenset(), frozenset(), slots=slots).run()
    assert not found.unplaced
    return sorted((context.existing_nodes[position].name, pod.name) for pod, position in found.bound)


@pytest.mark.parametrize("wanted", [[(1, 3), (2, 2)], [(2, 1), (0, 4)], [(0, 1), (1, 2), (2, 2)]])
def test_pods_go_to_the_nodes_that_a_target_meant_for_them(wanted: list[tuple[int, int]]) -> None:
    """Any other placement would use room that the target meant for other pods."""
    places_now = [node for node, _ in with_slots(wanted)]
    assert [(position, places_now.count(f"n{position}")) for position, _ in wanted] == wanted


def test_a_slot_that_no_longer_admits_the_pod_is_left_to_others() -> None:
    """The node is in another zone than the pod asks for, or has become full; the other pods have theirs all the same."""
    here = (Requirement.one_of(labels.ZONE, *ZONES[:2]),)
    for wanted in ([(2, 2), (1, 3)], [(1, 3), (2, 2)]):
        assert [node for node, _ in with_slots(wanted, node_selector=here)].count("n1") >= 3
        assert "n2" not in [node for node, _ in with_slots(wanted, node_selector=here)]
    assert [node for node, _ in with_slots([(2, 3), (1, 2)], taken="1000m")].count("n2") == 2


def test_a_slot_does_not_outweigh_a_spread() -> None:
    """What a target meant for its pods may be uneven once other pods have gone elsewhere."""
    evenly = TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app="a"))
    found = with_slots([(1, 4)], labels={"app": "a"}, spreads=(evenly,))
    assert sorted(Counter(node for node, _ in found).values()) == [1, 2, 2]


def phases(
    slots: dict[str, list[tuple[int, int]]] | None = None,
    first: str = "",
    pods: tuple[Pod, ...] = (),
    drained_later: tuple[str, ...] = ("n0",),
    **kinds: str,
) -> tuple[dict[str, str], str, str]:
    """Pod → node on two nodes of two vCPU, the pods without a place, and those whose claims are fixed.

    Each of three pods fits once on a node, the largest comes first, and no node is launched.

    Args:
        slots: Pod → the nodes that a target means for it.
        first: The pod that is placed before the others.
        pods: Other pods in place of the three.
        drained_later: Nodes that the stored target drains later.
        kinds: Attribute of `PendingGroup` → the pods that have it.
    """
    claims, nodes = zip(*(a_node_of(SMALL, f"n{number}") for number in range(2)), strict=True)
    waiting = pods or tuple(a_pod(name, cpu=cpu) for name, cpu in zip("abc", ("1500m", "1400m", "1200m"), strict=True))
    world = a_snapshot(types=(SMALL,), nodes=nodes, node_claims=claims, pods=waiting, node_pools=())
    context = SchedulingContext(structs.replace(world, stored_target=a_stored_target(*drained_later)))
    queue = queue_of(context, [(context.pending, False)])
    for group in queue:
        for kind, names in kinds.items():
            setattr(group, kind, group.pods[0].name in names)
    index = {group.pods[0].name: group.pod_group.index for group in queue}
    found = GreedyScheduler(
        context,
        queue,
        frozenset(),
        frozenset(),
        frozenset(index[name] for name in first),
        slots={index[name]: places for name, places in (slots or {}).items()},
    ).run()
    assert found.claims == []
    left = "".join(group.pods[0].name for group in found.unplaced)
    at = {pod.name: context.existing_nodes[position].name for pod, position in found.bound}
    return at, left, "".join(sorted(key.removeprefix("default/") for key in found.fixed_pods))


class TestPhases:
    def test_nodes_that_are_drained_later_come_last_and_last_of_all_for_pods_that_avoid_them(self) -> None:
        assert phases(drained_later=()) == ({"a": "n0", "b": "n1"}, "c", "")
        assert phases() == ({"a": "n1", "b": "n0"}, "c", "")
        assert phases(avoids_drained_later="a") == ({"a": "n1", "b": "n0"}, "c", "")
        assert phases(avoids_drained_later="ab") == ({"a": "n1", "c": "n0"}, "b", "")
        assert phases(avoids_drained_later="abc") == ({"a": "n1", "b": "n0"}, "c", "")
        assert phases(avoids_drained_later="abc", drained_later=("n0", "n1")) == ({"a": "n0", "b": "n1"}, "c", "")

    def test_pods_that_wait_in_any_case_come_before_those_that_a_target_moves(self) -> None:
        assert phases(is_displaced="a") == ({"b": "n1", "c": "n0"}, "a", "bc")
        assert phases(is_displaced="ac") == ({"b": "n1", "a": "n0"}, "c", "b")
        assert phases(is_displaced="abc") == ({"a": "n1", "b": "n0"}, "c", "")

    def test_pods_that_may_leave_their_domain_come_after_those_that_keep_it(self) -> None:
        assert phases(is_released="a") == ({"b": "n1", "c": "n0"}, "a", "")
        assert phases(is_released="ab") == ({"c": "n1", "a": "n0"}, "b", "")
        assert phases({"b": [(0, 1)], "a": [(1, 1)]}, is_released="a") == ({"b": "n0", "c": "n1"}, "a", "")

    def test_a_group_that_is_to_be_first_is(self) -> None:
        assert phases(first="c") == ({"c": "n1", "a": "n0"}, "b", "")
        assert phases(first="bc") == ({"b": "n1", "c": "n0"}, "a", "")
        assert phases(first="c", is_displaced="a") == ({"b": "n1", "c": "n0"}, "a", "bc")

    def test_slots_are_filled_before_other_pods_are_placed(self) -> None:
        assert phases({"a": [(0, 1)]}) == ({"a": "n0", "b": "n1"}, "c", "")
        assert phases({"c": [(1, 1)]}) == ({"c": "n1", "a": "n0"}, "b", "")
        assert phases({"a": [(0, 1)], "b": [(0, 1), (1, 1)]}) == ({"a": "n0", "b": "n1"}, "c", "")
        assert phases({"c": [(0, 1)], "b": [(1, 1)]}) == ({"b": "n1", "c": "n0"}, "a", "")
        assert phases({"a": [(0, 1)]}, is_displaced="a") == ({"b": "n1", "c": "n0"}, "a", "bc")

    def test_pods_that_must_share_a_node_take_no_slots(self) -> None:
        """A slot may be on another node than the one that the first of them takes."""
        together = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
        for rules, at in (({"affinity": (together,)}, {"n0": 3}), ({}, {"n0": 2, "n1": 1})):
            pods = tuple(a_pod(f"p{n}", cpu="500m", labels={"app": "web"}, **rules) for n in range(3))
            placed, left, _ = phases({"p0": [(1, 1), (0, 2)]}, pods=pods, drained_later=())
            assert (Counter(placed.values()), left) == (Counter(at), "")

    def test_a_pod_that_no_node_could_help_is_left(self) -> None:
        broken = a_pod("d", cpu="100m", required_terms=(NodeSelectorTerm((), uses_fields=True),))
        assert phases(pods=(a_pod("a", cpu="100m"), broken)) == ({"a": "n1"}, "d", "")


def test_a_node_that_is_too_full_for_the_other_pods_still_takes_a_buffer() -> None:
    """It would get a node of its own beside room for it."""
    spare = PodSpec(requests={"cpu": 100, "memory": 2**30, "pods": 1})
    buffer = CapacityBuffer(namespace="default", name="spare", pods=1, spec=spare)
    on = Options(feature_gates=FeatureGates(capacity_buffer=True))
    pods = (a_pod("a", cpu="1500m"), a_pod("b", cpu="600m", memory="7900Mi"))
    assert len(plan_of(types=(SMALL,), buffers=(buffer,), options=on, pods=pods).claims) == 2
