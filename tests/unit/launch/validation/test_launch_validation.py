"""What is kept of EC2's answer about an EC2NodeClass, and when it is asked again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.launch.validation.launch_validation import (
    MESSAGE_MAX,
    LaunchValidation,
    concerns_the_class,
    next_validation,
    read_validation,
    written_validation,
)
from tests.builders import NOW

FIELDS = {"UserData": "1"}
DENIED = ("ec2:RunInstances", "UnauthorizedOperation", "You are not authorized.")


def denied(times: int) -> LaunchValidation:
    answer = next_validation(None, FIELDS, DENIED, NOW)
    for _ in range(times - 1):
        answer = next_validation(answer, FIELDS, DENIED, NOW)
    return answer


def test_what_ec2_agreed_to_is_asked_about_only_after_a_change() -> None:
    agreed = next_validation(None, FIELDS, None, NOW)
    assert agreed.answers(FIELDS, NOW + timedelta(days=90))
    assert not agreed.answers({"UserData": "2"}, NOW)


@pytest.mark.parametrize(("times", "minutes"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 15), (200, 15)])
def test_a_denial_is_asked_about_again_later_and_later(times: int, minutes: int) -> None:
    """A permission may come without a change of the class; a question a minute for ever is too much."""
    answer, pause = denied(times), timedelta(minutes=minutes)
    assert answer.answers(FIELDS, NOW + pause - timedelta(seconds=1))
    assert not answer.answers(FIELDS, NOW + pause)


def test_a_changed_class_is_asked_about_at_once_and_is_counted_again() -> None:
    answer = next_validation(denied(5), {"UserData": "2"}, DENIED, NOW)
    assert not denied(5).answers({"UserData": "2"}, NOW)
    assert answer.denials == 1


def test_the_condition_has_ec2s_code_and_message_and_karpenters_reason() -> None:
    assert denied(1).reason() == "RunInstancesAuthCheckFailed"
    assert "UnauthorizedOperation: You are not authorized. Permit the action" in denied(1).explanation()
    wrong = next_validation(None, FIELDS, ("ec2:CreateFleet", "InvalidAMIID.NotFound", "no such image"), NOW)
    assert wrong.reason() == "InvalidAMIID_NotFound"
    agreed = next_validation(wrong, FIELDS, None, NOW)
    assert (agreed.agrees, agreed.reason(), agreed.explanation()) == (True, "", "")


@pytest.mark.parametrize(
    ("code", "concerns"),
    [
        ("DryRunOperation", False),
        ("InsufficientInstanceCapacity", False),
        ("VcpuLimitExceeded", False),
        ("InsufficientFreeAddressesInSubnet", False),
        ("UnauthorizedOperation", True),
        ("InvalidParameterValue", True),
        ("InvalidUserData.Malformed", True),
        ("NobodyKnowsThisCode", True),
    ],
)
def test_missing_capacity_does_not_make_a_class_unready(code: str, concerns: bool) -> None:
    """It comes back without a change of the class, and other instance types may have it."""
    assert concerns_the_class(code) is concerns


def test_an_answer_is_read_as_it_was_written() -> None:
    """The annotation is all that another run knows."""
    assert read_validation(written_validation(denied(3))) == denied(3)
    assert read_validation("") is None
    assert read_validation('{"fields": 3}') is None
    long = next_validation(None, FIELDS, ("ec2:CreateFleet", "X", "m" * 9000), NOW)
    assert len(long.message) == MESSAGE_MAX


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("ec2:RunInstances", "ec2:RunInstances (DryRun): "),
        ("ec2:CreateFleet", "ec2:CreateFleet (DryRun): "),
        ("ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplate: "),
    ],
)
def test_an_explanation_says_which_calls_only_asked(call: str, named: str) -> None:
    """A launch template is really made; the other two calls would be looked for in vain among the account's events."""
    answer = next_validation(None, FIELDS, (call, "UnauthorizedOperation", "no."), NOW)
    assert answer.explanation().startswith(f"{named}UnauthorizedOperation: no")
