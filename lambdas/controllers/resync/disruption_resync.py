"""Decides when `disrupt` may skip an observation: the last one found nothing to do, and cheap checks show no change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from adapters.ports import Clock, Kubernetes
from adapters.store import Changes
from core.approval.proposal import Proposal
from core.brakes.brake import EngagedBrakes
from core.disruption.resync import PERIOD_MAX, may_skip, next_known_moment, next_period
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.manifests.wire.api_resources import PODS
from core.model.catalogue import OfferingKey
from core.model.snapshot import Snapshot

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
        proposals: Commands that wait for approval; a verdict changes their version.
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
        versions += [[(record.id, record.version) for record in self.proposals]]
        known = (versions, self.brakes, self.market, sorted(self.unavailable))
        return blake2b(msgspec.json.encode(known), digest_size=16).digest()
