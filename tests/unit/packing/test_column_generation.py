"""The pricing problem by beam search."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation import (
    BeamPricing,
    ColumnGeneration,
    ShadowPrices,
    best_columns,
    dual_bound,
    exchanged_loads,
    knapsack_loads,
    load_value_bound,
    value_for_price_max,
)
from core.packing.columns import Columns, MasterProblem, Substitutions
from core.packing.optimize import improve
from core.packing.problem import Floats, Ints, Packing, PackingProblem
from core.packing.relaxation import prepared, relax
from core.packing.settings import BeamPricingSettings, GreedyPricingSettings, LoadExchangeSettings, SearchBudget
from tests.unit.packing.problems import (
    CPU,
    MEMORY,
    MILLS,
    SETTINGS,
    a_problem,
    all_columns,
    best_values,
    one_pod_per_machine,
    with_large_pods,
    with_values,
)


def found(
    problem: PackingProblem,
    values: Floats,
    settings: BeamPricingSettings = SETTINGS.beam_pricing,
    *,
    ratio: float = SETTINGS.column_generation.value_per_price_min,
) -> Columns:
    prices = ShadowPrices(problem).under(values)
    beam = BeamPricing(
        problem,
        problem.counts,
        item_values=values,
        resource_prices=prices,
        value_per_price_min=ratio,
        settings=settings,
    )
    return beam.columns()


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_best_load_of_every_type(seed: int) -> None:
    """Near the optimum, greedy knapsacks find nothing more; without the beam, a few per cent are left."""
    problem, values = with_values(seed)
    columns = found(problem, values)
    best = best_values(problem, values)
    of_value = np.flatnonzero(best > problem.prices * 1.001)
    assert of_value.size
    for type_index in of_value:
        assert (columns.loads[columns.types == type_index] @ values).max() == pytest.approx(best[type_index])
    assert (columns.loads @ problem.requests <= problem.capacity[columns.types]).all()
    assert (columns.loads <= np.minimum(problem.fit[:, columns.types].T, problem.counts)).all()


@pytest.mark.parametrize("ratio", [1.05, 1.2, 1.6])
def test_no_column_is_worth_less_than_asked_for_its_price(ratio: float) -> None:
    """Columns nearer to their price are noise: the master problem grows and does not improve."""
    problem, values = with_values(0)
    values = values * 1.5
    best = best_values(problem, values)
    worth = np.flatnonzero(best > problem.prices * ratio)
    columns = found(problem, values, ratio=ratio)
    assert set(columns.types.tolist()) == set(worth.tolist())
    assert (columns.loads @ values > problem.prices[columns.types] * ratio).all()


def test_a_resource_that_only_single_pods_request_is_counted() -> None:
    """One accelerator and two pods for it: together they would be worth the machine, which holds but one of them."""
    problem = PackingProblem.of(
        requests=np.array([[1, 1], [1, 1]]),
        counts=np.array([1, 1]),
        capacity=np.array([[4, 1]]),
        prices=np.array([10]),
        allowed=np.ones((2, 1), dtype=np.bool_),
    )
    assert len(found(problem, np.array([8.0, 8.0]))) == 0
    assert found(problem, np.array([11.0, 8.0])).loads.tolist() == [[1, 0]]


@pytest.mark.parametrize("values", [(5.0, 4.0, 3.0), (3.0, 5.0, 4.0), (4.0, 3.0, 5.0)])
def test_the_narrowest_beam_keeps_the_best_partial_load(values: tuple[float, ...]) -> None:
    """Two pods of each kind, of which four fit: those of the two kinds that are worth most."""
    problem = PackingProblem.of(
        requests=np.ones((3, 1), dtype=np.int64),
        counts=np.array([2, 2, 2]),
        capacity=np.array([[4], [4]]),
        prices=np.array([10, 11]),
        allowed=np.ones((3, 2), dtype=np.bool_),
    )
    narrow = replace(SETTINGS.beam_pricing, states_max=2, states_per_type_max=1, columns_per_type_max=1)
    columns = found(problem, np.array(values), narrow)
    assert columns.types.tolist() == [0, 1]
    assert columns.loads.tolist() == [[2 * (value > 3) for value in values]] * 2


# Dual bounds from whole loads: above the fluid bound where machines hold few pods, and never above a packing's cost.


def packed(problem: PackingProblem, steps: int) -> Packing:
    ready, budget = prepared(problem, SETTINGS), SearchBudget(steps)
    return improve(ready, one_pod_per_machine(problem), seed=1, budget=budget, settings=SETTINGS).packing


def bound_of(problem: PackingProblem, *, steps: int = 5_000) -> int:
    return dual_bound(
        problem,
        packed(problem, 200),
        lower_bound=relax(problem, SETTINGS).lower_bound,
        generator=np.random.default_rng(1),
        budget=SearchBudget(steps),
        settings=SETTINGS,
    )


def test_pods_that_never_fit_together_cost_a_machine_each() -> None:
    problem = a_problem([(17, 33)], [10])
    assert relax(problem, SETTINGS).lower_bound < 0.6 * 10 * 1_360 * MILLS
    assert bound_of(problem) == pytest.approx(10 * 1_360 * MILLS, rel=1e-3)


def test_a_load_a_byte_too_large_is_not_the_best() -> None:
    """The solver tolerates a millionth of a machine: the bound stayed at half, with the load that no machine holds."""
    gib = 1 << 30
    problem = PackingProblem.of(
        requests=np.array([[1_000, 32 * gib], [1_000, 32 * gib + 1]]),
        counts=np.array([5, 5]),
        capacity=np.array([[8_000, 64 * gib]]),
        prices=np.array([1_000_000]),
        allowed=np.ones((2, 1), dtype=np.bool_),
    )
    # Two of the smaller pods share a machine, none of the others shares one: 3 + 5 machines, 2.5 + 5 where they may be split.
    assert bound_of(problem) == pytest.approx(7_500_000, rel=1e-3)


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(3))
def test_no_packing_undercuts_the_bound_and_it_is_near(seed: int) -> None:
    problem = with_large_pods(seed)
    cost = packed(problem, 2_000).cost(problem)
    fluid, bound = relax(problem, SETTINGS).lower_bound, bound_of(problem)
    assert fluid < bound <= cost
    assert cost - bound < 0.6 * (cost - fluid)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_at_most_the_optimum_over_all_columns(seed: int) -> None:
    problem = with_large_pods(seed, items=4, pods=16)
    optimum = optimum_over_all_columns(problem)
    assert 0.995 * optimum < bound_of(problem) <= optimum * (1 + 1e-6)


def test_types_are_solved_exactly_only_while_steps_are_left() -> None:
    """Each is a search of its own: without a bound, the planner would not end at its deadline."""
    gib = 1 << 30
    problem = PackingProblem.of(
        requests=np.array([[1_000, 33 * gib], [1_000, 34 * gib]]),
        counts=np.array([5, 5]),
        capacity=np.array([[8_000, 66 * gib]]),
        prices=np.array([1_000_000]),
        allowed=np.ones((2, 1), dtype=np.bool_),
    )
    assert bound_of(problem, steps=0) < 0.8 * bound_of(problem)


# Column generation.


def optimum_over_all_columns(problem: PackingProblem) -> float:
    master = MasterProblem(problem, Substitutions.of(problem))
    master.add(all_columns(problem))
    return master.solved(problem.counts).cost


@pytest.mark.parametrize("seed", range(4))
def test_it_comes_near_the_optimum_over_all_columns(seed: int) -> None:
    """Otherwise, machines are launched in a mix that could be cheaper."""
    problem = with_large_pods(seed, items=4, pods=16)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    generation.run(0, SearchBudget(200))
    optimum = optimum_over_all_columns(problem)
    assert optimum * (1 - 1e-6) <= generation.master.solved(problem.counts).cost <= optimum * 1.005


def test_dual_prices_cover_the_cost_of_the_master() -> None:
    problem = with_large_pods(1)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    known = Columns.of_packing(one_pod_per_machine(problem))
    values = generation.item_values(known, relax(problem, SETTINGS).lower_bound, SearchBudget(50))
    assert values @ problem.counts == pytest.approx(generation.master.solved(problem.counts).cost)


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_once_some_rounds_together_save_too_little(seed: int) -> None:
    """Rounds that save next to nothing take the time of the roundings that would."""
    problem = with_large_pods(seed)
    demanding = replace(SETTINGS.column_generation, saving_relative_min=0.5, stalled_rounds=4)
    budget, patient = SearchBudget(500), SearchBudget(500)
    settings = replace(SETTINGS, column_generation=demanding)
    assert ColumnGeneration(problem, np.random.default_rng(0), settings).run(0, budget, with_beam=True)
    ColumnGeneration(problem, np.random.default_rng(0), SETTINGS).run(0, patient, with_beam=True)
    assert budget.steps == demanding.stalled_rounds + 1 < patient.steps


def test_it_ends_at_a_cost_that_no_packing_undercuts() -> None:
    """With the master's own cost as the bound, there is nothing to gain: one round finds out."""
    problem = with_large_pods(1)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    generation.run(0, SearchBudget(100))
    cost, budget = generation.master.solved(problem.counts).cost, SearchBudget(100)
    assert not generation.run(int(cost), budget)
    assert budget.steps == 1


# The pricing problem by greedy knapsacks.


def greedy_pricing_found(
    problem: PackingProblem,
    values: Floats,
    settings: GreedyPricingSettings = SETTINGS.greedy_pricing,
    filled: PackingProblem | None = None,
) -> Columns:
    filled = problem if filled is None else filled
    loads = knapsack_loads(
        filled,
        problem.counts,
        chosen_by=values,
        resource_prices=ShadowPrices(filled).under(values),
        generator=np.random.default_rng(0),
        settings=settings,
    )
    return best_columns(problem, loads, judged_by=values, value_per_price_min=1.0, columns_max=settings.columns_max)


@pytest.mark.parametrize("seed", range(5))
def test_columns_fit_and_are_worth_more_than_their_price(seed: int) -> None:
    """Otherwise, the master problem gets impossible machines, or columns that do not improve it."""
    problem, values = with_values(seed)
    columns = greedy_pricing_found(problem, values)
    assert len(columns)
    assert (columns.loads @ values > problem.prices[columns.types]).all()
    assert (columns.loads @ problem.requests <= problem.capacity[columns.types]).all()
    assert (columns.loads <= np.minimum(problem.fit[:, columns.types].T, problem.counts)).all()


def test_the_best_columns_come_first_and_not_too_many() -> None:
    problem, values = with_values(0)
    columns = greedy_pricing_found(problem, values)
    ratio = (columns.loads @ values) / problem.prices[columns.types]
    assert ratio.tolist() == sorted(ratio, reverse=True)
    assert len(greedy_pricing_found(problem, values, replace(SETTINGS.greedy_pricing, columns_max=2))) == 2


def test_a_load_that_leaves_room_gets_the_cheapest_type() -> None:
    """Otherwise, the master problem pays for the machine that a load was found for, and a plan seems too expensive."""
    problem = a_problem([(1.1, 2)], [3])
    large = problem.restricted(np.array([6]))
    columns = greedy_pricing_found(problem, problem.prices[6:7] / 3.0, filled=large)
    assert set(columns.loads.ravel().tolist()) == {3}
    assert set(columns.types.tolist()) == {problem.cheapest_type(np.array([3]))} == {3}


# Loads of greedy knapsacks are improved by exchanging single pods.


def greedy(problem: PackingProblem, values: Floats) -> Ints:
    return knapsack_loads(
        problem,
        problem.counts,
        chosen_by=values,
        resource_prices=ShadowPrices(problem).under(values),
        generator=np.random.default_rng(0),
        settings=SETTINGS.greedy_pricing,
    )


def exchanged(problem: PackingProblem, values: Floats, loads: Ints, *, best: int = 20, most: int = 10) -> Ints:
    settings = LoadExchangeSettings(loads=best, exchanges_max=most)
    return exchanged_loads(problem, problem.counts, loads, item_values=values, settings=settings)


def ranked(problem: PackingProblem, values: Floats, loads: Ints) -> tuple[Ints, Ints]:
    """The loads in the order in which they are improved, and their types."""
    types = np.arange(len(loads)) % len(problem.prices)
    best = np.argsort(-(loads @ values) / problem.prices[types], kind="stable")
    return loads[best], types[best]


@pytest.mark.parametrize("seed", range(5))
def test_loads_are_worth_no_less_and_still_fit_their_machine(seed: int) -> None:
    problem, values = with_values(seed)
    before, types = ranked(problem, values, greedy(problem, values))
    loads = exchanged(problem, values, greedy(problem, values), best=len(before))
    assert (loads @ values >= before @ values).all()
    assert (loads >= 0).all()
    assert (loads @ problem.requests <= problem.capacity[types]).all()
    assert (loads <= np.minimum(problem.fit[:, types].T, problem.counts)).all()


def test_a_pod_is_exchanged_for_a_larger_one_that_fills_the_rest() -> None:
    """Two vCPU: the densest pod leaves a rest of 0.8 in which nothing fits, and the other one fills the machine."""
    problem, values = a_problem([(1.2, 1), (2, 1)], [1, 1]), np.array([7.0, 10.0])
    loads = np.tile(np.array([1, 0]), (len(problem.prices), 1))
    assert [0, 1] in exchanged(problem, values, loads, best=8).tolist()
    assert (exchanged(problem, values, loads, best=8, most=0) == loads).all()


def test_a_pod_is_added_where_there_is_room_and_no_more_than_there_are() -> None:
    problem, values = a_problem([(1, 1)], [3]), np.array([1.0])
    nothing = np.zeros((len(problem.prices), 1), dtype=np.int64)
    loads = exchanged(problem, values, nothing, best=8)
    assert loads.ravel().tolist() == [2, 2, 2, 3, 3, 3, 3, 3]


def test_no_pod_joins_more_of_its_kind_than_a_machine_may_hold() -> None:
    problem, values = a_problem([(1, 1)], [3], per_machine_max=[1]), np.array([1.0])
    nothing = np.zeros((len(problem.prices), 1), dtype=np.int64)
    assert (exchanged(problem, values, nothing, best=8) == 1).all()


def test_only_the_best_loads_are_improved() -> None:
    problem, values = with_values(0)
    assert len(exchanged(problem, values, greedy(problem, values), best=3)) == 3


# Shadow prices of machines' resources, and the bound on a load's value that they prove.


@pytest.mark.parametrize("seed", range(5))
def test_no_load_has_more_value_than_the_bound(seed: int) -> None:
    """Otherwise, the search drops columns of negative reduced cost, and the lower bound is wrong."""
    problem, values = with_values(seed)
    prices = ShadowPrices(problem).under(values)
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    bound = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices)
    best = best_values(problem, values)
    assert (bound >= best * (1 - 1e-9)).all()
    ratio = value_for_price_max(problem, demand=problem.counts, item_values=values, resource_prices=prices)
    assert ratio >= (best / problem.prices).max() * (1 - 1e-9)


def test_the_bound_holds_for_any_prices_and_is_tightest_for_shadow_prices() -> None:
    problem, values = with_values(0)
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    prices = ShadowPrices(problem).under(values)
    at_best = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices)
    for factor in (0.0, 0.5, 2.0):
        other = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices * factor)
        assert (other >= at_best * (1 - 1e-9)).all()


def test_prices_follow_values() -> None:
    """Otherwise, column generation uses the values of its first round."""
    problem, values = with_values(1)
    prices = ShadowPrices(problem)
    assert np.allclose(prices.under(values * 2), 2 * prices.under(values))
    assert not prices.under(values * 0).any()


def test_a_price_is_what_one_more_unit_of_the_resource_would_earn() -> None:
    """Worked out by hand: with 8 vCPU and 16 GiB, pods of 2 vCPU and 2 GiB and pods of 1 vCPU and 4 GiB fill both resources.

    With u for a vCPU and w for a GiB, 2u + 2w and u + 4w are a pod's value: u is a third of it and w a sixth.
    """
    problem = a_problem([(2, 2), (1, 4)], [9, 9])
    value = 600 * MILLS
    prices = ShadowPrices(problem).under(np.full(2, float(value)))
    per_cpu, per_gib, per_place = prices[3] * (CPU, MEMORY, 1)
    assert (per_cpu, per_gib, per_place) == pytest.approx((value / 3, value / 6, 0))
    # The first type has the same shape at a fourth of the size.
    assert prices[0] * (CPU, MEMORY, 1) == pytest.approx((value / 3, value / 6, 0))


def test_the_bound_is_the_value_of_the_best_load_if_pods_could_be_split() -> None:
    """On 8 vCPU and 16 GiB, 8/3 pods of each size; with 64 GiB, memory is no limit and 8 pods of 1 vCPU are the best."""
    problem, value = a_problem([(2, 2), (1, 4)], [9, 9]), 600.0 * MILLS
    values = np.full(2, value)
    bound = load_value_bound(
        problem, pods_max=problem.fit, item_values=values, resource_prices=ShadowPrices(problem).under(values)
    )
    assert (bound[3], bound[5]) == pytest.approx((16 / 3 * value, 8 * value))


def test_with_few_pods_left_capacity_is_worth_nothing() -> None:
    """One pod of 2 vCPU on 8 vCPU leaves room: another unit earns nothing, whatever the pod is worth."""
    problem = a_problem([(2, 2), (1, 4)], [9, 9])
    prices = ShadowPrices(problem)
    assert prices.under(np.full(2, 1e9))[3].any()
    assert not prices.under(np.full(2, 1e9), np.array([1, 0]))[3].any()
