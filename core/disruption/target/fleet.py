"""Collects the nodes that a target decides about, and all inputs of the decision."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from core.disruption.budgets import allowed
from core.disruption.candidate import Candidate
from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass, expiring, leaving_later
from core.disruption.target.move_price import MovePrices
from core.model.plan import StoredTarget
from core.packing.problem import Bools, Ints
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
    held = {c.name for c in open_ if stored is not None and _is_held(c, stored, disruption_pass)}
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
    recently_changed = {node.index for node in context.existing_nodes if node.is_recently_changed}
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


def _is_held(candidate: Candidate, stored: StoredTarget, disruption_pass: DisruptionPass) -> bool:
    """Whether nothing but PodDisruptionBudgets that let its pods be evicted later keeps a node of the stored target."""
    if disruption_pass.is_free(candidate, _reason(candidate)) or all(
        drain.node != candidate.name for drain in stored.drains
    ):
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
