"""Provisions nodes for pending pods: plans under a lease, stores the intent, launches, and plans again after refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from adapters.brakes import skipped
from adapters.messages import HOPS_MAX, WokenBy, between_schedules, wake_up, work_on_claims
from adapters.observability import logger
from adapters.observation.observer import ClusterState, Observer
from adapters.observation.stores import OwnRows, Stores, current_target, snapshot_digest
from adapters.ports import Clock, CloudProvider, Instance, PortError, Queue, reason_of
from adapters.run_report import RunReport
from adapters.runtime import PATIENCE, stopwatch
from adapters.store import PLANNER, ClaimStore, Lease, Leases, MoveHistoryStore, Requested, Targets
from core import labels
from core.brakes import Action
from core.containment import internal_error
from core.disruption.move_history import LaunchedNode
from core.disruption.static_capacity import lacks_nodes, static_claims, waiting_for_addresses, waiting_for_limits
from core.interpreter import collector_paused
from core.lifecycle.deletion import CONSOLIDATION
from core.lifecycle.launching import SHARES_MAX, group_of, may_start_for_nobody, starting_for_groups, starts_for_nobody
from core.lifecycle.records import ClaimRecord, Moments
from core.model.plan import Plan, Unschedulable
from core.model.pod import MEMBERS_COME_WITHIN, Pod
from core.model.snapshot import Snapshot
from core.pools import limits_by_counter
from core.reasons.code import DecisionKind, Refusal, Stated, TerminationReason
from core.reasons.pods import PodReason
from core.reasons.runs import RunReason
from core.scheduling.new_node import group_or_cap, is_cap
from installation.metric_names import CHAINS_CUT, LAUNCH_DENIALS, QUOTA_DENIALS
from installation.settings import Settings
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.claim_deletion import ClaimDeletion
from lambdas.controllers.draining import Replacing
from lambdas.controllers.launching import MARGIN, Launcher, with_class_hash, with_decision
from lambdas.controllers.planning import (
    DecidedPlan,
    ObservedPlans,
    PlanDecision,
    PlanLaunches,
    PlanPublisher,
    PodBatcher,
    displaces_pods,
    is_unlaunched,
    pending_work,
)
from lambdas.controllers.resync import AbsentClaims
from lambdas.controllers.run_requests import mismatches, recount
from lambdas.controllers.sweeps.rebuilding import Rebuilding, UnclaimedInstance, untracked

# Builds the rows of a plan's claims, which are stored before anything is launched.


class ClaimRecords:
    """Names claims and builds their rows."""

    def __init__(self, launcher: Launcher, clock: Clock, *, at_most: int) -> None:
        """`at_most`: how many claims a run launches itself, which bounds shared launches too."""
        self._launcher = launcher
        self._clock = clock
        self._shares_max = max(1, min(SHARES_MAX, at_most))

    def of_plan(
        self, plan: Plan, decision: str, view: ClusterState, lease: Lease, *, used: int, heard_at: datetime | None
    ) -> tuple[list[ClaimRecord], Plan]:
        """Return records for the planned claims, and the plan without unlaunchable claims, whose pods get the reason.

        The lease's stamp makes the names permanently unique.

        Args:
            plan: The plan.
            decision: Its id in the ledger.
            view: The observation of the plan.
            lease: The planner's.
            used: How many names this run has used.
            heard_at: When this run learned of the pods.
        """
        snapshot, now = view.snapshot, self._clock.now()
        pods = {pod.key: pod for pod in snapshot.pods}
        bound = {pod.key for pod in snapshot.pods if pod.node_name}
        records, left_out, lost_groups = list[ClaimRecord](), list[Unschedulable](), dict[str, str]()
        for planned in plan.claims:
            named = with_decision(with_class_hash(planned, snapshot.node_classes), decision)
            name = f"{planned.node_pool}-{lease.stamp}-{used + len(records)}"
            try:
                record = self._launcher.record(named, name, snapshot, now)
            except PortError:
                raise
            except Exception as error:  # noqa: BLE001 - the other claims of the plan are launched nevertheless
                logger.exception("claim set aside", extra={"nodePool": planned.node_pool})
                aside = internal_error(f"NodePool/{planned.node_pool}", error)
                record = Stated(PodReason.SET_ASIDE, aside.message)
            if isinstance(record, Refusal):
                left_out += [Unschedulable(pod, record.reason, record.message) for pod in planned.pods]
                lost_groups[planned.annotations.get(labels.GROUP_OF_CLAIM, "")] = record.message
                continue
            awaits_pods = bool(planned.pods) and not planned.buffer_pods and bound.isdisjoint(planned.pods)
            moments = _moments((pods[key] for key in planned.pods if key in pods), heard_at)
            records.append(msgspec.structs.replace(record, awaits_pods=awaits_pods, moments=moments))
        lost_groups.pop("", None)
        records, held = _whole_groups(records, lost_groups)
        left_out += held
        records = self._launcher.shared(records, snapshot, at_most=self._shares_max)
        return records, msgspec.structs.replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *left_out))))


def _whole_groups(
    records: Sequence[ClaimRecord], lost: Mapping[str, str]
) -> tuple[list[ClaimRecord], list[Unschedulable]]:
    """Return the records of all other groups, and why the pods of lost groups get no node.

    `lost`: group → why one of its claims cannot be launched. No pod may wait for that claim yet.
    """
    held = [
        Unschedulable(pod, PodReason.GROUP_INCOMPLETE, f"another member gets no node: {lost[group_of(record)]}")
        for record in records
        if group_of(record) in lost
        for pod in record.plan.pods
    ]
    return [record for record in records if group_of(record) not in lost], held


def _moments(pods: Iterable[Pod], heard_at: datetime | None) -> Moments:
    """Return the moments of a claim that are known when it is planned: its pods' and this run's."""
    arrived = tuple(pods)
    return Moments(
        pods_created_at=min((pod.created_at for pod in arrived if pod.created_at is not None), default=None),
        pods_marked_at=min(
            (pod.unschedulable_since for pod in arrived if pod.unschedulable_since is not None), default=None
        ),
        heard_at=heard_at,
    )


# Charges launches to the consolidations that made them necessary, so that unprofitable ones are not repeated.


def note_launches(
    moves: MoveHistoryStore, records: Sequence[ClaimRecord], view: ClusterState, now: datetime, report: RunReport
) -> None:
    """Store which commands are charged for these claims. Never raises PortError: pods must not wait for this."""
    if not records:
        return
    try:
        history = moves.readable(now)
        if not history.outcomes:
            return
        changed = history.after_launch(_launches(records, view), now)
        if changed.outcomes or changed.workloads:
            moves.write(changed, now)
        report.count("workloadsWithUnpaidMoves", len(changed.workloads))
    except PortError as error:
        report.count("portErrors")
        report.decide(DecisionKind.SKIP, "move history", reason_of(error), str(error))


def _launches(records: Sequence[ClaimRecord], view: ClusterState) -> list[LaunchedNode]:
    """Return the workloads that the claims are for.

    Pods of a node that leaves for another reason are not charged to consolidation.
    """
    consolidated = {
        record.node_name
        for record in view.claims.values()
        if record.deletion is not None and record.deletion.reason in CONSOLIDATION
    }
    workloads = {
        pod.key: pod.workload for pod in view.snapshot.pods if not pod.node_name or pod.node_name in consolidated
    }
    return [
        LaunchedNode(
            workloads=frozenset(workloads[pod] for pod in record.plan.pods if pod in workloads),
            for_buffer=bool(record.plan.buffer_pods),
            price=record.plan.price,
        )
        for record in records
    ]


# Restores lost rows before a plan relies on them.
#
# `reconcile` does the same every two minutes. Until then, a plan would underestimate the usage of each NodePool's limits, and
# launch a second node for pods whose first one boots.


class LostRows:
    """Observes the cluster, and rebuilds claims that are missing from the table."""

    def __init__(
        self, cloud: CloudProvider, observer: Observer, rebuilding: Rebuilding, claims: ClaimStore, clock: Clock
    ) -> None:
        self._cloud = cloud
        self._observer = observer
        self._rebuilding = rebuilding
        self._claims = claims
        self._clock = clock

    def observe(self, report: RunReport, rows: OwnRows | None = None) -> ClusterState:
        """Return an observation in which every instance with our tag has its claim, if one can be rebuilt.

        Failures here are reported and left to `reconcile`: pods must not wait because of a failing EC2 list.

        Args:
            report: Receives the failures.
            rows: Commands and claims that were just read.

        Raises:
            PortError: If the observation itself fails.
        """
        boundary = Boundary(report)
        instances: list[Instance] = []
        boundary.attempt("instances", lambda: instances.extend(self._cloud.instances()))
        view = self._observer.observe(rows=rows)
        if rows is not None and self._found(instances, view):
            view = self._observer.observe()  # a claim that was stored after the rows were read is not lost
        if self._rebuilt(instances, view, boundary, report):
            view = self._observer.observe()
        boundary.attempt("usage", lambda: self._recount(view, report))
        return view

    def _rebuilt(
        self, instances: Sequence[Instance], view: ClusterState, boundary: Boundary, report: RunReport
    ) -> bool:
        """Rebuild the claims of instances that were listed before the observation; return whether there were any."""
        rebuilt = self._found(instances, view)
        if not rebuilt:
            return False

        def rebuild() -> None:
            for unclaimed in self._rebuilding.still_there(rebuilt):
                work = partial(self._rebuilding.rebuild, unclaimed, view, report)
                boundary.attempt(unclaimed.instance.instance_id, work)

        boundary.attempt("untracked instances", rebuild)
        return True

    def _found(self, instances: Sequence[Instance], view: ClusterState) -> tuple[UnclaimedInstance, ...]:
        """Return the instances for which a claim can be rebuilt."""
        return untracked(instances, view, self._clock.now(), min_age=timedelta(0)).rebuildable

    def _recount(self, view: ClusterState, report: RunReport) -> None:
        """Correct counters, unless a claim cannot be read: what it holds is unknown."""
        if view.unreadable_claims:
            return
        for mismatch in mismatches(self._claims, view.claims.values()):
            recount(self._claims, mismatch, report)


# Gives back the nodes of groups that start although the rest of their group cannot be bought.


class HalfGroups:
    """The nodes that start for groups which cannot be complete."""

    def __init__(self, deletion: ClaimDeletion, claims: ClaimStore, work: Queue, clock: Clock) -> None:
        self._deletion = deletion
        self._claims = claims
        self._work = work
        self._clock = clock

    def give_back(self, plan: Plan, view: ClusterState, report: RunReport) -> datetime | None:
        """Begin to remove them; `execute` ends their instances. A run that ends here leaves the others to the next one.

        Return when the next of them may be given back; None while none waits for members.
        """
        boundary, leaving = Boundary(report), list[str]()
        starts = starts_for_nobody(plan, view.snapshot, view.claims.values())
        for before, after in starts.noted:
            boundary.attempt(before.name, partial(self._claims.change, before, after))
        for record, message in starts.given_back:
            begin = partial(self._deletion.begin, record, TerminationReason.GROUP_GIVEN_BACK, message, report)
            if boundary.attempt(record.name, begin):
                leaving.append(record.name)
        messages = work_on_claims(leaving, self._clock.now())
        if messages:
            boundary.attempt("work queue", partial(self._work.send, messages))
        return starts.next_at


# Requests the next run of `provision`, one for all concurrent requests, and spaces runs that messages start.


SPACING: Final = timedelta(seconds=1)
"""The shortest time from the end of a plan to the next run that a message starts.

Each launch that EC2 refuses wakes `provision`; without capacity, plans would follow each other without a pause
(docs/engineering/handbook/runs.md).
"""


class NextRun:
    """The requests of one sandbox. Sandboxes do not share them, so a run may be requested twice but is never missed."""

    def __init__(self, wake_ups: Queue, clock: Clock) -> None:
        self._wake_ups = wake_ups
        self._clock = clock
        self._ended_at: datetime | None = None
        self._news_at = datetime.min.replace(tzinfo=UTC)
        self._requested: tuple[datetime, datetime] | None = None
        """The time of the last requested run, and until when it may request further ones."""
        self._hops = 0

    def began(self, hops: int, report: RunReport) -> None:
        """Record that a run begins to which this many messages in a row have led."""
        self._hops = hops
        if hops > HOPS_MAX:
            report.count(CHAINS_CUT)

    def ask(self, reason: str, until: datetime, delay: timedelta) -> None:
        """Request a run after this delay if the chain lasts until then. Raises PortError.

        Nothing is sent if an equivalent run is already requested by then.
        """
        now = self._clock.now()
        at = now + delay
        if at > until or self._hops > HOPS_MAX:
            return
        if self._requested is not None:
            comes_at, its_until = self._requested
            if now < comes_at <= at and comes_at + delay <= its_until:
                return
        self._wake_ups.send([wake_up(reason, until, self._hops)], delay=delay)
        self._requested = at, until

    def run_between_schedules(self, until: datetime, every: timedelta) -> None:
        """Have a run look for waiting pods once more before the schedule does, which comes at `until`. Raises PortError."""
        if every and self._clock.now() + every < until and self._hops <= HOPS_MAX:
            self._wake_ups.send([between_schedules(until, self._hops)], delay=every)

    def is_too_early(self, cause: WokenBy) -> bool:
        """Whether a run that messages started is too soon after a plan. Raises PortError.

        A run with news is requested again for later, once for all news until then; a run's own request is dropped, since the
        previous plan has requested the next run.
        """
        now = self._clock.now()
        if cause is WokenBy.SCHEDULE or self._ended_at is None or now - self._ended_at >= SPACING:
            return False
        if cause is WokenBy.NEWS and now >= self._news_at and self._hops <= HOPS_MAX:
            self._wake_ups.send([wake_up("spaced", hops=self._hops)], delay=SPACING)
            self._news_at = now + SPACING
        return True

    def planned(self) -> None:
        """Record the end of a plan."""
        self._ended_at = self._clock.now()


BUSY: Final = timedelta(seconds=5)

ROOM_CHECKED_EVERY: Final = timedelta(hours=1)
"""How long scheduled runs rely on messages about static NodePools and warm room: `reconcile` sends one every two minutes.

Each look asks the API server twice, and an idle cluster may be asked three times a minute.
"""

_WITHOUT_NEWS: Final = (WokenBy.SCHEDULE, WokenBy.BETWEEN_SCHEDULES)
"""Causes that report no pod: the run first checks whether any waits."""


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
    half_groups: HalfGroups
    publisher: PlanPublisher
    replacing: Replacing
    observed: ObservedPlans
    absent: AbsentClaims
    next_run: NextRun
    settings: Settings
    clock: Clock
    _recorded_digest: str = field(default="", init=False)
    """The last digest of the cluster that `disrupt` and `reconcile` were notified of."""
    _room_checked_at: datetime | None = field(default=None, init=False)
    """When this sandbox last looked for static NodePools and warm room, with nothing in its way."""

    def run(
        self,
        report: RunReport,
        *,
        owner: str,
        deadline: datetime,
        until: datetime,
        cause: WokenBy,
        hops: int = 0,
    ) -> None:
        """Launch what pending pods need.

        Args:
            report: Collects the decisions.
            owner: The name of this invocation, for the lease.
            deadline: No work begins close to it.
            until: A further run is requested only if it comes by then, see `chain_ends_at`.
            cause: What started the run.
            hops: How many messages in a row led to it.
        """
        self.next_run.began(hops, report)
        heard_at = self.clock.now()
        if cause in _WITHOUT_NEWS:
            self.next_run.run_between_schedules(until, timedelta(seconds=self.settings.look_seconds))
        checks_room = self._checks_room(cause, heard_at)
        if not self._may_plan(cause, report, checks_room=checks_room):
            return
        lease = self.leases.acquire(PLANNER, owner, now=heard_at, for_=max(deadline - heard_at, MARGIN))
        if lease is None:
            self._skip_busy(report, until)
            return
        decided: Sequence[DecidedPlan] = ()
        try:
            rows = self._rows_with_work(report, deadline, until)
            if rows is not None or (checks_room and self._lacks_static_nodes()):
                decided = self._plan_in_rounds(rows, lease, report, heard_at, deadline, until)
                self.next_run.planned()
            self._room_checked_at = heard_at if decided or checks_room else self._room_checked_at
        except Exception:
            self.leases.release(lease)
            raise
        self.leases.release(lease)
        for plan in decided:  # last of all: neither a pod nor another run waits for it
            self._count_bound(plan, report, deadline)

    def _skip_busy(self, report: RunReport, until: datetime) -> None:
        report.decide(DecisionKind.SKIP, self.settings.cluster_name, RunReason.PLANNER_BUSY, "another run is planning")
        self.next_run.ask("planner was busy", until, BUSY)

    def _checks_room(self, cause: WokenBy, now: datetime) -> bool:
        """Whether the run looks for static NodePools and warm room: after an event, and if no run has looked for long."""
        is_overdue = self._room_checked_at is None or now - self._room_checked_at >= ROOM_CHECKED_EVERY
        return cause is WokenBy.NEWS or (cause is WokenBy.SCHEDULE and is_overdue)

    def _may_plan(self, cause: WokenBy, report: RunReport, *, checks_room: bool) -> bool:
        """Whether the run is due, work may wait, and no brake stops it. Brakes come last: a quiet run has nothing to stop."""
        if self.next_run.is_too_early(cause):
            report.count("spacedRuns")
            return False
        if cause in _WITHOUT_NEWS and self._is_quiet() and not (checks_room and self._wants_room()):
            return False
        brake = self.stores.brakes.engaged().stopping(Action.LAUNCH)
        if brake is not None:
            skipped(brake, "launches", report)
        return brake is None

    def record_change(self) -> None:
        """Record that the cluster has changed, so that `disrupt` and `reconcile` observe it.

        They also observe on their own some time later.
        """
        with suppress(PortError):  # pods must not wait for this
            self.stores.changes.record(self.clock.now())

    def _is_quiet(self) -> bool:
        """Whether no pod lacks a node, no claim waits for its launch, and no buffer or ProvisioningRequest requests room.

        Nor may a node start for a group that is gone.
        """
        if self.settings.options().feature_gates.capacity_buffer or self.observer.unbound_pods():
            return False
        if self.observer.awaits_requests():
            return False
        started_at = self.clock.now()
        if self.absent.holds(started_at):
            return True
        records = self.stores.claims.all()
        self.absent.note(started_at, are_absent=not records)
        if any(record.deletion is not None or is_unlaunched(record) for record in records):
            return False
        return not may_start_for_nobody(records, ())

    def _wants_room(self) -> bool:
        """Whether a calendar keeps room warm, or a static NodePool lacks nodes: `reconcile` reports both by messages.

        If so, the plan is the look: a brake or another planner may still prevent it.
        """
        now = self.clock.now()
        if self.observer.keeps_warm() or self._lacks_static_nodes():
            return True
        self._room_checked_at = now
        return False

    def _rows_with_work(self, report: RunReport, deadline: datetime, until: datetime) -> OwnRows | None:
        """Return the rows for the plan, read after the batch of pods is complete; None if there is nothing to plan."""
        pods = self.batcher.pods(deadline - MARGIN)
        rows = self.stores.own_rows()
        records = rows.claims
        work = pending_work(pods, records, self.clock.now(), self.settings.options())
        report.count("pendingPods", work.marked + work.awaited)
        report.count("awaitedPods", work.awaited)
        if work.unmarked and not work.is_any:
            self.next_run.ask("pods that the scheduler has not looked at", until, self._poll())
        now = self.clock.now()
        if work.is_any or displaces_pods(self.observer, records, now) or self.observer.keeps_room():
            return rows
        if may_start_for_nobody(records, {pod.key for pod in pods}):
            return rows
        if work.awaited:
            message = f"{work.awaited} pods wait, and a node is on its way for each"
            report.decide(DecisionKind.SKIP, self.settings.cluster_name, RunReason.NODES_UNDER_WAY, message)
            self.publisher.expect_pods_on((), records)
        return None

    def _lacks_static_nodes(self) -> bool:
        """Whether a static NodePool lacks nodes. Raises PortError."""
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
    ) -> list[DecidedPlan]:
        used, rounds = 0, list[DecidedPlan]()
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
            decided = self.decision.plan(view, digest, report, deadline)
            rounds.append(decided)
            plan, draft = _with_static_claims(decided.plan, view.snapshot, report), decided.draft
            records, plan = self.claim_records.of_plan(plan, draft.id, view, lease, used=used, heard_at=heard_at)
            used += len(records)
            summary = self.decision.keep(draft, records, plan, report)
            limits = limits_by_counter(view.snapshot.node_pools)
            requested = self.stores.claims.request(records, limits, lease) if records else Requested(())
            note_launches(self.stores.moves, requested.accepted, view, self.clock.now(), report)
            refused = self.launches.launch(requested, view, report, deadline)
            self.replacing.note(plan, requested, refused, view, report)
            self.publisher.nominate(plan, view, report)
            is_last = not refused or self.clock.now() + MARGIN > deadline or number == self.settings.plan_rounds
            if is_last:  # the pods of another round get their reasons there, and its launches do not wait for these
                plan, summary = self.decision.explained(decided, plan, records, view, report, deadline)
                report.count(QUOTA_DENIALS, int(PodReason.QUOTA_REACHED in {pod.reason for pod in plan.unschedulable}))
            self.publisher.decided(draft.id, summary)
            if number == 1 and self.clock.now() + MARGIN <= deadline:
                self.observed.observe(view.snapshot, report)
            if is_last:
                in_vain_at = self.half_groups.give_back(plan, view, report)
                self.publisher.report(plan, Requested(()) if refused else requested, report)
                self._ask_for_another(plan, view, until, in_vain_at, was_refused=bool(refused))
                break
        return rounds

    def _count_bound(self, decided: DecidedPlan, report: RunReport, deadline: datetime) -> None:
        """Count the proven bound of a plan, within the time of its search if the run has that much left.

        Only a metric depends on it: without time, or if the proof fails, the bound without a solver is counted.
        """
        if decided.bare is None:
            return
        plan = decided.bare.plan
        bound, time = plan.cost.lower_bound, self.settings.improving(sum(len(claim.pods) for claim in plan.claims))
        if self.clock.now() + time * PATIENCE <= deadline:
            try:
                with collector_paused():
                    bound = decided.bare.prove_bound(stopwatch(self.clock, time))
            except Exception as error:  # noqa: BLE001 - nothing is decided with the bound
                report.count("failedImprovements")
                logger.warning("bound not proven", extra={"error": type(error).__name__})
        report.count("boundMicrodollars", (bound or 0) // 1000)

    def _ask_for_another(
        self, plan: Plan, view: ClusterState, until: datetime, in_vain_at: datetime | None, *, was_refused: bool
    ) -> None:
        if was_refused:
            self.next_run.ask("EC2 had no capacity", until, self._poll())
        elif any(group.awaits_nodes for group in plan.groups):
            self.next_run.ask("a ProvisioningRequest waits for its nodes", until, self._poll())
        elif any(unplaced.reason == PodReason.DEADLINE_REACHED for unplaced in plan.unschedulable):
            self.next_run.ask("no time for all pods", until, SPACING)
        elif in_vain_at is not None:
            self.next_run.ask("a node may start for nobody", until, max(SPACING, in_vain_at - self.clock.now()))
        elif any(group.reason for group in plan.groups) and starting_for_groups(view.claims.values()):
            self.next_run.ask("a group may not be complete in time", until, MEMBERS_COME_WITHIN)

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
    static, kept_out = static_claims(snapshot, plan.claims), waiting_for_limits(snapshot, plan.claims)
    for name, (number, group) in kept_out.items():
        reason = PodReason.BUDGET_EXHAUSTED if is_cap(group) else PodReason.LIMIT_REACHED
        message = f"{number} of its replicas wait: {group_or_cap(group)} has no room for them"
        report.decide(DecisionKind.SKIP, f"NodePool {name}", reason, message)
    for name, number in waiting_for_addresses(snapshot, static, kept_out).items():
        message = f"{number} of its replicas wait: no subnet of its EC2NodeClass has a free address for them"
        report.decide(DecisionKind.SKIP, f"NodePool {name}", PodReason.NO_FREE_ADDRESS, message)
    return msgspec.structs.replace(plan, claims=(*plan.claims, *static))
