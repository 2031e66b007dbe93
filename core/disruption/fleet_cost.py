"""What all our nodes cost."""

from __future__ import annotations

from core.disruption.prices import node_price, type_of
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.pools.pool_types import pool_types


def fleet_price(snapshot: Snapshot) -> int:
    """Nano-dollars per hour of all nodes with a NodeClaim, at the prices that pools reckon with; unknown types count 0."""
    types = pool_types(snapshot)
    return sum(
        node_price(state.labels, type_of(state.labels, types.of(state.node_pool)))
        for state in state_nodes(snapshot)
        if state.is_managed
    )
