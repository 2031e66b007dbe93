"""Tells apart why a fleet costs more than its lower bound: the price of moves, the gate between spot nodes, and the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from core import labels
from core.disruption.target.move_price import SHARES, moves_setting
from core.model.snapshot import THOROUGH_MOVES, Options, Snapshot

NODES_MAX: Final = 2_500
"""A larger fleet's gap is not told apart: each of the two further decisions would take more than ten seconds."""


class GapParts(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-dollars per hour above the lower bound; the parts add up to the whole gap, and none is negative.

    Attributes:
        moves: What the fleet costs more because moves have a price.
        spot_to_spot: What it then costs more because spot is not replaced by spot.
        rest: The remainder. Pods and nodes are whole, rules between pods hold, and the bound lies below every plan.
    """

    moves: int
    spot_to_spot: int
    rest: int


def gap_parts(snapshot: Snapshot, after: int, bound: int, ends_at: Callable[[Snapshot], int]) -> GapParts:
    """Tell the gap apart by deciding again without the price of moves, then without the gate, too.

    A decision with fewer limits may keep what was decided with more, so one that ends at a higher cost changes nothing.

    Args:
        snapshot: The cluster.
        after: Where its decision ends, in nano-dollars per hour.
        bound: The lower bound of every decision.
        ends_at: Where the decision about a snapshot ends if its budgets are ignored, in nano-dollars per hour.
    """
    options = snapshot.options
    free_moves = msgspec.structs.replace(options, moves=THOROUGH_MOVES, move_price=0)
    gates = msgspec.structs.replace(options.feature_gates, spot_to_spot_consolidation=True)
    open_gate = msgspec.structs.replace(free_moves, feature_gates=gates)

    def ended(changed: Options, most: int, *, matters: bool) -> int:
        """Return where a decision with these options ends, between the bound and the cost with more limits."""
        if most == bound or not matters:
            return most
        return max(bound, min(most, ends_at(msgspec.structs.replace(snapshot, options=changed))))

    with_all_limits = max(after, bound)
    without_price = ended(free_moves, with_all_limits, matters=_has_priced_moves(snapshot))
    without_gate = ended(open_gate, without_price, matters=_is_gated(snapshot))
    return GapParts(
        moves=with_all_limits - without_price, spot_to_spot=without_price - without_gate, rest=without_gate - bound
    )


def _has_priced_moves(snapshot: Snapshot) -> bool:
    options = snapshot.options
    if options.moves != THOROUGH_MOVES:
        return True  # it also discounts nodes that stay
    if options.move_price is not None:
        return options.move_price > 0
    return any(SHARES[moves_setting(pool, options)] for pool in snapshot.node_pools)


def _is_gated(snapshot: Snapshot) -> bool:
    is_open = snapshot.options.feature_gates.spot_to_spot_consolidation
    return not is_open and any(node.labels.get(labels.CAPACITY_TYPE) == labels.SPOT for node in snapshot.nodes)
