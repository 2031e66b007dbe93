"""A best-first search over variations of a plan."""

from __future__ import annotations

from core.scheduling.replanning.plan_variation import PlanVariation
from core.scheduling.replanning.topology_conflicts import TopologyConflicts
from core.scheduling.replanning.variation_search import VariationOutcome, VariationSearch

CONFLICTS = TopologyConflicts({"zone": ("a", "b")}, {"zone": (7,)}, {})


def a_search(planned: object, *, plans_max: int = 99, idle_max: int = 99, goal: int = 0) -> VariationSearch:
    assert callable(planned)
    return VariationSearch(planned, lambda _: CONFLICTS, plans_max=plans_max, idle_max=idle_max, goal=goal)


def test_changes_are_combined_until_no_pod_is_left_over() -> None:
    """One change alone rarely frees all zones that are needed."""

    def planned(variation: PlanVariation) -> VariationOutcome:
        return VariationOutcome(4 - 2 * len(variation.barred), (1,))

    best = a_search(planned).best(VariationOutcome(4, (1,)))
    assert best is not None
    assert len(best.barred) == 2


def test_a_variation_is_planned_once_and_the_search_is_bounded() -> None:
    """Otherwise, a pod that no variation helps costs hundreds of plans in each run."""
    for bounds, most in (({"plans_max": 5}, 5), ({"idle_max": 3}, 3), ({"goal": 4}, 0)):
        asked: list[PlanVariation] = []

        def planned(variation: PlanVariation, asked: list[PlanVariation] = asked) -> VariationOutcome:
            asked.append(variation)
            return VariationOutcome(4, (1,))

        assert a_search(planned, **bounds).best(VariationOutcome(4, (1,))) is None
        assert len(asked) == len(set(asked)) == most
