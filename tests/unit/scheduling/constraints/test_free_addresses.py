"""Plans where subnets lack addresses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from core import labels
from core.model.plan import Plan
from core.model.pod import TopologySpread
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from core.scheduling.addresses import zones_of
from core.scheduling.constraints.free_addresses import FreeAddresses
from core.scheduling.planner import Planner
from core.scheduling.pods import Avoids
from core.scheduling.scheduler import GreedyScheduler, queue_of
from tests.builders import a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, plan_of, reasons_of
from tests.unit.scheduling.subnets import A, B, C, a_class

TYPES = (a_type(zones=(A, B, C)), a_type("m5.xlarge", cpu="4", price=0.2, zones=(A, B, C)))


def pods(number: int, **changes: Any) -> tuple[Any, ...]:
    """Pods of which each needs a node of its own."""
    return tuple(a_pod(f"p{n:02}", cpu="3", **changes) for n in range(number))


def planned(number: int, *, pool: Any = None, each: int = 1, **free: int) -> Plan:
    return plan_of(
        types=TYPES,
        pods=pods(number),
        node_pools=(pool or a_pool(),),
        node_classes=(a_class(each=each),),
        subnet_addresses={f"subnet-{zone}": amount for zone, amount in free.items()},
    )


def in_zone(zone: str) -> Any:
    return a_pool("default", Requirement.one_of(labels.ZONE, zone))


@pytest.mark.parametrize(("free", "each", "nodes"), [(0, 1, 0), (3, 1, 3), (35, 17, 2), (9, 1, 5)])
def test_a_zone_takes_as_many_nodes_as_its_subnets_have_addresses_for(free: int, each: int, nodes: int) -> None:
    """The others would be refused, and the refusal closes the subnet for minutes."""
    plan = planned(5, pool=in_zone(A), each=each, a=free)
    assert len(plan.claims) == nodes
    assert set(reasons_of(plan).values()) == ({PodReason.NO_FREE_ADDRESS} if nodes < 5 else set())


def test_the_reason_names_zone_and_subnets() -> None:
    (entry,) = planned(1, pool=in_zone(A), a=0).unschedulable
    assert (
        f"no subnet of EC2NodeClass default has the free addresses that its node takes ({A}: subnet-a)" in entry.message
    )


def test_the_excess_goes_to_other_zones() -> None:
    plan = planned(6, a=2, b=1, c=3)
    assert not plan.unschedulable
    assert Counter(claim.zones for claim in plan.claims) == {(A,): 2, (B,): 1, (C,): 3}


def test_zones_with_plenty_take_what_is_left() -> None:
    plan = planned(6, a=2, b=1)
    assert not plan.unschedulable
    assert sum(A in claim.zones for claim in plan.claims) <= 2
    assert sum(B in claim.zones for claim in plan.claims) <= 1


def test_a_plan_that_fits_keeps_every_zone() -> None:
    """More zones are more capacity."""
    assert [claim.zones for claim in planned(2, a=2, b=2, c=2).claims] == [(A, B, C)] * 2


@pytest.mark.parametrize(("free", "joins"), [(2, True), (5, False)])
def test_only_a_plan_that_would_take_too_many_is_made_with_the_constraint(free: int, joins: bool) -> None:
    """It costs each plan that is far from the last address."""
    addresses = dict.fromkeys(("subnet-a", "subnet-b", "subnet-c"), free)
    world: dict[str, Any] = {"node_pools": (in_zone(A),), "node_classes": (a_class(),), "subnet_addresses": addresses}
    context = context_of(types=TYPES, pods=pods(5), **world)
    claims = (
        GreedyScheduler(context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset())
        .run()
        .claims
    )
    other = context.for_another_plan(claims)
    assert (other is not None and FreeAddresses in other.constraints) is joins


def test_more_pods_than_addresses_share_larger_nodes_or_wait() -> None:
    """No plan counts on an address that does not exist."""
    plan = planned(9, a=2, b=0, c=1)
    assert len(plan.claims) == 3
    assert set(reasons_of(plan).values()) == {PodReason.NO_FREE_ADDRESS}


def test_a_spread_keeps_its_zones_as_long_as_each_has_an_address() -> None:
    """A zone must not be left out before the spread has chosen."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="a"))
    waiting = pods(4, labels={"app": "a"}, spreads=(spread,))
    free = {"subnet-a": 1, "subnet-b": 1, "subnet-c": 1}
    plan = plan_of(types=TYPES, pods=waiting, node_classes=(a_class(),), subnet_addresses=free)
    assert sorted(claim.zones for claim in plan.claims) == [(A,), (B,), (C,)]
    assert list(reasons_of(plan).values()) == [PodReason.NO_FREE_ADDRESS]


def test_replacements_need_addresses_beside_the_nodes_that_go() -> None:
    """Nodes give theirs back only after their replacements run."""
    claim, node = a_node_of(TYPES[1])
    snapshot = a_snapshot(
        types=TYPES,
        nodes=(node,),
        node_claims=(claim,),
        pods=(a_pod("bound", cpu="3", node_name=node.name),),
        node_classes=(a_class(),),
        subnet_addresses={"subnet-a": 0, "subnet-b": 0, "subnet-c": 0},
    )
    results = Planner(snapshot).what_if([node.name], consolidation=True)
    assert reasons_of(results.plan) == {"bound": PodReason.NO_FREE_ADDRESS}


def test_a_copy_has_addresses_of_its_own() -> None:
    """A trial of other claims must not spend what the plan has."""
    world: dict[str, Any] = {"node_classes": (a_class(),), "subnet_addresses": {"subnet-a": 1}}
    context = context_of(types=TYPES, pods=pods(3), node_pools=(in_zone(A),), **world)
    greedy = GreedyScheduler(
        context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset()
    ).run()
    other = context.for_another_plan(greedy.claims)
    assert other is not None
    (first,) = [
        constraint for constraint in other.plan_constraints(()).at_launch if isinstance(constraint, FreeAddresses)
    ]
    copy = first.copy()
    claim = greedy.claims[0]
    copy.open(claim)
    assert zones_of(first.narrowed(claim.draft)) == (A,)
    assert not copy.narrowed(claim.draft).is_possible
    assert first.changes_drafts
