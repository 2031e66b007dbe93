"""Else nodes keep an old image or template, or pods lose their node against their owner's word."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import drift
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import (
    MIDDLE,
    SMALL,
    drifted,
    pod_on,
    world,
)


def test_drifted_node_is_replaced_though_dearer() -> None:
    """What the user asks for now counts more than what it costs."""
    pair = drifted(a_node_of(SMALL, capacity_type=labels.SPOT))
    (command,) = disrupt(world(pair, pods=(pod_on("node-1"),))).commands
    assert command.reason == TerminationReason.DRIFTED
    assert command.savings < 0


def test_drift_overrides_pods_only_with_a_grace_period() -> None:
    """Without a bound on draining, one protected pod would hold a half-drained node for ever."""
    claim, node = drifted(a_node_of(MIDDLE))
    guard = pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    bounded = msgspec.structs.replace(claim, termination_grace_period=timedelta(hours=1))
    assert disrupt(world((claim, node), pods=(guard,))).commands == ()
    assert disrupt(world((bounded, node), pods=(guard,))).commands[0].reason == TerminationReason.DRIFTED


def test_an_empty_drifted_node_goes_before_one_with_pods() -> None:
    """It disturbs nobody."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")), a_node_of(SMALL, "node-3"))
    (command,) = drift.find(DisruptionPass(world(*nodes, pods=(pod_on("node-1"), pod_on("node-3")))))
    assert command.nodes == ("node-2",)
