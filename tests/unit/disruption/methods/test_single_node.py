"""One node is replaced by a cheaper one, or its pods move to other nodes."""

from __future__ import annotations

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import single_node
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Blocked, Move
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import (
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    pod_on,
    world,
)


def test_oversized_node_is_replaced_by_a_cheaper_type() -> None:
    """The replacement is strictly cheaper at its highest possible price, and the pod moves there."""
    plan = disrupt(world(a_node_of(LARGE), pods=(pod_on("node-1"),)))
    (command,) = plan.commands
    assert command.reason == TerminationReason.UNDERUTILIZED
    assert command.replacements[0].instance_types[0] == "t-1"
    assert "t-16" not in command.replacements[0].instance_types
    assert command.moves == (Move("default/on-node-1", command.replacements[0].name),)
    assert plan.cost.after < plan.cost.before


def test_node_that_fits_its_pods_stays() -> None:
    """Replacing a node by an equal one is churn."""
    plan = disrupt(world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NO_CHEAPER_OPTION}


def test_pods_move_to_a_node_that_has_room() -> None:
    """Of nodes with the same number of pods, the more expensive one goes; its pods fit on the other."""
    pairs = (a_node_of(MIDDLE, "a"), a_node_of(SMALL, "b"))
    plan = disrupt(world(*pairs, pods=(pod_on("a", cpu="200m"), pod_on("b", cpu="200m"))))
    assert [command.nodes for command in plan.commands] == [("a",)]
    assert plan.commands[0].moves == (Move("default/on-a", "b"),)


def test_moves_name_the_node_that_the_scheduler_chose() -> None:
    """A pod that moves to the node of an earlier command was assigned to its own command's node, which is full."""
    pods = (
        pod_on("node-1", cpu="2500m"),
        pod_on("node-2", "little", cpu="900m"),
        pod_on("node-2", "much", cpu="3"),
    )
    this_pass = DisruptionPass(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"), pods=pods))
    commands = []
    for candidate in this_pass.survey.candidates:
        replaced = this_pass.replaced(candidate, TerminationReason.UNHEALTHY, "repair")
        assert replaced is not None
        this_pass.carry_out([replaced.command])
        commands.append(replaced.command)
    first, second = commands
    assert [claim.pods for claim in second.replacements] == [("default/much",)]
    assert second.moves == (
        Move("default/little", first.replacements[0].name),
        Move("default/much", second.replacements[0].name),
    )


def test_a_refused_node_says_why_and_is_not_tried_twice() -> None:
    """Otherwise, a pass simulates the same node once for each command that it finds."""
    this_pass = DisruptionPass(world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    assert single_node.find(this_pass) == []
    assert this_pass.refusals["node-1"].reason == NodeReason.NO_CHEAPER_OPTION


def test_node_pools_take_turns_and_a_refused_node_is_passed_over() -> None:
    """A large pool would leave the others no simulations."""
    pools = tuple(a_pool(name, ON_DEMAND, disruption=OPEN) for name in ("one", "two"))
    nodes = [a_node_of(SMALL, name, pool=pool) for name, pool in (("a", "one"), ("b", "one"), ("c", "two"))]
    pods = tuple(pod_on(name, cpu="900m") for name in "abc")
    this_pass = DisruptionPass(world(*nodes, pods=pods, node_pools=pools))
    assert single_node.find(this_pass) == []
    assert list(this_pass.refusals) == ["a", "c", "b"]
    this_pass.refusals.clear()
    this_pass.refuse(this_pass.survey.candidates[0], NodeReason.NOT_TRIED, "an earlier reason")
    assert single_node.find(this_pass) == []
    assert [block.reason for block in this_pass.refusals.values()] == [
        NodeReason.NOT_TRIED,
        NodeReason.NO_CHEAPER_OPTION,
        NodeReason.NO_CHEAPER_OPTION,
    ]


def test_a_node_whose_deletion_saves_too_little_for_its_pool_is_not_simulated() -> None:
    balanced = Disruption(policy=BALANCED, budgets=(Budget("100%"),))
    pools = (a_pool("default", ON_DEMAND, disruption=balanced),)
    nodes = [a_node_of(SMALL, "a"), a_node_of(LARGE, "b")]
    pods = (pod_on("a"), pod_on("b", cpu="14", annotations={labels.DO_NOT_DISRUPT: "true"}))
    this_pass = DisruptionPass(world(*nodes, pods=pods, node_pools=pools))
    assert single_node.find(this_pass) == []
    told = "even deleting it saves too little for NodePool default (Balanced)"
    assert this_pass.refusals == {"a": Blocked("a", NodeReason.BALANCED, told)}
