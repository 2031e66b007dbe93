"""Chooses nodes to keep for pods that find no place elsewhere: a greedy set cover."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Bools, Ints
from core.packing.size_settings import TargetSettings
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem


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
        asked = request > 0
        places = int((free[asked] // request[asked]).min(initial=missing[item]))
        if problem.host_caps[item]:
            places = min(places, max(0, int(problem.host_caps[item] - problem.loads[node, item])))
        taken[item] = min(places, int(missing[item]))
        free = free - taken[item] * request
    return taken
