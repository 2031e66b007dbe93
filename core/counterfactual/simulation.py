"""Simulates a fleet over a recorded period: its snapshots supply the pods, nodes are planned for them and consolidated.

Launches and moves happen at once. Every snapshot is applied, and pods get places then. Nodes are let go at most once in a tick:
after a snapshot or a change of the fleet, and when `consolidateAfter` or a budget's window may let more nodes go. A tick is
longer in a long period, whose simulation takes an hour otherwise. Nodes without pods, later waves of a target and budgets that
change do not wait for it: what waits for nothing would cost money in the simulation alone
(docs/engineering/handbook/ledger.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.counterfactual.simulated_fleet import MarketPrices, Placement, SimulatedFleet
from core.disruption.budgets import concerns, is_active, limit, next_change
from core.disruption.decision import run, startable
from core.disruption.static_capacity import lacks_nodes
from core.errors import InvalidInputError
from core.model.node_pool import NodePool
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.model.values.quantity import HOUR, MICROSECOND, MICROSECONDS_PER_HOUR
from core.pod_disruption_budgets import DisruptionBudgets
from core.reasons.code import TerminationReason
from core.scheduling.context import KnownParts, SchedulingContext
from core.scheduling.planner import Planner

# Checks the commands of a simulation against the rules, independently of the code that decided them.


BUDGET = "Budget"
POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
DO_NOT_DISRUPT = "DoNotDisrupt"


class BrokenRule(msgspec.Struct, frozen=True):
    """A violation that a command would have caused: the rule, the object and the time."""

    at: datetime
    rule: str
    subject: str


def broken_rules(commands: Sequence[Command], snapshot: Snapshot) -> tuple[BrokenRule, ...]:
    """Return what these commands, carried out together, violate: budgets, PodDisruptionBudgets, do-not-disrupt.

    Windows and limits of budgets are read by the same code as in decisions; the nodes are counted separately here.
    """
    broken = [*_budgets(commands, snapshot), *_pod_budgets(commands, snapshot), *_protected(commands, snapshot)]
    return tuple(BrokenRule(snapshot.now, rule, subject) for rule, subject in sorted(set(broken)))


def _budgets(commands: Iterable[Command], snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    pools = {pool.name: pool for pool in snapshot.node_pools}
    pool_of = {claim.name: claim.node_pool for claim in snapshot.node_claims}
    present = Counter(pool_of.values())
    going = Counter((pool_of[name], command.reason) for command in commands for name in command.claims)
    for (pool, reason), number in sorted(going.items()):
        if any(number > most for most in _limits(pools[pool], present[pool], reason, snapshot.now)):
            yield BUDGET, f"NodePool {pool}"


def _limits(pool: NodePool, nodes: int, reason: str, now: datetime) -> Iterable[int]:
    for budget in pool.disruption.budgets:
        try:
            if concerns(budget, reason) and is_active(budget, now):
                yield limit(budget, nodes)
        except InvalidInputError:
            yield 0


def _pod_budgets(commands: Iterable[Command], snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    pods = {pod.key: pod for pod in snapshot.pods}
    moved = [pods[move.pod] for command in commands for move in command.moves if move.pod in pods]
    guards = DisruptionBudgets.of(snapshot)
    for budget in snapshot.budgets:
        number = sum(budget in guards.guards(pod) for pod in moved)
        if budget.disruptions_allowed is not None and number > budget.disruptions_allowed:
            yield POD_DISRUPTION_BUDGET, f"{budget.namespace}/{budget.name}"


def _protected(commands: Iterable[Command], snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    """Yield protected nodes and pods; drift may drain them if a terminationGracePeriod bounds the drain (Karpenter)."""
    claims = {claim.name: claim for claim in snapshot.node_claims}
    nodes = {node.name: node for node in snapshot.nodes}
    for command in commands:
        bounded = all(claims[name].termination_grace_period is not None for name in command.claims)
        if command.reason == TerminationReason.DRIFTED and bounded:
            continue
        for name in command.nodes:
            if name in nodes and nodes[name].blocks_disruption(snapshot.now):
                yield DO_NOT_DISRUPT, f"node {name}"
        for pod in snapshot.pods:
            if pod.node_name in command.nodes and pod.blocks_disruption(snapshot.now):
                yield DO_NOT_DISRUPT, f"pod {pod.key}"


# The rules of a simulation of a recorded period, and the totals of the period as simulated and as recorded.


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


TICK: Final = timedelta(minutes=5)
"""The shortest time between two decisions about nodes that go: about as long as a command takes.

A busy cluster has a snapshot every minute or two, and in each some node's `consolidateAfter` ends.
"""

TICKS_PER_PERIOD: Final = 252
"""How many ticks a long period has: those of a week last forty minutes, those of up to 21 hours `TICK`."""

TICKS_MAX: Final = 10_000
"""The most decisions between two recorded snapshots: more than a month has, at one in each `TICK`."""


def tick_of(period: timedelta) -> timedelta:
    """Return the shortest time between two decisions about nodes with pods in a simulation of so long a period."""
    return max(TICK, period / TICKS_PER_PERIOD)


class FleetSimulation:
    """One simulation. `see` each snapshot in order of time, the first of which has the initial fleet; then call `finish`."""

    def __init__(self, rules: SimulationRules, first: Snapshot, tick: timedelta = TICK) -> None:
        self._rules = rules
        self._tick = tick
        self._snapshot = rules.change(first)
        self._now = first.now
        self._fleet = SimulatedFleet(first)
        self._known = KnownParts()
        self._unplaced: tuple[str, ...] = ()
        self._looked_at: datetime | None = None
        self._is_due = self._has_next_wave = False
        self._budget_changes_at: datetime | None = None
        self._kept_empty: frozenset[str] = frozenset()
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
            never_placed=tuple(sorted(self._fleet.refused - self._fleet.placements.keys())),
            broken=tuple(self._broken),
        )

    def _advance_to(self, end: datetime) -> None:
        """Decide again between two snapshots whenever nodes may go without an event."""
        for _ in range(TICKS_MAX):
            following = self._next_tick()
            if following is None or following >= end:
                return
            self._step(following)

    def _next_tick(self) -> datetime | None:
        """Return when nodes may go next, None if never without an event: without consolidation nobody looks."""
        if self._looked_at is None or not self._fleet.claims:
            return None
        due = self._due_at(self._looked_at)
        if self._is_due:
            return due
        change = self._next_budget_change()
        moments = [moment for moment in self._quiet_at(self._fleet.claims).values() if moment > self._now]
        moments += [change] if change is not None else []
        return max(due, min(moments)) if moments else None

    def _due_at(self, looked_at: datetime) -> datetime:
        """Return when nodes may be decided on again: a tick after the last decision, or `TICK` where waiting costs money."""
        soon = looked_at + TICK
        if self._has_next_wave:
            return soon
        sooner = list(self._quiet_at(self._fleet.empty_nodes() - self._kept_empty).values())
        sooner += [self._budget_changes_at] if self._budget_changes_at is not None else []
        return min([looked_at + self._tick, *(max(soon, moment) for moment in sooner)])

    def _quiet_at(self, nodes: Collection[str]) -> dict[str, datetime]:
        """Return when `consolidateAfter` ends for those of these nodes whose pools consolidate."""
        quiet, waits = {}, {pool.name: pool.disruption.consolidate_after for pool in self._snapshot.node_pools}
        for name in sorted(nodes):
            claim = self._fleet.claims[name]
            wait, since = waits.get(claim.node_pool), claim.idle_since
            if wait is not None and since is not None:
                quiet[name] = since + wait
        return quiet

    def _next_budget_change(self) -> datetime | None:
        counts = Counter(claim.node_pool for claim in self._fleet.claims.values())
        pools = [pool for pool in self._snapshot.node_pools if counts[pool.name]]
        changes = [next_change(pool, counts[pool.name], self._now) for pool in pools]
        return min((change.at for change in changes if change is not None), default=None)

    def _step(self, now: datetime) -> None:
        self._charge(now)
        last = self._snapshot
        if now == last.now:
            self._fleet.meet(last)
        snapshot, planner = self._placed(last, now)
        if self._rules.consolidates and self._fleet.claims:
            self._is_due = self._looked_at is not None and now < self._due_at(self._looked_at)
            if not self._is_due:
                self._let_go(snapshot, planner or self._planner(snapshot))
        self._prices = self._fleet.prices(last, now)
        hourly = sum(price for _, price in self._prices.values())
        if not self._series or self._series[-1][1] != hourly:
            self._series.append((now, hourly))

    def _placed(self, recorded: Snapshot, now: datetime) -> tuple[Snapshot, Planner | None]:
        """Give waiting pods their places; return the fleet after that, and its planner if it was planned without any change."""
        only = self._rules.karpenter_moves_only
        snapshot = self._fleet.in_snapshot(recorded, now, karpenter_moves_only=only)
        self._unplaced = ()
        if not (snapshot.buffers or lacks_nodes(snapshot) or any(not pod.node_name for pod in snapshot.pods)):
            return snapshot, None
        planner = self._planner(snapshot)
        plan = planner.without_reasons().plan(proves=False)
        self._fleet.place(plan, snapshot)
        self._unplaced = tuple(refusal.pod for refusal in plan.unschedulable)
        self._fleet.refused.update(self._unplaced)
        if plan.claims or plan.bindings:
            return self._fleet.in_snapshot(recorded, now, karpenter_moves_only=only), None
        return snapshot, planner

    def _planner(self, snapshot: Snapshot) -> Planner:
        return Planner(snapshot, SchedulingContext(snapshot, known=self._known))

    def _let_go(self, snapshot: Snapshot, planner: Planner) -> None:
        """Decide which nodes go now, and carry that out."""
        decided = run(snapshot, planner)
        commands = startable(decided.commands)
        self._broken += broken_rules(commands, snapshot)
        self._fleet.carry_out(commands, decided.target, snapshot)
        self._looked_at, self._is_due = snapshot.now, bool(commands)
        self._has_next_wave = bool(commands) and self._fleet.has_target
        self._budget_changes_at = self._next_budget_change()
        empty = frozenset() if commands else self._fleet.empty_nodes()
        self._kept_empty = frozenset(name for name, at in self._quiet_at(empty).items() if at <= snapshot.now)

    def _charge(self, now: datetime) -> None:
        span = now - self._now
        for pool, price in self._prices.values():
            self._bill[pool] += price * (span // MICROSECOND)
        self._node_time += span * len(self._prices)
        self._now = now


def simulated_periods(
    snapshots: Iterable[Snapshot], rules: Sequence[SimulationRules], until: datetime, *, prices_recorded: bool = True
) -> tuple[RecordedPeriod, tuple[SimulatedPeriod, ...]]:
    """Simulate a fleet over the same snapshots, at least one and in order of time, under several rules.

    Without `prices_recorded`, the cost of the recorded fleet is 0.
    """
    simulations: list[FleetSimulation] = []
    first = last = None
    prices: MarketPrices | None = None
    hourly = cost = count = 0
    for snapshot in snapshots:
        first, count = first or snapshot.now, count + 1
        if last is None or prices is None:
            prices = MarketPrices(snapshot)
            tick = tick_of(until - snapshot.now)
            simulations = [FleetSimulation(rule, snapshot, tick) for rule in rules]
        else:
            cost += hourly * ((snapshot.now - last) // MICROSECOND)
            for simulation in simulations:
                simulation.see(snapshot)
        last, hourly = snapshot.now, prices.of_fleet(snapshot) if prices_recorded else 0
    if first is None or last is None:
        raise InvalidInputError("has no snapshot", subject="period")
    cost += hourly * ((until - last) // MICROSECOND)
    recorded = RecordedPeriod(since=first, until=until, snapshots=count, cost=cost // MICROSECONDS_PER_HOUR)
    return recorded, tuple(simulation.finish(until) for simulation in simulations)
