"""Runs the rounds of `reconcile`, which repair the effects of lost events and incomplete runs.

The system converges by these rounds alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.ports import Clock, CloudProvider, Instance
from adapters.run_report import RunReport
from adapters.store import SweepLog, SweepState, UnreadableRows
from core.disruption.budgets.closed_budgets import closed_for_long
from core.lifecycle.records import ClaimRecord
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from installation.metric_names import (
    BUDGETS_CLOSED_FOR_A_WEEK,
    CHANGED_NODE_CLASSES,
    FAILED_SWEEPS,
    SKIPPED_SWEEPS,
    STALE_SWEEPS,
    UNREADABLE_ROWS,
)
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.maintenance.observed_pools import ObservedPoolBrakes
from lambdas.controllers.resync.reconciliation_resync import ObservationScope, ReconciliationResync
from lambdas.controllers.sweeps.order import in_order
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen, Sweep

STALE_AFTER: Final = timedelta(minutes=30)
"""How long a sweep may go without being clean before it counts as stale. Clean times are stored every `WRITES_EVERY` only."""

WRITES_EVERY: Final = timedelta(minutes=5)
"""How old the clean times in the table may be; each round in which a sweep fails, or is clean again, is stored at once."""


@dataclass(kw_only=True)
class Reconciliation:
    """Controller of `reconcile`: one observation, then independent sweeps, each in its own boundary."""

    cloud: CloudProvider
    observer: Observer
    resync: ReconciliationResync
    observed_pools: ObservedPoolBrakes
    sweeps: Sequence[Sweep]
    log: SweepLog
    unreadable: UnreadableRows
    clock: Clock

    def run(self, report: RunReport, *, deadline: datetime) -> None:
        """Run one round. No work begins close to `deadline`; sweeps left out are reported, and come first in a later round.

        A round that skips its observation reports unreadable rows too: an alarm needs them in several rounds.
        """
        self._run(report, deadline)
        for row in self.unreadable.all():
            report.count(UNREADABLE_ROWS)
            report.decide(DecisionKind.SKIP, row.name, RunReason.CANNOT_BE_READ, row.problem)

    def _run(self, report: RunReport, deadline: datetime) -> None:
        boundary = Boundary(report)
        seen = self._observe(boundary)
        if seen is None:
            report.count("skippedRuns")
            return
        view = seen.view
        if view is not None and not boundary.attempt(
            "observed NodePools", lambda: self.observed_pools.follow(view.snapshot, report)
        ):
            self.resync.end()
            return  # otherwise, a sweep could terminate a node that is only observed
        stored = self._stored(boundary)
        states = {sweep.name: self._swept(sweep, seen, stored, report, deadline) for sweep in self._in_order()}
        now = self.clock.now()
        stale = [sweep for sweep in self.sweeps if now - states[sweep.name].clean_at - sweep.every >= STALE_AFTER]
        report.count(STALE_SWEEPS, len(stale))
        if _worth_writing(stored, states):
            boundary.attempt("sweep states", lambda: self.log.write(states))
        if report.counts.get(
            CHANGED_NODE_CLASSES
        ):  # `disrupt` decides about drift and need not wait for this round's observation
            self.resync.record_change(now)
        if boundary.failed or report.decisions or any(state.failures for state in states.values()):
            self.resync.end()
        _report(seen, report)

    def _in_order(self) -> tuple[Sweep, ...]:
        return in_order(self.sweeps, self.clock.now())

    def _observe(self, boundary: Boundary) -> Seen | None:
        """List instances first, then claims; None for a round that skips its observation.

        If a part cannot be observed, only the sweeps that need it fail.
        """
        instances: list[tuple[Instance, ...]] = []
        views: list[ClusterState | None] = []
        boundary.attempt("instances", lambda: instances.append(self.cloud.instances()))
        boundary.attempt("observation", lambda: views.append(self._view(instances[0] if instances else None)))
        if views == [None]:
            return None
        return Seen(instances[0] if instances else None, views[0] if views else None)

    def _view(self, instances: tuple[Instance, ...] | None) -> ClusterState | None:
        """Observe the cluster, without pods if that is enough; None if the last observation is still valid."""
        looked_at = self.clock.now()
        due, rows = (ObservationScope.WHOLE, None) if instances is None else self.resync.due(instances, looked_at)
        if due is ObservationScope.NONE:
            return None
        if due is ObservationScope.WITHOUT_PODS:
            view = self.observer.observe_without_pods(rows)
            if self.resync.suffices(view):
                self.resync.seen(view, looked_at, self.clock.now(), is_whole=False)
                return view
            looked_at = self.clock.now()
        view = self.observer.observe(with_market=False)
        self.resync.seen(view, looked_at, self.clock.now(), is_whole=True)
        return view

    def _stored(self, boundary: Boundary) -> dict[str, SweepState]:
        """Return the stored states; a new sweep is due now, and all are if the table does not answer."""
        found: dict[str, SweepState] = {}
        boundary.attempt("sweep states", lambda: found.update(self.log.read()))
        now = self.clock.now()
        return {sweep.name: found.get(sweep.name, SweepState(now - sweep.every)) for sweep in self.sweeps}

    def _swept(
        self, sweep: Sweep, seen: Seen, stored: Mapping[str, SweepState], report: RunReport, deadline: datetime
    ) -> SweepState:
        """Return the sweep's state after its turn."""
        before, now = stored[sweep.name], self.clock.now()
        if not before.failures and now < before.clean_at + sweep.every:
            return before
        round_ = ReconcileRound(seen, report, deadline, self.clock)
        if round_.has_time():
            round_.attempt(f"sweep {sweep.name}", lambda: sweep.run(round_))
        else:
            report.count(SKIPPED_SWEEPS)
            round_.leave(
                f"sweep {sweep.name}", RunReason.TIME_SHORT, f"skipped, last clean at {before.clean_at:%H:%M:%S}"
            )
        if not round_.failed:
            return SweepState(self.clock.now())
        report.count(FAILED_SWEEPS)
        return SweepState(before.clean_at, before.failures + 1, ", ".join(round_.failed)[:300])


def _worth_writing(stored: Mapping[str, SweepState], states: Mapping[str, SweepState]) -> bool:
    return any(
        state.failures != stored[name].failures or state.clean_at - stored[name].clean_at >= WRITES_EVERY
        for name, state in states.items()
    )


def _report(seen: Seen, report: RunReport) -> None:
    if seen.instances is not None:
        report.count("instances", len(seen.instances))
    if seen.view is None:
        return
    report.count("claims", len(seen.view.claims))
    report.count("fleetMillidollarsPerHour", _millidollars(seen.view.claims.values()))
    snapshot = seen.view.snapshot
    report.count(BUDGETS_CLOSED_FOR_A_WEEK, len(closed_for_long(snapshot.node_pools, snapshot.now)))
    for problem in seen.view.problems:
        report.decide(
            DecisionKind.SKIP,
            problem.subject,
            RunReason.CANNOT_BE_READ if not problem.is_warning else RunReason.READ_WITH_RESERVATION,
            str(problem),
        )


def _millidollars(records: Iterable[ClaimRecord]) -> int:
    """Return the hourly cost of the claims' instances at launch prices; metrics are whole numbers."""
    return sum(record.machine.offering.price for record in records if record.machine) // 10**6
