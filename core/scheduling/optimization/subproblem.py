"""Assigns packing items to the places that a packing has for their groups, within the hostname rules."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from core import labels
from core.errors import invariant
from core.packing.heuristics import separate_cost, separate_packing
from core.packing.problem import (
    NO_TYPE,
    Bools,
    Ints,
    ItemIndex,
    MachineTypeIndex,
    Packing,
    PackingProblem,
    joined,
    largest_first,
    merged_offers,
)
from core.packing.relaxation import DistinctValues, PreparedProblem, prepared_with_flexibility, with_distinct_values
from core.packing.settings import RepackSettings, SearchBudget, SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate
from core.scheduling.optimization.claims import ClaimBuilder
from core.scheduling.optimization.items import HostnameRuleState, MovablePods, PackingItem, RepackScope
from core.scheduling.optimization.relaxed_pods import INTERDEPENDENT, ItemGroup, ItemGrouping, LaunchOption
from core.scheduling.primitives import RequirementId, TopologyGroupId


class AssignedMachine(msgspec.Struct, eq=False):
    """One machine and its items.

    Attributes:
        type_index: Its type in the packing problem.
        load: [item of the problem], how many of its packing items the machine holds.
        items: Its packing items, each with its item of the problem.
        rules: The state of their hostname rules.
    """

    type_index: MachineTypeIndex
    load: Ints
    items: list[tuple[ItemIndex, PackingItem]] = msgspec.field(default_factory=list)
    rules: HostnameRuleState = msgspec.field(default_factory=HostnameRuleState)

    def add(self, index: ItemIndex, item: PackingItem) -> None:
        """Add an item."""
        self.items.append((index, item))
        self.rules.add(item)
        self.load[index] += 1

    def swap(self, position: int, item: PackingItem) -> PackingItem:
        """Replace an item by another of the same group; return the replaced one."""
        index, gone = self.items[position]
        self.items[position] = (index, item)
        self.rules = HostnameRuleState()
        for _, there in self.items:
            self.rules.add(there)
        return gone

    def would_admit(self, item: PackingItem, *, instead_of: int) -> bool:
        """Whether an item could replace the one at that position."""
        others = HostnameRuleState()
        for position, (_, there) in enumerate(self.items):
            if position != instead_of:
                others.add(there)
        return others.admits(item)


class ItemAssignment:
    """Assigns the packing items of one problem."""

    def __init__(
        self, problem: PackingProblem, members: Sequence[Mapping[PackingItem, int]], settings: RepackSettings
    ) -> None:
        """Prepare an assignment.

        Args:
            problem: The packing problem.
            members: For each of its items, the packing items that it represents, with the number of each.
            settings: The most exchanges to try.
        """
        self._problem = problem
        self._settings = settings
        self._unassigned = [_UnassignedItems(of_group) for of_group in members]
        self._is_ruled = [any(item.counted or item.caps for item in of_group) for of_group in members]

    def machines(self, packing: Packing) -> list[AssignedMachine]:
        """Return the machines of a packing with their items; items that fit nowhere else get further machines."""
        loads = np.zeros_like(packing.loads)
        machines = self._filled(packing, loads)
        largest = largest_first(self._problem.requests, self._problem.capacity.max(axis=0))
        order = [ItemIndex(int(index)) for index in largest]
        unassigned = [(index, item) for index in order for item in self._unassigned[index].each()]
        exchanged_max = self._settings.exchanged_items_max
        without_place = [
            (index, item)
            for rank, (index, item) in enumerate(unassigned)
            if rank >= exchanged_max
            or not self._exchanged(machines, packing.loads[:, index] > loads[:, index], index, item)
        ]
        for index, item in without_place:
            self._add_at_least_cost(machines, index, item)
        return [machine for machine in machines if machine.items]

    def _filled(self, packing: Packing, loads: Ints) -> list[AssignedMachine]:
        """Return machines with the items of a packing that hostname rules allow, and fill in their `loads`.

        Items with rules come first.
        """
        machines = [
            AssignedMachine(MachineTypeIndex(type_index), load)
            for type_index, load in zip(packing.types.tolist(), loads, strict=True)
        ]
        machine_numbers, indexes = np.nonzero(packing.loads)
        order = np.lexsort((indexes, ~np.array(self._is_ruled, dtype=np.bool_)[indexes], machine_numbers))
        places = zip(
            machine_numbers[order].tolist(),
            indexes[order].tolist(),
            packing.loads[machine_numbers, indexes][order].tolist(),
            strict=True,
        )
        for machine_number, number, wanted in places:
            machine, index, unassigned = machines[machine_number], ItemIndex(number), self._unassigned[number]
            if self._is_ruled[number]:
                rules = machine.rules
                items = [item for _ in range(wanted) if (item := unassigned.take(rules)) is not None]
            else:
                items = unassigned.take_any(wanted)
            machine.items += [(index, item) for item in items]
            machine.load[index] = len(items)
        return machines

    def _exchanged(
        self, machines: list[AssignedMachine], has_place: Bools, index: ItemIndex, item: PackingItem
    ) -> bool:
        """Assign an item to a free place of its group, if necessary by moving another item of the group to that place.

        `has_place` is [machine], whether it has fewer items of the group than planned.
        """
        free = [machines[number] for number in np.flatnonzero(has_place)]
        for machine in free:
            if machine.rules.admits(item):
                machine.add(index, item)
                return True
        for machine in free:
            for other in machines:
                # Without one of the group, every item of every machine would be looked at: eight times the time of a call.
                if other is machine or not other.load[index]:
                    continue
                for position, (of_group, there) in enumerate(other.items):
                    may_move = of_group == index and there != item and machine.rules.admits(there)
                    if may_move and other.would_admit(item, instead_of=position):
                        machine.add(index, other.swap(position, item))
                        return True
        return False

    def _add_at_least_cost(self, machines: list[AssignedMachine], index: ItemIndex, item: PackingItem) -> None:
        """Assign an item at the lowest cost: to free capacity, to an enlarged machine, or to its own machine."""
        problem = self._problem
        unit = np.zeros(len(problem.counts), dtype=np.int64)
        unit[index] = 1
        own_type = problem.cheapest_type(unit)
        # missing[m, r] = (load of m with the item - capacity of m) / largest capacity, at most 0 where the item fits. Machines
        # are tried by their largest missing share: those with the most room first, then those that lack the least.
        types = np.array([machine.type_index for machine in machines], dtype=np.int64)
        loads = np.array([machine.load for machine in machines]).reshape(-1, len(unit))
        missing = loads @ problem.requests + problem.requests[index] - problem.capacity[types]
        missing = missing / np.maximum(problem.capacity.max(axis=0), 1)
        nearest = np.argsort(missing.max(axis=1), kind="stable")
        has_room = (missing <= 0).all(axis=1) & problem.allowed[index, types]
        for position in nearest[has_room[nearest]]:
            if machines[position].rules.admits(item):
                machines[position].add(index, item)
                return
        enlarged = nearest[~has_room[nearest]][: self._settings.enlarged_machines_max]
        larger = problem.cheapest_types(loads[enlarged] + unit)
        extra = np.where(larger == NO_TYPE, np.inf, problem.prices[larger] - problem.prices[types[enlarged]])
        for rank in np.argsort(extra, kind="stable"):
            machine = machines[enlarged[rank]]
            if extra[rank] < problem.prices[own_type] and machine.rules.admits(item):
                machine.type_index = MachineTypeIndex(int(larger[rank]))
                machine.add(index, item)
                return
        machines.append(AssignedMachine(own_type, np.zeros_like(unit)))
        machines[-1].add(index, item)


class _UnassignedItems:
    """The packing items of one group that no machine has so far."""

    def __init__(self, counts: Mapping[PackingItem, int]) -> None:
        self._items = list(counts)
        # (-number, position) of each item with any left, sorted: the most first, ties in the given order.
        self._left = sorted((-count, position) for position, count in enumerate(counts.values()))

    def take(self, rules: HostnameRuleState) -> PackingItem | None:
        """Take the item that the rules admit and of which the most remain, and add it to the rules; None if they admit none."""
        for rank, (_, position) in enumerate(self._left):
            item = self._items[position]
            if rules.admits(item):
                rules.add(item)
                self._remove(rank, 1)
                return item
        return None

    def take_any(self, number: int) -> list[PackingItem]:
        """Take this many items, or all that remain if these are fewer; each time one of which the most remain."""
        items: list[PackingItem] = []
        while self._left and len(items) < number:
            pods_left, position = self._left[0]
            taken = min(number, -pods_left) if len(self._left) == 1 else 1
            items += [self._items[position]] * taken
            self._remove(0, taken)
        return items

    def _remove(self, rank: int, taken: int) -> None:
        pods_left, position = self._left.pop(rank)
        if pods_left + taken < 0:
            insort(self._left, (pods_left + taken, position))

    def each(self) -> Iterator[PackingItem]:
        """Return every item, as often as it is left, in the given order."""
        for position, number in sorted((position, number) for number, position in self._left):
            yield from [self._items[position]] * -number


# Builds the machine types of a packing problem from what NodePools could launch for given item groups.
#
# A machine type of the problem is an instance type at its lowest price among the offerings (zone, capacity type, reservation)
# that the same item groups may use. It thus defines exactly which groups may share a machine, and the machine's lowest cost.


_NOT_OFFERED = np.iinfo(np.int64).max


class _MachineTypes(msgspec.Struct, frozen=True, eq=False):
    """Machine types: [type] instance type of the NodePool, [type, resource] capacity, [type] price, [group, type] allowed."""

    instance_types: Ints
    capacity: Ints
    prices: Ints
    allowed: Bools


def problem_of(
    templates: Sequence[NodeClaimTemplate],
    *,
    counts: Mapping[ItemGroup, int],
    hostname_capacity: Mapping[TopologyGroupId, int],
    merges_offers: bool = False,
) -> PackingProblem:
    """As `problem_and_types`, without the instance types."""
    return problem_and_types(
        templates, counts=counts, hostname_capacity=hostname_capacity, merges_offers=merges_offers
    )[0]


def problem_and_types(
    templates: Sequence[NodeClaimTemplate],
    *,
    counts: Mapping[ItemGroup, int],
    hostname_capacity: Mapping[TopologyGroupId, int],
    merges_offers: bool = False,
) -> tuple[PackingProblem, Ints]:
    """Return the packing problem of these item groups, numbered in the mapping's order; and [type], its instance type.

    Resources are those of nodes, then one for fixed items (one per machine), then the hostname groups with their capacity per
    machine. With `merges_offers`, machine types of equal capacity and price are one, which any of their groups may use: the
    optimum is at most that of the whole problem.
    """
    groups = list(counts)
    used = dict.fromkeys(option.template_index for group in groups for option in group.options)
    parts = [part for index in sorted(used) for part in _machine_types(templates[index], index, groups)]
    if merges_offers:
        parts = [_merged(parts)]
    capacity = np.concatenate([part.capacity for part in parts])
    more = np.tile(np.array([1, *hostname_capacity.values()], dtype=np.int64), (len(capacity), 1))
    problem = PackingProblem.of(
        requests=np.array([requests_of(group, hostname_capacity) for group in groups], dtype=np.int64),
        counts=np.array(list(counts.values()), dtype=np.int64),
        capacity=np.concatenate([capacity, more], axis=1),
        prices=np.concatenate([part.prices for part in parts]),
        allowed=np.concatenate([part.allowed for part in parts], axis=1),
        pods_per_machine_max=np.array([group.per_machine_max for group in groups], dtype=np.int64),
    )
    return problem, np.concatenate([part.instance_types for part in parts])


def requests_of(group: ItemGroup, hostname_capacity: Mapping[TopologyGroupId, int]) -> tuple[int, ...]:
    """Return what one item of a group requests of each resource of a packing problem."""
    taken = dict(group.hostname_requests)
    return *group.requests, int(group.is_fixed), *(taken.get(number, 0) for number in hostname_capacity)


def _machine_types(
    template: NodeClaimTemplate, template_index: int, groups: Sequence[ItemGroup]
) -> Iterator[_MachineTypes]:
    """Return one NodePool's machine types, a part for each set of offerings that the same requirements may use."""
    # An ask is the pair (requirements, types) of an option of a group. may_ask: [group, ask], whether the group has it;
    # suits: [ask, type], whether the type is compatible. An instance type is allowed for a group where one of its asks that can
    # use the offerings suits: allowed = (may_ask ∧ users) · suits > 0, a matrix product.
    options = [[option for option in group.options if option.template_index == template_index] for group in groups]
    asks = list(dict.fromkeys((option.reqs, option.allowed) for of_group in options for option in of_group))
    numbers = {ask: number for number, ask in enumerate(asks)}
    may_ask = np.zeros((len(groups), len(asks)), dtype=np.int64)
    for row, of_group in enumerate(options):
        for option in of_group:
            may_ask[row, numbers[option.reqs, option.allowed]] = 1
    types = template.types
    suits = np.array([_as_row(types.mask(reqs) & allowed, len(types.types)) for reqs, allowed in asks])
    capacity = np.array(types.room.vectors, dtype=np.int64)
    for users, lowest in sorted(_lowest_prices(template, [reqs for reqs, _ in asks]).items()):
        allowed = (may_ask & np.array(users)) @ suits.astype(np.int64) > 0
        offered = np.flatnonzero((lowest < _NOT_OFFERED) & allowed.any(axis=0) & (capacity >= 0).all(axis=1))
        yield _MachineTypes(offered, capacity[offered], lowest[offered], allowed[:, offered])


def _merged(parts: Sequence[_MachineTypes]) -> _MachineTypes:
    prices = np.concatenate([part.prices for part in parts])
    capacity = np.concatenate([part.capacity for part in parts])
    first, allowed = merged_offers(prices, capacity, [part.allowed for part in parts])
    instance_types = np.concatenate([part.instance_types for part in parts])
    return _MachineTypes(instance_types[first], capacity[first], prices[first], allowed)


def _lowest_prices(template: NodeClaimTemplate, requirements: Sequence[RequirementId]) -> dict[tuple[bool, ...], Ints]:
    """Return which requirements may use an offering → [type], each instance type's lowest price in such offerings."""
    types = template.types
    lowest_prices: dict[tuple[bool, ...], Ints] = {}
    priced = [dict(types.offerings.by_labels(reqs)) for reqs in requirements]
    for values in sorted({values for prices in priced for values in prices}):
        users = tuple(values in prices for prices in priced)
        lowest = lowest_prices.setdefault(users, np.full(len(types.types), _NOT_OFFERED))
        offers = np.array(priced[users.index(True)][values], dtype=np.int64)
        lowest[offers[:, 1]] = np.minimum(lowest[offers[:, 1]], offers[:, 0])
    return lowest_prices


def _as_row(mask: int, length: int) -> Bools:
    """Return [bit], the lowest `length` bits of a mask, least significant first."""
    packed = np.frombuffer(mask.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little")[:length].astype(np.bool_)


# A subproblem: the claims of one scope as a packing problem, and its solution as claims.


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
        rules: list[DistinctValues] = []
        for key, values_min in sorted(template.min_values.items()):
            of_type = {
                instance_type: template.types.values(1 << instance_type, offered, key)
                for instance_type in set(types.tolist())
            }
            rules.append(DistinctValues([of_type[instance_type] for instance_type in types.tolist()], values_min))
        return rules

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
    claim = builder.claim(members)
    if claim is not None:
        return [claim]
    parts: list[list[MovablePods]] = []
    for movable in members:
        joinable = next((part for part in parts if builder.claim([*part, movable]) is not None), None)
        if joinable is None:
            parts.append([movable])
        else:
            joinable.append(movable)
    return [builder.claim(part) for part in parts]
