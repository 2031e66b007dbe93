"""What a proposal's row says of it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.approval.proposal import EXPIRES_AFTER, Proposal, ProposalEnd, ProposalVerdict
from core.model.plan import Command
from tests.builders import NOW

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
