"""The answer of `diff`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer, PricesAnswer


class SideAnswer(msgspec.Struct, kw_only=True):
    """One side of a difference: dollars, nodes that run or are launched, pods without a place."""

    hourly: float
    monthly: float
    nodes: int
    unschedulable: list[str]


class DriftAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A node that is removed because of the change."""

    node: str
    node_pool: str
    reason: str


class DifferenceAnswer(JsonAnswer):
    """`fleetwright diff -o json`."""

    kind: Literal["Difference"]
    before: SideAnswer
    after: SideAnswer
    pods_lost: list[str]
    pods_gained: list[str]
    nodes_drifted: list[DriftAnswer]
    prices: PricesAnswer
