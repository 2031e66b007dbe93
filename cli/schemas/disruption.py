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
    """Nodes that go together, and what must be there first; savings in dollars an hour.

    `paybackMinutes`: when they have paid for the move; null where a node goes whatever it costs.
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
    """A node that stays; `reason` is one of the documented codes, `savings` dollars an hour of a later wave with it."""

    node: str
    reason: str
    message: str
    savings: float = 0.0
    page: str = ""


class DisruptionCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Dollars an hour of all our nodes."""

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
