"""Provisions nodes for pending pods: plans under a lease, stores the intent, launches, and plans again after refusals."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.brakes.ports import skipped
from adapters.messages import WokenBy
from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.observation.plan_cache import snapshot_digest
from adapters.observation.stores import OwnRows, Stores
from adapters.ports import Clock, PortError
from adapters.run_report import RunReport
from adapters.store import PLANNER, Lease, Leases, Requested, Targets
from adapters.store.current_target import current_target
from core.brakes.brake import Action
from core.disruption.static_capacity.replicas import lacks_nodes, static_claims, waiting_for_addresses
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.reasons.decision import DecisionKind
from core.reasons.pod import PodReason
from core.reasons.run import RunReason
from installation.metric_names import LAUNCH_DENIALS, QUOTA_DENIALS
from installation.settings import Settings
from lambdas.controllers.draining.replacements import Replacing
from lambdas.controllers.launching.parallel_launches import MARGIN
from lambdas.controllers.provisioning.claim_records import ClaimRecords
from lambdas.controllers.provisioning.launch_cost import note_launches
from lambdas.controllers.provisioning.lost_rows import LostRows
from lambdas.controllers.provisioning.next_run import NextRun
from lambdas.controllers.provisioning.observed_plans import ObservedPlans
from lambdas.controllers.provisioning.pending_work import PodBatcher, displaces_pods, is_unlaunched, pending_work
from lambdas.controllers.provisioning.plan_decision import PlanDecision
from lambdas.controllers.provisioning.plan_launches import PlanLaunches
from lambdas.controllers.provisioning.plan_publisher import PlanPublisher
from lambdas.controllers.resync.absent_claims import AbsentClaims

BUSY: Final = timedelta(seconds=5)


@dataclass(kw_only=True)
class Provisioning:
    """Controller of `provision`. Without pending pods or capacity buffers it lists pods and claims, and stops.

    It takes the lease before it observes: without the lease, the observation would be useless. A scheduled run first checks
    whether any pod waits: mostly none does, and taking and releasing the lease are two writes.
    """

    observer: Observer
    batcher: PodBatcher
    lost_rows: LostRows
    stores: Stores
    targets: Targets
    leases: Leases
    decision: PlanDecision
    claim_records: ClaimRecords
    launches: PlanLaunches
    publisher: PlanPublisher
    replacing: Replacing
    observed: ObservedPlans
    absent: AbsentClaims
    next_run: NextRun
    settings: Settings
    clock: Clock
    _recorded_digest: str = field(default="", init=False)
    """The last digest of the cluster that `disrupt` and `reconcile` were notified of."""

    def run(self, report: RunReport, *, owner: str, deadline: datetime, until: datetime, cause: WokenBy) -> None:
        """Launch what pending pods need.

        Args:
            report: Collects the decisions.
            owner: The name of this invocation, for the lease.
            deadline: No work begins close to it.
            until: A further run is requested only if it comes by then, see `chain_ends_at`.
            cause: What started the run. After an event, static NodePools may lack nodes.
        """
        heard_at = self.clock.now()
        if self.next_run.is_too_early(cause):
            report.count("spacedRuns")
            return
        if cause is WokenBy.SCHEDULE and self._is_quiet():
            return  # brakes are not read either: there is nothing to stop
        brake = self.stores.brakes.engaged().stopping(Action.LAUNCH)
        if brake is not None:
            skipped(brake, "launches", report)
            return
        lease = self.leases.acquire(PLANNER, owner, now=heard_at, for_=max(deadline - heard_at, MARGIN))
        if lease is None:
            report.decide(
                DecisionKind.SKIP, self.settings.cluster_name, RunReason.PLANNER_BUSY, "another run is planning"
            )
            self.next_run.ask("planner was busy", until, BUSY)
            return
        try:
            rows = self._rows_with_work(report, deadline, until)
            if rows is not None or (cause is WokenBy.NEWS and self._lacks_static_nodes()):
                self._plan_in_rounds(rows, lease, report, heard_at, deadline, until)
                self.next_run.planned()
        except Exception:
            self.leases.release(lease)
            raise
        self.leases.release(lease)

    def record_change(self) -> None:
        """Record that the cluster has changed, so that `disrupt` and `reconcile` observe it.

        They also observe on their own some time later.
        """
        with suppress(PortError):  # pods must not wait for this
            self.stores.changes.record(self.clock.now())

    def _is_quiet(self) -> bool:
        """Whether no pod lacks a node, no claim waits for its launch, and no buffer requests room."""
        if self.settings.options().feature_gates.capacity_buffer or self.observer.unbound_pods():
            return False
        started_at = self.clock.now()
        if self.absent.holds(started_at):
            return True
        records = self.stores.claims.all()
        self.absent.note(started_at, are_absent=not records)
        return not any(record.deletion is not None or is_unlaunched(record) for record in records)

    def _rows_with_work(self, report: RunReport, deadline: datetime, until: datetime) -> OwnRows | None:
        """Return the rows for the plan, read after the batch of pods is complete; None if there is nothing to plan."""
        pods = self.batcher.pods(deadline - MARGIN)
        rows = self.stores.own_rows()
        records = rows.claims
        found = pending_work(pods, records, self.clock.now(), self.settings.options())
        report.count("pendingPods", found.marked + found.awaited)
        report.count("awaitedPods", found.awaited)
        if found.unmarked and not found.is_any:
            self.next_run.ask("pods that the scheduler has not looked at", until, self._poll())
        if found.is_any or displaces_pods(self.observer, records, self.clock.now()) or self.observer.keeps_room():
            return rows
        if found.awaited:
            message = f"{found.awaited} pods wait, and a node is on its way for each"
            report.decide(DecisionKind.SKIP, self.settings.cluster_name, RunReason.NODES_UNDER_WAY, message)
            self.publisher.expect_pods_on((), records)
        return None

    def _lacks_static_nodes(self) -> bool:
        """Whether a static NodePool lacks nodes.

        Scheduled runs do not check this: `reconcile` sends a message when it detects it.
        """
        if not self.settings.options().feature_gates.static_capacity:
            return False
        return lacks_nodes(self.observer.observe_without_pods().snapshot)

    def _plan_in_rounds(
        self,
        rows: OwnRows | None,
        lease: Lease,
        report: RunReport,
        heard_at: datetime,
        deadline: datetime,
        until: datetime,
    ) -> None:
        used = 0
        for number in range(1, self.settings.plan_rounds + 1):
            view = self.lost_rows.observe(report, rows) if number == 1 else self.observer.observe()
            self.launches.hand_over(view, report)
            denials = [denial for denial in view.denials if not denial.names_capacity()]
            report.count(LAUNCH_DENIALS, len(denials))
            report.refused += [denial.refusal() for denial in denials]
            report.count(QUOTA_DENIALS, sum(denial.scope.quotas is not None for denial in view.denials))
            digest = snapshot_digest(view.snapshot)
            self._record_if_new(digest)
            view = self._with_target(view)
            plan, draft = self.decision.plan(view, digest, report)
            report.count(QUOTA_DENIALS, int(PodReason.QUOTA_REACHED in {pod.reason for pod in plan.unschedulable}))
            plan = _with_static_claims(plan, view.snapshot, report)
            records, plan = self.claim_records.of_plan(plan, draft.id, view, lease, used=used, heard_at=heard_at)
            used += len(records)
            summary = self.decision.keep(draft, records, plan, report)
            limits = {pool.name: pool.limits for pool in view.snapshot.node_pools}
            requested = self.stores.claims.request(records, limits, lease) if records else Requested(())
            note_launches(self.stores.moves, requested.accepted, view, self.clock.now(), report)
            refused = self.launches.launch(requested.accepted, view, report, deadline)
            self.replacing.note(plan, requested, refused, view, report)
            self.publisher.nominate(plan, view, report)
            self.publisher.decided(draft.id, summary)
            if number == 1 and self.clock.now() + MARGIN <= deadline:
                self.observed.observe(view.snapshot, report)
            if not refused:
                self.publisher.report(plan, requested.refused, report)
                return
            if self.clock.now() + MARGIN > deadline or number == self.settings.plan_rounds:
                self.publisher.report(plan, (), report)
                self.next_run.ask("EC2 had no capacity", until, self._poll())
                return

    def _with_target(self, view: ClusterState) -> ClusterState:
        """Return the view with the stored target in its snapshot: nodes that it drains later take pods last."""
        target = current_target(self.targets, view.snapshot, self.stores.brakes.engaged())
        snapshot = msgspec.structs.replace(view.snapshot, stored_target=target)
        return msgspec.structs.replace(view, snapshot=snapshot)

    def _record_if_new(self, digest: str) -> None:
        """Record a changed cluster; pods that wait indefinitely are not a change."""
        if digest != self._recorded_digest:
            self._recorded_digest = digest
            self.record_change()

    def _poll(self) -> timedelta:
        return timedelta(seconds=self.settings.poll_seconds)


def _with_static_claims(plan: Plan, snapshot: Snapshot, report: RunReport) -> Plan:
    """Return the plan with the claims that static NodePools lack; those that wait for free addresses are reported."""
    found = static_claims(snapshot, plan.claims)
    for name, number in waiting_for_addresses(snapshot, found).items():
        message = f"{number} of its replicas wait: no subnet of its EC2NodeClass has a free address for them"
        report.decide(DecisionKind.SKIP, f"NodePool {name}", PodReason.NO_FREE_ADDRESS, message)
    return msgspec.structs.replace(plan, claims=(*plan.claims, *found))
