"""Runs the rounds of `reconcile`, which repair the effects of lost events and incomplete runs.

The system converges by these rounds alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from hashlib import blake2b
from typing import Final

import msgspec

from adapters.brakes import Brakes, HeldBrakes
from adapters.observation.observer import ClusterState, Observer
from adapters.observation.stores import OwnRows, Stores
from adapters.ports import Clock, CloudProvider, Instance, JsonObject, PortError
from adapters.run_report import RunReport
from adapters.store import SweepLog, SweepState, UnreadableRows
from core import labels
from core.brakes import Brake, BrakeKind
from core.catalogue.reservations import selects_reservations
from core.disruption.budget_openings import closed_for_long
from core.disruption.expiration import expired
from core.disruption.move_history import Rollout
from core.lifecycle.launching import is_unnamed
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from core.model.snapshot import Snapshot
from core.node_facts import doubted_nodes
from core.pool_admission import observed_pools
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import (
    BUDGETS_CLOSED_FOR_A_WEEK,
    CHANGED_NODE_CLASSES,
    FAILED_SWEEPS,
    SKIPPED_SWEEPS,
    STALE_SWEEPS,
    UNREADABLE_ROWS,
)
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.events import ObjectWarnings
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen, Sweep

# Engages a brake for each observed NodePool: functions that do not list NodePools read the brake from the table.


class ObservedPoolBrakes:
    """The brakes of observed NodePools."""

    def __init__(self, brakes: Brakes, own_brakes: HeldBrakes, clock: Clock) -> None:
        self._brakes = brakes
        self._own_brakes = own_brakes
        self._clock = clock

    def follow(self, snapshot: Snapshot, report: RunReport) -> None:
        """Engage and release brakes according to the NodePools' annotations, effective at the next reading.

        Raises:
            PortError: If the table cannot be written; NodePools whose brake is missing must not be acted on then.
        """
        wanted = observed_pools(snapshot)
        engaged = self._brakes.engaged().brakes
        observed = {brake.node_pool for brake in engaged if brake.kind is BrakeKind.OBSERVED}
        for pool in sorted(wanted - observed):
            message = f"NodePool {pool} is only observed: its annotation {labels.MODE} says so"
            self._own_brakes.hold(Brake(BrakeKind.OBSERVED, message, node_pool=pool), self._clock.now())
            report.decide(DecisionKind.BRAKE, pool, BrakeKind.OBSERVED, message)
        for pool in sorted(observed - wanted):
            self._own_brakes.release(BrakeKind.OBSERVED, pool)
            report.decide(DecisionKind.RELEASE, pool, BrakeKind.OBSERVED, "the annotation is gone")
        if wanted != observed:
            self._brakes.forget_reading()


# Decides when `reconcile` may skip pods, or the whole observation, because nothing that it could repair has changed.


WITHOUT_PODS_EVERY: Final = timedelta(minutes=4)
"""Longest validity of an observation of nodes, NodePools and EC2NodeClasses."""

WHOLE_EVERY: Final = timedelta(hours=1)
"""Longest validity of a full observation: only pod events and unreadable objects need it, and other runs observe those."""

PUNCTUALITY: Final = timedelta(seconds=30)
"""Tolerance for rounds that come some seconds early or late."""


class ObservationScope(Enum):
    """How much of the cluster a round needs to observe."""

    NONE = "none"
    WITHOUT_PODS = "withoutPods"
    WHOLE = "whole"


class ReconciliationResync:
    """The resync period of one sandbox. A new sandbox has none, so it observes everything."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._observed_at: datetime | None = None
        self._whole_at: datetime | None = None
        self._recorded_at: datetime | None = None
        self._digest = self._brakes = b""
        self._follows_reservations = False
        self.rollouts: Mapping[str, Rollout] | None = None
        """The rows that `due` read last, for the sweeps of the round; None if it could not."""

    def due(self, instances: Sequence[Instance], now: datetime) -> tuple[ObservationScope, OwnRows | None]:
        """Return what this round has to observe, according to the table, EC2 and the NodePools, and the rows that were read.

        Raises:
            PortError: If the table does not answer, or the API server.
        """
        observed_at, whole_at = self._observed_at, self._whole_at
        # Further inputs of the status: engaged brakes, results of launches and rollouts, and EC2's denials.
        stores = self._stores
        self.rollouts = None
        self.rollouts = stores.moves.readable(now).rollouts
        reported = (stores.brakes.engaged(), stores.breakers.breakers(), self.rollouts)
        brakes = msgspec.json.encode((*reported, stores.denials.all()))
        is_brake_changed, self._brakes = brakes != self._brakes, brakes
        if observed_at is None or whole_at is None or is_brake_changed or now - whole_at >= WHOLE_EVERY:
            return ObservationScope.WHOLE, None
        rows = self._stores.own_rows()
        changed_at = self._stores.changes.last()
        has_changed = changed_at is not None and changed_at != self._recorded_at and changed_at >= observed_at
        if has_changed or rows.commands or not is_in_order(rows.claims, instances):
            return ObservationScope.WHOLE, rows
        # Without claims, `disrupt` does not query the API server, and the user of a first NodePool waits for its status.
        # Capacity reservations change and end without an event.
        if not rows.claims or self._follows_reservations or now - observed_at >= WITHOUT_PODS_EVERY - PUNCTUALITY:
            return ObservationScope.WITHOUT_PODS, rows
        return ObservationScope.NONE, rows

    def suffices(self, view: ClusterState) -> bool:
        """Whether an observation without pods is enough because nothing in it is new or due."""
        return _cluster_digest(view) == self._digest and not expired(view.snapshot)

    def seen(self, view: ClusterState, observed_at: datetime, now: datetime, *, is_whole: bool) -> None:
        """Begin a resync period after this observation, which began at `observed_at`.

        `disrupt` is notified of what is new, and observes at its next run.

        A notification may get lost: `disrupt` then observes some time later, so this round continues.
        """
        digest = _cluster_digest(view)
        if digest != self._digest:
            self.record_change(now)
        self._digest, self._observed_at = digest, observed_at
        self._follows_reservations = any(map(selects_reservations, view.node_classes.values()))
        if is_whole:
            self._whole_at = observed_at

    def record_change(self, now: datetime) -> None:
        """Record that the cluster has changed, and that this sandbox recorded it."""
        self._recorded_at = now
        with suppress(PortError):
            self._stores.changes.record(now)

    def end(self) -> None:
        """Observe everything in the next round: something failed, or could not be read."""
        self._observed_at = None


def is_in_order(claims: Collection[ClaimRecord], instances: Iterable[Instance]) -> bool:
    """Whether every claim has a running instance of its own, and every instance belongs to a claim."""
    if not all(claim.is_settled and claim.reserved and not claim.is_disrupting for claim in claims):
        return False
    ours = [instance for instance in instances if labels.CLAIM in instance.tags]
    if any(is_unnamed(instance.tags) for instance in ours):
        return False
    running = sorted(instance.instance_id for instance in ours if instance.is_alive)
    return len(running) == len(ours) and running == sorted(claim.instance_id for claim in claims)


def _cluster_digest(view: ClusterState) -> bytes:
    """Return a digest of the parts of an observation without pods that users or kubelets may change."""
    nodes = [
        (node.name, node.uid, node.provider_id, node.is_ready, node.deleted_at, node.labels, node.taints)
        for node in view.snapshot.nodes
    ]
    written = [versions(view.node_pools.values()), versions(view.node_classes.values())]
    return blake2b(msgspec.json.encode((nodes, written)), digest_size=16).digest()


def versions(manifests: Iterable[JsonObject]) -> tuple[tuple[str, ...], ...]:
    """Return name, UID and version of each of these objects, in order."""
    metadatas = ((manifest.get("metadata") or {}) for manifest in manifests)
    return tuple(
        sorted(
            tuple(str(metadata.get(key, "")) for key in ("name", "uid", "resourceVersion")) for metadata in metadatas
        )
    )


# Orders the sweeps of a round, so that rounds that run out of time do not delay any sweep for long.


ROUND: Final = timedelta(minutes=2)
"""How often `reconcile` runs (`installation.wiring`)."""

OTHERS_FIRST: Final = 4
"""Non-urgent sweeps come first in one of this many rounds."""


def in_order(sweeps: Sequence[Sweep], now: datetime) -> tuple[Sweep, ...]:
    """Return urgent ones first except in every fourth round; the leading group begins with another sweep each time.

    The order depends only on the time: a killed round could not have stored its progress.
    """
    number = int(now.timestamp() // ROUND.total_seconds())
    of_others = number // OTHERS_FIRST
    others = _rotated([sweep for sweep in sweeps if not sweep.is_urgent], of_others)
    urgent = _rotated([sweep for sweep in sweeps if sweep.is_urgent], number - of_others)
    return (*others, *urgent) if number % OTHERS_FIRST == 0 else (*urgent, *others)


def _rotated(sweeps: Sequence[Sweep], by: int) -> tuple[Sweep, ...]:
    start = by % len(sweeps) if sweeps else 0
    return (*sweeps[start:], *sweeps[:start])


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
    warnings: ObjectWarnings
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
        if view is not None:
            aside = [problem.set_aside for problem in view.problems if problem.set_aside is not None]
            self.warnings.set_aside(aside, report)
            of_nodes = [
                problem for problem in view.problems if problem.resource == resources.NODES and problem.is_warning
            ]
            doubts = [problem for problem in of_nodes if problem.set_aside is None]
            warned = {(problem.subject.partition(" ")[2], problem.problem) for problem in doubts}
            warned.update((doubt.node, doubt.message) for doubt in doubted_nodes(view.snapshot))
            self.warnings.doubted_nodes(sorted(warned))

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
        rollouts = self.resync.rollouts if instances else None  # without instances, the table was not asked
        return Seen(instances[0] if instances else None, views[0] if views else None, rollouts)

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
        states: dict[str, SweepState] = {}
        boundary.attempt("sweep states", lambda: states.update(self.log.read()))
        now = self.clock.now()
        return {sweep.name: states.get(sweep.name, SweepState(now - sweep.every)) for sweep in self.sweeps}

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
        if problem.set_aside is not None:
            continue
        report.decide(
            DecisionKind.SKIP,
            problem.subject,
            RunReason.CANNOT_BE_READ if not problem.is_warning else RunReason.READ_WITH_RESERVATION,
            str(problem),
        )


def _millidollars(records: Iterable[ClaimRecord]) -> int:
    """Return the hourly cost of the claims' instances at launch prices; metrics are whole numbers."""
    return sum(record.machine.offering.price for record in records if record.machine) // 10**6
