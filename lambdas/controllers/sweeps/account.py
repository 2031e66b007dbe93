"""Sweeps over the account and the table: windows, pod events, launch templates, statuses, instance profiles, usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from adapters.observation.observer import Observer
from adapters.observation.stores import Stores
from adapters.ports import CloudProvider, Kubernetes, NotFoundError, WindowSchedules
from adapters.store import ClaimStore
from core.disruption.budgets import all_schedules
from core.lifecycle.metering import counted_by_caps, is_recounted, readings_due, settled
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.resources import EC2_NODE_CLASSES
from core.model.node_pool import NodePool
from core.model.values.quantity import HOURLY
from core.pools import PoolTypes, is_priced, pool_types
from core.reasons.runs import RunReason
from core.spending import PeriodState, period_states
from installation.metric_names import CAPS_NEARLY_SPENT
from lambdas.controllers.disruption_state import write_pod_events
from lambdas.controllers.events import about_object, warning, write
from lambdas.controllers.run_requests import mismatches, recount
from lambdas.controllers.status import ObjectStatus
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

# Keeps EventBridge schedules in line with the NodePools' budget windows and with calendars.


class BudgetWindowSchedules(Sweep):
    """Replaces the schedules if the NodePools need other ones than this sandbox wrote last."""

    name = "windows"

    def __init__(self, windows: WindowSchedules) -> None:
        self._windows = windows
        self._written: Mapping[str, str] | None = None

    def run(self, round_: ReconcileRound) -> None:
        """Write the schedules if they differ."""
        wanted = all_schedules(round_.view.snapshot)
        if wanted != self._written:
            self._windows.replace(wanted)
            self._written = dict(wanted)


# Reads the meters of caps, and tells about caps that are nearly spent.


class CapPeriods(Sweep):
    """Stores each meter's reading at the start of a day or month, and warns on the Calendar of a cap, once an hour."""

    name = "capPeriods"

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._warned: dict[tuple[str, str, int], datetime] = {}

    def run(self, round_: ReconcileRound) -> None:
        """Read the meters that are due, then tell. Claims are read after the meters: what ends in between counts at once."""
        view, now = round_.view, round_.clock.now()
        calendars = view.snapshot.calendars
        if not any(cap.periods for calendar in calendars for cap in calendar.caps):
            return
        meters = self._claims.meters()
        if readings_due(calendars, meters, (), now) and not view.unreadable_claims:
            for due in readings_due(calendars, meters, self._claims.all(), now):
                self._claims.read_meter(*due)
        high = [state for state in period_states(view.snapshot) if state.warned_at]
        round_.report.count(CAPS_NEARLY_SPENT, len(high))
        round_.each(high, lambda state: self._warn(state, now), subject=lambda state: f"cap {state.cap.name}")

    def _warn(self, state: PeriodState, now: datetime) -> None:
        subject = (state.cap.name, state.period, state.warned_at)
        if now - self._warned.get(subject, _LONG_AGO) < WARNED_EVERY:
            return
        calendar, _, name = state.cap.name.partition("/")
        message = f"cap {name} is at {state.percent} % by its forecast: {state.sentence()}"
        about = about_object(f"Calendar/{calendar}")
        identity = f"{state.cap.name}/{state.period}/{state.warned_at}"
        write(self._kubernetes, [warning(about, RunReason.CAP_FORECAST, message, now, identity=identity)])
        self._warned[subject] = now


WARNED_EVERY: Final = timedelta(hours=1)
"""How often the same warning is written."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


# Records on which nodes pods arrived or left since the last observation: consolidateAfter counts from then.


class PodEvents(Sweep):
    """Stores pod events."""

    name = "podEvents"

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def run(self, round_: ReconcileRound) -> None:
        """Store the claims that differ from the observation."""
        write_pod_events(self._stores, round_.view)


# Deletes launch templates that have long been unused: an account may have 5,000.


class StaleLaunchTemplates(Sweep):
    """Deletes old templates a few times a day: they are kept for weeks, but at most a thousand."""

    name = "templates"
    every = timedelta(hours=4)

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    def run(self, round_: ReconcileRound) -> None:
        """Delete the old ones."""
        round_.report.count("prunedTemplates", self._cloud.prune_templates())


# Counts nodes in the groups, caps and dollars that their NodePools got after the launch, and at today's prices.


class CapMembers(Sweep):
    """Lets limits that NodePools share, and caps, count the nodes from before them, and new prices, some in each round.

    Two runs at once plan with the same nodes, and only counters keep their launches within a cap together.
    """

    name = "capMembers"

    def __init__(self, claims: ClaimStore, observer: Observer) -> None:
        self._claims = claims
        self._observer = observer

    def run(self, round_: ReconcileRound) -> None:
        """Store the claims that a group or cap does not count yet, or not as it does by now."""
        pools = {pool.name: pool for pool in round_.view.snapshot.node_pools if is_recounted(pool)}
        if not any(record.plan.node_pool in pools for record in round_.view.claims.values()):
            return
        types = self._types(round_, pools.values())

        def counted(record: ClaimRecord | None) -> ClaimRecord | None:
            pool = pools.get(record.plan.node_pool) if record is not None else None
            if record is None or pool is None or record.machine is None:
                return record
            price = types.counted_price(pool.name, record.machine.labels) if types is not None else 0
            return counted_by_caps(record, pool, price, round_.clock.now())

        def count(name: str) -> None:
            record = self._claims.get(name)  # other sweeps of the round have changed it
            after = counted(record)
            if record is not None and after is not None and after is not record:
                self._claims.change(record, after, settled(record, after))

        seen = ((record, counted(record)) for record in round_.view.claims.values())
        due = [(before, after) for before, after in seen if after is not None and after is not before]
        due.sort(key=lambda change: (-_rise(*change), change[0].name))
        round_.each([record.name for record, _ in due[:JOINING_MAX]], count, subject=str)

    def _types(self, round_: ReconcileRound, pools: Iterable[NodePool]) -> PoolTypes | None:
        """Return the NodePools' types at today's prices, None where no limit counts dollars or no price was read yet."""
        if not any(map(is_priced, pools)):
            return None
        view, now = round_.view, round_.clock.now()
        try:
            catalogue = self._observer.open_market.catalogue(view.node_classes.values(), now)
        except NotFoundError:
            return None
        return pool_types(msgspec.structs.replace(view.snapshot, catalogue=catalogue))


def _rise(before: ClaimRecord, after: ClaimRecord) -> int:
    """Return the dollars an hour by which counters are behind: more may be launched for these, and not for what has fallen."""
    held = {counter: before.reserved_in(counter) for counter in before.counters}
    now_held = {counter: after.reserved_in(counter) for counter in after.counters}
    return sum(holds.get(HOURLY, 0) - held.get(counter, {}).get(HOURLY, 0) for counter, holds in now_held.items())


JOINING_MAX: Final = 250
"""The most claims that a round lets caps count: each is a transaction, and a round has other work."""


# Updates the status of NodePools and EC2NodeClasses.


class Statuses(Sweep):
    """Brings the status of every class, then of every pool, up to date."""

    name = "status"

    def __init__(self, status: ObjectStatus) -> None:
        self._status = status

    def run(self, round_: ReconcileRound) -> None:
        """Write what differs, each object independently."""
        self._status.write(round_.view, round_.report, round_.attempt)


class UnusedInstanceProfiles(Sweep):
    """Karpenter deletes a profile with its EC2NodeClass, under a finalizer; our classes have none.

    See docs/engineering/handbook/operations.md.
    """

    name = "instanceProfiles"
    every = timedelta(hours=12)

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    def run(self, round_: ReconcileRound) -> None:
        """Delete them, unless an EC2NodeClass could not be read: its profile would count as unused."""
        unread = [
            problem for problem in round_.view.problems if problem.resource is EC2_NODE_CLASSES and problem.position < 0
        ]
        if unread:
            round_.leave(unread[0].subject, RunReason.CANNOT_BE_READ, "unused instance profiles stay until it can be")
            return
        round_.report.count("prunedProfiles", self._cloud.prune_profiles(list(round_.view.node_classes.values())))


# Recounts the usage of NodePools' limits and budgets.


class Usage(Sweep):
    """Corrects counters that differ from the sums over claims."""

    name = "usage"

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def run(self, round_: ReconcileRound) -> None:
        """Compare counters with claims, and correct those that differ, unless a claim cannot be read."""
        if round_.view.unreadable_claims:
            return
        wrong = mismatches(self._claims, round_.view.claims.values())
        round_.each(
            wrong,
            lambda mismatch: recount(self._claims, mismatch, round_.report),
            subject=lambda mismatch: f"NodePool {mismatch[0].node_pool}",
        )
