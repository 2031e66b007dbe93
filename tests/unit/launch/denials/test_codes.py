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
