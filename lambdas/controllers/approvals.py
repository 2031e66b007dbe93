"""Proposes commands, announces them, and tracks verdicts and changes of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from adapters.ports import Clock, ConflictError, PortError, TooLargeError, Topic, reason_of
from adapters.run_report import RunReport
from adapters.store import ProposalStore
from core.approval import announcement
from core.approval.proposal import (
    PROPOSALS_MAX,
    ApprovalRule,
    Proposal,
    ProposalEnd,
    moved_namespaces,
    namespaces_by_node,
)
from core.approval.verification import Verification
from core.disruption.shrink_limit import shrinking
from core.ledger.outcome import DecisionOutcome, OutcomeState, approval_part
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import Snapshot
from core.reasons.code import DecisionKind, Refusal
from core.reasons.runs import CommandReason
from installation.metric_names import PROPOSALS_WAITING, REFUSED_COMMANDS
from lambdas.controllers.events import DecisionEvents


class UnapprovedCommand(msgspec.Struct, frozen=True):
    """A command that needs approval: its id, and why; and the namespaces of the pods that it moves."""

    id: str
    command: Command
    namespaces: tuple[str, ...]
    why: Refusal


class CommandsByApproval(msgspec.Struct, frozen=True):
    """Commands with their ids: those that may begin, and those that wait for approval first.

    `namespaces`: id of a command that may begin → those whose pods it moves; none where no command waits.
    """

    startable: list[tuple[str, Command]]
    unapproved: list[UnapprovedCommand]
    namespaces: dict[str, tuple[str, ...]] = {}


class PassProposals(msgspec.Struct, frozen=True):
    """The proposals of one pass: those whose nodes other commands must not touch, and the approved ones, which may start."""

    waiting: tuple[Proposal, ...] = ()
    approved: tuple[tuple[Proposal, Command], ...] = ()

    @property
    def awaits_budget(self) -> bool:
        """Whether an approved command waits for its budget: `disrupt` keeps running until it starts."""
        return any(proposal.is_approved and proposal.end is None for proposal in self.waiting)


class Approvals:
    """The proposals of one cluster.

    Args:
        rule: Which commands wait; None: none, and the table is not read.
        topic: The topic for announcements; None: only events and `fleetwright status` show proposals.
    """

    def __init__(
        self,
        rule: ApprovalRule | None,
        store: ProposalStore,
        topic: Topic | None,
        events: DecisionEvents,
        *,
        cluster: str,
        clock: Clock,
    ) -> None:
        self._rule = rule
        self._store = store
        self._topic = topic
        self._events = events
        self._cluster = cluster
        self._clock = clock

    def open(self) -> tuple[Proposal, ...]:
        """Return the proposals that wait, or were rejected and keep their nodes. Raises PortError."""
        if self._rule is None:
            return ()
        return tuple(proposal for proposal in self._store.all() if proposal.keeps_nodes(self._clock.now()))

    def end_lapsed(self, proposals: Sequence[Proposal], snapshot: Snapshot, report: RunReport) -> PassProposals:
        """End proposals that lapse, and return the others. Raises PortError."""
        if not proposals or self._rule is None:
            return PassProposals()
        verification = Verification(proposals, self._rule, snapshot)
        waiting, approved = list[Proposal](), list[tuple[Proposal, Command]]()
        for proposal in sorted(proposals, key=lambda proposal: (proposal.proposed_at, proposal.id)):
            if proposal.end is not None:
                waiting.append(proposal)
                continue
            if proposal.is_rejected:
                by = proposal.verdict.by if proposal.verdict is not None else ""
                waiting.append(self._end(proposal, CommandReason.REJECTED, f"rejected by {by}", report))
                continue
            refusal = verification.lapse(proposal)
            if refusal is not None:
                ended = self._end(proposal, refusal.reason, refusal.message, report)
                waiting += [ended] if ended.end is None else []
                continue
            current = self._announced(proposal, report)
            waiting.append(current)
            if current.is_approved:
                command = verification.start(current)
                if isinstance(command, Refusal):
                    message = f"approved, and waits for its turn: {command.message}"
                    report.decide(DecisionKind.SKIP, current.id, command.reason, message)
                else:
                    approved.append((current, command))
        report.count(PROPOSALS_WAITING, sum(proposal.end is None for proposal in waiting))
        return PassProposals(tuple(waiting), tuple(approved))

    def begin(self, proposal: Proposal, report: RunReport) -> bool:
        """End an approved proposal whose command is about to be stored; return whether it may be.

        Each approval is used once: the write is conditional. Verdicts are read again after it, so that a concurrent rejection
        wins: whoever rejects reads the proposal after writing. After a crash in between, the command is proposed again.

        Raises:
            PortError: If the table cannot be written.
        """
        by = proposal.verdict.by if proposal.verdict is not None else ""
        now, message = self._clock.now(), f"approved by {by}"
        end = ProposalEnd(reason=CommandReason.APPROVED, message=message, at=now)
        try:
            ended = self._store.change(proposal, msgspec.structs.replace(proposal, end=end))
            verdict = self._store.verdict_on(proposal)
            if verdict is None or not verdict.is_approved:
                rejected = msgspec.structs.replace(ended, verdict=verdict, end=None)
                rejection = "rejected by " + verdict.by if verdict is not None else "its approval is gone"
                self._end(rejected, CommandReason.REJECTED, rejection, report)
                return False
        except ConflictError as error:
            report.decide(DecisionKind.SKIP, proposal.id, reason_of(error), str(error))
            return False
        report.decide(DecisionKind.APPROVE, proposal.id, CommandReason.APPROVED, message)
        report.outcomes.append(_outcome(proposal, approval_part(proposal.id), OutcomeState.DONE, end))
        return True

    def by_approval(
        self,
        commands: Sequence[tuple[str, Command]],
        waiting: Sequence[Proposal],
        snapshot: Snapshot,
        report: RunReport,
    ) -> CommandsByApproval:
        """Separate the commands that wait for approval from the others; beyond `PROPOSALS_MAX`, no further one is proposed."""
        if self._rule is None:
            return CommandsByApproval(list(commands), [])
        too_fast = shrinking(commands, snapshot, self._rule.shrink_percent)
        room = PROPOSALS_MAX - sum(proposal.end is None for proposal in waiting)
        startable, unapproved = list[tuple[str, Command]](), list[UnapprovedCommand]()
        by_node = namespaces_by_node(snapshot) if commands else {}
        moved = {name: tuple(sorted(moved_namespaces(command, by_node))) for name, command in commands}
        for command_id, command in commands:
            namespaces = moved[command_id]
            why = self._rule.reason_to_wait(command, namespaces) or too_fast.get(command_id)
            if why is None:
                startable.append((command_id, command))
            elif len(unapproved) < room:
                unapproved.append(UnapprovedCommand(command_id, command, namespaces, why))
            else:
                message = f"{PROPOSALS_MAX} proposals wait already; this one is proposed after them"
                report.decide(DecisionKind.SKIP, ", ".join(command.nodes), CommandReason.AWAITS_APPROVAL, message)
        return CommandsByApproval(startable, unapproved, {name: moved[name] for name, _ in startable})

    def propose(self, unapproved: Sequence[UnapprovedCommand], plan: DisruptionPlan, report: RunReport) -> None:
        """Store commands as proposals, announce them, and write events on their nodes. Raises PortError."""
        for waiting in unapproved:
            proposal = Proposal(
                id=waiting.id,
                command=waiting.command,
                namespaces=waiting.namespaces,
                decision=report.decision_id,
                why=waiting.why.message,
                text=announcement.explanation(waiting.command, plan),
                proposed_at=self._clock.now(),
            )
            try:
                stored = self._store.add(proposal)
            except ConflictError:
                message = "an earlier attempt of this run stored it"
                report.decide(DecisionKind.SKIP, waiting.id, CommandReason.ALREADY_DECIDED, message)
                report.count(PROPOSALS_WAITING)
                continue
            except TooLargeError as error:  # the other proposals are stored nevertheless
                report.count(REFUSED_COMMANDS)
                report.decide(DecisionKind.SKIP, waiting.id, CommandReason.COMMAND_REFUSED, str(error))
                continue
            report.count(PROPOSALS_WAITING)
            report.decide(
                DecisionKind.PROPOSE,
                ", ".join(waiting.command.nodes),
                CommandReason.AWAITS_APPROVAL,
                waiting.why.message,
            )
            self._announced(stored, report)
            self._events.proposed(proposal)

    def _announced(self, proposal: Proposal, report: RunReport) -> Proposal:
        """Publish the proposal if it has not been published yet; after a failure, the next pass tries again.

        A proposal with a verdict needs no announcement: the person knows it.
        """
        if self._topic is None or proposal.announced_at is not None or proposal.verdict is not None:
            return proposal
        try:
            self._topic.publish(
                announcement.proposal_subject(proposal, self._cluster),
                announcement.proposal_body(proposal, self._cluster),
            )
        except PortError as error:
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, proposal.id, reason_of(error), str(error))
            return proposal
        return self._change(proposal, msgspec.structs.replace(proposal, announced_at=self._clock.now()), report)

    def _end(self, proposal: Proposal, reason: str, message: str, report: RunReport) -> Proposal:
        """End a proposal; unchanged after a conflict with a person's verdict, so that it has no outcome yet."""
        end = ProposalEnd(reason=reason, message=message, at=self._clock.now())
        ended = self._change(proposal, msgspec.structs.replace(proposal, end=end), report)
        if ended.end is not None:
            report.decide(DecisionKind.ABANDON, proposal.id, CommandReason.of(reason), message)
            report.outcomes.append(_outcome(proposal, proposal.id, OutcomeState.ABANDONED, end))
        return ended

    def _change(self, before: Proposal, after: Proposal, report: RunReport) -> Proposal:
        """Store a change; after a conflict with a person's verdict, the next pass reads both."""
        try:
            return self._store.change(before, after)
        except ConflictError as error:
            report.decide(DecisionKind.SKIP, before.id, reason_of(error), str(error))
            return before


def _outcome(proposal: Proposal, part: str, state: OutcomeState, end: ProposalEnd) -> DecisionOutcome:
    """Return the end of a proposal for the ledger; an approved one has a part of its own beside its command's."""
    return DecisionOutcome(
        decision=proposal.decision, part=part, state=state, at=end.at, reason=end.reason, message=end.message
    )
