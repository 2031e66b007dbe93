"""Condition LaunchDenied."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

from core.launch.denials.denial import LaunchDenial
from lambdas.controllers.status.launch_condition import denied_launches
from tests.builders import NOW

NOT_DENIED = {"type": "LaunchDenied", "status": "False", "reason": "NotDenied", "message": ""}


def a_denial(code: str = "UnauthorizedOperation", **changes: Any) -> LaunchDenial:
    fields = {"call": "ec2:CreateFleet", "message": "no", "until": NOW}
    return LaunchDenial(node_class="default", code=code, **{**fields, **changes})


def test_nothing_is_denied_without_a_pause_of_this_class() -> None:
    """One refusal of an offering pauses nothing."""
    others = [a_denial(until=None), LaunchDenial(node_class="other", code="UnauthorizedOperation", until=NOW)]
    assert denied_launches("default", []) == NOT_DENIED
    assert denied_launches("default", others) == NOT_DENIED


def test_the_message_has_the_explanation_and_the_time_of_the_retry_in_utc() -> None:
    moment = (NOW + timedelta(minutes=5)).astimezone(timezone(timedelta(hours=2)))
    denial = a_denial(until=moment)
    assert denied_launches("default", [denial]) == {
        "type": "LaunchDenied",
        "status": "True",
        "reason": "UnauthorizedOperation",
        "message": f"{denial.explanation()} One launch retries after 2026-11-20T00:05:00Z.",
    }


def test_what_a_person_can_resolve_comes_first_and_then_by_code() -> None:
    capacity = a_denial("InsufficientInstanceCapacity")
    quota, access = a_denial("VcpuLimitExceeded"), a_denial("UnauthorizedOperation")
    found = denied_launches("default", [capacity, quota, access])
    told = [part.split(" from ")[0] for part in found["message"].split("; ") if " from ec2:" in part]
    assert told == ["UnauthorizedOperation", "VcpuLimitExceeded", "InsufficientInstanceCapacity"]
    assert found["reason"] == "UnauthorizedOperation"


def test_a_code_with_dots_is_a_reason_that_kubernetes_accepts() -> None:
    assert denied_launches("default", [a_denial("InvalidAMIID..NotFound.")])["reason"] == "InvalidAMIID_NotFound"
