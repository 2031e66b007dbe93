"""In no cluster does a plan buy a part of a group: random limits, quotas, refusals, priorities and domains."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import msgspec
import pytest

from core import labels
from core.gangs import gangs_of
from core.model.catalogue import Catalogue, InstanceType
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from core.scheduling.planner import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type

SEEDS = range(60)


def scarce(kind: InstanceType, draw: Random) -> InstanceType:
    """The type, of which EC2 has no capacity in some places, at prices that differ by zone."""
    offerings = tuple(
        msgspec.structs.replace(o, available=draw.random() > 0.3, price=o.price * draw.randint(80, 120) // 100)
        for o in kind.offerings
    )
    return msgspec.structs.replace(kind, offerings=offerings)


def members(name: str, draw: Random) -> list[Pod]:
    """A group of random size, minimum, domain, priority and age, some of whose members may be missing or run."""
    size = draw.randint(2, 6)
    minimum = draw.choice([size, size, max(1, size - 1)])
    notes = {labels.GROUP: name, labels.GROUP_MINIMUM: str(minimum)}
    if draw.random() < 0.6:
        notes[labels.GROUP_TOPOLOGY] = labels.ZONE
    cpu, priority, age = draw.choice(["1", "3", "7"]), draw.choice([0, 0, 5]), draw.randint(1, 100)
    there = size if draw.random() < 0.8 else size - 1
    return [
        a_pod(f"{name}-{i}", cpu=cpu, annotations=notes, priority=priority, created_at=NOW - timedelta(minutes=age))
        for i in range(there)
    ]


def a_world(seed: int) -> Snapshot:
    draw = Random(seed)  # noqa: S311 - a world is drawn, no secret
    types = tuple(
        scarce(a_type(f"m5.{size}", cpu=cpu, memory=f"{int(cpu) * 4}Gi", price=int(cpu) * 0.05), draw)
        for size, cpu in (("large", "2"), ("xlarge", "4"), ("2xlarge", "8"))
    )
    pods = [pod for i in range(draw.randint(1, 5)) for pod in members(f"g{i}", draw)]
    pods += [
        a_pod(f"s{i}", cpu=draw.choice(["1", "4"]), created_at=NOW - timedelta(minutes=draw.randint(1, 100)))
        for i in range(draw.randint(0, 6))
    ]
    nodes = [a_node_of(types[2], f"n{i}", zone=draw.choice(ZONES)) for i in range(draw.randint(0, 3))]
    if nodes and draw.random() < 0.4:
        first = draw.randrange(len(pods))
        pods[first] = msgspec.structs.replace(pods[first], node_name="n0", phase="Running")
    limits = quantity.parse_resources({"cpu": str(draw.randint(4, 40))}) if draw.random() < 0.6 else {}
    pools = [a_pool("a", limits=limits)]
    if draw.random() < 0.5:
        pools.append(a_pool("b", Requirement.one_of(labels.ZONE, draw.choice(ZONES)), weight=draw.choice([0, 9])))
    quotas = {"L-1216C47A": draw.randint(4, 40)} if draw.random() < 0.4 else {}
    return a_snapshot(
        pods=tuple(pods),
        node_pools=tuple(pools),
        nodes=tuple(node for _, node in nodes),
        node_claims=tuple(claim for claim, _ in nodes),
        catalogue=Catalogue(default=types),
        vcpu_quotas=quotas,
    )


def faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Judge a plan by the pods alone: how many of each group have a place, and where."""
    zones: dict[str, set[str]] = {pod: set(claim.zones) for claim in plan.claims for pod in claim.pods}
    by_node = {node.name: node.labels[labels.ZONE] for node in snapshot.nodes}
    zones |= {binding.pod: {by_node[binding.node]} for binding in plan.bindings}
    running = {pod.key: {by_node[pod.node_name]} for pod in snapshot.pods if pod.node_name}
    reasons = {unplaced.pod: unplaced.reason for unplaced in plan.unschedulable}
    problems = []
    for gang in gangs_of(snapshot):
        placed = {pod.key: zones[pod.key] for pod in gang.pods if pod.key in zones}
        there = {pod.key: running[pod.key] for pod in gang.pods if pod.key in running}
        if placed and len(placed) + len(there) < gang.minimum:
            problems.append(f"{gang.name}: {len(placed)} + {len(there)} of {gang.minimum}")
        everywhere = [*placed.values(), *there.values()]
        if gang.topology_keys and placed and len(set.union(*everywhere)) != 1:
            problems.append(f"{gang.name}: in {everywhere}")
        waiting = [pod.key for pod in gang.pods if not pod.node_name and pod.key not in zones]
        if not placed and gang.needed and any(reasons[key] not in tuple(PodReason) for key in waiting):
            problems.append(f"{gang.name}: waits without a reason")
    everyone = {pod.key for pod in snapshot.pods if not pod.node_name}
    if everyone != zones.keys() | reasons.keys() or zones.keys() & reasons.keys():
        problems.append("a pod is lost, or has two fates")
    return problems


@pytest.mark.parametrize("seed", SEEDS)
def test_no_plan_buys_a_part_of_a_group(seed: int) -> None:
    world = a_world(seed)
    assert faults(world, Planner(world).plan()) == []
    assert faults(world, Planner(world).plan(lambda: 0.0)) == []
    assert faults(world, Planner(world).results().plan) == []


def with_groups_in(zone: str, snapshot: Snapshot) -> Snapshot:
    """The same pods; those that need one zone name this one, as if it had been chosen for all groups."""

    def there(pod: Pod) -> Pod:
        if labels.GROUP_TOPOLOGY not in pod.annotations:
            return pod
        spec = msgspec.structs.replace(pod.spec, node_selector=(Requirement.one_of(labels.ZONE, zone),))
        return msgspec.structs.replace(pod, spec=spec)

    return msgspec.structs.replace(snapshot, pods=tuple(map(there, snapshot.pods)))


def test_the_bound_of_a_plan_with_groups_holds_for_every_choice_of_their_zone() -> None:
    compared = 0
    for seed in SEEDS:
        world = msgspec.structs.replace(a_world(seed), nodes=(), node_claims=())
        plan = Planner(world).plan(lambda: 0.0)
        if not any(group.domain for group in plan.groups):
            continue
        assert plan.cost.lower_bound is not None
        others = [Planner(with_groups_in(zone, world)).plan(lambda: 0.0) for zone in ZONES]
        alike = [other for other in others if bought(other) == bought(plan)]
        assert all(other.cost.hourly >= plan.cost.lower_bound for other in [plan, *alike])
        compared += len(alike)
    assert compared > len(SEEDS) // 2


def bought(plan: Plan) -> set[str]:
    return {pod for claim in plan.claims for pod in claim.pods}


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_the_same_groups_are_bought_whatever_the_order_of_the_input(seed: int) -> None:
    world = a_world(seed)
    turned = msgspec.structs.replace(world, pods=world.pods[::-1], node_pools=world.node_pools[::-1])
    assert Planner(world).plan() == Planner(turned).plan()


def test_worlds_have_groups_of_every_fate() -> None:
    """Otherwise, the tests above would pass without saying anything."""
    plans = [Planner(a_world(seed)).plan() for seed in SEEDS]
    groups = [group for plan in plans for group in plan.groups]
    assert sum(group.reason == "" for group in groups) > len(groups) // 4
    assert sum(group.reason == PodReason.GROUP_INCOMPLETE for group in groups) > len(groups) // 10
    assert any(0 < group.placed < group.minimum for group in groups)
