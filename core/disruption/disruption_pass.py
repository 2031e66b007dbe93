"""State of one disruption pass: the snapshot after the commands decided so far, and what may still go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from core import labels
from core.calendars import closed_pools
from core.commitments import paid_price
from core.disruption.candidate import Candidate, PoolTotals, Survey, pool_totals, survey
from core.disruption.command import Merger, carried_out
from core.disruption.expiration import EndingReservations, ending_reservations, expires_soon
from core.disruption.move_history import gate_reason
from core.disruption.pass_budgets import PassBudgets
from core.model.plan import Command, Move, Plan, PlannedClaim, StoredNewNode, StoredTarget
from core.model.pod import MEMBERS_COME_WITHIN
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.reasons.code import Refusal, Stated, TerminationReason
from core.reasons.nodes import PodOnUninitialized, PodUnplaced
from core.scheduling.planner import Planner
from core.scheduling.pods import DefaultSpreads
from core.scheduling.replanning import Drains
from core.scheduling.results import SchedulingResults

# Sums the price of all our nodes.


def fleet_price(snapshot: Snapshot) -> int:
    """Return the cost of all nodes with a NodeClaim less commitments, in nano-dollars per hour; unknown types count 0."""
    return sum(paid_price(state, snapshot) for state in state_nodes(snapshot) if state.is_managed)


# Simulates how pods are placed if some nodes go: the check behind every command except the removal of empty nodes.


class Simulation(msgspec.Struct, frozen=True):
    """The result of a simulation.

    Attributes:
        claims: New nodes that pods of the leaving nodes need.
        moves: Where each of those pods goes, by pod.
        stranded: Why a pod would find no place, None if all do. Pods without a place today do not count.
        unplaced: Keys of all pods that would find no place.
        displaces: Whether pods that are already waiting would now need more expensive new nodes than without the move.
        taken: Names of nodes on which another pod without a node was expected, which would now go elsewhere.
    """

    claims: tuple[PlannedClaim, ...]
    moves: tuple[Move, ...]
    stranded: Refusal | None
    unplaced: frozenset[str]
    displaces: bool
    taken: frozenset[str] = frozenset()


class Simulator:
    """Runs simulations on one snapshot; `base` is the plan if no node goes."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.base: SchedulingResults = planner.without_reasons().results()
        self._expected = frozenset((binding.pod, binding.node) for binding in self.base.plan.bindings)
        self._waiting_price = self.base.plan.cost.hourly
        self._unschedulable = {pod.pod for pod in self.base.plan.unschedulable}

    def below(self, price: int) -> Simulator:
        """Return the same simulator with new nodes restricted to types that cost less than `price`."""
        return Simulator(self._planner.below(price))

    def simulate(
        self,
        leaving: Collection[Candidate],
        *,
        consolidation: bool,
        closed: Collection[str] = (),
        planned_moves: Collection[Move] = (),
        new_nodes: Collection[PlannedClaim] = (),
        with_blocked: bool = False,
    ) -> Simulation:
        """Plan for the pods of the leaving nodes together with all pending pods.

        Args:
            leaving: The nodes that go.
            consolidation: Whether to avoid nodes whose pods changed within `consolidateAfter`.
            closed: Names of nodes that stay and take no pods.
            planned_moves: Pod → intended node, which it gets if every rule still allows it.
            new_nodes: The new nodes among these. A pod whose new node is launched in other domains must have a place there.
            with_blocked: Whether pods that may not be evicted now need a place as well.
        """
        results = (
            self._planned(leaving, planned_moves, new_nodes, closed, consolidation=consolidation)
            if planned_moves
            else self._planner.what_if(
                [candidate.name for candidate in leaving],
                consolidation=consolidation,
                closed=closed,
                unexplained=self._unschedulable,
                with_blocked=with_blocked,
            )
        )
        plan = results.plan
        claims, moves = _of_displaced(results)
        others = sum(claim.price for claim in plan.claims) - sum(claim.price for claim in claims)
        unplaced = {pod.pod for pod in plan.unschedulable} - set(self._unschedulable)
        return Simulation(
            claims,
            moves,
            self._stranded(results),
            frozenset(unplaced.union(results.on_uninitialized)),
            displaces=others > self._waiting_price,
            taken=frozenset(node for _, node in self._expected.difference((b.pod, b.node) for b in plan.bindings)),
        )

    def _planned(
        self,
        leaving: Collection[Candidate],
        planned_moves: Collection[Move],
        new_nodes: Collection[PlannedClaim],
        closed: Collection[str],
        *,
        consolidation: bool,
    ) -> SchedulingResults:
        positions = self._planner.context.positions
        pods = {pod.key: pod for candidate in leaving for pod in candidate.state.pods}
        to = {m.pod: positions[m.to] for m in sorted(planned_moves) if m.pod in pods and m.to in positions}
        claims = {claim.name: claim for claim in new_nodes}
        on_new = {move.pod: claims[move.to] for move in planned_moves if move.to in claims}
        planner = self._planner.pinned([candidate.name for candidate in leaving], to, on_new)
        context, slots = planner.context, dict[int, list[tuple[int, int]]]()
        for pod, position in to.items():
            slots.setdefault(int(context.pod_groups.of(pods[pod]).index), []).append((position, 1))
        going = frozenset(context.positions[candidate.name] for candidate in leaving)
        return planner.drained(
            Drains(
                leaving=going if consolidation else frozenset(),
                mandatory=frozenset() if consolidation else going,
                closed=frozenset(context.positions[name] for name in closed),
                slots=slots,
            )
        ).results

    def _stranded(self, results: SchedulingResults) -> Refusal | None:
        for pod in results.plan.unschedulable:
            if pod.pod not in self._unschedulable:
                return PodUnplaced(pod.pod, pod.message)
        for key in results.on_uninitialized:
            return PodOnUninitialized(key)
        return None


def _of_displaced(results: SchedulingResults) -> tuple[tuple[PlannedClaim, ...], tuple[Move, ...]]:
    """Return the new nodes that take pods of leaving nodes, and where each of these pods goes, by pod."""
    plan, displaced = results.plan, set(results.displaced)
    claims = tuple(claim for claim in plan.claims if displaced.intersection(claim.pods))
    moves = [Move(binding.pod, binding.node) for binding in plan.bindings if binding.pod in displaced]
    moves += [Move(pod, claim.name) for claim in claims for pod in claim.pods if pod in displaced]
    return claims, tuple(sorted(moves))


class ReplacementNames:
    """Generates names for replacements, unique over the commands of a pass: `<pool>-<n>` in the order of decision."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._taken = {claim.name for claim in snapshot.node_claims} | {node.name for node in snapshot.nodes}

    def take(self, claims: Iterable[PlannedClaim | StoredNewNode]) -> None:
        """Reserve the names of these claims."""
        self._taken.update(claim.name for claim in claims)

    def new(self, pool: str, besides: Collection[str] = ()) -> str:
        """Return the next free name; `besides` are not free either."""
        number = 0
        while (name := f"{pool}-{number}") in self._taken or name in besides:
            number += 1
        return name

    def renamed(self, simulation: Simulation) -> Simulation:
        """Return the same simulation with new names for its claims."""
        names: dict[str, str] = {}
        for claim in simulation.claims:
            names[claim.name] = self.new(claim.node_pool, names.values())
        claims = tuple(msgspec.structs.replace(claim, name=names[claim.name]) for claim in simulation.claims)
        # Keyed by pod, not by node: a node that an earlier command launches may have the name that the planner gave
        # a claim.
        slots = {pod: claim.name for claim in claims for pod in claim.pods}
        moves = tuple(msgspec.structs.replace(m, to=slots.get(m.pod, m.to)) for m in simulation.moves)
        return msgspec.structs.replace(simulation, claims=claims, moves=moves)

    def named(self, claim: PlannedClaim) -> PlannedClaim:
        """Return the replacement with a name that no node and no earlier replacement has."""
        return msgspec.structs.replace(claim, name=self.new(claim.node_pool))

    def named_apart(self, claims: Iterable[PlannedClaim]) -> tuple[PlannedClaim, ...]:
        """Return the replacements, each with a name that no node and no other replacement has."""
        named: list[PlannedClaim] = []
        for claim in claims:
            name = self.new(claim.node_pool, {other.name for other in named})
            named.append(msgspec.structs.replace(claim, name=name))
        return tuple(named)


SIMULATIONS_MAX: Final = 2000
"""The most simulations of one pass; nodes that it does not reach wait for the next."""


class Replaced(msgspec.Struct, frozen=True):
    """A command for one node.

    Attributes:
        command: The command.
        takes_place: Whether its pods take the place of one that has no node yet and would go elsewhere then.
    """

    command: Command
    takes_place: bool


class DisruptionPass:
    """The state that methods read and write: candidates, budgets, simulations, refusals. `carry_out` adds commands."""

    def __init__(
        self,
        snapshot: Snapshot,
        planner: Planner | None = None,
        deadline: Callable[[], float] | None = None,
        *,
        bounds_all: bool = False,
    ) -> None:
        """Begin a pass.

        `bounds_all`: the pass serves a bound on every decision, including those at any cost, which may launch into capacity
        reservations that end soon.
        """
        keeps_all = bounds_all or snapshot.options.karpenter_moves_only
        self.ending = EndingReservations(snapshot, frozenset() if keeps_all else ending_reservations(snapshot))
        if self.ending.take_nodes:
            snapshot, planner = self.ending.avoided(snapshot), None
        self.snapshot = snapshot
        self._deadline = deadline
        self.commands: list[Command] = []
        self.refusals: dict[str, Refusal] = {}
        self.later_savings: dict[str, int] = {}
        # Apart: what keeps a node from repair does not keep it from drift.
        self.repair_refusals: dict[str, Refusal] = {}
        self.target: StoredTarget | None = None
        self.target_reason = ""
        self.planner = planner or Planner(snapshot)
        self._states = self.planner.context.states
        self._pool_of = {state.name: state.node_pool for state in self._states}
        self.budgets = PassBudgets(snapshot, self._states, self.planner.context.budgets)
        self._simulations = 0
        self._adopted_savings = 0
        self.names = ReplacementNames(snapshot)
        self.default_spreads = DefaultSpreads(snapshot)
        self._merger = Merger(snapshot, self.default_spreads)
        self._simulators: dict[int | None, Simulator] = {None: Simulator(self.planner)}
        self._at_any_cost: Simulator | None = None
        self.survey: Survey = self._survey(self._nominated())
        self.totals: dict[str, PoolTotals] = pool_totals(snapshot, self._states)

    @property
    def is_exhausted(self) -> bool:
        """Whether the bound on simulations is reached, or time is over."""
        is_late = self._deadline is not None and self._deadline() >= 1
        return is_late or self._simulations >= SIMULATIONS_MAX

    def candidates(self, reason: str) -> list[Candidate]:
        """Return, by name, the nodes that pods, budgets and commands in progress allow to go for this reason.

        The method filters by its own criteria: emptiness, policy, drift.
        """
        return [c for c in self.survey.candidates if self.is_free(c, reason) and self.budgets.allow([c], reason)]

    def is_free(self, candidate: Candidate, reason: str) -> bool:
        """Whether the candidate's pods let it go for this reason."""
        if reason == TerminationReason.UNHEALTHY:
            return True  # the drain of a repair is bounded
        return candidate.may_drift if reason == TerminationReason.DRIFTED else not candidate.protected

    @property
    def states(self) -> tuple[StateNode, ...]:
        """Every node, after the commands decided so far."""
        return self._states

    @property
    def base_plan(self) -> Plan:
        """The plan without further disruption."""
        return self._simulators[None].base.plan

    def goes_with_target(self, candidate: Candidate) -> bool:
        """Whether the target decides about a drifted node, together with all others, so that no pod moves twice.

        With budgets ignored, it decides about every drifted node. Otherwise, drift itself decides about three kinds: nodes
        without pods, which go at once; nodes of a NodePool whose rollout has not proved its first new node; and nodes in a
        capacity reservation, which may have to go before their replacement can launch.
        """
        options = self.snapshot.options
        if options.karpenter_moves_only:
            return False
        is_proven = candidate.pool.name not in self.snapshot.rollouts
        is_alone = not candidate.pods or candidate.capacity_type == labels.RESERVED
        return options.ignore_budgets or (is_proven and not is_alone)

    def passes_rollout(self, candidate: Candidate, further: Sequence[Command] = ()) -> bool:
        """Whether the NodePool's rollout lets another drifted node go after the decided and `further` commands; else refuse it.

        Rollouts do not limit nodes without pods: removing them harms no workload.
        """
        gate = self.snapshot.rollouts.get(candidate.pool.name)
        if gate is None or not candidate.pods:
            return True
        gone = (
            c
            for c in (*self.commands, *further)
            if c.reason == TerminationReason.DRIFTED and (c.moves or c.replacements)
        )
        if sum(self._pool_of.get(name) == candidate.pool.name for c in gone for name in c.nodes) < gate.allowed:
            return True
        self.refuse(candidate, Stated(gate_reason(gate), gate.message))
        return False

    def replaced(
        self, candidate: Candidate, reason: str, method: str, *, closed: Collection[str] = ()
    ) -> Replaced | None:
        """Return the command that replaces one node at any cost, or None and record a refusal if a pod finds no place.

        `closed` nodes take the pods only if no other node can.
        """
        with_blocked = reason == TerminationReason.UNHEALTHY
        simulation = self.simulate([candidate], consolidation=False, closed=closed, with_blocked=with_blocked)
        if simulation.stranded and closed:
            simulation = self.simulate([candidate], consolidation=False, with_blocked=with_blocked)
        if simulation.stranded:
            self.refuse(candidate, simulation.stranded)
            return None
        command = Command(
            reason=reason,
            method=method,
            nodes=(candidate.name,),
            claims=(candidate.claim.name,),
            replacements=simulation.claims,
            moves=simulation.moves,
            savings=candidate.price - sum(claim.price for claim in simulation.claims),
        )
        return Replaced(command, takes_place=any(move.to in simulation.taken for move in simulation.moves))

    def simulate(
        self,
        candidates: Collection[Candidate],
        *,
        consolidation: bool,
        below: int | None = None,
        closed: Collection[str] = (),
        planned_moves: Collection[Move] = (),
        new_nodes: Collection[PlannedClaim] = (),
        with_blocked: bool = False,
    ) -> Simulation:
        """Simulate where the pods of these nodes would go.

        Args:
            candidates: The nodes that go.
            consolidation: Whether the nodes go by choice. If so, their pods avoid nodes that consolidateAfter still protects,
                and no node is launched for them into a capacity reservation that ends soon. If not, such a node is launched
                where pods have no other place.
            below: Plan new nodes only with types cheaper than this (nano-dollars per hour).
            closed: Names of nodes that stay and take no pods.
            planned_moves: Pod → intended node.
            new_nodes: The new nodes among these.
            with_blocked: Whether pods that may not be evicted now need a place as well.
        """
        self._simulations += 1
        simulated = partial(
            Simulator.simulate,
            leaving=candidates,
            consolidation=consolidation,
            closed=closed,
            planned_moves=planned_moves,
            new_nodes=new_nodes,
            with_blocked=with_blocked,
        )
        simulation = simulated(self._simulator_below(below))
        if simulation.stranded and not consolidation and self.ending.take_nodes:
            self._at_any_cost = self._at_any_cost or Simulator(Planner(self.ending.allowed(self.snapshot)))
            simulation = simulated(self._at_any_cost)
        return self.names.renamed(simulation)

    def refuse(self, candidate: Candidate, why: Refusal, savings: int = 0) -> None:
        """Record why a candidate does not go now, and what it saves if it goes later; the latest reason counts."""
        self.refusals[candidate.name], self.later_savings[candidate.name] = why, savings

    def refuse_repair(self, candidate: Candidate, why: Refusal) -> None:
        """Record why an unhealthy candidate is not repaired."""
        self.refusals.pop(candidate.name, None)
        self.repair_refusals[candidate.name] = why

    def carry_out(self, commands: Iterable[Command]) -> None:
        """Add the commands to the decision: count their nodes, and apply them to the snapshot in memory.

        No command moves pods to nodes of another.
        """
        commands = tuple(commands)
        self.count(commands)
        if commands:
            self.rebuild(commands)

    def count(self, commands: Iterable[Command]) -> None:
        """Count the commands' nodes against the budgets."""
        going = self.survey.by_name
        for command in commands:
            for name in command.nodes:
                self.budgets.take(going[name], command.reason)
                self.refusals.pop(name, None)
            self.names.take(command.replacements)
            self.commands = self._merger.added(self.commands, command)

    def rebuild(self, commands: Sequence[Command]) -> None:
        """Apply these commands, which are already counted, to the snapshot in memory."""
        self.snapshot = self.ending.avoided(carried_out(self.ending.allowed(self.snapshot), *commands))
        self.planner = Planner(self.snapshot)
        self._states = self.planner.context.states
        self._simulators, self._at_any_cost = {None: Simulator(self.planner)}, None
        self.survey = self._survey(self._nominated())
        self.totals = pool_totals(self.snapshot, self._states)

    def adopt(self, commands: Sequence[Command]) -> None:
        """Add the last commands of the pass, which are independent of each other."""
        going = self.survey.by_name
        gone = {name: command.reason for command in commands for name in command.nodes}
        for name in sorted(gone):
            self.budgets.take(going[name], gone[name])
            self.refusals.pop(name, None)
        self._adopted_savings += sum(command.savings for command in commands)
        self.commands = [*self.commands, *commands]
        remaining = tuple(c for c in self.survey.candidates if c.name not in gone)
        self.survey = msgspec.structs.replace(self.survey, candidates=remaining)

    def commands_of(self, pool: str) -> list[Command]:
        """Return the commands that take a node of this NodePool."""
        return [c for c in self.commands if any(self._pool_of.get(name) == pool for name in c.nodes)]

    @property
    def price_after(self) -> int:
        """Price of the fleet after all commands, in nano-dollars per hour."""
        return fleet_price(self.snapshot) - self._adopted_savings

    @property
    def buffer_nodes(self) -> frozenset[str]:
        """Nodes whose free room a capacity buffer uses: they do not count as empty and have no other protection (Karpenter)."""
        return frozenset(self._simulators[None].base.buffer_nodes)

    def is_half_bought(self, candidate: Candidate) -> bool:
        """Whether the node is empty, was bought for a group and is of no use to it.

        It has no room for its other part, and uses none of its nodes without that; or members are missing for longer than a
        controller takes to create one again; or it is gone, and no pod came here in time.
        """
        claim, now = candidate.claim, self.snapshot.now
        name = claim.annotations.get(labels.GROUP_OF_CLAIM)
        if name is None or not candidate.is_empty or candidate.pool.is_static:
            return False
        group = next((group for group in self._simulators[None].base.plan.groups if group.identity == name), None)
        if group is not None and group.reason and name in self._changing_groups:
            return claim.unneeded_at is not None and now - claim.unneeded_at >= MEMBERS_COME_WITHIN
        if group is not None:
            return bool(group.reason)
        is_new = claim.idle_since is None or now - claim.idle_since < MEMBERS_COME_WITHIN
        return claim.last_pod_event_at is None and not is_new

    @property
    def _changing_groups(self) -> frozenset[str]:
        """The groups that wait for members or for a correction, which may come at any moment."""
        return frozenset(gang.identity for gang in self.planner.context.gangs if gang.refusal is not None)

    def _simulator_below(self, price: int | None) -> Simulator:
        if price not in self._simulators:
            self._simulators[price] = self._simulators[None].below(price or 0)
        return self._simulators[price]

    def _survey(self, nominated: dict[str, str]) -> Survey:
        return survey(self.snapshot, self._states, self.budgets.pod_budgets, nominated)

    def _nominated(self) -> dict[str, str]:
        """Nodes on which pods are expected: by an earlier decision, or because a pending pod goes there now."""
        base = self._simulators[None].base
        nominated = {
            claim.name: "what it was launched for" for command in self.commands for claim in command.replacements
        }
        nominated |= {node: f"pod {pod}, which does not exist yet," for node, pod in base.awaited.items()}
        nominated |= {binding.node: f"pod {binding.pod}" for binding in reversed(base.plan.bindings)}
        for name, until in sorted(self.snapshot.nominated_until.items()):
            if until > self.snapshot.now:
                nominated.setdefault(name, "a pod")
        return nominated


# Nodes of a disruption pass that will leave soon, to which pods are not moved: they would soon move again.


def short_lived(disruption_pass: DisruptionPass) -> frozenset[str]:
    """Return the names of nodes that have drifted, expire soon, or are in a closed NodePool or an ending reservation.

    A drifted node counts even if something keeps it for now.
    """
    ending = disruption_pass.ending.nodes(disruption_pass.states)
    closed = closed_pools(disruption_pass.snapshot)
    positions = disruption_pass.planner.context.positions
    closing = frozenset(s.name for s in disruption_pass.states if s.node_pool in closed and s.name in positions)
    return disruption_pass.survey.drifted | expiring(disruption_pass) | ending | closing


def expiring(disruption_pass: DisruptionPass) -> frozenset[str]:
    """Return the names of nodes that expire soon, whether or not disruption may touch them; none under Karpenter's policy."""
    snapshot = disruption_pass.snapshot
    if snapshot.options.karpenter_moves_only:
        return frozenset()
    positions = disruption_pass.planner.context.positions
    claims = ((state.name, state.claim) for state in disruption_pass.states if state.name in positions)
    return frozenset(name for name, claim in claims if claim is not None and expires_soon(claim, snapshot.now))


def leaving_later(disruption_pass: DisruptionPass) -> frozenset[str]:
    """Return the names of nodes to which a target moves no pods: short-lived ones, and empty ones that budgets let go.

    An empty node whose room a capacity buffer uses stays (`methods.emptiness`).
    """
    now, remaining = disruption_pass.snapshot.now, disruption_pass.budgets.remaining
    kept = disruption_pass.buffer_nodes
    return short_lived(disruption_pass) | {
        candidate.name
        for candidate in disruption_pass.survey.candidates
        if candidate.is_empty
        and candidate.name not in kept
        and not candidate.pool.is_static
        and (candidate.is_consolidatable(now) or disruption_pass.is_half_bought(candidate))
        and remaining.get(candidate.pool.name, {}).get(TerminationReason.EMPTY) != 0
    }
