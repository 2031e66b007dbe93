"""The answers about recorded periods."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


class PlayAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A played period: dollars, node hours, launches, moves; `podsOnNewNodes` waited for a boot."""

    dollars: float
    monthly: float
    node_hours: float
    nodes_launched: int
    moves: int
    pods_on_new_nodes: int
    unplaced: list[str]
    nodes_at_end: int
    commands: dict[str, int]
    by_node_pool: dict[str, float]


class PlayDifferenceAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What the change does; `share` of the dollars before, null where these are none."""

    dollars: float
    monthly: float
    share: float | None
    moves: int
    pods_lost: list[str]
    pods_gained: list[str]


class RecordedAnswer(msgspec.Struct, kw_only=True):
    """What the real nodes cost at the looks' prices."""

    dollars: float


class WhatIfAnswer(JsonAnswer):
    """`fleetwright what-if -o json`. `modelError`: how far the play of what was asked for then is from the recorded dollars."""

    kind: Literal["WhatIf"]
    from_: str = msgspec.field(name="from")
    to: str
    looks: int
    recorded: RecordedAnswer
    model_error: float | None
    before: PlayAnswer
    after: PlayAnswer
    difference: PlayDifferenceAnswer
    assumptions: list[str]
