"""What disruption moved recently: drained nodes, and workloads that consolidation therefore does not move again yet."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.model.pod import Pod

DWELL: Final = timedelta(minutes=15)
"""How long consolidation does not move a moved pod again."""


class EvictedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a command drains or has drained.

    Attributes:
        pods: How many pods need a new place because of the drain.
        at: When the drain began.
    """

    node_pool: str
    pods: int
    at: datetime


class MovedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """One workload (`namespace/Kind/name` of the object that creates its pods).

    Attributes:
        moving_since: When its pods were first moved in the recent series of moves; pods that started earlier were not moved.
        moved_at: When its pods were last moved.
        unpaid_moves: How often in a row nodes had to be launched for pods that consolidation had moved.
        held_until: Until when consolidation moves none of its pods, None without unpaid moves.
    """

    name: str
    moving_since: datetime
    moved_at: datetime
    unpaid_moves: int = msgspec.field(default=0, name="regrets")  # rows and ledgers have this name
    held_until: datetime | None = None

    @property
    def settles_at(self) -> datetime:
        """When none of its pods counts as moved any more, unless more are moved before."""
        return self.moved_at + DWELL

    def keeps(self, pod: Pod, now: datetime) -> str:
        """Return why consolidation must not move a pod of the workload now, empty if it may."""
        if self.held_until is not None and now < self.held_until:
            return (
                f"pod {pod.key} stays until {self.held_until:%Y-%m-%dT%H:%M:%SZ}: "
                f"when pods of {self.name} were moved last, new nodes were launched for them"
            )
        started = pod.started_at or pod.created_at
        if started is not None and started >= self.moving_since and now < self.settles_at:
            return f"pod {pod.key} was moved a while ago and stays until {self.settles_at:%Y-%m-%dT%H:%M:%SZ}"
        return ""
