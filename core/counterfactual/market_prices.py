"""Prices of nodes in one snapshot after another. A price is looked up again only when the market changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core.disruption.fleet_cost import fleet_price
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.pools.node_prices import node_price, type_of
from core.pools.pool_types import PoolTypes

NODES_KEPT: Final = 10_000
"""Of how many nodes prices are kept; a week of a cluster of 300 has some thousands."""


class MarketPrices:
    """Prices in the market of a snapshot, without commitments. Only those of the last market are kept."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._market = snapshot
        self._types = PoolTypes(snapshot)
        self._known: dict[tuple[str, int], tuple[Mapping[str, str], int]] = {}

    def read(self, snapshot: Snapshot) -> None:
        """Take the market of the snapshot. A catalogue that is not the same object counts as another."""
        last = self._market
        is_same = (
            last.catalogue is snapshot.catalogue
            and last.node_pools == snapshot.node_pools
            and last.overlays == snapshot.overlays
            and last.options == snapshot.options
        )
        if not is_same:
            self._market, self._types, self._known = snapshot, PoolTypes(snapshot), {}

    def of(self, labels: Mapping[str, str], pool: str) -> int:
        """Return the price of a node of the NodePool by its labels, in nano-dollars per hour; 0 if it is unknown."""
        known = self._known.get((pool, id(labels)))
        if known is None:
            if len(self._known) >= NODES_KEPT:
                self._known.clear()
            # An entry keeps its labels alive, so no others have their identity.
            known = labels, node_price(labels, type_of(labels, self._types.by_name(pool)))
            self._known[pool, id(labels)] = known
        return known[1]

    def of_fleet(self, snapshot: Snapshot) -> int:
        """Return `fleet_price` of the snapshot."""
        if snapshot.options.commitments:
            return fleet_price(snapshot)
        self.read(snapshot)
        states = state_nodes(msgspec.structs.replace(snapshot, pods=()))
        return sum(self.of(state.labels, state.node_pool) for state in states if state.is_managed)
