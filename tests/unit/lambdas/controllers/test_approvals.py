"""Commands that wait for a person: proposed once, told to people, begun when approved, dropped when the world moves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import DeniedError, TooLargeError, TransientError
from adapters.run_report import RunReport
from adapters.runtime import in_turn
from core.approval.proposal import EXPIRES_AFTER, PROPOSALS_MAX, ApprovalRule, Proposal, ProposalEnd, ProposalVerdict
from core.ledger.entry import PROPOSED, LedgerEntry, by_decision, decode_entry, log_entry
from core.ledger.outcome import decode_outcomes
from core.ledger.reading import read_decision_key
from core.manifests.wire import resources
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import Snapshot
from core.reasons.code import DecisionKind
from core.reasons.nodes import NodeReason
from core.reasons.runs import CommandReason, NeedsApproval
from installation.metric_names import PROPOSALS_WAITING
from lambdas.controllers.approvals import Approvals, UnapprovedCommand
from lambdas.controllers.events import DecisionEvents
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

BY = "arn:aws:iam::123456789012:user/ada"


@pytest.fixture
def lab() -> Lab:
    lab = Lab(mode="approve")
    an_empty_node(lab)
    return lab


def an_empty_node(lab: Lab) -> None:
    """A node whose pod has gone, in a NodePool whose budget lets one node go."""
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=1)


def the_proposal(lab: Lab) -> Proposal:
    (proposal,) = lab.rows.proposals.values()
    return proposal


def say(lab: Lab, *, approve: bool) -> None:
    """What `fleetwright approve` writes."""
    proposal = the_proposal(lab)
    verdict = ProposalVerdict(is_approved=approve, by=BY, at=lab.clock.now())
    lab.app.adapters.proposals.answer(proposal, verdict)


def entries(lab: Lab) -> list[LedgerEntry]:
    return [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]


def logged(lab: Lab, entry: LedgerEntry) -> tuple[str, int]:
    """State and price of a decision's line in the log."""
    raw = [body for key, body in lab.ledger.objects.items() if key.startswith("outcomes/")]
    ended = by_decision(outcome for body in raw for outcome in decode_outcomes(body))
    line = log_entry(entry, ended.get(entry.id, ()))
    return line.state, line.hourly


def disrupt_and_report(lab: Lab) -> list[tuple[str, str]]:
    """Run `disrupt` as its handler does; return kind and reason of its decisions."""
    report = lab.disrupt()
    lab.app.adapters.ledger.record_outcomes("disrupt", report.outcomes)
    return [(decision.kind, decision.reason) for decision in report.decisions]


def test_a_command_beyond_the_bound_is_proposed_and_not_begun(lab: Lab) -> None:
    (node,) = lab.kubernetes.names(resources.NODES)
    assert (DecisionKind.PROPOSE, CommandReason.AWAITS_APPROVAL) in disrupt_and_report(lab)
    assert lab.rows.commands == {}
    assert lab.work.take() == []
    proposal = the_proposal(lab)
    assert proposal.command.nodes == (node,)
    ((subject, text),) = lab.topic.told
    assert proposal.id in subject
    assert f"node {node} goes [Empty]" in text
    assert f"fleetwright approve {proposal.id} --cluster test" in text
    entry = entries(lab)[-1]
    assert entry.what == f"propose to remove {node}"
    assert logged(lab, entry) == (PROPOSED, 0)
    told = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    about = {(event["involvedObject"]["kind"], event["reason"]) for event in told}
    assert ("Node", CommandReason.AWAITS_APPROVAL) in about


def test_what_waits_is_not_proposed_again_and_takes_no_place_in_a_budget(lab: Lab) -> None:
    disrupt_and_report(lab)
    lab.settings = msgspec.structs.replace(lab.settings, approve_above_nodes=1)
    lab.kubernetes.put(a_pending_pod("q", cpu="1900m"), a_pending_pod("r", cpu="1900m"))
    first = lab.kubernetes.names(resources.NODES)[0]
    lab.kubernetes.amend(resources.NODES, first, {"spec": {"unschedulable": True}})
    lab.settle()
    for pod in ("q", "r"):
        lab.kubernetes.drop(resources.PODS, pod, "default")
    lab.clock.advance(minutes=5)
    lab.restart()  # with the new bound: single nodes go without approval
    report = lab.disrupt()
    assert len(lab.rows.proposals) == 1
    (command,) = lab.rows.commands.values()
    assert first not in command.command.nodes
    assert report.counts[f"blocked{NodeReason.AWAITS_APPROVAL}"] == 1


def test_an_approved_command_is_checked_again_and_carried_out_under_its_own_id(lab: Lab) -> None:
    disrupt_and_report(lab)
    proposed = the_proposal(lab)
    entry = entries(lab)[-1]
    lab.clock.advance(minutes=40)
    say(lab, approve=True)
    assert (DecisionKind.APPROVE, CommandReason.APPROVED) in disrupt_and_report(lab)
    assert list(lab.rows.commands) == [proposed.id]
    assert lab.rows.commands[proposed.id].decision == entry.id
    assert [entry.id in text for _, text in lab.command_topic.told] == [True]
    assert the_proposal(lab).end is not None
    assert logged(lab, entry)[0] == "under way"
    for report in lab.tick(8, seconds=15):
        lab.app.adapters.ledger.record_outcomes("execute", report.outcomes)
    assert lab.kubernetes.names(resources.NODES) == []
    assert logged(lab, entry) == ("done", -proposed.command.savings)


def test_a_proposal_lapses_when_the_world_has_moved(lab: Lab) -> None:
    disrupt_and_report(lab)
    entry = entries(lab)[-1]
    lab.kubernetes.put(a_pending_pod("late"))
    lab.bind("late")
    say(lab, approve=True)
    assert (DecisionKind.ABANDON, CommandReason.PROPOSAL_LAPSED) in disrupt_and_report(lab)
    assert lab.rows.commands == {}
    end = the_proposal(lab).end
    assert end is not None
    assert "no longer empty" in end.message
    assert logged(lab, entry) == (f"came to nothing: {CommandReason.PROPOSAL_LAPSED}", 0)


def test_a_proposal_expires_and_is_made_again(lab: Lab) -> None:
    disrupt_and_report(lab)
    first = the_proposal(lab)
    lab.clock.pause(EXPIRES_AFTER)
    decisions = disrupt_and_report(lab)
    assert (DecisionKind.ABANDON, CommandReason.APPROVAL_EXPIRED) in decisions
    assert (DecisionKind.PROPOSE, CommandReason.AWAITS_APPROVAL) in decisions
    assert len(lab.rows.proposals) == 2
    assert len(lab.topic.told) == 2
    assert lab.rows.proposals[first.id].end is not None


def test_a_rejected_node_is_left_alone_for_the_rest_of_the_day(lab: Lab) -> None:
    disrupt_and_report(lab)
    say(lab, approve=False)
    assert (DecisionKind.ABANDON, CommandReason.REJECTED) in disrupt_and_report(lab)
    lab.clock.advance(hours=1)
    lab.restart()
    report = lab.disrupt()
    assert report.counts[f"blocked{NodeReason.PROPOSAL_REJECTED}"] == 1
    assert report.outcomes == []
    lab.clock.pause(EXPIRES_AFTER)
    lab.restart()
    assert (DecisionKind.PROPOSE, CommandReason.AWAITS_APPROVAL) in disrupt_and_report(lab)


def test_an_approved_command_waits_for_a_closed_budget(lab: Lab) -> None:
    """It was proposed while the budget was open; a person reads it when it is closed."""
    disrupt_and_report(lab)
    say(lab, approve=True)
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}))
    disrupt_and_report(lab)
    assert lab.rows.commands == {}
    assert the_proposal(lab).end is None
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
    disrupt_and_report(lab)
    assert list(lab.rows.commands) == [the_proposal(lab).id]


def test_an_approval_ends_a_resync_period(lab: Lab) -> None:
    """Nothing else in the cluster has changed."""
    for _ in range(3):
        disrupt_and_report(lab)
        lab.clock.advance(seconds=10)
    assert "skippedRuns" in lab.disrupt().counts
    say(lab, approve=True)
    disrupt_and_report(lab)
    assert list(lab.rows.commands) == [the_proposal(lab).id]


def test_a_topic_that_fails_is_tried_again(lab: Lab) -> None:
    lab.topic.broken = TransientError("sns:Publish", "503")
    disrupt_and_report(lab)
    assert the_proposal(lab).announced_at is None
    lab.topic.broken = None
    lab.restart()
    disrupt_and_report(lab)
    disrupt_and_report(lab)
    assert len(lab.topic.told) == 1


def test_after_a_crash_before_the_command_is_stored_it_is_proposed_again(lab: Lab) -> None:
    """At worst a person is asked twice; nothing begins twice."""
    disrupt_and_report(lab)
    say(lab, approve=True)
    first = the_proposal(lab)

    def dies(call: str) -> None:
        if call == "write" and lab.rows.proposals[first.id].end is not None:
            lab.rows.before_call = lambda _: None
            raise TransientError("dynamodb:PutItem", "the function dies")

    lab.rows.before_call = dies
    with pytest.raises(TransientError):
        lab.disrupt()
    lab.restart()
    lab.clock.advance(minutes=1)
    assert (DecisionKind.PROPOSE, CommandReason.AWAITS_APPROVAL) in disrupt_and_report(lab)
    assert lab.rows.commands == {}
    assert sorted(lab.rows.proposals) != [first.id]


def test_a_rejection_of_the_same_moment_wins(lab: Lab) -> None:
    """A person may change their mind in time."""
    disrupt_and_report(lab)
    say(lab, approve=True)
    kept = lab.app.adapters.proposals.all

    def read_too_early() -> tuple[Proposal, ...]:
        proposals_before = kept()
        say(lab, approve=False)
        return proposals_before

    lab.app.adapters.proposals.all = read_too_early  # type: ignore[method-assign]
    assert (DecisionKind.ABANDON, CommandReason.REJECTED) in disrupt_and_report(lab)
    assert lab.rows.commands == {}


def test_an_unwritable_ledger_proposes_nothing(lab: Lab) -> None:
    lab.ledger.broken = TransientError("s3:PutObject", "503")
    lab.disrupt()
    assert lab.rows.proposals == {}
    assert lab.topic.told == []


def test_only_so_many_proposals_wait_at_once() -> None:
    lab = Lab(mode="approve")
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3500m") for n in range(PROPOSALS_MAX + 2)))
    lab.settle()
    for n in range(PROPOSALS_MAX + 2):
        lab.kubernetes.drop(resources.PODS, f"p{n}", "default")
    for _ in range(PROPOSALS_MAX + 3):
        lab.clock.advance(minutes=1)
        disrupt_and_report(lab)
    assert len(lab.rows.proposals) == PROPOSALS_MAX


def test_an_approval_of_the_moment_in_which_a_proposal_lapses_changes_nothing(lab: Lab) -> None:
    """Ledger and row have the same end, since the approval is no part of the row."""
    disrupt_and_report(lab)
    lab.kubernetes.put(a_pending_pod("late"))
    lab.bind("late")
    kept = lab.app.adapters.proposals.all

    def read_too_early() -> tuple[Proposal, ...]:
        proposals_before = kept()
        say(lab, approve=True)
        return proposals_before

    lab.app.adapters.proposals.all = read_too_early  # type: ignore[method-assign]
    assert (DecisionKind.ABANDON, CommandReason.PROPOSAL_LAPSED) in disrupt_and_report(lab)
    assert the_proposal(lab).end is not None
    assert lab.rows.commands == {}


def test_nobody_is_told_about_a_proposal_that_is_approved_already(lab: Lab) -> None:
    """The late announcement changed the row, so that the approved command waited for another pass."""
    lab.topic.broken = TransientError("sns:Publish", "503")
    disrupt_and_report(lab)
    say(lab, approve=True)
    lab.topic.broken = None
    assert (DecisionKind.APPROVE, CommandReason.APPROVED) in disrupt_and_report(lab)
    assert lab.topic.told == []


def test_an_approved_command_whose_budget_stays_closed_says_so_when_it_expires(lab: Lab) -> None:
    """It said that nobody had approved it."""
    disrupt_and_report(lab)
    first = the_proposal(lab)
    say(lab, approve=True)
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}))
    disrupt_and_report(lab)
    lab.clock.pause(EXPIRES_AFTER)
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
    disrupt_and_report(lab)
    end = lab.rows.proposals[first.id].end
    assert end is not None
    assert end.reason == CommandReason.APPROVAL_EXPIRED
    assert end.message.startswith("it was approved, but budgets and brakes did not let it begin")


def test_a_proposal_that_is_too_large_ends_no_run(lab: Lab) -> None:
    """Of a command with too many pods, whose row is too large; it is decided again by each run."""
    add = lab.app.adapters.proposals.add

    def refused(_: Proposal) -> Proposal:
        raise TooLargeError("dynamodb:PutItem", "Item size has exceeded the maximum allowed size")

    lab.app.adapters.proposals.add = refused  # type: ignore[method-assign]
    report = lab.disrupt()
    assert CommandReason.COMMAND_REFUSED in [decision.reason for decision in report.decisions]
    assert PROPOSALS_WAITING not in report.counts
    assert lab.topic.told == []
    lab.app.adapters.proposals.add = add  # type: ignore[method-assign]
    lab.clock.advance(minutes=1)
    lab.restart()
    assert (DecisionKind.PROPOSE, CommandReason.AWAITS_APPROVAL) in disrupt_and_report(lab)


def test_a_proposal_that_may_not_be_stored_ends_the_run(lab: Lab) -> None:
    """Nothing was ever proposed without permission for the table or its key; the runs succeeded, and no alarm rang."""

    def denied(_: Proposal) -> Proposal:
        raise DeniedError("dynamodb:PutItem", "AccessDeniedException: KMS key access denied")

    lab.app.adapters.proposals.add = denied  # type: ignore[method-assign]
    with pytest.raises(DeniedError):
        lab.disrupt()


def test_each_run_counts_what_waits(lab: Lab) -> None:
    """The alarm on proposals that nobody answers reads it."""
    assert lab.disrupt().counts[PROPOSALS_WAITING] == 1
    lab.clock.advance(minutes=1)
    lab.restart()
    assert lab.disrupt().counts[PROPOSALS_WAITING] == 1
    say(lab, approve=False)
    lab.clock.advance(minutes=1)
    lab.restart()
    assert lab.disrupt().counts[PROPOSALS_WAITING] == 0


def a_proposal(number: int = 0, **changes: Any) -> Proposal:
    command = Command(reason="Empty", method="emptiness", nodes=(f"n{number}",), claims=(f"c{number}",))
    fields = {"decision": "7f3a", "why": "every command waits", "text": "", "proposed_at": NOW, "announced_at": NOW}
    return Proposal(**{"id": f"x{number}", "command": command, **fields, **changes})


def approvals(lab: Lab, rule: ApprovalRule | None, *, topic: bool = True) -> Approvals:
    events = DecisionEvents(lab.kubernetes, lab.clock, in_turn)
    store = lab.app.adapters.proposals
    return Approvals(rule, store, lab.topic if topic else None, events, cluster="test", clock=lab.clock)


def verdict(*, approve: bool) -> ProposalVerdict:
    return ProposalVerdict(is_approved=approve, by=BY, at=NOW)


def approved(lab: Lab) -> Proposal:
    """A stored proposal with an approval."""
    proposals = lab.app.adapters.proposals
    proposals.answer(proposals.add(a_proposal()), verdict(approve=True))
    (proposal,) = proposals.all()
    return proposal


def told(report: RunReport) -> list[tuple[str, str, str, str]]:
    return [(decision.kind, decision.subject, decision.reason, decision.message) for decision in report.decisions]


COMMANDS = [("a", a_proposal(0).command), ("b", a_proposal(1).command)]
PLAN = DisruptionPlan(now=NOW)


def test_without_a_rule_no_command_waits_and_no_proposal_is_read() -> None:
    lab = Lab()
    lab.rows.proposals["x0"] = a_proposal()
    off = approvals(lab, None)
    assert off.open() == ()
    split = off.by_approval(COMMANDS, [a_proposal()], Snapshot(now=NOW), RunReport())
    assert (split.startable, split.unapproved) == (COMMANDS, [])


def test_ended_proposals_are_open_only_while_a_rejection_keeps_their_nodes() -> None:
    lab = Lab()
    end = ProposalEnd(reason=CommandReason.REJECTED, message="", at=NOW)
    lab.rows.proposals = {
        "x0": a_proposal(0),
        "x1": a_proposal(1, end=end),
        "x2": a_proposal(2, end=end, verdict=verdict(approve=False)),
    }
    assert [proposal.id for proposal in approvals(lab, ApprovalRule()).open()] == ["x0", "x2"]


def test_a_rejected_proposal_ends_with_who_rejected_it_and_stays_in_the_way() -> None:
    lab, report = Lab(), RunReport()
    proposals = [lab.app.adapters.proposals.add(a_proposal(n, verdict=verdict(approve=False))) for n in range(2)]
    remaining = approvals(lab, ApprovalRule()).end_lapsed(proposals, Snapshot(now=NOW), report)
    message = f"rejected by {BY}"
    assert [(proposal.id, proposal.end and proposal.end.message) for proposal in remaining.waiting] == [
        ("x0", message),
        ("x1", message),
    ]
    assert told(report) == [("abandon", f"x{n}", CommandReason.REJECTED, message) for n in range(2)]
    ended = [
        (outcome.decision, outcome.part, outcome.state, outcome.reason, outcome.message) for outcome in report.outcomes
    ]
    assert ended == [("7f3a", f"x{n}", "abandoned", CommandReason.REJECTED, message) for n in range(2)]
    assert report.counts[PROPOSALS_WAITING] == 0


def test_proposals_whose_nodes_are_gone_lapse_each_with_its_reason() -> None:
    lab, report = Lab(), RunReport()
    proposals = [lab.app.adapters.proposals.add(a_proposal(n)) for n in range(2)]
    remaining = approvals(lab, ApprovalRule()).end_lapsed(proposals, Snapshot(now=NOW), report)
    assert (remaining.waiting, remaining.approved) == ((), ())
    assert [(kind, subject) for kind, subject, _, _ in told(report)] == [("abandon", "x0"), ("abandon", "x1")]
    assert all(proposal.end is not None for proposal in lab.rows.proposals.values())


def test_a_command_that_is_begun_names_who_approved_it() -> None:
    lab, report = Lab(), RunReport()
    proposal = approved(lab)
    assert approvals(lab, ApprovalRule()).begin(proposal, report)
    assert told(report) == [("approve", "x0", CommandReason.APPROVED, f"approved by {BY}")]
    (outcome,) = report.outcomes
    assert (outcome.part, outcome.state, outcome.message) == ("approval/x0", "done", f"approved by {BY}")


def test_a_command_whose_proposal_has_changed_is_not_begun() -> None:
    lab, report = Lab(), RunReport()
    proposal = approved(lab)
    changed = lab.app.adapters.proposals.change(proposal, proposal)
    assert not approvals(lab, ApprovalRule()).begin(proposal, report)
    assert [(kind, subject) for kind, subject, _, _ in told(report)] == [("skip", "x0")]
    assert (report.outcomes, lab.rows.proposals["x0"]) == ([], changed)


def test_what_an_earlier_attempt_has_stored_counts_and_the_others_are_proposed() -> None:
    lab, report = Lab(), RunReport()
    lab.app.adapters.proposals.add(a_proposal(id="a"))
    unapproved = [UnapprovedCommand(name, command, (), NeedsApproval()) for name, command in COMMANDS]
    approvals(lab, ApprovalRule()).propose(unapproved, PLAN, report)
    assert [(kind, subject, reason) for kind, subject, reason, _ in told(report)] == [
        ("skip", "a", CommandReason.ALREADY_DECIDED),
        ("propose", "n1", CommandReason.AWAITS_APPROVAL),
    ]
    assert report.counts[PROPOSALS_WAITING] == 2
    assert len(lab.topic.told) == 1


def test_a_topic_that_does_not_answer_is_told_and_delays_no_proposal() -> None:
    lab, report = Lab(), RunReport()
    lab.topic.broken = TransientError("sns:Publish", "500")
    unapproved = [UnapprovedCommand(name, command, (), NeedsApproval()) for name, command in COMMANDS]
    approvals(lab, ApprovalRule()).propose(unapproved, PLAN, report)
    assert report.counts["portErrors"] == 2
    assert [subject for kind, subject, _, _ in told(report) if kind == "skip"] == ["a", "b"]
    assert [proposal.announced_at for proposal in lab.rows.proposals.values()] == [None, None]


def test_without_a_topic_proposals_are_stored_all_the_same() -> None:
    lab, report = Lab(), RunReport()
    unapproved = [UnapprovedCommand(name, command, (), NeedsApproval()) for name, command in COMMANDS]
    approvals(lab, ApprovalRule(), topic=False).propose(unapproved, PLAN, report)
    assert sorted(lab.rows.proposals) == ["a", "b"]
    assert lab.topic.told == []


def test_room_for_proposals_counts_those_that_wait_and_not_those_that_ended() -> None:
    report = RunReport()
    ended = a_proposal(99, end=ProposalEnd(reason=CommandReason.REJECTED, message="", at=NOW))
    waiting = [a_proposal(number) for number in range(PROPOSALS_MAX - 1)]
    split = approvals(Lab(), ApprovalRule()).by_approval(COMMANDS, [*waiting, ended], Snapshot(now=NOW), report)
    assert (split.startable, [command.id for command in split.unapproved]) == ([], ["a"])
    assert [(kind, subject) for kind, subject, _, _ in told(report)] == [("skip", "n1")]


# What those who may answer may not do: sign as others, change what was approved, use an approval twice.


def test_a_verdict_in_the_row_itself_is_nobodys() -> None:
    lab = Lab(mode="approve")
    an_empty_node(lab)
    lab.disrupt()
    forged = msgspec.structs.replace(the_proposal(lab), verdict=verdict(approve=True))
    lab.rows.proposals[forged.id] = forged
    lab.clock.advance(seconds=30)
    lab.disrupt()
    assert lab.rows.commands == {}
    say(lab, approve=True)
    lab.disrupt()
    assert len(lab.rows.commands) == 1


@pytest.mark.parametrize("field", ["id", "command", "proposed_at"])
def test_an_approval_holds_for_exactly_what_was_announced(field: str) -> None:
    lab = Lab()
    proposal = approved(lab)
    other = {
        "id": "x9",
        "command": msgspec.structs.replace(proposal.command, savings=proposal.command.savings + 1),
        "proposed_at": proposal.proposed_at + timedelta(hours=1),
    }[field]
    changed = msgspec.structs.replace(proposal, **{field: other}, verdict=None)
    assert lab.app.adapters.proposals.verdict_on(proposal) is not None
    assert lab.app.adapters.proposals.verdict_on(changed) is None


def test_an_approval_is_used_once() -> None:
    lab = Lab()
    proposal = approved(lab)
    assert approvals(lab, ApprovalRule()).begin(proposal, RunReport())
    assert not approvals(lab, ApprovalRule()).begin(proposal, RunReport())


def test_a_rejection_that_comes_between_reading_and_beginning_wins() -> None:
    lab, report = Lab(), RunReport()
    proposal = approved(lab)
    no = msgspec.structs.replace(verdict(approve=False), by="another")
    lab.app.adapters.proposals.answer(proposal, no)
    assert not approvals(lab, ApprovalRule()).begin(proposal, report)
    assert [(kind, reason) for kind, _, reason, _ in told(report)] == [("abandon", CommandReason.REJECTED)]
    (kept,) = lab.rows.proposals.values()
    assert kept.keeps_nodes(NOW)
    assert kept.is_rejected
