"""Several nodes are replaced by fewer."""

from __future__ import annotations

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import multi_node
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world


def test_several_nodes_become_fewer() -> None:
    nodes = tuple(a_node_of(MIDDLE, f"node-{n}") for n in range(4))
    pods = tuple(pod_on(f"node-{n}", cpu="100m") for n in range(4))
    (command,) = multi_node.find(DisruptionPass(world(*nodes, pods=pods)))
    assert (command.method, len(command.nodes), len(command.replacements)) == ("multi", 4, 1)
    assert command.savings == 4 * MIDDLE.offerings[0].price - command.replacements[0].price


def test_one_node_alone_is_not_several() -> None:
    assert multi_node.find(DisruptionPass(world(a_node_of(MIDDLE), pods=(pod_on("node-1"),)))) == []
