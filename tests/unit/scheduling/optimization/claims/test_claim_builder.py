"""Claims for the machines of a packing."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType
from core.model.snapshot import BEST_EFFORT, STRICT, Options
from core.model.values.requirements import Requirement
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling import schedule
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction
from tests.builders import ZONES, a_pod, a_pool, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, greedy, instance_types

FAMILY = "karpenter.k8s.aws/instance-family"
"""A label of these types; each value has another price."""


def of_families(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """The same, each with its family as a label."""
    return tuple(
        msgspec.structs.replace(one, labels={**one.labels, FAMILY: (one.name.partition("-")[0],)}) for one in types
    )


def test_a_repacked_node_keeps_thirty_types_to_choose_from() -> None:
    """Otherwise, one type without capacity delays the launch; all types of a claim hold its pods."""
    plan = schedule(a_cluster())
    for claim in plan.claims:
        assert len(claim.instance_types) >= 30
        shapes = {tuple(map(int, name.split("-")[1:])) for name in claim.instance_types}
        assert all(cpu * 1000 >= claim.resources["cpu"] for cpu, _ in shapes)
        assert all(gib * 2**30 >= claim.resources["memory"] for _, gib in shapes)


@pytest.mark.parametrize("policy", [STRICT, BEST_EFFORT])
@pytest.mark.parametrize(("key", "least"), [(labels.INSTANCE_TYPE, 50), (FAMILY, 12), (FAMILY, 35)])
def test_repacked_claims_keep_the_choice_that_min_values_require(key: str, least: int, policy: str) -> None:
    """Otherwise, a launch has fewer types to fall back on than the NodePool requires, or nothing is saved."""
    types = {one.name: one for one in of_families(instance_types())}
    choice = Requirement(key, True, (), None, None, least)
    pool = a_pool("default", ON_DEMAND, choice)
    options = Options(improve_iterations=60, min_values_policy=policy)
    cluster = a_cluster(node_pools=(pool,), types=tuple(types.values()), options=options)
    plan = schedule(cluster)
    assert plan.cost.hourly < greedy(cluster).cost.hourly * 0.97
    for claim in plan.claims:
        of_key = (
            claim.instance_types if key != FAMILY else [types[name].labels[FAMILY][0] for name in claim.instance_types]
        )
        assert len(set(of_key)) >= least
        assert {requirement.key: requirement.min_values for requirement in claim.requirements}[key] == least
        assert not claim.min_values_relaxed


def test_pods_that_fit_no_single_node_get_no_claim() -> None:
    """Otherwise, a claim without a type is launched."""
    pods = tuple(a_pod(f"p{i}", cpu="20", memory="1Gi") for i in range(2))
    context, solution = greedily_solved(a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    movable = [one for claim in solution.claims for one in extraction.items_of(claim, scope)]
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    assert builder.claim(movable) is None
    alone = [builder.claim([one]) for one in movable]
    assert [claim.pods for claim in alone if claim is not None] == [one.pods for one in movable]


@pytest.mark.parametrize(("key", "least"), [("", 0), (FAMILY, 35)])
def test_types_far_above_the_cheapest_are_left_out(key: str, least: int) -> None:
    """EC2 launches any type of a claim: beyond the thirty that a launch needs, only minValues justify an expensive one."""
    types = {one.name: one for one in of_families(instance_types())}
    choice = (Requirement(key, True, (), None, None, least),) if key else ()
    plan = schedule(a_cluster(node_pools=(a_pool("default", ON_DEMAND, *choice),), types=tuple(types.values())))
    above, below = DEFAULT_SETTINGS.repack.claim_price_ratio_max
    for claim in plan.claims:
        prices = [min(offering.price for offering in types[name].offerings) for name in claim.instance_types]
        needed = max(DEFAULT_SETTINGS.repack.claim_types_min, least)
        assert all(price * below <= prices[0] * above for price in sorted(prices)[needed:])


@pytest.mark.parametrize(
    ("fewest", "ratio", "names"),
    [
        (1, (1, 1), "a"),
        (1, (3, 2), "abc"),
        (2, (1, 1), "ab"),
        (4, (3, 2), "abcd"),
        (9, (1, 1), "abcde"),
        (1, (16, 10), "abcd"),
        (1, (159, 100), "abc"),
    ],
)
def test_types_near_the_cheapest_are_kept_and_as_many_as_a_launch_needs(
    fewest: int, ratio: tuple[int, int], names: str
) -> None:
    """The cheapest type of all has no room for the pod, and counts for neither."""
    prices = {"a": 0.10, "b": 0.12, "c": 0.15, "d": 0.16, "e": 0.30}
    types = (a_type("tiny", cpu="1", price=0.01), *(a_type(name, price=price) for name, price in prices.items()))
    context, solution = greedily_solved(a_cluster(types=types, pods=(a_pod("p", cpu="1500m"),)))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    settings = msgspec.structs.replace(DEFAULT_SETTINGS.repack, claim_types_min=fewest, claim_price_ratio_max=ratio)
    claim = ClaimBuilder(context, scope, settings).claim(extraction.items_of(solution.claims[0], scope))
    assert claim is not None
    assert "".join(claim.template.types.names(claim.allowed)) == names
    assert claim.charged == claim.allowed
    assert ([pod.name for pod in claim.pods], claim.used) == (["p"], solution.claims[0].used)


def test_pods_that_contradict_each_other_get_no_claim_whoever_comes_between_them() -> None:
    zones = (Requirement.one_of(labels.ZONE, zone) for zone in ZONES[:2])
    pods = (
        a_pod("plain", cpu="1"),
        *(a_pod(f"in-{zone.values[0]}", cpu="1", node_selector=(zone,)) for zone in zones),
    )
    context, solution = greedily_solved(a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    movable = [one for claim in solution.claims for one in extraction.items_of(claim, scope)]
    assert len(movable) == 3
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    assert [builder.claim(order) for order in permutations(movable)] == [None] * 6
    names = {len(pair): builder.claim(pair) is not None for pair in ([movable[0]], movable[:1] + movable[1:2])}
    assert names[1]
