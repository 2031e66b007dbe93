"""Large-neighbourhood search."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.heuristics import (
    RuinAndRecreate,
    cuts,
    exchanged,
    fitted,
    greedy_loads,
    guided_rounding,
    pack_by_value,
    promising_types,
    separate_cost,
    separate_packing,
    two_type_packings,
)
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation import FluidSolution, prepared, relax
from core.packing.settings import SearchBudget, SearchSettings
from tests.unit.packing.problems import (
    MILLS,
    SETTINGS,
    SIZES,
    of_every_size,
    one_pod_per_machine,
    with_large_pods,
    with_small_pods,
)
from tests.unit.packing.problems import a_problem as packing_problem

# Exchanging a few machines for a cheaper set.


PORTIONS = SETTINGS.cover_exchange.portions_per_machine


def swaps(problem: PackingProblem, price_max: int) -> list[Packing | None]:
    dice = np.random.default_rng(0)
    return [
        exchanged(
            problem,
            problem.counts,
            price_max=price_max,
            machines=4,
            generator=dice,
            settings=SETTINGS.cover_exchange,
        )
        for _ in range(20)
    ]


def test_pods_are_combined_so_that_all_resources_run_out_together() -> None:
    """Otherwise, pods with much memory and pods with much CPU are separated, and two half-empty machines are launched."""
    problem = packing_problem([(3, 2), (1, 14)], [4, 4])
    general = np.array([4, 4])
    loads = fitted(problem, types=general, demand=problem.counts, portions_per_machine=PORTIONS)
    assert loads is not None
    Packing(general, loads).check(problem)
    assert fitted(problem, types=general[:1], demand=problem.counts, portions_per_machine=PORTIONS) is None


def test_an_exchange_lowers_the_cost() -> None:
    """Otherwise, pods are moved for nothing."""
    problem = packing_problem([(1, 4)], [7])
    found = [packing for packing in swaps(problem, 504 * MILLS) if packing is not None]
    assert found
    for packing in found:
        packing.check(problem)
        assert packing.cost(problem) < 504 * MILLS
    assert swaps(problem, 336 * MILLS) == [None] * 20


# Rounding the fluid solution to whole machines.


def test_every_way_of_rounding_packs_every_pod() -> None:
    """Otherwise, a pod is lost between two stages."""
    problem = with_small_pods(2)
    fluid = relax(problem, SETTINGS)
    tried = cuts(fluid, SETTINGS.rounding)
    assert len(tried) > 1
    for cut in tried:
        dice = np.random.default_rng(0)
        guided_rounding(problem, fluid, cut, generator=dice, settings=SETTINGS).check(problem)


def test_the_first_rounding_is_complete_and_later_ones_leave_more_out() -> None:
    fluid = relax(with_small_pods(2), SETTINGS)
    left_out = [sum(cut) for cut in cuts(fluid, SETTINGS.rounding)]
    assert left_out[0] == 0
    assert left_out == sorted(left_out)
    assert len(left_out) <= SETTINGS.rounding.cuts_max


def test_items_that_the_program_covers_twice_are_packed_once() -> None:
    """The program may cover items without value more than once; otherwise, some are planned for twice."""
    problem = packing_problem([(1, 4)], [8])
    machines, pods = np.zeros(len(SIZES)), np.zeros((1, len(SIZES)))
    machines[[3, 4]], pods[0, [3, 4]] = 2.0, 8.0
    twice = FluidSolution(0, machines, pods, np.zeros(1), np.zeros((1, 1)))
    dice = np.random.default_rng(0)
    guided_rounding(problem, twice, (0, 0), generator=dice, settings=SETTINGS).check(problem)


def with_share_of_exchanges(share: float) -> SearchSettings:
    return replace(SETTINGS, ruin_and_recreate=replace(SETTINGS.ruin_and_recreate, exchange_share=share))


def searched(
    problem: PackingProblem, start: Packing, budget: SearchBudget, settings: SearchSettings = SETTINGS
) -> Packing:
    fluid, dice = relax(problem, settings), np.random.default_rng(0)
    return RuinAndRecreate(problem, fluid, generator=dice, budget=budget, settings=settings).improved(start)


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0], ids=["by value", "both", "exchanges"])
@pytest.mark.parametrize("seed", range(2))
def test_every_pod_stays_packed_and_the_cost_falls(share: float, seed: int) -> None:
    """Otherwise, pods are lost with the machines that are emptied."""
    problem = with_large_pods(seed, items=8, pods=40)
    start = one_pod_per_machine(problem)
    found = searched(problem, start, SearchBudget(60), with_share_of_exchanges(share))
    found.check(problem)
    assert found.cost(problem) < start.cost(problem)


def test_without_steps_nothing_changes() -> None:
    problem = with_small_pods(1)
    start = one_pod_per_machine(problem)
    assert searched(problem, start, SearchBudget(0)) is start


def test_a_search_without_savings_ends() -> None:
    """Otherwise, a pod waits for steps that find nothing."""
    problem = with_large_pods(0, items=3, pods=9)
    settings = replace(SETTINGS, ruin_and_recreate=replace(SETTINGS.ruin_and_recreate, idle_steps_max=5))
    budget = SearchBudget(100_000)
    best = searched(problem, one_pod_per_machine(problem), budget, settings)
    assert budget.steps < 2_000
    again = SearchBudget(100_000)
    assert searched(problem, best, again, settings).cost(problem) <= best.cost(problem)


def test_types_that_the_relaxation_uses_are_promising() -> None:
    problem = with_small_pods(1)
    fluid = relax(problem, SETTINGS)
    bought = np.flatnonzero(fluid.machines > 1e-6)
    assert set(bought.tolist()) <= set(promising_types(problem, fluid, 1).tolist())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 3])
def test_types_with_the_best_value_for_their_price_are_promising(seed: int, count: int) -> None:
    """Value for price of a type: its best load of one kind of pod, at what the relaxation says that a pod is worth."""
    problem = with_large_pods(seed)
    fluid = relax(problem, SETTINGS)
    values = [
        max(fit * value for fit, value in zip(column, fluid.item_values, strict=True)) for column in problem.fit.T
    ]
    density = np.array(values) / problem.prices
    best = sorted(range(len(density)), key=lambda one: -density[one])[:count]
    found = set(promising_types(problem, fluid, count).tolist())
    assert found == {*best, *np.flatnonzero(fluid.machines > 1e-6).tolist()}


@pytest.mark.parametrize("seed", range(3))
def test_a_poor_packing_comes_near_the_bound(seed: int) -> None:
    """Machines with the least value for their price are opened again; from one pod a machine, most of the excess goes."""
    problem = with_large_pods(seed, items=6, pods=40)
    start, bound = one_pod_per_machine(problem), relax(problem, SETTINGS).lower_bound
    found = searched(problem, start, SearchBudget(300))
    assert found.cost(problem) - bound < 0.25 * (start.cost(problem) - bound)


# One machine for each pod.


def a_problem() -> PackingProblem:
    """Three small and two large pods; the large machine is cheaper by capacity, the small one for a small pod."""
    return PackingProblem.of(
        requests=np.array([[1], [4]]),
        counts=np.array([3, 2]),
        capacity=np.array([[8], [4], [1]]),
        prices=np.array([70, 50, 20]),
        allowed=np.ones((2, 3), dtype=np.bool_),
    )


def test_every_pod_has_the_cheapest_machine_that_holds_it() -> None:
    packing = separate_packing(a_problem())
    packing.check(a_problem())
    assert packing.types.tolist() == [2, 2, 2, 1, 1]


def test_the_cost_is_known_before_the_machines_are_created() -> None:
    """Creating ten thousand machines only for their price would cost more than the search."""
    assert separate_cost(a_problem()) == separate_packing(a_problem()).cost(a_problem()) == 160


# Rounding with two types at a time.


PROBLEM = prepared(of_every_size(200, apart=60), SETTINGS).reduced


def found(budget: SearchBudget) -> list[Packing]:
    fluid, dice = relax(PROBLEM, SETTINGS), np.random.default_rng(0)
    return two_type_packings(PROBLEM, fluid, generator=dice, budget=budget, settings=SETTINGS)


def test_two_sizes_near_the_average_round_better_than_the_smallest_with_the_largest() -> None:
    """If every size costs the same per capacity, the solver's mix leaves gaps on machines of all sizes."""
    packings = found(SearchBudget(40))
    for packing in packings:
        packing.check(PROBLEM)
    costs = [packing.cost(PROBLEM) for packing in packings]
    assert costs == sorted(costs)
    fluid, dice = relax(PROBLEM, SETTINGS), np.random.default_rng(0)
    of_all_types = [
        guided_rounding(PROBLEM, fluid, cut, generator=dice, settings=SETTINGS).cost(PROBLEM)
        for cut in cuts(fluid, SETTINGS.rounding)
    ]
    assert costs[0] < min(of_all_types)


def test_without_steps_there_is_none() -> None:
    assert found(SearchBudget(0)) == []


def test_no_more_pairs_are_rounded_than_column_generation_needs() -> None:
    budget = SearchBudget(40)
    assert len(found(budget)) == budget.steps == SETTINGS.two_type.pairs_rounded_max


# Packing by value.


def packed(problem: PackingProblem, noise_log: float = 0.0) -> Packing:
    return pack_by_value(
        problem,
        demand=problem.counts,
        item_values=relax(problem, SETTINGS).item_values,
        generator=np.random.default_rng(0),
        settings=SETTINGS.value_packing,
        noise_log=noise_log,
    )


def test_a_load_that_fits_the_demand_several_times_is_repeated() -> None:
    """Otherwise, a thousand equal pods take a thousand steps."""
    problem = packing_problem([(1, 4)], [64])
    packing = packed(problem)
    packing.check(problem)
    assert packing.cost(problem) == 8 * 384 * MILLS


@pytest.mark.parametrize("noise_log", [0.0, 0.3])
def test_every_pod_is_packed(noise_log: float) -> None:
    problem = with_large_pods(3)
    packed(problem, noise_log).check(problem)


def test_a_greedy_knapsack_takes_items_in_its_order() -> None:
    problem = packing_problem([(1, 1), (0.5, 1)], [5, 5])
    pods_max = np.minimum(problem.fit, problem.counts[:, None]).astype(float)
    order = np.array([[[0], [1]], [[1], [0]]])  # [rank, knapsack, any type]
    taken = greedy_loads(problem, demand=problem.counts, pods_max=pods_max, order=order)
    assert taken[:, 0, 0].tolist() == [2, 0]  # two vCPU hold two of the first
    assert taken[:, 1, 0].tolist() == [4, 0]  # or four of the second
    assert taken[:, 0, 3].tolist() == [5, 5]
