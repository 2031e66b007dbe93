"""Simulates a fleet over a recorded period: its snapshots supply the pods, nodes are planned for them and consolidated.

Launches and moves happen at once. Pods get places at each snapshot. Nodes are let go at most once in a tick: after a snapshot
or a change of the fleet, and when `consolidateAfter` or a budget's window may let more nodes go. A tick is longer in a long
period, whose simulation takes minutes otherwise (docs/adr/0263).
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
from core.disruption.static_capacity.replicas import lacks_nodes
from core.errors import InvalidInputError
from core.model.snapshot import Snapshot
from core.model.values.duration import HOUR, MICROSECOND, MICROSECONDS_PER_HOUR
from core.scheduling.planner import Planner

TICK: Final = timedelta(minutes=5)
"""The shortest time between two decisions about nodes that go: about as long as a command takes.

A busy cluster has a snapshot every minute or two, and in each some node's `consolidateAfter` ends.
"""

DECISIONS_MAX: Final = 252
"""About how many decisions a period has at most: a week has one every forty minutes, twenty hours one in each `TICK`."""

SNAPSHOTS_PER_TICK: Final = 3
"""A longer period shows so many snapshots between two decisions; others are left out."""

TICKS_MAX: Final = 200
"""The most decisions between two recorded snapshots."""


def tick_of(period: timedelta) -> timedelta:
    """Return the shortest time between two decisions about nodes in a simulation of so long a period."""
    return max(TICK, period / DECISIONS_MAX)


def snapshots_apart(period: timedelta) -> timedelta:
    """Return how far apart the snapshots are that a simulation of so long a period shows; zero where it shows all."""
    tick = tick_of(period)
    return tick / SNAPSHOTS_PER_TICK if tick > TICK else timedelta(0)


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

    def __init__(self, rules: SimulationRules, first: Snapshot, tick: timedelta = TICK) -> None:
        self._rules = rules
        self._tick = tick
        self._snapshot = rules.change(first)
        self._now = first.now
        self._fleet = SimulatedFleet(first)
        self._unplaced: tuple[str, ...] = ()
        self._looked_at: datetime | None = None
        self._is_due = False
        self._prices: dict[str, tuple[str, int]] = {}
        self._bill: Counter[str] = Counter()
        self._node_time = timedelta(0)
        self._series: list[tuple[datetime, int]] = []
        self._broken: list[BrokenRule] = []
        self._step(first.now)

    def see(self, snapshot: Snapshot) -> None:
        """Simulate until this snapshot, then apply it."""
        self._advance_to(snapshot.now)
        self._snapshot = self._rules.change(snapshot)
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
        """Decide again between two snapshots whenever nodes may go without an event."""
        for _ in range(TICKS_MAX if self._rules.consolidates else 0):
            following = self._next_tick()
            if following is None or following >= end:
                return
            self._step(following)

    def _next_tick(self) -> datetime | None:
        """Return when nodes may go next: a tick after the last decision at the earliest, None if never without an event."""
        if self._looked_at is None:
            return None
        earliest = self._looked_at + self._tick
        if self._is_due:
            return earliest
        asked, claims = self._snapshot, self._fleet.claims.values()
        counts = Counter(claim.node_pool for claim in claims)
        changes = [next_change(pool, counts[pool.name], self._now) for pool in asked.node_pools if counts[pool.name]]
        consolidate_after = {pool.name: pool.disruption.consolidate_after for pool in asked.node_pools}
        moments = [change.at for change in changes if change is not None]
        for claim in claims:
            wait, since = consolidate_after.get(claim.node_pool), claim.last_pod_event_at or claim.created_at
            if wait is not None and since is not None and since + wait > self._now:
                moments.append(since + wait)
        return max(earliest, min(moments)) if moments else None

    def _step(self, now: datetime) -> None:
        self._charge(now)
        asked = self._snapshot
        if now == asked.now:
            self._fleet.meet(asked)
        snapshot, planner = self._placed(asked, now)
        if self._rules.consolidates and self._fleet.claims:
            self._is_due = self._looked_at is not None and now - self._looked_at < self._tick
            if not self._is_due:
                self._let_go(snapshot, planner or Planner(snapshot))
        self._prices = self._fleet.prices(asked, now)
        hourly = sum(price for _, price in self._prices.values())
        if not self._series or self._series[-1][1] != hourly:
            self._series.append((now, hourly))

    def _placed(self, asked: Snapshot, now: datetime) -> tuple[Snapshot, Planner | None]:
        """Give waiting pods their places; return the fleet after that, and its planner if it was planned without any change."""
        only = self._rules.karpenter_moves_only
        snapshot = self._fleet.in_snapshot(asked, now, karpenter_moves_only=only)
        self._unplaced = ()
        if not (snapshot.buffers or lacks_nodes(snapshot) or any(not pod.node_name for pod in snapshot.pods)):
            return snapshot, None
        planner = Planner(snapshot)
        plan = planner.without_reasons().plan()
        self._fleet.place(plan, snapshot)
        self._unplaced = tuple(found.pod for found in plan.unschedulable)
        if plan.claims or plan.bindings:
            return self._fleet.in_snapshot(asked, now, karpenter_moves_only=only), None
        return snapshot, planner

    def _let_go(self, snapshot: Snapshot, planner: Planner) -> None:
        """Decide which nodes go now, and carry that out."""
        decided = run(snapshot, planner)
        commands = startable(decided.commands)
        self._broken += broken_rules(commands, snapshot)
        self._fleet.carry_out(commands, decided.target, snapshot)
        self._looked_at, self._is_due = snapshot.now, bool(commands)

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
    first = last = shown = left_out = None
    apart = timedelta(0)
    hourly = cost = count = 0
    for snapshot in snapshots:
        first, count = first or snapshot.now, count + 1
        if last is not None:
            cost += hourly * ((snapshot.now - last) // MICROSECOND)
        last, hourly = snapshot.now, fleet_price(snapshot)
        if shown is None:
            period = until - snapshot.now
            apart, shown = snapshots_apart(period), snapshot.now
            simulations = [FleetSimulation(rule, snapshot, tick_of(period)) for rule in rules]
        elif snapshot.now - shown < apart:
            left_out = snapshot
        else:
            shown, left_out = snapshot.now, None
            for simulation in simulations:
                simulation.see(snapshot)
    if first is None or last is None:
        raise InvalidInputError("has no snapshot", subject="period")
    if left_out is not None:
        for simulation in simulations:
            simulation.see(left_out)
    cost += hourly * ((until - last) // MICROSECOND)
    recorded = RecordedPeriod(since=first, until=until, snapshots=count, cost=cost // MICROSECONDS_PER_HOUR)
    return recorded, tuple(simulation.finish(until) for simulation in simulations)
