"""Commands of one pass respect together what each respects alone."""

from __future__ import annotations

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import drift
from core.model.node_pool import RolloutGate
from core.model.plan import Command, Move
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


@pytest.mark.parametrize(
    ("allowed", "gone", "others", "passes"),
    [(0, 0, 0, False), (1, 0, 0, True), (1, 1, 0, False), (2, 1, 0, True), (1, 0, 1, True)],
)
def test_a_rollout_lets_so_many_go_and_no_more(allowed: int, gone: int, others: int, *, passes: bool) -> None:
    """Commands without replacements and moves, or for another reason, are no part of it."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    gates = {"default": RolloutGate(allowed, "the rollout waits")}
    this_pass = DisruptionPass(world(*nodes, pods=pods, rollouts=gates))
    moves = (Move("default/on-node-2", "node-1"),)
    going = Command(reason="Drifted", method="drift", nodes=("node-2",), claims=("default-node-2",), moves=moves)
    empty = msgspec.structs.replace(going, moves=())
    saving = msgspec.structs.replace(going, reason="Underutilized")
    found = [going] * gone + [empty, saving] * others
    assert this_pass.passes_rollout(this_pass.survey.candidates[0], found) == passes
    without = DisruptionPass(world(*nodes, rollouts=gates))
    assert without.passes_rollout(without.survey.candidates[0], found), "a node without pods"
