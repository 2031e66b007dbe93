"""From pending pods to instances: plan under the planner's lease, store the intent, launch, plan again where EC2 refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from core.brakes.brake import Action
from core.gc_pause import collector_paused
from core.launch.denials.telling import with_refusals
from core.ledger.entry import PROVISION
from core.ledger.search_time import RecordedTime
from core.ledger.summary import of_provisioning
from core.lifecycle.claims import BOOT_AT_LEAST
from core.lifecycle.records import ClaimRecord, Moments
from core.model.plan import Plan, Unschedulable
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.pod import PodReason
from core.reasons.refusal import Refusal
from core.reasons.run import RunReason
from core.scheduling import Planner
from lambdas.brakes.ports import skipped
from lambdas.clock import stopwatch
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.draining.replacements import Replacing
from lambdas.controllers.launching.claim_record import with_class_hash, with_decision
from lambdas.controllers.launching.launch_waves import MARGIN, LaunchWaves, WaveResult
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.launching.launching import refused as refused_claim
from lambdas.controllers.provisioning.launch_cost import note_launches
from lambdas.controllers.provisioning.lost_rows import LostRows
from lambdas.controllers.provisioning.pending_work import PodBatcher, displaces_pods, is_unlaunched, pending_work
from lambdas.controllers.provisioning.unschedulable_events import UnschedulableEvents
from lambdas.controllers.status.buffer_status import BufferStatus
from lambdas.ledger.writer import DecisionDraft, LedgerWriter, SearchBound
from lambdas.messages import LAUNCHES_A_MESSAGE, wake_up, work_on_claims
from lambdas.metric_names import LAUNCH_DENIALS, LEDGER_FAILURES, QUOTA_DENIALS
from lambdas.observation.cluster_state import ClusterState
from lambdas.observation.expected_pods import awaits_pods
from lambdas.observation.observer import Observer, Stores
from lambdas.observation.plan_cache import PlanCache, snapshot_digest
from lambdas.observation.unavailable_offerings import has_unavailable
from lambdas.ports import Clock, PortError, Queue
from lambdas.run_report import RunReport
from lambdas.settings import Settings
from lambdas.store import PLANNER, Lease, Leases, Requested

NOMINATED_FOR: Final = timedelta(seconds=20)
"""How long a node on which pods are expected is no candidate for disruption (Karpenter)."""

THINK_AGAIN: Final = timedelta(minutes=5)
BUSY: Final = timedelta(seconds=5)
TRY_AGAIN: Final = timedelta(seconds=2)
"""After a launch whose answer is not known, or not stored."""


class Provisioning:
    """What `provision` does. Without pending pods, and capacity buffers, it lists pods and claims, and stops.

    It takes the planner's lease before it looks: who comes while another plans has looked for nothing.
    """

    def __init__(
        self,
        looks: tuple[Observer, PodBatcher, LostRows],
        stores: Stores,
        leases: Leases,
        launching: tuple[Launcher, LaunchWaves],
        queues: tuple[Queue, Queue],
        news: tuple[UnschedulableEvents, BufferStatus, LedgerWriter],
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._observer, self._batch, self._lost_rows = looks
        self._stores = stores
        self._leases = leases
        self._launcher, self._waves = launching
        self._replacing = Replacing(stores.claims)
        self._wake_ups, self._work = queues
        self._news, self._buffers, self._ledger = news
        self._settings = settings
        self._clock = clock
        self._last: PlanCache[Plan] = PlanCache(THINK_AGAIN)
        self._told_of = ""
        self._heard_at: datetime | None = None

    def run(self, report: RunReport, *, owner: str, deadline: datetime, until: datetime) -> None:
        """Launch what pending pods need.

        Args:
            report: Collects what was decided.
            owner: Names this invocation, for the lease.
            deadline: Nothing new is begun close to it.
            until: A further look is asked for only if it comes by then, see `looks_until`.
        """
        brake = self._stores.brakes.engaged().stopping(Action.LAUNCH)
        if brake is not None:
            skipped(brake, "launches", report)
            return
        now = self._heard_at = self._clock.now()
        lease = self._leases.acquire(PLANNER, owner, now=now, for_=max(deadline - now, MARGIN))
        if lease is None:
            report.decide(
                DecisionKind.SKIP, self._settings.cluster_name, RunReason.PLANNER_BUSY, "another run is planning"
            )
            self._look_again("planner was busy", until, BUSY)
            return
        try:
            if self._has_work(report, deadline, until):
                self._plan_in_rounds(lease, report, deadline, until)
        except Exception:
            self._leases.release(lease)
            raise
        self._leases.release(lease)

    def tell_of_change(self) -> None:
        """Say that the cluster is no longer as it was, so that `disrupt` and `reconcile` look. They do some time later, too."""
        with suppress(PortError):  # pods need not wait for that
            self._stores.changes.tell(self._clock.now())

    def _has_work(self, report: RunReport, deadline: datetime, until: datetime) -> bool:
        """Whether there is anything to plan, once pods have stopped coming in."""
        pods = self._batch.pods(deadline - MARGIN)
        records = self._stores.claims.all()
        now = self._clock.now()
        found = pending_work(pods, records, now)
        report.count("pendingPods", found.marked + found.awaited)
        report.count("awaitedPods", found.awaited)
        if found.unmarked and not found.is_any:
            self._look_again("pods that the scheduler has not looked at", until)
        if found.is_any or displaces_pods(self._observer, records, now) or self._observer.keeps_room():
            return True
        if found.awaited:
            message = f"{found.awaited} pods wait, and a node is on its way for each"
            report.decide(DecisionKind.SKIP, self._settings.cluster_name, RunReason.NODES_UNDER_WAY, message)
            self._expect_pods_on((), records, now)
        return False

    def _plan_in_rounds(self, lease: Lease, report: RunReport, deadline: datetime, until: datetime) -> None:
        used = 0
        for number in range(1, self._settings.plan_rounds + 1):
            view = self._lost_rows.look(report) if number == 1 else self._observer.look()
            self._hand_over(view, report)
            report.count(LAUNCH_DENIALS, len(view.denials))
            report.count(QUOTA_DENIALS, sum(denial.scope.quotas is not None for denial in view.denials))
            plan, draft = self._planned(view, report)
            records, plan = self._records(plan, draft.id, view, lease, used)
            used += len(records)
            self._keep(draft, records, plan, report)
            limits = {pool.name: pool.limits for pool in view.snapshot.node_pools}
            requested = self._stores.claims.request(records, limits, lease) if records else Requested(())
            note_launches(self._stores.moves, requested.accepted, view, self._clock.now(), report)
            refused = self._launch(requested.accepted, view, report, deadline)
            self._replacing.note(plan, requested, refused, view, report)
            self._nominate(plan, view, report)
            self._buffers.write(view, plan, report)
            if not refused:
                self._report(plan, requested.refused, report)
                return
            if self._clock.now() + MARGIN > deadline or number == self._settings.plan_rounds:
                self._report(plan, (), report)
                self._look_again("EC2 had no capacity", until)
                return

    def _planned(self, view: ClusterState, report: RunReport) -> tuple[Plan, DecisionDraft]:
        """The plan. Pods that cannot be helped are not thought about again and again while nothing changes."""
        snapshot = view.snapshot
        world, now = snapshot_digest(snapshot), self._clock.now()
        if world != self._told_of:  # pods that wait for ever are no news
            self._told_of = world
            self.tell_of_change()
        plan = self._last.recall(world, now)
        if plan is not None:
            return plan, DecisionDraft()
        with collector_paused():
            planned, bound = self._improved(snapshot, report)
            plan = self._with_refusals(planned, view)
        report.count("plannedMicrodollars", plan.cost.hourly // 1000)
        report.count("boundMicrodollars", (plan.cost.lower_bound or 0) // 1000)
        if not plan.claims:
            self._last.keep(world, now, plan)
        return plan, self._ledger.draft(PROVISION, snapshot, planned, bound)

    def _with_refusals(self, plan: Plan, view: ClusterState) -> Plan:
        """The plan, and what EC2 denies to pods that would have a node otherwise: the greedy plan without refusals knows."""
        if not plan.unschedulable or not has_unavailable(view.snapshot.catalogue):
            return plan
        without = Planner(self._observer.without_refusals(view)).outcome().plan
        told = with_refusals(plan.unschedulable, without.claims, view.denials)
        return msgspec.structs.replace(plan, unschedulable=told)

    def _improved(self, snapshot: Snapshot, report: RunReport) -> tuple[Plan, SearchBound]:
        """The best plan that the time allows, and what ended its search.

        Where the search for cheaper nodes breaks down it is the greedy plan, without a search.
        """
        planner, steps = Planner(snapshot), snapshot.options.improve_iterations
        time = RecordedTime(stopwatch(self._clock, self._settings.improving(planner.pods)))
        try:
            plan = planner.plan(time if steps is None else None)
        except Exception as error:  # noqa: BLE001 - pods wait, and the plan that they need stands without the search
            report.count("failedImprovements")
            report.decide(
                DecisionKind.SKIP,
                self._settings.cluster_name,
                RunReason.IMPROVEMENT_FAILED,
                f"{type(error).__name__}: {error}",
            )
            return planner.outcome().plan, SearchBound()
        return plan, SearchBound(steps, tuple(time.elapsed))

    def _keep(self, draft: DecisionDraft, records: Iterable[ClaimRecord], plan: Plan, report: RunReport) -> None:
        """Write the decision to the ledger before anything of it is done; pods do not wait for a ledger that fails."""
        report.decision_id = draft.id
        try:
            bindings = ((binding.pod, binding.node) for binding in plan.bindings)
            refused = ((found.pod, found.reason) for found in plan.unschedulable)
            self._ledger.write(draft, of_provisioning([record.plan for record in records], bindings, refused))
        except PortError as error:
            report.count(LEDGER_FAILURES)
            report.decide(DecisionKind.SKIP, "ledger", RunReason.LEDGER_NOT_WRITTEN, str(error))

    def _hand_over(self, view: ClusterState, report: RunReport) -> None:
        """Claims that an earlier run stored and did not launch go to `execute`; their pods are not planned again."""
        stored = [record.name for record in view.claims.values() if is_unlaunched(record)]
        self._work.send(work_on_claims(stored, self._clock.now(), at_most=LAUNCHES_A_MESSAGE))
        report.count("handedOver", len(stored))

    def _records(
        self, plan: Plan, decision: str, view: ClusterState, lease: Lease, used: int
    ) -> tuple[list[ClaimRecord], Plan]:
        """Records for the planned claims, and the plan without the claims that cannot be launched: their pods are told why.

        The lease's stamp makes the names unique for ever.
        """
        snapshot, now = view.snapshot, self._clock.now()
        pods = {pod.key: pod for pod in snapshot.pods}
        bound = {pod.key for pod in snapshot.pods if pod.node_name}
        records, left_out = list[ClaimRecord](), list[Unschedulable]()
        for planned in plan.claims:
            named = with_decision(with_class_hash(planned, snapshot.node_classes), decision)
            name = f"{planned.node_pool}-{lease.stamp}-{used + len(records)}"
            record = self._launcher.record(named, name, snapshot, now)
            if isinstance(record, Refusal):
                left_out += [Unschedulable(pod, record.reason, record.message) for pod in planned.pods]
                continue
            awaits_pods = bool(planned.pods) and not planned.buffer_pods and bound.isdisjoint(planned.pods)
            moments = self._moments(pods[key] for key in planned.pods if key in pods)
            records.append(msgspec.structs.replace(record, awaits_pods=awaits_pods, moments=moments))
        return records, msgspec.structs.replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *left_out))))

    def _moments(self, pods: Iterable[Pod]) -> Moments:
        """What is known of a claim's past when it is planned: its pods', and this run's."""
        found = tuple(pods)
        return Moments(
            pods_created_at=min((pod.created_at for pod in found if pod.created_at is not None), default=None),
            pods_marked_at=min(
                (pod.unschedulable_since for pod in found if pod.unschedulable_since is not None), default=None
            ),
            heard_at=self._heard_at,
        )

    def _launch(
        self, records: Sequence[ClaimRecord], view: ClusterState, report: RunReport, deadline: datetime
    ) -> list[str]:
        """Launch as many as there is time for; `execute` gets the others. Returns the names of those that EC2 refused."""
        found = self._waves.launch(records, view.node_classes, view.snapshot.catalogue, report, deadline)
        self._ask_for_looks(found, Boundary(report))
        return found.refused

    def _ask_for_looks(self, found: WaveResult, boundary: Boundary) -> None:
        """One message for all claims that have their next step at the same time: they are looked after together."""
        now = self._clock.now()
        booting = [claim for claim in found.launched if claim.machine is not None]
        unclear = [*found.unclear, *(claim.name for claim in found.launched if claim.machine is None)]
        first = min((claim.phase_since for claim in booting), default=now)
        boot = max(timedelta(0), first + BOOT_AT_LEAST - now)
        for messages, delay in (
            (work_on_claims(found.left, now, at_most=LAUNCHES_A_MESSAGE), timedelta(0)),
            (work_on_claims(unclear, now, at_most=LAUNCHES_A_MESSAGE), TRY_AGAIN),
            (work_on_claims([claim.name for claim in booting], now), boot),
        ):
            if messages:
                boundary.attempt("work queue", partial(self._work.send, messages, delay=delay))

    def _nominate(self, plan: Plan, view: ClusterState, report: RunReport) -> None:
        now = self._clock.now()
        for binding in plan.bindings:
            report.decide(DecisionKind.BIND, binding.pod, ClaimReason.FITS_EXISTING, f"expected on {binding.node}")
        self._expect_pods_on([binding.node for binding in plan.bindings], view.claims.values(), now)

    def _expect_pods_on(self, nodes: Iterable[str], records: Iterable[ClaimRecord], now: datetime) -> None:
        """Keep these nodes, and those on their way, from being disrupted before their pods are there."""
        names = {*nodes, *(record.name for record in records if awaits_pods(record, now))}
        if names:
            self._stores.nominations.nominate(names, now=now, until=now + NOMINATED_FOR)

    def _report(self, plan: Plan, over_limit: Iterable[ClaimRecord], report: RunReport) -> None:
        # The same words at each try: an event is written once for each.
        over_limit = tuple(over_limit)
        now = self._clock.now()
        report.outcomes += [refused_claim(r, ClaimReason.LIMIT_REACHED, "", now) for r in over_limit]
        refused = (
            Unschedulable(pod, PodReason.LIMIT_REACHED, f"the limits of NodePool {record.plan.node_pool} are used up")
            for record in over_limit
            for pod in record.plan.pods
        )
        unschedulable = (*plan.unschedulable, *refused)
        for found in unschedulable:
            report.decide(DecisionKind.UNSCHEDULABLE, found.pod, PodReason.of(found.reason), found.message)
        report.count("unschedulablePods", len(unschedulable))
        self._news.tell(unschedulable)

    def _look_again(self, reason: str, until: datetime, delay: timedelta | None = None) -> None:
        delay = delay or timedelta(seconds=self._settings.poll_seconds)
        if self._clock.now() + delay <= until:
            self._wake_ups.send([wake_up(reason, until)], delay=delay)
