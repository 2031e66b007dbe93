"""The meaning of EC2's error codes for the next launches."""

from __future__ import annotations

import pytest

from core.launch.denials.codes import OTHER, RULES, Remembered, rule_of


@pytest.mark.parametrize(
    ("code", "remembered"),
    [
        ("InsufficientInstanceCapacity", Remembered.OFFERINGS),
        ("VcpuLimitExceeded", Remembered.QUOTA),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Remembered.CAPACITY_TYPE),
        ("AuthFailure", Remembered.NODE_CLASS),
        ("AccessDeniedException", Remembered.NODE_CLASS),
        ("InvalidAMIID.Malformed", Remembered.REQUEST),
        ("NeverSeenBefore", Remembered.REQUEST),
    ],
)
def test_each_code_has_one_meaning(code: str, remembered: Remembered) -> None:
    assert rule_of(code).remembered is remembered


def test_every_rule_can_match_and_says_what_to_do() -> None:
    """A rule after one that matches its codes would promise on the page what never happens."""
    assert [rule.code for rule in RULES if rule_of(rule.code) is not rule] == []
    assert all(rule.advice.endswith((".", "amazonaws.com")) for rule in (*RULES, OTHER))


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("InvalidAMIID.NotFound", "InvalidAMIID."),
        ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId."),
        ("InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId."),
        ("InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateName."),
        ("InvalidSubnetID.NotFound", "InvalidSubnet"),
        ("InvalidGroup.NotFound", "InvalidGroup"),
        ("InvalidSecurityGroupID.NotFound", "InvalidSecurityGroup"),
        ("InvalidPlacementGroup.Unknown", "InvalidPlacementGroup."),
        ("InvalidSnapshot.NotFound", "InvalidSnapshot."),
        ("InvalidUserData.Malformed", "InvalidUserData."),
        ("InvalidParameterValue", "InvalidParameter"),
        ("AccessDeniedException", "AccessDenied"),
        ("VcpuLimitExceeded.More", OTHER.code),
        ("UnsupportedOperation.More", OTHER.code),
    ],
)
def test_a_code_of_a_family_has_its_advice(code: str, rule: str) -> None:
    """EC2 appends what is wrong; other codes count as a whole."""
    assert rule_of(code).code == rule


def test_rules_for_families_are_those_that_ec2_appends_to() -> None:
    assert all(rule.begins for rule in RULES if rule.code.endswith("."))
