"""Drifted nodes of a static NodePool are replaced without exceeding its replicas or limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import static_drift
from core.model.feature_gates import FeatureGates
from core.model.node_claim import INITIALIZED
from core.model.node_pool import NodePool
from core.model.plan import DisruptionPlan
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.node import NodeReason
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import (
    LARGE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    checked,
    drifted,
    world,
)


def test_static_pool_replaces_drifted_nodes_one_for_one() -> None:
    """A static pool keeps its number of nodes, whatever its pods; it is never consolidated."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=1)
    snapshot = world(drifted(a_node_of(SMALL)), node_pools=(pool,))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("static-drift", 1)
    assert blocked(disrupt(world(a_node_of(SMALL), node_pools=(pool,)))) == {"node-1": NodeReason.STATIC_POOL}


@pytest.mark.parametrize(("limits", "replicas"), [({"nodes": 1}, 1), ({}, 0)])
def test_static_pool_without_room_waits(limits: dict[str, int], replicas: int) -> None:
    """It neither exceeds the limit of nodes nor begins while the pool has too many nodes."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=replicas, limits=limits)
    plan = disrupt(world(drifted(a_node_of(SMALL)), node_pools=(pool,)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.STATIC_POOL}


def test_a_dynamic_pool_is_left_to_the_other_method() -> None:
    assert static_drift.find(DisruptionPass(world(drifted(a_node_of(SMALL))))) == []


@pytest.mark.parametrize(("ready", "commands"), [(True, 1), (False, 0)])
def test_at_the_limit_one_node_goes_first_while_all_others_work(ready: bool, commands: int) -> None:
    """Otherwise, a pool whose limit equals its number of nodes drifts forever, or loses several at once."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=2, limits={"nodes": 2})
    (claim, node), other = drifted(a_node_of(SMALL, name="a")), drifted(a_node_of(SMALL, name="b"))
    late = msgspec.structs.replace(claim, conditions={k: c for k, c in claim.conditions.items() if k != INITIALIZED})
    gate = Options(feature_gates=FeatureGates(static_capacity=True))
    snapshot = world(((claim if ready else late), node), other, node_pools=(pool,), options=gate)
    found = disrupt(snapshot).commands
    assert [(command.method, command.replacements) for command in found] == [("static-drift", ())] * commands


GATE = Options(feature_gates=FeatureGates(static_capacity=True))


def a_static(name: str = "default", *, replicas: int = 2, **changes: Any) -> NodePool:
    pool = a_pool(name, ON_DEMAND, disruption=OPEN, replicas=replicas)
    return msgspec.structs.replace(pool, **changes)


def replaced(*nodes: str, pool: NodePool, options: Options = Options(), **changes: Any) -> DisruptionPlan:  # noqa: B008
    """The plan where these nodes of a pool have drifted."""
    pairs = [drifted(a_node_of(LARGE, name=name)) for name in nodes]
    return disrupt(world(*pairs, node_pools=(pool,), options=options, **changes))


def test_each_of_several_drifted_nodes_is_replaced_where_nothing_limits_them() -> None:
    """A replacement saves what the template's cheapest type costs less."""
    plan = replaced("a", "b", pool=a_static())
    assert [(command.nodes, len(command.replacements)) for command in plan.commands] == [(("a",), 1), (("b",), 1)]
    command = plan.commands[0]
    assert command.savings == 800_000_000 - command.replacements[0].price == 750_000_000


def test_one_that_goes_before_its_replacement_saves_what_it_costs() -> None:
    (command,) = replaced("a", "b", pool=a_static(limits={"nodes": 2}), options=GATE).commands
    assert (command.nodes, command.replacements, command.savings) == (("a",), (), 800_000_000)


@pytest.mark.parametrize(
    ("pool", "options", "says"),
    [
        (a_static(replicas=1), GATE, "NodePool default has 2 nodes and wants 1: it shrinks first"),
        (a_static(limits={"nodes": 2}), Options(), "limits.nodes of NodePool default leaves no room for a replacement"),
        (
            a_static(replicas=3, limits={"nodes": 2}),
            GATE,
            "limits.nodes of NodePool default leaves no room for a replacement",
        ),
    ],
    ids=["too many", "gate off", "one is missing"],
)
def test_a_drifted_node_that_stays_says_why(pool: NodePool, options: Options, says: str) -> None:
    plan = replaced("a", "b", pool=pool, options=options)
    assert plan.commands == ()
    assert {block.message for block in plan.blocked} == {says}


def test_nodes_of_other_pools_take_no_room_and_a_replacement_that_comes_does() -> None:
    other = a_node_of(SMALL, name="z", pool="other")
    pools = (a_static(limits={"nodes": 3}), a_pool("other", ON_DEMAND, disruption=OPEN))
    pairs = [drifted(a_node_of(LARGE, name=name)) for name in "ab"]
    plan = disrupt(world(*pairs, other, node_pools=pools, options=GATE))
    found = {command.nodes: len(command.replacements) for command in plan.commands if command.method == "static-drift"}
    assert found == {("a",): 1}
    told = {block.node: block.message for block in plan.blocked}
    assert told["b"] == "limits.nodes of NodePool default leaves no room for a replacement"


def test_a_node_that_goes_already_keeps_the_others_at_the_limit() -> None:
    going = {"marked_for_deletion": ("default-b",)}
    assert replaced("a", "b", pool=a_static(limits={"nodes": 2}), options=GATE, **going).commands == ()


def test_a_pool_without_types_replaces_nothing() -> None:
    none = a_static().requirements[0]
    pool = a_static(limits={"nodes": 5}, requirements=(none, Requirement.one_of(labels.INSTANCE_TYPE, "unknown")))
    plan = replaced("a", "b", pool=pool)
    assert plan.commands == ()
    assert {block.message for block in plan.blocked} == {"NodePool default has no instance type to launch"}


def test_its_replacement_comes_although_other_nodes_have_room() -> None:
    """Validated like other drift, it would be a deletion: a static NodePool would lose a node."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=2)
    snapshot = world(drifted(a_node_of(SMALL)), a_node_of(LARGE, "roomy"), node_pools=(pool,))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("static-drift", 1)
    assert checked(command, snapshot) == command


def test_at_the_limit_no_node_goes_first_while_another_is_being_deleted() -> None:
    """Two of the nodes that somebody counts on would be gone at once."""
    (claim, node), other = drifted(a_node_of(LARGE, name="a")), a_node_of(LARGE, name="b")
    deleted = msgspec.structs.replace(other[0], deleted_at=NOW)
    pool = a_static(limits={"nodes": 2})
    both = ((claim, node), (deleted, other[1]))
    assert disrupt(world(*both, node_pools=(pool,), options=GATE)).commands == ()
    (command,) = disrupt(world((claim, node), other, node_pools=(pool,), options=GATE)).commands
    assert (command.nodes, command.replacements) == (("a",), ())


def test_a_node_that_was_refused_or_has_not_drifted_is_passed_over() -> None:
    pairs = [drifted(a_node_of(LARGE, name="a")), a_node_of(LARGE, name="b"), drifted(a_node_of(LARGE, name="c"))]
    this_pass = DisruptionPass(world(*pairs, node_pools=(a_static(replicas=3),)))
    assert [command.nodes for command in static_drift.find(this_pass)] == [("a",)]
    this_pass.refuse(this_pass.survey.candidates[0], NodeReason.ROLLOUT_CANARY, "the first new node is not ready")
    assert [command.nodes for command in static_drift.find(this_pass)] == [("c",)]
