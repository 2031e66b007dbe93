"""Sums the price of all our nodes."""

from __future__ import annotations

from core.disruption.prices import node_price, type_of
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.pools.pool_types import pool_types


def fleet_price(snapshot: Snapshot) -> int:
    """Return the price of all nodes with a NodeClaim in nano-dollars per hour, at pools' own prices; unknown types count 0."""
    types = pool_types(snapshot)
    return sum(
        node_price(state.labels, type_of(state.labels, types.by_name(state.node_pool)))
        for state in state_nodes(snapshot)
        if state.is_managed
    )
