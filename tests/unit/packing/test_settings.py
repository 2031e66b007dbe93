"""The search against exhaustive search: bounds lie below every optimum, packings above it, and the search reaches it."""

from __future__ import annotations

import ast
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation import dual_bound
from core.packing.fleet_target import fleet_bound
from core.packing.heuristics import cuts, guided_rounding, pack_by_value, placed, separate_cost, separate_packing
from core.packing.optimize import improve
from core.packing.problem import Packing, PackingProblem, whole_machines
from core.packing.relaxation import at_prices_of, prepared, prepared_with_flexibility
from core.packing.settings import (
    DEFAULT_SETTINGS,
    FluidSettings,
    OfferedItem,
    SearchBudget,
    TargetSettings,
    arithmetic_bound,
)
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem
from tests.unit.packing.small_worlds import a_small_fleet, a_small_problem, least_cost, optimum

# Lower bounds without a solver.


ROOT = Path(__file__).parents[3]


def bound_of(problem: PackingProblem) -> int:
    offers = list(zip(problem.prices.tolist(), problem.capacity.tolist(), strict=True))
    items = [
        OfferedItem(requests, count, [offer for offer, fits in zip(offers, fit, strict=True) if fits])
        for requests, count, fit in zip(
            problem.requests.tolist(), problem.counts.tolist(), problem.fit.tolist(), strict=True
        )
    ]
    return arithmetic_bound(items, SETTINGS.arithmetic_bound)


def test_a_pod_needs_a_whole_machine() -> None:
    """Otherwise, a single pod's gap looks huge."""
    assert bound_of(a_problem([(1.5, 3)], [1])) == 85 * MILLS


def test_many_pods_cost_their_share_of_every_machine() -> None:
    assert bound_of(a_problem([(1, 4)], [80])) >= 0.9 * 80 * 48 * MILLS


def test_an_empty_problem_costs_nothing() -> None:
    assert arithmetic_bound([], SETTINGS.arithmetic_bound) == 0


def test_it_does_not_import_numpy() -> None:
    """Otherwise, planning for one pod takes longer than needed."""
    program = "import sys, core.packing.settings; sys.exit('numpy' in sys.modules or 'highspy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)  # noqa: S603 - our own interpreter and program


def naive(items: Sequence[OfferedItem], steps: int) -> int:
    """The better of both bounds, over all weights of one resource or two in multiples of 1 / steps."""
    resources = range(len(items[0].requests)) if items else range(0)
    costs = [max((min(price for price, _ in item.offers) for item in items), default=0)]
    for weights in itertools.product(range(steps + 1), repeat=len(resources)):
        if sum(weights) == steps and sum(weight > 0 for weight in weights) <= 2:
            parts = [
                min(
                    sum(weights[r] * (price * item.requests[r] // max(offered[r], 1)) for r in resources) // steps
                    for price, offered in item.offers
                )
                for item in items
            ]
            costs.append(sum(item.count * part for item, part in zip(items, parts, strict=True)))
    return max(costs)


def test_it_is_the_best_of_all_weights_and_of_the_most_expensive_pod() -> None:
    """Machines may have none of a resource that the pods do not request."""
    dice = Random(1)  # noqa: S311 - a test's dice
    for _ in range(60):
        items = []
        for _ in range(dice.randint(1, 3)):
            requests = [dice.choice((0, 1, 3, 5)) for _ in range(3)]
            offers = [
                (dice.randint(1, 400), [wanted + dice.choice((0, 0, 2, 9)) for wanted in requests])
                for _ in range(dice.randint(1, 3))
            ]
            items.append(OfferedItem(requests, dice.randint(1, 4), offers))
        assert arithmetic_bound(iter(items), SETTINGS.arithmetic_bound) == naive(items, 4)


# The budget of a search.


class Clock:
    """A clock of a caller that wants to know of cuts."""

    def __init__(self, elapsed: float) -> None:
        self.elapsed = elapsed
        self.cuts = 0

    def __call__(self) -> float:
        return self.elapsed

    def record_cut(self) -> None:
        self.cuts += 1


def test_a_budget_ends_by_steps_and_by_the_callers_clock() -> None:
    """Otherwise, pods wait for a search that never ends."""
    budget = SearchBudget(2)
    assert [budget.step() for _ in range(3)] == [True, True, False]
    assert not SearchBudget(None, lambda: True).step()
    assert SearchBudget(None, lambda: False).step()


def test_spent_steps_are_not_the_clocks() -> None:
    """Otherwise, what is cheap to finish stops with the steps, or goes on after the deadline."""
    assert not SearchBudget(0).time_is_over
    assert not SearchBudget(0, lambda: 0.99).time_is_over
    assert SearchBudget(5, lambda: 1.0).time_is_over


def test_a_step_that_ignores_time_still_counts() -> None:
    """Otherwise, a bound on steps does not bound the first stage."""
    budget = SearchBudget(1, lambda: True)
    assert [budget.step(ignore_time=True) for _ in range(2)] == [True, False]


def test_the_clock_stops_all_parts_at_the_same_share() -> None:
    """Otherwise, the result of a part depends on the machine's speed, even with enough time."""
    elapsed = 0.2

    def clock() -> float:
        return elapsed

    part = SearchBudget(10, clock).portion(0.5)
    assert part.step()
    elapsed = 0.99
    assert part.step()
    elapsed = 1.0
    assert not part.step()


def test_a_search_leaves_a_share_of_the_time_and_records_that_it_ended_early() -> None:
    """Otherwise, what follows it exceeds the time, or the plan passes for one that the clock did not change."""
    clock = Clock(0.2)
    part = SearchBudget(10, clock, 4).leaving_time(0.25)
    assert part.steps_max == 6
    clock.elapsed = 0.79
    assert part.step()
    assert not clock.cuts
    clock.elapsed = 0.81
    assert not part.step()
    assert clock.cuts
    assert SearchBudget(10, None, 4).leaving_time(0.25) == SearchBudget(6)
    assert not SearchBudget(10, Clock(1.0)).leaving_time(0.25).step()


@pytest.mark.parametrize(("elapsed", "goes_on"), [(lambda: False, True), (lambda: True, False)])
def test_a_callers_yes_or_no_clock_bounds_parts_too(elapsed: Callable[[], float], goes_on: bool) -> None:
    """Such a caller knows no shares, but its deadline holds."""
    assert SearchBudget(None, elapsed).portion(0.5).step() is goes_on


def test_parts_share_steps() -> None:
    """Otherwise, with more zones a search bounded by steps takes more of them."""
    whole = SearchBudget(10, None, 4)
    assert whole.portion(0.5).steps_max == 3
    assert whole.portion(1.0).steps_max == 6


# The tuning constants of the search and of a fleet's target are in one place.


MODULES = [
    path
    for folder in ("core/packing", "core/scheduling/optimization")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name != "settings.py"
]


def constants(path: Path) -> Iterator[str]:
    """Names of module-level numbers and tuples of numbers."""
    for node in ast.parse(path.read_text()).body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            leaves = [leaf for leaf in ast.walk(node.value) if isinstance(leaf, ast.Constant)]
            if leaves and all(type(leaf.value) in (int, float) for leaf in leaves):
                yield target.id


def test_no_tuning_constant_is_elsewhere() -> None:
    """Otherwise, one name gets several values, and a caller cannot pass its own."""
    markers = {
        "NO_TYPE",
        "NO_GROUP",
        "DOLLARS",
        "INTERDEPENDENT",
        "_PAYS_IN_FULL",
    }  # values with a meaning, which are not tuned
    found = {f"{path.name}: {name}" for path in MODULES for name in constants(path) if name not in markers}
    assert not found


@pytest.mark.parametrize("group", msgspec.structs.fields(DEFAULT_SETTINGS), ids=lambda group: group.name)
def test_names_say_what_they_bound(group: msgspec.structs.FieldInfo) -> None:
    """A share is between zero and one, a relative gap is below one, a largest number is at least one."""
    settings = getattr(DEFAULT_SETTINGS, group.name)
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, tuple):
            assert value, field.name
        elif field.name.endswith("_share"):
            assert 0 < value < 1, field.name
        elif field.name.endswith(("_relative", "_relative_max", "_relative_min")):
            assert 0 < value < 0.1, field.name
        elif field.name.endswith("_max") and isinstance(value, int):
            assert value >= 1, field.name


@pytest.mark.parametrize("group", [DEFAULT_SETTINGS.fluid, DEFAULT_SETTINGS.target], ids=["fluid", "target"])
def test_sizes_are_distinguished_finely_first(group: FluidSettings | TargetSettings) -> None:
    """The first step that keeps within the bound is used."""
    assert all(finer > coarser for finer, coarser in pairwise(group.size_steps_per_doubling))


def test_gaps_are_filled_with_the_most_similar_pods_first() -> None:
    assert all(1 >= first > second > 0 for first, second in pairwise(DEFAULT_SETTINGS.target.likeness_min))


SEEDS: Final = range(40)
FLEETS: Final = range(30)


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


@lru_cache(maxsize=256)
def _improved(seed: int, steps: int) -> Packing:
    """The search's packing of a small problem; laws of one seed ask for the same one."""
    problem = a_small_problem(seed)
    ready, start = prepared(problem, SETTINGS), separate_packing(problem)
    return improve(ready, start, seed=0, budget=SearchBudget(steps), settings=SETTINGS).packing


@pytest.mark.ci
@pytest.mark.parametrize("seed", SEEDS)
def test_every_bound_lies_below_the_optimum(seed: int) -> None:
    """If this failed, a plan would be called proven that is not, and a search would end too early."""
    problem, best = a_small_problem(seed), optimum(seed)
    ready = prepared(problem, SETTINGS)
    known = _improved(seed, 20)
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
        "whole machines": whole_machines(
            problem, cost=known.cost(problem), settings=SETTINGS.whole_machine_bound.program
        )[0],
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
    packings = [
        guided_rounding(reduced, fluid, cut, generator=_generator(), settings=SETTINGS)
        for cut in cuts(fluid, SETTINGS.rounding)[:6]
    ]
    packings.append(
        pack_by_value(
            reduced,
            demand=reduced.counts,
            item_values=fluid.item_values,
            generator=_generator(),
            settings=SETTINGS.value_packing,
        )
    )
    for packing in packings:
        packing.check(reduced)
        assert packing.cost(reduced) >= best
    assert separate_packing(problem).cost(problem) == separate_cost(problem) >= best
    improved = _improved(seed, 60)
    improved.check(problem)
    assert improved.cost(problem) == best


@pytest.mark.parametrize("seed", SEEDS)
def test_more_steps_never_cost_more_and_the_optimum_stays(seed: int) -> None:
    problem = a_small_problem(seed)
    ready, best = prepared(problem, SETTINGS), _improved(seed, 60)
    again = improve(ready, best, seed=1, budget=SearchBudget(10), settings=SETTINGS)
    assert again.packing.cost(problem) == best.cost(problem) == optimum(seed)
    costs = [_improved(seed, steps).cost(problem) for steps in (0, 2, 60)]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_that_are_placed_on_a_set_of_machines_fit(seed: int) -> None:
    """The machines of an optimum hold its pods; what is placed must be the demand, and within each machine."""
    problem = a_small_problem(seed)
    best, settings = _improved(seed, 60), SETTINGS.few_machines
    loads = placed(problem, best.types, SearchBudget(), settings)
    if loads is not None:
        Packing(best.types, loads).check(problem)
    too_few = best.types[:-1]
    assert (
        not len(too_few)
        or placed(problem, too_few, SearchBudget(), settings) is None
        or (problem.prices[too_few].sum() >= optimum(seed))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_launch_flexibility_makes_no_machine_larger(seed: int) -> None:
    problem = a_small_problem(seed)
    ready = prepared_with_flexibility(problem, SETTINGS, SearchBudget(10))
    assert (ready.reduced.capacity <= problem.capacity[ready.kept]).all()
    assert ready.fluid.lower_bound <= optimum(seed)


@pytest.mark.ci
@pytest.mark.parametrize("seed", FLEETS)
def test_the_bound_of_a_fleet_lies_below_its_optimum(seed: int) -> None:
    """If this failed, `status` would call a fleet dearer than it needs to be, or cheaper than any can be."""
    fleet = a_small_fleet(seed)
    none = np.zeros(len(fleet.requests), dtype=np.int64)
    fleet = replace(fleet, host_caps=none, required_host_caps=none, host_room=none)
    best = least_cost(fleet)
    for first in ([0], list(range(len(fleet.type_prices)))):
        assert 0 <= fleet_bound(fleet, np.array(first)) <= best
