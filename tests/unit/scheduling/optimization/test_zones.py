"""How many pods of each item group go to which zone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.packing.problem import PackingProblem
from core.packing.settings import DEFAULT_SETTINGS, SearchBudget, SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization import zones
from core.scheduling.optimization.items import HostnameCaps, ItemExtraction
from core.scheduling.optimization.relaxed_pods import ItemGroup, LaunchOption
from core.scheduling.optimization.zones import ZoneShares, ZoneSplit, balanced_shares, whole_pods
from core.scheduling.primitives import TypeMask
from tests.builders import ZONES, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, greedily_solved
from tests.unit.scheduling.optimization.clusters import a_cluster as zone_split_a_cluster

# Every zone gets the same mix of resources, in whole pods.


def test_free_pods_make_up_for_what_held_pods_want() -> None:
    """Machines that run out of memory first were bought in one zone, and such that run out of CPU in the other."""
    # Two groups are held, one of much memory in the first zone and one of much CPU in the second; two such groups are free.
    requests = np.array([[1, 3], [3, 1], [1, 3], [3, 1]])
    counts = np.array([10, 10, 20, 20])
    sizes = requests / (counts @ requests)
    may = np.array([[True, False], [False, True], [True, True], [True, True]])
    even = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])
    shares = balanced_shares(even, sizes=sizes, counts=counts, may=may, weights=np.array([0.5, 0.5]), rounds=4)
    assert np.allclose(shares, [[1, 0], [0, 1], [0.25, 0.75], [0.75, 0.25]])
    pods = whole_pods(shares, sizes=sizes, counts=counts, slack=1e-9)
    assert (pods.T @ requests).tolist() == [[60, 60], [60, 60]]


@given(st.data())
def test_no_pod_is_lost_or_goes_where_it_may_not(data: st.DataObject) -> None:
    groups, zones = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, 5), min_size=2, max_size=2)
    requests = np.array(data.draw(st.lists(rows, min_size=groups, max_size=groups)), dtype=np.int64)
    counts = np.array(data.draw(st.lists(st.integers(1, 9), min_size=groups, max_size=groups)), dtype=np.int64)
    held = st.sampled_from([row for row in np.ndindex(*[2] * zones) if any(row)])
    may = np.array(data.draw(st.lists(held, min_size=groups, max_size=groups)), dtype=np.bool_)
    sizes = requests / np.maximum(counts @ requests, 1)
    even = may / may.sum(axis=1, keepdims=True)
    weights = np.full(zones, 1 / zones)
    shares = balanced_shares(even, sizes=sizes, counts=counts, may=may, weights=weights, rounds=4)
    pods = whole_pods(shares, sizes=sizes, counts=counts, slack=1e-9)
    assert (pods.sum(axis=1) == counts).all()
    assert (pods >= 0).all()
    assert not pods[~may].any()


A, B = ZONES[:2]


def a_cluster(price_in_b: float, small_costs: float = 1.0) -> Snapshot:
    """Types of three sizes that cost this many times as much in the second zone."""
    return a_snapshot(
        types=tuple(_type(cpu, price_in_b, small_costs if cpu == 2 else 1.0) for cpu in (2, 4, 8)),
        pods=(
            a_pod("p", cpu="500m", memory="1Gi"),
            a_pod("q", cpu="500m", memory="256Mi"),
            a_pod("r", cpu="1", memory="1Gi"),
        ),
        node_pools=(a_pool("default", ON_DEMAND),),
    )


def pods_by_zone(
    price_in_b: float,
    *,
    free: int = 12,
    fixed: tuple[int, int] = (30, 10),
    costs_more_in_b: bool = False,
    larger_in_b: bool = False,
) -> tuple[list[list[int]], list[list[int]]]:
    """[group, zone], of `free` pods that may run in both zones, and of pods that must run in the first or the second.

    The first two groups are equal in the first zone. By the fluid program, and by size. If `costs_more_in_b`, pods with a
    choice may use only the smallest type in the second zone, which costs more for its size in both, and pods that must run
    there request less memory. If `larger_in_b`, pods that must run there request twice as many vCPUs.
    """
    snapshot = a_cluster(price_in_b, small_costs=1.5 if costs_more_in_b else 1.0)
    context = SchedulingContext(snapshot)
    template = context.templates[0]
    requests, less_memory, larger = (context.pod_groups.of(pod).requests for pod in snapshot.pods)
    in_second = less_memory if costs_more_in_b else larger if larger_in_b else requests
    in_zone = {
        zone: LaunchOption(0, context.table.with_value(template.offered, labels.ZONE, zone), template.mask)
        for zone in (A, B)
    }
    single = [TypeMask(1 << position) for position in range(len(snapshot.catalogue.default))]
    (smallest,) = (mask for mask in single if template.types.names(mask) == ("m-2",))
    free_in_b = in_zone[B]._replace(allowed=smallest) if costs_more_in_b else in_zone[B]
    anywhere = ItemGroup(requests, (LaunchOption(0, template.offered, template.mask),))
    first, second = ItemGroup(requests, (in_zone[A],)), ItemGroup(in_second, (in_zone[B],))
    by_zone = {
        A: {anywhere: anywhere.restricted_to(in_zone[A]), first: first.restricted_to(in_zone[A])},
        B: {anywhere: anywhere.restricted_to(free_in_b), second: second.restricted_to(in_zone[B])},
    }
    zone_shares = ZoneShares(
        context.templates,
        counts={anywhere: free, first: fixed[0], second: fixed[1]},
        by_zone=by_zone,
        hostname_capacity={},
        settings=DEFAULT_SETTINGS,
    )
    return zone_shares.best().tolist(), zone_shares.by_size().tolist()


def test_with_equal_prices_free_pods_go_where_the_others_are() -> None:
    """Groups that are equal in a zone were counted once and stopped the planner; a small zone would get odd mixes."""
    best, by_size = pods_by_zone(price_in_b=1.0)
    assert best == by_size == [[9, 3], [30, 0], [0, 10]]


def test_with_a_cheaper_zone_free_pods_go_there() -> None:
    """Otherwise, pods pay for the more expensive zone's nodes only because others have to."""
    best, _ = pods_by_zone(price_in_b=0.5)
    assert best == [[0, 12], [30, 0], [0, 10]]


def test_an_even_mix_of_zones_with_different_prices_is_priced() -> None:
    """The second zone would get three in five of the pods with a choice, at a tenth more."""
    best, _ = pods_by_zone(price_in_b=1.1, fixed=(20, 20))
    assert best == [[12, 0], [20, 0], [0, 20]]
    assert pods_by_zone(price_in_b=1.0, fixed=(20, 20))[0] == [[6, 6], [20, 0], [0, 20]]


def test_an_uneven_mix_of_zones_with_equal_types_is_priced() -> None:
    """Pods with a choice have only a dear type in the second zone: some of them would pay half as much again."""
    best, _ = pods_by_zone(price_in_b=1.0, costs_more_in_b=True)
    assert best == [[12, 0], [30, 0], [0, 10]]


def test_pods_of_one_zone_count_by_what_they_cost() -> None:
    """By number, zones with ten pods each would get a hundred each of the others, though the pods of one cost twice as much."""
    best, _ = pods_by_zone(price_in_b=1.0, free=200, fixed=(10, 10), larger_in_b=True)
    assert best == [[64, 136], [10, 0], [0, 10]]


def test_an_even_mix_of_zones_with_equal_types_needs_no_linear_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds in a large fleet; zones with other prices, or one that gets another part of the pods, need it."""

    def unexpected(*_: object) -> None:
        raise AssertionError("a linear program")

    monkeypatch.setattr(zones, "relax", unexpected)
    assert pods_by_zone(price_in_b=1.0, fixed=(20, 20))[0] == [[6, 6], [20, 0], [0, 20]]
    for changes in ({"price_in_b": 1.1, "fixed": (20, 20)}, {"price_in_b": 1.0, "costs_more_in_b": True}):
        with pytest.raises(AssertionError, match="a linear program"):
            pods_by_zone(**changes)


def _type(cpu: int, price_in_b: float, costs: float) -> InstanceType:
    instance_type = a_type(f"m-{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", price=0.05 * cpu * costs, zones=(A,))
    there = Offering(instance_type.name, B, labels.ON_DEMAND, nanodollars(round(0.05 * cpu * costs * price_in_b, 9)))
    return InstanceType(
        name=instance_type.name,
        labels=instance_type.labels,
        capacity=instance_type.capacity,
        offerings=(*instance_type.offerings, there),
    )


def test_what_a_pod_costs_alone_is_its_largest_share_of_the_type_where_that_is_least() -> None:
    """A type without a resource holds no pod that requests it."""
    problem = PackingProblem.of(
        requests=np.array([[2, 1], [1, 0], [4, 1]]),
        counts=np.array([1, 1, 1]),
        capacity=np.array([[4, 1], [8, 0], [4, 4]]),
        prices=np.array([100, 120, 150]),
        allowed=np.ones((3, 3), dtype=bool),
    )
    assert zones._cost_alone(problem).tolist() == [75.0, 15.0, 100.0]


# Large scopes, split by zone.


def in_zone(zone: str, count: int) -> tuple[Pod, ...]:
    selector = (Requirement.one_of(labels.ZONE, zone),)
    return tuple(a_pod(f"{zone[-1]}{i}", node_selector=selector) for i in range(count))


def split(*pods: Pod, budget: SearchBudget, settings: SearchSettings = DEFAULT_SETTINGS) -> dict[str, list[str]]:
    context, solution = greedily_solved(zone_split_a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    movable = [movable_pods for claim in solution.claims for movable_pods in extraction.items_of(claim, scope)]
    by_zone = ZoneSplit(context, scope, budget, settings).split(movable)
    return {zone: [pod.name for movable_pods in there for pod in movable_pods.pods] for zone, there in by_zone.items()}


@pytest.mark.parametrize("steps", [0, 10], ids=["by size", "by the fluid program"])
def test_pods_stay_in_their_zone_and_free_ones_go_where_the_others_are(steps: int) -> None:
    """Otherwise, a pod is packed in a zone that it may not enter, or a zone gets few pods that fill no node."""
    free = tuple(a_pod(f"free{i}") for i in range(8))
    names_by_zone = split(*in_zone(A, 12), *in_zone(B, 4), *free, budget=SearchBudget(steps))
    counts = {zone: Counter(name.rstrip("0123456789") for name in names) for zone, names in names_by_zone.items()}
    assert counts == {A: {"a": 12, "free": 6}, B: {"b": 4, "free": 2}}


def test_very_many_items_are_divided_without_a_packing_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building it for 10,000 items took more than the time budget."""
    settings = replace(DEFAULT_SETTINGS, repack=replace(DEFAULT_SETTINGS.repack, zone_program_items_max=0))
    monkeypatch.setattr(zones, "_block", pytest.fail)
    free = tuple(a_pod(f"free{i}") for i in range(8))
    names_by_zone = split(*in_zone(A, 12), *in_zone(B, 4), *free, budget=SearchBudget(9), settings=settings)
    assert {zone: len(names) for zone, names in names_by_zone.items()} == {A: 18, B: 6}


def test_pods_that_may_run_anywhere_are_not_split() -> None:
    assert split(*(a_pod(f"p{i}") for i in range(4)), budget=SearchBudget(9)) == {}


def test_pods_that_all_have_a_zone_go_there() -> None:
    names_by_zone = split(*in_zone(A, 2), *in_zone(B, 3), budget=SearchBudget(9))
    assert {zone: len(names) for zone, names in names_by_zone.items()} == {A: 2, B: 3}


def test_each_part_of_a_groups_pods_is_divided_like_all_of_them() -> None:
    """Pods come in order of size and of the nodes that they were on: one zone would get all that shared a node."""
    free = tuple(a_pod(f"free{i}") for i in range(8))
    zone_of = {
        name: zone
        for zone, names in split(*in_zone(A, 12), *in_zone(B, 4), *free, budget=SearchBudget(0)).items()
        for name in names
    }
    assert "".join(zone_of[pod.name][-1] for pod in free) == "abaaabaa"
