"""Assigns packing items to the places that a packing has for their groups, without breaking a hostname rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from core.packing.problem import NO_TYPE, Ints, ItemIndex, MachineTypeIndex, Packing, PackingProblem, largest_first
from core.packing.search_settings import RepackSettings
from core.scheduling.optimization.items.packing_item import HostnameRuleState, PackingItem


class AssignedMachine(msgspec.Struct):
    """One machine and its items.

    Attributes:
        type_index: Its type in the packing problem.
        load: [item of the problem], how many it holds.
        items: Its packing items, each with the item of the problem that it is one of.
        rules: How their hostname rules stand.
    """

    type_index: MachineTypeIndex
    load: Ints
    items: list[tuple[ItemIndex, PackingItem]] = msgspec.field(default_factory=list)
    rules: HostnameRuleState = msgspec.field(default_factory=HostnameRuleState)

    def add(self, index: ItemIndex, item: PackingItem) -> None:
        """Take in an item."""
        self.items.append((index, item))
        self.rules.add(item)
        self.load[index] += 1

    def swap(self, position: int, item: PackingItem) -> PackingItem:
        """Put an item in the place of another one, which is returned; both are of the same group."""
        index, gone = self.items[position]
        self.items[position] = (index, item)
        self.rules = HostnameRuleState()
        for _, there in self.items:
            self.rules.add(there)
        return gone

    def would_admit(self, item: PackingItem, *, instead_of: int) -> bool:
        """Whether an item could have the place of the one at that position."""
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
        """Take the items that need a machine.

        Args:
            problem: The packing problem.
            members: For each of its items, the packing items that it stands for, and how many there are of each.
            settings: How many exchanges are tried.
        """
        self._problem = problem
        self._settings = settings
        self._unassigned = [dict(of_group) for of_group in members]
        self._is_ruled = [any(item.counted or item.caps for item in of_group) for of_group in members]

    def machines(self, packing: Packing) -> list[AssignedMachine]:
        """The machines of a packing with their items; further ones are opened for items that fit nowhere else."""
        machines = [
            self._filled(MachineTypeIndex(int(type_index)), load)
            for type_index, load in zip(packing.types, packing.loads, strict=True)
        ]
        largest = largest_first(self._problem.requests, self._problem.capacity.max(axis=0))
        order = [ItemIndex(int(index)) for index in largest]
        left = [(index, item) for index in order for item in _each(self._unassigned[index])]
        exchanged_max = self._settings.exchanged_items_max
        without_place = [
            (index, item)
            for rank, (index, item) in enumerate(left)
            if rank >= exchanged_max or not self._exchanged(machines, packing.loads[:, index], index, item)
        ]
        for index, item in without_place:
            self._add_at_least_cost(machines, index, item)
        return [machine for machine in machines if machine.items]

    def _filled(self, type_index: MachineTypeIndex, load: Ints) -> AssignedMachine:
        """A machine with what its load wants, as far as hostname rules allow; items with rules go first."""
        machine = AssignedMachine(type_index, np.zeros_like(load))
        present = [ItemIndex(index) for index in np.flatnonzero(load).tolist()]
        for index in sorted(present, key=lambda one: (not self._is_ruled[one], one)):
            for _ in range(int(load[index])):
                item = self._next(index, machine.rules)
                if item is not None:
                    machine.add(index, item)
        return machine

    def _next(self, index: ItemIndex, rules: HostnameRuleState) -> PackingItem | None:
        """The item of a group that the rules admit and of which the most are left."""
        left = self._unassigned[index]
        found = max(left, key=left.__getitem__, default=None)
        if found is not None and not rules.admits(found):
            ordered = sorted(left, key=lambda item: -left[item])
            found = next((item for item in ordered if rules.admits(item)), None)
        if found is not None:
            left[found] -= 1
            if not left[found]:
                del left[found]
        return found

    def _exchanged(self, machines: list[AssignedMachine], planned: Ints, index: ItemIndex, item: PackingItem) -> bool:
        """Assign an item to a free place of its group, if need be by moving another of the group there that may be there.

        `planned` is [machine], how many of the group each machine has places for; machines opened since have none.
        """
        free = [m for m, wanted in zip(machines, planned, strict=False) if m.load[index] < wanted]
        for machine in free:
            if machine.rules.admits(item):
                machine.add(index, item)
                return True
        for machine in free:
            for other in machines:
                if other is machine or not other.load[index]:
                    continue
                for position, (of_group, there) in enumerate(other.items):
                    may_move = of_group == index and there != item and machine.rules.admits(there)
                    if may_move and other.would_admit(item, instead_of=position):
                        machine.add(index, other.swap(position, item))
                        return True
        return False

    def _add_at_least_cost(self, machines: list[AssignedMachine], index: ItemIndex, item: PackingItem) -> None:
        """Assign an item where that costs the least: to free capacity, to a machine made larger, or to one of its own."""
        problem = self._problem
        one = np.zeros(len(problem.counts), dtype=np.int64)
        one[index] = 1
        best = AssignedMachine(problem.cheapest_type(one), np.zeros_like(one))
        new_type, extra = best.type_index, int(problem.prices[best.type_index])
        # missing[m, r] = (load of m with the item - capacity of m) / largest capacity, at most 0 where the item fits. Machines
        # are tried by their largest missing share: those with the most room first, then those that lack the least.
        types = np.array([machine.type_index for machine in machines], dtype=np.int64)
        loads = np.array([machine.load for machine in machines]).reshape(-1, len(one))
        missing = loads @ problem.requests + problem.requests[index] - problem.capacity[types]
        missing = missing / np.maximum(problem.capacity.max(axis=0), 1)
        nearest = np.argsort(missing.max(axis=1), kind="stable")
        has_room = (missing <= 0).all(axis=1) & problem.allowed[index, types]
        enlarged = nearest[~has_room[nearest]][: self._settings.enlarged_machines_max]
        for position in (*nearest[has_room[nearest]], *enlarged):
            machine = machines[position]
            larger = machine.type_index if has_room[position] else problem.cheapest_type(machine.load + one)
            price = int(problem.prices[larger] - problem.prices[machine.type_index])
            if larger != NO_TYPE and price < extra and machine.rules.admits(item):
                best, extra, new_type = machine, price, larger
                if has_room[position]:
                    break
        if not best.items:
            machines.append(best)
        best.type_index = new_type
        best.add(index, item)


def _each(left: Mapping[PackingItem, int]) -> Iterator[PackingItem]:
    for item, count in left.items():
        yield from [item] * count
