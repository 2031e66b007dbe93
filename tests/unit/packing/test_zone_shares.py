"""Which share of each kind of pods goes to which zone."""

from __future__ import annotations

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.snapshot import Snapshot
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.item_groups import Kind
from core.scheduling.optimization.subproblems.zone_shares import ZoneShares
from tests.builders import ZONES, a_pod, a_pool, a_snapshot, a_type

A, B = ZONES[:2]


def a_world(price_in_b: float) -> Snapshot:
    return a_snapshot(
        types=tuple(_type(cpu, price_in_b) for cpu in (2, 4, 8)),
        pods=(a_pod("p", cpu="500m", memory="1Gi"),),
        node_pools=(a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)),),
    )


def shares(price_in_b: float) -> tuple[list[list[float]], list[list[float]]]:
    """[kind, zone], of ten pods that may run in both zones, thirty that are held to the first and ten to the second.

    The first two kinds are alike in the first zone. By the fluid program, and by size.
    """
    world = a_world(price_in_b)
    context = SchedulingContext(world)
    template, requests = context.templates[0], context.pod_groups.of(world.pods[0]).requests
    way = {zone: (0, context.table.with_value(template.offered, labels.ZONE, zone), template.mask) for zone in (A, B)}
    free = Kind(requests, ((0, template.offered, template.mask),))
    first, second = Kind(requests, (way[A],)), Kind(requests, (way[B],))
    homes = {
        A: {free: free.running(way[A]), first: first.running(way[A])},
        B: {free: free.running(way[B]), second: second.running(way[B])},
    }
    found = ZoneShares(context.templates, {free: 10, first: 30, second: 10}, homes, {})
    return found.best().round(6).tolist(), found.by_size().round(6).tolist()


def test_where_zones_cost_the_same_pods_go_where_the_others_are() -> None:
    """Kinds that are alike in a zone were counted once and stopped the planner; a zone with few pods would get odd mixes."""
    best, by_size = shares(price_in_b=1.0)
    assert best == by_size == [[0.75, 0.25], [1, 0], [0, 1]]


def test_where_a_zone_costs_less_pods_that_may_go_there() -> None:
    """Pods would pay for the dearer zone's nodes only because others have to."""
    best, _ = shares(price_in_b=0.5)
    assert best == [[0, 1], [1, 0], [0, 1]]


def _type(cpu: int, price_in_b: float) -> InstanceType:
    kind = a_type(f"m-{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", price=0.05 * cpu, zones=(A,))
    there = Offering(kind.name, B, labels.ON_DEMAND, nanodollars(round(0.05 * cpu * price_in_b, 9)))
    return InstanceType(name=kind.name, labels=kind.labels, capacity=kind.capacity, offerings=(*kind.offerings, there))
