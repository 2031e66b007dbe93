"""Subscribers read short texts that say what goes, why, and what they can do."""

from __future__ import annotations

import msgspec

from core.approval.announcement import (
    COMMANDS_MAX,
    commands_body,
    commands_subject,
    explanation,
    proposal_body,
    proposal_subject,
)
from core.model.plan import Command, DisruptionPlan
from core.reasons.runs import GroupFate, GroupLeaves
from tests.builders import NOW
from tests.unit.approval.test_proposal import PROPOSAL

LONG = Command(reason="Empty", method="emptiness", nodes=tuple(f"n\u00f6de-{n}" for n in range(30)), claims=("a",) * 30)


def test_the_explanation_is_that_of_explain_for_each_node() -> None:
    text = explanation(LONG, DisruptionPlan(now=NOW, commands=(LONG,)))
    assert text.startswith("node n\u00f6de-0 goes [Empty]")
    assert text.endswith("and 10 more nodes")


def test_a_subject_is_one_short_line_of_ascii() -> None:
    """SNS refuses any other."""
    found = proposal_subject(msgspec.structs.replace(PROPOSAL, command=LONG), "prod")
    assert len(found) == 100
    assert found.isascii()
    assert found.startswith("prod: remove")
    assert found.endswith("...")
    assert proposal_subject(PROPOSAL, "prod") == "prod: remove a waits for approval (1)"


def test_the_text_says_how_to_decide_and_until_when() -> None:
    text = proposal_body(msgspec.structs.replace(PROPOSAL, decision="7f3a"), "prod")
    for said in ("remove a [Empty]", "every command waits", "node a goes", "approve 1 --cluster prod --reject", "7f3a"):
        assert said in text
    assert f"{PROPOSAL.expires_at:%Y-%m-%d %H:%M} UTC" in text


GROUPS = tuple(GroupLeaves(f"research/train-llama-{n}", GroupFate.LOSES_THEM, 1, 8) for n in range(30))


def test_groups_hide_neither_the_approvals_id_nor_the_reason_of_a_command() -> None:
    """Subjects have a hundred characters; and a group that stands beside removed nodes seems to be removed."""
    command = msgspec.structs.replace(PROPOSAL.command, groups=GROUPS[:1])
    proposal = msgspec.structs.replace(PROPOSAL, command=command)
    assert proposal_subject(proposal, "prod") == "prod: remove a waits for approval (1)"
    said = (
        "remove a [Empty]. Group research/train-llama-0 (8 members, 1 leaves): it loses them, and mostly starts again"
    )
    assert proposal_body(proposal, "prod").startswith(f"Cluster prod: {said}")
    assert f"- {said}" in commands_body([command], "prod", "")
    many = [msgspec.structs.replace(LONG, groups=GROUPS)] * 5 + [msgspec.structs.replace(command, groups=GROUPS)] * 95
    assert len(commands_body(many, "c" * 100, "7f3a")) < 4000


def test_a_message_of_commands_says_what_goes_why_and_what_it_saves() -> None:
    gone = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("c",), savings=120_000_000)
    second = Command(reason="Drifted", method="drift", nodes=("b",), claims=("d",), savings=-20_000_000)
    assert commands_subject([gone], "prod") == "prod: 1 command for 1 node, saves $0.1200 an hour"
    assert commands_subject([second], "prod") == "prod: 1 command for 1 node, costs $0.0200 an hour"
    text = commands_body([gone, second], "prod", "7f3a").splitlines()
    assert text[:3] == ["Cluster prod, saves $0.1000 an hour:", "- remove a [Empty]", "- remove b [Drifted]"]
    assert text[-1] == "fleetwright log --cluster prod lists decision 7f3a."


def test_a_message_of_commands_stays_short_however_many_there_are() -> None:
    """Slack recommends texts below 4,000 characters; SNS takes subjects of a hundred, in ASCII."""
    many = [msgspec.structs.replace(LONG, savings=10**15) for _ in range(100)]
    text = commands_body(many, "c" * 100, "7f3a")
    assert len(text) < 4000
    assert f"- and {100 - COMMANDS_MAX} more" in text
    found = commands_subject(many, "c" * 100)
    assert (len(found), found.isascii()) == (100, True)
