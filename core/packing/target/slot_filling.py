"""Puts whole pods into the free room of nodes that stay, following the shares of the keep-or-drain program.

First fit fills CPU and strands memory. Here a pod goes to the node whose free room is most like what it requests, so that both
run out together (the measure of likeness is the cosine, over resources scaled by a typical amount).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from core.packing.problem import Bools, Floats, Ints
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import FleetProblem

_SETTINGS: Final = DEFAULT_SETTINGS.target


class NodeSlots(NamedTuple):
    """Slots for pods of one item on one existing node; `node` is its position among all nodes."""

    item: int
    node: int
    pods: int


class Rooms(NamedTuple):
    """The nodes that may take pods.

    Attributes:
        free: [node, resource], their room now.
        groups: [node], the room group of each, NO_GROUP where it takes nothing.
        suits: [item, node], whether the item's pods may run there.
        present: [item], node → pods of the item that run there, for items with a cap along hostnames.
    """

    free: Ints
    groups: Ints
    suits: Bools
    present: tuple[dict[int, int], ...]


class SlotFilling:
    """Fills the free room of the nodes that stay."""

    def __init__(self, problem: FleetProblem, rooms: Rooms, drained: Ints, bound: Ints) -> None:
        """Begin with nothing placed.

        Args:
            problem: The fleet.
            rooms: Where there is room.
            drained: [item], pods of nodes that go.
            bound: [item], how many of these pods have no other place: they come first, in any suitable room.
        """
        self._problem = problem
        self._rooms = rooms
        self._scale = problem.scale
        self._free: Floats = rooms.free.astype(float)
        self._left = drained.copy()
        self._drained = drained
        self._bound = bound

    def slots(self, into: Floats, machines: float) -> list[NodeSlots]:
        """Return slots for the pods in `into` ([item, group]), as far as there is room, if this many machines are launched."""
        problem, rooms = self._problem, self._rooms
        wanted = whole_pods(into, self._drained)
        # Best fit decreasing: the items by their largest share of a resource, max_r request[r] / scale[r], the largest first.
        # Items with a cap come before all: new hosts take cap · machines of their pods, so at least
        # drained - cap · machines of them need slots on existing nodes.
        share = (problem.requests / self._scale).max(axis=1) if len(problem.requests) else np.zeros(0)
        largest = np.argsort(-share, kind="stable")
        is_capped = problem.host_caps > 0
        found: list[NodeSlots] = []
        for item in largest[is_capped[largest]]:  # as many pods as new hosts cannot take
            here = self._open_hosts(int(item))
            many = max(int(wanted[item].sum()), int(self._drained[item] - problem.host_caps[item] * machines))
            found += self._put(int(item), many, here, -1.0, once=True)
        members = [np.flatnonzero(rooms.groups == group) for group in range(into.shape[1])]
        free = largest[~is_capped[largest]]
        first = self._in_turn(wanted, np.where(is_capped, 0, self._bound))
        found += self._fill(free, first, members)
        for item in free:  # what has no other place, wherever there is room
            here = np.flatnonzero((rooms.groups >= 0) & rooms.suits[item])
            found += self._put(int(item), int(self._bound[item] - (self._drained - self._left)[item]), here, -1.0)
        found += self._fill(free, wanted - first, members)
        for alike in _SETTINGS.likeness_min:
            for item in largest[(self._left[largest] > 0) & ~is_capped[largest]]:
                here = np.flatnonzero((rooms.groups >= 0) & rooms.suits[item])
                found += self._put(int(item), int(self._left[item]), here, alike)
        return found

    def _fill(self, items: Ints, wanted: Ints, members: list[Ints]) -> list[NodeSlots]:
        """Return slots in groups of nodes; `wanted` is [item, group]."""
        found: list[NodeSlots] = []
        for item in items:
            for group in np.flatnonzero(wanted[item]):
                here = members[group][self._rooms.suits[item, members[group]]]
                found += self._put(int(item), int(wanted[item, group]), here, -1.0)
        return found

    def _in_turn(self, wanted: Ints, most: Ints) -> Ints:
        """[item, group], as much of `wanted` as `most` of each item allows, group by group."""
        # taken[i, g] = clip(most[i] - Σ_{h < g} wanted[i, h], 0, wanted[i, g]).
        before = np.cumsum(wanted, axis=1) - wanted
        taken: Ints = np.clip(most[:, None] - before, 0, wanted)
        return taken

    def _open_hosts(self, item: int) -> Ints:
        """Nodes where a rule along hostnames admits one more pod of the item."""
        rooms, cap = self._rooms, int(self._problem.host_caps[item])
        here = np.flatnonzero((rooms.groups >= 0) & rooms.suits[item])
        is_open = np.array([rooms.present[item].get(int(node), 0) < cap for node in here], dtype=bool)
        found: Ints = here[is_open]
        return found

    def _put(self, item: int, pods: int, here: Ints, alike: float, *, once: bool = False) -> list[NodeSlots]:
        """Put pods of an item on the nodes whose free room is most like their requests; `once`: one pod per node."""
        # Nodes come by the cosine between their free room f and the request q, (f · q) / (|f| |q|), less a weight times |f|, so
        # that fuller nodes come first. Each round puts pods on a third of the nodes, then compares again: rooms have changed.
        pods, slots = min(pods, int(self._left[item])), list[NodeSlots]()
        if pods <= 0 or not here.size:
            return slots
        request = self._problem.requests[item]
        unit = self._shape(request[None, :])[0]
        unit = unit / max(math.sqrt(unit @ unit), 1e-9)
        while pods > 0 and here.size:
            free = self._free[here]
            places = _places(free, request)
            has_room = places > 0
            here, places, shape = here[has_room], places[has_room], self._shape(free[has_room])
            size = np.maximum(np.sqrt((shape * shape).sum(axis=1)), 1e-9)
            like = (shape @ unit) / size
            near = (like >= alike).nonzero()[0]
            if not near.size:
                break
            most = pods if once else min(pods, len(near) // 3 + 1)
            best = near[np.argsort(_SETTINGS.fullness_weight * size[near] - like[near], kind="stable")[: max(1, most)]]
            amounts = _cut(np.minimum(places[best], 1 if once else max(1, pods // (2 * len(best)))), pods)
            chosen, placed = here[best[: len(amounts)]], int(amounts.sum())
            self._free[chosen] -= amounts[:, None] * request
            slots += [NodeSlots(item, *pair) for pair in zip(chosen.tolist(), amounts.tolist(), strict=True)]
            pods -= placed
            self._left[item] -= placed
            if once:
                break
        return slots

    def _shape(self, amounts: Ints | Floats) -> Floats:
        shape: Floats = amounts[:, : _SETTINGS.shape_resources] / self._scale[: _SETTINGS.shape_resources]
        return shape


def _places(free: Floats, request: Ints) -> Ints:
    """Return [place], how many pods of this request fit into each free room ([place, resource])."""
    asked = request.nonzero()[0]
    if not asked.size:
        return np.full(len(free), np.iinfo(np.int32).max, dtype=np.int64)
    places: Ints = (free[:, asked] // request[asked]).min(axis=1).astype(np.int64)
    return places


def _cut(amounts: Ints, pods: int) -> Ints:
    """Return the first of these positive amounts, cut off where their running sum reaches `pods`."""
    sums = np.cumsum(amounts)
    full = int(np.searchsorted(sums, pods))
    if full == len(amounts):
        return amounts
    found: Ints = amounts[: full + 1].copy()
    found[full] -= sums[full] - pods
    return found


def whole_pods(into: Floats, drained: Ints) -> Ints:
    """Return [item, group], shares in whole pods. The rounding error of an item is passed on to the next, of similar size."""
    # Error diffusion: whole[i] = ⌊into[i] + carry + ½⌋ and carry += into[i] - whole[i] by group, at most drained[i] in all:
    # an excess is taken from the groups where rounding up added the most.
    whole, carry = np.zeros(into.shape, dtype=np.int64), np.zeros(into.shape[1])
    for item in range(len(into)):
        wanted = np.minimum(into[item] + carry, drained[item])
        whole[item] = np.floor(wanted + 0.5)
        excess = int(whole[item].sum() - drained[item])
        for group in np.argsort(wanted - whole[item], kind="stable")[: max(excess, 0)]:
            whole[item, group] -= 1
        carry += into[item] - whole[item]
    return np.maximum(whole, 0)
