"""Else money is left that no move of Karpenter's finds."""

from __future__ import annotations

import msgspec

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import repack
from tests.builders import a_node_of, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    SMALL,
    checked,
    pod_on,
    world,
)


def test_node_is_split_where_two_small_ones_are_cheaper() -> None:
    """Karpenter never turns one node into two; we do, if not told to do as it does."""
    dear = a_type("dear", cpu="8", price=9.0)
    pods = tuple(pod_on("node-1", f"p{n}", cpu="900m") for n in range(4))
    other = a_type("two", cpu="2", price=0.3)
    snapshot = msgspec.structs.replace(
        world(a_node_of(dear), pods=pods),
        catalogue=a_snapshot(types=(dear, other)).catalogue,
    )
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("repack", 2)
    assert checked(command, snapshot) == command
    assert disrupt(msgspec.structs.replace(snapshot, options=KARPENTER)).commands == ()


def test_what_saves_too_little_is_left_alone() -> None:
    """Every pod of the nodes has to move for it."""
    assert repack.find(DisruptionPass(world(a_node_of(SMALL), pods=(pod_on("node-1"),)))) == []
