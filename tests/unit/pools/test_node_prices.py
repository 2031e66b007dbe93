"""Prices of running nodes."""

from __future__ import annotations

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.quantity import nanodollars
from core.pools.node_prices import node_price, type_of
from tests.builders import ZONES, a_node_of, a_type

SMALL = a_type("small", price=0.1)
LARGE = a_type("large", price=0.4, size="l")


def test_the_price_of_a_node_ignores_availability() -> None:
    """A running node is paid for, sold out or not."""
    _, node = a_node_of(SMALL)
    gone = InstanceType(
        name="small",
        labels={},
        capacity={},
        offerings=(Offering("small", ZONES[0], labels.ON_DEMAND, 7, available=False),),
    )
    assert node_price(node.labels, SMALL) == nanodollars(0.1)
    assert node_price(node.labels, gone) == 7


def test_unknown_node_costs_nothing() -> None:
    """Without a price no saving can be computed: such nodes are not consolidated."""
    _, node = a_node_of(SMALL)
    assert type_of(node.labels, {LARGE.name: LARGE}) is None
    assert node_price(node.labels, None) == 0
    assert node_price({**node.labels, labels.ZONE: "elsewhere"}, SMALL) == 0
