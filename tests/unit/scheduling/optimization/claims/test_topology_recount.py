"""The counts of a changed plan."""

from __future__ import annotations

from msgspec.structs import replace

from core import labels
from core.model.pod import TopologySpread
from core.scheduling.optimization.claims.topology_recount import keeps_counts, recounted
from tests.builders import a_pod, a_selector
from tests.unit.scheduling.optimization.clusters import a_cluster, greedily_solved

SPREAD = TopologySpread(labels.ZONE, 1, selector=a_selector(app="own"))
PODS = tuple(a_pod(f"own{i}", labels={"app": "own"}, spreads=(SPREAD,)) for i in range(9))


def test_an_unchanged_plan_has_the_counts_of_the_greedy_planner() -> None:
    context, solution = greedily_solved(a_cluster(pods=PODS))
    again = recounted(context, solution)
    assert keeps_counts(context, before=solution.state.domain_counts, after=again)


def test_a_plan_that_lost_the_pods_of_a_zone_is_noticed() -> None:
    """Otherwise, a spread that the greedy planner kept is broken to save money."""
    context, solution = greedily_solved(a_cluster(pods=PODS))
    assert len(solution.claims) == 3
    fewer = recounted(context, replace(solution, claims=solution.claims[1:]))
    assert not keeps_counts(context, before=solution.state.domain_counts, after=fewer)
