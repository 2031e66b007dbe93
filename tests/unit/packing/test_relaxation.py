"""Bundles of types, each with the capacity of its smallest type."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.heuristics import cuts, guided_rounding
from core.packing.optimize import improve
from core.packing.problem import PackingProblem
from core.packing.relaxation import (
    DistinctValues,
    InactiveTypes,
    JoinedItems,
    ScaledProblem,
    bundled,
    first_types,
    joining_types,
    prepared,
    prepared_like,
    prepared_with_flexibility,
    relax,
    stepped,
    with_distinct_values,
)
from core.packing.settings import SearchBudget, SteppedBoundSettings
from tests.unit.packing.problems import (
    SETTINGS,
    SIZES,
    a_market,
    a_problem,
    cheapest_cost,
    of_every_size,
    of_families,
    one_pod_per_machine,
    with_large_pods,
    with_small_pods,
)

# Which types the fluid program is solved over.


ACTIVE = SETTINGS.active_types


def test_every_item_fits_a_first_type() -> None:
    """Otherwise, the first program has no solution."""
    may = [[True] * len(SIZES), [size == 5 for size in range(len(SIZES))]]
    scaled = ScaledProblem.of(a_problem([(1, 4), (1, 4)], [3, 5], allowed=may))
    chosen = first_types(scaled, replace(ACTIVE, initial_types=1))
    assert scaled.fits[:, chosen].any(axis=1).all()
    assert 5 in chosen


def test_items_without_value_add_no_type() -> None:
    """Beside pods that need a machine each, small ones have no dual price; otherwise, they add every type."""
    scaled = ScaledProblem.of(prepared(of_every_size(200, apart=60), SETTINGS).reduced)
    only_places = np.array([[0.0, 0.0, scaled.prices.min()]])
    inactive = InactiveTypes(scaled, ACTIVE)
    values = scaled.requests @ only_places[0]
    _, paid = inactive.resource_prices(item_values=values, known=only_places)
    assert (paid >= 1).all()


def test_resource_prices_are_scaled_to_the_price_of_a_type() -> None:
    scaled = ScaledProblem.of(a_problem([(1, 4)], [3]))
    known = np.array([[1.0, 0.5, 0.0]])
    prices, _ = InactiveTypes(scaled, ACTIVE).resource_prices(item_values=np.ones(1), known=known)
    assert np.allclose((scaled.capacity * prices).sum(axis=1), scaled.prices)


def test_types_are_added_where_items_pay_least_and_prices_differ() -> None:
    """Otherwise, a round adds ten almost equal types for the same reason."""
    prices = np.array([1.0, 1.05, 2.0, 4.0, 8.0])
    paid = np.array([0.5, 0.6, 0.7, 1.0, 0.8])
    found = joining_types(prices=prices, paid_shares=paid, active=np.array([4]), settings=ACTIVE)
    assert found.tolist() == [0, 2]
    one_type = replace(ACTIVE, added_types_max=1)
    assert joining_types(prices=prices, paid_shares=paid, active=np.array([4]), settings=one_type).tolist() == [0]


# The fluid relaxation and its bound.


FEW_PAIRS = replace(SETTINGS, fluid=replace(SETTINGS.fluid, pairs_max=200))
ALL_TYPES = replace(SETTINGS, active_types=replace(SETTINGS.active_types, initial_types=10_000))


@pytest.mark.parametrize("seed", range(12))
def test_no_packing_undercuts_the_bound_in_whole_steps(seed: int) -> None:
    """Otherwise, the reported gap does not exist. The cheapest of all packings is found by exhaustion."""
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.integers(1, 50)) / 10, float(dice.integers(1, 160)) / 10) for _ in range(3)]
    problem = a_problem(sizes, [2, 1, 2])
    settings = SteppedBoundSettings(requests_max=int(dice.integers(1, 7)))
    bound = relax(stepped(problem, settings), SETTINGS).lower_bound
    assert bound <= cheapest_cost(problem)
    assert bound >= relax(problem, SETTINGS).lower_bound * (1 - 1e-4)


def test_whole_steps_see_the_rest_of_a_machine_that_no_pod_can_use() -> None:
    """Machines a little short of a whole number of pods: fractions fill them, and the gap looks wide."""
    problem = a_problem([(0.51, 2.04)], [300])
    plain, stepped_result = relax(problem, SETTINGS), relax(stepped(problem, SETTINGS.stepped_bound), SETTINGS)
    best = improve(
        prepared(problem, SETTINGS), one_pod_per_machine(problem), seed=0, budget=SearchBudget(60), settings=SETTINGS
    )
    cost = best.packing.cost(problem)
    assert plain.lower_bound * 1.01 < stepped_result.lower_bound <= cost
    assert cost <= stepped_result.lower_bound * 1.01


def test_late_rounds_are_left_out_and_the_bound_still_holds() -> None:
    """Otherwise, the bound takes the time of the search for which it is printed."""
    problem = of_every_size(300, apart=80)
    late = relax(problem, SETTINGS, SearchBudget(None, lambda: 0.9)).lower_bound
    whole = relax(problem, SETTINGS, SearchBudget(None, lambda: 0.0)).lower_bound
    assert 0 < late <= whole * (1 + 1e-6)
    assert whole == relax(problem, SETTINGS).lower_bound


def test_a_perfect_fit_costs_its_machines() -> None:
    problem = a_problem([(1, 4)], [16])
    fluid = relax(problem, SETTINGS)
    assert fluid.lower_bound == pytest.approx(16 * 48 * 10**6, rel=1e-6)
    assert fluid.item_values.tolist() == pytest.approx([48 * 10**6], rel=1e-6)
    assert fluid.pods.sum() == pytest.approx(16)


@pytest.mark.parametrize("problem", [of_every_size(300, apart=80), of_families(20)], ids=["one price", "families"])
def test_a_few_active_types_prove_as_much_as_all(problem: PackingProblem) -> None:
    """Otherwise, the omitted types lower the bound, and the gap looks too wide."""
    tolerance = SETTINGS.active_types.reduced_cost_tolerance_relative
    few = relax(problem, SETTINGS).lower_bound
    assert few == pytest.approx(relax(problem, ALL_TYPES).lower_bound, rel=2 * tolerance)


def test_many_similar_items_are_merged_and_the_bound_still_holds() -> None:
    """Otherwise, a cluster of a thousand services waits for the solver, or gets a wrong bound."""
    problem = with_small_pods(1, items=120, pods=1200)
    exact, joined = relax(problem, SETTINGS), relax(problem, FEW_PAIRS)
    assert 0.97 * exact.lower_bound <= joined.lower_bound <= exact.lower_bound * (1 + 1e-6)
    assert np.allclose(joined.pods.sum(axis=1), problem.counts)
    cut = cuts(joined, SETTINGS.rounding)[0]
    guided_rounding(problem, joined, cut, generator=np.random.default_rng(0), settings=SETTINGS).check(problem)


FLEXIBILITY = SETTINGS.launch_flexibility


def test_a_load_that_fits_a_bundle_fits_each_of_its_types() -> None:
    """Otherwise, a launch that falls back on another type gets a node that is too small."""
    problem = of_families(20)
    held = bundled(problem, FLEXIBILITY)
    assert held is not None
    for capacity, price in zip(held.capacity, held.prices, strict=True):
        price_max = price * FLEXIBILITY.bundle_price_ratio_max
        fitting = (problem.capacity >= capacity).all(axis=1) & (problem.prices <= price_max)
        assert fitting.sum() >= FLEXIBILITY.bundle_types


@pytest.mark.parametrize("seed", range(40))
def test_a_bundle_is_the_nearest_types_that_are_cheap_enough_and_admit_the_same_items(seed: int) -> None:
    """Otherwise, a type is as small as another that costs too much, or that its pods may not use."""
    limits = replace(FLEXIBILITY, bundle_types=3, smaller_share_max=0.25, bundle_price_ratio_max=1.5)
    problem = a_market(seed)  # of whole prices and sizes, many of them at the very borders
    expected: Counter[tuple[int, ...]] = Counter()
    for capacity, price, admitted in zip(problem.capacity, problem.prices, problem.allowed.T, strict=True):
        smaller = np.maximum(0, 1 - problem.capacity / np.maximum(capacity, 1)).max(axis=1)
        is_open = (admitted[:, None] <= problem.allowed).all(axis=0) & (smaller <= limits.smaller_share_max)
        is_open &= problem.prices <= limits.bundle_price_ratio_max * price
        nearest = sorted(np.flatnonzero(is_open), key=lambda t: (smaller[t], t))[:3]
        if len(nearest) == 3:
            expected[price, *np.minimum(capacity, problem.capacity[nearest].min(axis=0))] += 1
    held = bundled(problem, limits)
    assert held is not None
    assert expected
    assert expected <= Counter([(price, *size) for price, size in zip(held.prices, held.capacity, strict=True)])


def test_too_few_types_make_no_bundle() -> None:
    """Otherwise, pods that fitted one type fit nowhere."""
    problem = of_families(3)
    held = bundled(problem, FLEXIBILITY)
    assert held is not None
    assert held.capacity.tolist() == problem.capacity.tolist()


def test_a_load_fits_types_with_as_many_values_as_min_values_require() -> None:
    """Otherwise, a launch has fewer families to choose from than its NodePool requires."""
    problem = of_families(5)
    family_of = [(str(row % 5),) for row in range(len(problem.prices))]
    held = with_distinct_values(problem, [DistinctValues(family_of, 3)])
    for capacity in held.capacity:
        fitting = np.flatnonzero((problem.capacity >= capacity).all(axis=1))
        assert len({family_of[row] for row in fitting}) >= 3


def test_every_requirement_of_several_holds() -> None:
    """Otherwise, a launch satisfies one of its NodePool's minValues, and the API refuses it for the other."""
    problem = of_families(5)
    families, sizes = ([(str(row // steps % count),) for row in range(20)] for steps, count in ((1, 5), (5, 4)))
    wanted = [DistinctValues(families, 3), DistinctValues(sizes, 2)]
    for order in (wanted, wanted[::-1]):
        held = with_distinct_values(problem, order)
        assert len(held.prices)
        for capacity in held.capacity:
            fitting = np.flatnonzero((problem.capacity >= capacity).all(axis=1))
            assert all(
                len({requirement.values[row] for row in fitting}) >= requirement.values_min for requirement in order
            )
    unmet = DistinctValues([("only",)] * 20, 2)
    for order in ([wanted[0], unmet], [unmet, wanted[0]]):
        assert with_distinct_values(problem, order).capacity.tolist() == problem.capacity.tolist()


# The common beginning of every search.


def of_equal_capacity() -> PackingProblem:
    """Hundreds of nodes with dozens of pods each, on twenty types that differ only in their price."""
    problem = of_families(20).restricted(np.arange(60, 80))
    return PackingProblem.of(
        requests=problem.requests,
        counts=np.array([6_000, 3_000]),
        capacity=problem.capacity[np.zeros(20, dtype=np.int64)],
        prices=problem.prices,
        allowed=problem.allowed,
    )


def test_only_types_that_are_not_dominated_are_searched() -> None:
    ready = prepared(of_families(20), SETTINGS)
    assert len(ready.kept) == len(ready.reduced.prices) < len(ready.problem.prices)
    assert ready.reduced.prices.tolist() == ready.problem.prices[ready.kept].tolist()


def test_flexibility_costs_at_most_a_hundredth() -> None:
    problem = of_equal_capacity()
    flexible = prepared_with_flexibility(problem, SETTINGS, SearchBudget())
    assert flexible.problem is not problem
    plain = prepared(problem, SETTINGS).fluid.lower_bound
    assert plain <= flexible.fluid.lower_bound <= plain * 1.01


def test_types_are_planned_one_by_one_if_flexibility_costs_too_much() -> None:
    """With one type of each size, a bundle is as small as a machine several sizes smaller, or impossible."""
    problem = of_every_size(60, apart=60)
    assert prepared_with_flexibility(problem, SETTINGS, SearchBudget()).problem is problem
    few = of_families(3)
    plain = prepared(few, SETTINGS).fluid.lower_bound
    assert prepared_with_flexibility(few, SETTINGS, SearchBudget()).fluid.lower_bound == plain


def test_without_time_flexibility_is_given_up() -> None:
    """Otherwise, a second relaxation begins after the deadline."""
    problem = of_equal_capacity()
    assert prepared_with_flexibility(problem, SETTINGS, SearchBudget(None, lambda: True)).problem is problem


@pytest.mark.parametrize("seed", range(5))
def test_the_prices_of_like_pods_bound_the_cost_without_a_program(seed: int) -> None:
    """Weak duality holds for any resource prices; zones with the same mix of pods have nearly the same."""
    problem = with_large_pods(seed)
    other = replace(problem, counts=problem.counts + np.arange(len(problem.counts)) % 3)
    model, optimum = prepared(other, SETTINGS), prepared(problem, SETTINGS).fluid
    like = prepared_like(problem, model, SETTINGS)
    assert like is not None
    assert not like.is_relaxed
    assert 0.98 * optimum.lower_bound <= like.fluid.lower_bound <= optimum.lower_bound * (1 + 1e-6)
    assert like.fluid.machines.sum() == pytest.approx(optimum.machines.sum(), rel=0.2)


def test_prices_are_not_taken_over_from_other_types() -> None:
    problem = with_large_pods(0)
    expensive = replace(problem, prices=problem.prices * 2)
    assert prepared_like(problem, prepared(expensive, SETTINGS), SETTINGS) is None


def test_types_may_be_bundled_where_machines_hold_many_pods() -> None:
    """Bundles need the relaxation of these pods."""
    problem = of_equal_capacity()
    assert prepared_like(problem, prepared(problem, SETTINGS), SETTINGS) is None


# Scaling, and merging similar items.


ONE_PAIR = replace(SETTINGS.fluid, pairs_max=1, size_steps_per_doubling=(1,))


def test_capacities_and_prices_are_scaled_to_at_most_one() -> None:
    """Otherwise, the solver's absolute tolerances mean a byte in one row and a core in another."""
    scaled = ScaledProblem.of(a_problem([(1, 4)], [3]))
    assert scaled.capacity.max(axis=0).tolist() == [1, 1, 1]
    assert scaled.prices.max() == 1
    assert scaled.price_unit == SIZES[-1][2] * 10**6


def test_resources_that_no_item_requests_have_no_row() -> None:
    problem = a_problem([(1, 0)], [3])
    assert ScaledProblem.of(problem).capacity.shape == (len(SIZES), 2)


def test_similar_items_are_merged_at_their_mean_and_their_total_stays() -> None:
    """Otherwise, the program launches machines for pods that do not exist."""
    problem = a_problem([(1.1, 3), (1.5, 3.5), (7, 30)], [3, 5, 2])
    scaled = ScaledProblem.of(problem)
    joined = JoinedItems.of(problem, scaled, ONE_PAIR)
    assert joined.joint[0] == joined.joint[1] != joined.joint[2]
    assert joined.share.tolist() == pytest.approx([3 / 8, 5 / 8, 1])
    assert np.allclose(joined.scaled.counts @ joined.scaled.requests, scaled.counts @ scaled.requests)


def test_items_that_fit_different_types_are_never_merged() -> None:
    may = [[True] * len(SIZES), [size < 4 for size in range(len(SIZES))]]
    problem = a_problem([(1, 4), (1, 4)], [3, 5], allowed=may)
    assert JoinedItems.of(problem, ScaledProblem.of(problem), ONE_PAIR).joint.tolist() in ([0, 1], [1, 0])


def test_items_are_merged_no_more_than_the_number_of_pairs_requires() -> None:
    """Two items on eight types are sixteen pairs: with one pair fewer allowed, the coarser step merges all three."""
    problem = a_problem([(1.1, 3), (1.111, 3.03), (1.9, 3.9)], [3, 5, 2])
    scaled = ScaledProblem.of(problem)
    numbers = []
    for pairs_max in (24, 23, 16, 15):
        settings = replace(SETTINGS.fluid, pairs_max=pairs_max, size_steps_per_doubling=(8, 1))
        joint = JoinedItems.of(problem, scaled, settings).joint
        numbers.append((len(set(joint.tolist())), bool(joint[0] == joint[1])))
    assert numbers == [(3, False), (2, True), (2, True), (1, True)]


def test_of_many_types_only_as_many_count_as_the_program_is_expected_to_use() -> None:
    problem = a_problem([(1.1, 3), (1.111, 3.03), (1.9, 3.9)], [3, 5, 2])
    few = replace(SETTINGS.fluid, pairs_max=6, size_steps_per_doubling=(8, 1), types_expected=2)
    assert JoinedItems.of(problem, ScaledProblem.of(problem), few).joint.tolist() == [0, 1, 2]
    more = replace(few, types_expected=3)
    assert len(set(JoinedItems.of(problem, ScaledProblem.of(problem), more).joint.tolist())) == 2
