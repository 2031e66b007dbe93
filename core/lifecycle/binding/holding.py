"""Decides how long a node is held: until none of its pods waits for a turn, or no further turn can come."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from core.lifecycle.records import ClaimRecord

HOLD_AT_MOST: Final = timedelta(minutes=1)
"""The longest hold after a node's first turn. The slowest node of a plan joins within a minute of the first, or hardly ever."""

QUIET_FOR: Final = timedelta(seconds=3)
"""After this long without a binding of the plan, no further turn is expected; turns are a second apart."""


def plan_stamp(record: ClaimRecord) -> str:
    """Return the part that all claim names of one plan share: the stamp of the lease under which they were requested."""
    return record.name.rpartition("-")[0].rpartition("-")[2]


def is_hold_over(record: ClaimRecord, now: datetime) -> bool:
    """Whether the node has been held for the longest allowed time."""
    since = record.moments.usable_at
    return since is not None and now - since >= HOLD_AT_MOST


def may_have_a_turn(record: ClaimRecord, records: Iterable[ClaimRecord], now: datetime) -> bool:
    """Whether waiting pods of the claim may still be bound: other nodes of its plan have yet to join, or just took a pod."""
    stamp = plan_stamp(record)
    others = [other for other in records if other.deletion is None and plan_stamp(other) == stamp]
    return any(_comes(other, now) or _was_bound_to(other, now) for other in others)


def _comes(record: ClaimRecord, now: datetime) -> bool:
    """Whether the claim's node has not had its turn yet."""
    if record.is_bound or record.initialized_at is not None:
        return False
    since = record.moments.usable_at
    return since is None or now - since < QUIET_FOR


def _was_bound_to(record: ClaimRecord, now: datetime) -> bool:
    return record.moments.bound_at is not None and now - record.moments.bound_at < QUIET_FOR
