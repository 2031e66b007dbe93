"""The scheduler's public interface."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.pod import PodAffinityTerm
from core.model.snapshot import Options, Snapshot
from core.reasons.pod import PodReason
from core.scheduling import Planner, schedule
from tests.builders import a_node_of, a_pod, a_selector, a_snapshot, a_type

SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)
APART = {"labels": {"app": "a"}, "anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="a")),)}


def a_fleet() -> Snapshot:
    """Two nodes, each with a pod that fits beside the other one, and a pod that fits nowhere."""
    (one, first), (other, second) = a_node_of(SMALL, "n1"), a_node_of(LARGE, "n2")
    pods = (a_pod("a", node_name="n1"), a_pod("b", node_name="n2"), a_pod("huge", cpu="64"))
    return a_snapshot(types=(SMALL, LARGE), nodes=(first, second), node_claims=(one, other), pods=pods)


def test_a_plan_costs_what_its_claims_cost() -> None:
    """Otherwise, the plan's total is wrong."""
    plan = schedule(a_snapshot(types=(SMALL,), pods=tuple(a_pod(f"p{n}", **APART) for n in range(3))))
    assert plan.cost.hourly == sum(claim.price for claim in plan.claims) == 3 * 40_000_000
    assert [claim.pods for claim in plan.claims] == [("default/p0",), ("default/p1",), ("default/p2",)]


def test_a_what_if_moves_the_pods_of_the_vanished_nodes_alone() -> None:
    """An unknown name is a node that has gone since: nothing depends on it."""
    planner = Planner(a_fleet())
    found = planner.what_if(["n1", "gone"], consolidation=False)
    assert found.displaced == ("default/a",)
    assert [(binding.pod, binding.node) for binding in found.plan.bindings] == [("default/a", "n2")]
    assert planner.what_if(["gone"], consolidation=False).displaced == ()
    closed = planner.what_if(["n1"], consolidation=False, closed=["n2"])
    assert (closed.plan.bindings, [claim.pods for claim in closed.plan.claims]) == ((), [("default/a",)])


def test_reasons_are_given_where_people_can_act_on_them() -> None:
    """Below a price that consolidation chose, a pod without a place is no news to its owner."""
    planner = Planner(a_fleet())
    for quiet in (planner.below(10**9), planner.without_reasons(), planner.pinned(["n1"])):
        (left,) = quiet.results().plan.unschedulable
        assert (left.pod, left.reason, left.message) == ("default/huge", "", "")
    (left,) = planner.results().plan.unschedulable
    assert left.reason == PodReason.NO_OFFERING_FITS
    found = planner.finding("default/huge")
    assert found is not None
    assert (found.reason, found.message) == (left.reason, left.message)
    assert planner.finding("default/a") is None, "it runs, so nothing is planned for it"


def test_offers_and_plan_speak_of_the_same_pods() -> None:
    planner = Planner(a_fleet())
    assert planner.pods == 1
    assert planner.offers("default/huge") == planner.offers("default/a") == []
    waits = Planner(a_snapshot(types=(SMALL, LARGE), pods=(a_pod("p", cpu="3"),)))
    assert [(offer.price, offer.instance_type) for offer in waits.offers("default/p")] == [(160_000_000, "large")]


def test_without_steps_and_clock_nothing_is_proven_about_the_greedy_plan() -> None:
    snapshot = a_snapshot(types=(SMALL,), pods=(a_pod("p"),))
    assert schedule(snapshot).cost.lower_bound is None
    searched = msgspec.structs.replace(snapshot, options=Options(improve_iterations=10))
    assert schedule(searched).cost.lower_bound is not None
