"""Nodes without pods are deleted."""

from __future__ import annotations

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import emptiness
from core.model.node_pool import Budget, Disruption
from core.model.values.quantity import nanodollars
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import (
    LARGE,
    MIDDLE,
    ON_DEMAND,
    SMALL,
    world,
)


def test_empty_node_is_deleted() -> None:
    """Otherwise, a node without pods is paid for."""
    (command,) = disrupt(world(a_node_of(SMALL))).commands
    assert (command.reason, command.method, command.nodes) == (TerminationReason.EMPTY, "emptiness", ("node-1",))
    assert command.savings == nanodollars(0.05)


def test_the_most_expensive_empty_node_goes_first_within_budgets() -> None:
    """Each removal disrupts the same, so the largest saving comes first."""
    one = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),))),)
    nodes = (a_node_of(SMALL), a_node_of(LARGE, "node-2"), a_node_of(MIDDLE, "node-3"))
    assert [c.nodes for c in emptiness.find(DisruptionPass(world(*nodes)))] == [("node-2",), ("node-3",), ("node-1",)]
    assert [c.nodes for c in emptiness.find(DisruptionPass(world(*nodes, node_pools=one)))] == [("node-2",)]


@pytest.mark.parametrize("ill", [0, 1, 2])
def test_no_more_nodes_go_than_the_answer_says_may_go_whether_they_are_ready_or_not(ill: int) -> None:
    """A node that is not Ready takes a place of the budgets, and another one when it goes, as in Karpenter."""
    three = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("3"),))),)
    pairs = [a_node_of(SMALL, f"node-{number}") for number in range(5)]
    pairs = [(claim, msgspec.structs.replace(node, is_ready=n >= ill)) for n, (claim, node) in enumerate(pairs)]
    plan = disrupt(world(*pairs, node_pools=three))
    assert plan.budgets["default"]["Empty"] == 3 - ill
    assert sum(len(command.nodes) for command in plan.commands) == 3 - ill
