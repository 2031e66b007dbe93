"""Each wave has its own budgets, and limits hold while old and new nodes both exist."""

from __future__ import annotations

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.wave_budgets import WaveBudgets
from core.model.node_pool import Budget, Disruption
from core.model.pod import LabelSelector
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of

UNDERUTILIZED = TerminationReason.UNDERUTILIZED


def cluster(*, budget: str = "2", options: Options | None = None, **changes: object) -> Snapshot:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(budget),)), **changes.pop("pool", {}))  # type: ignore[arg-type]
    nodes = [a_node_of(MIDDLE, f"n{n}") for n in range(4)]
    pods = tuple(pod_on(f"n{n}", labels={"app": "web"}) for n in range(4))
    return world(*nodes, pods=pods, node_pools=(pool,), options=options or Options(), **changes)


def taken(snapshot: Snapshot) -> list[int]:
    """How many nodes each of two waves takes."""
    this_pass = DisruptionPass(snapshot)
    budgets, left, found = WaveBudgets(this_pass), list(this_pass.survey.candidates), []
    for _ in range(2):
        budgets.begin()
        going = []
        for candidate in left:
            if budgets.admits(candidate, UNDERUTILIZED):
                budgets.take(candidate)
                going.append(candidate)
        budgets.end()
        left = [candidate for candidate in left if candidate not in going]
        found.append(len(going))
    return found


def test_a_wave_uses_the_budget_and_the_next_one_again() -> None:
    assert taken(cluster()) == [2, 2]


def test_a_percentage_applies_to_the_remaining_nodes() -> None:
    assert taken(cluster(budget="50%")) == [2, 1]


def test_with_budgets_ignored_a_closed_budget_does_not_stop_the_sequence() -> None:
    assert taken(cluster(budget="0", options=WHOLE_WAY)) == [4, 0]


def test_a_pod_disruption_budget_bounds_each_wave_and_not_the_sum() -> None:
    guard = PodDisruptionBudget(
        namespace="default",
        name="web",
        selector=LabelSelector((Requirement.one_of("app", "web"),)),
        max_unavailable="1",
        disruptions_allowed=1,
    )
    assert taken(cluster(budget="100%", budgets=(guard,))) == [1, 1]


def test_limits_count_nodes_that_still_run() -> None:
    snapshot = cluster(pool={"limits": {"cpu": 28000}})
    this_pass = DisruptionPass(snapshot)
    budgets, fleet = WaveBudgets(this_pass), fleet_of(snapshot)
    budgets.begin()
    claims = drained(fleet, "n0", "n1", "n2", "n3").claims
    candidate = fleet.candidates[0]
    assert budgets.has_room_for(claims[:1], candidate)
    budgets.launch(claims[0])
    assert not budgets.has_room_for(claims[:1], candidate)


def test_what_others_of_a_wave_leave_is_free_for_new_nodes_of_the_next_wave() -> None:
    """Their command may start later, or never: a launch before it would be over the limit."""
    snapshot = cluster(pool={"limits": {"nodes": 4}})
    budgets, fleet = WaveBudgets(DisruptionPass(snapshot)), fleet_of(snapshot)
    claims = drained(fleet, "n0", "n1", "n2", "n3").claims
    budgets.begin()
    assert not budgets.has_room_for([*claims[:1], *claims[:1]], fleet.candidates[0])
    budgets.take(fleet.candidates[1])
    assert not budgets.has_room_for([*claims[:1], *claims[:1]], fleet.candidates[0])
    budgets.end()
    assert budgets.has_room_for([*claims[:1], *claims[:1]], fleet.candidates[0])
