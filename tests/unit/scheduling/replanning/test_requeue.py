"""Pods that had no place only because of their position in the queue."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core import labels
from core.model.node import Node
from core.model.pod import PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.greedy.queue import queue_of
from core.scheduling.replanning.requeue import SHARING_PODS_MAX, RequeuingScheduler
from core.scheduling.replanning.varied_plans import VariedPlans
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, places, plan_of, reasons_of

TYPE = a_type("m", cpu="4", memory="16Gi", zones=ZONES[:1], capacity_types=(labels.ON_DEMAND,))
BESIDE_DB = PodAffinityTerm(labels.HOSTNAME, a_selector(app="db"))
BIG = {"cpu": 99_000, "memory": 2**40, "pods": 900}
BY_FAMILY = PodAffinityTerm("family", a_selector(app="db"))


@pytest.fixture
def no_variations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a second turn finds alone: the search that follows takes seconds where the second turn takes one more plan."""
    monkeypatch.setattr(VariedPlans, "improved", lambda _, best, _left: best)


def a_node(name: str, zone: str) -> Node:
    room = {"cpu": 4000, "memory": 2**34, "pods": 10}
    known = {labels.HOSTNAME: name, labels.ZONE: zone}
    return Node(name=name, labels=known, capacity=room, allocatable=room, is_ready=True)


def test_a_pod_that_needs_one_node_gets_it_if_a_larger_one_can_use_another() -> None:
    """Otherwise, a pod waits forever next to a free node."""
    nodes = (a_node("n1", ZONES[0]), a_node("n2", ZONES[1]))
    large = a_pod("large", cpu="3")
    small = a_pod("small", cpu="2", node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),))
    plan = plan_of(nodes=nodes, pods=(large, small), node_pools=())
    assert places(plan) == {"large": "n2", "small": "n1"}


def test_a_pod_and_the_one_of_its_affinity_go_together() -> None:
    """Otherwise, pods that fill a database's node first keep its sidecar service away from it."""
    pods = (
        a_pod("large", cpu="3"),
        a_pod("db", cpu="1", labels={"app": "db"}),
        a_pod("web", cpu="500m", affinity=(BESIDE_DB,)),
    )
    where = places(plan_of(types=(TYPE,), pods=pods))
    assert where["web"] == where["db"] != where["large"]


def test_no_pod_loses_its_place_to_a_pod_that_was_left_over() -> None:
    """Otherwise, small pods displace a large one for good at each limit: the largest go first."""
    pool = a_pool(limits={"cpu": 4000})
    pods = (a_pod("large", cpu="3"), a_pod("p1", cpu="2"), a_pod("p2", cpu="2"))
    plan = plan_of(types=(TYPE,), pods=pods, node_pools=(pool,))
    assert reasons_of(plan) == {"p1": PodReason.LIMIT_REACHED, "p2": PodReason.LIMIT_REACHED}


def test_pods_that_only_one_by_one_displace_no_other_get_their_turn_one_by_one(no_variations: None) -> None:
    """Together they cost a large pod its place, so both were left over where one need not be."""
    nodes = tuple(a_node(f"n{number}", zone) for number, zone in enumerate(ZONES))
    large = tuple(a_pod(name, cpu="3") for name in ("large", "wide"))
    small = tuple(
        a_pod(f"in-{zone}", cpu="2", node_selector=(Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2]
    )
    left = reasons_of(plan_of(nodes=nodes, pods=(*large, *small), node_pools=()))
    assert set(left) == {f"in-{ZONES[1]}"}


def test_a_pod_that_may_be_the_first_of_its_group_goes_without_the_others(no_variations: None) -> None:
    """Otherwise, alike pods on nodes without accelerators keep those that need one from every node."""
    plain = a_type("plain", cpu="8", zones=ZONES[:1], family="c")
    gpu = a_type("gpu", cpu="2", price=1.0, zones=ZONES[:1], extra={"nvidia.com/gpu": "1"}, family="g")
    pods = (
        a_pod("large", cpu="3", node_selector=(Requirement.one_of("family", "c"),)),
        a_pod("db", cpu="1", labels={"app": "db"}, node_selector=(Requirement.one_of("family", "c"),)),
        a_pod("learner", cpu="500m", labels={"app": "db"}, extra={"nvidia.com/gpu": "1"}, affinity=(BY_FAMILY,)),
    )
    assert reasons_of(plan_of(types=(plain, gpu), pods=pods)) == {}


def test_pods_that_are_left_over_are_planned_on_one_node_with_the_others(no_variations: None) -> None:
    """Otherwise, the first pod takes the zone where a node for it alone is cheapest, and no node there holds both."""
    small = a_type("small", cpu="2", price=0.1, zones=ZONES[:1])
    large = a_type("large", cpu="8", price=0.5, zones=ZONES[1:2])
    own = TopologySpread(labels.ZONE, 1, selector=a_selector(app="db"))
    pods = (
        a_pod("web", cpu="3", affinity=(BESIDE_DB,)),
        a_pod("db", cpu="1", labels={"app": "db"}, spreads=(own,)),
    )
    where = places(plan_of(types=(small, large), pods=pods))
    assert where["web"] == where["db"]


def test_without_pods_left_over_there_is_one_plan() -> None:
    """Otherwise, every plan takes twice its time."""
    context = context_of(types=(TYPE,), pods=(a_pod("p"),))
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, False)]))
        return queues[-1]

    assert RequeuingScheduler(context, queue).solution().unplaced == []
    assert len(queues) == 1


@pytest.mark.parametrize(
    ("count", "zones", "plans"),
    [
        (2, ZONES[1:2], 2),
        (SHARING_PODS_MAX, ZONES[1:2], 2),
        (SHARING_PODS_MAX + 1, ZONES[1:2], 1),
        (2, ZONES[:1], 1),
        (SHARING_PODS_MAX, ZONES[:1], 1),
    ],
)
def test_only_few_pods_are_planned_on_one_node_as_well(count: int, zones: tuple[str, ...], plans: int) -> None:
    """Otherwise, the greedy plan of a burst takes four times its time where some type has room for all of it.

    Nor is there a second plan if pods that share a node would choose the same zones.
    """
    largest = a_type("large", cpu="8", memory="128Gi", pods="737", price=1.0, zones=zones)
    one_zone = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    cpu = f"{7000 // count}m"
    pods = tuple(a_pod(f"p{n}", cpu=cpu, labels={"app": "db"}, affinity=(one_zone,)) for n in range(count))
    context = context_of(types=(TYPE, largest), pods=pods)
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, False)]))
        return queues[-1]

    assert RequeuingScheduler(context, queue).solution().unplaced == []
    assert len(queues) == plans


def test_pods_that_no_rule_holds_to_one_domain_are_planned_once() -> None:
    """Most of them go to a node that exists; of the others, one node would take both whatever zone it is in."""
    largest = a_type("large", cpu="8", memory="128Gi", pods="737", price=1.0, zones=ZONES[1:2])
    node = replace(a_node("n1", ZONES[0]), capacity=BIG, allocatable=BIG)
    pods = tuple(a_pod(f"p{n}", cpu="100m") for n in range(SHARING_PODS_MAX))
    tied = (Requirement.one_of(labels.ZONE, ZONES[1]),)
    context = context_of(
        types=(largest,), nodes=(node,), pods=(*pods, *(a_pod(f"q{n}", cpu="3", node_selector=tied) for n in range(2)))
    )
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, False)]))
        return queues[-1]

    solution = RequeuingScheduler(context, queue).solution()
    assert (len(solution.claims), len(solution.bound), len(queues)) == (1, SHARING_PODS_MAX, 1)
