"""The order in which the greedy planner takes pods and the virtual pods of capacity buffers."""

from __future__ import annotations

import pytest

from core import labels
from core.model.feature_gates import FeatureGates
from core.model.overlay import CapacityBuffer
from core.model.pod import NodeSelectorTerm, PodAffinityTerm, PodSpec
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.planner import Planner
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot
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
