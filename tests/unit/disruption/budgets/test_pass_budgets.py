"""All budgets of a pass are used up together."""

from __future__ import annotations

import msgspec
import pytest

from core.disruption.budgets.pass_budgets import PassBudgets
from core.disruption.disruption_pass import DisruptionPass
from core.model.node_pool import Budget, Disruption
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Options
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, pod_on, world

REASON = TerminationReason.UNDERUTILIZED


def a_pass(budget: str, **options: int) -> DisruptionPass:
    """Two nodes with a pod each."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(budget),)))
    nodes = (a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"))
    return DisruptionPass(
        world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")), node_pools=(pool,), options=Options(**options))
    )


def test_a_node_that_goes_uses_up_its_pools_budget() -> None:
    this_pass = a_pass("1")
    first, second = this_pass.survey.candidates
    assert not this_pass.budgets.allow([first, second], REASON)
    assert this_pass.budgets.within([first, second], REASON) == [first]
    assert this_pass.budgets.allow([second], REASON), "a trial takes nothing"
    this_pass.budgets.take(first, REASON)
    assert this_pass.budgets.left("default", REASON) == 0
    assert not this_pass.budgets.allow([second], REASON)


def test_a_node_that_goes_uses_up_evictions_of_the_hour() -> None:
    this_pass = a_pass("100%", evictions_per_hour=1)
    first, second = this_pass.survey.candidates
    budgets: PassBudgets = this_pass.budgets
    budgets.take(first, REASON)
    assert budgets.has_place(second, REASON)
    assert not budgets.allow([second], REASON)
    assert budgets.rate_objection(second)


def test_nodes_go_together_only_if_their_pods_disruption_budgets_let_all_pods_go() -> None:
    """Each alone may go; the second would wait in its drain for the pod of the first to run again."""
    guard = PodDisruptionBudget(
        namespace="default", name="web", selector=a_selector(app="web"), max_unavailable="1", disruptions_allowed=1
    )
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("100%"),)))
    nodes = [a_node_of(MIDDLE, name) for name in ("node-1", "node-2")]
    pods = tuple(pod_on(node.name, labels={"app": "web"}) for _, node in nodes)
    guarded = world(*nodes, pods=pods, node_pools=(pool,), budgets=(guard,))
    budgets, (first, second) = DisruptionPass(guarded).budgets, DisruptionPass(guarded).survey.candidates
    assert budgets.allow([first], REASON)
    assert budgets.allow([second], REASON)
    assert not budgets.allow([first, second], REASON)
    assert budgets.within([first, second], REASON) == [first]
    budgets.take(first, REASON)
    later = budgets.evictions_left(is_first=False)
    assert not budgets.evictions_left().allows_together([second.state.pods])
    assert later.allows_together([second.state.pods]), "what moved before runs again by then"


@pytest.mark.parametrize(
    ("reason", "is_ready", "left"),
    [
        (REASON, True, 1),
        (REASON, False, 1),
        (TerminationReason.UNHEALTHY, True, 1),
        (TerminationReason.UNHEALTHY, False, 2),
    ],
)
def test_only_a_repaired_node_that_is_not_ready_has_its_place_already(
    reason: str, *, is_ready: bool, left: int
) -> None:
    """It counts as long as it is not Ready."""
    this_pass = a_pass("2")
    first, second = this_pass.survey.candidates
    assert first.state.node is not None
    node = msgspec.structs.replace(first.state.node, is_ready=is_ready)
    state = msgspec.structs.replace(first.state, node=node)
    this_pass.budgets.take(msgspec.structs.replace(first, state=state), reason)
    assert this_pass.budgets.left("default", REASON) == left
    this_pass.budgets.take(second, REASON)
    assert this_pass.budgets.left("default", REASON) == left - 1
