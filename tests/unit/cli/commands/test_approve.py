"""A person's verdict: what is stored, what is listed, and whether it holds."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cli.__main__ import main
from cli.cluster import installation, proposals
from core.approval.proposal import EXPIRES_AFTER, Proposal, ProposalEnd, ProposalVerdict
from tests.builders import NOW
from tests.unit.cli.cluster.test_proposals import a_proposal

Capture = pytest.CaptureFixture[str]
AT = "2026-11-20T00:00:00Z"
HINT = "hint: it waits no longer; `fleetwright approve --list --cluster prod` shows what does\n"


class Waiting:
    """What an installation's proposals answer; notes what was asked."""

    def __init__(self, *found: Proposal) -> None:
        self.found = found
        self.asked: list[Any] = []
        self.ends: ProposalEnd | None = None
        self.keeps: ProposalVerdict | None = None

    def __call__(self, given: Any) -> Waiting:
        self.asked.append(given)
        return self

    def all(self) -> tuple[Proposal, ...]:
        return self.found

    def answer(self, wanted: str, verdict: ProposalVerdict) -> Proposal:
        self.asked.append((wanted, verdict))
        return msgspec.structs.replace(self.found[0], verdict=self.keeps or verdict, end=self.ends)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    made = Waiting(a_proposal("81c0"))
    found = SimpleNamespace(session="session")
    monkeypatch.setattr(
        installation, "find_installation", lambda cluster, **where: made.asked.append((cluster, where)) or found
    )
    monkeypatch.setattr(proposals, "OpenProposals", made)
    monkeypatch.setattr(proposals, "caller", lambda session: f"arn of {session}")
    return made


def approve(*words: str) -> int:
    return main(["approve", "--cluster", "prod", "--now", AT, *words])


def test_a_verdict_is_stored_with_who_gave_it_and_when(waiting: Waiting, capsys: Capture) -> None:
    where = ("--region", "eu-west-1", "--profile", "ops", "--stack", "own")
    assert approve("81c0", *where, "-o", "name") == 0
    assert waiting.asked[0] == ("prod", {"region": "eu-west-1", "profile": "ops", "stack": "own"})
    assert waiting.asked[-1] == ("81c0", ProposalVerdict(is_approved=True, by="arn of session", at=NOW))
    assert capsys.readouterr().out == "proposal/81c0\n"
    assert approve("81c0", "--reject") == 0
    assert waiting.asked[-1] == ("81c0", ProposalVerdict(is_approved=False, by="arn of session", at=NOW))


@pytest.mark.parametrize(
    ("reason", "code"), [("Approved", 0), ("Rejected", 0), ("ProposalLapsed", 1), ("ProposalExpired", 1)]
)
def test_a_proposal_that_has_ended_otherwise_is_told(waiting: Waiting, reason: str, code: int, capsys: Capture) -> None:
    waiting.ends = ProposalEnd(reason=reason, message="", at=NOW)
    assert approve("81c0") == code
    assert capsys.readouterr().err == (HINT if code else "")


def test_a_proposal_that_somebody_rejected_stays_rejected(waiting: Waiting, capsys: Capture) -> None:
    waiting.keeps = ProposalVerdict(is_approved=False, by="bob", at=NOW)
    assert approve("81c0") == 1
    assert capsys.readouterr().err == HINT
    assert approve("81c0", "--reject") == 0


@pytest.mark.parametrize(("minutes", "code"), [(1, 0), (0, 1)])
def test_a_verdict_counts_until_the_proposal_expires(waiting: Waiting, minutes: int, code: int) -> None:
    waiting.found = (
        msgspec.structs.replace(waiting.found[0], proposed_at=NOW - EXPIRES_AFTER + timedelta(minutes=minutes)),
    )
    assert approve("81c0") == code


def test_what_waits_is_listed_and_wide_what_has_ended_too(waiting: Waiting, capsys: Capture) -> None:
    ended = a_proposal("77aa", end=ProposalEnd(reason="Approved", message="", at=NOW))
    waiting.found = (*waiting.found, ended)
    assert approve("--list", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["cluster"]) == ("Proposals", "prod")
    assert [found["id"] for found in document["proposals"]] == ["81c0"]
    assert approve("--list") == 0
    assert "77aa" not in capsys.readouterr().out
    assert approve("--list", "-o", "wide") == 0
    told = capsys.readouterr().out
    assert "81c0" in told
    assert "77aa" in told
    waiting.found = (ended,)
    assert approve("--list") == 0
    assert capsys.readouterr().out == "nothing waits for approval\n"


def test_without_a_clock_given_the_present_counts(waiting: Waiting, capsys: Capture) -> None:
    """A proposal of years ago waits no longer."""
    waiting.found = (msgspec.structs.replace(waiting.found[0], proposed_at=NOW - timedelta(days=9999)),)
    assert main(["approve", "--cluster", "prod", "--list"]) == 0
    assert capsys.readouterr().out == "nothing waits for approval\n"


@pytest.mark.parametrize("words", [(), ("81c0", "--list")])
def test_one_proposal_or_the_list_is_asked_for(words: tuple[str, ...], waiting: Waiting, capsys: Capture) -> None:
    assert approve(*words) == 2
    assert "name one proposal, or ask for --list" in capsys.readouterr().err
