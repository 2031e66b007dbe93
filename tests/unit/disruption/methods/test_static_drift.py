"""Else a static NodePool grows beyond its replicas, or drifts for ever."""

from __future__ import annotations

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import static_drift
from core.model.feature_gates import FeatureGates
from core.model.node_claim import INITIALIZED
from core.model.snapshot import Options
from core.reasons.node import NodeReason
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import (
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    drifted,
    world,
)


def test_static_pool_replaces_drifted_nodes_one_for_one() -> None:
    """A static pool keeps its number of nodes, whatever pods it has; it is never consolidated."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=1)
    snapshot = world(drifted(a_node_of(SMALL)), node_pools=(pool,))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("static-drift", 1)
    assert blocked(disrupt(world(a_node_of(SMALL), node_pools=(pool,)))) == {"node-1": NodeReason.STATIC_POOL}


@pytest.mark.parametrize(("limits", "replicas"), [({"nodes": 1}, 1), ({}, 0)])
def test_static_pool_without_room_waits(limits: dict[str, int], replicas: int) -> None:
    """Neither over the limit of nodes, nor while the pool still has to shrink."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=replicas, limits=limits)
    plan = disrupt(world(drifted(a_node_of(SMALL)), node_pools=(pool,)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.STATIC_POOL}


def test_a_dynamic_pool_is_left_to_the_other_method() -> None:
    assert static_drift.find(DisruptionPass(world(drifted(a_node_of(SMALL))))) == []


@pytest.mark.parametrize(("ready", "commands"), [(True, 1), (False, 0)])
def test_at_the_limit_one_node_goes_first_while_all_others_work(ready: bool, commands: int) -> None:
    """Else a pool whose limit is its number of nodes drifts for ever, or loses several at once."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=2, limits={"nodes": 2})
    (claim, node), other = drifted(a_node_of(SMALL, name="a")), drifted(a_node_of(SMALL, name="b"))
    late = msgspec.structs.replace(claim, conditions={k: c for k, c in claim.conditions.items() if k != INITIALIZED})
    gate = Options(feature_gates=FeatureGates(static_capacity=True))
    snapshot = world(((claim if ready else late), node), other, node_pools=(pool,), options=gate)
    found = disrupt(snapshot).commands
    assert [(command.method, command.replacements) for command in found] == [("static-drift", ())] * commands
