"""Starts a pass of `disrupt` if one is needed. `execute` validates the stored commands and carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from adapters.brakes.ports import skipped
from adapters.observation.observer import Observer
from adapters.observation.stores import Stores
from adapters.ports import Clock
from adapters.run_report import RunReport
from core.approval.proposal import Proposal
from core.brakes.brake import Action, EngagedBrakes
from core.lifecycle.records import ClaimRecord
from installation.metric_names import ROLLOUTS_STOPPED
from lambdas.controllers.approval.approvals import Approvals
from lambdas.controllers.disruption.decision_pass import DecisionPass, PassInputs, SkipConditions
from lambdas.controllers.resync.disruption_resync import DisruptionState


@dataclass(kw_only=True)
class DisruptionController:
    """Controller of `disrupt`. A lease keeps runs from deciding at the same time."""

    observer: Observer
    stores: Stores
    skips: SkipConditions
    approvals: Approvals
    decision_pass: DecisionPass
    clock: Clock

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
            owner: The name of this run.
            deadline: When the run is cut off. Results are stored some time before that.
            is_window: Whether a budget window has just opened or closed.
            is_woken: Whether a message reports a change, or that a known time has come.
        """
        if is_woken and self.skips.turns.is_too_early(report):
            return
        claims = self._settled_claims(report, is_woken=is_woken)
        if not claims:
            return
        brakes = self.stores.brakes.engaged()
        brake = brakes.stopping(Action.DISRUPT)
        if brake is not None:
            skipped(brake, "disruption", report)
            return
        # Closed budgets are evaluated alone, before each pass; open ones in the pass, which lists NodePools anyway.
        if self.skips.budgets.are_closed and not self._is_run_needed(claims, report):
            return
        proposals = self.approvals.open()
        state = self._state(claims, brakes, proposals)
        if self.skips.resync.is_valid(state, self.clock.now()) and not (is_window or is_woken):
            report.count("skippedRuns")
            return
        lease = self.skips.turns.take(owner, report)
        if lease is None:
            return
        try:
            self.decision_pass.run(PassInputs(claims, brakes, proposals, state, deadline, is_window, is_woken), report)
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
        stopped = [found for found in self.stores.moves.read(now).rollouts.values() if found.is_stopped(now)]
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
