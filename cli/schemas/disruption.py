"""The answer of `consolidate`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer, PricesAnswer
from cli.schemas.plan import NewNodeAnswer, TimingAnswer


class MoveAnswer(msgspec.Struct, kw_only=True):
    """A pod's new place: an existing node or a replacement."""

    pod: str
    to: str


class CommandAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Nodes that are removed together, and the replacements that must be ready first; savings in dollars an hour.

    `paybackMinutes`: minutes after which the savings cover the move; null if the nodes are removed at any cost.
    """

    reason: str
    method: str
    nodes: list[str]
    replacements: list[NewNodeAnswer]
    moves: list[MoveAnswer]
    savings: float
    payback_minutes: int | None
    wave: int


class BlockedAnswer(msgspec.Struct, kw_only=True):
    """A node that stays; `reason` is a documented code, `savings` what a later wave with it saves, in dollars an hour."""

    node: str
    reason: str
    message: str
    savings: float = 0.0
    page: str = ""


class DisruptionCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Cost of all our nodes in dollars an hour."""

    before: float
    after: float
    lower_bound: float | None


class DisruptionPlanAnswer(JsonAnswer):
    """`fleetwright consolidate -o json`. Commands are in the order in which they are carried out."""

    kind: Literal["DisruptionPlan"]
    now: str
    commands: list[CommandAnswer]
    blocked: list[BlockedAnswer]
    budgets: dict[str, dict[str, int | None]]
    cost: DisruptionCostAnswer
    timing: TimingAnswer
    prices: PricesAnswer
