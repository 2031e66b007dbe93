"""The rules of a simulation of a recorded period, and the totals of the period as simulated and as recorded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from core.counterfactual.broken_rules import BrokenRule
from core.counterfactual.simulated_fleet import Placement
from core.model.snapshot import Snapshot

Change = Callable[[Snapshot], Snapshot]


def unchanged(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot unchanged."""
    return snapshot


class SimulationRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one simulation.

    Attributes:
        change: Puts other NodePools, prices or budgets into each snapshot.
        consolidates: Whether nodes are disrupted at all; otherwise each node stays until the end.
        karpenter_moves_only: Whether only Karpenter's own moves are made.
    """

    change: Change = unchanged
    consolidates: bool = True
    karpenter_moves_only: bool = False


class SimulatedPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a simulated period.

    Attributes:
        cost: Nano-dollars, less what commitments cover.
        by_pool: NodePool → its part of the cost.
        hours: Node hours of all nodes together.
        moves: Pods that were moved, each move once.
        waited: Pods that were placed on a new node.
        unplaced: Pods without a place at the end, in order.
        nodes: How many nodes there are at the end.
        commands: Reason → how many commands were carried out.
        series: Moment and nano-dollars per hour from then on.
        placements: Pod that waited for a place → its first place.
        never_placed: Pods that never had a place, whether they left or still wait, in order.
        broken: Rules that commands would have violated, by an independent check; empty unless a decision is wrong.
    """

    cost: int
    by_pool: dict[str, int]
    hours: float
    launched: int
    moves: int
    waited: int
    unplaced: tuple[str, ...]
    nodes: int
    commands: dict[str, int]
    series: tuple[tuple[datetime, int], ...]
    placements: dict[str, Placement] = {}
    never_placed: tuple[str, ...] = ()
    broken: tuple[BrokenRule, ...] = ()


class RecordedPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots themselves, without a simulation.

    Attributes:
        snapshots: How many snapshots there are.
        cost: Nano-dollars of the real nodes, each snapshot's price until the next snapshot, less what commitments cover.
    """

    since: datetime
    until: datetime
    snapshots: int
    cost: int
