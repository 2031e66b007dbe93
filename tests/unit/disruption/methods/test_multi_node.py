"""Several nodes are replaced by fewer."""

from __future__ import annotations

import msgspec

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import multi_node
from core.model.catalogue import Catalogue
from tests.builders import a_node_of, a_type
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world


def test_several_nodes_become_fewer() -> None:
    nodes = tuple(a_node_of(MIDDLE, f"node-{n}") for n in range(4))
    pods = tuple(pod_on(f"node-{n}", cpu="100m") for n in range(4))
    (command,) = multi_node.find(DisruptionPass(world(*nodes, pods=pods)))
    assert (command.method, len(command.nodes), len(command.replacements)) == ("multi", 4, 1)
    assert command.savings == 4 * MIDDLE.offerings[0].price - command.replacements[0].price


def test_one_node_alone_is_not_several() -> None:
    assert multi_node.find(DisruptionPass(world(a_node_of(MIDDLE), pods=(pod_on("node-1"),)))) == []


def test_a_long_run_goes_though_a_shorter_one_may_not() -> None:
    """Three nodes cost as much as the large one that replaces them; bisection then ended with pairs, and a second move each."""
    types = tuple(a_type(f"r-{cpu}", cpu=str(cpu), price=price) for cpu, price in ((4, 0.2), (8, 0.34), (16, 0.6)))
    nodes = tuple(a_node_of(types[0], f"node-{n}") for n in range(4))
    pods = tuple(pod_on(f"node-{n}", cpu="3700m") for n in range(4))
    full = msgspec.structs.replace(world(*nodes, pods=pods), catalogue=Catalogue(default=types))
    (command,) = multi_node.find(DisruptionPass(full))
    assert len(command.nodes) == 4
    assert [claim.instance_types for claim in command.replacements] == [("r-16",)]
