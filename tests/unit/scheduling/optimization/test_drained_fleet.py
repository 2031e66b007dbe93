"""New nodes for the pods of drained nodes get cheaper, and keep every pod."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.codec import encode_plan
from core.model.pod import TopologySpread
from core.packing.problem import PackingProblem
from core.packing.relaxation import preparation
from core.packing.relaxation.preparation import PreparedProblem
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS, SearchSettings
from core.scheduling.greedy.solution import Solution
from core.scheduling.optimization.drained_fleet import DrainedFleet, _ways
from core.scheduling.optimization.repacker import Repacker
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from core.scheduling.plan_output import SchedulingResults
from core.scheduling.planner import Planner
from core.scheduling.replanning.greedy_plans import Drains
from tests.builders import a_node_of, a_pool, a_selector, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, OPEN, pod_on, world
from tests.unit.disruption.target.test_decide import with_types


def a_drained_fleet(**changes: Any) -> DrainedFleet[SchedulingResults]:
    """Two nodes go whose pods first fit puts on three new nodes of a dollar, and two would do."""
    old = a_type("old", cpu="16", price=9.0)
    sizes = ("3", "3", "2", "2", "2")
    pods = tuple(pod_on(f"n{n % 2}", f"p{n}", cpu=f"{int(cpu) * 900}m", **changes) for n, cpu in enumerate(sizes))
    pool = a_pool("default", ON_DEMAND, disruption=OPEN)
    snapshot = with_types(
        world(a_node_of(old, "n0"), a_node_of(old, "n1"), pods=pods, node_pools=(pool,)),
        ("small", "4", 0.5),
        ("large", "12", 1.0),
    )
    planner = Planner(snapshot)
    positions = planner.context.positions
    return planner.drained(Drains(leaving=frozenset((positions["n0"], positions["n1"]))))


def test_new_nodes_are_packed_as_long_as_the_budget_lasts() -> None:
    fleet = a_drained_fleet()
    packed = fleet.packed(SearchBudget(20))
    assert packed.plan.cost.hourly <= fleet.results.plan.cost.hourly
    assert packed.displaced == fleet.results.displaced
    assert sorted(pod for claim in packed.plan.claims for pod in claim.pods) == list(packed.displaced)
    assert fleet.packed(SearchBudget(0)) is fleet.results


def test_nodes_are_as_planned_if_that_is_cheaper() -> None:
    fleet = a_drained_fleet()
    whole = [{"p": len(fleet.results.displaced)}]
    found = fleet.regrouped(whole, lambda _: "p")
    assert found.plan.cost.hourly <= fleet.results.plan.cost.hourly
    assert fleet.regrouped([], lambda _: "p") is fleet.results


def test_new_nodes_of_a_target_are_packed_by_column_generation_up_to_a_hundred_pods_each() -> None:
    """Thousands of pods on some dozens of machines were packed 2.6 % above their relaxation without it."""
    for way in _ways(DEFAULT_SETTINGS, 500):
        assert way.stages.coarse_pods_per_machine_max == DEFAULT_SETTINGS.target.coarse_pods_per_machine_max == 100


def test_column_generation_also_runs_where_rounding_is_a_percent_above_the_bound() -> None:
    """Targets of 2,000 nodes, rounded to 1.1 % above their relaxation, ended there."""
    for way in _ways(DEFAULT_SETTINGS, 500):
        assert way.stages.coarse_gap_relative == DEFAULT_SETTINGS.target.coarse_gap_relative
        assert way.stages.coarse_gap_relative < DEFAULT_SETTINGS.stages.coarse_gap_relative / 2


def test_new_nodes_of_a_target_are_packed_with_exchanges_and_dives_that_keep_machines() -> None:
    """Plans for waiting pods have neither, nor have small fleets."""
    assert not DEFAULT_SETTINGS.load_exchange.loads
    assert not DEFAULT_SETTINGS.kept_machines.share
    assert not DEFAULT_SETTINGS.master_problem.continues_primal
    few = DEFAULT_SETTINGS.target.improved_loads_nodes_min - 1
    for way in _ways(DEFAULT_SETTINGS, few + 1):
        assert way.load_exchange.loads
        assert way.kept_machines.share
        assert way.master_problem.continues_primal
    for way in _ways(DEFAULT_SETTINGS, few):
        assert not way.load_exchange.loads
        assert not way.kept_machines.share
        assert not way.master_problem.continues_primal


def test_a_restart_takes_nothing_apart_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart searches the problem of a trial, whose claims had been taken apart and whose relaxation had been solved."""
    prepared: list[int] = []
    prepare = preparation.prepared

    def counted(problem: PackingProblem, settings: SearchSettings) -> PreparedProblem:
        prepared.append(len(problem.counts))
        return prepare(problem, settings)

    monkeypatch.setattr(preparation, "prepared", counted)
    a_drained_fleet().packed(SearchBudget(20))
    assert len(prepared) == 2  # for the trial, and for the cheapest new nodes


def test_without_hostname_rules_one_model_of_them_is_tried_and_the_nodes_are_those_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both models are the same then: the second trial took a fifth of the search, and found what the first had found."""
    searched: list[int | None] = []
    improved = Repacker.improved

    def counted(self: Repacker, solution: Solution, budget: SearchBudget) -> Solution:
        searched.append(budget.steps_max)
        return improved(self, solution, budget)

    monkeypatch.setattr(Repacker, "improved", counted)
    once = a_drained_fleet().packed(SearchBudget(20))
    assert len(searched) == 3
    monkeypatch.setattr(Subproblem, "models_hostnames", property(lambda _: True, lambda *_: None), raising=False)
    both = a_drained_fleet().packed(SearchBudget(20))
    assert searched[3:] == [searched[0], *searched[:3]]
    assert encode_plan(once.plan) == encode_plan(both.plan)


def test_with_hostname_rules_both_models_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    improved = Repacker.improved

    def counted(self: Repacker, solution: Solution, budget: SearchBudget) -> Solution:
        tried.append(self._settings.repack.hostname_resources_max)
        return improved(self, solution, budget)

    monkeypatch.setattr(Repacker, "improved", counted)
    spread = TopologySpread(labels.HOSTNAME, 1, selector=a_selector(app="web"))
    a_drained_fleet(labels={"app": "web"}, spreads=(spread,)).packed(SearchBudget(20))
    assert 0 in tried[:2]
    assert len(tried) == 4
