"""One pass of `disrupt`: observe, decide which nodes go, store the commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from adapters.brakes import skipped
from adapters.ledger import LedgerWriter, SearchBound
from adapters.messages import PartsRun, work_on_command
from adapters.observation.observer import ClusterState, Observer
from adapters.observation.stores import PlanCache, Stores, snapshot_digest
from adapters.ports import Clock, ConflictError, PortError, Queue, TooLargeError, Topic, TransientError, reason_of
from adapters.run_report import RunReport
from adapters.runtime import share_until
from adapters.store import CommandStore, Lease, MoveHistoryStore
from core.approval import announcement
from core.approval.proposal import Proposal
from core.approval.verification import without_proposed
from core.brakes import Action, BrakeKind, EngagedBrakes, action_of
from core.breakers import one_at_a_time
from core.containment import contained
from core.disruption.consolidation_nodes import payback_minutes
from core.disruption.decision import LEFT_FOR_THE_TARGET, disrupt, startable
from core.disruption.move_history import MoveHistory
from core.disruption.node_health import has_unhealthy_node
from core.disruption.shrink_limit import brake as shrinking_brake
from core.interpreter import collector_paused
from core.ledger.entry import DISRUPT, THOUSANDTHS, RecordedTime, and_groups, command_words, observed, of_disruption
from core.lifecycle.commands import first_check_at
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.plan import Command, DisruptionPlan, StoredTarget
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.pool_admission import as_acting, observed_pools
from core.reasons.code import DecisionKind, TargetReason, TerminationReason
from core.reasons.nodes import NodeReason
from core.reasons.runs import CommandReason
from installation.metric_names import REFUSED_COMMANDS, ROLLOUTS_STOPPED
from lambdas.controllers.approvals import Approvals, CommandsByApproval, PassProposals
from lambdas.controllers.disruption_state import RunCoordination, TargetProgress, with_rollouts, write_pod_events
from lambdas.controllers.events import ObjectWarnings
from lambdas.controllers.resync import AbsentClaims, BudgetCheck, DisruptionResync, DisruptionState

if TYPE_CHECKING:
    from lambdas.cluster_parts import DistributedParts

# Limits which commands of a decision may be stored now: brakes, and pauses after a failed validation.


class CommandGate:
    """Holds back commands that a brake stops or that recently failed validation, and reports them."""

    def __init__(self, moves: MoveHistoryStore) -> None:
        self._moves = moves

    def admit(
        self,
        commands: Sequence[Command],
        present: Sequence[CommandRecord],
        records: tuple[ClaimRecord, ...],
        brakes: EngagedBrakes,
        now: datetime,
        report: RunReport,
    ) -> Sequence[Command]:
        """Return the commands that may be stored in addition to those present, which are in progress. Raises PortError."""
        pool_of = {record.name: record.plan.node_pool for record in records}
        under_way = [command.command for command in present]
        history = self._moves.read(now) if commands else MoveHistory()
        free = [
            command
            for command in commands
            if not _is_stopped(command, pool_of, brakes, report) and not _is_paused(command, history, now, report)
        ]
        return one_at_a_time(free, under_way, pool_of, brakes.probed_pools)


def _is_stopped(command: Command, pool_of: Mapping[str, str], brakes: EngagedBrakes, report: RunReport) -> bool:
    """Whether a brake stops this kind of command."""
    stopping = (brakes.stopping(action_of(command.reason), pool_of.get(claim, "")) for claim in command.claims)
    brake = next((stopping_brake for stopping_brake in stopping if stopping_brake is not None), None)
    if brake is not None:
        skipped(brake, ", ".join(command.nodes), report)
    return brake is not None


def _is_paused(command: Command, history: MoveHistory, now: datetime, report: RunReport) -> bool:
    """Whether the same command recently failed validation."""
    if not history.is_paused(command, now):
        return False
    message = "it recently failed validation, so it is postponed"
    report.decide(DecisionKind.SKIP, ", ".join(command.nodes), CommandReason.FAILED_BEFORE, message)
    return True


# Stores commands for `execute`, once the ledger has their decision.


class CommandWriter:
    """Writes decisions to the ledger and their commands to the table, and requests each command's first check."""

    def __init__(self, commands: CommandStore, ledger: LedgerWriter, work: Queue, clock: Clock) -> None:
        self._commands = commands
        self._ledger = ledger
        self._work = work
        self._clock = clock

    @property
    def keeps_decisions(self) -> bool:
        """Whether decisions are written to a ledger."""
        return self._ledger.is_kept

    def write_decision(
        self,
        snapshot: Snapshot,
        plan: DisruptionPlan,
        commands: CommandsByApproval,
        elapsed: Sequence[int],
        report: RunReport,
    ) -> CommandsByApproval:
        """Write the decision to the ledger and return the commands to store.

        If that fails, only unhealthy nodes are replaced.
        """
        bound = SearchBound(snapshot.options.improve_iterations, tuple(elapsed))
        draft = self._ledger.draft(DISRUPT, snapshot, plan, bound)
        report.decision_id = draft.id
        unapproved = [(waiting.id, waiting.command, waiting.why.message) for waiting in commands.unapproved]
        if self._ledger.try_write(draft, of_disruption(plan, commands.startable, unapproved), report):
            return commands
        unhealthy = [
            (name, command) for name, command in commands.startable if command.reason == TerminationReason.UNHEALTHY
        ]
        return CommandsByApproval(unhealthy, [])

    def write(
        self,
        command_id: str,
        command: Command,
        report: RunReport,
        continued: StoredTarget | None = None,
        *,
        namespaces: tuple[str, ...] = (),
    ) -> bool:
        """Store a command and request its first check; return whether it is new. Raises PortError.

        `continued` is the target that the command continues, `namespaces` those whose pods it was decided or approved to move.
        """
        now = self._clock.now()
        record = CommandRecord(
            id=command_id,
            decision=report.decision_id,
            command=command,
            created_at=now,
            phase_since=now,
            verify_at=first_check_at(command, continued, now),
            namespaces=namespaces,
        )
        is_new = True
        try:
            self._commands.add(record)
        except ConflictError:
            is_new = False
            report.decide(
                DecisionKind.SKIP, record.id, CommandReason.ALREADY_DECIDED, "an earlier attempt of this run stored it"
            )
        except TooLargeError as error:  # the other commands are stored nevertheless
            report.count(REFUSED_COMMANDS)
            report.decide(DecisionKind.SKIP, record.id, CommandReason.COMMAND_REFUSED, str(error))
            return False
        self._work.send([work_on_command(record.id, now)], delay=record.verify_at - now)
        _report(command, report)
        return is_new


class CommandAnnouncer:
    """Tells subscribers of the commands that a run has stored, in one message.

    A message is sent at most once, and a failure stops nothing: the ledger has every decision.

    Args:
        topic: The topic; None: no message is sent.
        cluster: The cluster's name.
    """

    def __init__(self, topic: Topic | None, cluster: str) -> None:
        self._topic = topic
        self._cluster = cluster

    def announce(self, commands: Sequence[Command], report: RunReport) -> None:
        """Publish the commands; nothing without any."""
        if self._topic is None or not commands:
            return
        subject = announcement.commands_subject(commands, self._cluster)
        text = announcement.commands_body(commands, self._cluster, report.decision_id)
        try:
            self._topic.publish(subject, text)
        except PortError as error:
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, "announcement", reason_of(error), str(error))


def command_id(command: Command, now: datetime) -> str:
    """Return the id of a command that is decided now: equal for equal claims, reason and time."""
    text = "/".join((now.isoformat(), command.reason, *command.claims))
    return blake2b(text.encode(), digest_size=5).hexdigest()


def _report_shrinking(plan: DisruptionPlan, snapshot: Snapshot, report: RunReport) -> None:
    """Report each NodePool that may not shrink further now, with the first of its nodes that stay therefore."""
    pool_of = {state.name: state.node_pool for state in state_nodes(snapshot)}
    held = {
        pool_of.get(block.node, ""): block for block in reversed(plan.blocked) if block.reason == NodeReason.SHRINKING
    }
    for pool, block in sorted(held.items()):
        skipped(shrinking_brake(pool, block.message), pool, report)


def _report(command: Command, report: RunReport) -> None:
    """Report for each node why it goes and what that saves."""
    minutes = payback_minutes(command)
    paid = "" if minutes is None else f", paid for in {minutes} minutes"
    prices = (
        f"saves {command.savings / 10**9:.4f} USD/h with {len(command.replacements)} replacements "
        f"and {len(command.moves)} moved pods{paid}"
    )
    for node in command.nodes:
        report.decide(
            DecisionKind.DISRUPT,
            node,
            TerminationReason.stored(command.reason),
            f"{command.method}, {prices}, validated first",
        )


# Records which nodes would go while disruption is only observed.


STORING: Final = timedelta(seconds=45)
"""Time reserved after the decision for the ledger and for storing commands, some milliseconds each."""

PLAN_ID: Final = "observed"

REUSED_FOR: Final = timedelta(minutes=5)
"""After this time, even an unchanged cluster is decided again (Karpenter): `consolidateAfter` expires without a change."""


class ObservedCommands:
    """The recorded commands of one sandbox, which are not carried out; each state of the cluster is recorded once."""

    def __init__(self, ledger: LedgerWriter, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._decided = ""
        self._decided_at: datetime | None = None
        self._last_recorded = ""

    def observe(self, snapshot: Snapshot, report: RunReport, *, until: datetime) -> None:
        """Decide as if observed NodePools were not, and record the commands for their nodes. Never raises PortError."""
        pools = observed_pools(snapshot)
        if pools:
            self.record(as_acting(snapshot), report, pools=pools, until=until)

    def record(
        self, snapshot: Snapshot, report: RunReport, *, until: datetime, pools: Collection[str] | None = None
    ) -> None:
        """Decide about this snapshot, and record the decision.

        Args:
            snapshot: The input of the decision.
            report: Collects the decisions.
            until: When the decision must end.
            pools: Only commands that concern these are recorded, and only decisions with any; None: all commands, and a
                decision for each new snapshot.
        """
        digest, now = snapshot_digest(snapshot), self._clock.now()
        is_same = digest == self._decided
        if is_same and self._decided_at is not None and now - self._decided_at < REUSED_FOR:
            return
        self._decided, self._decided_at = digest, now
        clock = share_until(self._clock, until)
        decided = contained(snapshot, partial(self._timed_plan, clock), is_out_of_time=lambda: clock() >= 1)
        (plan, time), snapshot = decided.result, decided.snapshot
        bound = SearchBound(snapshot.options.improve_iterations, tuple(time.elapsed))
        draft = self._ledger.draft(DISRUPT, snapshot, plan, bound, is_observed=True)
        concerned = _concerns(snapshot, pools)
        commands = [command for command in startable(plan.commands) if concerned(command)]
        shown = plan if pools is None else msgspec.structs.replace(plan, blocked=())
        summary = observed(of_disruption(shown, [(f"{PLAN_ID}-{n}", command) for n, command in enumerate(commands)]))
        is_new, self._last_recorded = summary.what != self._last_recorded, summary.what
        if (is_same and not is_new) or (pools is not None and not (commands and is_new)):
            return
        report.decision_id = report.decision_id or draft.id
        for command in commands if is_new else ():
            words = f"would {command_words(command)} ({draft.id or 'no ledger'})"
            message = and_groups(words, command.groups)
            reason = TerminationReason.stored(command.reason)
            report.decide(DecisionKind.OBSERVE, ", ".join(command.nodes), reason, message)
        if not self._ledger.try_write(draft, summary, report):
            self._decided = ""

    def _timed_plan(self, clock: Callable[[], float], snapshot: Snapshot) -> tuple[DisruptionPlan, RecordedTime]:
        time = RecordedTime(clock)
        with collector_paused():
            return disrupt(snapshot, deadline=time, proves=self._ledger.is_kept), time


def _concerns(snapshot: Snapshot, pools: Collection[str] | None) -> Callable[[Command], bool]:
    """Whether a command removes or launches a node of these NodePools."""
    pool_of = {claim.name: claim.node_pool for claim in snapshot.node_claims}

    def concerned(command: Command) -> bool:
        named = {pool_of.get(name, "") for name in command.claims} | {new.node_pool for new in command.replacements}
        return pools is None or not named.isdisjoint(pools)

    return concerned


DECISION_REUSED_FOR: Final = timedelta(minutes=30)
"""How long a decision to do nothing is reused while the snapshot's digest stays the same.

Karpenter decides again after five minutes because of changes that are part of our digest.
"""


class PassInputs(msgspec.Struct, frozen=True):
    """The inputs that a run has read before its pass, and its limits.

    Attributes:
        state: Digest of the inputs; while it stays the same, the next runs may skip their observations.
        deadline: When the run is cut off.
        is_window: Whether a budget window has just opened or closed, so that earlier conclusions are invalid.
        is_woken: Whether a message started the run, so that another may start a later one.
    """

    claims: tuple[ClaimRecord, ...]
    brakes: EngagedBrakes
    proposals: tuple[Proposal, ...]
    state: bytes
    deadline: datetime
    is_window: bool
    is_woken: bool = False


class SkipConditions(NamedTuple):
    """Conditions under which a run does not observe: no claims, closed budgets, an unchanged cluster, another deciding run."""

    absent: AbsentClaims
    budgets: BudgetCheck
    resync: DisruptionResync
    turns: RunCoordination


class _Decided(msgspec.Struct, frozen=True):
    """A plan for a snapshot; `digest` is that of the observation, which has no target yet; `elapsed` the clock's readings."""

    snapshot: Snapshot
    plan: DisruptionPlan
    digest: str
    at: datetime
    elapsed: tuple[int, ...]
    is_new: bool

    @property
    def is_cut_off(self) -> bool:
        """Whether something was left out for lack of time, so that the same snapshot may give a different plan."""
        return max(self.elapsed, default=0) >= THOUSANDTHS * (1 - LEFT_FOR_THE_TARGET)


@dataclass(kw_only=True)
class DecisionPass:
    """Passes of one sandbox. A decision to do nothing is reused while nothing changes."""

    observer: Observer
    stores: Stores
    skips: SkipConditions
    target: TargetProgress
    approvals: Approvals
    gate: CommandGate
    writer: CommandWriter
    announcer: CommandAnnouncer
    only_observed: ObservedCommands
    warnings: ObjectWarnings
    clock: Clock
    parts: DistributedParts | None = None

    def __post_init__(self) -> None:
        self._quiet: PlanCache[DisruptionPlan] = PlanCache(DECISION_REUSED_FOR)

    def run(self, inputs: PassInputs, report: RunReport) -> None:
        """Observe and decide, and request the run for the next known time. Raises PortError."""
        observed_at = self.clock.now()
        view = self._observed(inputs, report)
        if _awaits_validation(view.snapshot, view.commands, report):
            self.skips.turns.ask_after_validation(view.commands)
            return
        if inputs.is_woken and self.skips.turns.is_postponed(view.snapshot, report):
            return
        proposals = self.approvals.end_lapsed(inputs.proposals, view.snapshot, report)
        if self._begin_approved(proposals, view, inputs, report):
            return
        observed = without_proposed(view.snapshot, proposals.waiting)
        if self._is_distributed(observed, inputs, report):
            self.skips.resync.end()
            return
        decided = self._decided(observed, inputs, report)
        self._store(decided, view.commands, proposals, inputs, report)
        self.only_observed.observe(observed, report, until=inputs.deadline - STORING)
        self.skips.turns.ended(view, is_new=decided.is_new, has_commands=bool(decided.plan.commands))
        report.count("cutOffDecisions", int(decided.is_cut_off))
        if not decided.plan.commands and not _awaits_repair(view) and not decided.is_cut_off:
            self._quiet.keep(decided.digest, decided.at, decided.plan)
            if not proposals.awaits_budget:
                self.skips.resync.begin(inputs.state, observed_at, view.snapshot)
                return
        self.skips.resync.end()

    def join(self, request: PartsRun, inputs: PassInputs, report: RunReport) -> None:
        """Carry out what functions have decided about the parts of a cluster. Raises PortError."""
        joined = None if self.parts is None else self.parts.join(request, report)
        if self.parts is None or joined is None:
            return
        snapshot, present = joined.snapshot, self.stores.commands.all()
        if _awaits_validation(snapshot, present, report):
            return
        # Equal names for equal commands: what an earlier attempt has stored is not stored again.
        decided = _Decided(snapshot, joined.plan, "", snapshot.now, joined.elapsed, is_new=True)
        self.warnings.set_aside(joined.set_aside, report)
        self._report(decided, report)
        proposals = self.approvals.end_lapsed(inputs.proposals, snapshot, report)
        self._store(decided, present, proposals, inputs, report)
        report.count("cutOffDecisions", int(decided.is_cut_off))
        self.parts.close(request.run, joined.plan)
        observed = msgspec.structs.replace(snapshot, stored_target=None)
        self.only_observed.observe(observed, report, until=inputs.deadline - STORING)
        self.skips.turns.ask_after_parts()

    def _is_distributed(self, observed: Snapshot, inputs: PassInputs, report: RunReport) -> bool:
        """Whether functions of their own decide about the cluster's parts."""
        return self.parts is not None and self.parts.start(
            observed,
            self.target.with_target(observed),
            report,
            deadline=inputs.deadline - STORING,
            proves=self.writer.keeps_decisions,
            is_window=inputs.is_window,
        )

    def _observed(self, inputs: PassInputs, report: RunReport) -> ClusterState:
        view = _paused(self.observer.observe(), inputs.brakes, report)
        view.require_commands()
        self.skips.budgets.note(view.snapshot.node_pools, inputs.claims)
        write_pod_events(self.stores, view)
        return with_rollouts(self.stores.moves, view, self.warnings, report)

    def _decided(self, observed: Snapshot, inputs: PassInputs, report: RunReport) -> _Decided:
        digest, now = snapshot_digest(observed), self.clock.now()
        remembered = None if inputs.is_window else self._quiet.recall(digest, now)
        if remembered is not None:
            report.count("unchanged")
        clock = share_until(self.clock, inputs.deadline - STORING)
        time, snapshot = RecordedTime(clock), self.target.with_target(observed)
        plan = remembered
        if plan is None:
            decided = contained(snapshot, partial(self._timed_plan, clock), is_out_of_time=lambda: clock() >= 1)
            (plan, time), snapshot = decided.result, decided.snapshot
            self.warnings.set_aside(decided.set_aside, report)
        made = _Decided(snapshot, plan, digest, now, tuple(time.elapsed), is_new=remembered is None)
        self._report(made, report)
        return made

    def _report(self, decided: _Decided, report: RunReport) -> None:
        plan = decided.plan
        report.count("commands", len(plan.commands))
        if plan.parts > 1 or plan.undivided:
            report.count("parts", plan.parts)
        for reason, number in sorted(Counter(blocked.reason for blocked in plan.blocked).items()):
            report.count(f"blocked{reason}", number)
        _report_shrinking(plan, decided.snapshot, report)

    def _timed_plan(self, clock: Callable[[], float], snapshot: Snapshot) -> tuple[DisruptionPlan, RecordedTime]:
        time = RecordedTime(clock)  # of this attempt alone, for a replay makes no other
        with collector_paused():
            # Only the ledger has the proven minimum.
            return disrupt(snapshot, deadline=time, proves=self.writer.keeps_decisions), time

    def _store(
        self,
        decided: _Decided,
        present: Sequence[CommandRecord],
        proposals: PassProposals,
        inputs: PassInputs,
        report: RunReport,
    ) -> None:
        """Store the commands that may start now, and propose those that wait for approval."""
        plan, snapshot, now = decided.plan, decided.snapshot, decided.at
        admitted = self.gate.admit(startable(plan.commands), present, inputs.claims, inputs.brakes, now, report)
        commands = [(command_id(command, now), command) for command in admitted]
        kept = self.approvals.by_approval(commands, proposals.waiting, snapshot, report)
        if decided.is_new:
            kept = self.writer.write_decision(snapshot, plan, kept, decided.elapsed, report)
            self.target.keep(snapshot, plan, kept.startable, report)
        continued = snapshot.stored_target if plan.target_reason == TargetReason.CONTINUED else None
        stored = [
            command
            for name, command in kept.startable
            if self.writer.write(name, command, report, continued, namespaces=kept.namespaces.get(name, ()))
        ]
        self.announcer.announce(stored, report)
        self.approvals.propose(kept.unapproved, plan, report)

    def _begin_approved(
        self, proposals: PassProposals, view: ClusterState, inputs: PassInputs, report: RunReport
    ) -> bool:
        """Store the approved commands that nothing stops; the next pass decides about the other nodes."""
        commands: list[Command] = [command for _, command in proposals.approved]
        admitted = self.gate.admit(commands, view.commands, inputs.claims, inputs.brakes, self.clock.now(), report)
        for proposal, command in proposals.approved:
            if command in admitted and self.approvals.begin(proposal, report):
                report.decision_id = proposal.decision
                if self.writer.write(proposal.id, command, report, namespaces=proposal.namespaces):
                    self.announcer.announce([command], report)
        if admitted:
            self.skips.resync.end()
        return bool(admitted)


def _awaits_validation(snapshot: Snapshot, present: Sequence[CommandRecord], report: RunReport) -> bool:
    """Whether a command is to be validated before anything else is decided."""
    if all(command.has_started for command in present):
        return False
    message = "a command is to be validated first"
    report.decide(DecisionKind.SKIP, snapshot.cluster, CommandReason.COMMAND_PENDING, message)
    return True


def _awaits_repair(view: ClusterState) -> bool:
    """Whether time alone may change the decision, since an unhealthy node is replaced after a while."""
    return view.snapshot.options.feature_gates.node_repair and has_unhealthy_node(view.snapshot.nodes)


def _paused(view: ClusterState, brakes: EngagedBrakes, report: RunReport) -> ClusterState:
    """Return the view with NodePools marked in which a brake stops disruption; observed NodePools have their own mark."""
    paused: dict[str, str] = {}
    for pool in sorted(view.node_pools):
        brake = brakes.without(BrakeKind.OBSERVED).stopping(Action.DISRUPT, pool)
        if brake is not None:
            skipped(brake, pool, report)
            paused[pool] = brake.message
    snapshot = msgspec.structs.replace(view.snapshot, paused_pools=paused)
    return msgspec.structs.replace(view, snapshot=snapshot) if paused else view


# Starts a pass of `disrupt` if one is needed. `execute` validates the stored commands and carries them out.


@dataclass(kw_only=True)
class DisruptionController:
    """Controller of `disrupt`. A lease keeps runs from deciding at the same time."""

    observer: Observer
    stores: Stores
    skips: SkipConditions
    approvals: Approvals
    decision_pass: DecisionPass
    clock: Clock
    parts: DistributedParts | None = None

    def run(
        self,
        report: RunReport,
        *,
        owner: str,
        deadline: datetime,
        is_window: bool = False,
        is_woken: bool = False,
        hops: int = 0,
    ) -> None:
        """Decide, and store what was decided.

        Args:
            report: Collects what was decided.
            owner: The name of this run.
            deadline: When the run is cut off. Results are stored some time before that.
            is_window: Whether a budget window has just opened or closed.
            is_woken: Whether a message reports a change, or that a known time has come.
            hops: How many messages in a row led to this run.
        """
        self.skips.turns.began(hops, report)
        if is_woken and self.skips.turns.is_too_early(report):
            return
        claims = self._settled_claims(report, is_woken=is_woken)
        if not claims:
            return
        brakes = self._brakes_unless_stopped(report)
        if brakes is None:
            return
        # Closed budgets are evaluated alone, before each pass; open ones in the pass, which lists NodePools anyway.
        if self.skips.budgets.are_closed and not self._is_run_needed(claims, report):
            return
        proposals = self.approvals.open()
        state = self._state(claims, brakes, proposals)
        if self.skips.resync.is_valid(state, self.clock.now()) and not (is_window or is_woken):
            report.count("skippedRuns")
            return
        self._decide(PassInputs(claims, brakes, proposals, state, deadline, is_window, is_woken), owner, report)

    def _decide(self, inputs: PassInputs, owner: str, report: RunReport) -> None:
        """Run the pass under the lease; no pass where another run holds it."""
        lease = self.skips.turns.take(owner, report)
        if lease is None:
            return
        try:
            if self.parts is None or self.parts.begin(owner, report):
                self.decision_pass.run(inputs, report)
        finally:
            self._end(lease)

    def join(self, request: PartsRun, report: RunReport, *, owner: str, deadline: datetime) -> None:
        """Carry out what functions have decided about the parts of a cluster.

        Args:
            request: The execution.
            report: Collects what was decided.
            owner: The name of this run.
            deadline: When the run is cut off.

        Raises:
            TransientError: If another run decides at this moment, so that Step Functions tries again.
            PortError: If a call fails.
        """
        lease = self.skips.turns.take(owner, report)
        if lease is None:
            raise TransientError("disrupt", "another run decides")
        try:
            if self.parts is None or not self.parts.resume(request.run, report):
                return
            brakes = self._brakes_unless_stopped(report)
            if brakes is None:
                return
            claims, proposals = self.stores.claims.all(), self.approvals.open()
            self.decision_pass.join(
                request, PassInputs(claims, brakes, proposals, b"", deadline, is_window=False), report
            )
        finally:
            self._end(lease)

    def _brakes_unless_stopped(self, report: RunReport) -> EngagedBrakes | None:
        """Return the engaged brakes; None if one of them stops disruption. Raises PortError."""
        brakes = self.stores.brakes.engaged()
        brake = brakes.stopping(Action.DISRUPT)
        if brake is None:
            return brakes
        skipped(brake, "disruption", report)
        return None

    def _end(self, lease: Lease) -> None:
        """Release the leases. Raises PortError."""
        try:
            if self.parts is not None:
                self.parts.end()
        finally:
            self.skips.turns.give_up(lease)

    def _settled_claims(self, report: RunReport, *, is_woken: bool) -> tuple[ClaimRecord, ...]:
        """Return all claims; none if no node could go: the last observation had no claims, or none is settled."""
        now = self.clock.now()
        if not is_woken and self.skips.absent.holds(now):
            report.count("skippedRuns")
            return ()
        claims = self.stores.claims.all()
        self.skips.absent.note(now, are_absent=not claims)
        if not any(claim.is_settled for claim in claims):
            report.count("skippedRuns")
            return ()
        return claims

    def _is_run_needed(self, claims: tuple[ClaimRecord, ...], report: RunReport) -> bool:
        """Whether budgets let any node go; only NodePools are listed for this. Stopped rollouts are reported in any case."""
        if self.skips.budgets.needs_run(claims):
            return True
        now = self.clock.now()
        report.count("closedBudgets")
        stopped = [rollout for rollout in self.stores.moves.read(now).rollouts.values() if rollout.is_stopped(now)]
        report.count(ROLLOUTS_STOPPED, len(stopped))
        return False

    def _state(self, claims: tuple[ClaimRecord, ...], brakes: EngagedBrakes, proposals: tuple[Proposal, ...]) -> bytes:
        """Return the digest of the inputs.

        They are read in each run, so that each observation is equally late after the schedule.
        """
        return DisruptionState(
            claims=claims,
            commands=self.stores.commands.all(),
            brakes=brakes,
            market=self.observer.open_market.read_at(),
            unavailable=self.stores.unavailable.refused(self.clock.now()).avoided,
            proposals=proposals,
        ).digest()


# `disrupt` with `mode: shadow`: records which nodes of another provisioner would go.


class ShadowDisruption:
    """Decides for each new state of the cluster; reports replay these records."""

    def __init__(self, observer: Observer, commands: ObservedCommands) -> None:
        self._observer = observer
        self._commands = commands

    def run(self, report: RunReport, *, deadline: datetime) -> None:
        """Record one decision. Raises PortError."""
        snapshot = self._observer.observe().snapshot
        report.count("claims", len(snapshot.node_claims))
        self._commands.record(snapshot, report, until=deadline - STORING)
