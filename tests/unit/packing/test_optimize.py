"""The stages of a search together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.columns import Columns
from core.packing.optimize import Diving, OptimizedPacking, improve, is_coarse, round_only
from core.packing.problem import Packing, PackingProblem, right_sized
from core.packing.relaxation import prepared, relax
from core.packing.settings import LATE_SHARE, SearchBudget, SearchSettings
from tests.unit.packing.problems import (
    MILLS,
    SETTINGS,
    a_problem,
    one_pod_per_machine,
    with_large_pods,
    with_small_pods,
)

# The dive, which fixes columns one after the other.


NO_MORE_DIVES: Final = replace(SETTINGS.diving, idle_dives_max=0, beam_items_max=0)


def dived(problem: PackingProblem, steps: int, known: list[Packing] | None = None) -> Packing:
    diving = Diving(problem, np.random.default_rng(0), SearchBudget(steps), SETTINGS)
    return diving.packing(
        [Columns.of_packing(packing) for packing in known or []], relax(problem, SETTINGS).lower_bound
    )


def test_pods_that_never_fit_together_get_a_machine_each() -> None:
    """The fluid plan would split them, and rounding it would cost more than the obvious plan."""
    problem = a_problem([(1.1, 2), (5, 10)], [40, 40])
    packing = dived(problem, 50)
    packing.check(problem)
    pairs = 40 * 340 * MILLS  # one of each on eight vCPU, and a second small one is free
    assert packing.cost(problem) <= pairs


@pytest.mark.parametrize("steps", [1, 2, 5, 9, 14, 20, 30])
def test_an_interrupted_search_still_packs_every_pod(steps: int) -> None:
    """Otherwise, a deadline leaves pods without a node."""
    problem = with_large_pods(5)
    dived(problem, steps).check(problem)


def test_it_begins_with_the_loads_of_known_packings() -> None:
    problem = with_large_pods(2)
    best = dived(problem, 80)
    assert dived(problem, 3, [best]).cost(problem) <= dived(problem, 3).cost(problem)
    assert best.cost(problem) < one_pod_per_machine(problem).cost(problem)


@pytest.mark.parametrize("seed", range(4))
def test_a_dive_that_buys_parts_packs_every_pod(seed: int) -> None:
    """It also takes no more of an item than there is, and ends with one machine for the last pods."""
    problem = with_small_pods(seed)
    bound = relax(problem, SETTINGS).lower_bound
    for least in (1, 12):
        settings = replace(SETTINGS, diving=replace(NO_MORE_DIVES, part_pods_min=least))
        diving = Diving(problem, np.random.default_rng(0), SearchBudget(60), settings)
        packing = diving.packing([], bound)
        packing.check(problem)
        assert packing.cost(problem) <= bound * 1.1


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_dives_end_by_themselves_and_what_they_find_is_near_the_bound(seed: int) -> None:
    """A search without a bound on its steps must end, too: each dive that saves nothing counts."""
    problem, budget = with_large_pods(seed), SearchBudget()
    fluid = relax(problem, SETTINGS).lower_bound
    packing = Diving(problem, np.random.default_rng(0), budget, SETTINGS).packing([], fluid)
    packing.check(problem)
    assert 10 < budget.steps < 400
    assert packing.cost(problem) < 0.97 * dived(problem, 1).cost(problem)


def test_a_search_that_is_done_is_not_continued_by_beam_search() -> None:
    """One type and one kind of pod: the first dive costs what the bound says, and no step more is taken."""
    problem, budget = a_problem([(1, 1)], [4]), SearchBudget()
    diving = Diving(problem, np.random.default_rng(0), budget, SETTINGS)
    best = diving.packing([], relax(problem, SETTINGS).lower_bound)
    assert diving.is_closed(best)
    assert not diving.is_closed(one_pod_per_machine(a_problem([(1, 1)], [4])))
    assert budget.steps < 20


@pytest.mark.parametrize("seed", [1, 2])
def test_a_dive_that_is_near_enough_generates_no_columns_and_is_the_last(seed: int) -> None:
    """Most of a large zone's time would go into columns for the remaining pods of every dive."""
    problem = with_large_pods(seed)
    bound = relax(problem, SETTINGS).lower_bound

    def loads_and_steps(stop_gap_relative: float, **limits: int) -> tuple[int, int]:
        generation = replace(SETTINGS.column_generation, stop_gap_relative=stop_gap_relative)
        settings = replace(SETTINGS, column_generation=generation, diving=replace(SETTINGS.diving, **limits))
        budget = SearchBudget(60)
        diving = Diving(problem, np.random.default_rng(0), budget, settings)
        diving.packing([], bound)
        return len(diving.loads(0.0)), budget.steps

    near, far = 0.08, SETTINGS.column_generation.stop_gap_relative
    assert loads_and_steps(near) == loads_and_steps(near, pricing_rounds=0) == loads_and_steps(near, idle_dives_max=0)
    assert loads_and_steps(far) != loads_and_steps(far, pricing_rounds=0)
    assert loads_and_steps(far)[1] > 3 * loads_and_steps(near)[1]


@pytest.mark.parametrize("seed", range(6))
def test_dives_that_keep_most_machines_pack_every_pod_and_never_cost_more_than_the_first(seed: int) -> None:
    """A target's dives after the first pack only the pods of the machines that are worth least again."""
    problem = with_large_pods(seed)
    settings = replace(SETTINGS, kept_machines=SETTINGS.target.kept_machines)
    fluid = relax(problem, SETTINGS).lower_bound
    diving = Diving(problem, np.random.default_rng(0), SearchBudget(120), settings)
    packing = diving.packing([], fluid)
    packing.check(problem)
    first = Diving(problem, np.random.default_rng(0), SearchBudget(120), replace(settings, diving=NO_MORE_DIVES))
    assert packing.cost(problem) <= first.packing([], fluid).cost(problem)


@pytest.mark.parametrize(("seed", "near"), [(0, 0.08), (1, 0.06)])
def test_later_dives_generate_columns_even_if_the_program_is_near_enough(seed: int, near: float) -> None:
    """The first dive was not near enough: with the same columns, the next ones would hardly be."""
    problem = with_large_pods(seed)
    bound = relax(problem, SETTINGS).lower_bound
    generation = replace(SETTINGS.column_generation, stop_gap_relative=near)

    def loads(**limits: int) -> int:
        diving = replace(SETTINGS.diving, beam_items_max=0, **limits)
        settings = replace(SETTINGS, column_generation=generation, diving=diving)
        search = Diving(problem, np.random.default_rng(0), SearchBudget(60), settings)
        search.packing([], bound)
        return len(search.loads(0.0))

    assert loads() > loads(pricing_rounds=0)


def improved(problem: PackingProblem, *, steps: int, seed: int = 0, start: Packing | None = None) -> OptimizedPacking:
    before = one_pod_per_machine(problem) if start is None else start
    ready = prepared(problem, SETTINGS)
    return improve(ready, before, seed=seed, budget=SearchBudget(steps), settings=SETTINGS)


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("make", "steps"), [(with_small_pods, 200), (with_large_pods, 120)])
def test_the_search_comes_close_to_the_bound(make: Callable[[int], PackingProblem], steps: int, seed: int) -> None:
    """Otherwise, money is wasted; GPU clusters cost seven per cent more."""
    problem = make(seed)
    optimized = improved(problem, steps=steps)
    optimized.packing.check(problem)
    assert optimized.lower_bound <= optimized.packing.cost(problem) <= optimized.lower_bound * 1.06


def test_the_same_seed_and_steps_give_the_same_packing() -> None:
    """Otherwise, a run cannot be repeated."""
    problem = with_small_pods(3)
    one, two = (improved(problem, steps=60, seed=5).packing for _ in range(2))
    assert one.types.tolist() == two.types.tolist()
    assert one.loads.tolist() == two.loads.tolist()


def test_rounding_alone_packs_every_pod_and_never_costs_more_than_the_incumbent() -> None:
    problem = with_small_pods(4)
    before = one_pod_per_machine(problem)
    ready = prepared(problem, SETTINGS)
    optimized = round_only(ready, before, seed=0, budget=SearchBudget(50), settings=SETTINGS)
    optimized.packing.check(problem)
    assert optimized.packing.cost(problem) < before.cost(problem)
    whole = improve(ready, before, seed=0, budget=SearchBudget(50), settings=SETTINGS)
    assert whole.packing.cost(problem) <= optimized.packing.cost(problem)


FEW_SURE_ITEMS: Final = replace(SETTINGS, stages=replace(SETTINGS.stages, sure_items_max=0))


@pytest.mark.parametrize(
    ("settings", "share", "rounds"),
    [(FEW_SURE_ITEMS, 0.8, True), (FEW_SURE_ITEMS, 0.95, False), (SETTINGS, 1.2, True)],
)
def test_roundings_of_many_items_end_before_the_time_does(settings: SearchSettings, share: float, rounds: bool) -> None:
    """They bring most of the saving, but with thousands of items each one takes seconds."""
    problem = with_small_pods(4)
    before = one_pod_per_machine(problem)
    budget = SearchBudget(None, lambda: share)
    optimized = round_only(prepared(problem, SETTINGS), before, seed=0, budget=budget, settings=settings)
    optimized.packing.check(problem)
    assert (optimized.packing.cost(problem) < before.cost(problem)) is rounds


class RecordingClock:
    """A clock that records cuts."""

    def __init__(self, share: float) -> None:
        self._share = share
        self.cuts = 0

    def __call__(self) -> float:
        return self._share

    def record_cut(self) -> None:
        self.cuts += 1


@pytest.mark.parametrize(("settings", "share"), [(FEW_SURE_ITEMS, 0.95), (FEW_SURE_ITEMS, 0.8), (SETTINGS, 0.95)])
def test_a_clock_is_told_that_a_stage_is_left_out_although_time_is_left(settings: SearchSettings, share: float) -> None:
    """Otherwise, a plan that a faster machine makes cheaper says that nothing but its steps ended the search."""
    problem, clock = with_small_pods(4), RecordingClock(share)
    round_only(
        prepared(problem, SETTINGS),
        one_pod_per_machine(problem),
        seed=0,
        budget=SearchBudget(None, clock),
        settings=settings,
    )
    assert bool(clock.cuts) is (settings is FEW_SURE_ITEMS and share > LATE_SHARE)


@pytest.mark.parametrize("looks", [1, 3, 5])
def test_a_rounding_that_is_late_is_given_up(looks: int) -> None:
    """Otherwise, a plan of thousands of items takes a multiple of its time."""
    problem = with_small_pods(4)
    before, looked = one_pod_per_machine(problem), iter([0.5] * looks)
    budget = SearchBudget(None, lambda: next(looked, 1.2))
    optimized = round_only(prepared(problem, SETTINGS), before, seed=0, budget=budget, settings=FEW_SURE_ITEMS)
    optimized.packing.check(problem)
    assert optimized.packing.cost(problem) == before.cost(problem)


def test_column_generation_is_for_wide_gaps_on_machines_that_hold_few_pods() -> None:
    problem = a_problem([(1, 2)], [60])
    stages = SETTINGS.stages
    assert is_coarse(problem, lower_bound=100, cost=103, machines=2, settings=stages)
    assert not is_coarse(problem, lower_bound=100, cost=101, machines=2, settings=stages)
    assert not is_coarse(problem, lower_bound=100, cost=103, machines=1, settings=stages)


def test_column_generation_begins_with_known_loads() -> None:
    """Otherwise, what one zone's search found is searched again for every other zone."""
    problem = with_large_pods(1)
    ready, before = prepared(problem, SETTINGS), one_pod_per_machine(problem)
    thorough = improve(ready, before, seed=0, budget=SearchBudget(60), settings=SETTINGS)
    afresh, with_loads = (
        improve(ready, before, seed=1, budget=SearchBudget(3), settings=SETTINGS, loads=loads).packing.cost(problem)
        for loads in (None, thorough.loads)
    )
    assert with_loads < afresh


def test_a_machine_for_each_pod_is_the_start_where_it_costs_less() -> None:
    """Small machines are the better bargain here: an incumbent on large ones is not worth improving step by step."""
    problem = PackingProblem.of(
        requests=np.array([[1]]),
        counts=np.array([2]),
        capacity=np.array([[1], [2]]),
        prices=np.array([10, 50]),
        allowed=np.ones((1, 2), dtype=np.bool_),
    )
    large = Packing(np.array([1]), np.array([[2]]))
    assert improved(problem, steps=0, start=large).packing.cost(problem) == 20
    assert improved(problem, steps=0, start=one_pod_per_machine(problem)).packing.cost(problem) == 20


def test_rounding_stops_where_column_generation_will_do_better() -> None:
    """Each rounding is a step that column generation could use; where machines hold many pods, all are tried."""
    problem, steps = with_small_pods(2), []
    ready, start = prepared(problem, SETTINGS), one_pod_per_machine(problem)
    for pods_max in (SETTINGS.stages.coarse_pods_per_machine_max, 1):
        settings = replace(SETTINGS, stages=replace(SETTINGS.stages, coarse_pods_per_machine_max=pods_max))
        budget = SearchBudget(50)
        optimized = round_only(ready, start, seed=0, budget=budget, settings=settings, pairs=False)
        steps.append(budget.steps)
        assert len(optimized.known) == (1 if len(steps) == 1 else 0)
        assert optimized.loads.shape == (0, len(problem.counts))
        assert optimized.lower_bound == ready.fluid.lower_bound
    assert steps[0] == 1 < steps[1]


def test_a_known_packing_is_never_forgotten() -> None:
    """Without a step left, the cheapest of what is known is the result, in whichever order it is known."""
    problem = with_large_pods(1)
    good, start = improved(problem, steps=60), one_pod_per_machine(problem)
    ready = prepared(problem, SETTINGS)
    kept = {int(kind): number for number, kind in enumerate(ready.kept)}
    best = Packing(np.array([kept[int(kind)] for kind in good.packing.types]), good.packing.loads)
    poor = right_sized(ready.reduced, start)
    for known in ([best, poor], [poor, best]):
        optimized = improve(ready, start, seed=0, budget=SearchBudget(0), settings=SETTINGS, known=known)
        assert optimized.packing.cost(problem) == good.packing.cost(problem) < start.cost(problem)


def test_with_loads_rounding_is_left_to_the_time_after_the_search() -> None:
    """With time, loads are columns at once; without, a plan that was not even rounded would be launched."""
    problem = with_large_pods(1)
    ready, start = prepared(problem, SETTINGS), one_pod_per_machine(problem)
    loads = improve(ready, start, seed=0, budget=SearchBudget(20), settings=SETTINGS).loads
    assert len(loads)
    costs = [
        improve(ready, start, seed=0, budget=budget, settings=SETTINGS, loads=loads).packing.cost(problem)
        for budget in (SearchBudget(0), SearchBudget(9, lambda: 1.0), SearchBudget(9))
    ]
    assert costs == sorted(set(costs), reverse=True)
