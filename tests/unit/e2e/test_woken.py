"""A trigger that wakes nobody is found although the schedule launches a minute later."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.functions.sandbox import Invocation
from tests.e2e.play import Outcome
from tests.e2e.woken import launched_when_woken

LAUNCH = {"decisions": [{"kind": "launch", "subject": "claim"}, {"kind": "bind", "subject": "x/p"}]}
TOLD = {"auditPodUnschedulable": 2, "wakeUps": 1}


def a_run(function: str, trigger: str, at: float, response: Any) -> Invocation:
    figures = {"duration_ms": 1.0, "init_ms": 0.0, "billed_ms": 1, "memory_kb": 1}
    return Invocation(
        function=function, request_id="r", trigger=trigger, outcome="ok", started_at=at, response=response, **figures
    )


@pytest.mark.parametrize(
    ("told", "trigger", "at", "launched"),
    [
        (TOLD, "queue:wake-ups", 2.0, {"claim"}),
        (TOLD, "schedule:provision", 2.0, set()),
        (TOLD, "queue:wake-ups", 0.5, set()),
        ({"auditPodUnschedulable": 2}, "queue:wake-ups", 2.0, set()),
        ({"auditPodDeleted": 1, "wakeUps": 1}, "queue:wake-ups", 2.0, set()),
        (None, "queue:wake-ups", 2.0, set()),
    ],
    ids=["woken", "schedule", "before", "told nobody", "no pod waited", "no answer"],
)
def test_only_launches_after_a_wake_up_for_a_waiting_pod_count(
    told: Any, trigger: str, at: float, launched: set[str]
) -> None:
    runs = [a_run("watch_audit_log", "auditLog", 1.0, told), a_run("provision", trigger, at, LAUNCH)]
    assert launched_when_woken(runs) == launched


def test_a_scene_without_such_a_launch_is_wrong() -> None:
    Outcome(woken=["claim"]).assert_woken()
    with pytest.raises(AssertionError, match="wake-up"):
        Outcome().assert_woken()
