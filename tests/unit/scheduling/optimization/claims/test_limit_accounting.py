"""Cheaper claims within the limits of their NodePool."""

from __future__ import annotations

import pytest

from core import labels
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling import schedule
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.optimization.claims.limit_accounting import replaces_within_limits
from core.scheduling.optimization.repacker import Repacker
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import TypeMask
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, greedy, instance_types
from tests.unit.scheduling.reading import context_of


@pytest.mark.parametrize("limits", [{"cpu": 96000}, {"nodes": 2}, {"memory": 400 * 2**30}])
def test_limits_hold_for_the_repacked_nodes_too(limits: dict[str, int]) -> None:
    """Otherwise, the cheaper nodes are larger than the NodePool allows."""
    cluster = a_cluster(node_pools=(a_pool("default", ON_DEMAND, limits=limits),))
    capacity = {t.name: t.capacity for t in instance_types()}
    plan = schedule(cluster)
    assert plan.cost.hourly <= greedy(cluster).cost.hourly
    assert len(plan.claims) <= limits.get("nodes", 99)
    for name in ("cpu", "memory"):
        taken = sum(max(capacity[t][name] for t in claim.instance_types) for claim in plan.claims)
        assert taken <= limits.get(name, taken)


def test_claims_that_are_not_cheaper_change_nothing() -> None:
    """Otherwise, the limits are charged for claims that were not taken."""
    _, solution = greedily_solved(a_cluster(pods=(a_pod("p"),)))
    limits = RemainingLimits({"cpu": 100_000}, {})
    limits.charge(solution.claims[0].template.types, solution.claims[0].charged)
    before = dict(limits.left)
    assert not replaces_within_limits(solution.claims, solution.claims, limits=limits)
    assert not replaces_within_limits([], solution.claims, limits=limits)
    assert limits.left == before


def test_two_searches_from_one_plan_are_charged_by_themselves() -> None:
    """Consolidation tries two ways of packing: the second was charged after the first, and its limits had room twice."""
    context, solution = greedily_solved(a_cluster(node_pools=(a_pool("default", ON_DEMAND, limits={"cpu": 96_000}),)))
    before = [dict(limits.left) for limits in solution.state.limits]
    first, second = (Repacker(context, DEFAULT_SETTINGS).improved(solution, SearchBudget(60)) for _ in range(2))
    assert first is not solution
    assert [limits.left for limits in solution.state.limits] == before
    assert [limits.left for limits in first.state.limits] == [limits.left for limits in second.state.limits] != before


SIZES = (
    a_type("small", cpu="4", memory="16Gi", price=0.4),
    a_type("middle", cpu="8", memory="8Gi", price=0.5),
    a_type("large", cpu="16", memory="64Gi", price=0.9),
    a_type("old", cpu="16", memory="16Gi", price=2.0),
)


def replaced(
    limits: dict[str, int], *found: tuple[str, ...], min_values: int = 0, old: int = 1
) -> tuple[list[list[str]], dict[str, int]] | None:
    """The types of the claims that replace `old` ones of sixteen CPUs, and what is left of the limits; None if they do not.

    Args:
        limits: The limits before the old claims.
        found: The types of each new claim.
        min_values: How many of them each claim needs.
        old: How many claims are replaced.
    """
    context = context_of(types=SIZES, node_pools=(a_pool("default", ON_DEMAND),))
    (template,) = context.templates
    types = template.types
    needs = {labels.INSTANCE_TYPE: min_values} if min_values else {}

    def claim(*names: str) -> InFlightClaim:
        mask = TypeMask(bits(types.names(types.full).index(name) for name in names))
        zero = context.axis.zero
        return InFlightClaim(0, template, template.offered, mask, zero, charged=mask, min_values=needs)

    remaining = RemainingLimits(limits, {})
    before = [claim("old") for _ in range(old)]
    for one in before:
        remaining.charge(types, one.charged)
    left, claims = dict(remaining.left), [claim(*names) for names in found]
    if not replaces_within_limits(claims, before, limits=remaining):
        assert remaining.left == left
        return None
    assert all(one.charged == one.allowed for one in claims)
    return [list(types.names_in_price_order(one.allowed, one.reqs)) for one in claims], remaining.left


ALL = ("small", "middle", "large")
GI = 2**30


def test_a_claim_keeps_no_type_larger_than_its_cheapest_in_what_is_limited() -> None:
    """It is charged its largest type: the limits would have no room for others."""
    assert replaced({}, ALL) == ([["small", "middle", "large"]], {})
    assert replaced({"cpu": 16_000}, ALL) == ([["small"]], {"cpu": 12_000})
    assert replaced({"memory": 70 * GI}, ALL) == ([["small", "middle"]], {"memory": 54 * GI})
    assert replaced({"cpu": 16_000, "memory": 16 * GI}, ALL) == ([["small"]], {"cpu": 12_000, "memory": 0})
    assert replaced({"nodes": 1}, ALL) == ([["small", "middle", "large"]], {"nodes": 0})
    assert replaced({"cpu": 16_000}, ("middle", "large")) == ([["middle"]], {"cpu": 8_000})


def test_types_that_min_values_need_stay_as_far_as_the_limits_allow() -> None:
    assert replaced({"cpu": 16_000}, ALL, min_values=2) == ([["small", "middle", "large"]], {"cpu": 0})
    assert replaced({"cpu": 20_000, "memory": 60 * GI}, ALL, min_values=2) == (
        [["small", "middle"]],
        {"cpu": 12_000, "memory": 44 * GI},
    )
    assert replaced({"cpu": 16_000, "memory": 60 * GI}, ALL, min_values=3) is None
    assert replaced({}, ALL, min_values=3) == ([["small", "middle", "large"]], {})


def test_claims_that_the_limits_do_not_allow_together_or_that_cost_as_much_replace_none() -> None:
    assert replaced({"cpu": 16_000}, ("large",), ("small",)) is None
    assert replaced({"cpu": 20_000}, ("large",), ("small",)) == ([["large"], ["small"]], {"cpu": 0})
    assert replaced({"nodes": 1}, ("small",), ("small",)) is None
    assert replaced({"cpu": 99_000}, ("old",)) is None
    assert replaced({"cpu": 99_000}, *[("small",)] * 5) is None
    assert replaced({"cpu": 99_000}, *[("small",)] * 5, old=2) == ([["small"]] * 5, {"cpu": 79_000})
    assert replaced({"cpu": 99_000}) is None
