"""Decides when `disrupt` may skip an observation: the last one found nothing to do, and cheap checks show no change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from adapters.observation.cluster_reader import OptionalKind
from adapters.ports import Clock, Kubernetes
from adapters.store import Changes
from core.approval.proposal import Proposal
from core.brakes import EngagedBrakes
from core.disruption.budget_openings import PoolNodes, may_any_go, wakes_at
from core.disruption.resync import PERIOD_MAX, may_skip, next_known_moment, next_period
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord
from core.manifests.assemble import assemble
from core.manifests.wire.resources import CALENDARS, NODE_POOLS, PODS
from core.model.catalogue import Catalogue, OfferingKey
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot
from core.reasons.code import BUDGETED, TerminationReason
from installation.settings import Settings

# Decides whether a scheduled run may skip reading claims: there were none, and no change was recorded since.


READ_EVERY: Final = timedelta(minutes=5) - timedelta(seconds=15)
"""How long the absence of claims is trusted without a recorded change, with a margin for a schedule that starts early.

If a record is lost, nothing is urgent meanwhile: a new claim is not a candidate for disruption yet, `provision` sees its
waiting pods, and `reconcile` repairs a stalled launch.
"""


class AbsentClaims:
    """The absence of claims that one sandbox observed. A new sandbox reads the claims first."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._seen_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether there are still no claims. Takes one read of the table instead of nine for the claims. Raises PortError."""
        if self._seen_at is None or now - self._seen_at >= READ_EVERY:
            return False
        changed_at = self._changes.last()
        return changed_at is None or changed_at < self._seen_at

    def note(self, read_at: datetime, *, are_absent: bool) -> None:
        """Record whether a reading of all claims, begun at `read_at`, found none."""
        self._seen_at = read_at if are_absent else None


# Decides whether `disrupt` may skip its pass because no budget allows a disruption; checked before anything else is listed.


class BudgetCheck:
    """Evaluates the budgets of NodePools. It lists only these and Calendars, which may replace budgets.

    Attributes:
        are_closed: Whether the last check found that no pass was needed.
    """

    def __init__(self, kubernetes: Kubernetes, settings: Settings, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._settings = settings
        self._clock = clock
        self._calendars = OptionalKind(kubernetes, clock, CALENDARS, is_rare=True)
        self.are_closed = False

    def needs_run(self, records: Iterable[ClaimRecord]) -> bool:
        """Whether some budget lets a node go, or opens so soon that consolidateAfter must be counted from now on.

        The check is repeated at each run, so it detects changed NodePools and removed claims.

        Raises:
            PortError: If the NodePools cannot be listed.
        """
        self.note(self._node_pools(self._clock.now()), records)
        return not self.are_closed

    def note(self, pools: tuple[NodePool, ...], records: Iterable[ClaimRecord]) -> None:
        """Evaluate the NodePools that a pass has listed, so that the next run knows whether to evaluate budgets first."""
        self.are_closed = not self._is_run_needed(pools, records)

    def _is_run_needed(self, pools: tuple[NodePool, ...], records: Iterable[ClaimRecord]) -> bool:
        now, nodes, reasons = self._clock.now(), _counted(records), set[str](BUDGETED)
        if self._settings.options().feature_gates.node_repair:
            reasons.add(TerminationReason.UNHEALTHY)
        if may_any_go(pools, nodes, reasons, now):
            return True
        wakes = wakes_at(pools, nodes, reasons, now)
        return wakes is not None and wakes <= now

    def _node_pools(self, now: datetime) -> tuple[NodePool, ...]:
        snapshot, _ = assemble(
            {NODE_POOLS: self._kubernetes.list(NODE_POOLS).items, CALENDARS: self._calendars.all([])},
            now=now,
            catalogue=Catalogue(),
            options=self._settings.options(),
            cluster=self._settings.cluster_name,
            is_live=True,
        )
        return snapshot.node_pools


def _counted(records: Iterable[ClaimRecord]) -> dict[str, PoolNodes]:
    """Return pool → its nodes: an upper bound on all and a lower bound on leaving ones, since readiness is unknown here."""
    by_pool: dict[str, PoolNodes] = {}
    for record in records:
        if record.phase is ClaimPhase.INITIALIZED:
            before = by_pool.get(record.plan.node_pool, PoolNodes(0, 0))
            is_going = record.is_disrupting and (record.deletion is None or record.deletion.terminated_at is None)
            by_pool[record.plan.node_pool] = PoolNodes(before.present + 1, before.going + is_going)
    return by_pool


PUNCTUALITY: Final = timedelta(seconds=15)
"""A schedule starts a run some seconds early or late; a period that ends within this time is over."""

COUNTS_EVERY: Final = timedelta(minutes=3)
"""How often pods are counted in a long resync period; in a short one each run counts them, since they change in bursts."""

JUST_EARLY: Final = timedelta(seconds=3)
"""A run that starts this shortly before the end of a period waits for it; otherwise the work would wait for the next run."""


class _Period(msgspec.Struct, frozen=True):
    """The digest of the state at the last observation, when that began, how long it is valid, and until when."""

    state: bytes
    looked_at: datetime
    length: timedelta
    until: datetime


class DisruptionResync:
    """The resync period of one sandbox. A new sandbox has none, so it observes."""

    def __init__(
        self, kubernetes: Kubernetes, changes: Changes, clock: Clock, pause: Callable[[timedelta], None]
    ) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._pause = pause
        self._changes = changes
        self._period: _Period | None = None
        self._pods: tuple[datetime, int] | None = None

    def is_valid(self, state: bytes, now: datetime) -> bool:
        """Whether the last observation is still valid. Takes a read of the table, and often a request for the number of pods.

        Raises:
            PortError: If either fails.
        """
        period = self._period
        # Read in any case: observations date pod events, so each must be equally late after the schedule.
        has_changed = self._has_changed(period, now)
        if period is None or period.state != state or has_changed:
            self._period = None
            return False
        if timedelta(0) < period.until - self._clock.now() <= JUST_EARLY:
            self._pause(period.until - self._clock.now())
        return self._clock.now() < period.until

    def begin(self, state: bytes, looked_at: datetime, snapshot: Snapshot) -> None:
        """Begin a period after an observation that began then, of a state with this digest, and found nothing to do."""
        if not may_skip(snapshot):
            self._period = None
            return
        length = next_period(self._period.length if self._period else None)
        moment = next_known_moment(snapshot)
        until = looked_at + length - PUNCTUALITY
        self._period = _Period(state, looked_at, length, min(until, moment) if moment else until)

    def end(self) -> None:
        """Observe at the next run, whatever the state."""
        self._period = None

    def _has_changed(self, period: _Period | None, now: datetime) -> bool:
        changed_at, pods = self._changes.last(), self._pods
        has_changed = period is not None and changed_at is not None and changed_at >= period.looked_at
        is_long = period is not None and period.length * 2 >= PERIOD_MAX
        if is_long and pods is not None and now - pods[0] < COUNTS_EVERY - PUNCTUALITY:
            return has_changed
        counted = self._kubernetes.count(PODS)
        self._pods = None if counted is None else (now, counted)
        return has_changed or counted is None or (pods is not None and pods[1] != counted)


class DisruptionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster and the market without a call to the API server.

    Attributes:
        market: When the market was last read.
        unavailable: Offerings that refused recently; one that is available again may be cheaper for a node.
        proposals: Commands that wait for approval, with the verdicts of people.
    """

    claims: tuple[ClaimRecord, ...]
    commands: tuple[CommandRecord, ...]
    brakes: EngagedBrakes
    market: tuple[datetime, ...]
    unavailable: frozenset[OfferingKey]
    proposals: tuple[Proposal, ...] = ()

    def digest(self) -> bytes:
        """Return a digest of all of it."""
        versions = [[(record.name, record.version) for record in self.claims]]
        versions += [[(record.id, record.version) for record in self.commands]]
        proposals = [(record.id, record.version, record.verdict) for record in self.proposals]
        state = (versions, proposals, self.brakes, self.market, sorted(self.unavailable))
        return blake2b(msgspec.json.encode(state), digest_size=16).digest()
