"""Assigns packing items to the places that a packing has for their groups, within the hostname rules."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from core.packing.problem import (
    NO_TYPE,
    Bools,
    Ints,
    ItemIndex,
    MachineTypeIndex,
    Packing,
    PackingProblem,
    largest_first,
)
from core.packing.search_settings import RepackSettings
from core.scheduling.optimization.items.packing_item import HostnameRuleState, PackingItem


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
        left = [(index, item) for index in order for item in self._unassigned[index].each()]
        exchanged_max = self._settings.exchanged_items_max
        without_place = [
            (index, item)
            for rank, (index, item) in enumerate(left)
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
        one = np.zeros(len(problem.counts), dtype=np.int64)
        one[index] = 1
        own_type = problem.cheapest_type(one)
        # missing[m, r] = (load of m with the item - capacity of m) / largest capacity, at most 0 where the item fits. Machines
        # are tried by their largest missing share: those with the most room first, then those that lack the least.
        types = np.array([machine.type_index for machine in machines], dtype=np.int64)
        loads = np.array([machine.load for machine in machines]).reshape(-1, len(one))
        missing = loads @ problem.requests + problem.requests[index] - problem.capacity[types]
        missing = missing / np.maximum(problem.capacity.max(axis=0), 1)
        nearest = np.argsort(missing.max(axis=1), kind="stable")
        has_room = (missing <= 0).all(axis=1) & problem.allowed[index, types]
        for position in nearest[has_room[nearest]]:
            if machines[position].rules.admits(item):
                machines[position].add(index, item)
                return
        enlarged = nearest[~has_room[nearest]][: self._settings.enlarged_machines_max]
        larger = problem.cheapest_types(loads[enlarged] + one)
        extra = np.where(larger == NO_TYPE, np.inf, problem.prices[larger] - problem.prices[types[enlarged]])
        for rank in np.argsort(extra, kind="stable"):
            machine = machines[enlarged[rank]]
            if extra[rank] < problem.prices[own_type] and machine.rules.admits(item):
                machine.type_index = MachineTypeIndex(int(larger[rank]))
                machine.add(index, item)
                return
        machines.append(AssignedMachine(own_type, np.zeros_like(one)))
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
        found: list[PackingItem] = []
        while self._left and len(found) < number:
            left, position = self._left[0]
            taken = min(number, -left) if len(self._left) == 1 else 1
            found += [self._items[position]] * taken
            self._remove(0, taken)
        return found

    def _remove(self, rank: int, taken: int) -> None:
        left, position = self._left.pop(rank)
        if left + taken < 0:
            insort(self._left, (left + taken, position))

    def each(self) -> Iterator[PackingItem]:
        """Return every item, as often as it is left, in the given order."""
        for position, number in sorted((position, number) for number, position in self._left):
            yield from [self._items[position]] * -number
