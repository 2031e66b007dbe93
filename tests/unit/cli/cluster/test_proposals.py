"""A verdict is stored once, on one proposal that still waits."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import cli.cluster.proposals as module
from adapters.ports import ConflictError, DeniedError
from cli.cluster.proposals import TRIES, OpenProposals, is_open, open_proposals
from cli.errors import InputError
from core.approval.proposal import EXPIRES_AFTER, Proposal, ProposalEnd, ProposalVerdict
from core.model.plan import Command
from tests.builders import NOW


def a_proposal(name: str, minutes: int = 0, **changes: Any) -> Proposal:
    command = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("a",))
    return Proposal(
        id=name, command=command, why="w", text="t", proposed_at=NOW + timedelta(minutes=minutes), **changes
    )


class Store:
    """Proposals in memory; the first changes conflict or are refused, as asked."""

    def __init__(self, *proposals: Proposal, conflicts: int = 0, refusal: Exception | None = None) -> None:
        self.kept = {proposal.id: proposal for proposal in proposals}
        self.conflicts, self.refusal = conflicts, refusal

    def all(self) -> tuple[Proposal, ...]:
        if self.refusal is not None:
            raise self.refusal
        return tuple(self.kept.values())

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        if self.conflicts:
            self.conflicts -= 1
            raise ConflictError("dynamodb:PutItem", "somebody was faster")
        self.kept[before.id] = after
        return after


def opened(store: Store, monkeypatch: pytest.MonkeyPatch, *, rule: object = "all") -> OpenProposals:
    monkeypatch.setattr(module, "Adapters", lambda *_: SimpleNamespace(proposals=store))
    settings = SimpleNamespace(approval_rule=lambda: rule, table_name="t", cluster_name="prod")
    session = SimpleNamespace(client=lambda *_, **__: None)
    installation: Any = SimpleNamespace(cluster="prod", stack="own", settings=settings, session=session)
    return OpenProposals(installation)


YES = ProposalVerdict(is_approved=True, by="ada", at=NOW)
NO = ProposalVerdict(is_approved=False, by="ada", at=NOW)
LAPSED = ProposalEnd(reason="ProposalLapsed", message="", at=NOW)


def test_proposals_are_listed_by_time_and_named_by_a_part_of_their_id(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(a_proposal("bbbb1", 2), a_proposal("aaaa2", 1), a_proposal("aaaa1", 1), a_proposal("bbbb"))
    found = opened(store, monkeypatch)
    assert [proposal.id for proposal in found.all()] == ["bbbb", "aaaa1", "aaaa2", "bbbb1"]
    assert [found.one(wanted).id for wanted in ("bbbb", "bbbb1", "aaaa2")] == ["bbbb", "bbbb1", "aaaa2"]
    for wanted, problem in (
        ("aaa", "'aaa' is too short"),
        ("aaaa", "2 proposals begin with 'aaaa'"),
        ("cccc", "there is no proposal 'cccc'"),
    ):
        with pytest.raises(InputError, match=problem):
            found.one(wanted)


@pytest.mark.parametrize(
    ("before", "verdict", "is_stored"),
    [
        ({}, YES, True),
        ({}, NO, True),
        ({"verdict": YES}, NO, True),
        ({"verdict": YES}, YES, False),
        ({"verdict": NO}, NO, False),
        ({"verdict": NO}, YES, False),
        ({"end": LAPSED}, YES, False),
        ({"proposed_at": NOW - EXPIRES_AFTER}, YES, False),
    ],
)
def test_a_verdict_is_stored_while_the_proposal_waits(
    before: dict[str, Any], verdict: ProposalVerdict, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = msgspec.structs.replace(a_proposal("aaaa"), **before)
    store = Store(waiting)
    after = opened(store, monkeypatch).answer("aaaa", verdict)
    assert store.kept["aaaa"] == after
    assert after == (msgspec.structs.replace(waiting, verdict=verdict) if is_stored else waiting)


@pytest.mark.parametrize(("conflicts", "is_stored"), [(TRIES - 1, True), (TRIES, False)])
def test_changes_of_the_functions_are_met_with_another_try(
    conflicts: int, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(a_proposal("aaaa"), conflicts=conflicts)
    if is_stored:
        assert opened(store, monkeypatch).answer("aaaa", YES).verdict == YES
    else:
        with pytest.raises(InputError, match="the functions keep changing proposal aaaa"):
            opened(store, monkeypatch).answer("aaaa", YES)


def test_a_table_that_cannot_be_read_and_functions_that_ask_nobody_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the proposals of prod cannot be read: dynamodb:Query: no"):
        opened(Store(refusal=DeniedError("dynamodb:Query", "no")), monkeypatch).all()
    with pytest.raises(InputError, match="the functions of own wait for no approval"):
        opened(Store(), monkeypatch, rule=None)


def test_open_proposals_wait_for_a_person_at_that_moment() -> None:
    waits, ended = a_proposal("a"), a_proposal("b", end=LAPSED)
    over = msgspec.structs.replace(a_proposal("c"), proposed_at=NOW - EXPIRES_AFTER)
    approved = a_proposal("d", verdict=YES)
    assert open_proposals((waits, ended, over, approved), NOW) == (waits, approved)
    assert is_open(over, NOW - timedelta(seconds=1))
