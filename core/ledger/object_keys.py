"""Object keys of a ledger below its folder: cluster, day and time, so that a listing is chronological."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

PREFIX: Final = "ledger/"
"""Prefix of all keys in the functions' bucket, for lifecycle rules."""

DECISIONS: Final = "decisions"
BASES: Final = "bases"
OUTCOMES: Final = "outcomes"
_DAY: Final = "%Y/%m/%d"
_TIME: Final = "%H%M%S.%fZ"


class DecisionKey(msgspec.Struct, frozen=True, order=True):
    """The information in the key of a decision's object."""

    at: datetime
    function: str
    id: str
    key: str

    @property
    def cluster(self) -> str:
        """The cluster that the decision is about."""
        return self.key.split("/")[1]


def decision_key(cluster: str, at: datetime, function: str, decision: str) -> str:
    """Return the key of a decision: `decisions/CLUSTER/2026/11/22/053100.000000Z-disrupt-7f3a9c01de`."""
    return f"{day_prefix(DECISIONS, cluster, at)}{at.astimezone(UTC).strftime(_TIME)}-{function}-{decision}"


def outcome_key(cluster: str, at: datetime, function: str, digest: str) -> str:
    """Return the key under which a run stores outcomes of decisions."""
    return f"{day_prefix(OUTCOMES, cluster, at)}{at.astimezone(UTC).strftime(_TIME)}-{function}-{digest}"


def base_key(cluster: str, digest: str) -> str:
    """Return the key of a base document: others are stored as differences to it, or many decisions share it."""
    return f"{BASES}/{cluster}/{digest}"


def pointer_key(cluster: str, function: str) -> str:
    """Return the key under which a function records its last bases for its next sandbox."""
    return f"{BASES}/{cluster}/of-{function}"


def day_prefix(folder: str, cluster: str, day: datetime) -> str:
    """Return the common prefix of one day's keys."""
    return f"{folder}/{cluster}/{day.astimezone(UTC).strftime(_DAY)}/"


def days(since: datetime, until: datetime) -> list[datetime]:
    """Yield each day (UTC) from `since` to `until`, in order."""
    first = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return [first + timedelta(days=n) for n in range((until.astimezone(UTC) - first).days + 1)]


def read_decision_key(key: str) -> DecisionKey | None:
    """Return the information in a decision's key; None for any other key."""
    parts = key.split("/")
    if len(parts) != 6 or parts[0] != DECISIONS:
        return None
    time, _, rest = parts[-1].partition("-")
    function, _, decision = rest.rpartition("-")
    try:
        at = datetime.strptime("/".join(parts[2:5]) + time, _DAY + _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return DecisionKey(at, function, decision, key)
