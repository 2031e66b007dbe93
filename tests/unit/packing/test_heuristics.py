"""Roundings, packing by value, and the best mix of few machines."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.heuristics import (
    cuts,
    few_machines,
    greedy_loads,
    guided_rounding,
    pack_by_value,
    placed,
    promising_types,
    separate_packing,
    two_type_packings,
)
from core.packing.problem import Packing, PackingProblem, whole_machines
from core.packing.relaxation import FluidSolution, prepared, relax
from core.packing.settings import SearchBudget
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

# The best mix of few machines, and places for all pods on it.


FEW = SETTINGS.few_machines


def test_pods_are_combined_so_that_all_resources_run_out_together() -> None:
    """Otherwise, pods with much memory and pods with much CPU are separated, and two half-empty machines are launched."""
    problem = packing_problem([(3, 2), (1, 14)], [4, 4])
    general = np.array([4, 4])
    loads = placed(problem, general, SearchBudget(), FEW)
    assert loads is not None
    Packing(general, loads).check(problem)
    assert placed(problem, general[:1], SearchBudget(), FEW) is None


def test_an_item_that_may_run_on_none_of_the_machines_has_no_place() -> None:
    problem = packing_problem([(1, 4), (12, 20)], [1, 1])
    small = np.flatnonzero(problem.fit[1] == 0)
    assert placed(problem, small[[0, 0]], SearchBudget(), FEW) is None


def nearly_full(seed: int) -> tuple[PackingProblem, np.ndarray]:
    """Some machines, and pods that fill them but for a hundredth: they are what random cuts of the machines leave."""
    dice = np.random.default_rng(seed)
    parts = np.sort(dice.integers(50, 950, (5, 5, 2)), axis=1)
    requests = np.maximum(np.diff(parts, axis=1, prepend=0, append=990).reshape(-1, 2), 1)
    problem = PackingProblem.of(
        requests=requests,
        counts=np.ones(len(requests), dtype=np.int64),
        capacity=np.array([[1000 + 30, 1000 + 30]]),
        prices=np.array([100]),
        allowed=np.ones((len(requests), 1), dtype=np.bool_),
    )
    return problem, np.zeros(5, dtype=np.int64)


def test_pods_are_exchanged_until_no_machine_is_overfull() -> None:
    """The largest first leave a pod without a place in most of these; exchanges find one."""
    places = {0: 0, FEW.exchanges_max: 0}
    for seed in range(12):
        problem, types = nearly_full(seed)
        for exchanges in places:
            loads = placed(problem, types, SearchBudget(), replace(FEW, exchanges_max=exchanges))
            places[exchanges] += loads is not None
            if loads is not None:
                Packing(types, loads).check(problem)
    assert places[FEW.exchanges_max] > places[0] + 3


def test_exchanges_end_with_the_time() -> None:
    late = SearchBudget(out_of_time=lambda: 1.0)
    found = [placed(problem, types, late, FEW) for problem, types in map(nearly_full, range(12))]
    without = [placed(*nearly_full(seed), SearchBudget(), replace(FEW, exchanges_max=0)) for seed in range(12)]
    assert [loads is None for loads in found] == [loads is None for loads in without]


@pytest.mark.parametrize("seed", range(4))
def test_a_pod_stays_where_it_may_run(seed: int) -> None:
    """An exchange must not put a pod on a type that its requirements exclude, nor more of a kind than a machine may hold."""
    dice = np.random.default_rng(seed)
    problem = PackingProblem.of(
        requests=dice.integers(1, 9, (12, 2)),
        counts=dice.integers(1, 9, 12),
        capacity=np.array([[60, 60], [80, 50], [50, 80]]),
        prices=np.array([100, 110, 110]),
        allowed=dice.random((12, 3)) < 0.8,
        pods_per_machine_max=np.where(dice.random(12) < 0.3, 2, 0),
    )
    total = problem.counts @ problem.requests
    machines = int(-(-total.max() // 60)) + 2
    loads = placed(problem, np.arange(machines) % 3, SearchBudget(), FEW)
    if loads is not None:
        Packing(np.arange(machines) % 3, loads).check(problem)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_mix_of_machines_costs_little_more_than_its_bound(seed: int) -> None:
    """Many small pods on a few machines: only what must be spare for whole pods is between the two."""
    dice = np.random.default_rng(seed)
    problem = PackingProblem.of(
        requests=dice.integers(1, 12, (20, 2)),
        counts=dice.integers(1, 30, 20),
        capacity=np.array([[100, 200], [200, 200], [250, 400], [400, 300], [500, 900]]),
        prices=np.array([110, 170, 270, 300, 600]),
        allowed=np.ones((20, 5), dtype=np.bool_),
    )
    start = separate_packing(problem)
    best = few_machines(problem, start, budget=SearchBudget(10), settings=FEW)
    best.check(problem)
    bound, _ = whole_machines(problem, cost=start.cost(problem), settings=FEW.whole_machines)
    assert bound <= best.cost(problem) <= bound * 1.02


def test_without_steps_nothing_changes() -> None:
    problem = with_small_pods(1)
    start = one_pod_per_machine(problem)
    assert few_machines(problem, start, budget=SearchBudget(0), settings=FEW) is start


def test_a_mix_that_saves_nothing_is_left() -> None:
    problem = packing_problem([(1, 4)], [8])
    best = few_machines(problem, one_pod_per_machine(problem), budget=SearchBudget(9), settings=FEW)
    assert few_machines(problem, best, budget=SearchBudget(9), settings=FEW) is best


# Rounding the fluid solution to whole machines.


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
    promising = set(promising_types(problem, fluid, count).tolist())
    assert promising == {*best, *np.flatnonzero(fluid.machines > 1e-6).tolist()}


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
