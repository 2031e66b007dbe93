"""Simulates a fleet over a recorded period: its snapshots supply the pods, nodes are planned for them and consolidated.

Launches and moves happen at once. Between two snapshots the fleet is planned again as long as it changes, and when
`consolidateAfter` or a budget's window may let more nodes go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.counterfactual.broken_rules import BrokenRule, broken_rules
from core.counterfactual.simulated_fleet import Placement, SimulatedFleet
from core.disruption.budgets.next_change import next_change
from core.disruption.decision import run, startable
from core.disruption.fleet_cost import fleet_price
from core.errors import InvalidInputError
from core.model.snapshot import Snapshot
from core.model.values.duration import HOUR, MICROSECOND, MICROSECONDS_PER_HOUR
from core.scheduling.planner import Planner

TICK: Final = timedelta(minutes=5)
"""Time between two plans while the fleet changes: about as long as a command takes."""

TICKS_MAX: Final = 200
"""The most plans between two recorded snapshots."""


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
    broken: tuple[BrokenRule, ...] = ()


class FleetSimulation:
    """One simulation. `see` each snapshot in order of time, the first of which has the initial fleet; then call `finish`."""

    def __init__(self, rules: SimulationRules, first: Snapshot) -> None:
        self._rules = rules
        self._snapshot = first
        self._now = first.now
        self._fleet = SimulatedFleet(first)
        self._unplaced: tuple[str, ...] = ()
        self._has_changed = False
        self._prices: dict[str, tuple[str, int]] = {}
        self._bill: Counter[str] = Counter()
        self._node_time = timedelta(0)
        self._series: list[tuple[datetime, int]] = []
        self._broken: list[BrokenRule] = []
        self._step(first.now)

    def see(self, snapshot: Snapshot) -> None:
        """Simulate until this snapshot, then apply it."""
        self._advance_to(snapshot.now)
        self._snapshot = snapshot
        self._step(snapshot.now)

    def finish(self, until: datetime) -> SimulatedPeriod:
        """Simulate until the end of the period."""
        self._advance_to(until)
        self._charge(until)
        return SimulatedPeriod(
            cost=sum(self._bill.values()) // MICROSECONDS_PER_HOUR,
            by_pool={pool: cost // MICROSECONDS_PER_HOUR for pool, cost in sorted(self._bill.items())},
            hours=self._node_time / HOUR,
            launched=self._fleet.launched,
            moves=self._fleet.moves,
            waited=self._fleet.waited,
            unplaced=self._unplaced,
            nodes=len(self._fleet.claims),
            commands=dict(sorted(self._fleet.commands.items())),
            series=tuple(self._series),
            placements=self._fleet.placements,
            broken=tuple(self._broken),
        )

    def _advance_to(self, end: datetime) -> None:
        """Plan again between two snapshots whenever the fleet may change without an event."""
        for _ in range(TICKS_MAX if self._rules.consolidates else 0):
            following = self._next_tick()
            if following is None or following >= end:
                return
            self._step(following)

    def _next_tick(self) -> datetime | None:
        if self._has_changed:
            return self._now + TICK
        asked, claims = self._rules.change(self._snapshot), self._fleet.claims.values()
        counts = Counter(claim.node_pool for claim in claims)
        changes = [next_change(pool, counts[pool.name], self._now) for pool in asked.node_pools if counts[pool.name]]
        consolidate_after = {pool.name: pool.disruption.consolidate_after for pool in asked.node_pools}
        moments = [change.at for change in changes if change is not None]
        for claim in claims:
            wait, since = consolidate_after.get(claim.node_pool), claim.last_pod_event_at or claim.created_at
            if wait is not None and since is not None and since + wait > self._now:
                moments.append(since + wait)
        return min(moments, default=None)

    def _step(self, now: datetime) -> None:
        self._charge(now)
        asked = self._rules.change(self._snapshot)
        only = self._rules.karpenter_moves_only
        if now == asked.now:
            self._fleet.meet(asked)
        snapshot = self._fleet.in_snapshot(asked, now, karpenter_moves_only=only)
        planner = Planner(snapshot)
        plan = planner.without_reasons().plan()
        self._fleet.place(plan, snapshot)
        self._unplaced = tuple(found.pod for found in plan.unschedulable)
        self._has_changed = False
        if self._rules.consolidates and self._fleet.claims:
            if plan.claims or plan.bindings:
                snapshot = self._fleet.in_snapshot(asked, now, karpenter_moves_only=only)
                planner = Planner(snapshot)
            commands = startable(run(snapshot, planner).commands)
            self._broken += broken_rules(commands, snapshot)
            self._fleet.carry_out(commands, snapshot)
            self._has_changed = bool(commands)
        self._prices = self._fleet.prices(asked, now)
        hourly = sum(price for _, price in self._prices.values())
        if not self._series or self._series[-1][1] != hourly:
            self._series.append((now, hourly))

    def _charge(self, now: datetime) -> None:
        span = now - self._now
        for pool, price in self._prices.values():
            self._bill[pool] += price * (span // MICROSECOND)
        self._node_time += span * len(self._prices)
        self._now = now


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


def simulated_periods(
    snapshots: Iterable[Snapshot], rules: Sequence[SimulationRules], until: datetime
) -> tuple[RecordedPeriod, tuple[SimulatedPeriod, ...]]:
    """Simulate a fleet over the same snapshots, at least one and in order of time, under several rules."""
    simulations: list[FleetSimulation] = []
    first = last = None
    hourly = cost = count = 0
    for snapshot in snapshots:
        first, count = first or snapshot.now, count + 1
        if last is not None:
            cost += hourly * ((snapshot.now - last) // MICROSECOND)
        last, hourly = snapshot.now, fleet_price(snapshot)
        if simulations:
            for simulation in simulations:
                simulation.see(snapshot)
        else:
            simulations = [FleetSimulation(rule, snapshot) for rule in rules]
    if first is None or last is None:
        raise InvalidInputError("has no snapshot", subject="period")
    cost += hourly * ((until - last) // MICROSECOND)
    period = RecordedPeriod(since=first, until=until, snapshots=count, cost=cost // MICROSECONDS_PER_HOUR)
    return period, tuple(simulation.finish(until) for simulation in simulations)
