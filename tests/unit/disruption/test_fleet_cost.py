"""The fleet's cost, the total against which savings are reported."""

from __future__ import annotations

from core.disruption.fleet_cost import fleet_price
from core.model.values.quantity import nanodollars
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import LARGE, SMALL, world


def test_all_nodes_with_a_claim_count_at_the_price_of_their_offering() -> None:
    _, unmanaged = a_node_of(LARGE, "node-3")
    snapshot = world(a_node_of(SMALL), a_node_of(LARGE, "node-2"))
    assert fleet_price(snapshot) == nanodollars(0.05) + nanodollars(0.8)
    claim, node = a_node_of(SMALL)
    assert fleet_price(world((claim, node), nodes=(node, unmanaged))) == nanodollars(0.05)
