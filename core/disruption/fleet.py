"""What all our nodes cost."""

from __future__ import annotations

from core.disruption.prices import node_price, type_of
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes


def fleet_price(snapshot: Snapshot) -> int:
    """Nano-dollars per hour of all nodes with a NodeClaim, at the catalogue's prices; unknown types count as nothing."""
    types = {pool.name: snapshot.catalogue.types_for(pool.node_class.name) for pool in snapshot.node_pools}
    return sum(
        node_price(state.labels, type_of(state.labels, types.get(state.node_pool, snapshot.catalogue.default)))
        for state in state_nodes(snapshot)
        if state.is_managed
    )
