"""State of one disruption pass: the snapshot after the commands decided so far, and what may still go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from core import labels
from core.disruption.budgets.pass_budgets import PassBudgets
from core.disruption.candidates.balanced_policy import PoolTotals, pool_totals
from core.disruption.candidates.candidate import Candidate, Survey, survey
from core.disruption.commands.apply_command import carried_out
from core.disruption.commands.merging import Merger
from core.disruption.conditions.ending_reservations import EndingReservations, ending_reservations
from core.disruption.fleet_cost import fleet_price
from core.disruption.simulation import ReplacementNames, Simulation, Simulator
from core.model.plan import Blocked, Command, Move, Plan, PlannedClaim, StoredTarget
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.reasons.code import ReasonCode
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from core.scheduling.planner import Planner
from core.scheduling.pods.default_topology_spread import DefaultSpreads

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
        self.refusals: dict[str, Blocked] = {}
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

    def passes_rollout(self, candidate: Candidate, found: Sequence[Command] = ()) -> bool:
        """Whether the NodePool's rollout lets one more drifted node go after the decided commands and `found`; else refuse it.

        Rollouts do not limit nodes without pods: removing them harms no workload.
        """
        gate = self.snapshot.rollouts.get(candidate.pool.name)
        if gate is None or not candidate.pods:
            return True
        gone = (
            c for c in (*self.commands, *found) if c.reason == TerminationReason.DRIFTED and (c.moves or c.replacements)
        )
        if sum(self._pool_of.get(name) == candidate.pool.name for c in gone for name in c.nodes) < gate.allowed:
            return True
        reason = NodeReason.ROLLOUT_STOPPED if gate.is_stopped else NodeReason.ROLLOUT_CANARY
        self.refuse(candidate, reason, gate.message)
        return False

    def replaced(
        self, candidate: Candidate, reason: str, method: str, *, closed: Collection[str] = ()
    ) -> Replaced | None:
        """Return the command that replaces one node at any cost, or None and record a refusal if a pod finds no place.

        `closed` nodes take the pods only if no other node can.
        """
        simulation = self.simulate([candidate], consolidation=False, closed=closed)
        if simulation.stranded and closed:
            simulation = self.simulate([candidate], consolidation=False)
        if simulation.stranded:
            self.refuse(candidate, NodeReason.PODS_UNSCHEDULABLE, simulation.stranded)
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
        """
        self._simulations += 1
        found = self._simulator_below(below).simulate(
            candidates, consolidation=consolidation, closed=closed, planned_moves=planned_moves, new_nodes=new_nodes
        )
        if found.stranded and not consolidation and self.ending.take_nodes:
            self._at_any_cost = self._at_any_cost or Simulator(Planner(self.ending.allowed(self.snapshot)))
            found = self._at_any_cost.simulate(
                candidates, consolidation=False, closed=closed, planned_moves=planned_moves, new_nodes=new_nodes
            )
        return self.names.renamed(found)

    def refuse(self, candidate: Candidate, reason: ReasonCode, message: str, savings: int = 0) -> None:
        """Record why a candidate does not go now, and what it saves if it goes later; the latest reason counts."""
        self.refusals[candidate.name] = Blocked(candidate.name, reason, message, savings)

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
        going = {c.name: c for c in self.survey.candidates}
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
        going = {c.name: c for c in self.survey.candidates}
        gone = {name: command.reason for command in commands for name in command.nodes}
        for name in sorted(gone):
            self.budgets.take(going[name], gone[name])
            self.refusals.pop(name, None)
        self._adopted_savings += sum(command.savings for command in commands)
        self.commands = [*self.commands, *commands]
        left = tuple(c for c in self.survey.candidates if c.name not in gone)
        self.survey = msgspec.structs.replace(self.survey, candidates=left)

    @property
    def price_after(self) -> int:
        """Price of the fleet after all commands, in nano-dollars per hour."""
        return fleet_price(self.snapshot) - self._adopted_savings

    @property
    def buffer_nodes(self) -> frozenset[str]:
        """Nodes whose free room a capacity buffer uses: they do not count as empty and have no other protection (Karpenter)."""
        return frozenset(self._simulators[None].base.buffer_nodes)

    def _simulator_below(self, price: int | None) -> Simulator:
        if price not in self._simulators:
            self._simulators[price] = self._simulators[None].below(price or 0)
        return self._simulators[price]

    def _survey(self, nominated: dict[str, str]) -> Survey:
        return survey(self.snapshot, self._states, self.budgets.pod_budgets, nominated)

    def _nominated(self) -> dict[str, str]:
        """Nodes on which pods are expected: by an earlier decision, or because a pending pod goes there now."""
        base = self._simulators[None].base
        found = {claim.name: "what it was launched for" for command in self.commands for claim in command.replacements}
        found |= {binding.node: f"pod {binding.pod}" for binding in reversed(base.plan.bindings)}
        for name, until in sorted(self.snapshot.nominated_until.items()):
            if until > self.snapshot.now:
                found.setdefault(name, "a pod")
        return found
