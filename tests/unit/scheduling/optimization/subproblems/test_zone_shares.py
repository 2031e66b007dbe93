"""How many pods of each item group go to which zone."""

from __future__ import annotations

import numpy as np
import pytest

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.snapshot import Snapshot
from core.model.values.quantity import nanodollars
from core.packing.problem import PackingProblem
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.item_groups import ItemGroup, LaunchOption
from core.scheduling.optimization.subproblems import zone_shares
from core.scheduling.optimization.subproblems.zone_shares import ZoneShares
from core.scheduling.primitives.handles import TypeMask
from tests.builders import ZONES, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND

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
    found = ZoneShares(
        context.templates,
        counts={anywhere: free, first: fixed[0], second: fixed[1]},
        by_zone=by_zone,
        hostname_capacity={},
        settings=DEFAULT_SETTINGS,
    )
    return found.best().tolist(), found.by_size().tolist()


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

    monkeypatch.setattr(zone_shares, "relax", unexpected)
    assert pods_by_zone(price_in_b=1.0, fixed=(20, 20))[0] == [[6, 6], [20, 0], [0, 20]]
    for changes in ({"price_in_b": 1.1, "fixed": (20, 20)}, {"price_in_b": 1.0, "costs_more_in_b": True}):
        with pytest.raises(AssertionError, match="a linear program"):
            pods_by_zone(**changes)


def _type(cpu: int, price_in_b: float, costs: float) -> InstanceType:
    one = a_type(f"m-{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", price=0.05 * cpu * costs, zones=(A,))
    there = Offering(one.name, B, labels.ON_DEMAND, nanodollars(round(0.05 * cpu * costs * price_in_b, 9)))
    return InstanceType(name=one.name, labels=one.labels, capacity=one.capacity, offerings=(*one.offerings, there))


def test_what_a_pod_costs_alone_is_its_largest_share_of_the_type_where_that_is_least() -> None:
    """A type without a resource holds no pod that requests it."""
    problem = PackingProblem.of(
        requests=np.array([[2, 1], [1, 0], [4, 1]]),
        counts=np.array([1, 1, 1]),
        capacity=np.array([[4, 1], [8, 0], [4, 4]]),
        prices=np.array([100, 120, 150]),
        allowed=np.ones((3, 3), dtype=bool),
    )
    assert zone_shares._cost_alone(problem).tolist() == [75.0, 15.0, 100.0]
