"""The search against exhaustive search: bounds lie below every optimum, packings above it, and the search reaches it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.arithmetic_bound import OfferedItem, arithmetic_bound
from core.packing.column_generation.dual_bound import dual_bound
from core.packing.heuristics.cover_exchange import fitted
from core.packing.heuristics.guided_rounding import cuts, guided_rounding
from core.packing.heuristics.separate_machines import separate_cost, separate_packing
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.optimize import improve
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.fluid_lp import at_prices_of
from core.packing.relaxation.preparation import prepared, prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from core.packing.target.fleet_bound import fleet_bound
from core.packing.target.fleet_problem import PodCells
from core.packing.target.keep_or_drain import KeepOrDrain, TargetRules
from core.packing.whole_machine_bound import whole_machine_bound
from tests.unit.packing.problems import SETTINGS
from tests.unit.packing.small_worlds import a_small_fleet, a_small_problem, fits_whole, least_cost, optimum

SEEDS: Final = range(40)
FLEETS: Final = range(30)


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


def _improved(problem: PackingProblem, steps: int) -> Packing:
    ready, start = prepared(problem, SETTINGS), separate_packing(problem)
    return improve(ready, start, seed=0, budget=SearchBudget(steps), settings=SETTINGS).packing


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pod_fits_where_its_sums_say(seed: int) -> None:
    problem = a_small_problem(seed)
    assert ((problem.fit > 0) == fits_whole(problem)).all()
    for item, kind in np.argwhere(problem.fit > 0):
        most = int(problem.fit[item, kind])
        assert (most * problem.requests[item] <= problem.capacity[kind]).all()
        more = ((most + 1) * problem.requests[item] <= problem.capacity[kind]).all()
        assert not more or problem.is_capped()[item]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_bound_lies_below_the_optimum(seed: int) -> None:
    """If this failed, a plan would be called proven that is not, and a search would end too early."""
    problem, best = a_small_problem(seed), optimum(seed)
    ready = prepared(problem, SETTINGS)
    known = _improved(problem, 20)
    offers = [
        [(int(problem.prices[kind]), problem.capacity[kind].tolist()) for kind in np.flatnonzero(problem.fit[item])]
        for item in range(len(problem.counts))
    ]
    items = [
        OfferedItem(problem.requests[item].tolist(), int(problem.counts[item]), offers[item])
        for item in range(len(problem.counts))
    ]
    bounds = {
        "fluid": ready.fluid.lower_bound,
        "at its own prices": at_prices_of(ready.reduced, ready.fluid, SETTINGS).lower_bound,
        "arithmetic": arithmetic_bound(items, SETTINGS.arithmetic_bound),
        "whole machines": whole_machine_bound(problem, cost=known.cost(problem), settings=SETTINGS.whole_machine_bound),
        "dual": dual_bound(
            problem, known, lower_bound=0, generator=_generator(), budget=SearchBudget(40), settings=SETTINGS
        ),
    }
    assert {name: bound for name, bound in bounds.items() if not 0 < bound <= best} == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_packing_is_valid_and_the_search_finds_an_optimal_one(seed: int) -> None:
    """If this failed, a pod would be lost or a machine overfull, or a plan of seven pods would cost more than it must."""
    problem, best = a_small_problem(seed), optimum(seed)
    ready = prepared(problem, SETTINGS)
    reduced, fluid = ready.reduced, ready.fluid
    found = [
        guided_rounding(reduced, fluid, cut, generator=_generator(), settings=SETTINGS)
        for cut in cuts(fluid, SETTINGS.rounding)[:6]
    ]
    found.append(
        pack_by_value(
            reduced,
            demand=reduced.counts,
            item_values=fluid.item_values,
            generator=_generator(),
            settings=SETTINGS.value_packing,
        )
    )
    for packing in found:
        packing.check(reduced)
        assert packing.cost(reduced) >= best
    assert separate_packing(problem).cost(problem) == separate_cost(problem) >= best
    improved = _improved(problem, 60)
    improved.check(problem)
    assert improved.cost(problem) == best


@pytest.mark.parametrize("seed", SEEDS)
def test_more_steps_never_cost_more_and_the_optimum_stays(seed: int) -> None:
    problem = a_small_problem(seed)
    ready, best = prepared(problem, SETTINGS), _improved(problem, 60)
    again = improve(ready, best, seed=1, budget=SearchBudget(10), settings=SETTINGS)
    assert again.packing.cost(problem) == best.cost(problem) == optimum(seed)
    costs = [_improved(problem, steps).cost(problem) for steps in (0, 2, 60)]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_dominated_types_are_in_no_cheaper_packing(seed: int) -> None:
    """A type is left out only if another takes all of its items, has as much of everything and costs no more."""
    problem = a_small_problem(seed)
    kept = set(problem.undominated().tolist())
    fits = problem.fit > 0
    for kind in range(len(problem.prices)):
        better = [
            other
            for other in range(len(problem.prices))
            if other != kind
            and problem.prices[other] <= problem.prices[kind]
            and (problem.capacity[other] >= problem.capacity[kind]).all()
            and (fits[:, other] >= fits[:, kind]).all()
        ]
        assert (kind in kept) == (bool(fits[:, kind].any()) and not better)


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_that_are_fitted_into_a_set_of_machines_fit(seed: int) -> None:
    """The machines of an optimum hold its pods; what is fitted must be the demand, and within each machine."""
    problem = a_small_problem(seed)
    best = _improved(problem, 60)
    loads = fitted(problem, types=best.types, demand=problem.counts, portions_per_machine=4)
    if loads is not None:
        Packing(best.types, loads).check(problem)
    too_few = best.types[:-1]
    assert (
        not len(too_few)
        or fitted(problem, types=too_few, demand=problem.counts, portions_per_machine=4) is None
        or (problem.prices[too_few].sum() >= optimum(seed))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_launch_flexibility_makes_no_machine_larger(seed: int) -> None:
    problem = a_small_problem(seed)
    ready = prepared_with_flexibility(problem, SETTINGS, SearchBudget(10))
    assert (ready.reduced.capacity <= problem.capacity[ready.kept]).all()
    assert ready.fluid.lower_bound <= optimum(seed)


@pytest.mark.parametrize("seed", FLEETS)
def test_the_bound_of_a_fleet_lies_below_its_optimum(seed: int) -> None:
    """If this failed, `status` would call a fleet dearer than it needs to be, or cheaper than any can be."""
    fleet = a_small_fleet(seed)
    none = np.zeros(len(fleet.requests), dtype=np.int64)
    fleet = replace(fleet, host_caps=none, required_host_caps=none, host_room=none)
    best = least_cost(fleet)
    for first in ([0], list(range(len(fleet.type_prices)))):
        assert 0 <= fleet_bound(fleet, np.array(first)) <= best


@pytest.mark.parametrize("seed", FLEETS)
def test_a_target_keeps_the_rules_of_its_program(seed: int) -> None:
    """What the solver returns is checked row by row, with sums of its own."""
    fleet = a_small_fleet(seed)
    cells, types = PodCells.of(fleet), np.arange(len(fleet.type_prices))
    pools, most = np.arange(len(fleet.prices)) % 2, np.array([1.0, 2.0])
    for is_gated in (False, True):
        rules = TargetRules(fill=1.0, is_gated=is_gated, pools=pools, drains_max=most)
        free = replace(fleet, must_go=np.zeros_like(fleet.must_go))
        found = KeepOrDrain(free, cells, types, cells.mean_requests(free)).solve(rules)
        assert ((found.stay >= 0) & (found.stay <= 1)).all()
        gone = 1 - found.stay
        assert [gone[pools == pool].sum() <= most[pool] + 1e-6 for pool in (0, 1)] == [True, True]
        moved = gone @ fleet.loads
        assert (found.into.sum(axis=1) <= moved + 1e-6).all()
        for group in range(len(fleet.group_free)):
            own = fleet.room_groups == group
            room = fleet.group_free[group] + found.stay[own] @ np.maximum(fleet.free[own], 0)
            assert (found.into[:, group] @ fleet.requests <= room + 1e-3).all()
        assert found.cost <= fleet.prices.sum() / 1e9 + 1e-9
