"""Prices of nodes that are kept from snapshot to snapshot are those of each snapshot's market."""

from __future__ import annotations

import msgspec
import pytest

from core.counterfactual import market_prices
from core.counterfactual.market_prices import MarketPrices
from core.disruption.fleet_cost import fleet_price
from core.model.catalogue import Catalogue
from core.model.snapshot import Options
from core.model.values.commitment import ReservedInstances
from tests.builders import a_node_of, a_pool, a_snapshot, a_type

CHEAP, DEAR = a_type("m7.large", price=0.1), a_type("m7.large", price=0.4)
CLAIM, NODE = a_node_of(CHEAP, "n1")
FIRST = a_snapshot(types=(CHEAP,), node_pools=(a_pool(),), node_claims=(CLAIM,), nodes=(NODE,))


def test_the_fleet_costs_what_each_market_says() -> None:
    reserved = ReservedInstances(name="r", instance_type="m7.large", count=1)
    half = msgspec.structs.replace(a_pool(), price_factors={"m7": 500})
    looks = [
        FIRST,
        msgspec.structs.replace(FIRST, catalogue=Catalogue(default=(DEAR,))),
        msgspec.structs.replace(FIRST, node_pools=(half,)),
        msgspec.structs.replace(FIRST, options=Options(commitments=(reserved,))),
        msgspec.structs.replace(FIRST, nodes=(), node_claims=()),
    ]
    prices = MarketPrices(FIRST)
    found = [prices.of_fleet(one) for one in (*looks, *reversed(looks))]
    assert found[:5] == found[:4:-1] == [fleet_price(one) for one in looks]
    assert found[1] == 4 * found[0] == 8 * found[2] > 0 == found[4]


def test_a_node_is_priced_again_only_in_another_market(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(market_prices, "node_price", lambda labels, _: asked.append(labels["kubernetes.io/hostname"]))
    monkeypatch.setattr(market_prices, "NODES_KEPT", 1)
    prices = MarketPrices(FIRST)
    _, other = a_node_of(CHEAP, "n2")
    equal = msgspec.structs.replace(FIRST, node_pools=(a_pool(),))
    for look, node in ((FIRST, NODE), (equal, NODE), (FIRST, other), (FIRST, NODE)):
        prices.read(look)
        prices.of(node.labels, "default")
    assert asked == ["n1", "n2", "n1"]
