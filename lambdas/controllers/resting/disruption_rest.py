"""When `disrupt` may do without a look: nothing was to be done at the last one, and what is cheap to ask is as it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core.brakes.brake import EngagedBrakes
from core.disruption.resting import LONGEST_REST, may_rest, next_known_moment, next_rest
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.manifests.wire.api_resources import PODS
from core.model.catalogue import OfferingKey
from core.model.snapshot import Snapshot
from lambdas.ports import Clock, Kubernetes
from lambdas.store import Changes

PUNCTUALITY: Final = timedelta(seconds=15)
"""A schedule wakes us some seconds early or late; a rest that ends so soon is over."""

COUNTS_EVERY: Final = timedelta(minutes=3)
"""How often pods are counted in a long rest; in a short one they are at each run, as they move in bursts."""


JUST_EARLY: Final = timedelta(seconds=3)
"""A run that comes so little before the end of a rest waits for it: else what is due then would wait for the next run."""


class _Rest(msgspec.Struct, frozen=True):
    """What was known at the last look, when that began, and until when it is good."""

    sign: bytes
    looked_at: datetime
    lasting: timedelta
    until: datetime


class DisruptionRest:
    """One sandbox's rest. A new sandbox has none, so it looks."""

    def __init__(
        self, kubernetes: Kubernetes, changes: Changes, clock: Clock, pause: Callable[[timedelta], None]
    ) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._pause = pause
        self._changes = changes
        self._rest: _Rest | None = None
        self._pods: tuple[datetime, int] | None = None

    def holds(self, sign: bytes, now: datetime) -> bool:
        """Whether the last look is good still. Costs a read of the table, and often a request for the number of pods.

        Raises:
            PortError: If either fails.
        """
        rest = self._rest
        # Asked in any case: pods' events are dated by looks, so a look comes as long after the schedule as the one before it.
        has_changed = self._has_changed(rest, now)
        if rest is None or rest.sign != sign or has_changed:
            self._rest = None
            return False
        if timedelta(0) < rest.until - self._clock.now() <= JUST_EARLY:
            self._pause(rest.until - self._clock.now())
        return self._clock.now() < rest.until

    def begin(self, sign: bytes, looked_at: datetime, snapshot: Snapshot) -> None:
        """Rest after a look that was begun then, with this sign, and came to nothing to do."""
        if not may_rest(snapshot):
            self._rest = None
            return
        lasting = next_rest(self._rest.lasting if self._rest else None)
        moment = next_known_moment(snapshot)
        until = looked_at + lasting - PUNCTUALITY
        self._rest = _Rest(sign, looked_at, lasting, min(until, moment) if moment else until)

    def end(self) -> None:
        """Look at the next run, whatever the signs."""
        self._rest = None

    def _has_changed(self, rest: _Rest | None, now: datetime) -> bool:
        told, pods = self._changes.last(), self._pods
        is_told = rest is not None and told is not None and told >= rest.looked_at
        is_long = rest is not None and rest.lasting * 2 >= LONGEST_REST
        if is_long and pods is not None and now - pods[0] < COUNTS_EVERY - PUNCTUALITY:
            return is_told
        counted = self._kubernetes.count(PODS)
        self._pods = None if counted is None else (now, counted)
        return is_told or counted is None or (pods is not None and pods[1] != counted)


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster and the market without asking the API server.

    Attributes:
        market: When the market was read that is bought from now.
        unavailable: Offerings that refused lately; one that does no more may be a cheaper place for a node.
    """

    claims: tuple[ClaimRecord, ...]
    commands: tuple[CommandRecord, ...]
    brakes: EngagedBrakes
    market: tuple[datetime, ...]
    unavailable: frozenset[OfferingKey]

    def digest(self) -> bytes:
        """Stands for all of it."""
        versions = [[(record.name, record.version) for record in self.claims]]
        versions += [[(record.id, record.version) for record in self.commands]]
        known = (versions, self.brakes, self.market, sorted(self.unavailable))
        return blake2b(msgspec.json.encode(known), digest_size=16).digest()
