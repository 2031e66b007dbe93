"""Why a node stays, as operators read it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from core import labels
from core.disruption import disrupt
from core.disruption.blocked import blocked_nodes, blocks
from core.disruption.disruption_pass import DisruptionPass
from core.model.node_pool import Budget, Disruption
from core.model.snapshot import Options, PodDisruptionBudget
from core.reasons.code import Stated
from core.reasons.nodes import BudgetShared, ManyUnhealthy, NodeReason, NotTried
from tests.builders import a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    SMALL,
    blocked,
    drifted,
    pod_on,
    world,
)


def test_a_spent_budget_is_reported() -> None:
    """With a budget of one, one node goes and the other states why it stays."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    plan = disrupt(world(a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), node_pools=(pool,)))
    assert [command.nodes for command in plan.commands] == [("a",)]
    assert blocked(plan) == {"b": NodeReason.BUDGET}
    ignoring = world(
        a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), node_pools=(pool,), options=Options(ignore_budgets=True)
    )
    assert len(disrupt(ignoring).commands) == 2


def test_a_protected_pod_is_named_before_anything_else() -> None:
    pod = pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    snapshot = world(a_node_of(SMALL), pods=(pod,))
    this_pass = DisruptionPass(snapshot)
    (candidate,) = this_pass.survey.candidates
    assert [found.reason for found in blocks(candidate, this_pass)] == [NodeReason.DO_NOT_DISRUPT]
    (found,) = blocked_nodes(this_pass, snapshot)
    assert (found.node, found.reason) == ("node-1", NodeReason.DO_NOT_DISRUPT)


def test_an_unreadable_schedule_is_named_at_each_node() -> None:
    """`let no more nodes go now` sounds like waiting; nothing ever goes until the schedule is corrected."""
    bad = Budget("1", schedule="0 25 * * *", duration=timedelta(hours=1))
    plan = disrupt(
        world(a_node_of(SMALL), node_pools=(a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(bad,))),))
    )
    (found,) = plan.blocked
    assert found.reason == NodeReason.BUDGET
    assert "spec.disruption.budgets[0]: '25' in the hour is not a range within 0 to 23" in found.message


def test_a_node_that_goes_later_says_what_it_saves_and_one_that_is_kept_does_not_blame_the_budget() -> None:
    """All nodes said that budgets let no more go, also those that the target keeps and no larger budget would move."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    nodes = [a_node_of(LARGE, name) for name in ("a", "b")]
    full = a_node_of(MIDDLE, "full")
    pods = (pod_on("a"), pod_on("b"), pod_on("full", cpu="3200m"))
    plan = disrupt(world(*nodes, full, pods=pods, node_pools=(pool,)))
    (gone,) = [name for command in plan.commands for name in command.nodes]
    found = {block.node: block for block in plan.blocked}
    (later,) = {"a", "b"} - {gone}
    assert found[later].reason == NodeReason.BUDGET
    assert found[later].message.endswith(f"let 1 of 3 nodes go for Underutilized now; their places are taken by {gone}")
    assert found[later].savings > 0
    assert (found["full"].reason, found["full"].savings) == (NodeReason.NO_CHEAPER_OPTION, 0)


CLOSED = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("0"),))),)


def blocked_after(refusal: NodeReason, *, is_drifted: bool = False, **changes: Any) -> list[tuple[str, int]]:
    """Why a node with one pod stays, and its saving, after the methods refused it for this reason."""
    node = drifted(a_node_of(LARGE)) if is_drifted else a_node_of(LARGE)
    this_pass = DisruptionPass(world(node, pods=(pod_on("node-1"),), **changes))
    (candidate,) = this_pass.survey.candidates
    this_pass.refuse(candidate, Stated(refusal, "why"), savings=7)
    blocked = blocked_nodes(this_pass, this_pass.snapshot)
    assert [block.reason for block in blocked] == [why.reason for why in blocks(candidate, this_pass)]
    return [(block.reason, block.savings) for block in blocked]


def test_budgets_are_named_before_what_the_methods_found_except_where_the_target_keeps_the_node() -> None:
    """A larger budget would let the node go, unless the target keeps it anyway; Karpenter's methods have no target."""
    kept, later = NodeReason.NO_CHEAPER_OPTION, NodeReason.ROLLOUT_CANARY
    assert blocked_after(kept, node_pools=CLOSED) == [(kept, 7)]
    assert blocked_after(kept, node_pools=CLOSED, options=KARPENTER) == [(NodeReason.BUDGET, 7)]
    assert blocked_after(later, node_pools=CLOSED) == [(NodeReason.BUDGET, 7)]
    assert blocked_after(later) == [(later, 7)]
    assert blocked_after(later, is_drifted=True, node_pools=CLOSED) == [(NodeReason.BUDGET, 0)]
    assert blocked_after(later, is_drifted=True) == [(later, 7)]


def test_a_ceiling_on_evictions_and_a_shared_budget_are_named_like_budgets() -> None:
    later = NodeReason.ROLLOUT_CANARY
    assert blocked_after(later, options=Options(evictions_per_hour=0)) == [(NodeReason.EVICTION_RATE, 7)]
    none = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(), disruptions_allowed=1)
    nodes = (a_node_of(LARGE, "a"), a_node_of(LARGE, "b"))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b")), budgets=(none,)))
    first, second = this_pass.survey.candidates
    this_pass.budgets.take(first, "Underutilized")
    assert blocks(second, this_pass) == [BudgetShared("b")]


def test_a_node_that_the_pass_did_not_reach_says_so() -> None:
    this_pass = DisruptionPass(world(a_node_of(LARGE), pods=(pod_on("node-1"),)))
    (candidate,) = this_pass.survey.candidates
    assert blocks(candidate, this_pass) == [NotTried("node-1")]
    this_pass.refuse_repair(candidate, ManyUnhealthy("default"))
    assert blocks(candidate, this_pass) == [ManyUnhealthy("default")]
