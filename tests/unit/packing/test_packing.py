"""The packing as pure combinatorics."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from core.errors import InvariantError
from core.packing.arithmetic_bound import rough_bound
from core.packing.heuristics.cover_exchange import exchange, fitted
from core.packing.heuristics.guided_rounding import cuts, guided_fill
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.optimize import improve
from core.packing.problem import Packing, Problem, resized
from core.packing.relaxation import fluid_lp as fluid_module
from core.packing.relaxation.fluid_lp import relax
from core.packing.relaxation.preparation import prepared
from core.packing.search_budget import Budget
from tests.unit.packing.heaps import SHAPES, a_heap, a_problem, one_each


def rough(problem: Problem) -> int:
    offers = [(int(price), tuple(map(int, room))) for price, room in zip(problem.prices, problem.room, strict=True)]
    return rough_bound(
        (tuple(map(int, requests)), int(count), [o for o, fits in zip(offers, fit > 0, strict=True) if fits])
        for requests, count, fit in zip(problem.requests, problem.counts, problem.fit, strict=True)
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_search_comes_close_to_the_bound(seed: int) -> None:
    """Money that the solver has shown how to save would be spent."""
    problem = a_heap(seed)
    found = improve(prepared(problem), one_each(problem), seed=0, budget=Budget(200))
    found.packing.check(problem)
    assert found.lower_bound <= found.packing.cost(problem) <= found.lower_bound * 1.06


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_what_is_good_already_is_never_made_dearer(steps: int) -> None:
    """A later stage would throw away what an earlier one found."""
    problem = a_heap(7)
    good = improve(prepared(problem), one_each(problem), seed=0, budget=Budget(300)).packing
    again = improve(prepared(problem), good, seed=1, budget=Budget(steps)).packing
    assert again.cost(problem) <= good.cost(problem)


def test_the_same_seed_and_steps_give_the_same_packing() -> None:
    """A run could not be repeated."""
    problem = a_heap(3)
    one, two = (improve(prepared(problem), one_each(problem), seed=5, budget=Budget(60)).packing for _ in range(2))
    assert one.types.tolist() == two.types.tolist()
    assert one.loads.tolist() == two.loads.tolist()


def test_a_budget_ends_by_steps_and_by_the_callers_word() -> None:
    """Pods would wait for a search that never ends."""
    budget = Budget(2)
    assert [budget.step() for _ in range(3)] == [True, True, False]
    assert not Budget(None, lambda: True).step()
    assert Budget(None, lambda: False).step()


def test_pods_stay_where_they_may_run() -> None:
    """A pod would land on an architecture that it was not built for."""
    may = [[size < 4 for size in range(len(SHAPES))], [size >= 4 for size in range(len(SHAPES))]]
    problem = a_problem([(0.5, 1), (0.5, 1)], [40, 40], may)
    packing = improve(prepared(problem), one_each(problem), seed=0, budget=Budget(100)).packing
    assert (packing.loads[packing.types < 4, 1] == 0).all()
    assert (packing.loads[packing.types >= 4, 0] == 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_no_packing_undercuts_the_bounds(seed: int) -> None:
    """A gap would be reported that is none: small heaps are packed in every possible way."""
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.choice([0.5, 1, 3])), float(dice.choice([1, 4, 12]))) for _ in range(3)]
    problem = a_problem(sizes, [2, 1, 2])
    cheapest = cheapest_of_all(problem)
    assert relax(problem).bound <= cheapest
    assert rough(problem) <= cheapest
    found = improve(prepared(problem), one_each(problem), seed=0, budget=Budget(100))
    assert found.packing.cost(problem) <= cheapest * 1.1


def cheapest_of_all(problem: Problem) -> int:
    """By trying every partition of the pods into machines."""
    pods = [c for c, n in enumerate(problem.counts) for _ in range(n)]
    best = None
    for labels in itertools.product(range(len(pods)), repeat=len(pods)):
        if any(label > max(labels[:i], default=-1) + 1 for i, label in enumerate(labels)):
            continue
        loads = np.zeros((max(labels) + 1, len(problem.counts)), dtype=np.int64)
        np.add.at(loads, (list(labels), pods), 1)
        types = [problem.cheapest(load) for load in loads]
        if min(types) >= 0:
            cost = int(problem.prices[types].sum())
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best


def test_many_alike_classes_are_solved_as_few_and_the_bound_still_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of a thousand services would wait for the solver, or get a bound that is none."""
    problem = a_heap(1, classes=120, pods=1200)
    exact = relax(problem)
    monkeypatch.setattr(fluid_module, "LOADS_MAX", 200)
    coarse = relax(problem)
    assert 0.97 * exact.bound <= coarse.bound <= exact.bound * (1 + 1e-6)
    assert np.allclose(coarse.loads.sum(axis=1), problem.counts)
    guided_fill(problem, coarse, np.random.default_rng(0), cuts(coarse)[0]).check(problem)


def test_every_way_of_rounding_the_fluid_plan_packs_every_pod() -> None:
    """A pod would be forgotten between two stages."""
    problem = a_heap(2)
    fluid = relax(problem)
    tried = cuts(fluid)
    assert len(tried) > 1
    for cut in tried:
        guided_fill(problem, fluid, np.random.default_rng(0), cut).check(problem)


def test_packing_by_value_repeats_a_load_that_fits_the_demand_often() -> None:
    """A thousand equal pods would take a thousand steps."""
    problem = a_problem([(1, 4)], [64])
    packing = pack_by_value(problem, problem.counts, relax(problem).values, np.random.default_rng(0))
    packing.check(problem)
    assert packing.cost(problem) == 8 * 384 * 10**6


def test_pods_are_fitted_so_that_all_resources_run_out_together() -> None:
    """Big memory and big CPU pods would be stacked apart, and two half-empty machines bought."""
    problem = a_problem([(3, 2), (1, 14)], [4, 4])
    general = np.array([4, 4])
    loads = fitted(problem, general, problem.counts)
    assert loads is not None
    Packing(general, loads).check(problem)
    assert fitted(problem, general[:1], problem.counts) is None


def test_a_swap_is_cheaper_or_none() -> None:
    """Money would be spent on moving pods around."""
    problem = a_problem([(1, 4)], [7])
    dice = np.random.default_rng(0)
    found = [exchange(problem, problem.counts, 504 * 10**6, 4, dice) for _ in range(20)]
    swaps = [packing for packing in found if packing is not None]
    assert swaps
    for packing in swaps:
        packing.check(problem)
        assert packing.cost(problem) < 504 * 10**6
    assert [exchange(problem, problem.counts, 336 * 10**6, 4, dice) for _ in range(20)] == [None] * 20


def test_a_load_moves_to_the_cheapest_machine_that_holds_it() -> None:
    """A nearly empty giant would stay."""
    problem = a_problem([(1, 4)], [2])
    shrunk = resized(problem, Packing(np.array([7]), np.array([[2]])))
    assert shrunk.types.tolist() == [1]


def test_machines_that_nothing_would_buy_are_left_out() -> None:
    """The solver would weigh hundreds of types that others beat."""
    problem = Problem.of(
        requests=np.array([[1]]),
        counts=np.array([1]),
        room=np.array([[4], [4], [8], [2]]),
        prices=np.array([10, 10, 9, 20]),
        allowed=np.array([[True, True, True, True]]),
    )
    assert problem.undominated().tolist() == [2]


@pytest.mark.parametrize(
    ("types", "loads"),
    [([4], [[9, 0]]), ([4, 4], [[8, 0], [8, 0]]), ([4], [[8, 1]]), ([4], [[7, 0]])],
    ids=["overfull", "twice", "forbidden", "missing"],
)
def test_a_wrong_packing_is_found_out(types: list[int], loads: list[list[int]]) -> None:
    """What the floating-point stages get wrong would be launched."""
    may = [[True] * len(SHAPES), [size != 4 for size in range(len(SHAPES))]]
    problem = a_problem([(1, 4), (0.01, 0.01)], [8, 0], may)
    with pytest.raises(InvariantError):
        Packing(np.array(types), np.array(loads)).check(problem)


def test_a_class_that_fits_nothing_is_refused() -> None:
    """Its bound would be infinite."""
    with pytest.raises(InvariantError):
        a_problem([(100, 4)], [1])


def test_the_rough_bound_knows_that_a_pod_needs_a_whole_machine() -> None:
    """For a lone pod the gap would be said to be huge."""
    problem = a_problem([(1.5, 3)], [1])
    assert rough(problem) == 85 * 10**6
