"""Which nodes of a fleet stay, as the keep-or-drain program solves it: shares of nodes and machines, and what room is worth."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from core.packing.problem import Bools, Floats
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem

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
