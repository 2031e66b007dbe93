"""The intended places for the pods of leaving nodes: from the keep-or-drain program, or from a stored target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from core.disruption.stored_targets import PodKinds
from core.disruption.target.target_fleet import TargetFleet
from core.model.plan import StoredTarget
from core.packing.problem import Bools, Floats, Ints
from core.packing.target.fleet_problem import NO_GROUP
from core.packing.target.slot_filling import SlotFilling

Slots = dict[int, list[tuple[int, int]]]
"""Pod group → (position of a node, number of the group's pods for it)."""


class PlannedSlots(Protocol):
    """The intended places for the pods of a choice of nodes."""

    def slots(self, keeps: Bools) -> Slots:
        """Return places on existing nodes for pods of the nodes that are not kept."""
        ...

    @property
    def new_nodes(self) -> Sequence[Mapping[str, int]]:
        """Return how many pods of which groups share each new node; empty if new nodes are to be packed afresh."""
        ...


class ProgramSlots:
    """The places that the keep-or-drain program found."""

    new_nodes: Sequence[Mapping[str, int]] = ()

    def __init__(self, fleet: TargetFleet, into: Floats, machines: float, *, is_gated: bool) -> None:
        """Take over a solution.

        Args:
            fleet: The candidates.
            into: [item, group], pods that move into the free room of a node group.
            machines: New machines.
            is_gated: Whether pods of spot nodes may only go to existing nodes.
        """
        self._fleet = fleet
        self._into = into
        self._machines = machines
        self._is_gated = is_gated

    def slots(self, keeps: Bools) -> Slots:
        """Round the program's shares to whole pods, and put them on the nodes that suit them best."""
        rows = self._fleet.rows
        problem, rooms = rows.problem, rows.rooms
        rooms.groups[rows.positions(~keeps)] = NO_GROUP
        drained: Ints = problem.loads[~keeps].sum(axis=0)
        bound: Ints = problem.loads[~keeps & problem.is_spot].sum(axis=0) if self._is_gated else drained * 0
        found: Slots = {}
        for slot in SlotFilling(problem, rooms, drained, bound).slots(self._into, self._machines):
            found.setdefault(int(rows.items[slot.item].index), []).append((slot.node, slot.pods))
        return found


class StoredTargetSlots:
    """The places of a stored target, by kinds.

    Here, pods of one kind may be of several groups, and a group's of several kinds.
    """

    def __init__(self, fleet: TargetFleet, stored: StoredTarget) -> None:
        self._fleet = fleet
        self._stored = stored
        self._kinds = PodKinds()
        self.new_nodes: Sequence[Mapping[str, int]] = [new.pods for new in stored.new_nodes]

    def slots(self, keeps: Bools) -> Slots:
        """Distribute the stored places to the groups of each kind in turn."""
        rows, positions = self._fleet.rows, self._fleet.planner.context.positions
        waiting: dict[str, Counter[int]] = {}
        for pods, stays in zip(rows.pods, keeps, strict=True):
            for pod in () if stays else pods:
                waiting.setdefault(self._kinds.of(pod), Counter())[rows.row_of_pod[pod.key]] += 1
        suits, going = rows.rooms.suits, set(rows.positions(~keeps))
        found: Slots = {}
        for slot in self._stored.slots:
            node, left = positions.get(slot.node), slot.pods
            if node is None or node in going:
                continue
            groups = waiting.get(slot.kind, Counter())
            for item in sorted(groups):
                taken = min(left, groups[item]) if suits[item, node] else 0
                if taken:
                    groups[item] -= taken
                    left -= taken
                    found.setdefault(int(rows.items[item].index), []).append((node, taken))
        return found
