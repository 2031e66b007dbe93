"""Lower bounds on the cost of new nodes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core import labels
from core.model.pod import PodAffinityTerm
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.size_settings import WholeMachineBoundSettings
from core.scheduling.optimization.lower_bound import LowerBound
from core.scheduling.optimization.relaxed_pods import RelaxedPods
from tests.builders import a_pod, a_selector
from tests.unit.scheduling.optimization.clusters import a_cluster, greedily_solved, instance_types


def test_pods_with_anti_affinity_need_a_node_each() -> None:
    """Otherwise, the bound is too weak to prove that nothing more can be saved."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="own"))
    pods = tuple(a_pod(f"own{i:02}", labels={"app": "own"}, anti_affinity=(apart,)) for i in range(40))
    context, solution = greedily_solved(a_cluster(pods=pods))
    bound = LowerBound(context, RelaxedPods(context, solution, DEFAULT_SETTINGS), DEFAULT_SETTINGS)
    on_demand = (offering for one in instance_types() for offering in one.offerings)
    cheapest = min(offering.price for offering in on_demand if offering.capacity_type == labels.ON_DEMAND)
    assert bound.fluid >= 40 * cheapest * 0.999


def test_whole_loads_prove_more_than_fractions() -> None:
    """Two of these pods never share a node, but fractions of them do."""
    pods = tuple(a_pod(f"p{i}", cpu="17", memory="33Gi") for i in range(40))
    context, solution = greedily_solved(a_cluster(pods=pods))
    bound = LowerBound(context, RelaxedPods(context, solution, DEFAULT_SETTINGS), DEFAULT_SETTINGS)
    cost = sum(claim.price for claim in solution.claims)
    proven = bound.proven(solution.claims, cost=cost, budget=SearchBudget(2_000))
    assert bound.fluid < 0.6 * cost
    assert proven == pytest.approx(cost, rel=2e-3)
    assert proven <= cost
    assert bound.proven(solution.claims, cost=cost, budget=SearchBudget(0)) == bound.fluid


def test_whole_machines_prove_more_than_parts_of_them() -> None:
    """Three pods that fill one and a half small nodes: whole nodes need no step of the search."""
    pods = tuple(a_pod(f"p{i}", cpu="1", memory="1Gi") for i in range(3))
    context, solution = greedily_solved(a_cluster(pods=pods))
    bound = LowerBound(context, RelaxedPods(context, solution, DEFAULT_SETTINGS), DEFAULT_SETTINGS)
    cost = sum(claim.price for claim in solution.claims)
    assert bound.fluid < bound.proven(solution.claims, cost=cost, budget=SearchBudget(0)) <= cost
    over = SearchBudget(out_of_time=lambda: 1)
    assert bound.proven(solution.claims, cost=cost, budget=over) == bound.fluid
    no_machines = replace(DEFAULT_SETTINGS, whole_machine_bound=WholeMachineBoundSettings(machines_max=0))
    bound = LowerBound(context, RelaxedPods(context, solution, no_machines), no_machines)
    assert bound.proven(solution.claims, cost=cost, budget=SearchBudget(0)) == bound.fluid
