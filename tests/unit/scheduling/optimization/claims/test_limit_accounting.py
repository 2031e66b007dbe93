"""Cheaper claims within the limits of their NodePool."""

from __future__ import annotations

import pytest

from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling import schedule
from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.optimization.claims.limit_accounting import replaces_within_limits
from core.scheduling.optimization.repacker import Repacker
from tests.builders import a_pod, a_pool
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, greedy, instance_types


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
