"""Reads EC2's and AWS Health's events about instances."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from core.lifecycle.draining.replacing import REPLACED_WITHIN, SPOT_NOTICE
from core.reasons.termination import TerminationReason

_STATES: Final = {
    "stopping": TerminationReason.INSTANCE_STOPPED,
    "stopped": TerminationReason.INSTANCE_STOPPED,
    "shutting-down": TerminationReason.INSTANCE_TERMINATED,
    "terminated": TerminationReason.INSTANCE_TERMINATED,
}


class Interruption(msgspec.Struct, frozen=True):
    """The content of an interruption event.

    Attributes:
        reason: The reason for removing the claims.
        ends_at: When the instances end, or are expected to; None if they are gone, or may end at any moment.
        said: EC2's reason, empty if unknown.
    """

    reason: TerminationReason
    instance_ids: tuple[str, ...]
    ends_at: datetime | None = None
    said: str = ""


def is_end(reason: TerminationReason) -> bool:
    """Whether the reason is the end of an instance, which no notice announced."""
    return reason in _STATES.values()


def read_event(event: Any) -> Interruption | None:
    """Return the interruption in an EventBridge event, None for any other event."""
    if not isinstance(event, dict) or not isinstance(event.get("detail"), dict):
        return None
    detail: dict[str, Any] = event["detail"]
    kind = (event.get("source"), event.get("detail-type"))
    instance, noticed_at = str(detail.get("instance-id", "")), _moment(event.get("time"))
    if kind == ("aws.ec2", "EC2 Spot Instance Interruption Warning"):
        return Interruption(TerminationReason.SPOT_INTERRUPTED, (instance,), noticed_at and noticed_at + SPOT_NOTICE)
    if kind == ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"):
        return Interruption(
            TerminationReason.RESERVATION_INTERRUPTED, (instance,), noticed_at and noticed_at + SPOT_NOTICE
        )
    if kind == ("aws.ec2", "EC2 Instance Rebalance Recommendation"):
        return Interruption(
            TerminationReason.REBALANCE_RECOMMENDED, (instance,), noticed_at and noticed_at + REPLACED_WITHIN
        )
    if kind == ("aws.ec2", "EC2 Instance State-change Notification"):
        reason = _STATES.get(str(detail.get("state", "")).lower())
        return Interruption(reason, (instance,)) if reason else None
    if kind == ("aws.health", "AWS Health Event"):
        return _scheduled_change(detail)
    return None


def _scheduled_change(detail: dict[str, Any]) -> Interruption | None:
    """Return the change of instances that a Health event announces; None if it is about something else, past or cancelled."""
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return None
    if detail.get("statusCode") == "closed":
        return None
    entities = detail.get("affectedEntities") or ()
    instances = tuple(str(entity.get("entityValue", "")) for entity in entities)
    return Interruption(TerminationReason.SCHEDULED_CHANGE, instances, _moment(detail.get("startTime")))


def _moment(written: Any) -> datetime | None:
    """Parse a time in EventBridge's (RFC 3339) or Health's (RFC 1123) format to UTC; None if it is neither."""
    if not isinstance(written, str):
        return None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(written)
        except ValueError:
            continue
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return None
