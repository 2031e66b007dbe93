"""What the end of an instance whose node never joined means for the next launches."""

from __future__ import annotations

import pytest

from core.launch.denials import codes
from core.launch.denials.codes import Remembered
from core.launch.denials.instance_ends import RULES, rule_of_end, termination_reason
from core.model.values.instance_end import InstanceEnd
from core.reasons.termination import TerminationReason


@pytest.mark.parametrize(
    ("code", "remembered"),
    [
        ("Client.InternalError", Remembered.NODE_CLASS),
        ("Client.InvalidSnapshot.NotFound", Remembered.NODE_CLASS),
        ("Client.VolumeLimitExceeded", Remembered.NODE_CLASS),
        ("Client.InstanceInitiatedShutdown", Remembered.NODE_CLASS),
        ("Client.NeverSeenBefore", Remembered.NODE_CLASS),
        ("Server.InsufficientInstanceCapacity", Remembered.OFFERINGS),
        ("Server.InternalError", Remembered.OFFERINGS),
        ("Server.SpotInstanceTermination", Remembered.OFFERINGS),
    ],
)
def test_each_reason_has_one_meaning(code: str, remembered: Remembered) -> None:
    rule = rule_of_end(code)
    assert rule is not None
    assert rule.remembered is remembered
    of_capacity = remembered is Remembered.OFFERINGS
    reason = TerminationReason.INSTANCE_WITHDRAWN if of_capacity else TerminationReason.START_FAILED
    assert termination_reason(InstanceEnd(code)) is reason


@pytest.mark.parametrize("code", ["Client.UserInitiatedShutdown", "Client.InstanceTerminated", ""])
def test_what_somebody_ended_says_nothing_about_the_next_launch(code: str) -> None:
    """Otherwise, whoever terminates an instance by hand would stop all launches of its EC2NodeClass."""
    assert rule_of_end(code) is None
    assert termination_reason(InstanceEnd(code)) is None


def test_every_rule_can_match_and_says_what_to_do() -> None:
    assert [rule.code for rule in RULES if rule_of_end(rule.code) is not rule] == []
    assert all(rule.advice.endswith(".") for rule in RULES)


def test_no_code_of_a_launch_error_is_one_of_an_end() -> None:
    """A denial knows by its code whether a launch disproves it or only a node that joins."""
    assert [rule.code for rule in codes.RULES if rule_of_end(rule.code) is not None] == []
