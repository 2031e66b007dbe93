"""A best-first search over variations of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from core.scheduling.greedy.guided_steps import DomainOrder
from core.scheduling.replanning.plan_variation import PlanVariation
from core.scheduling.replanning.topology_conflicts import TopologyConflicts
from core.scheduling.replanning.variation_search import VariationResult, VariationSearch

CONFLICTS = TopologyConflicts({"zone": ("a", "b")}, {"zone": (7,)}, {})


def a_search(
    planned: object, *, plans_max: int = 99, idle_max: int = 99, others: Iterable[PlanVariation] = ()
) -> VariationSearch:
    assert callable(planned)
    return VariationSearch(planned, lambda _: CONFLICTS, plans_max=plans_max, idle_max=idle_max, others=iter(others))


def test_changes_are_combined_until_no_pod_is_left_over() -> None:
    """One change alone rarely frees all zones that are needed."""

    def planned(variation: PlanVariation) -> VariationResult:
        return VariationResult(4 - 2 * len(variation.barred), (1,))

    best = a_search(planned).best(VariationResult(4, (1,)))
    assert best is not None
    assert len(best.barred) == 2


def test_a_variation_is_planned_once_and_the_search_is_bounded() -> None:
    """Otherwise, a pod that no variation helps costs hundreds of plans in each run."""
    bounded: tuple[tuple[dict[str, int], int], ...] = (
        ({"plans_max": 5}, 5),
        ({"idle_max": 3}, 3),
        ({"plans_max": 0}, 0),
    )
    for bounds, most in bounded:
        asked: list[PlanVariation] = []

        def planned(variation: PlanVariation, asked: list[PlanVariation] = asked) -> VariationResult:
            asked.append(variation)
            return VariationResult(4, (1,))

        assert a_search(planned, **bounds).best(VariationResult(4, (1,))) is None
        assert len(asked) == len(set(asked)) == most


def test_other_variations_have_their_turn_while_steps_are_left() -> None:
    """The steps from a good variation are many; without turns, an order of zones that places every pod is never planned."""
    order = PlanVariation(order=DomainOrder("zone", ("b", "a")))

    def planned(variation: PlanVariation) -> VariationResult:
        return VariationResult(0 if variation == order else 3, (1,))

    assert a_search(planned, plans_max=2, others=[order]).best(VariationResult(4, (1,))) == order


def test_steps_go_on_from_another_variation_that_leaves_fewer_pods() -> None:
    order = PlanVariation(order=DomainOrder("zone", ("b", "a")))

    def planned(variation: PlanVariation) -> VariationResult:
        left = 4 if variation.order is None else 2 - len(variation.barred)
        return VariationResult(left, (1,))

    best = a_search(planned, others=[order]).best(VariationResult(4, (1,)))
    assert best is not None
    assert best.order == order.order
    assert len(best.barred) == 2


def test_of_equally_good_variations_the_one_with_the_fewest_changes_is_changed_first_and_then_the_oldest() -> None:
    """A variation from outside counts as one change."""
    outside = PlanVariation(order=DomainOrder("zone", ("b", "a")))
    asked: list[PlanVariation] = []

    def planned(variation: PlanVariation) -> VariationResult:
        asked.append(variation)
        return VariationResult(4, (1,))

    first = list(dict.fromkeys(one for one in PlanVariation().neighbours(1, CONFLICTS) if one != PlanVariation()))
    a_search(planned, plans_max=len(first) + 2, others=(outside,)).best(VariationResult(4, (1,)))
    assert asked[:-1] == [first[0], outside, *first[1:]]
    assert asked[-1] == next(
        one for one in first[0].neighbours(1, CONFLICTS) if one not in (*asked[:-1], PlanVariation())
    )
