"""Fleets as arrays, small enough to check by hand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from core.packing.fleet_target import FleetProblem

DOLLAR: Final = 10**9


def a_fleet(
    loads: list[list[int]], *, free: list[int], prices: list[float], machines: dict[int, float], **changes: Any
) -> FleetProblem:
    """Nodes that may go, all of one room group; every pod takes one unit of one resource.

    Args:
        loads: [node][item], pods.
        free: [node], room beside its pods.
        prices: [node], dollars per hour.
        machines: Size of a new machine → its price in dollars per hour.
        **changes: Attributes with other values.
    """
    nodes, items = len(loads), len(loads[0])
    fleet = FleetProblem(
        prices=_nano(prices),
        move_prices=np.zeros(nodes, dtype=np.int64),
        must_go=np.zeros(nodes, dtype=bool),
        is_spot=np.zeros(nodes, dtype=bool),
        loads=np.array(loads, dtype=np.int64),
        free=np.array(free, dtype=np.int64)[:, None],
        room_groups=np.zeros(nodes, dtype=np.int64),
        requests=np.ones((items, 1), dtype=np.int64),
        host_caps=np.zeros(items, dtype=np.int64),
        required_host_caps=np.zeros(items, dtype=np.int64),
        host_room=np.zeros(items, dtype=np.int64),
        group_suits=np.ones((items, 1), dtype=bool),
        group_free=np.zeros((1, 1), dtype=np.int64),
        capacity=np.array(list(machines), dtype=np.int64)[:, None],
        type_prices=_nano(list(machines.values())),
        fits=np.ones((items, len(machines)), dtype=bool),
    )
    return replace(fleet, **changes)


def _nano(dollars: list[float]) -> Any:
    return np.array([round(amount * DOLLAR) for amount in dollars], dtype=np.int64)
