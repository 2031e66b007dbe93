"""Sums the price of all our nodes."""

from __future__ import annotations

from core.commitments.coverage import paid_price
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes


def fleet_price(snapshot: Snapshot) -> int:
    """Return the cost of all nodes with a NodeClaim less commitments, in nano-dollars per hour; unknown types count 0."""
    return sum(paid_price(state, snapshot) for state in state_nodes(snapshot) if state.is_managed)
