"""Observes, decides which nodes go, and stores commands. `execute` validates and carries them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from core.approval.proposal import Proposal
from core.approval.verification import without_proposed
from core.brakes.brake import Action, BrakeKind, EngagedBrakes, action_of
from core.brakes.probes import one_at_a_time
from core.disruption.conditions.node_health import is_anyone_ill
from core.disruption.consolidation.payback import payback_minutes
from core.disruption.decision import disrupt, startable
from core.disruption.move_history import MoveHistory
from core.gc_pause import collector_paused
from core.ledger.entry import DISRUPT
from core.ledger.search_time import THOUSANDTHS, RecordedTime
from core.ledger.summary import of_disruption
from core.lifecycle.commands import first_check_at
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.plan import Command, DisruptionPlan, StoredTarget
from core.model.snapshot import Snapshot
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.target import TargetReason
from core.reasons.termination import TerminationReason
from lambdas.brakes.ports import skipped
from lambdas.clock import share_until
from lambdas.controllers.approval.approvals import Approvals, Divided, Settled
from lambdas.controllers.disruption.observed_commands import STORING, ObservedCommands
from lambdas.controllers.disruption.pod_event_store import write_pod_events
from lambdas.controllers.disruption.rollout_gates import with_rollouts
from lambdas.controllers.disruption.run_coordination import RunCoordination
from lambdas.controllers.disruption.target_progress import TargetProgress
from lambdas.controllers.resting.budget_rest import BudgetRest
from lambdas.controllers.resting.disruption_rest import DisruptionRest, Sign
from lambdas.ledger.writer import LedgerWriter, SearchBound
from lambdas.messages import work_on_command
from lambdas.metric_names import ROLLOUTS_STOPPED
from lambdas.observation.cluster_state import ClusterState
from lambdas.observation.observer import Observer
from lambdas.observation.plan_cache import PlanCache, snapshot_digest
from lambdas.observation.stores import Stores
from lambdas.ports import Clock, ConflictError, DeniedError, Queue
from lambdas.run_report import RunReport

THINK_AGAIN: Final = timedelta(minutes=30)
"""How long a decision to do nothing is reused while the snapshot's digest stays the same.

Karpenter decides again after five minutes; what changes for it in the meantime is part of our digest.
"""


Commands = list[tuple[str, Command]]
"""Commands with their ids."""


class SkipConditions(NamedTuple):
    """What lets a run skip an observation: closed budgets, a cluster that has not changed, another run's turn."""

    budgets: BudgetRest
    rest: DisruptionRest
    turns: RunCoordination


class Records(NamedTuple):
    """Where decisions are recorded: those that are carried out, and those that nobody carries out."""

    ledger: LedgerWriter
    only_observed: ObservedCommands


class DisruptionController:
    """Controller of `disrupt`. A lease keeps runs from deciding at the same time."""

    def __init__(
        self,
        observer: Observer,
        stores: Stores,
        skips: SkipConditions,
        target: TargetProgress,
        approvals: Approvals,
        work: Queue,
        records: Records,
        clock: Clock,
    ) -> None:
        self._observer = observer
        self._ledger, self._only_observed = records
        self._budgets, self._rest, self._turns = skips
        self._target = target
        self._approvals = approvals
        self._stores = stores
        self._work = work
        self._clock = clock
        self._quiet: PlanCache[DisruptionPlan] = PlanCache(THINK_AGAIN)

    def run(
        self,
        report: RunReport,
        *,
        owner: str,
        deadline: datetime,
        is_window: bool = False,
        is_woken: bool = False,
    ) -> None:
        """Decide, and store what was decided.

        Args:
            report: Collects what was decided.
            owner: Names this run.
            deadline: When the run is cut off. What is found by then is stored some time before.
            is_window: A budget window has just opened or closed.
            is_woken: A message says that something has changed, or that a known moment has come.
        """
        if is_woken and self._turns.is_too_early(report):
            return
        records = self._stores.claims.all()
        if not any(record.is_settled for record in records):
            report.count("candidates", 0)
            return
        brakes = self._stores.brakes.engaged()
        brake = brakes.stopping(Action.DISRUPT)
        if brake is not None:
            skipped(brake, "disruption", report)
            return
        # Closed budgets are evaluated alone, before each pass; open ones in the pass, which lists NodePools anyway.
        if self._budgets.are_closed and not self._is_run_needed(records, report):
            return
        proposals = self._approvals.open()
        sign = self._sign(records, brakes, proposals)
        if self._rest.holds(sign, self._clock.now()) and not (is_window or is_woken):
            report.count("resting")
            return
        lease = self._turns.take(owner, report)
        if lease is None:
            return
        try:
            self._run_pass(sign, records, brakes, proposals, report, deadline=deadline, is_window=is_window)
        finally:
            self._turns.give_up(lease)

    def _run_pass(
        self,
        sign: bytes,
        records: tuple[ClaimRecord, ...],
        brakes: EngagedBrakes,
        proposals: tuple[Proposal, ...],
        report: RunReport,
        *,
        deadline: datetime,
        is_window: bool,
    ) -> None:
        """Observe and decide, and request the run for the next known time."""
        observed_at = self._clock.now()
        view = _paused(self._observer.observe(), brakes, report)
        self._budgets.note(view.snapshot.node_pools, records)
        write_pod_events(self._stores, view)
        view = with_rollouts(self._stores.moves, view, report)
        if _awaits_validation(view, report):
            self._turns.ask_after_validation(view.commands)
            return
        settled = self._approvals.settle(proposals, view.snapshot, report)
        if self._begin_approved(settled, view, records, brakes, report):
            return
        observed = without_proposed(view.snapshot, settled.waiting)
        digest, now = snapshot_digest(observed), self._clock.now()
        remembered = None if is_window else self._quiet.recall(digest, now)
        if remembered is not None:
            report.count("unchanged")
        time = RecordedTime(share_until(self._clock, deadline - STORING))
        snapshot = self._target.with_target(observed)
        plan = _decided(snapshot, time) if remembered is None else remembered
        self._report(plan, report)
        begun = self._begun(plan, view, records, brakes, now, report)
        kept = self._approvals.divided(begun, settled.waiting, report)
        if remembered is None:
            kept = self._kept(snapshot, plan, kept, time, report)
            self._target.keep(snapshot, plan, kept.free, report)
        standing = snapshot.stored_target if plan.target_reason == TargetReason.CONTINUED else None
        for command_id, command in kept.free:
            self._store(command_id, command, report, standing)
        self._approvals.propose(kept.demanded, plan, report)
        self._only_observed.observe(observed, report, until=deadline - STORING)
        self._turns.ended(view, is_new=remembered is None, found=bool(plan.commands))
        is_cut_off = bool(time.elapsed) and time.elapsed[-1] >= THOUSANDTHS
        report.count("cutOffDecisions", int(is_cut_off))
        if not plan.commands and not _awaits_repair(view) and not is_cut_off:
            self._quiet.keep(digest, now, plan)
            if not settled.awaits_budget:
                self._rest.begin(sign, observed_at, view.snapshot)
                return
        self._rest.end()

    def _begun(
        self,
        plan: DisruptionPlan,
        view: ClusterState,
        records: tuple[ClaimRecord, ...],
        brakes: EngagedBrakes,
        now: datetime,
        report: RunReport,
    ) -> Commands:
        """Return the commands of the plan that may start now, along with those in progress; report what keeps the others."""
        found = self._unhindered(startable(plan), view, records, brakes, now, report)
        return [(_id(command, now), command) for command in found]

    def _unhindered(
        self,
        commands: Sequence[Command],
        view: ClusterState,
        records: tuple[ClaimRecord, ...],
        brakes: EngagedBrakes,
        now: datetime,
        report: RunReport,
    ) -> Sequence[Command]:
        pool_of = {record.name: record.plan.node_pool for record in records}
        under_way = [found.command for found in view.commands]
        history = self._stores.moves.read(now) if commands else MoveHistory()
        free = [
            found
            for found in commands
            if not _is_stopped(found, pool_of, brakes, report) and not _is_paused(found, history, now, report)
        ]
        return one_at_a_time(free, under_way, pool_of, brakes.probed_pools)

    def _begin_approved(
        self,
        settled: Settled,
        view: ClusterState,
        records: tuple[ClaimRecord, ...],
        brakes: EngagedBrakes,
        report: RunReport,
    ) -> bool:
        """Store the commands that a person approved and nothing stops; the next pass decides about the other nodes."""
        commands = [command for _, command in settled.approved]
        unhindered = self._unhindered(commands, view, records, brakes, self._clock.now(), report)
        for proposal, command in settled.approved:
            if command in unhindered and self._approvals.begin(proposal, report):
                report.decision_id = proposal.decision
                self._store(proposal.id, command, report)
        if unhindered:
            self._rest.end()
        return bool(unhindered)

    def _is_run_needed(self, records: tuple[ClaimRecord, ...], report: RunReport) -> bool:
        """Whether budgets let any node go: NodePools are listed before all else. Stopped rollouts are reported in any case."""
        if self._budgets.needs_run(records):
            return True
        now = self._clock.now()
        report.count("closedBudgets")
        stopped = [found for found in self._stores.moves.read(now).rollouts.values() if found.is_stopped(now)]
        report.count(ROLLOUTS_STOPPED, len(stopped))
        return False

    def _sign(self, records: tuple[ClaimRecord, ...], brakes: EngagedBrakes, proposals: tuple[Proposal, ...]) -> bytes:
        """Read in each run, so that every observation comes equally long after the schedule."""
        return Sign(
            claims=records,
            commands=self._stores.commands.all(),
            brakes=brakes,
            market=self._observer.open_market.read_at(),
            unavailable=self._stores.unavailable.active(self._clock.now()),
            proposals=proposals,
        ).digest()

    def _kept(
        self, snapshot: Snapshot, plan: DisruptionPlan, divided: Divided, time: RecordedTime, report: RunReport
    ) -> Divided:
        """Return the commands to store, once the ledger has them. Without a ledger entry only unhealthy nodes are replaced."""
        bound = SearchBound(snapshot.options.improve_iterations, tuple(time.elapsed))
        draft = self._ledger.draft(DISRUPT, snapshot, plan, bound)
        report.decision_id = draft.id
        demanded = [(found.id, found.command, found.why) for found in divided.demanded]
        if self._ledger.try_write(draft, of_disruption(plan, divided.free, demanded), report):
            return divided
        unhealthy = [(name, command) for name, command in divided.free if command.reason == TerminationReason.UNHEALTHY]
        return Divided(unhealthy, [])

    def _store(
        self, command_id: str, command: Command, report: RunReport, standing: StoredTarget | None = None
    ) -> None:
        """Store a command and request its next step; `standing` is the target that it continues."""
        now = self._clock.now()
        record = CommandRecord(
            id=command_id,
            decision=report.decision_id,
            command=command,
            created_at=now,
            phase_since=now,
            verify_at=first_check_at(command, standing, now),
        )
        try:
            self._stores.commands.add(record)
        except ConflictError:
            report.decide(
                DecisionKind.SKIP, record.id, CommandReason.ALREADY_DECIDED, "an earlier try of this run stored it"
            )
        except DeniedError as error:  # the row is too large; the other commands are stored all the same
            report.count("refusedCommands")
            report.decide(DecisionKind.SKIP, record.id, CommandReason.COMMAND_REFUSED, str(error))
            return
        self._work.send([work_on_command(record.id, now)], delay=record.verify_at - now)
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
                f"{command.method}, {prices}, checked again first",
            )

    def _report(self, plan: DisruptionPlan, report: RunReport) -> None:
        report.count("commands", len(plan.commands))
        for reason, number in sorted(Counter(blocked.reason for blocked in plan.blocked).items()):
            report.count(f"blocked{reason}", number)


def _decided(snapshot: Snapshot, time: RecordedTime) -> DisruptionPlan:
    with collector_paused():
        return disrupt(snapshot, deadline=time)


def _awaits_validation(view: ClusterState, report: RunReport) -> bool:
    """Whether a command is to be validated before anything else is decided."""
    if all(command.has_started for command in view.commands):
        return False
    message = "a command is to be validated first"
    report.decide(DecisionKind.SKIP, view.snapshot.cluster, CommandReason.COMMAND_PENDING, message)
    return True


def _awaits_repair(view: ClusterState) -> bool:
    """Whether time alone may change the decision: an unhealthy node is replaced after a while."""
    return view.snapshot.options.feature_gates.node_repair and is_anyone_ill(view.snapshot.nodes)


def _paused(view: ClusterState, brakes: EngagedBrakes, report: RunReport) -> ClusterState:
    """Return the view with the NodePools marked in which a brake stops disruption; one that is only observed says so itself."""
    paused: dict[str, str] = {}
    for pool in sorted(view.node_pools):
        brake = brakes.without(BrakeKind.OBSERVED).stopping(Action.DISRUPT, pool)
        if brake is not None:
            skipped(brake, pool, report)
            paused[pool] = brake.message
    snapshot = msgspec.structs.replace(view.snapshot, paused_pools=paused)
    return msgspec.structs.replace(view, snapshot=snapshot) if paused else view


def _is_stopped(command: Command, pool_of: Mapping[str, str], brakes: EngagedBrakes, report: RunReport) -> bool:
    """Whether a brake stops this kind of command; some stop repair but leave consolidation an attempt."""
    stopping = (brakes.stopping(action_of(command.reason), pool_of.get(claim, "")) for claim in command.claims)
    brake = next((found for found in stopping if found is not None), None)
    if brake is not None:
        skipped(brake, ", ".join(command.nodes), report)
    return brake is not None


def _is_paused(command: Command, history: MoveHistory, now: datetime, report: RunReport) -> bool:
    """Whether the same command failed validation a while ago."""
    if not history.is_paused(command, now):
        return False
    message = "it did not hold when it was checked again, and is not tried yet"
    report.decide(DecisionKind.SKIP, ", ".join(command.nodes), CommandReason.FAILED_BEFORE, message)
    return True


def _id(command: Command, now: datetime) -> str:
    text = "/".join((now.isoformat(), command.reason, *command.claims))
    return blake2b(text.encode(), digest_size=5).hexdigest()
