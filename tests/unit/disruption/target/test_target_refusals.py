"""Every node that stays has a stated reason."""

from __future__ import annotations

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.target_fleet import target_fleet
from core.disruption.target.target_refusals import refuse_the_rest
from core.disruption.target.target_search import TargetSearch
from core.model.values.requirements import Requirement
from core.packing.search_budget import SearchBudget
from core.reasons.node import NodeReason
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world


def test_the_reason_is_the_one_that_was_found() -> None:
    stuck = pod_on("a", cpu="2", node_selector=(Requirement.one_of("rack", "a"),))
    this_pass = DisruptionPass(
        world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(stuck, pod_on("b", cpu="3")))
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    search = TargetSearch(fleet, "balanced", is_gated=True)
    keeps = search.found(SearchBudget(5)).realization.keeps
    refuse_the_rest(this_pass, search, keeps)
    found = {name: block.reason for name, block in this_pass.refusals.items()}
    assert found == {"a": NodeReason.PODS_UNSCHEDULABLE, "b": NodeReason.NO_CHEAPER_OPTION}


def test_a_node_of_the_target_that_stays_now_goes_later() -> None:
    this_pass = DisruptionPass(
        world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a", cpu="1900m"), pod_on("b", cpu="1900m")))
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    search = TargetSearch(fleet, "balanced", is_gated=True)
    keeps = search.found(SearchBudget(5)).realization.keeps
    refuse_the_rest(this_pass, search, keeps)
    reasons = sorted(block.reason for block in this_pass.refusals.values())
    assert reasons == [NodeReason.LATER_WAVE, NodeReason.NO_CHEAPER_OPTION]
