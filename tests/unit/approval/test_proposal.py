"""What a proposal's row says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.approval.proposal import EXPIRES_AFTER, ApprovalRule, Proposal, ProposalEnd, ProposalVerdict, rule_from
from core.errors import InvalidInputError
from core.model.plan import Command, Move
from core.reasons.code import Refusal, TerminationReason
from core.reasons.runs import NeedsApproval
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_plan

PROPOSAL = Proposal(
    id="1",
    command=Command(reason="Empty", method="emptiness", nodes=("a",), claims=("a",)),
    why="every command waits",
    text="node a goes",
    proposed_at=NOW,
)
ENDED = ProposalEnd(reason="ProposalLapsed", message="", at=NOW)
REJECTED = ProposalVerdict(is_approved=False, by="ada", at=NOW)


@pytest.mark.parametrize(
    ("changes", "keeps"),
    [
        ({}, True),
        ({"end": ENDED}, False),
        ({"end": ENDED, "verdict": REJECTED}, True),
        ({"end": ENDED, "verdict": ProposalVerdict(is_approved=True, by="ada", at=NOW)}, False),
    ],
)
def test_nodes_are_left_alone_while_it_waits_and_after_a_rejection(changes: dict[str, object], keeps: bool) -> None:
    assert msgspec.structs.replace(PROPOSAL, **changes).keeps_nodes(NOW + timedelta(hours=1)) is keeps


def test_a_rejection_ends_with_the_day() -> None:
    rejected = msgspec.structs.replace(PROPOSAL, end=ENDED, verdict=REJECTED)
    assert not rejected.keeps_nodes(NOW + EXPIRES_AFTER)


def test_a_row_is_read_as_it_was_written() -> None:
    row = msgspec.structs.replace(PROPOSAL, verdict=REJECTED, end=ENDED)
    assert msgspec.json.decode(msgspec.json.encode(row), type=Proposal) == row


def test_a_verdict_is_either_an_approval_or_a_rejection() -> None:
    approved = msgspec.structs.replace(REJECTED, is_approved=True)
    found = [msgspec.structs.replace(PROPOSAL, verdict=verdict) for verdict in (None, REJECTED, approved)]
    assert [(one.is_approved, one.is_rejected) for one in found] == [(False, False), (False, True), (True, False)]


# Which commands wait for a person.


COMMAND = Command(
    reason=TerminationReason.UNDERUTILIZED,
    method="multi",
    nodes=("a", "b"),
    claims=("a", "b"),
    moves=(Move("core-shop/cart-0", "c"), Move("web/front-0", "c")),
    savings=400_000_000,
)


def said(**rule: object) -> Refusal | None:
    return ApprovalRule(**rule).reason_to_wait(COMMAND, {move.pod.partition("/")[0] for move in COMMAND.moves})  # type: ignore[arg-type]


def test_without_bounds_every_command_waits() -> None:
    assert said() == NeedsApproval(price=400_000_000, nodes=2)


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ({"above_dollars": 399_999_999}, {"above_price": 399_999_999}),
        ({"above_nodes": 1}, {"above_nodes": 1}),
        ({"namespaces": ("core-*",)}, {"namespaces": ("core-shop",)}),
        ({"above_nodes": 5, "namespaces": ("web",)}, {"namespaces": ("web",)}),
    ],
)
def test_one_bound_is_enough_and_is_named(rule: dict[str, object], facts: dict[str, Any]) -> None:
    assert said(**rule) == NeedsApproval(price=400_000_000, nodes=2, **facts)


@pytest.mark.parametrize("rule", [{"above_dollars": 400_000_000}, {"above_nodes": 2}, {"namespaces": ("shop",)}])
def test_what_is_within_the_bounds_goes(rule: dict[str, object]) -> None:
    assert said(**rule) is None


def test_what_replacements_cost_is_part_of_what_the_nodes_cost() -> None:
    """A command that saves nothing may still replace the most expensive node of all."""
    plan = msgspec.structs.replace(a_plan(), price=1_000_000_000)
    command = msgspec.structs.replace(COMMAND, replacements=(plan,), savings=0)
    assert ApprovalRule(above_dollars=999_999_999).reason_to_wait(command, ())


def test_unhealthy_nodes_never_wait() -> None:
    ill = Command(reason=TerminationReason.UNHEALTHY, method="repair", nodes=("a",), claims=("a",))
    assert ApprovalRule().reason_to_wait(ill, ()) is None


def test_the_settings_texts_are_read() -> None:
    rule = rule_from(above_dollars="1.50", above_nodes=3, namespaces=" payments, core-* ,")
    assert rule == ApprovalRule(above_dollars=1_500_000_000, above_nodes=3, namespaces=("payments", "core-*"))
    assert rule_from(above_dollars="0", above_nodes=None, namespaces="") == ApprovalRule(above_dollars=0)
    assert rule_from(above_dollars="", above_nodes=None, namespaces="") == ApprovalRule()


@pytest.mark.parametrize("text", ["much", "-1", "NaN", "Infinity", "1e"])
def test_dollars_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="dollars per hour"):
        rule_from(above_dollars=text, above_nodes=None, namespaces="")
