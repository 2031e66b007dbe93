"""Collects the nodes that a target decides about, all inputs of the decision, and the budgets of its waves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from core.disruption.budgets import allowed
from core.disruption.candidate import Candidate
from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass, expiring, leaving_later
from core.disruption.target.move_price import MovePrices
from core.model.plan import PlannedClaim, StoredTarget
from core.model.values import quantity
from core.packing.problem import Bools, Ints
from core.pod_disruption_budgets import BudgetKey
from core.pools import pool_types
from core.reasons.code import TerminationReason
from core.reasons.nodes import NodeReason
from core.scheduling.fleet_rows import DrainableNode, FleetRows
from core.scheduling.planner import Planner
from core.scheduling.replanning import Drains


@dataclass(frozen=True, slots=True, eq=False)
class TargetFleet:
    """The candidates and other inputs of a target; `[node]` follows the order of the candidates.

    Attributes:
        candidates: [node].
        rows: The fleet as arrays.
        planner: Planner for pods that topology rules hold to a zone.
        closed: Positions of nodes that stay and take no pods.
        waiting: Keys of pods that have no place today.
        waiting_price: Nano-dollars per hour of the new nodes that these pods and capacity buffers need if no candidate goes.
        has_buffers: Whether capacity buffers request room.
        held: [node], whether PodDisruptionBudgets let none of its pods be evicted for now; only nodes that the stored target
            drains may be held.
    """

    candidates: tuple[Candidate, ...]
    rows: FleetRows
    planner: Planner
    closed: frozenset[int]
    waiting: frozenset[str]
    waiting_price: int
    has_buffers: bool
    held: Bools

    @property
    def prices(self) -> Ints:
        """[node], nano-dollars per hour."""
        return self.rows.problem.prices

    @property
    def must_go(self) -> Bools:
        """[node], whether it has drifted."""
        return self.rows.problem.must_go

    def reason(self, node: int) -> str:
        """Return why a node goes."""
        return TerminationReason.DRIFTED if self.must_go[node] else TerminationReason.UNDERUTILIZED


def target_fleet(
    disruption_pass: DisruptionPass, stored: StoredTarget | None = None, *, besides: Collection[tuple[str, str]] = ()
) -> TargetFleet | None:
    """Return the nodes that consolidation may remove, and the drifted nodes that go with them; None where there are none.

    A node that `stored` drains is among them although PodDisruptionBudgets hold it for now, mostly since pods of the last wave
    are starting: it goes in a later wave (docs/engineering/handbook/fleet-target.md). Nodes that have drifted, expire soon or
    are empty take no pods even if they may not go now: they go later. Nodes to which commands of this pass move pods stay, so
    that no pod moves twice.

    With `besides`, (NodePool, reason) of the budgets for which the current target waits, nodes that would go for these and all
    nodes of a stored target are left as they are.
    """
    snapshot, survey = disruption_pass.snapshot, disruption_pass.survey
    reserved = _nodes_of(snapshot.stored_target) if besides else frozenset[str]()
    staying = {move.to for command in disruption_pass.commands for move in command.moves} | reserved
    open_ = [c for c in survey.candidates if c.name not in staying and (c.pool.name, _reason(c)) not in besides]
    drained = {drain.node for drain in stored.drains} if stored is not None else set()
    held = {c.name for c in open_ if c.name in drained and _is_held(c, disruption_pass)}
    chosen = [c for c in open_ if _may_go(c, disruption_pass, is_held=c.name in held)]
    if not chosen:
        return None
    context = disruption_pass.planner.context
    positions = context.positions
    chosen.sort(key=lambda candidate: positions[candidate.name])
    planner = disruption_pass.planner.pinned([candidate.name for candidate in chosen])
    leaving = {positions[name] for name in leaving_later(disruption_pass) | reserved.intersection(positions)}
    not_ready = {node.index for node in context.existing_nodes if not node.state.is_initialized}
    closed = frozenset(leaving | not_ready)
    prices = MovePrices(chosen, snapshot, expiring(disruption_pass))
    nodes = [DrainableNode(positions[c.name], c.price, prices.of(c), must_go=bool(c.drift)) for c in chosen]
    recently_changed = {node.index for node in context.existing_nodes if node.takes_no_moves}
    rows = FleetRows(planner.context, nodes, closed | recently_changed)
    waiting = frozenset(pod.pod for pod in disruption_pass.base_plan.unschedulable)
    return TargetFleet(
        candidates=tuple(chosen),
        rows=rows,
        planner=planner,
        closed=closed,
        waiting=waiting,
        waiting_price=_waiting_price(disruption_pass, planner, closed),
        has_buffers=bool(snapshot.buffers),
        held=np.array([candidate.name in held for candidate in chosen], dtype=bool),
    )


def _nodes_of(stored: StoredTarget | None) -> frozenset[str]:
    """Return the nodes that a target drains or has places on."""
    if stored is None:
        return frozenset()
    return frozenset(drain.node for drain in stored.drains) | frozenset(slot.node for slot in stored.slots)


def _waiting_price(disruption_pass: DisruptionPass, planner: Planner, closed: frozenset[int]) -> int:
    """Return the price of what waits if no candidate goes. Closed nodes have no room for it, as in every choice."""
    plan = disruption_pass.base_plan
    if not closed or not (plan.bindings or plan.claims or disruption_pass.snapshot.buffers):
        return plan.cost.hourly
    nothing = Drains(leaving=frozenset(), mandatory=frozenset(), closed=closed, slots={})
    return planner.drained(nothing).results.plan.cost.hourly


def _reason(candidate: Candidate) -> TerminationReason:
    return TerminationReason.DRIFTED if candidate.drift else TerminationReason.UNDERUTILIZED


def _is_held(candidate: Candidate, disruption_pass: DisruptionPass) -> bool:
    """Whether nothing but PodDisruptionBudgets that let its pods be evicted later keeps a node that a target drains."""
    if disruption_pass.is_free(candidate, _reason(candidate)):
        return False
    if any(why.reason != NodeReason.POD_DISRUPTION_BUDGET for why in candidate.protected):
        return False
    return not any(map(disruption_pass.budgets.pod_budgets.never_evicted, candidate.state.pods))


def _may_go(candidate: Candidate, disruption_pass: DisruptionPass, *, is_held: bool) -> bool:
    """Whether the node may go in some wave, ignoring budgets that are used up for now."""
    if candidate.pool.is_static:
        return False
    if candidate.drift:
        if not disruption_pass.goes_with_target(candidate):
            return False
        reason = TerminationReason.DRIFTED
    else:
        reason = TerminationReason.UNDERUTILIZED
        if candidate.is_empty or objection(candidate, disruption_pass) is not None:
            return False
    return (is_held or disruption_pass.is_free(candidate, reason)) and _is_open(candidate, reason, disruption_pass)


def _is_open(candidate: Candidate, reason: str, disruption_pass: DisruptionPass) -> bool:
    """Whether the NodePool's budgets let any node go for this reason at this time."""
    snapshot, pool = disruption_pass.snapshot, candidate.pool
    if snapshot.options.ignore_budgets:
        return True
    top = allowed(pool, disruption_pass.budgets.node_counts.get(pool.name, 0), reason, snapshot.now)
    return top is None or top > 0


def spot_is_gated(disruption_pass: DisruptionPass) -> bool:
    """Whether spot is not allowed to replace spot (docs/engineering/handbook/fleet-target.md)."""
    return not disruption_pass.snapshot.options.feature_gates.spot_to_spot_consolidation


# Limits one wave by budgets, PodDisruptionBudgets, evictions per hour, and the NodePool limits for new nodes.


class WaveBudgets:
    """Counters over the waves of one target.

    The first wave may use what remains of the budgets now, a later wave what they allow for the fleet of that time.

    With budgets ignored, they still divide the target into realistic waves, except budgets that let no node go.
    """

    def __init__(self, disruption_pass: DisruptionPass) -> None:
        self._pass = disruption_pass
        self._present = dict(disruption_pass.budgets.node_counts)
        self._pools = {pool.name: pool for pool in disruption_pass.snapshot.node_pools}
        self._capacity = self._used_capacity()
        self._wave = 0
        self._taken: Counter[str] = Counter()
        self._going: list[Candidate] = []
        self._evictions = disruption_pass.budgets.evictions_left()
        self._rate = disruption_pass.budgets.rate_left()
        self._shrink = disruption_pass.budgets.shrink_left()

    def begin(self) -> None:
        """Begin a wave: the pods of the previous one run again."""
        self._wave += 1
        self.begin_again()

    def begin_again(self) -> None:
        """Begin the same wave again, after all of its nodes were released."""
        self._taken.clear()
        self._rate = self._pass.budgets.rate_left()
        self._shrink = self._pass.budgets.shrink_left()
        self._evictions = self._pass.budgets.evictions_left(is_first=self._wave == 1)

    def admits(
        self, candidate: Candidate, reason: str, *, counts_nodes: bool = True, shares_evictions: bool = False
    ) -> bool:
        """Whether one more node may go in this wave; records a refusal if a ceiling on evictions or shrinking keeps it.

        `counts_nodes`: whether the NodePool's budgets limit the wave. `shares_evictions`: whether its pods may wait for a
        PodDisruptionBudget that others use up.
        """
        pool = candidate.pool.name
        top = self._top(pool, reason) if counts_nodes else None
        if (top is not None and self._taken[pool] >= top) or (not shares_evictions and self.spent(candidate)):
            return False
        refusal = self._rate.objection([candidate]) or self._shrink.objection([candidate])
        if refusal is not None:
            self._pass.refuse(candidate, refusal)
        return refusal is None

    def spent(self, candidate: Candidate) -> frozenset[BudgetKey]:
        """Return the PodDisruptionBudgets of a further node's pods that the wave uses up."""
        return self._evictions.spent(candidate.state.pods)

    def guarding(self, candidate: Candidate) -> frozenset[BudgetKey]:
        """Return the PodDisruptionBudgets that guard a node's pods."""
        return self._evictions.guarding(candidate.state.pods)

    def take(self, candidate: Candidate) -> None:
        """Count a node that leaves."""
        self._taken[candidate.pool.name] += 1
        self._evictions.take(candidate.state.pods)
        self._rate.take(candidate)
        self._shrink.take(candidate)
        self._going.append(candidate)

    def release(self, candidate: Candidate) -> None:
        """Undo the count of a node that stays after all; its pods count until the wave begins again."""
        self._taken[candidate.pool.name] -= 1
        self._going.remove(candidate)

    def has_room_for(self, claims: Iterable[PlannedClaim], beside: Candidate) -> bool:
        """Whether the NodePools' limits leave room for new nodes, counting the room that the leaving node `beside` frees.

        Room that other nodes of the wave free does not count: their commands may start later, or never.
        """
        wanted: Counter[tuple[str, str]] = Counter()
        for claim in claims:
            for name in self._pools[claim.node_pool].limits:
                wanted[claim.node_pool, name] += self._most(claim, name)
        for (pool, name), amount in sorted(wanted.items()):
            freed = 0
            if beside.pool.name == pool:
                freed = 1 if name == quantity.NODES else beside.state.capacity.get(name, 0)
            if self._capacity[pool, name] - freed + amount > self._pools[pool].limits[name]:
                return False
        return True

    def launch(self, claim: PlannedClaim) -> None:
        """Count a new node."""
        for name in self._pools[claim.node_pool].limits:
            self._capacity[claim.node_pool, name] += self._most(claim, name)
        self._present[claim.node_pool] = self._present.get(claim.node_pool, 0) + 1

    def cancel(self, claim: PlannedClaim) -> None:
        """Undo the count of a new node."""
        for name in self._pools[claim.node_pool].limits:
            self._capacity[claim.node_pool, name] -= self._most(claim, name)
        self._present[claim.node_pool] -= 1

    def end(self) -> None:
        """End the wave: its nodes have left."""
        for pool, count in self._taken.items():
            self._present[pool] -= count
        for candidate in self._going:
            for name, amount in candidate.state.capacity.items():
                self._capacity[candidate.pool.name, name] -= amount
            self._capacity[candidate.pool.name, quantity.NODES] -= 1
        self._going.clear()

    def _top(self, pool: str, reason: str) -> int | None:
        snapshot = self._pass.snapshot
        if self._wave == 1 and not snapshot.options.ignore_budgets:
            return self._pass.budgets.left(pool, reason)
        top = allowed(self._pools[pool], self._present.get(pool, 0), reason, snapshot.now)
        return None if top == 0 and snapshot.options.ignore_budgets else top

    def _most(self, claim: PlannedClaim, name: str) -> int:
        if name == quantity.NODES:
            return 1
        types = pool_types(self._pass.snapshot).of(claim.node_pool, claim.node_class.name)
        return max((t.capacity.get(name, 0) for t in types if t.name in claim.instance_types), default=0)

    def _used_capacity(self) -> Counter[tuple[str, str]]:
        used: Counter[tuple[str, str]] = Counter()
        for state in self._pass.states:
            if state.claim is None or state.is_marked_for_deletion(self._pass.snapshot):
                continue
            for name, amount in state.capacity.items():
                used[state.node_pool, name] += amount
            used[state.node_pool, quantity.NODES] += 1
        launched = {state.claim_name for state in self._pass.states}
        for claim in self._pass.snapshot.node_claims:
            if claim.name not in launched and claim.deleted_at is None:
                for name, amount in claim.resources.items():
                    used[claim.node_pool, name] += amount
                used[claim.node_pool, quantity.NODES] += 1
        return used
