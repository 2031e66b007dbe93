"""Decides on a plan: the best that time allows, cached while nothing changes, and stored in the ledger first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from adapters.ledger.writer import DecisionDraft, LedgerWriter, SearchBound
from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.observation.plan_cache import PlanCache
from adapters.observation.unavailable_offerings import has_unavailable
from adapters.ports import Clock
from adapters.run_report import RunReport
from adapters.runtime.clock import stopwatch
from core.gc_pause import collector_paused
from core.launch.denials.refused_pods import with_refusals
from core.ledger.entry import PROVISION
from core.ledger.search_time import RecordedTime
from core.ledger.summary import DecisionSummary, of_provisioning
from core.lifecycle.draining.planned_moves import without_planned_moves
from core.lifecycle.records import ClaimRecord
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from core.scheduling import Planner
from installation.settings import Settings

REUSED_FOR: Final = timedelta(minutes=5)
"""Pods for which no node can be launched are planned again after this time, even if nothing has changed."""


class PlanDecision:
    """Makes plans for an observation, and stores the decisions."""

    def __init__(self, observer: Observer, ledger: LedgerWriter, settings: Settings, clock: Clock) -> None:
        self._observer = observer
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._last: PlanCache[Plan] = PlanCache(REUSED_FOR)

    def plan(self, view: ClusterState, digest: str, report: RunReport) -> tuple[Plan, DecisionDraft]:
        """Return the plan. A plan that launches nothing for its pods is reused while nothing changes.

        Args:
            view: The observation, with the stored target.
            digest: The digest of its snapshot without the target.
            report: Collects figures, and failures of the search.
        """
        snapshot, now = view.snapshot, self._clock.now()
        digest = f"{digest} {sorted(snapshot.drained_later)}"
        plan = self._last.recall(digest, now)
        if plan is not None:
            return plan, DecisionDraft()
        with collector_paused():
            planned, bound = self.improved(snapshot, report)
            plan = self._with_refusals(planned, view)
        plan = without_planned_moves(plan, snapshot.pods, view.claims.values(), view.commands)
        report.count("plannedMicrodollars", plan.cost.hourly // 1000)
        report.count("boundMicrodollars", (plan.cost.lower_bound or 0) // 1000)
        if not plan.claims:
            self._last.keep(digest, now, plan)
        return plan, self._ledger.draft(PROVISION, snapshot, planned, bound)

    def _with_refusals(self, plan: Plan, view: ClusterState) -> Plan:
        """Return the plan, with EC2's denials as the reasons of pods that a plan without refusals gives a node."""
        if not plan.unschedulable or not has_unavailable(view.snapshot.catalogue):
            return plan
        without = Planner(self._observer.open_market.without_refusals(view)).results().plan
        explained = with_refusals(plan.unschedulable, without.claims, view.denials)
        return msgspec.structs.replace(plan, unschedulable=explained)

    def improved(self, snapshot: Snapshot, report: RunReport) -> tuple[Plan, SearchBound]:
        """Return the best plan that time allows, and what ended its search.

        If the search for cheaper nodes fails, it is the greedy plan.
        """
        planner, steps = Planner(snapshot), snapshot.options.improve_iterations
        time = RecordedTime(stopwatch(self._clock, self._settings.improving(planner.pods)))
        try:
            plan = planner.plan(time if steps is None else None)
        except Exception as error:  # noqa: BLE001 - pods wait, and the greedy plan is valid without the search
            report.count("failedImprovements")
            report.decide(
                DecisionKind.SKIP,
                self._settings.cluster_name,
                RunReason.IMPROVEMENT_FAILED,
                f"{type(error).__name__}: {error}",
            )
            return planner.results().plan, SearchBound(is_greedy=True)
        return plan, SearchBound(steps, tuple(time.elapsed))

    def keep(
        self, draft: DecisionDraft, records: Iterable[ClaimRecord], plan: Plan, report: RunReport
    ) -> DecisionSummary:
        """Write the decision to the ledger before it is carried out; a failing ledger does not delay pods.

        Returns:
            The summary of the decision.
        """
        report.decision_id = draft.id
        bindings = ((binding.pod, binding.node) for binding in plan.bindings)
        refused = ((found.pod, found.reason) for found in plan.unschedulable)
        summary = of_provisioning([record.plan for record in records], bindings, refused)
        self._ledger.try_write(draft, summary, report)
        return summary
