"""Tracks which part of its NodePool's limits and budgets a leaving claim still holds.

The disrupted taint frees the claim's share of the limits and starts terminationGracePeriod. The request to terminate the
instance frees its place in the budgets (docs/adr/0026).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core.lifecycle.draining.cancellation import VOLUNTARY, is_voluntary
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.model.node_claim import Hold
from core.model.values import resources
from core.reasons.termination import RECLAIMED, TerminationReason


def leaving(
    record: ClaimRecord, reason: TerminationReason, message: str, now: datetime, ends_at: datetime | None = None
) -> ClaimRecord:
    """Return the claim, marked for termination. Its node counts in the budgets if it was ever initialized (Karpenter)."""
    return msgspec.structs.replace(
        record,
        deletion=Deletion(
            reason=reason,
            message=message,
            asked_at=now,
            ends_at=ends_at,
            reclaimed_at=ends_at if reason in RECLAIMED else None,
        ),
        is_disrupting=record.is_disrupting or record.phase is ClaimPhase.INITIALIZED,
    )


def expedited(record: ClaimRecord, reason: TerminationReason, message: str, ends_at: datetime | None) -> ClaimRecord:
    """Return a leaving claim with a mandatory or more urgent reason; the same object if nothing changes.

    If its drain may have begun, it does not wait for replacements, even if the instance's end becomes known now. That EC2 takes
    the instance, and when, is kept in any case: its pods that may not be evicted need a node until then (docs/adr/0265).
    """
    deletion = record.deletion
    if deletion is None or deletion.terminated_at is not None:
        return record
    must = is_voluntary(deletion) and reason not in VOLUNTARY
    sooner = ends_at is not None and deletion.ends_at is not None and ends_at < deletion.ends_at
    announced = [end for end in (reclaimed_at(record), ends_at if reason in RECLAIMED else None) if end is not None]
    reclaimed = min(announced, default=None)
    if must or sooner:
        waits = deletion.tainted_at is None or sooner
        deletion = msgspec.structs.replace(
            deletion, reason=reason, message=message, ends_at=ends_at if waits else deletion.ends_at
        )
    elif reclaimed == reclaimed_at(record):
        return record
    return msgspec.structs.replace(record, deletion=msgspec.structs.replace(deletion, reclaimed_at=reclaimed))


def reclaimed_at(record: ClaimRecord) -> datetime | None:
    """Return when EC2 takes the claim's instance, whatever protects its pods; None if that is not announced."""
    deletion = record.deletion
    if deletion is None:
        return None
    return deletion.reclaimed_at or (deletion.ends_at if deletion.reason in RECLAIMED else None)


def tainted(record: ClaimRecord, now: datetime) -> ClaimRecord:
    """Return the claim after its node got the disrupted taint; the time of the first call counts."""
    deletion, grace = record.deletion, record.plan.termination_grace_period
    if deletion is not None and deletion.tainted_at is None:
        deletion = msgspec.structs.replace(deletion, tainted_at=now)
        deadline = deletion.deadline or (deletion.begun_at + grace if grace is not None else None)
        deletion = msgspec.structs.replace(deletion, deadline=deadline)
    return msgspec.structs.replace(record, deletion=deletion, reserved={})


def emptied(record: ClaimRecord, now: datetime) -> ClaimRecord:
    """Return the claim after its pods have left and only volumes keep its node: a drain with progress is not escalated."""
    deletion = record.deletion and msgspec.structs.replace(
        record.deletion, emptied_at=now, escalation_level=0, held_since_progress=timedelta(0)
    )
    return msgspec.structs.replace(record, deletion=deletion)


def is_draining(record: ClaimRecord) -> bool:
    """Whether the drain of the claim's node has begun and is not over."""
    deletion = record.deletion
    return deletion is not None and deletion.tainted_at is not None and deletion.terminated_at is None


def is_stopped(record: ClaimRecord) -> bool:
    """Whether a brake stopped the drain when the claim was last checked; its time under the brake does not count yet."""
    return is_draining(record) and record.deletion is not None and record.deletion.held_at is not None


def with_clock(record: ClaimRecord, now: datetime, *, is_held: bool) -> ClaimRecord:
    """Return the claim with the clock of its drain stopped while a brake holds the drain.

    The deadline moves by the time under the brake. Otherwise, all pods would be forced off all such nodes when a brake is
    released after the deadline. The time counts for no pod's share of terminationGracePeriod, no drain is escalated for it, and
    an expired node waits longer for replacements, which a brake may keep from being launched.
    """
    deletion = record.deletion
    if deletion is None or is_held == (deletion.held_at is not None):
        return record
    if deletion.held_at is None:
        return msgspec.structs.replace(record, deletion=msgspec.structs.replace(deletion, held_at=now))
    held = max(timedelta(0), now - deletion.held_at)
    idle = max(timedelta(0), now - max(deletion.held_at, progress_at(deletion)))
    is_expired = deletion.reason == TerminationReason.EXPIRED  # AWS sets the end of the others
    deletion = msgspec.structs.replace(
        deletion,
        deadline=None if deletion.deadline is None else deletion.deadline + held,
        ends_at=deletion.ends_at + held if deletion.ends_at and is_expired else deletion.ends_at,
        held_at=None,
        held_for=deletion.held_for + held,
        held_since_progress=deletion.held_since_progress + idle,
    )
    return msgspec.structs.replace(record, deletion=deletion)


def progress_at(deletion: Deletion) -> datetime:
    """Return when the drain last made progress: when a pod left, or when only volumes were first seen to keep the node."""
    moments = (deletion.tainted_at, deletion.evicted_at, deletion.emptied_at)
    return max((moment for moment in moments if moment is not None), default=deletion.asked_at)


def terminated(record: ClaimRecord, now: datetime) -> ClaimRecord:
    """Return the claim after EC2 was asked to terminate its instance; the time of the last call counts."""
    deletion = record.deletion and msgspec.structs.replace(record.deletion, terminated_at=now)
    return msgspec.structs.replace(record, deletion=deletion, reserved={}, is_disrupting=False)


def untainted(record: ClaimRecord) -> ClaimRecord:
    """Return the claim of a node that stays and is about to lose its taint: it holds its share of the limits again."""
    if record.machine is None or record.reserved:
        return record
    return msgspec.structs.replace(record, reserved=resources.add(record.machine.capacity, {"nodes": 1}))


def drain_cancelled(record: ClaimRecord, hold: Hold) -> ClaimRecord:
    """Return the claim with its drain cancelled: it holds its share of the limits again and has a `hold`."""
    stays = msgspec.structs.replace(
        record, deletion=None, is_disrupting=False, hold=hold, cancelled_drains=record.cancelled_drains + 1
    )
    return untainted(stays)


def staying(record: ClaimRecord) -> ClaimRecord:
    """Return the claim after its node lost its taint: it no longer counts against the budgets."""
    return msgspec.structs.replace(untainted(record), is_disrupting=False)
