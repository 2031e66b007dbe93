"""The keep-or-drain program again, pod by pod and row by row, without cells and scales: for fleets of a few nodes."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from core.packing.fleet_target import NO_GROUP, FleetProblem, FleetTarget, TargetRules
from core.packing.problem import LinearProgram, LpColumns, LpRows

Row = tuple[dict[Hashable, float], float]
"""Coefficients by variable, and what they must add up to at least."""


def objective(fleet: FleetProblem, found: FleetTarget, rules: TargetRules) -> float:
    """What a solution costs in dollars per hour, with the discount of running nodes and the price of moves."""
    discount, moves = rules.keep_discount * fleet.prices @ found.stay, fleet.move_prices @ (1 - found.stay)
    return float(found.cost + (moves - discount) / 1e9)


def least_objective(fleet: FleetProblem, rules: TargetRules) -> float | None:
    """The least objective of any solution; None if there is none."""
    prices: dict[Hashable, float] = {}
    for node, price in enumerate(fleet.prices):
        prices["stay", node] = price * (1 - rules.keep_discount) - fleet.move_prices[node]
    for kind, price in enumerate(fleet.type_prices):
        prices["machines", kind] = float(price)
    for item in range(len(fleet.requests)):
        prices |= {("into", item, group): 0.0 for group in np.flatnonzero(fleet.group_suits[item]).tolist()}
        prices |= {("new", item, kind): 0.0 for kind in np.flatnonzero(fleet.fits[item]).tolist()}
    rows = [*_stays(fleet), *_pods(fleet), *_room(fleet, rules), *_hosts(fleet)]
    rows += [*(_gate(fleet) if rules.is_gated else ()), *_drains(fleet, rules)]
    names = list(prices)
    matrix = np.array([[coefficients.get(name, 0.0) for coefficients, _ in rows] for name in names])
    costs = np.array(list(prices.values())) / 1e9
    program = LinearProgram(LpRows.at_least(np.array([least for _, least in rows])), LpColumns.dense(costs, matrix))
    program.solve()
    moves = fleet.move_prices.sum() / 1e9
    return float(costs @ program.column_values() + moves) if program.has_solution() else None


def _stays(fleet: FleetProblem) -> list[Row]:
    """A node stays at most once, and not at all where it must go."""
    return [({("stay", node): -1.0}, 0.0 if must else -1.0) for node, must in enumerate(fleet.must_go)]


def _pods(fleet: FleetProblem) -> list[Row]:
    """Every pod stays on its node, moves into a room or onto a new machine."""
    rows: list[Row] = []
    for item in range(len(fleet.requests)):
        places: dict[Hashable, float] = {("stay", node): float(load) for node, load in enumerate(fleet.loads[:, item])}
        places |= {("into", item, group): 1.0 for group in range(len(fleet.group_free))}
        places |= {("new", item, kind): 1.0 for kind in range(len(fleet.type_prices))}
        rows.append((places, float(fleet.loads[:, item].sum())))
    return rows


def _room(fleet: FleetProblem, rules: TargetRules) -> list[Row]:
    """Pods take no more of a resource than the filled share of what nodes and machines offer."""
    rows: list[Row] = []
    items = range(len(fleet.requests))
    for resource in range(fleet.requests.shape[1]):
        for group, free in enumerate(fleet.group_free[:, resource]):
            offered: dict[Hashable, float] = {
                ("stay", node): rules.fill * max(0, int(fleet.free[node, resource]))
                for node in np.flatnonzero(fleet.room_groups == group).tolist()
            }
            taken = {("into", item, group): -float(fleet.requests[item, resource]) for item in items}
            rows.append((offered | taken, -rules.fill * float(free)))
        for kind, capacity in enumerate(fleet.capacity[:, resource]):
            taken = {("new", item, kind): -float(fleet.requests[item, resource]) for item in items}
            rows.append(({("machines", kind): rules.fill * float(capacity)} | taken, 0.0))
    return rows


def _hosts(fleet: FleetProblem) -> list[Row]:
    """Pods with a cap have as many hosts as it asks for: nodes that keep their own or take up to the cap, and machines."""
    rows: list[Row] = []
    for item in np.flatnonzero(fleet.host_caps).tolist():
        cap, hosts = float(fleet.host_caps[item]), dict[Hashable, float]()
        for node, group in enumerate(fleet.room_groups):
            takes = group != NO_GROUP and fleet.group_suits[item, group]
            hosts["stay", node] = max(float(fleet.loads[node, item]), cap if takes else 0.0)
        hosts |= {("machines", kind): cap for kind in np.flatnonzero(fleet.fits[item]).tolist()}
        rows.append((hosts, float(fleet.loads[:, item].sum() - fleet.host_room[item])))
    return rows


def _gate(fleet: FleetProblem) -> list[Row]:
    """New machines take no more pods of an item than leave on-demand nodes."""
    rows: list[Row] = []
    for item in range(len(fleet.requests)):
        on_demand = {node: float(fleet.loads[node, item]) for node in np.flatnonzero(~fleet.is_spot).tolist()}
        taken: dict[Hashable, float] = {("new", item, kind): -1.0 for kind in range(len(fleet.type_prices))}
        taken |= {("stay", node): -load for node, load in on_demand.items()}
        rows.append((taken, -sum(on_demand.values())))
    return rows


def _drains(fleet: FleetProblem, rules: TargetRules) -> list[Row]:
    """No more nodes of a pool go than may."""
    rows: list[Row] = []
    for pool, most in enumerate(rules.drains_max):
        nodes = np.flatnonzero(rules.pools == pool).tolist()
        rows.append(({("stay", node): 1.0 for node in nodes}, len(nodes) - float(most)))
    return rows
