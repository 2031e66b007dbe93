"""How many nodes of a NodePool drift may replace now, besides what budgets say."""

from __future__ import annotations

import msgspec


class RolloutGate(msgspec.Struct, frozen=True):
    """`allowed` nodes with pods may go for drift; where that is fewer than there are, `message` says why."""

    allowed: int
    message: str
    is_stopped: bool = False
