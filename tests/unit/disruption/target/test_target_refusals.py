"""Every node that stays has a stated reason."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.target_fleet import target_fleet
from core.disruption.target.target_refusals import TargetWaveResult, refuse_the_rest, waits_for_budgets
from core.disruption.target.target_search import TargetSearch
from core.model.node_pool import Budget, Disruption
from core.model.plan import Blocked
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from core.packing.search_budget import SearchBudget
from core.reasons.node import NodeReason
from tests.builders import a_node_of, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY


def test_the_reason_is_the_one_that_was_found() -> None:
    stuck = pod_on("a", cpu="2", node_selector=(Requirement.one_of("rack", "a"),))
    this_pass = DisruptionPass(
        world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(stuck, pod_on("b", cpu="3")))
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    search = TargetSearch(fleet, "balanced", is_gated=True)
    keeps = search.found(SearchBudget(5)).realization.keeps
    refuse_the_rest(this_pass, search, TargetWaveResult(keeps=keeps))
    found = {name: block.reason for name, block in this_pass.refusals.items()}
    assert found == {"a": NodeReason.PODS_UNSCHEDULABLE, "b": NodeReason.NO_CHEAPER_OPTION}
    assert this_pass.refusals["b"].message.startswith("no place for its pod costs less")


def test_a_node_of_the_target_that_stays_now_goes_later() -> None:
    this_pass = DisruptionPass(
        world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a", cpu="1900m"), pod_on("b", cpu="1900m")))
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    search = TargetSearch(fleet, "balanced", is_gated=True)
    keeps = search.found(SearchBudget(5)).realization.keeps
    refuse_the_rest(this_pass, search, TargetWaveResult(keeps=keeps))
    reasons = sorted(block.reason for block in this_pass.refusals.values())
    assert reasons == [NodeReason.LATER_WAVE, NodeReason.NO_CHEAPER_OPTION]


def refusals_of(snapshot: Snapshot) -> dict[str, Blocked]:
    """Node → why it stays."""
    return {block.node: block for block in disrupt(snapshot).blocked}


def two_expensive(**changes: Any) -> Snapshot:
    """Two nodes whose pods fit one new node, at a ninth of the price of either."""
    large, one = a_type("large", cpu="8", price=9.0), a_type("one", cpu="16", price=1.0)
    pods = tuple(pod_on(node, f"{node}-{n}", cpu="1500m") for node in "ab" for n in range(5))
    catalogue = a_snapshot(types=(large, one)).catalogue
    return msgspec.structs.replace(
        world(a_node_of(large, "a"), a_node_of(large, "b"), pods=pods, **changes), catalogue=catalogue
    )


@pytest.mark.parametrize("options", [Options(), WHOLE_WAY])
def test_limits_that_keep_a_target_from_beginning_are_named(options: Options) -> None:
    """It was said to go in a later wave, and no wave ever came: the new node needs the room of both."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, limits={"cpu": 16_000})
    assert disrupt(two_expensive()).commands, "without limits both go"
    found = refusals_of(two_expensive(node_pools=(pool,), options=options))
    assert {block.reason for block in found.values()} == {NodeReason.PODS_UNSCHEDULABLE}
    assert all("limits" in block.message for block in found.values())


def test_nodes_that_only_pay_together_wait_for_budgets() -> None:
    """It was said that no place for their pods costs less, which is untrue of both together."""
    types = (a_type("old", cpu="4", price=0.4), a_type("one", cpu="16", price=0.5))
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    pairs = [a_node_of(types[0], f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    snapshot = world(*pairs, pods=pods, node_pools=(pool,))
    found = refusals_of(msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=types).catalogue))
    assert {block.reason for block in found.values()} == {NodeReason.BUDGET}
    assert all("together" in block.message for block in found.values())


def test_while_a_target_waits_the_nodes_that_it_keeps_say_which_budget_it_waits_for() -> None:
    """Their own where it keeps them, too; otherwise, that of the first node that the target drains."""
    open_, shut = Disruption(budgets=(Budget("100%"),)), Disruption(budgets=(Budget("1"),))
    pools = (a_pool("default", ON_DEMAND, disruption=shut), a_pool("other", ON_DEMAND, disruption=open_))
    nodes = [a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), a_node_of(MIDDLE, "c", pool="other")]
    lost = a_node_of(MIDDLE, "lost", is_ready=False)
    pods = tuple(pod_on(name) for name in "abc")
    this_pass = DisruptionPass(world(*nodes, lost, pods=pods, node_pools=pools))
    fleet = target_fleet(this_pass)
    assert fleet is not None
    assert [candidate.name for candidate in fleet.candidates] == ["a", "b", "c"]
    of_pool = "the disruption budgets of NodePool default let 1 of 3 nodes go for Underutilized now"

    def told(*keeps: bool) -> dict[str, str]:
        found = waits_for_budgets(fleet, np.array(keeps), this_pass)
        assert all(one.reason == NodeReason.TARGET_WAITS for one in found.values())
        return {name: one.message for name, one in found.items()}

    text = f"nothing is decided about it while the current target waits: {of_pool}; their places are taken by lost"
    assert told(False, True, True) == {"b": text, "c": text}
    assert told(True, True, False) == {"a": text, "b": text}
    assert told(False, False, False) == {}
