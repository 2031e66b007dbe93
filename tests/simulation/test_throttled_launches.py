"""While EC2 throttles or fails, requests become rare, and afterwards every pod gets its node."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

BEGINS, THROTTLED_FOR, ENDS_AT = "1m", "4m", 300
CALLS_MAX = 36
"""Refused calls in four minutes, each attempt of the SDK counted: 318 for 6 claims and 1,054 for 40 at a fixed pace."""

LATEST = 90
"""Seconds from the end of the throttling to the last request."""


def throttling(replicas: int, fault: dict[str, Any]) -> list[dict[str, Any]]:
    fault = {"call": "ec2:CreateFleet", "for": THROTTLED_FOR, **fault}
    return [{"at": BEGINS, "fault": fault}, {"at": BEGINS, "apply": [deployment(replicas, cpu="12")]}]


@pytest.mark.parametrize(
    "fault",
    [{"kind": "throttle"}, {"kind": "denied", "code": "RequestLimitExceeded", "as": "fleetError"}, {"kind": "error"}],
    ids=["exception", "fleetError", "error"],
)
@pytest.mark.parametrize("replicas", [6, 40])
def test_a_throttled_launch_is_asked_for_seldom(replicas: int, fault: dict[str, Any], tmp_path: Path) -> None:
    result = play(tmp_path, node_pool(), steps=throttling(replicas, fault), duration="9m")
    assert_lawful(result)
    calls = [event for event in result.events if event.event == "call" and event.fields["call"] == "ec2:CreateFleet"]
    refused = [event for event in calls if event.fields["code"] in ("RequestLimitExceeded", "InternalError")]
    assert refused
    assert len(refused) <= CALLS_MAX
    assert result.summary["podsScheduled"] == replicas
    assert len(named(result, "instanceLaunched")) == replicas
    begun = datetime.fromisoformat(result.events[0].t)
    last = max(datetime.fromisoformat(event.t) for event in calls)
    assert (last - begun).total_seconds() <= ENDS_AT + LATEST
