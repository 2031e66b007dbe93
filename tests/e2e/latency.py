"""Measures the time from a pod's creation to the CreateFleet call for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

from tests.e2e.planned_pods import Launched


def seconds_to_launch(launches: Iterable[Launched], created: Mapping[str, datetime]) -> list[float]:
    """Return the seconds for each pod with a launch, unordered; pods created after the launch do not count."""
    return [
        (launch.called_at - created[pod]).total_seconds()
        for launch in launches
        for pod in launch.pods
        if pod in created and created[pod] <= launch.called_at
    ]


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed, or None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return round(ordered[math.ceil(share * len(ordered)) - 1], 2)
