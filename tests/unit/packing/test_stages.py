"""The stages of a search, each by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from core.packing.heuristics.guided_rounding import cuts, guided_fill
from core.packing.heuristics.two_type_rounding import by_pairs
from core.packing.problem import Problem
from core.packing.relaxation import active_types as rivals
from core.packing.relaxation.fluid_lp import relax
from core.packing.relaxation.launch_flexibility import PRICE_BAND, TYPES, bundled
from core.packing.relaxation.preparation import leaving_a_choice, prepared
from core.packing.search_budget import Budget


def a_ladder(sizes: int, *, apart: int = 0) -> Problem:
    """Machines of every size at one price for each vCPU, a little of each lost; `apart` pods need a machine each."""
    steps = np.arange(1, sizes + 1)
    room = np.stack([1000 * steps - 100, 2048 * steps - 10, np.ones(sizes, dtype=np.int64)], axis=1)
    requests = [(250, 256, 0), (500, 2048, 0), (1000, 512, 0), (1500, 4096, 0), (500, 512, 1)]
    counts = [120, 90, 60, 45, apart]
    present = [i for i, count in enumerate(counts) if count]
    return Problem.of(
        requests=np.array(requests, dtype=np.int64)[present],
        counts=np.array(counts, dtype=np.int64)[present],
        room=room.astype(np.int64),
        prices=(steps * 314_748_365).astype(np.int64),
        allowed=np.ones((len(present), sizes), dtype=np.bool_),
    )


def families(count: int) -> Problem:
    """Machines of four sizes in so many families that differ by a little in room and price."""
    rows = [(size, family) for size in (2, 4, 8, 16) for family in range(count)]
    room = [(1000 * size - family, 4096 * size - 40 * family, 60) for size, family in rows]
    return Problem.of(
        requests=np.array([(300, 1024, 1), (700, 3072, 1)], dtype=np.int64),
        counts=np.array([200, 100], dtype=np.int64),
        room=np.array(room, dtype=np.int64),
        prices=np.array([size * (50_000_000 + 500_000 * family) for size, family in rows], dtype=np.int64),
        allowed=np.ones((2, len(rows)), dtype=np.bool_),
    )


@pytest.mark.parametrize("problem", [a_ladder(300, apart=80), families(20)], ids=["one price", "families"])
def test_few_types_prove_as_much_as_all(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound would be lower than it is for the types that were left out, and the gap reported too wide."""
    few = relax(problem).bound
    monkeypatch.setattr(rivals, "CHOSEN_MIN", len(problem.prices))
    assert few == pytest.approx(relax(problem).bound, rel=2 * rivals.TOLERANCE)


def test_two_sizes_near_the_average_round_better_than_the_smallest_with_the_largest() -> None:
    """Where every size costs the same for its room, the solver's mix leaves gaps on machines of all sizes."""
    problem = prepared(a_ladder(200, apart=60)).small
    fluid, dice = relax(problem), np.random.default_rng(0)
    found = by_pairs(problem, fluid, dice, Budget(40))
    for packing in found:
        packing.check(problem)
    mixed = min(guided_fill(problem, fluid, dice, cut).cost(problem) for cut in cuts(fluid))
    assert found[0].cost(problem) < mixed
    assert by_pairs(problem, fluid, dice, Budget(0)) == []


def test_what_fits_a_bundle_fits_each_of_its_types() -> None:
    """A launch that falls back on another type would get a node that is too small."""
    problem = families(20)
    held = bundled(problem)
    assert held is not None
    for room, price in zip(held.room, held.prices, strict=True):
        fitting = (problem.room >= room).all(axis=1) & (problem.prices <= price * PRICE_BAND)
        assert fitting.sum() >= TYPES
    assert leaving_a_choice(problem, Budget()).fluid.bound <= prepared(problem).fluid.bound * 1.01


def test_types_are_planned_for_one_by_one_where_a_choice_would_cost_too_much() -> None:
    """With one type of each size a bundle would be a machine several sizes too small, or none at all."""
    problem = a_ladder(60, apart=60)
    assert leaving_a_choice(problem, Budget()).problem is problem
    few = families(3)
    assert leaving_a_choice(few, Budget()).fluid.bound == prepared(few).fluid.bound


def test_a_part_of_the_search_gets_its_share_of_the_time_that_is_left() -> None:
    """The first zone would use up the time of the others."""
    elapsed = 0.2

    def clock() -> float:
        return elapsed

    half = Budget(None, clock).portion(0.5)
    assert half.step()
    elapsed = 0.59
    assert half.step()
    elapsed = 0.61
    assert not half.step()
    assert Budget(None, clock).step()


@pytest.mark.parametrize(("elapsed", "goes_on"), [(lambda: False, True), (lambda: True, False)])
def test_a_caller_that_only_says_yes_or_no_bounds_parts_too(elapsed: Callable[[], float], goes_on: bool) -> None:
    """Such a caller knows no shares, and its deadline must hold all the same."""
    assert Budget(None, elapsed).portion(0.5).step() is goes_on


def test_parts_share_steps() -> None:
    """A run bounded by steps would take more of them the more zones there are."""
    whole = Budget(10, None, 4)
    assert whole.portion(0.5).steps_max == 3
    assert whole.portion(1.0).steps_max == 6


def test_what_comes_after_the_search_has_its_time_set_aside() -> None:
    """A plan would come later than its caller has time for."""
    elapsed = 0.5
    whole = Budget(10, lambda: elapsed, 4)
    less = whole.setting_aside(0.4)
    assert less.step()
    assert less.steps == 5
    elapsed = 0.6
    assert not less.step()
    assert whole.step()
    assert whole.setting_aside(1.0).is_spent
    steps_alone = Budget(10)
    assert steps_alone.setting_aside(0.4) is steps_alone


def test_pods_that_ride_along_for_nothing_make_no_type_a_rival() -> None:
    """Beside pods that need a machine each, small ones are worth nothing; every type joined on their account."""
    problem = prepared(a_ladder(200, apart=60)).small
    room, requests = problem.room.astype(float), problem.requests.astype(float)
    others = rivals.Elsewhere(problem.prices.astype(float), room, requests, problem.fit > 0)
    only_seats = np.array([[0.0, 0.0, 1.0]])
    _, paid = others.rents(requests @ only_seats[0], only_seats)
    assert (paid >= 1).all()
