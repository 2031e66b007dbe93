"""A command that waits for approval, as data and as a row."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from cli.answers.proposal_document import proposal_document, proposals_table
from core.approval.proposal import EXPIRES_AFTER, Proposal, ProposalEnd, ProposalVerdict
from core.model.plan import Command, Move
from tests.builders import NOW

WAITING = Proposal(
    id="4711",
    command=Command(
        reason="Underutilized",
        method="single",
        nodes=("a", "b"),
        claims=("a", "b"),
        moves=(Move("shop/web", "n"),),
        savings=250_000_000,
    ),
    decision="7f3a",
    why="every command waits",
    text="node a goes",
    proposed_at=NOW,
)
APPROVED = ProposalVerdict(is_approved=True, by="ada", at=NOW)
REJECTED = ProposalVerdict(is_approved=False, by="ada", at=NOW)
LAPSED = ProposalEnd(reason="ProposalLapsed", message="no longer holds", at=NOW)
JUST_BEFORE = EXPIRES_AFTER - timedelta(seconds=1)


def test_a_waiting_proposal_has_everything_that_is_known_of_it() -> None:
    assert proposal_document(WAITING, NOW) == {
        "id": "4711",
        "state": "waits",
        "what": "remove a, b",
        "reason": "Underutilized",
        "why": "every command waits",
        "nodes": ["a", "b"],
        "moves": 1,
        "savings": 0.25,
        "decision": "7f3a",
        "proposedAt": "2026-11-20T00:00:00Z",
        "expiresAt": "2026-11-21T00:00:00Z",
        "text": "node a goes",
        "verdict": None,
        "end": None,
    }
    assert proposal_document(msgspec.structs.replace(WAITING, decision=""), NOW)["decision"] is None


@pytest.mark.parametrize(
    ("verdict", "end", "after", "state", "shown"),
    [
        (None, None, timedelta(0), "waits", "waits: every command waits"),
        (None, None, JUST_BEFORE, "waits", "waits: every command waits"),
        (None, None, EXPIRES_AFTER, "ended", "expired"),
        (APPROVED, None, timedelta(0), "approved", "approved by ada"),
        (REJECTED, None, timedelta(0), "rejected", "rejected by ada"),
        (REJECTED, LAPSED, timedelta(0), "ended", "ProposalLapsed: no longer holds"),
        (None, LAPSED, timedelta(0), "ended", "ProposalLapsed: no longer holds"),
    ],
)
def test_the_state_follows_verdict_end_and_time(
    verdict: ProposalVerdict | None, end: ProposalEnd | None, after: timedelta, state: str, shown: str
) -> None:
    document = proposal_document(msgspec.structs.replace(WAITING, verdict=verdict, end=end), NOW + after)
    assert document["state"] == state
    said = verdict and {"approved": verdict.is_approved, "by": "ada", "at": "2026-11-20T00:00:00Z"}
    assert document["verdict"] == said
    ended = end and {"reason": "ProposalLapsed", "message": "no longer holds", "at": "2026-11-20T00:00:00Z"}
    assert document["end"] == ended
    assert shown in proposals_table([document])


def test_a_row_has_what_a_person_decides_by() -> None:
    heading, row = proposals_table([proposal_document(WAITING, NOW)]).splitlines()
    assert heading.split() == ["PROPOSAL", "WHAT", "WHY", "MOVES", "SAVES", "$/H", "STATE", "EXPIRES"]
    assert " ".join(row.split()) == "4711 remove a, b Underutilized 1 0.2500 waits: every command waits 11-21 00:00"
