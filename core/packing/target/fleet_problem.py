"""A fleet as arrays: nodes that may go, the pods on them, and where these pods may run instead."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from core.packing.problem import Bools, Floats, Ints
from core.packing.search_settings import DEFAULT_SETTINGS

_SETTINGS: Final = DEFAULT_SETTINGS.target

NO_GROUP: Final = -1
"""A node that takes no pods."""


class FleetProblem(msgspec.Struct, frozen=True, eq=False):
    """The problem of which nodes to keep, and where to put the pods of the others.

    Attributes:
        prices: [node], nano-dollars per hour of each node that may go.
        move_prices: [node], the price of moving all its pods, in the same unit.
        must_go: [node], whether it goes at any cost.
        is_spot: [node], whether it is spot and goes by choice; its pods get no new node where spot does not replace spot.
        loads: [node, item], pods that would move.
        free: [node, resource], room left beside its pods.
        room_groups: [node], the group of alike nodes that it belongs to as long as it stays, or NO_GROUP.
        requests: [item, resource], what one pod takes.
        host_caps: [item], the most of its pods on one node by rules and preferences; zero for any number.
        required_host_caps: [item], the same by required rules alone.
        host_room: [item], for items with a cap: further pods that nodes which stay in any case may take by `host_caps`.
        group_suits: [item, group], whether its pods may run on the group's nodes.
        group_free: [group, resource], room on nodes that stay in any case.
        capacity: [type, resource], what a new machine offers.
        type_prices: [type].
        fits: [item, type], whether one pod fits an empty machine and may run there.
    """

    prices: Ints
    move_prices: Ints
    must_go: Bools
    is_spot: Bools
    loads: Ints
    free: Ints
    room_groups: Ints
    requests: Ints
    host_caps: Ints
    required_host_caps: Ints
    host_room: Ints
    group_suits: Bools
    group_free: Ints
    capacity: Ints
    type_prices: Ints
    fits: Bools

    @property
    def counts(self) -> Ints:
        """[item], pods on all the nodes."""
        counts: Ints = self.loads.sum(axis=0)
        return counts

    def hosts(self, items: Ints, caps: Ints) -> Ints:
        """[item, node], how many pods of some items a node holds as long as it stays, by caps along hostnames.

        A node that has more than the rules allow keeps them; one that takes no pods keeps its own.
        """
        seen = self.room_groups != NO_GROUP
        more = np.zeros((len(items), len(self.prices)), dtype=np.int64)
        more[:, seen] = self.group_suits[items][:, self.room_groups[seen]] * caps[items][:, None]
        return np.maximum(self.loads.T[items], more)

    @property
    def scale(self) -> Floats:
        """[resource], a typical amount of each resource: the mean room of a machine or node, at least one."""
        sizes = np.concatenate([self.capacity, np.maximum(self.free, 0)])
        return np.maximum(sizes.mean(axis=0), 1.0) if len(sizes) else np.ones(self.requests.shape[1])


class PodCells(msgspec.Struct, frozen=True, eq=False):
    """Cells: items with nearly equal requests that may run in the same places, treated as one.

    Attributes:
        cell: [item], its cell.
        members: [cell, item], one where the item belongs to the cell.
    """

    cell: Ints
    members: Floats

    @classmethod
    def of(cls, problem: FleetProblem) -> PodCells:
        """Merge items until there are few enough cells."""
        # Items share a cell if they may run in the same places and ⌊steps · log₂ request[r]⌋ is equal for every resource: their
        # requests then differ by less than a factor 2^(1 / steps). Steps become coarser until there are few enough cells.
        places = np.column_stack([problem.fits, problem.group_suits])
        pattern = np.unique(places, axis=0, return_inverse=True)[1].ravel()
        sizes = np.where(problem.requests > 0, np.log2(np.maximum(problem.requests, 1)), -1.0)
        cell: Ints = np.arange(len(problem.requests))
        for steps in _SETTINGS.size_steps_per_doubling:
            if cell.max(initial=-1) < _SETTINGS.cells_max:
                break
            keys = np.column_stack([pattern, np.floor(sizes * steps)])
            cell = np.unique(keys, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        members = np.zeros((int(cell.max(initial=-1)) + 1, len(cell)))
        members[cell, np.arange(len(cell))] = 1
        return cls(cell, members)

    def first(self, rows: Bools) -> Bools:
        """[cell, …], the row of each cell's first item; for places, all of its items agree."""
        found: Bools = rows[np.unique(self.cell, return_index=True)[1]]
        return found

    def mean_requests(self, problem: FleetProblem) -> Floats:
        """[cell, resource], the mean request of a pod of each cell."""
        weights = self.members * np.maximum(problem.counts, 1e-9)
        means: Floats = weights @ problem.requests / weights.sum(axis=1)[:, None]
        return means

    def least_requests(self, problem: FleetProblem) -> Floats:
        """[cell, resource], the least request of any pod of the cell."""
        least = np.full((len(self.members), problem.requests.shape[1]), np.inf)
        np.minimum.at(least, self.cell, problem.requests)
        return least
