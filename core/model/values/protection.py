"""The annotation `karpenter.sh/do-not-disrupt`: "true", or a duration (on pods as in Karpenter; on nodes our extension)."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.model.values.duration import parse_duration

FOR_EVER = "true"


def is_protected(text: str | None, since: datetime | None, now: datetime) -> bool:
    """Whether the annotation is in force.

    Args:
        text: Its value, None if it is not set. Only "true" and a positive duration have an effect (Karpenter).
        since: The start of a duration; if unknown, the annotation is in force.
        now: The time to check.
    """
    if text is None or text == FOR_EVER:
        return text is not None
    lasting = parse_duration(text)
    if lasting is None or lasting <= timedelta(0):
        return False
    return since is None or now < since + lasting


def protected_until(text: str | None, since: datetime | None) -> datetime | None:
    """Return when a duration ends; None if the annotation has none or its start is unknown."""
    lasting = parse_duration(text) if text is not None and text != FOR_EVER else None
    return since + lasting if lasting is not None and since is not None else None
