"""The keep-or-drain program: nodes stay or go, pods move into free room or onto new machines, and each move has a price.

minimise    Σ_n price[n] stay[n] + Σ_n move[n] (1 - stay[n]) + Σ_t price[t] machines[t]
cell c      Σ_g into[c, g] + Σ_t new[c, t] + Σ_n load[n, c] stay[n] ≥ all pods of the cell
group g, r  Σ_c request[c, r] into[c, g] ≤ fill · (room of nodes that stay anyway + Σ_n in g free[n, r] stay[n])
type t, r   Σ_c request[c, r] new[c, t] ≤ fill · capacity[t, r] machines[t]
item i      Σ_n most[i, n] stay[n] + cap[i] · Σ_t machines[t] ≥ its pods - room for them elsewhere (hostname rules)
cell c      Σ_t new[c, t] + Σ_{n on demand} load[n, c] stay[n] ≤ its pods on demand  (spot is not replaced by spot)
pool p      Σ_n in p (1 - stay[n]) ≤ drains[p]                                       (where only so many may go)

stay is in [0, 1] and comes out whole for all but a few nodes, at most as many as there are binding rows.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from core.packing.problem import UNBOUNDED, Bools, Coefficients, Floats, Ints, LinearProgram, LpRows, PackingProblem
from core.packing.relaxation import FluidSolution
from core.packing.settings import DEFAULT_SETTINGS, TargetSettings

# A fleet as arrays: nodes that may go, the pods on them, and where these pods may run instead.


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
        first_rows: Bools = rows[np.unique(self.cell, return_index=True)[1]]
        return first_rows

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


# Which nodes of a fleet stay, as the keep-or-drain program solves it: shares of nodes and machines, and what room is worth.


DOLLARS: Final = 1e-9
"""Dollars in a nano-dollar: the program counts in dollars, so that its coefficients are of one order."""


class FleetTarget(msgspec.Struct, frozen=True, eq=False):
    """The program's solution.

    Attributes:
        cost: Dollars per hour of staying nodes and new machines, both of which may be fractions.
        stay: [node], between zero and one.
        into: [item, group], pods that move into the free room of a group's nodes.
        machines: New machines.
        cell_values: [cell], duals of the cells' rows: what one more pod would cost.
        room_values: [group, resource], duals of free room, per unit of `scale`.
        type_values: [type, resource], duals of the machines' capacity, per unit of `scale`.
        host_values: [item], duals of the rules along hostnames: what a place on one more host is worth.
    """

    cost: float
    stay: Floats
    into: Floats
    machines: float
    cell_values: Floats
    room_values: Floats
    type_values: Floats
    host_values: Floats


def free_room_worth(problem: FleetProblem, room_values: Floats) -> Floats:
    """Return [node], the value of its free room in dollars per hour while it stays, by values per unit of `scale`."""
    worth = np.zeros(len(problem.prices))
    seen = problem.room_groups != NO_GROUP
    room = np.maximum(problem.free[seen], 0) / problem.scale
    worth[seen] = (room * room_values[problem.room_groups[seen]]).sum(axis=1)
    return worth


def rounded(stay: Floats) -> Bools:
    """Return [node], whether it stays: the nearer whole number."""
    keeps: Bools = stay >= 0.5
    return keeps


class TargetRules(msgspec.Struct, frozen=True, eq=False):
    """The rules of a target besides room.

    Attributes:
        fill: The share of free room and of machines that pods may fill.
        keep_discount: The share by which a running node counts as cheaper than a new one, since prices fluctuate.
        is_gated: Whether pods of spot nodes may only go to existing room.
        pools: [node], the NodePool's number, where `drains_max` bounds how many of each go; empty otherwise.
        drains_max: [pool], how many of its nodes may go.
    """

    fill: float = _SETTINGS.fill_share
    keep_discount: float = 0.0
    is_gated: bool = False
    pools: Ints = msgspec.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    drains_max: Floats = msgspec.field(default_factory=lambda: np.zeros(0))


class KeepOrDrain:
    """The program over one fleet, with some of its types."""

    def __init__(self, problem: FleetProblem, cells: PodCells, types: Ints, requests: Floats) -> None:
        """Lay out rows and columns.

        Args:
            problem: The fleet.
            cells: Its pods, joined.
            types: Which types may be launched.
            requests: [cell, resource], the assumed requests of a pod of each cell.
        """
        self.problem, self.cells, self.types = problem, cells, types
        self._scale = problem.scale
        self._requests = requests / self._scale
        # Columns: stay by node, machines by type, into by pair (cell, group), new by pair (cell, type); `_starts` is where each
        # kind begins. Rows: cells, then group-major room, then type-major capacity, then items with a cap along hostnames.
        # Resources are divided by `scale`, so that coefficients are of one order.
        self._loads = problem.loads @ cells.members.T
        self._into_cell, self._into_group = (
            part.astype(np.int64) for part in np.nonzero(cells.first(problem.group_suits))
        )
        self._new_cell, self._new_type = (
            part.astype(np.int64) for part in np.nonzero(cells.first(problem.fits)[:, types])
        )
        nodes, resources = problem.free.shape
        sizes = [nodes, len(types), len(self._into_cell), len(self._new_cell)]
        self._starts = np.cumsum([0, *sizes])
        self._resource = np.arange(resources)
        self._room_row = len(cells.members)
        self._type_row = self._room_row + problem.group_free.shape[0] * resources
        self._host_row = self._type_row + len(types) * resources
        self._capped = np.flatnonzero(problem.host_caps)

    def solve(self, rules: TargetRules) -> FleetTarget:
        """Solve the program to the end."""
        problem, entries = self.problem, Coefficients()
        nodes = len(problem.prices)
        lower, upper = self._rows(rules)
        self._put_nodes(entries, rules.fill)
        self._put_pods(entries)
        self._put_hosts(entries)
        row = self._host_row + len(self._capped)
        if rules.is_gated:
            self._put_gate(entries, row)
            row += len(self.cells.members)
        if len(rules.pools):
            entries.put(row + rules.pools, np.arange(nodes), 1.0)
        # price · stay + move · (1 - stay) = (price - move) · stay + move: the constant Σ move is left out of the costs.
        # A node that must go has stay ≤ 0.
        prices, moves = problem.prices * DOLLARS * (1 - rules.keep_discount), problem.move_prices * DOLLARS
        machines = problem.type_prices[self.types] * DOLLARS
        costs = np.concatenate([prices - moves, machines, np.zeros(len(self._into_cell) + len(self._new_cell))])
        top = np.full(len(costs), UNBOUNDED)
        top[:nodes] = np.where(problem.must_go, 0.0, 1.0)
        program = LinearProgram(LpRows(lower, upper), entries.columns(costs, top))
        program.solve()
        if not program.has_solution():
            # More nodes must go than may, or nothing else holds their pods: those nodes may stay, but for a price above that of
            # all nodes together. That all nodes stay is a solution.
            costs[:nodes] += np.where(problem.must_go, problem.prices.sum() * DOLLARS, 0.0)
            top[:nodes] = 1.0
            program.set_costs(costs)
            program.set_upper(top)
            program.solve()
        return self._target(program.column_values(), program.row_duals(), rules)

    def _rows(self, rules: TargetRules) -> tuple[Floats, Floats]:
        """Lower and upper bounds of all rows."""
        problem, cells = self.problem, self.cells
        # Each row of the program with its variables on the left: room is Σ fill free stay - Σ request into ≥ -(fill · room that
        # stays anyway), capacity Σ fill capacity machines - Σ request new ≥ 0, and
        # Σ_{n in p} stay ≥ nodes of p - drains[p] says the same as Σ_{n in p} (1 - stay) ≤ drains[p].
        free = np.maximum(problem.group_free, 0) / self._scale * rules.fill
        enough = (problem.counts - problem.host_room)[self._capped]
        lower = [cells.members @ problem.counts, -free.ravel(), np.zeros(len(self.types) * len(self._resource)), enough]
        upper = [np.full(sum(map(len, lower)), UNBOUNDED)]
        if rules.is_gated:
            lower.append(np.full(len(cells.members), -UNBOUNDED))
            upper.append(self._loads[~problem.is_spot].sum(axis=0))
        if len(rules.pools):
            sizes = np.bincount(rules.pools, minlength=len(rules.drains_max))
            lower.append(sizes - rules.drains_max)
            upper.append(np.full(len(sizes), UNBOUNDED))
        return np.concatenate(lower).astype(float), np.concatenate(upper).astype(float)

    def _put_nodes(self, entries: Coefficients, fill: float) -> None:
        """Put the pods of staying nodes, the room that these offer, and the capacity of machines."""
        problem, count = self.problem, len(self._resource)
        # Coefficients of stay[n]: load[n, c] in the row of cell c, and fill · free[n, r] in the room row of the node's group.
        # Of machines[t]: fill · capacity[t, r] in the capacity row (t, r).
        node, cell = np.nonzero(self._loads)
        entries.put(cell, node, self._loads[node, cell].astype(float))
        open_ = np.flatnonzero(problem.room_groups != NO_GROUP)
        rows = self._room_row + problem.room_groups[open_][:, None] * count + self._resource
        entries.put(rows, open_[:, None], np.maximum(problem.free[open_], 0) / self._scale * fill)
        kinds = np.arange(len(self.types))
        rows = self._type_row + kinds[:, None] * count + self._resource
        entries.put(rows, self._starts[1] + kinds[:, None], problem.capacity[self.types] / self._scale * fill)

    def _put_pods(self, entries: Coefficients) -> None:
        """Put the pods that move, into rooms and onto machines."""
        count = len(self._resource)
        # Coefficients of into[c, g] and new[c, t]: one in the row of cell c, -request[c, r] in the row (g, r) or (t, r).
        into, new = np.arange(len(self._into_cell)), np.arange(len(self._new_cell))
        entries.put(self._into_cell, self._starts[2] + into, 1.0)
        rows = self._room_row + self._into_group[:, None] * count + self._resource
        entries.put(rows, self._starts[2] + into[:, None], -self._requests[self._into_cell])
        entries.put(self._new_cell, self._starts[3] + new, 1.0)
        rows = self._type_row + self._new_type[:, None] * count + self._resource
        entries.put(rows, self._starts[3] + new[:, None], -self._requests[self._new_cell])

    def _put_hosts(self, entries: Coefficients) -> None:
        problem = self.problem
        # Row i: Σ_n most[i, n] stay[n] + cap[i] · Σ_{t that i fits} machines[t] ≥ pods of i - their room on other hosts.
        most = problem.hosts(self._capped, problem.host_caps)
        row, node = np.nonzero(most)
        entries.put(self._host_row + row, node, most[row, node].astype(float))
        row, kind = np.nonzero(problem.fits[self._capped][:, self.types])
        entries.put(self._host_row + row, self._starts[1] + kind, problem.host_caps[self._capped][row].astype(float))

    def _put_gate(self, entries: Coefficients, row: int) -> None:
        # Row c: Σ_t new[c, t] + Σ_{n on demand} load[n, c] stay[n] ≤ pods of c on demand, so new machines hold at most the pods
        # that leave on-demand nodes.
        node, cell = np.nonzero(self._loads * ~self.problem.is_spot[:, None])
        entries.put(row + cell, node, self._loads[node, cell].astype(float))
        entries.put(row + self._new_cell, self._starts[3] + np.arange(len(self._new_cell)), 1.0)

    def _target(self, values: Floats, duals: Floats, rules: TargetRules) -> FleetTarget:
        problem, cells, starts = self.problem, self.cells, self._starts
        stay = np.clip(values[: starts[1]], 0, 1)
        by_cell = np.zeros((len(cells.members), problem.group_free.shape[0]))
        by_cell[self._into_cell, self._into_group] = np.maximum(values[starts[2] : starts[3]], 0)
        room_values = np.maximum(duals[self._room_row : self._type_row].reshape(problem.group_free.shape), 0)
        type_values = np.zeros(problem.capacity.shape)
        of_types = duals[self._type_row : self._host_row].reshape(len(self.types), len(self._resource))
        type_values[self.types] = np.maximum(of_types, 0)
        cell_values = np.maximum(duals[: self._room_row], 0)
        shares = self._shares(stay, by_cell.sum(axis=1), is_gated=rules.is_gated)
        into = by_cell[cells.cell] * shares[:, None]
        machines = np.maximum(values[starts[1] : starts[2]], 0)
        cost = float(problem.prices @ stay + problem.type_prices[self.types] @ machines) * DOLLARS
        host_values = np.zeros(len(problem.host_caps))
        host_values[self._capped] = np.maximum(duals[self._host_row : self._host_row + len(self._capped)], 0)
        return FleetTarget(
            cost=cost,
            stay=stay,
            into=into,
            machines=float(machines.sum()),
            cell_values=cell_values,
            room_values=room_values,
            type_values=type_values,
            host_values=host_values,
        )

    def _shares(self, stay: Floats, existing: Floats, *, is_gated: bool) -> Floats:
        """Return [item], its share of its cell's pods in existing room. If spot is gated, pods of spot nodes come first."""
        problem, cells = self.problem, self.cells
        drained = (1 - stay) @ problem.loads
        if not is_gated:
            whole: Floats = drained / np.maximum(cells.members.T @ (cells.members @ drained), 1e-9)
            return whole
        # Of a cell's E pods in existing room, the S pods of spot nodes come first, since they have no other place. Item i gets
        # s_i + max(E - S, 0) · r_i / R, where r_i are its drained pods of other nodes and R those of its cell; its share is
        # 1/E.
        spot = ((1 - stay) * problem.is_spot) @ problem.loads
        rest, first = drained - spot, cells.members @ spot
        more = np.maximum(existing - first, 0)[cells.cell]
        of_rest = np.maximum((cells.members @ rest)[cells.cell], 1e-9)
        gated: Floats = (spot + more * rest / of_rest) / np.maximum(existing[cells.cell], 1e-9)
        return gated


# A lower bound on the cost of kept nodes and new machines for the same pods, by weak duality.


def fleet_bound(problem: FleetProblem, types: Ints) -> int:
    """Return a lower bound on the nano-dollars per hour of the nodes that may go, or of the machines that replace them.

    It assumes that moves are free, that machines and rooms can be filled completely, and that pods can be split. Any node may
    stay, since the pods of a node that must go may find no place. It includes only the rules along hostnames.

    Args:
        problem: The fleet.
        types: The first types; others join while they raise the bound.
    """
    required = np.where(problem.required_host_caps == problem.host_caps, problem.host_caps, 0)
    problem = replace(problem, move_prices=np.zeros_like(problem.prices), must_go=np.zeros_like(problem.must_go),
                      host_caps=required)  # fmt: skip
    cells, best = PodCells.of(problem), 0.0
    requests = cells.least_requests(problem)
    for _ in range(_SETTINGS.rounds_max):
        solution = KeepOrDrain(problem, cells, types, requests).solve(TargetRules(fill=1.0))
        proven, shares = _proven(problem, cells, requests, solution)
        best = max(best, proven)
        joining = np.setdiff1d(np.argsort(shares, kind="stable")[: _SETTINGS.added_types_max], types)
        joining = joining[shares[joining] < 1 - _SETTINGS.bound_slack_relative]
        if not joining.size:
            break
        types = np.union1d(types, joining)
    return max(0, int(best * (1 - _SETTINGS.bound_slack_relative) / DOLLARS))


def _proven(problem: FleetProblem, cells: PodCells, requests: Floats, target: FleetTarget) -> tuple[float, Floats]:
    """Dollars per hour that the values prove, and [type] the least share of a cell's value that its pods pay there.

    Values v of cells, u of room, w of machines and h of hosts prove
    v · pods - u · room + h · (pods - room on other hosts) + Σ_n min(0, price_n - v · load_n - u · free_n - h · hosts_n),
    where v_c ≤ u_g · request_c for every group and v_c ≤ w_t · request_c for every type that admits the cell, and
    w_t · capacity_t + Σ_i h_i cap_i ≤ price_t, over the items i that type t admits.
    """
    scale = problem.scale
    scaled, capacity = requests / scale, problem.capacity / scale
    fits, suits = cells.first(problem.fits), cells.first(problem.group_suits)
    hosts, prices = _host_values(problem, target.host_values)
    # Each type gets the best of the weights w found for any type, scaled to its own price: those with the largest least share.
    weightings = np.unique(target.type_values[target.type_values.any(axis=1)], axis=0)
    values, shares = target.cell_values, np.full(len(prices), -1.0)
    pays = np.full((len(scaled), len(prices)), np.inf)
    for weights in weightings:
        total = capacity @ weights
        factor = prices / np.maximum(
            total, 1e-300
        )  # what needs nothing of a resource that a type lacks pays nothing for it
        paid = np.where(fits, (scaled @ weights)[:, None] * factor, np.inf)
        least = (paid / np.maximum(values, 1e-12)[:, None]).min(axis=0, initial=np.inf)
        better = least > shares
        shares[better], pays[:, better] = least[better], paid[:, better]
    pays = np.where(fits & (shares < 0)[None, :], 0.0, pays)
    into = np.where(suits, scaled @ target.room_values.T, np.inf)
    # For cells that fit nowhere else, limit is infinite: any value is feasible, so the program's value is used.
    limit = np.minimum(pays.min(axis=1, initial=np.inf), into.min(axis=1, initial=np.inf))
    values = np.minimum(values, limit)
    loads = problem.loads @ cells.members.T
    capped = np.flatnonzero(hosts)
    of_hosts = problem.hosts(capped, problem.host_caps).T @ hosts[capped]
    reduced = problem.prices * DOLLARS - loads @ values - free_room_worth(problem, target.room_values) - of_hosts
    room = (np.maximum(problem.group_free, 0) / scale * target.room_values).sum()
    spread = float(hosts @ (problem.counts - problem.host_room))
    proven = float(values @ (cells.members @ problem.counts) - room + spread + np.minimum(reduced, 0).sum())
    return proven, shares


def _host_values(problem: FleetProblem, host_values: Floats) -> tuple[Floats, Floats]:
    """[item], values of hosts that leave every type's price nonnegative, and [type], the rest of its price."""
    # A machine of type t hosts cap[i] pods of each item i that it fits, worth Σ_i h[i] cap[i]. Scaling h by
    # min(1, min_t price[t] / Σ_i h[i] cap[i]) leaves price[t] - Σ_i h[i] cap[i] ≥ 0 of every type's price.
    prices = problem.type_prices * DOLLARS
    values = np.where(problem.counts > problem.host_room, host_values, 0.0)
    worth = (values * problem.host_caps) @ problem.fits
    share = float((prices / np.maximum(worth, 1e-300)).min(initial=1.0))
    return values * share, np.maximum(prices - worth * share, 0.0)


# Chooses the machine types that the keep-or-drain program may buy: those that the relaxation buys, and the next best.


def promising(problem: PackingProblem, fluid: FluidSolution) -> Ints:
    """Return the types that the relaxation buys, and for each set of types that admit the same pods the best ones.

    The best have the most value for their price, the lowest price, or the lowest price per unit of CPU or memory.
    """
    bought = np.flatnonzero(fluid.machines > 1e-6)
    # ratio[t] = max_i fit[i, t] · value[i] / price[t]: what a machine full of the best item is worth for its price.
    value_per_price = (problem.fit * fluid.item_values[:, None]).max(axis=0) / np.maximum(problem.prices, 1)
    near: list[Ints] = [bought]
    patterns, pattern = np.unique(problem.allowed.T, axis=0, return_inverse=True)
    for number in range(len(patterns)):
        same = np.flatnonzero(pattern.ravel() == number)
        near.append(same[np.argsort(-value_per_price[same], kind="stable")[: _SETTINGS.next_best_types]])
        near.append(same[np.argsort(problem.prices[same], kind="stable")[:1]])
        for resource in range(min(2, problem.capacity.shape[1])):
            unit_prices = problem.prices[same] / np.maximum(problem.capacity[same, resource], 1)
            near.append(same[np.argsort(unit_prices, kind="stable")[: _SETTINGS.cheapest_types]])
    return np.unique(np.concatenate(near)).astype(np.int64)


# Chooses nodes to keep for pods that find no place elsewhere: a greedy set cover.


def covering(
    problem: FleetProblem, missing: Ints, may_cover: Bools, *, counts_room: bool, settings: TargetSettings
) -> Bools:
    """Return [node], the nodes to keep: those with most of the missing pods for the lowest price.

    Args:
        problem: The fleet.
        missing: [item], pods without a place.
        may_cover: [node], the nodes to choose from.
        counts_room: Whether a chosen node's free room takes missing pods of others, too. Rules that the problem does not know
            may forbid it, so another choice may have to follow.
        settings: The price that is added to each node's.
    """
    chosen, missing = np.zeros_like(may_cover), missing.copy()
    while missing.any():
        # The node with the most missing pods per price, Σ_i min(load[n, i], missing[i]) / price[n].
        covers = np.minimum(problem.loads, missing).sum(axis=1) * (may_cover & ~chosen)
        best = int(np.argmax(covers / (problem.prices + settings.cover_price)))
        if not covers[best]:
            break
        chosen[best] = True
        missing -= np.minimum(problem.loads[best], missing)
        if counts_room and problem.room_groups[best] != NO_GROUP:
            missing -= _taken(problem, best, missing)
    return chosen


def _taken(problem: FleetProblem, node: int, missing: Ints) -> Ints:
    """Return [item], how many of the missing pods fit into a node's free room, those with the largest requests first."""
    taken, free = np.zeros_like(missing), np.maximum(problem.free[node], 0)
    share = (problem.requests / problem.scale).max(axis=1)
    suits = problem.group_suits[:, problem.room_groups[node]]
    for item in np.argsort(-share, kind="stable"):
        if not missing[item] or not suits[item]:
            continue
        request = problem.requests[item]
        requested = request > 0
        places = int((free[requested] // request[requested]).min(initial=missing[item]))
        if problem.host_caps[item]:
            places = min(places, max(0, int(problem.host_caps[item] - problem.loads[node, item])))
        taken[item] = min(places, int(missing[item]))
        free = free - taken[item] * request
    return taken


# Puts whole pods into the free room of nodes that stay, following the shares of the keep-or-drain program.
#
# First fit fills CPU and strands memory. Here a pod goes to the node whose free room is most like what it requests, so that
# both run out together (the measure of likeness is the cosine, over resources scaled by a typical amount).


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
        node_slots: list[NodeSlots] = []
        for item in largest[is_capped[largest]]:  # as many pods as new hosts cannot take
            here = self._open_hosts(int(item))
            many = max(int(wanted[item].sum()), int(self._drained[item] - problem.host_caps[item] * machines))
            node_slots += self._put(int(item), many, here, -1.0, once=True)
        members = [np.flatnonzero(rooms.groups == group) for group in range(into.shape[1])]
        free = largest[~is_capped[largest]]
        first = self._in_turn(wanted, np.where(is_capped, 0, self._bound))
        node_slots += self._fill(free, first, members)
        for item in free:  # what has no other place, wherever there is room
            here = np.flatnonzero((rooms.groups >= 0) & rooms.suits[item])
            node_slots += self._put(int(item), int(self._bound[item] - (self._drained - self._left)[item]), here, -1.0)
        node_slots += self._fill(free, wanted - first, members)
        for alike in _SETTINGS.likeness_min:
            for item in largest[(self._left[largest] > 0) & ~is_capped[largest]]:
                here = np.flatnonzero((rooms.groups >= 0) & rooms.suits[item])
                node_slots += self._put(int(item), int(self._left[item]), here, alike)
        return node_slots

    def _fill(self, items: Ints, wanted: Ints, members: list[Ints]) -> list[NodeSlots]:
        """Return slots in groups of nodes; `wanted` is [item, group]."""
        node_slots: list[NodeSlots] = []
        for item in items:
            for group in np.flatnonzero(wanted[item]):
                here = members[group][self._rooms.suits[item, members[group]]]
                node_slots += self._put(int(item), int(wanted[item, group]), here, -1.0)
        return node_slots

    def _in_turn(self, wanted: Ints, most: Ints) -> Ints:
        """[item, group], as much of `wanted` as `most` of each item allows, group by group."""
        # taken[i, g] = clip(most[i] - Σ_{h < g} wanted[i, h], 0, wanted[i, g]).
        before = np.cumsum(wanted, axis=1) - wanted
        taken: Ints = np.clip(most[:, None] - before, 0, wanted)
        return taken

    def _open_hosts(self, item: int) -> Ints:
        """Nodes where a rule along hostnames admits one more pod of the item."""
        rooms, cap = self._rooms, int(self._problem.host_caps[item])
        is_open: Bools = (rooms.groups >= 0) & rooms.suits[item]
        is_open[[node for node, pods in rooms.present[item].items() if pods >= cap]] = False
        hosts: Ints = is_open.nonzero()[0]
        return hosts

    def _put(self, item: int, pods: int, here: Ints, alike: float, *, once: bool = False) -> list[NodeSlots]:
        """Put pods of an item on the nodes whose free room is most like their requests; `once`: one pod per node."""
        # Nodes come by the cosine between their free room f and the request q, (f · q) / (|f| |q|), less a weight times |f|, so
        # that fuller nodes come first. Each round puts pods on a third of the nodes, then compares again: rooms have changed.
        pods, slots = min(pods, int(self._left[item])), list[NodeSlots]()
        if pods <= 0 or not here.size:
            return slots
        request = self._problem.requests[item]
        requested = request.nonzero()[0]
        wanted = request[requested]
        unit = self._shape(request[None, :])[0]
        unit = unit / max(math.sqrt(unit @ unit), 1e-9)
        while pods > 0 and here.size:
            # Only nodes that are chosen are asked how many pods they hold: divisions take most of the time.
            here = here[(self._free[here][:, requested] >= wanted).all(axis=1)]
            free = self._free[here]
            shape = self._shape(free)
            size = np.maximum(np.sqrt((shape * shape).sum(axis=1)), 1e-9)
            like = (shape @ unit) / size
            near = (like >= alike).nonzero()[0]
            if not near.size:
                break
            most = pods if once else min(pods, len(near) // 3 + 1)
            best = near[np.argsort(_SETTINGS.fullness_weight * size[near] - like[near], kind="stable")[: max(1, most)]]
            places = _places(free[best][:, requested], wanted)
            amounts = _cut(np.minimum(places, 1 if once else max(1, pods // (2 * len(best)))), pods)
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
    """Return [place], how many pods of this request fit into each free room ([place, requested resource])."""
    if not request.size:
        return np.full(len(free), np.iinfo(np.int32).max, dtype=np.int64)
    places: Ints = (free // request).min(axis=1).astype(np.int64)
    return places


def _cut(amounts: Ints, pods: int) -> Ints:
    """Return the first of these positive amounts, cut off where their running sum reaches `pods`."""
    sums = amounts.cumsum()
    full = int(sums.searchsorted(pods))
    if full == len(amounts):
        return amounts
    cut_amounts: Ints = amounts[: full + 1].copy()
    cut_amounts[full] -= sums[full] - pods
    return cut_amounts


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
