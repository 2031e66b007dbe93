"""The packing problem and packings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from core.errors import InvariantError
from core.packing.heuristics.separate_machines import separate_packing
from core.packing.problem import (
    NO_TYPE,
    Packing,
    PackingProblem,
    distinct_loads,
    distributed,
    joined,
    largest_first,
    numbered_rows,
    right_sized,
)
from tests.unit.packing.problems import SIZES, a_market, a_problem, with_small_pods


def test_types_that_others_beat_are_dominated() -> None:
    """Otherwise, the solver considers hundreds of superfluous types."""
    problem = PackingProblem.of(
        requests=np.array([[1]]),
        counts=np.array([1]),
        capacity=np.array([[4], [4], [8], [2]]),
        prices=np.array([10, 10, 9, 20]),
        allowed=np.array([[True, True, True, True]]),
    )
    assert problem.undominated().tolist() == [2]


def test_a_type_that_takes_more_items_is_not_dominated() -> None:
    """Otherwise, pods for one architecture lose the only type that they may run on."""
    problem = PackingProblem.of(
        requests=np.array([[1], [1]]),
        counts=np.array([1, 1]),
        capacity=np.array([[4], [8]]),
        prices=np.array([10, 9]),
        allowed=np.array([[True, True], [True, False]]),
    )
    assert problem.undominated().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("types", "loads"),
    [([4], [[9, 0]]), ([4, 4], [[8, 0], [8, 0]]), ([4], [[8, 1]]), ([4], [[7, 0]])],
    ids=["overfull", "twice", "forbidden", "missing"],
)
def test_a_wrong_packing_is_refused(types: list[int], loads: list[list[int]]) -> None:
    """Otherwise, an error of the floating-point stages is launched."""
    may = [[True] * len(SIZES), [size != 4 for size in range(len(SIZES))]]
    problem = a_problem([(1, 4), (0.01, 0.01)], [8, 0], allowed=may)
    with pytest.raises(InvariantError):
        Packing(np.array(types), np.array(loads)).check(problem)


@pytest.mark.parametrize(
    ("types", "loads", "why"),
    [
        ([0, 0, 1], [[1, 0], [1, 0], [0, 1]], ""),
        ([0, 1], [[2, 0], [0, 1]], "overfull"),
        ([0, 0, 0], [[1, 0], [1, 0], [0, 1]], "may not"),
        ([0, 1], [[1, 0], [0, 1]], "exactly once"),
        ([0, 0, 0, 1], [[1, 0], [1, 0], [1, 0], [0, 1]], "exactly once"),
    ],
    ids=["valid", "overfull", "forbidden", "missing", "twice"],
)
def test_a_packing_is_refused_for_each_fault_by_itself(types: list[int], loads: list[list[int]], why: str) -> None:
    """Each machine holds just what it has room for, so a packing without a fault passes, and one that is full to the brim."""
    problem = PackingProblem.of(
        requests=np.array([[2], [2]]),
        counts=np.array([2, 1]),
        capacity=np.array([[2], [2]]),
        prices=np.array([1, 1]),
        allowed=np.array([[True, True], [False, True]]),
    )
    packing = Packing(np.array(types), np.array(loads))
    if why:
        with pytest.raises(InvariantError, match=why):
            packing.check(problem)
    else:
        packing.check(problem)


def test_an_item_that_fits_nothing_is_refused() -> None:
    """Otherwise, its lower bound is infinite."""
    with pytest.raises(InvariantError):
        a_problem([(100, 4)], [1])
    one = np.ones((1, 0), dtype=np.int64)
    with pytest.raises(InvariantError):
        PackingProblem.of(
            requests=np.array([[1]]), counts=np.array([1]), capacity=one.T, prices=one[0], allowed=one > 0
        )


def test_a_load_moves_to_the_cheapest_machine_that_holds_it() -> None:
    """Otherwise, a nearly empty large machine stays."""
    problem = a_problem([(1, 4)], [2])
    assert right_sized(problem, Packing(np.array([7]), np.array([[2]]))).types.tolist() == [1]
    assert problem.cheapest_type(np.array([200])) == NO_TYPE


def test_a_cap_bounds_the_pods_of_an_item_on_a_machine() -> None:
    problem = a_problem([(0.5, 1), (0.5, 1)], [9, 9], per_machine_max=[2, 0])
    assert problem.fit[0].max() == 2
    assert problem.is_capped().tolist() == [True, False]


def test_less_capacity_holds_fewer_pods_and_never_more_than_a_cap() -> None:
    problem = a_problem([(1, 2)], [9], per_machine_max=[3])
    smaller = problem.with_capacity(np.array([0, 3]), problem.capacity[[0, 3]] // 2)
    assert smaller.fit.tolist() == [[1, 3]]
    assert smaller.prices.tolist() == problem.prices[[0, 3]].tolist()


def test_packings_are_joined_and_joining_none_gives_none() -> None:
    one = Packing(np.array([1]), np.array([[2, 0]]))
    assert joined([one, one], items=2).loads.tolist() == [[2, 0], [2, 0]]
    assert joined([], items=2).loads.shape == (0, 2)


def test_amounts_are_assigned_to_places_in_order() -> None:
    """Otherwise, a machine gets more pods than it has room for."""
    assert distributed(5, np.array([2, 0, 4, 1])).tolist() == [2, 0, 3, 0]
    assert distributed(9, np.array([2, 1])).tolist() == [2, 1]


def test_the_largest_share_of_any_resource_orders_items() -> None:
    requests = np.array([[1, 9], [5, 1], [5, 1]])
    assert largest_first(requests, np.array([10, 10])).tolist() == [0, 1, 2]
    assert largest_first(requests, np.array([10, 100])).tolist() == [1, 2, 0]
    assert largest_first(np.array([[0, 3], [1, 0]]), np.array([1, 4])).tolist() == [1, 0]
    assert largest_first(np.array([[0, 3], [1, 2]]), np.array([0, 4])).tolist() == [1, 0]


def test_the_types_of_several_loads_are_those_of_each_by_itself() -> None:
    """Loads are sized together for speed; some fit no type, and some items may not run everywhere."""
    small, dice = with_small_pods(5), np.random.default_rng(5)
    problem = PackingProblem.of(
        requests=small.requests,
        counts=small.counts,
        capacity=small.capacity,
        prices=small.prices,
        allowed=small.allowed & ((dice.random(small.allowed.shape) < 0.9) | (np.arange(len(small.prices)) == 0)),
    )
    loads = dice.poisson(dice.choice([0.02, 0.3, 20.0], (60, 1)), (60, len(problem.counts)))
    apart = [problem.cheapest_type(load) for load in loads]
    assert problem.cheapest_types(loads).tolist() == apart
    assert NO_TYPE in apart
    assert len(set(apart)) > 2


def test_distinct_loads_are_in_the_order_of_their_amounts() -> None:
    """Bytes are in that order only with the highest byte first: 256 comes after 1."""
    loads = np.array([[256, 0], [1, 5], [1, 3], [256, 0]], dtype=np.int64)
    assert distinct_loads(loads).tolist() == np.unique(loads, axis=0).tolist() == [[1, 3], [1, 5], [256, 0]]
    assert distinct_loads(loads[:0]).shape == (0, 2)


def test_rows_are_numbered_in_the_order_of_appearance() -> None:
    first, number = numbered_rows(np.array([[2, 1], [0, 0], [2, 1], [1, 2]]))
    assert first.tolist() == [0, 1, 3]
    assert number.tolist() == [0, 1, 0, 2]
    assert [part.tolist() for part in numbered_rows(np.zeros((0, 2), dtype=np.int64))] == [[], []]
    assert [part.dtype.kind for part in numbered_rows(np.zeros((0, 2), dtype=np.int64))] == ["i", "i"]
    assert [part.tolist() for part in numbered_rows(np.zeros((2, 0), dtype=np.int64))] == [[0], [0, 0]]


def drawn(dice: np.random.Generator, *, is_capped: bool = False) -> PackingProblem:
    """A few items and types in small numbers: many requests and capacities are zero, many prices and capacities equal."""
    items, types, resources = (int(dice.integers(1, most)) for most in (4, 6, 4))
    return PackingProblem.of(
        requests=dice.integers(0, 3, (items, resources)),
        counts=dice.integers(1, 4, items),
        capacity=np.concatenate([dice.integers(0, 5, (types, resources)), np.full((1, resources), 4)]),
        prices=dice.integers(1, 4, types + 1),
        allowed=np.concatenate([dice.random((items, types)) < 0.7, np.ones((items, 1), dtype=np.bool_)], axis=1),
        pods_per_machine_max=np.arange(items) % 3 if is_capped else None,
    )


def holds(problem: PackingProblem, kind: int, load: list[int]) -> bool:
    """Whether a machine of a type may hold a load, by its sums."""
    taken = [
        sum(pods * requests[resource] for pods, requests in zip(load, problem.requests.tolist(), strict=True))
        for resource in range(problem.requests.shape[1])
    ]
    may = all(problem.allowed[item, kind] for item, pods in enumerate(load) if pods)
    return may and all(one <= room for one, room in zip(taken, problem.capacity[kind].tolist(), strict=True))


@pytest.mark.parametrize("is_capped", [False, True])
def test_as_many_pods_fit_alone_as_the_sums_and_the_cap_say(is_capped: bool) -> None:
    """A pod that does not request a resource fits a machine that has none of it, in any number."""
    dice, unlimited = np.random.default_rng(1), np.iinfo(np.int64).max
    for _ in range(60):
        problem = drawn(dice, is_capped=is_capped)
        for item, requests in enumerate(problem.requests.tolist()):
            cap = item % 3 if is_capped else 0
            rooms = [
                min(
                    (room // wanted for wanted, room in zip(requests, capacity, strict=True) if wanted),
                    default=unlimited,
                )
                for capacity in problem.capacity.tolist()
            ]
            fit = [room if may else 0 for room, may in zip(rooms, problem.allowed[item], strict=True)]
            assert problem.fit[item].tolist() == [min(room, cap) if cap else room for room in fit]
            assert problem.is_capped()[item] == (bool(cap) and max(fit) > cap)


def test_the_cheapest_type_of_a_load_is_the_first_of_those_that_hold_it() -> None:
    dice = np.random.default_rng(2)
    for _ in range(60):
        problem = drawn(dice)
        loads = dice.integers(0, 3, (5, len(problem.counts)))
        by_price = sorted(range(len(problem.prices)), key=lambda kind: (problem.prices[kind], kind))
        wanted = [next((k for k in by_price if holds(problem, k, load)), NO_TYPE) for load in loads.tolist()]
        assert [problem.cheapest_type(load) for load in loads] == wanted
        assert problem.cheapest_types(loads).tolist() == wanted


def some_drawn() -> Iterator[PackingProblem]:
    dice = np.random.default_rng(3)
    return (drawn(dice) for _ in range(60))


@pytest.mark.parametrize("problems", [some_drawn, lambda: map(a_market, range(40))], ids=["few types", "many types"])
def test_of_types_that_offer_as_much_the_cheapest_then_the_largest_then_the_first_is_kept(
    problems: Callable[[], Iterator[PackingProblem]],
) -> None:
    """Each is compared with every other: types of one capacity that differ in price or in what fits them hide each other."""
    for problem in problems():
        fits, total = problem.fit > 0, problem.capacity.sum(axis=1)
        order = sorted(range(len(total)), key=lambda kind: (problem.prices[kind], -total[kind], kind))
        kept = [
            kind
            for rank, kind in enumerate(order)
            if fits[:, kind].any()
            and not any(
                (fits[:, other] >= fits[:, kind]).all() and (problem.capacity[other] >= problem.capacity[kind]).all()
                for other in order[:rank]
            )
        ]
        assert problem.undominated().tolist() == sorted(kept)


def test_a_part_of_a_problem_has_the_same_rows() -> None:
    problem = a_problem([(1, 2), (1, 7), (2, 4)], [9, 8, 7], per_machine_max=[0, 2, 0])
    some = problem.restricted(np.array([5, 2]))
    assert [some.capacity.tolist(), some.prices.tolist()] == [
        [problem.capacity[kind].tolist() for kind in (5, 2)],
        [problem.prices[kind] for kind in (5, 2)],
    ]
    assert (some.fit.tolist(), some.allowed.shape) == (problem.fit[:, [5, 2]].tolist(), (3, 2))
    few = problem.of_items(np.array([2, 1]), np.array([4, 1]))
    assert (few.requests.tolist(), few.counts.tolist()) == (problem.requests[[2, 1]].tolist(), [4, 1])
    assert (few.fit.tolist(), few.allowed.shape) == (problem.fit[[2, 1]].tolist(), (2, len(SIZES)))
    assert (few.capacity.tolist(), few.prices.tolist()) == (problem.capacity.tolist(), problem.prices.tolist())


def test_packings_hold_whole_numbers_however_they_are_put_together() -> None:
    """A load in floating point would be launched as it is."""
    problem = a_problem([(1, 4)], [3])
    packings = [joined([], items=1), separate_packing(problem), right_sized(problem, separate_packing(problem))]
    packings.append(joined(packings, items=1))
    assert {array.dtype.kind for one in packings for array in (one.types, one.loads)} == {"i"}
    assert packings[-1].cost(problem) == 2 * packings[1].cost(problem)
