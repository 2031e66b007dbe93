"""From claims to a packing problem and back."""

from __future__ import annotations

import numpy as np

from core import labels
from core.model.values.requirements import Requirement
from core.packing.problem import Packing, PackingProblem
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.greedy.solution import Solution
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from tests.builders import ZONES, a_pod, a_pool, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved


def a_subproblem(zone: str = "", **changes: object) -> tuple[Subproblem, Solution]:
    context, solution = greedily_solved(a_cluster(**changes))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    nodes = [extraction.items_of(claim, scope) for claim in solution.claims]
    return Subproblem(context, scope, nodes, settings=DEFAULT_SETTINGS.repack, zone=zone), solution


def test_the_greedy_nodes_are_the_incumbent() -> None:
    """Otherwise, the search may end with a more expensive plan than it began with."""
    subproblem, solution = a_subproblem()
    problem = subproblem.problem()
    incumbent = subproblem.incumbent(problem)
    incumbent.check(problem)
    assert incumbent.cost(problem) == sum(claim.price for claim in solution.claims)


def test_a_packing_becomes_claims_with_all_pods() -> None:
    subproblem, solution = a_subproblem()
    problem = subproblem.problem()
    single = np.eye(len(problem.counts), dtype=np.int64)
    types = np.array([problem.cheapest_type(load) for load in single])
    apart = Packing(np.repeat(types, problem.counts), np.repeat(single, problem.counts, axis=0))
    claims = subproblem.claims_of(problem, apart)
    assert len(claims) == 60
    found = sorted(pod.key for claim in claims for pod in claim.pods)
    assert found == sorted(pod.key for claim in solution.claims for pod in claim.pods)
    assert sum(claim.price for claim in claims) == apart.cost(problem)


def test_with_a_zone_only_its_offerings_are_launched() -> None:
    """Otherwise, a zone's pods are packed onto types that it does not have."""
    types = (
        a_type("only-a", cpu="8", memory="64Gi", price=0.1, zones=(ZONES[0],)),
        a_type("everywhere", cpu="8", memory="64Gi", price=0.2),
    )
    anywhere, _ = a_subproblem(types=types)
    in_second, _ = a_subproblem(ZONES[1], types=types)
    assert sorted(anywhere.problem().prices.tolist()) == [100_000_000, 200_000_000]
    assert in_second.problem().prices.tolist() == [200_000_000]


def test_min_values_limit_a_type_to_capacity_that_others_have_too() -> None:
    choice = Requirement(labels.INSTANCE_TYPE, True, (), None, None, 50)
    strict, _ = a_subproblem(node_pools=(a_pool("default", ON_DEMAND, choice),))
    plain, _ = a_subproblem()
    assert strict.problem().capacity.sum() < plain.problem().capacity.sum()


def test_where_the_present_nodes_hold_too_much_no_two_kinds_of_pods_share_a_machine() -> None:
    """Each kind is on the type that costs least for its pods, as many on each machine as it holds."""
    for counts, types, loads in (
        ((7, 3), [1, 1, 1, 1], [[5, 0], [2, 0], [0, 2], [0, 1]]),
        ((7, 1), [1, 1, 0], [[5, 0], [2, 0], [0, 1]]),
        ((2, 4), [0, 1, 1], [[2, 0], [0, 2], [0, 2]]),
        ((10, 2), [1, 1, 1], [[5, 0], [5, 0], [0, 2]]),
    ):
        pods = tuple(
            a_pod(f"{cpu}-{n}", cpu=cpu, memory="1Gi")
            for cpu, count in zip("21", counts, strict=True)
            for n in range(count)
        )
        subproblem, _ = a_subproblem(pods=pods)
        assert [*subproblem.counts.values()] == [*counts]
        problem = PackingProblem.of(
            requests=np.array([[2], [5]]),
            counts=np.array(counts),
            capacity=np.array([[5], [10]]),
            prices=np.array([6, 10]),
            allowed=np.ones((2, 2), dtype=bool),
        )
        found = subproblem.incumbent(problem)
        found.check(problem)
        assert (found.types.tolist(), found.loads.tolist()) == (types, loads)
