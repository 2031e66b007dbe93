"""A person's verdict: what `disrupt` then does, what is listed, and whether it holds."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import msgspec
import pytest

from cli.__main__ import main
from core.approval.proposal import Proposal, ProposalVerdict
from core.manifests.wire import resources
from tests.fakes.lab import a_node_pool, a_pending_pod
from tests.unit.cli.simulated_installation import OF_PROD, USER, SimulatedInstallation

Capture = pytest.CaptureFixture[str]
HINT = "hint: it waits no longer; `fleetwright approve --list --cluster prod` shows what does\n"


class Asking(SimulatedInstallation):
    """Its functions ask a person before they end a node, and one node is empty."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, mode="approve")
        self.lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
        self.lab.kubernetes.drop(resources.PODS, "web-0", "default")
        self.later(minutes=1)

    @property
    def proposal(self) -> Proposal:
        """The only proposal."""
        (found,) = self.lab.app.adapters.proposals.all()
        return found

    def later(self, **span: float) -> None:
        """Let time pass, and `disrupt` run."""
        self.lab.clock.advance(**span)
        self.lab.disrupt()

    def is_going(self) -> bool:
        """Whether `disrupt` has begun to end the node."""
        return bool(self.lab.rows.commands)

    def approve(self, *words: str, now: datetime | None = None) -> int:
        at = (now or self.lab.clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
        return main(["approve", *OF_PROD, "--now", at, *words])


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(monkeypatch)


def test_an_approved_node_goes_and_it_is_known_who_approved_it(site: Asking, capsys: Capture) -> None:
    assert site.approve(site.proposal.id, "-o", "name") == 0
    assert capsys.readouterr().out == f"proposal/{site.proposal.id}\n"
    assert site.proposal.verdict == ProposalVerdict(is_approved=True, by=USER, at=site.lab.clock.now())
    assert not site.is_going(), "the functions act, not the command"
    site.later(minutes=1)
    assert site.is_going()
    assert site.approve(site.proposal.id) == 0, "it has ended as was said"
    assert capsys.readouterr().err == ""


def test_a_rejected_node_stays_and_nobody_approves_it_afterwards(site: Asking, capsys: Capture) -> None:
    at = site.lab.clock.now()
    assert site.approve(site.proposal.id, "--reject") == 0
    assert site.proposal.verdict == ProposalVerdict(is_approved=False, by=USER, at=at)
    assert site.approve(site.proposal.id) == 1
    assert capsys.readouterr().err == HINT
    for _ in range(3):
        site.later(minutes=1)
    assert not site.is_going()
    assert site.approve(site.proposal.id) == 1
    assert capsys.readouterr().err == HINT
    assert site.approve(site.proposal.id, "--reject") == 0, "it has ended as was said"


@pytest.mark.parametrize("is_approved", [False, True])
def test_a_proposal_that_the_cluster_has_overtaken_waits_no_longer(
    site: Asking, capsys: Capture, *, is_approved: bool
) -> None:
    """The node has a pod again: whoever approved it, now or before, learns that it stays."""
    if is_approved:
        assert site.approve(site.proposal.id) == 0
    before = site.proposal.verdict
    site.lab.kubernetes.put(a_pending_pod("web-1", cpu="3"))
    site.lab.bind("web-1")
    site.later(minutes=1)
    assert not site.is_going()
    assert site.approve(site.proposal.id) == 1
    assert capsys.readouterr().err == HINT
    assert site.proposal.verdict == before


@pytest.mark.parametrize("is_approved", [False, True])
@pytest.mark.parametrize(("before", "code"), [(timedelta(seconds=1), 0), (timedelta(0), 1)])
def test_a_verdict_counts_until_the_proposal_expires(
    site: Asking, before: timedelta, code: int, *, is_approved: bool
) -> None:
    if is_approved:
        assert site.approve(site.proposal.id) == 0
    given = site.proposal.verdict
    assert site.approve(site.proposal.id, now=site.proposal.expires_at - before) == code
    if code:
        assert site.proposal.verdict == given


def test_what_waits_is_listed_and_wide_what_has_ended_too(site: Asking, capsys: Capture) -> None:
    known = site.proposal.id
    assert site.approve("--list", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["cluster"]) == ("Proposals", "prod")
    assert [(found["id"], found["state"]) for found in document["proposals"]] == [(known, "waits")]
    site.approve(known)
    site.later(minutes=1)
    capsys.readouterr()
    assert site.approve("--list") == 0
    assert capsys.readouterr().out == "nothing waits for approval\n"
    assert site.approve("--list", "-o", "wide") == 0
    assert known in capsys.readouterr().out


def test_without_a_clock_given_the_present_counts(site: Asking, capsys: Capture) -> None:
    """By the clock of whoever runs the test, a proposal of years ago waits no longer."""
    long_ago = site.proposal.proposed_at - timedelta(days=9999)
    site.lab.rows.proposals[site.proposal.id] = msgspec.structs.replace(site.proposal, proposed_at=long_ago)
    assert site.approve("--list", "-o", "name", now=long_ago) == 0
    assert capsys.readouterr().out == f"proposal/{site.proposal.id}\n"
    assert main(["approve", *OF_PROD, "--list"]) == 0
    assert capsys.readouterr().out == "nothing waits for approval\n"


@pytest.mark.parametrize("words", [(), ("81c0", "--list")])
def test_one_proposal_or_the_list_is_asked_for(words: tuple[str, ...], site: Asking, capsys: Capture) -> None:
    assert site.approve(*words) == 2
    assert "name one proposal, or ask for --list" in capsys.readouterr().err
    assert main(["approve", *words, *OF_PROD[2:]]) == 2
    assert "--cluster" in capsys.readouterr().err


def test_another_installation_is_not_touched(site: Asking) -> None:
    for number in range(1, len(OF_PROD), 2):
        elsewhere = (*OF_PROD[:number], "another", *OF_PROD[number + 1 :])
        assert main(["approve", site.proposal.id, *elsewhere]) == 2
    assert site.proposal.verdict is None
