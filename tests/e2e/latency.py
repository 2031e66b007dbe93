"""From a pod's creation to the CreateFleet call that is for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

from tests.e2e.planned_pods import Launched


def seconds_to_launch(launches: Iterable[Launched], created: Mapping[str, datetime]) -> list[float]:
    """Seconds for every pod that an instance was launched for, in no order; pods created after the launch do not count."""
    return [
        (launch.called_at - created[pod]).total_seconds()
        for launch in launches
        for pod in launch.pods
        if pod in created and created[pod] <= launch.called_at
    ]


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least this share of them does not exceed; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return round(ordered[math.ceil(share * len(ordered)) - 1], 2)
