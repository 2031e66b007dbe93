"""Where the pods of nodes that go are meant to go: as the keep-or-drain program has it, or as a stored target has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from core.disruption.stored_targets import PodKinds
from core.disruption.target.target_fleet import TargetFleet
from core.model.plan import StoredTarget
from core.packing.problem import Bools, Floats, Ints
from core.packing.target.fleet_problem import NO_GROUP
from core.packing.target.seat_filling import SeatFilling

Seats = dict[int, list[tuple[int, int]]]
"""Number of a pod group → (position of a node, how many of its pods it is to take)."""


class PlannedSeats(Protocol):
    """What is meant for the pods of a choice of nodes."""

    def seats(self, keeps: Bools) -> Seats:
        """Places on existing nodes for pods of the nodes that are not kept."""
        ...

    @property
    def new_nodes(self) -> Sequence[Mapping[str, int]]:
        """Pods of which kinds are to share a new node, and how many; empty where that is to be found out."""
        ...


class ProgramSeats:
    """What the program means."""

    new_nodes: Sequence[Mapping[str, int]] = ()

    def __init__(self, fleet: TargetFleet, into: Floats, machines: float, *, is_gated: bool) -> None:
        """Take over a solution.

        Args:
            fleet: The candidates.
            into: [item, group], pods that move into the free room of a group's nodes.
            machines: New machines.
            is_gated: Whether pods of spot nodes have no other place than on existing nodes.
        """
        self._fleet = fleet
        self._into = into
        self._machines = machines
        self._is_gated = is_gated

    def seats(self, keeps: Bools) -> Seats:
        """Whole pods on nodes, with what suits them best."""
        rows = self._fleet.rows
        problem, rooms = rows.problem, rows.rooms
        rooms.groups[rows.positions(~keeps)] = NO_GROUP
        drained: Ints = problem.loads[~keeps].sum(axis=0)
        bound: Ints = problem.loads[~keeps & problem.is_spot].sum(axis=0) if self._is_gated else drained * 0
        found: Seats = {}
        for seat in SeatFilling(problem, rooms, drained, bound).seats(self._into, self._machines):
            found.setdefault(int(rows.items[seat.item].index), []).append((seat.node, seat.pods))
        return found


class StoredTargetSeats:
    """What a stored target means, by kinds: a kind's pods may be of several groups here, and a group's of several kinds."""

    def __init__(self, fleet: TargetFleet, stored: StoredTarget) -> None:
        self._fleet = fleet
        self._stored = stored
        self._kinds = PodKinds()
        self.new_nodes: Sequence[Mapping[str, int]] = [new.pods for new in stored.new_nodes]

    def seats(self, keeps: Bools) -> Seats:
        """The stored places, dealt to the groups of each kind in turn."""
        rows, positions = self._fleet.rows, self._fleet.planner.context.positions
        waiting: dict[str, Counter[int]] = {}
        for pods, stays in zip(rows.pods, keeps, strict=True):
            for pod in () if stays else pods:
                waiting.setdefault(self._kinds.of(pod), Counter())[rows.row_of_pod[pod.key]] += 1
        suits, going = rows.rooms.suits, set(rows.positions(~keeps))
        found: Seats = {}
        for seat in self._stored.seats:
            node, left = positions.get(seat.node), seat.pods
            if node is None or node in going:
                continue
            groups = waiting.get(seat.kind, Counter())
            for item in sorted(groups):
                taken = min(left, groups[item]) if suits[item, node] else 0
                if taken:
                    groups[item] -= taken
                    left -= taken
                    found.setdefault(int(rows.items[item].index), []).append((node, taken))
        return found
