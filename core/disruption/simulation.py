"""Simulates how pods are placed if some nodes go: the check behind every command except the removal of empty nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from core.disruption.candidates.candidate import Candidate
from core.model.plan import Move, PlannedClaim, StoredNewNode
from core.model.snapshot import Snapshot
from core.scheduling.plan_output import SchedulingResults
from core.scheduling.planner import Planner
from core.scheduling.replanning.greedy_plans import Drains


class Simulation(msgspec.Struct, frozen=True):
    """The result of a simulation.

    Attributes:
        claims: New nodes that pods of the leaving nodes need.
        moves: Where each of those pods goes, by pod.
        stranded: Why a pod would find no place, empty if all do. Pods without a place today do not count.
        unplaced: Keys of all pods that would find no place.
        displaces: Whether pods that are already waiting would now need more expensive new nodes than without the move.
        taken: Names of nodes on which another pod without a node was expected, which would now go elsewhere.
    """

    claims: tuple[PlannedClaim, ...]
    moves: tuple[Move, ...]
    stranded: str
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
    ) -> Simulation:
        """Plan for the pods of the leaving nodes together with all pending pods.

        Args:
            leaving: The nodes that go.
            consolidation: Whether to avoid nodes whose pods changed within `consolidateAfter`.
            closed: Names of nodes that stay and take no pods.
            planned_moves: Pod → intended node, which it gets if every rule still allows it.
            new_nodes: The new nodes among these. A pod whose new node is launched in other domains must have a place there.
        """
        names = [candidate.name for candidate in leaving]
        results = (
            self._planned(leaving, planned_moves, new_nodes, closed, consolidation=consolidation)
            if planned_moves
            else self._planner.what_if(
                names, consolidation=consolidation, closed=closed, unexplained=self._unschedulable
            )
        )
        plan, own = results.plan, set(results.displaced)
        claims = tuple(claim for claim in plan.claims if own.intersection(claim.pods))
        others = sum(claim.price for claim in plan.claims if not own.intersection(claim.pods))
        moves = [Move(binding.pod, binding.node) for binding in plan.bindings if binding.pod in own]
        moves += [Move(pod, claim.name) for claim in claims for pod in claim.pods if pod in own]
        unplaced = {pod.pod for pod in plan.unschedulable if pod.pod not in self._unschedulable}.union(
            results.on_uninitialized
        )
        return Simulation(
            claims,
            tuple(sorted(moves)),
            self._stranded(results),
            frozenset(unplaced),
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

    def _stranded(self, results: SchedulingResults) -> str:
        for pod in results.plan.unschedulable:
            if pod.pod not in self._unschedulable:
                return f"pod {pod.pod} would find no place{pod.message and ': '}{pod.message}"
        for key in results.on_uninitialized:
            return f"pod {key} would have to wait for a node that is not initialized"
        return ""


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
        found: list[PlannedClaim] = []
        for claim in claims:
            name = self.new(claim.node_pool, {one.name for one in found})
            found.append(msgspec.structs.replace(claim, name=name))
        return tuple(found)
