"""Commands of one pass respect together what each respects alone."""

from __future__ import annotations

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import drift
from core.model.policy import PodDisruptionBudget
from core.reasons.node import NodeReason
from tests.builders import a_node_of, a_selector
from tests.unit.disruption.nodes_for_tests import (
    LARGE,
    SMALL,
    blocked,
    drifted,
    pod_on,
    world,
)


def test_pods_of_a_shared_budget_go_one_node_at_a_time() -> None:
    """Two replicas that must not be down together are not evicted together."""
    guard = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web"), disruptions_allowed=1)
    pods = tuple(pod_on(node, labels={"app": "web"}) for node in ("a", "b"))
    plan = disrupt(world(a_node_of(LARGE, "a"), a_node_of(LARGE, "b"), pods=pods, budgets=(guard,)))
    assert [len(command.nodes) for command in plan.commands] == [1]
    assert set(blocked(plan).values()) == {NodeReason.POD_DISRUPTION_BUDGET}


def test_replacements_have_unique_names() -> None:
    """Otherwise, two commands of one pass request the same claim."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("node-1", cpu="900m"), pod_on("node-2", cpu="900m"))))
    found = drift.find_left(this_pass)
    names = [claim.name for command in found for claim in command.replacements]
    assert len(set(names)) == len(names) == 2


def test_a_pass_ends_with_its_time() -> None:
    for spent, is_over in ((0.99, False), (1.0, True)):
        assert DisruptionPass(world(a_node_of(SMALL)), deadline=lambda spent=spent: spent).is_exhausted is is_over  # type: ignore[misc]
    assert not DisruptionPass(world(a_node_of(SMALL))).is_exhausted
