"""Where machines hold few pods: loads are found one by one, and bought whole."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.beam_pricing import Beam
from core.packing.column_generation.dive import Configurations
from core.packing.column_generation.greedy_pricing import worthwhile_loads
from core.packing.column_generation.master_problem import Master
from core.packing.column_generation.shadow_prices import Rents
from core.packing.column_generation.substitution_columns import StandIns
from core.packing.optimize import improve
from core.packing.problem import Floats, Problem
from core.packing.relaxation.fluid_lp import relax
from core.packing.relaxation.preparation import prepared
from core.packing.search_budget import Budget
from tests.unit.packing.heaps import SHAPES, a_heavy_heap, a_problem, one_each
from tests.unit.packing.loads import all_loads

EVERYWHERE = [True] * len(SHAPES)
SMALL_ONLY = [cpu == 2 for cpu, _, _ in SHAPES]


def capped(problem: Problem, most: list[int]) -> Problem:
    """The same heap with a cap on how many pods of each class share a machine."""
    return Problem.of(
        requests=problem.requests,
        counts=problem.counts,
        room=problem.room,
        prices=problem.prices,
        allowed=problem.allowed,
        most=np.array(most),
    )


def most_worth(problem: Problem, values: Floats) -> Floats:
    """[type], what the best load is worth, by trying all."""
    best = np.zeros(len(problem.prices))
    for kind, load in all_loads(problem):
        best[kind] = max(best[kind], load @ values)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_a_heap_of_heavy_pods_comes_close_to_the_bound(seed: int) -> None:
    """GPU and database clusters would cost seven percent more than they have to."""
    problem = a_heavy_heap(seed)
    found = improve(prepared(problem), one_each(problem), seed=0, budget=Budget(120))
    found.packing.check(problem)
    assert found.lower_bound <= found.packing.cost(problem) <= found.lower_bound * 1.06


def test_pods_of_which_two_never_fit_together_get_a_machine_each() -> None:
    """A fluid plan would split them and round to something dearer than the obvious."""
    problem = a_problem([(1.1, 2), (5, 10)], [40, 40])
    packing = Configurations(problem, np.random.default_rng(0), Budget(50)).packing([], relax(problem).bound)
    packing.check(problem)
    pairs = 40 * 340 * 10**6  # one of each on eight vCPU, and a second small one is free
    assert packing.cost(problem) <= pairs


@pytest.mark.parametrize("steps", [1, 2, 5, 9, 14, 20, 30])
def test_a_search_that_is_cut_short_still_packs_every_pod(steps: int) -> None:
    """A deadline would leave pods without a node."""
    problem = a_heavy_heap(5)
    Configurations(problem, np.random.default_rng(0), Budget(steps)).packing([], relax(problem).bound).check(problem)


def test_caps_hold_for_found_loads() -> None:
    """Two replicas that must be apart would share a machine."""
    problem = capped(a_problem([(0.5, 1), (0.4, 1), (1.5, 7)], [30, 30, 8]), [1, 2, 0])
    packing = improve(prepared(problem), one_each(problem), seed=0, budget=Budget(100)).packing
    packing.check(problem)
    assert packing.loads[:, 0].max() == 1
    assert packing.loads[:, 1].max() <= 2
    assert packing.cost(problem) < one_each(problem).cost(problem)


def test_a_place_passes_to_who_asks_for_no_more_and_may_run_there() -> None:
    """A pod would be put where it has no room, or may not run."""
    problem = a_problem([(4, 8), (2, 8), (1, 2), (1, 16)], [1] * 4, [EVERYWHERE, EVERYWHERE, EVERYWHERE, EVERYWHERE])
    assert StandIns.of(problem).pairs.tolist() == [[0, 1], [1, 2], [3, 2]]
    picky = a_problem([(1.5, 3), (1, 2)], [1, 1], [EVERYWHERE, SMALL_ONLY])
    assert StandIns.of(picky).pairs.tolist() == []


def test_who_is_capped_stands_in_for_nobody() -> None:
    """Places of several classes would add up to more of its pods than may share a machine."""
    problem = capped(a_problem([(2, 4), (1, 2)], [4, 4]), [0, 1])
    assert StandIns.of(problem).pairs.tolist() == []


def test_places_beyond_a_class_go_to_its_stand_ins_or_stay_empty() -> None:
    """Pods would be launched twice, or small ones left waiting next to empty places."""
    problem = a_problem([(4, 8), (2, 8), (1, 2)], [1, 1, 1])
    seated = StandIns.of(problem).seated(np.array([[2, 0, 0], [1, 1, 0]]), np.array([2.0, 1.5]), problem.counts)
    assert seated.sum(axis=0).tolist() == [1, 1, 1]


def test_the_master_buys_the_cheapest_mix_of_known_loads() -> None:
    """Later stages would round a plan that is not the best."""
    problem = a_problem([(1.5, 3), (1, 2)], [3, 3])
    master = Master(problem, StandIns.of(problem))
    assert master.add(np.array([0, 0]), np.array([[1, 0], [0, 1]])) == 2
    assert master.add(np.array([0]), np.array([[0, 1]])) == 0
    assert master.solved(problem.counts).cost == pytest.approx(6 * 85 * 10**6)
    assert master.add(np.array([3]), np.array([[4, 2]])) == 1
    mix = master.solved(problem.counts)
    assert mix.cost == pytest.approx(340 * 10**6)  # a place of the first class goes to the second
    assert mix.machines.tolist() == pytest.approx([0, 0, 1])
    assert mix.flows.tolist() == pytest.approx([1])


@pytest.mark.parametrize("seed", range(5))
def test_rents_and_gains_are_worth_at_least_as_much_as_any_load(seed: int) -> None:
    """The search would give up loads that are worthwhile."""
    problem, values = small_heap(seed)
    rents = Rents(problem, problem.counts).under(values)
    gains = np.maximum(values[:, None] - problem.requests @ rents.T, 0) * np.minimum(
        problem.fit, problem.counts[:, None]
    )
    promised = (problem.room * rents).sum(axis=1) + gains.sum(axis=0)
    assert (promised >= most_worth(problem, values) * (1 - 1e-9)).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_beam_finds_the_best_load_of_every_type(seed: int) -> None:
    """Close to the optimum, greedy knapsacks find nothing more and percents are left."""
    problem, values = small_heap(seed)
    rents = Rents(problem, problem.counts).under(values)
    found = Beam(problem, problem.counts, values, rents).loads()
    best = most_worth(problem, values)
    worthwhile = np.flatnonzero(best > problem.prices * 1.001)
    assert worthwhile.size
    for kind in worthwhile:
        assert (found.loads[found.types == kind] @ values).max() == pytest.approx(best[kind])
    assert (found.loads @ problem.requests <= problem.room[found.types]).all()
    assert (found.loads <= np.minimum(problem.fit[:, found.types].T, problem.counts)).all()


@pytest.mark.parametrize("seed", range(5))
def test_greedy_knapsacks_return_loads_that_fit_and_pay(seed: int) -> None:
    """The master program would buy machines that cannot exist, or would not want them."""
    problem, values = small_heap(seed)
    rents = Rents(problem, problem.counts).under(values)
    found = worthwhile_loads(problem, problem.counts, values, values, rents, np.random.default_rng(0))
    assert len(found.types)
    assert (found.loads @ values > problem.prices[found.types]).all()
    assert (found.loads @ problem.requests <= problem.room[found.types]).all()
    assert (found.loads <= np.minimum(problem.fit[:, found.types].T, problem.counts)).all()


def small_heap(seed: int) -> tuple[Problem, Floats]:
    """Four classes, and values at which some machines are worth their price."""
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.choice([1.1, 1.9, 2.7, 3.9])), float(dice.choice([2, 5, 9]))) for _ in range(4)]
    problem = a_problem(sizes, [3, 2, 4, 2])
    prices = problem.prices[[problem.cheapest(load) for load in np.eye(4, dtype=np.int64)]]
    return problem, prices * dice.uniform(0.6, 1.0, 4)
