"""Records the launch and the end of instances in the ledger, from which reports count hours."""

from __future__ import annotations

from datetime import datetime

from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from core.lifecycle.records import ClaimRecord
from core.reasons.claim import ClaimReason


def launch_outcome(record: ClaimRecord, launched_at: datetime) -> list[DecisionOutcome]:
    """Return the launch of the claim's instance; nothing if the instance is unknown."""
    return _outcome(record, launched_at, launched_at, None, ClaimReason.LAUNCHED)


def end_outcome(record: ClaimRecord, reason: str, now: datetime) -> list[DecisionOutcome]:
    """Return the end of the claim's instance, which costs nothing from now on.

    Its launch time is the claim's; the entry of `launch_outcome` is more precise, if the ledger has it.
    """
    return _outcome(record, record.moments.launched_at or record.requested_at, now, now, reason)


def _outcome(
    record: ClaimRecord, launched_at: datetime, at: datetime, ended_at: datetime | None, reason: str
) -> list[DecisionOutcome]:
    machine = record.machine
    if machine is None:
        return []
    life = InstanceLife(
        instance=machine.instance_id,
        claim=record.name,
        node_pool=record.plan.node_pool,
        instance_type=machine.offering.instance_type,
        zone=machine.offering.zone,
        capacity_type=machine.offering.capacity_type,
        price=machine.offering.price,
        launched_at=launched_at,
        ended_at=ended_at,
    )
    return [
        DecisionOutcome(
            decision=record.decision,
            part=machine.instance_id,
            state=OutcomeState.DONE,
            at=at,
            reason=reason,
            instance=life,
        )
    ]
