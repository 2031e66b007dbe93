"""A subproblem: the claims of one scope as a packing problem, and its solution as claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from core import labels
from core.errors import invariant
from core.packing.heuristics.separate_machines import separate_cost, separate_packing
from core.packing.problem import Ints, MachineTypeIndex, Packing, PackingProblem, joined
from core.packing.relaxation.launch_flexibility import DistinctValues, with_distinct_values
from core.packing.relaxation.preparation import PreparedProblem, prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import RepackSettings, SearchSettings
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.claims.item_assignment import AssignedMachine, ItemAssignment
from core.scheduling.optimization.items.item_extraction import RepackScope
from core.scheduling.optimization.items.item_groups import INTERDEPENDENT, ItemGroup, ItemGrouping, LaunchOption
from core.scheduling.optimization.items.packing_item import MovablePods, PackingItem
from core.scheduling.optimization.subproblems.packing_columns import problem_and_types


class Subproblem:
    """Pods of one scope to be packed together.

    Attributes:
        counts: How many packing items each item group has.
        zone: The zone that all items are packed in; empty for any.
        models_hostnames: Whether hostname groups are resources of machines.
    """

    def __init__(
        self,
        context: SchedulingContext,
        scope: RepackScope,
        nodes: Sequence[Sequence[MovablePods]],
        *,
        settings: RepackSettings,
        zone: str = "",
    ) -> None:
        """Take the items of each node; with a zone, all of them are to be packed there."""
        self.zone = zone
        self._context = context
        self._scope = scope
        self._settings = settings
        self._movable = [movable for of_node in nodes for movable in of_node]
        counts = Counter([movable.item for movable in self._movable])
        grouping = ItemGrouping(counts, settings)
        self._hostname_capacity = grouping.hostname_capacity
        self.models_hostnames = bool(grouping.hostname_capacity.keys() - {INTERDEPENDENT})
        group_of = {item: grouping.of(item, self._option(item, zone)) for item in counts}
        self._members: dict[ItemGroup, dict[PackingItem, int]] = {}
        for item, count in counts.items():
            self._members.setdefault(group_of[item], {})[item] = count
        self.counts = {group: sum(items.values()) for group, items in self._members.items()}
        self._loads: list[Mapping[ItemGroup, int]] = [
            self.counts if len(nodes) == 1 else Counter([group_of[movable.item] for movable in of_node])
            for of_node in nodes
        ]
        self._problem: PackingProblem | None = None
        self._prepared: PreparedProblem | None = None

    def _option(self, item: PackingItem, zone: str) -> LaunchOption:
        reqs = self._context.table.with_value(item.reqs, labels.ZONE, zone) if zone else item.reqs
        return LaunchOption(self._scope.template.index, reqs, item.allowed)

    def problem(self) -> PackingProblem:
        """The packing problem: one item per item group, the NodePool's instance types at each price as machine types.

        With minValues, a type's capacity is reduced until enough types with different values have it too.
        """
        if self._problem is None:
            self._problem = self._packing_problem()
        return self._problem

    def _packing_problem(self) -> PackingProblem:
        problem, types = problem_and_types(
            self._context.templates, counts=self.counts, hostname_capacity=self._hostname_capacity
        )
        min_values = self._scope.template.min_values
        return with_distinct_values(problem, self._distinct_values(types)) if min_values else problem

    def prepared(self, settings: SearchSettings, budget: SearchBudget) -> PreparedProblem:
        """Return the packing problem with its relaxation. A further search, with the same settings, gets the first one's."""
        if self._prepared is None:
            self._prepared = prepared_with_flexibility(self.problem(), settings, budget)
        return self._prepared

    def _distinct_values(self, types: Ints) -> list[DistinctValues]:
        """Return for each key of minValues the values of every machine type; `types` is [type], its instance type."""
        template, offered = self._scope.template, self._scope.offered
        found: list[DistinctValues] = []
        for key, values_min in sorted(template.min_values.items()):
            of_type = {one: template.types.values(1 << one, offered, key) for one in set(types.tolist())}
            found.append(DistinctValues([of_type[one] for one in types.tolist()], values_min))
        return found

    def incumbent(self, problem: PackingProblem) -> Packing:
        """Return the present nodes as a packing, or one item per machine if the problem is stricter than the greedy planner."""
        loads = np.array([[load[group] for group in self._members] for load in self._loads], dtype=np.int64)
        types = np.array([problem.cheapest_type(load) for load in loads], dtype=np.int64)
        if (types >= 0).all() and (loads <= problem.fit[:, types].T).all():
            return Packing(types, loads)
        return _one_item_per_machine(problem)

    def claims_of(self, problem: PackingProblem, packing: Packing) -> list[InFlightClaim]:
        """Return new claims for a packing; none if some item cannot even have a node alone.

        Hostname rules that the problem does not model may make these claims more expensive than separate machines for the
        items; then the separate machines are returned.
        """
        claims = self._claims(problem, packing)
        if sum(claim.price for claim in claims) <= separate_cost(problem):
            return claims
        return min(claims, self._claims(problem, separate_packing(problem)), key=_cost)

    def _claims(self, problem: PackingProblem, packing: Packing) -> list[InFlightClaim]:
        waiting: dict[PackingItem, list[MovablePods]] = {}
        for movable in reversed(self._movable):
            waiting.setdefault(movable.item, []).append(movable)
        builder = ClaimBuilder(self._context, self._scope, self._settings)
        machines = ItemAssignment(problem, list(self._members.values()), self._settings).machines(packing)
        built = [claim for machine in machines for claim in _built(builder, machine, waiting)]
        invariant(not any(waiting.values()), "every pod of the subproblem has a new place")
        claims = [claim for claim in built if claim is not None]
        if len(claims) < len(built):
            return []
        return sorted(claims, key=lambda claim: (-claim.price, claim.pods[0].key))


def _cost(claims: Sequence[InFlightClaim]) -> tuple[bool, int]:
    """Return nano-dollars per hour; an empty list is more expensive than any other."""
    return not claims, sum(claim.price for claim in claims)


def _one_item_per_machine(problem: PackingProblem) -> Packing:
    """Return a packing in which different items share no machine: expensive, but always possible."""
    # For item i the type with the least price[t] / min(fit[i, t], count), and ⌈count / amount⌉ machines of it.
    # The last machine holds the remainder. loads: [machine, item].
    parts = []
    for item, count in enumerate(problem.counts.tolist()):
        amounts = np.minimum(problem.fit[item], count)
        price = np.where(amounts > 0, problem.prices / np.maximum(amounts, 1), np.inf)
        best = MachineTypeIndex(int(price.argmin()))
        machines = -(-count // int(amounts[best]))
        loads = np.zeros((machines, len(problem.counts)), dtype=np.int64)
        loads[:, item] = amounts[best]
        loads[-1, item] = count - (machines - 1) * amounts[best]
        parts.append(Packing(np.full(machines, best), loads))
    return joined(parts, items=len(problem.counts))


def _built(
    builder: ClaimBuilder, machine: AssignedMachine, waiting: dict[PackingItem, list[MovablePods]]
) -> list[InFlightClaim | None]:
    """Return the machine's claim; several if no single node satisfies all of its items."""
    members = [waiting[item].pop() for _, item in machine.items]
    whole = builder.claim(members)
    if whole is not None:
        return [whole]
    parts: list[list[MovablePods]] = []
    for movable in members:
        joinable = next((part for part in parts if builder.claim([*part, movable]) is not None), None)
        if joinable is None:
            parts.append([movable])
        else:
            joinable.append(movable)
    return [builder.claim(part) for part in parts]
