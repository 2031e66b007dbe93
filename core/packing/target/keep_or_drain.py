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

from typing import Final

import msgspec
import numpy as np

from core.packing.lp import UNBOUNDED, Coefficients, LinearProgram, LpRows
from core.packing.problem import Floats, Ints
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem, PodCells
from core.packing.target.fleet_target import DOLLARS, FleetTarget

_SETTINGS: Final = DEFAULT_SETTINGS.target


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
        own = np.maximum(problem.group_free, 0) / self._scale * rules.fill
        enough = (problem.counts - problem.host_room)[self._capped]
        lower = [cells.members @ problem.counts, -own.ravel(), np.zeros(len(self.types) * len(self._resource)), enough]
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
