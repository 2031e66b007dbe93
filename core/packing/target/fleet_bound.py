"""A lower bound on the cost of kept nodes and new machines for the same pods, by weak duality."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec.structs import replace

from core.packing.problem import Floats, Ints
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import FleetProblem, PodCells
from core.packing.target.fleet_target import DOLLARS, FleetTarget, free_room_worth
from core.packing.target.keep_or_drain import KeepOrDrain, TargetRules

_SETTINGS: Final = DEFAULT_SETTINGS.target


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
        found = KeepOrDrain(problem, cells, types, requests).solve(TargetRules(fill=1.0))
        proven, shares = _proven(problem, cells, requests, found)
        best = max(best, proven)
        joining = np.setdiff1d(np.argsort(shares, kind="stable")[: _SETTINGS.added_types_max], types)
        joining = joining[shares[joining] < 1 - _SETTINGS.bound_slack_relative]
        if not joining.size:
            break
        types = np.union1d(types, joining)
    return max(0, int(best * (1 - _SETTINGS.bound_slack_relative) / DOLLARS))


def _proven(problem: FleetProblem, cells: PodCells, requests: Floats, found: FleetTarget) -> tuple[float, Floats]:
    """Dollars per hour that the values prove, and [type] the least share of a cell's value that its pods pay there.

    Values v of cells, u of room, w of machines and h of hosts prove
    v · pods - u · room + h · (pods - room on other hosts) + Σ_n min(0, price_n - v · load_n - u · free_n - h · hosts_n),
    where v_c ≤ u_g · request_c for every group and v_c ≤ w_t · request_c for every type that admits the cell, and
    w_t · capacity_t + Σ_i h_i cap_i ≤ price_t, over the items i that type t admits.
    """
    scale = problem.scale
    asked, capacity = requests / scale, problem.capacity / scale
    fits, suits = cells.first(problem.fits), cells.first(problem.group_suits)
    hosts, prices = _host_values(problem, found.host_values)
    # Each type gets the best of the weights w found for any type, scaled to its own price: those with the largest least share.
    known = np.unique(found.type_values[found.type_values.any(axis=1)], axis=0)
    values, shares = found.cell_values, np.full(len(prices), -1.0)
    pays = np.full((len(asked), len(prices)), np.inf)
    for weights in known:
        total = capacity @ weights
        factor = prices / np.maximum(
            total, 1e-300
        )  # what needs nothing of a resource that a type lacks pays nothing for it
        paid = np.where(fits, (asked @ weights)[:, None] * factor, np.inf)
        least = (paid / np.maximum(values, 1e-12)[:, None]).min(axis=0, initial=np.inf)
        better = least > shares
        shares[better], pays[:, better] = least[better], paid[:, better]
    pays = np.where(fits & (shares < 0)[None, :], 0.0, pays)
    into = np.where(suits, asked @ found.room_values.T, np.inf)
    # For cells that fit nowhere else, limit is infinite: any value is feasible, so the program's value is used.
    limit = np.minimum(pays.min(axis=1, initial=np.inf), into.min(axis=1, initial=np.inf))
    values = np.minimum(values, limit)
    loads = problem.loads @ cells.members.T
    capped = np.flatnonzero(hosts)
    of_hosts = problem.hosts(capped, problem.host_caps).T @ hosts[capped]
    reduced = problem.prices * DOLLARS - loads @ values - free_room_worth(problem, found.room_values) - of_hosts
    room = (np.maximum(problem.group_free, 0) / scale * found.room_values).sum()
    spread = float(hosts @ (problem.counts - problem.host_room))
    proven = float(values @ (cells.members @ problem.counts) - room + spread + np.minimum(reduced, 0).sum())
    return proven, shares


def _host_values(problem: FleetProblem, found: Floats) -> tuple[Floats, Floats]:
    """[item], values of hosts that leave every type's price nonnegative, and [type], the rest of its price."""
    # A machine of type t hosts cap[i] pods of each item i that it fits, worth Σ_i h[i] cap[i]. Scaling h by
    # min(1, min_t price[t] / Σ_i h[i] cap[i]) leaves price[t] - Σ_i h[i] cap[i] ≥ 0 of every type's price.
    prices = problem.type_prices * DOLLARS
    values = np.where(problem.counts > problem.host_room, found, 0.0)
    worth = (values * problem.host_caps) @ problem.fits
    share = float((prices / np.maximum(worth, 1e-300)).min(initial=1.0))
    return values * share, np.maximum(prices - worth * share, 0.0)
