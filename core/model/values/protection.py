"""The annotation `karpenter.sh/do-not-disrupt`: "true", or a duration (on pods as in Karpenter, on nodes ours alone)."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.model.values.duration import parse_duration

FOR_EVER = "true"


def is_protected(text: str | None, since: datetime | None, now: datetime) -> bool:
    """Whether the annotation is in force.

    Args:
        text: Its value, None where it is not set. Anything but "true" and a positive duration has no effect (Karpenter).
        since: From when a duration counts; where that is not known it is in force.
        now: The moment that is asked about.
    """
    if text is None or text == FOR_EVER:
        return text is not None
    lasting = parse_duration(text)
    if lasting is None or lasting <= timedelta(0):
        return False
    return since is None or now < since + lasting


def protected_until(text: str | None, since: datetime | None) -> datetime | None:
    """When a duration ends; None where the annotation states none, or where it is not known from when it counts."""
    lasting = parse_duration(text) if text is not None and text != FOR_EVER else None
    return since + lasting if lasting is not None and since is not None else None
