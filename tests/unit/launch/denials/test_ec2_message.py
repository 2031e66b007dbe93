"""EC2's messages in explanations: short enough that what to do is never cut off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.launch.denials.codes import RULES, LaunchErrorRule, rule_of
from core.launch.denials.denial import LaunchDenial
from core.launch.denials.ec2_message import SAID_MAX, encoded_part, shortened
from core.launch.denials.instance_ends import RULES as ENDS
from core.launch.validation.launch_validation import LaunchValidation
from lambdas.controllers.decision_events import with_decision_id
from lambdas.controllers.kube_events import about_pod, warning
from tests.builders import NOW

WHY = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r may not ec2:RunInstances"
ENCODED = f"{WHY}. Encoded authorization failure message: {'aZ-_9' * 300}"


def test_an_encoded_message_is_kept_apart() -> None:
    """Nobody can read it, and it is longer than an event."""
    assert shortened(ENCODED) == WHY
    assert encoded_part(ENCODED) == ENCODED.removeprefix(f"{WHY}. ")
    assert encoded_part(WHY) == ""


def test_a_short_message_is_said_whole() -> None:
    assert shortened("No subnet has room.") == "No subnet has room"


@given(st.text())
def test_no_message_is_longer_than_its_bound(text: str) -> None:
    assert len(shortened(text)) <= SAID_MAX
    assert len(shortened(text + ENCODED)) <= SAID_MAX


@pytest.mark.parametrize("rule", [*RULES, *ENDS], ids=lambda rule: rule.code)
def test_an_event_has_code_action_and_advice_whatever_ec2_says(rule: LaunchErrorRule) -> None:
    """The advice was cut off, with the id of the decision."""
    denial = LaunchDenial(node_class="c" * 253, code=rule.code, call="ec2:CreateFleet", message=ENCODED + "x" * 2000)
    text = with_decision_id(f"LaunchDenied: {denial.explanation()}", "20261126T184500Z-0123456789abcdef")
    message = warning(about_pod("default", "p"), "FailedScheduling", text, NOW, identity="i")["message"]
    assert message == text
    assert all(part in message for part in (rule.code, "ec2:CreateFleet", rule.advice))


def test_an_answer_about_an_ec2_node_class_has_the_encoded_message_last() -> None:
    """Its condition has room for all of it, its event for what comes before."""
    answer = LaunchValidation(
        fields={}, asked_at=NOW, call="ec2:CreateFleet", code="UnauthorizedOperation", message=ENCODED
    )
    assert answer.explanation().endswith(encoded_part(ENCODED))
    said = warning(about_pod("default", "p"), "r", answer.explanation(), NOW, identity="i")["message"]
    assert rule_of("UnauthorizedOperation").advice in said


def test_only_a_message_that_is_too_long_is_cut() -> None:
    assert shortened("x" * SAID_MAX) == "x" * SAID_MAX
    assert shortened("x" * (SAID_MAX + 1)) == "x" * (SAID_MAX - 1) + "…"
