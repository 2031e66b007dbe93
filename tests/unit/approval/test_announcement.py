"""What a person reads before approving."""

from __future__ import annotations

import msgspec

from core.approval.announcement import body, explanation, subject
from core.model.plan import Command, DisruptionPlan
from tests.builders import NOW
from tests.unit.approval.test_proposal import PROPOSAL

LONG = Command(reason="Empty", method="emptiness", nodes=tuple(f"n\u00f6de-{n}" for n in range(30)), claims=("a",) * 30)


def test_the_explanation_is_that_of_explain_for_each_node() -> None:
    text = explanation(LONG, DisruptionPlan(now=NOW, commands=(LONG,)))
    assert text.startswith("node n\u00f6de-0 goes [Empty]")
    assert text.endswith("and 10 more nodes")


def test_a_subject_is_one_short_line_of_ascii() -> None:
    """SNS refuses any other."""
    found = subject(msgspec.structs.replace(PROPOSAL, command=LONG), "prod")
    assert len(found) == 100
    assert found.isascii()
    assert found.startswith("prod: remove")
    assert found.endswith("...")
    assert subject(PROPOSAL, "prod") == "prod: remove a waits for approval (1)"


def test_the_text_says_how_to_decide_and_until_when() -> None:
    text = body(msgspec.structs.replace(PROPOSAL, decision="7f3a"), "prod")
    for said in ("remove a [Empty]", "every command waits", "node a goes", "approve 1 --cluster prod --reject", "7f3a"):
        assert said in text
    assert f"{PROPOSAL.expires_at:%Y-%m-%d %H:%M} UTC" in text
