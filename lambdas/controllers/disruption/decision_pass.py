"""One pass of `disrupt`: observe, decide which nodes go, store the commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from adapters.brakes.ports import skipped
from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.observation.plan_cache import PlanCache, snapshot_digest
from adapters.observation.stores import Stores
from adapters.ports import Clock
from adapters.run_report import RunReport
from adapters.runtime.clock import share_until
from core.approval.proposal import Proposal
from core.approval.verification import without_proposed
from core.brakes.brake import Action, BrakeKind, EngagedBrakes
from core.disruption.conditions.node_health import has_unhealthy_node
from core.disruption.decision import disrupt, startable
from core.gc_pause import collector_paused
from core.ledger.search_time import THOUSANDTHS, RecordedTime
from core.lifecycle.records import ClaimRecord
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import Snapshot
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.target import TargetReason
from lambdas.controllers.approval.approvals import Approvals, PassProposals
from lambdas.controllers.disruption.command_gate import CommandGate
from lambdas.controllers.disruption.command_writer import CommandWriter, command_id
from lambdas.controllers.disruption.observed_commands import STORING, ObservedCommands
from lambdas.controllers.disruption.pod_event_store import write_pod_events
from lambdas.controllers.disruption.rollout_gates import with_rollouts
from lambdas.controllers.disruption.run_coordination import RunCoordination
from lambdas.controllers.disruption.target_progress import TargetProgress
from lambdas.controllers.resync.absent_claims import AbsentClaims
from lambdas.controllers.resync.budget_check import BudgetCheck
from lambdas.controllers.resync.disruption_resync import DisruptionResync

REUSED_FOR: Final = timedelta(minutes=30)
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
    """A plan for a snapshot; `digest` is that of the observation, which has no target yet."""

    snapshot: Snapshot
    plan: DisruptionPlan
    digest: str
    at: datetime
    time: RecordedTime
    is_new: bool

    @property
    def is_cut_off(self) -> bool:
        """Whether the search ended for lack of time, so that the same snapshot may give a different plan."""
        return bool(self.time.elapsed) and self.time.elapsed[-1] >= THOUSANDTHS


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
    only_observed: ObservedCommands
    clock: Clock

    def __post_init__(self) -> None:
        self._quiet: PlanCache[DisruptionPlan] = PlanCache(REUSED_FOR)

    def run(self, given: PassInputs, report: RunReport) -> None:
        """Observe and decide, and request the run for the next known time. Raises PortError."""
        observed_at = self.clock.now()
        view = self._observed(given, report)
        if _awaits_validation(view, report):
            self.skips.turns.ask_after_validation(view.commands)
            return
        if given.is_woken and self.skips.turns.is_postponed(view.snapshot, report):
            return
        proposals = self.approvals.end_lapsed(given.proposals, view.snapshot, report)
        if self._begin_approved(proposals, view, given, report):
            return
        observed = without_proposed(view.snapshot, proposals.waiting)
        decided = self._decided(observed, given, report)
        self._store(decided, view, proposals, given, report)
        self.only_observed.observe(observed, report, until=given.deadline - STORING)
        self.skips.turns.ended(view, is_new=decided.is_new, found=bool(decided.plan.commands))
        report.count("cutOffDecisions", int(decided.is_cut_off))
        if not decided.plan.commands and not _awaits_repair(view) and not decided.is_cut_off:
            self._quiet.keep(decided.digest, decided.at, decided.plan)
            if not proposals.awaits_budget:
                self.skips.resync.begin(given.state, observed_at, view.snapshot)
                return
        self.skips.resync.end()

    def _observed(self, given: PassInputs, report: RunReport) -> ClusterState:
        view = _paused(self.observer.observe(), given.brakes, report)
        view.require_commands()
        self.skips.budgets.note(view.snapshot.node_pools, given.claims)
        write_pod_events(self.stores, view)
        return with_rollouts(self.stores.moves, view, report)

    def _decided(self, observed: Snapshot, given: PassInputs, report: RunReport) -> _Decided:
        digest, now = snapshot_digest(observed), self.clock.now()
        remembered = None if given.is_window else self._quiet.recall(digest, now)
        if remembered is not None:
            report.count("unchanged")
        time = RecordedTime(share_until(self.clock, given.deadline - STORING))
        snapshot = self.target.with_target(observed)
        plan = self._plan(snapshot, time) if remembered is None else remembered
        report.count("commands", len(plan.commands))
        for reason, number in sorted(Counter(blocked.reason for blocked in plan.blocked).items()):
            report.count(f"blocked{reason}", number)
        return _Decided(snapshot, plan, digest, now, time, is_new=remembered is None)

    def _plan(self, snapshot: Snapshot, time: RecordedTime) -> DisruptionPlan:
        with collector_paused():
            # Only the ledger has the proven minimum.
            return disrupt(snapshot, deadline=time, proves=self.writer.keeps_decisions)

    def _store(
        self, decided: _Decided, view: ClusterState, proposals: PassProposals, given: PassInputs, report: RunReport
    ) -> None:
        """Store the commands that may start now, and propose those that wait for approval."""
        plan, snapshot, now = decided.plan, decided.snapshot, decided.at
        admitted = self.gate.admit(startable(plan.commands), view, given.claims, given.brakes, now, report)
        commands = [(command_id(command, now), command) for command in admitted]
        kept = self.approvals.by_approval(commands, proposals.waiting, report)
        if decided.is_new:
            kept = self.writer.write_decision(snapshot, plan, kept, decided.time, report)
            self.target.keep(snapshot, plan, kept.startable, report)
        continued = snapshot.stored_target if plan.target_reason == TargetReason.CONTINUED else None
        for name, command in kept.startable:
            self.writer.write(name, command, report, continued)
        self.approvals.propose(kept.unapproved, plan, report)

    def _begin_approved(
        self, proposals: PassProposals, view: ClusterState, given: PassInputs, report: RunReport
    ) -> bool:
        """Store the approved commands that nothing stops; the next pass decides about the other nodes."""
        commands: list[Command] = [command for _, command in proposals.approved]
        admitted = self.gate.admit(commands, view, given.claims, given.brakes, self.clock.now(), report)
        for proposal, command in proposals.approved:
            if command in admitted and self.approvals.begin(proposal, report):
                report.decision_id = proposal.decision
                self.writer.write(proposal.id, command, report)
        if admitted:
            self.skips.resync.end()
        return bool(admitted)


def _awaits_validation(view: ClusterState, report: RunReport) -> bool:
    """Whether a command is to be validated before anything else is decided."""
    if all(command.has_started for command in view.commands):
        return False
    message = "a command is to be validated first"
    report.decide(DecisionKind.SKIP, view.snapshot.cluster, CommandReason.COMMAND_PENDING, message)
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
