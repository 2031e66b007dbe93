"""Drifted nodes of a static NodePool are replaced without exceeding its replicas or limit."""

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
