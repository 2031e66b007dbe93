"""The work of `provision`: what waits, one plan for it, its launches, and what is published about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from adapters.ledger import DecisionDraft, LedgerWriter, SearchBound
from adapters.messages import HOPS_MAX, LAUNCHES_A_MESSAGE, wake_up, work_on_claims
from adapters.observability import logger
from adapters.observation.observer import ClusterState, Observer, awaits_pods, has_unavailable
from adapters.observation.stores import PlanCache, snapshot_digest
from adapters.ports import Clock, JsonObject, Kubernetes, PortError, Queue
from adapters.run_report import RunReport
from adapters.runtime import stopwatch
from adapters.store import Nominations, Requested
from core.containment import NO_TIME, Contained, PodSlices, SetAside, contained, effort_of, without_time_for
from core.disruption.static_capacity import static_claims
from core.errors import OutOfTimeError
from core.interpreter import collector_paused
from core.launch.denials import with_refusals
from core.ledger.entry import PROVISION, DecisionSummary, RecordedTime, observed, of_provisioning
from core.lifecycle.claims import BOOT_AT_LEAST
from core.lifecycle.deletion import reclaimed_at
from core.lifecycle.draining import without_planned_moves
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.plan import Plan, Unschedulable
from core.model.pod import Pod
from core.model.snapshot import Options, Snapshot
from core.pods import is_pending, is_reschedulable, mark_untried_pods, names_group
from core.pool_admission import as_acting, observed_pools
from core.reasons.code import ClaimReason, DecisionKind
from core.reasons.pods import PodReason
from core.reasons.runs import RunReason
from core.scheduling import BarePlan, Planner
from core.scheduling.constraints.caps import beyond
from installation.metric_names import CHAINS_CUT
from installation.settings import Settings
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.events import (
    DecisionEvents,
    ObjectWarnings,
    about_pod,
    in_time,
    warning,
    with_decision_id,
    write,
)
from lambdas.controllers.launch_answers import LaunchResults
from lambdas.controllers.launch_answers import refused as refused_claim
from lambdas.controllers.launching import ParallelLaunches
from lambdas.controllers.status_writer import RoomStatus

LEAVING_ASKED_MAX: Final = 5
"""The most leaving nodes whose pods are listed by node: for more, the full observation is as cheap."""

LISTS_MAX: Final = 30
"""A bound on lists that no batch reaches: the time limit ends it earlier."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

GROUP_UNTRIED_FOR: Final = timedelta(seconds=10)
"""kube-scheduler (1.37) says nothing of an incomplete group: only we can tell its pods why they wait."""

WHOLE_SECONDS: Final = timedelta(seconds=1)
"""Kubernetes truncates creation times to whole seconds, so a pod may be this much younger than it seems."""


class PendingWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work to plan for, in counts.

    Attributes:
        marked: Pending pods that it cannot place: reported, implied (`mark_untried_pods`), or a group's (`GROUP_UNTRIED_FOR`).
        unmarked: Pending pods that it has not tried yet.
        unlaunched: Claims that are stored but not launched.
        awaited: Pending pods whose node is being launched (`expected_pods.awaits_pods`); they are not planned again.
    """

    marked: int = 0
    unmarked: int = 0
    unlaunched: int = 0
    awaited: int = 0

    @property
    def is_any(self) -> bool:
        """Whether there is something to plan for now."""
        return bool(self.marked or self.unlaunched)


class PodBatcher:
    """Waits for a burst to arrive before it is planned, so that its pods are packed together (Karpenter's batch durations).

    The wait counts from the pods' creation times, so a pod older than the idle time is planned at once, as are most pods that
    the audit log reports. A burst is complete once no pod was created for the idle time and kube-scheduler has tried one of
    each kind; marking all takes it seconds. If it lags, the wait continues while new pods arrive or further ones are marked.
    """

    def __init__(
        self, observer: Observer, settings: Settings, clock: Clock, pause: Callable[[timedelta], None]
    ) -> None:
        self._observer = observer
        self._options = settings.options()
        self._idle = timedelta(seconds=settings.batch_idle_seconds)
        self._at_most = timedelta(seconds=settings.batch_max_seconds)
        self._clock = clock
        self._pause = pause

    def pods(self, latest: datetime) -> tuple[Pod, ...]:
        """Return the unbound pods, once no new one arrives: at the latest `batch_max_seconds` from now, and by `latest`."""
        pods = self._observer.unbound_pods()
        end = min(latest, self._clock.now() + self._at_most)
        for _ in range(LISTS_MAX):
            wait = end - self._clock.now()
            if wait <= timedelta(0) or self._have_arrived(pods):
                break
            self._pause(min(self._idle, wait))
            arrived_before = _arrived(pods)
            pods = self._observer.unbound_pods()
            if _arrived(pods) <= arrived_before:
                break
        return pods

    def _have_arrived(self, pods: Sequence[Pod]) -> bool:
        """Whether the scheduler has tried one of each kind, and no pod came within the idle time.

        A pod that it has not tried for as long as a batch may take is ignored: it may belong to another scheduler.
        """
        waiting = [pod for pod in mark_untried_pods(pods, self._options) if is_pending(pod, requires_mark=False)]
        now = self._clock.now()
        untried = [pod for pod in waiting if not pod.is_marked_unschedulable]
        if any(now - _waits_since(pod) < self._at_most for pod in untried):
            return False
        if all(now - _waits_since(pod) >= self._idle for pod in waiting):
            return True
        newest = max(pod.created_at or _LONG_AGO for pod in waiting)
        return now - newest >= self._idle + WHOLE_SECONDS


def pending_work(pods: Iterable[Pod], records: Iterable[ClaimRecord], now: datetime, options: Options) -> PendingWork:
    """Count what there is to plan for.

    A pod that we nominated for a claim's node counts as not nominated: kube-scheduler made no room for it by preemption, and
    the next plan decides whether it is still expected there (`expected_pods`).
    """
    records = tuple(records)
    ours = {(pod, record.node_name) for record in records for pod in record.nominated}
    expected = {pod for record in records if awaits_pods(record, now) for pod in record.plan.pods}
    marked = unmarked = awaited = 0
    for pod in mark_untried_pods(pods, options):
        if pod.key in expected:
            awaited += is_pending(msgspec.structs.replace(pod, nominated_node_name=""), requires_mark=False)
            continue
        is_ours = bool(pod.nominated_node_name) and (pod.key, pod.nominated_node_name) in ours
        candidate = msgspec.structs.replace(pod, nominated_node_name="") if is_ours else pod
        if is_pending(candidate, requires_mark=True):
            marked += 1
        elif is_pending(candidate, requires_mark=False):
            is_held = names_group(pod) and now - _waits_since(pod) >= GROUP_UNTRIED_FOR
            marked, unmarked = marked + is_held, unmarked + (not is_held)
    unlaunched = sum(map(is_unlaunched, records))
    return PendingWork(marked=marked, unmarked=unmarked, unlaunched=unlaunched, awaited=awaited)


def displaces_pods(observer: Observer, records: Iterable[ClaimRecord], now: datetime) -> bool:
    """Whether leaving nodes still have pods that must move; True without a check if many nodes leave."""
    leaving = {record.node_name: record for record in records if record.deletion is not None and record.node_name}
    if len(leaving) > LEAVING_ASKED_MAX:
        return True
    return any(
        is_reschedulable(pod) and (reclaimed_at(leaving[node]) is not None or not pod.blocks_disruption(now))
        for node in sorted(leaving)
        for pod in observer.pods_on(node)
    )


def is_unlaunched(record: ClaimRecord) -> bool:
    """Whether a claim is stored and not launched yet."""
    return record.phase is ClaimPhase.REQUESTED and record.deletion is None


def _arrived(pods: Iterable[Pod]) -> frozenset[tuple[str, datetime | None]]:
    """Return the pending pods, each with the time of the scheduler's mark."""
    return frozenset((pod.uid, pod.unschedulable_since) for pod in pods if is_pending(pod, requires_mark=False))


def _waits_since(pod: Pod) -> datetime:
    moments = (pod.created_at, pod.unschedulable_since)
    return max((moment for moment in moments if moment is not None), default=_LONG_AGO)


# Decides on a plan: the best that time allows, cached while nothing changes, and stored in the ledger first.


REUSED_FOR: Final = timedelta(minutes=5)
"""Pods for which no node can be launched are planned again after this time, even if nothing has changed."""


PLANNING_MIN: Final = timedelta(seconds=10)
PLANNING_MAX: Final = timedelta(seconds=60)
LAUNCHING: Final = timedelta(seconds=15)
"""Time that a run keeps for its launches after the plan."""

EXPLAINING_MAX: Final = timedelta(seconds=10)
"""The most time for reasons of pods without a place: the next run waits for the end of this one."""

PUBLISHING: Final = timedelta(seconds=10)
"""Time that a run keeps for events and status after the reasons."""

ATTEMPTS_MAX: Final = 6
SLICE_DIVISOR: Final = 4
"""Each attempt has half the time of the one before, and a quarter of its pods."""

WATCHED_CALLS: Final = 16
"""The clock is read once in so many calls: a system call for each pod would take longer than small pods' plans."""


class Watch:
    """Raises OutOfTimeError once a stopwatch has reached its end."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._calls = 0

    def __call__(self) -> None:
        """Look at the clock, not at each call."""
        self._calls += 1
        if self._calls % WATCHED_CALLS == 1 and self._elapsed() >= 1:
            raise OutOfTimeError


class _Planned(msgspec.Struct, frozen=True):
    """A plan without reasons, and what ended its search."""

    bare: BarePlan
    bound: SearchBound


class DecidedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that can be carried out.

    Attributes:
        plan: Without reasons for pods without a place, except for those that it had no time for.
        draft: The decision for the ledger; without an id, an earlier run has stored it.
        bare: The plan as it was made, before what others do was left out of it; None for one that an earlier run made.
        digest: Digest of what it was made for.
    """

    plan: Plan
    draft: DecisionDraft = DecisionDraft()
    bare: BarePlan | None = None
    digest: str = ""


class PlanDecision:
    """Makes plans for an observation, and stores the decisions."""

    def __init__(
        self,
        observer: Observer,
        ledger: LedgerWriter,
        settings: Settings,
        clock: Clock,
        warnings: ObjectWarnings | None = None,
    ) -> None:
        self._observer = observer
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._warnings = warnings
        self._last: PlanCache[Plan] = PlanCache(REUSED_FOR)
        self._slices = PodSlices()
        self._unwritten = ""
        """The decision that could not be written: a second try of the same run would only fail again."""

    def plan(self, view: ClusterState, digest: str, report: RunReport, deadline: datetime | None = None) -> DecidedPlan:
        """Return the plan, to be explained later. One that launches nothing for its pods is reused while nothing changes.

        Args:
            view: The observation, with the stored target.
            digest: The digest of its snapshot without the target.
            report: Collects figures, and failures of the search.
            deadline: When the run is cut off. If there is no time for all pods, the plan is for some of them.
        """
        snapshot, now = view.snapshot, self._clock.now()
        digest = f"{digest} {sorted(snapshot.drained_later)}"
        reusable = self._last.recall(digest, now)
        if reusable is not None:
            return DecidedPlan(plan=reusable)
        with collector_paused():
            decided, late = self._in_time(snapshot, report, deadline)
        planned, snapshot = decided.result, decided.snapshot
        bare = planned.bare
        plan = _postponed(bare.plan, late)
        plan = without_planned_moves(plan, snapshot.pods, view.claims.values(), view.commands)
        report.count("plannedMicrodollars", plan.cost.hourly // 1000)
        self._warn(decided.set_aside, report)
        is_unexplained = bool(bare.plan.unschedulable)
        draft = self._ledger.draft(PROVISION, snapshot, bare.plan, planned.bound, is_unexplained=is_unexplained)
        return DecidedPlan(plan=plan, draft=draft, bare=bare, digest=digest)

    def explained(
        self,
        decided: DecidedPlan,
        plan: Plan,
        records: Iterable[ClaimRecord],
        view: ClusterState,
        report: RunReport,
        deadline: datetime | None = None,
    ) -> tuple[Plan, DecisionSummary]:
        """Return the plan with the reasons of pods without a place, as far as the time for them allows, and its summary.

        The decision is stored with them.

        Args:
            decided: The decision.
            plan: Its plan as it was carried out.
            records: The claims that were launched for it.
            view: The observation of the decision.
            report: Collects figures.
            deadline: When the run is cut off.
        """
        if decided.bare is None:
            return plan, _summary(records, plan)
        with collector_paused():
            watch = Watch(stopwatch(self._clock, self._time_for_reasons(deadline)))
            reasons = decided.bare.find_reasons(watch)
            self._warn(reasons.set_aside, report)
            by_pod = {reason.pod: reason for reason in reasons.unschedulable}
            plan, reused = _with_reasons(plan, by_pod), _with_reasons(decided.plan, by_pod)
            plan, reused = (self._with_refusals((plan, reused), view, report, watch)) if by_pod else (plan, reused)
        if not reused.claims and not any(
            unplaced.reason == PodReason.DEADLINE_REACHED for unplaced in reused.unschedulable
        ):
            self._last.keep(decided.digest, self._clock.now(), reused)
        draft, summary = decided.draft, _summary(records, plan)
        if reasons.is_whole:
            draft = draft.explained(msgspec.structs.replace(decided.bare.plan, unschedulable=reasons.unschedulable))
        if draft.id != self._unwritten and (by_pod or not summary.parts):
            self._ledger.try_write(draft, summary, report)
        return plan, summary

    def _time_for_reasons(self, deadline: datetime | None) -> timedelta:
        remaining = EXPLAINING_MAX if deadline is None else deadline - self._clock.now() - PUBLISHING
        return max(timedelta(milliseconds=1), min(EXPLAINING_MAX, remaining))

    def _warn(self, set_aside: Sequence[SetAside], report: RunReport) -> None:
        if self._warnings is not None:
            self._warnings.set_aside(set_aside, report)

    def _in_time(
        self, snapshot: Snapshot, report: RunReport, deadline: datetime | None
    ) -> tuple[Contained[_Planned], frozenset[str]]:
        """Return the plan for all pods, or for as many as there is time for, and the keys of those that wait for the next.

        The oldest come first, and from each namespace as much as takes the same time.
        """
        waiting = [pod for pod in snapshot.pods if is_pending(pod, requires_mark=False)]
        efforts = {pod.key: effort_of(pod) for pod in waiting}
        now = self._clock.now()
        planning_time = max(PLANNING_MIN, (deadline or now + PLANNING_MAX) - now - LAUNCHING)
        in_all = sum(efforts.values())
        effort = self._slices.first(in_all)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            chosen = frozenset(efforts) if effort >= in_all else self._slices.of(waiting, effort)
            rest = frozenset(key for key in efforts if key not in chosen)
            taken = sum(efforts[key] for key in chosen)
            watch = Watch(stopwatch(self._clock, planning_time / 2**attempt))
            try:
                decided = self._contained(without_time_for(snapshot, rest), report, watch)
            except OutOfTimeError:
                report.count("cutOffPlans")
                effort = taken // SLICE_DIVISOR
                continue
            unplaced_keys = [unplaced.pod for unplaced in decided.result.bare.plan.unschedulable]
            self._slices.ended(chosen, taken, unplaced_keys, is_whole=not rest)
            if rest:
                report.count("podsWithoutTime", len(rest))
            return decided, rest
        everyone = frozenset(efforts)
        self._slices.ended((), 0, (), is_whole=False)
        nothing = Watch(lambda: 0.0)
        return self._contained(without_time_for(snapshot, everyone), report, nothing), everyone

    def _contained(self, snapshot: Snapshot, report: RunReport, watch: Watch) -> Contained[_Planned]:
        """Return the plan without the objects that make it raise."""
        return contained(
            snapshot,
            lambda tried_snapshot: self._improved(tried_snapshot, report, watch),
            probe=lambda tried_snapshot: Planner(tried_snapshot, explains=False, watch=watch).results(),
        )

    def _with_refusals(
        self, plans: tuple[Plan, Plan], view: ClusterState, report: RunReport, watch: Watch
    ) -> tuple[Plan, Plan]:
        """Return the plans, with EC2's denials as the reasons of pods that a plan without refusals gives a node.

        It only explains: without time, or if it fails, the reasons stay as they are.
        """
        if not has_unavailable(view.snapshot.catalogue):
            return plans
        try:
            without = Planner(self._observer.open_market.without_refusals(view), explains=False, watch=watch).results()
        except PortError:
            raise
        except Exception as error:  # noqa: BLE001 - nothing depends on reasons
            report.count("unexplainedRefusals")
            logger.warning("refusals not explained", extra={"error": type(error).__name__})
            return plans
        claims = without.plan.claims
        first, second = (with_refusals(plan.unschedulable, claims, view.denials) for plan in plans)
        replace = msgspec.structs.replace
        return replace(plans[0], unschedulable=first), replace(plans[1], unschedulable=second)

    def observed(self, snapshot: Snapshot, report: RunReport) -> tuple[Plan, DecisionDraft]:
        """Return the plan with its reasons, and the decision for the ledger, which is only recorded."""
        decided = self._contained(snapshot, report, Watch(lambda: 0.0))
        bare = decided.result.bare
        reasons = bare.find_reasons(Watch(stopwatch(self._clock, EXPLAINING_MAX)))
        self._warn((*decided.set_aside, *reasons.set_aside), report)
        plan = msgspec.structs.replace(bare.plan, unschedulable=reasons.unschedulable)
        return plan, self._ledger.draft(
            PROVISION,
            decided.snapshot,
            plan if reasons.is_whole else bare.plan,
            decided.result.bound,
            is_observed=True,
            is_unexplained=not reasons.is_whole,
        )

    def _improved(self, snapshot: Snapshot, report: RunReport, watch: Callable[[], None]) -> _Planned:
        """Return the best plan that time allows, and what ended its search.

        If the search for cheaper nodes fails, it is the greedy plan.

        Raises:
            OutOfTimeError: By `watch`, if there is no time even for the greedy plan.
        """
        planner, steps = Planner(snapshot, watch=watch), snapshot.options.improve_iterations
        time = RecordedTime(stopwatch(self._clock, self._settings.improving(planner.pods)))
        try:
            bare = planner.bare_plan(time if steps is None else None)
            self._warn_of_daemons(planner)
        except OutOfTimeError:
            raise
        except Exception as error:  # noqa: BLE001 - pods wait, and the greedy plan is valid without the search
            report.count("failedImprovements")
            report.decide(
                DecisionKind.SKIP,
                self._settings.cluster_name,
                RunReason.IMPROVEMENT_FAILED,
                f"{type(error).__name__}: {error}",
            )
            return _Planned(planner.bare_plan(searches=False), SearchBound(is_greedy=True))
        return _Planned(bare, SearchBound(steps, tuple(time.elapsed)))

    def _warn_of_daemons(self, planner: Planner) -> None:
        if self._warnings is not None:
            self._warnings.oversized_daemons(planner.context.oversized_daemons())

    def keep(
        self, draft: DecisionDraft, records: Iterable[ClaimRecord], plan: Plan, report: RunReport
    ) -> DecisionSummary:
        """Write the decision to the ledger before it is carried out; a failing ledger does not delay pods.

        One that launches nothing is written once its reasons are found.

        Returns:
            The summary of the decision.
        """
        report.decision_id = draft.id
        summary = _summary(records, plan)
        self._unwritten = ""
        if summary.parts and not self._ledger.try_write(draft, summary, report, is_interim=draft.is_unexplained):
            self._unwritten = draft.id
        return summary


def _summary(records: Iterable[ClaimRecord], plan: Plan) -> DecisionSummary:
    bindings = ((binding.pod, binding.node) for binding in plan.bindings)
    refused = ((unplaced.pod, unplaced.reason) for unplaced in plan.unschedulable)
    return of_provisioning([record.plan for record in records], bindings, refused, plan.waiting)


def _postponed(plan: Plan, late: Collection[str]) -> Plan:
    """Return the plan with the reason of pods that it had no time for."""
    if not late:
        return plan
    unschedulable = tuple(
        Unschedulable(unplaced.pod, PodReason.DEADLINE_REACHED, NO_TIME) if unplaced.pod in late else unplaced
        for unplaced in plan.unschedulable
    )
    return msgspec.structs.replace(plan, unschedulable=unschedulable)


def _with_reasons(plan: Plan, reasons: Mapping[str, Unschedulable]) -> Plan:
    """Return the plan with these reasons for pods that have none yet."""
    unschedulable = (
        unplaced if unplaced.reason else reasons.get(unplaced.pod, unplaced) for unplaced in plan.unschedulable
    )
    return msgspec.structs.replace(plan, unschedulable=tuple(sorted(unschedulable)))


# Records what would be launched while launches are only observed.


class ObservedPlans:
    """The recorded plans of one sandbox, which are not carried out; each state of the cluster is planned once."""

    def __init__(self, decision: PlanDecision, ledger: LedgerWriter) -> None:
        self._decision = decision
        self._ledger = ledger
        self._planned = ""
        self._last_recorded = ""

    def observe(self, snapshot: Snapshot, report: RunReport) -> None:
        """Plan as if observed NodePools were not, and record their launches once. Never raises PortError."""
        pools = observed_pools(snapshot)
        if pools:
            self.record(as_acting(snapshot), report, pools=pools)

    def record(self, snapshot: Snapshot, report: RunReport, *, pools: Collection[str] | None = None) -> None:
        """Plan for this snapshot, and record the plan.

        Args:
            snapshot: The input of the plan.
            report: Collects the decisions.
            pools: Only launches for these are recorded, and only plans with any; None: all launches, and a plan for each new
                snapshot.
        """
        digest = snapshot_digest(snapshot)
        if digest == self._planned:
            return
        self._planned = digest
        plan, draft = self._decision.observed(snapshot, report)
        all_claims = (*plan.claims, *static_claims(snapshot, plan.claims))
        claims = [claim for claim in all_claims if pools is None or claim.node_pool in pools]
        bindings = () if pools is not None else ((binding.pod, binding.node) for binding in plan.bindings)
        refused = () if pools is not None else ((binding.pod, binding.reason) for binding in plan.unschedulable)
        summary = observed(of_provisioning(claims, bindings, refused))
        is_new, self._last_recorded = summary.what != self._last_recorded, summary.what
        if pools is not None and not (claims and is_new):
            return
        report.decision_id = report.decision_id or draft.id
        for claim in claims if is_new else ():
            message = f"would launch {claim.instance_types[0]} for {len(claim.pods)} pods ({draft.id or 'no ledger'})"
            report.decide(DecisionKind.OBSERVE, claim.node_pool, ClaimReason.OBSERVED, message)
        if not self._ledger.try_write(draft, summary, report):
            self._planned = ""


# Launches the claims of a plan, and requests the next check of each.


TRY_AGAIN: Final = timedelta(seconds=2)
"""Delay after a launch whose answer is unknown, or not stored."""


class PlanLaunches:
    """Launches as many claims as time permits; `execute` gets the others."""

    def __init__(self, launches: ParallelLaunches, work: Queue, clock: Clock) -> None:
        self._launches = launches
        self._work = work
        self._clock = clock

    def hand_over(self, view: ClusterState, report: RunReport) -> None:
        """Hand claims that an earlier run stored and did not launch to `execute`; their pods are not planned again."""
        stored = [record.name for record in view.claims.values() if is_unlaunched(record)]
        self._work.send(work_on_claims(stored, self._clock.now(), at_most=LAUNCHES_A_MESSAGE))
        report.count("handedOver", len(stored))

    def launch(self, requested: Requested, view: ClusterState, report: RunReport, deadline: datetime) -> list[str]:
        """Launch as many as time permits; `execute` launches the others. Return the names of those that EC2 refused."""
        launched = self._launches.launch(requested, view.node_classes, view.snapshot.catalogue, report, deadline)
        self._request_runs(launched, Boundary(report))
        return launched.refused

    def _request_runs(self, results: LaunchResults, boundary: Boundary) -> None:
        """Send one message for all claims whose next step is at the same time, so that they are checked together."""
        now = self._clock.now()
        booting = [claim for claim in results.launched if claim.machine is not None]
        unclear = [*results.unclear, *(claim.name for claim in results.launched if claim.machine is None)]
        first = min((claim.phase_since for claim in booting), default=now)
        boot = max(timedelta(0), first + BOOT_AT_LEAST - now)
        for messages, delay in (
            (work_on_claims(results.left, now, at_most=LAUNCHES_A_MESSAGE), timedelta(0)),
            (work_on_claims(unclear, now, at_most=LAUNCHES_A_MESSAGE), TRY_AGAIN),
            (work_on_claims([claim.name for claim in booting], now), boot),
        ):
            if messages:
                boundary.attempt("work queue", partial(self._work.send, messages, delay=delay))


# `provision` with `mode: shadow`: records what would be launched for waiting pods.


class ShadowProvisioning:
    """Plans for each new state of the cluster in which pods wait, and runs again soon while they do."""

    def __init__(
        self, observer: Observer, plans: ObservedPlans, wake_ups: Queue, settings: Settings, clock: Clock
    ) -> None:
        self._observer = observer
        self._plans = plans
        self._wake_ups = wake_ups
        self._settings = settings
        self._clock = clock
        self._had_waited = False

    def run(self, report: RunReport, *, until: datetime, hops: int = 0) -> None:
        """Record one plan. Raises PortError.

        Args:
            report: Collects the decisions.
            until: A further run is requested only if it comes by then.
            hops: How many messages in a row led to this run.
        """
        waiting = [pod for pod in self._observer.unbound_pods() if is_pending(pod, requires_mark=False)]
        report.count("pendingPods", len(waiting))
        has_ended, self._had_waited = self._had_waited and not waiting, bool(waiting)
        if not waiting and not has_ended:
            return
        # Also recorded when the last pod stops waiting: otherwise its wait would seem up to a minute longer.
        self._plans.record(self._observer.observe().snapshot, report)
        delay = timedelta(seconds=self._settings.poll_seconds)
        if not waiting or self._clock.now() + delay > until:
            return
        if hops > HOPS_MAX:
            report.count(CHAINS_CUT)
            return
        self._wake_ups.send([wake_up("pods wait", until, hops)], delay=delay)


# Writes Kubernetes events on pods about why they get no node; few, and never the same twice.


PER_RUN: Final = 10
"""The most events of one run; the others are in the run's decisions and follow in later runs."""

REMEMBERED: Final = 10_000


class UnschedulableEvents:
    """Writes FailedScheduling events. The API server refuses a name that exists, so a repeated event costs one call."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._written: set[tuple[str, str]] = set()

    def publish(self, unschedulable: Iterable[Unschedulable], decision: str) -> None:
        """Write an event for each pod and reason that has none yet; `decision` is the id of the first decision with it."""
        events = [self._event(unplaced, decision) for unplaced in unschedulable]
        fresh = _in_turn(event for event in events if _key(event) not in self._written)[:PER_RUN]
        if len(self._written) > REMEMBERED:
            self._written.clear()
        written = write(self._kubernetes, in_time(fresh, self._clock))
        self._written.update(_key(event) for event in fresh[:written])

    def _event(self, unplaced: Unschedulable, decision: str) -> JsonObject:
        namespace, _, pod = unplaced.pod.partition("/")
        message = with_decision_id(f"{unplaced.reason}: {unplaced.message}", decision)
        identity = f"{unplaced.reason}/{unplaced.message}"
        return warning(about_pod(namespace, pod), "FailedScheduling", message, self._clock.now(), identity=identity)


def _in_turn(events: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the events, namespaces in turn: a namespace with very many pods delays no event of the others."""
    turns, counted = list[tuple[int, JsonObject]](), Counter[str]()
    for event in events:
        counted[event["metadata"]["namespace"]] += 1
        turns.append((counted[event["metadata"]["namespace"]], event))
    return [event for _, event in sorted(turns, key=lambda turn: turn[0])]


def _key(event: JsonObject) -> tuple[str, str]:
    return event["metadata"]["namespace"], event["metadata"]["name"]


# Publishes a plan: reasons on pods without a node, status of what asks for room, and nominated nodes for `disrupt`.


NOMINATED_FOR: Final = timedelta(seconds=20)
"""How long a node on which pods are expected is not a candidate for disruption (Karpenter)."""


class PlanPublisher:
    """Publishes the results of a plan."""

    def __init__(
        self,
        events: UnschedulableEvents,
        decisions: DecisionEvents,
        rooms: RoomStatus,
        nominations: Nominations,
        clock: Clock,
    ) -> None:
        self._events = events
        self._decisions = decisions
        self._published: DecisionSummary | None = None
        self._rooms = rooms
        self._nominations = nominations
        self._clock = clock

    def nominate(self, plan: Plan, view: ClusterState, report: RunReport) -> None:
        """Protect the nodes that the plan relies on from disruption until its pods are there."""
        for binding in plan.bindings:
            report.decide(DecisionKind.BIND, binding.pod, ClaimReason.FITS_EXISTING, f"expected on {binding.node}")
        self.expect_pods_on([binding.node for binding in plan.bindings], view.claims.values())
        self._rooms.write(view, plan, report)

    def decided(self, decision: str, summary: DecisionSummary) -> None:
        """Write events on pods and claims about the decision, except those already written for the last plan."""
        if summary.parts or summary != self._published:
            self._published = summary
            self._decisions.launches(decision, summary)

    def expect_pods_on(self, nodes: Iterable[str], records: Iterable[ClaimRecord]) -> None:
        """Protect these nodes, and launching ones, from disruption until their pods are there."""
        now = self._clock.now()
        names = {*nodes, *(record.name for record in records if awaits_pods(record, now))}
        if names:
            self._nominations.nominate(names, now=now, until=now + NOMINATED_FOR)

    def report(self, plan: Plan, requested: Requested, report: RunReport) -> None:
        """Report which pods get no node, and why: in the report and as events.

        Args:
            plan: The plan.
            requested: Its claims; some were refused for a limit or cap that other runs have used up.
            report: Receives the decisions.
        """
        # The text is equal at each attempt, so that an event is written only once.
        now = self._clock.now()
        report.outcomes += [refused_claim(r, ClaimReason.LIMIT_REACHED, "", now) for r in requested.refused]
        refused = (
            beyond(pod, requested.full.get(record.name) or record.plan.node_pool)
            for record in requested.refused
            for pod in record.plan.pods
        )
        unschedulable = (*plan.unschedulable, *refused)
        for unplaced in unschedulable:
            report.decide(DecisionKind.UNSCHEDULABLE, unplaced.pod, PodReason.of(unplaced.reason), unplaced.message)
        report.count("unschedulablePods", len(unschedulable))
        self._events.publish(unschedulable, report.decision_id)
