"""Ports of the brakes for controllers. `core.brakes` says what each brake stops.

brake = brakes.engaged().stopping(Action.EXPIRE, pool)
if brake is not None:
    skipped(brake, subject, report)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from adapters.ports import Clock, PortError, reason_of
from adapters.run_report import RunReport
from core.brakes import Brake, BrakeKind, EngagedBrakes
from core.breakers import JOIN_FAILURES, Breaker
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import STOPPED, stopped_by

# Reads all brakes of a cluster from their sources.


FRESH_FOR: Final = timedelta(seconds=15)
"""How long a sandbox reuses a reading: as long as a command waits before its check.

An engaged brake is noticed within that time, and a busy cluster calls SSM less than once a second (its quota is 40).
"""


class Source(Protocol):
    """One source of brakes."""

    @property
    def name(self) -> str:
        """The source's name, for people."""
        ...

    def read(self) -> tuple[Brake, ...]:
        """Return the engaged brakes. Raises PortError."""
        ...


class Panel:
    """`adapters.brakes.Brakes` over all sources of a function; `on_unreadable` gets the error of each that fails."""

    def __init__(
        self, sources: Sequence[Source], clock: Clock, on_unreadable: Callable[[PortError], None] = lambda _: None
    ) -> None:
        self._sources = tuple(sources)
        self._clock = clock
        self._on_unreadable = on_unreadable
        self._last: dict[str, tuple[Brake, ...]] = {}
        self._read: tuple[datetime, EngagedBrakes] | None = None

    def engaged(self) -> EngagedBrakes:
        """Return the brakes engaged now, from a reading at most `FRESH_FOR` old."""
        if self._read is None or self._clock.now() - self._read[0] >= FRESH_FOR:
            brakes = [brake for source in self._sources for brake in self._ask(source)]
            # Counted from the end of the reading: one that timed out would otherwise be outdated at once and repeated
            # at each call.
            self._read = (self._clock.now(), EngagedBrakes(tuple(sorted(brakes, key=_order))))
        return self._read[1]

    def forget_reading(self) -> None:
        """Discard the last reading, so that the next call reads again."""
        self._read = None

    def _ask(self, source: Source) -> tuple[Brake, ...]:
        """Return a source's brakes. While it does not answer, its last answer is used, and voluntary disruption stops."""
        try:
            self._last[source.name] = source.read()
        except PortError as error:
            self._on_unreadable(error)
            unreadable = Brake(BrakeKind.UNREADABLE, f"{source.name} cannot be read: {error}")
            return (*self._last.get(source.name, ()), unreadable)
        return self._last[source.name]


_ORDER: Final = {kind: place for place, kind in enumerate(BrakeKind)}


def _order(brake: Brake) -> tuple[int, Brake]:
    return _ORDER[brake.kind], brake


_COUNTED_APART: Final = (BrakeKind.UNREADABLE, BrakeKind.OBSERVED)
"""Brakes outside of the common count: the first has its own alarm, which tolerates a single failure; the second is intended."""


class Brakes(Protocol):
    """All brakes of one cluster, read together and at most every few seconds."""

    def engaged(self) -> EngagedBrakes:
        """Return the brakes engaged now. Raises nothing: a brake that cannot be read counts as engaged."""
        ...

    def forget_reading(self) -> None:
        """Forget the last reading: this run has just engaged or released a brake itself."""
        ...


class HeldBrakes(Protocol):
    """Brakes that a function engages itself and that stay until it releases them. Every method raises PortError."""

    def held(self) -> tuple[Brake, ...]:
        """Return the engaged brakes."""
        ...

    def hold(self, brake: Brake, now: datetime) -> None:
        """Engage the brake, or replace its message; there is one of each kind per NodePool, or for all."""
        ...

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        """Release the brake; no error if it is not engaged."""
        ...


class Breakers(Protocol):
    """One breaker per NodePool, opened by a series of new nodes that do not join. Raises PortError."""

    def failed(self, node_pool: str, message: str, now: datetime) -> bool:
        """Record that a new node of the pool was not launched, did not join or is not ready; return whether that opens it."""
        ...

    def joined(self, node_pool: str, now: datetime) -> bool:
        """Record that a new node of the pool is ready for pods; return whether that closes an open breaker."""
        ...

    def breakers(self) -> tuple[Breaker, ...]:
        """Return the breaker of each NodePool that has launched nodes."""
        ...

    def renew(self, node_pool: str, generations: str, now: datetime) -> None:
        """Count from now on only results of these generations of NodePool and EC2NodeClass; others are dropped."""
        ...


def skipped(brake: Brake, subject: str, report: RunReport) -> None:
    """Report that `brake` leaves `subject` unchanged: a decision, and a count that an alarm watches."""
    report.decide(DecisionKind.SKIP, subject, brake.kind, brake.message)
    if brake.kind not in _COUNTED_APART:
        report.count(STOPPED)
    report.count(stopped_by(brake.kind))


# Reports to a NodePool's breaker which of its new nodes failed.


def count_failure(breakers: Breakers, record: ClaimRecord, reason: str, now: datetime, report: RunReport) -> None:
    """Record that the claim is removed for `reason`: its pool's breaker counts it if its node never became ready.

    Never raises PortError. A claim without a NodePool has no breaker. One that was rebuilt from an instance's tags, and has no
    launch token, does not count: whoever may launch instances could stop a NodePool with copied tags.
    """
    pool = record.plan.node_pool
    if not pool or not record.token or record.phase is ClaimPhase.INITIALIZED or reason not in JOIN_FAILURES:
        return
    try:
        has_opened = breakers.failed(pool, f"{record.name}, {reason}", now)
    except PortError as error:
        report.count("portErrors")
        report.decide(DecisionKind.SKIP, pool, reason_of(error), str(error))
        return
    if has_opened:
        report.decide(
            DecisionKind.BRAKE,
            pool,
            BrakeKind.POOL_BREAKER,
            f"too many new nodes failed, the last {record.name}: {reason}",
        )


def became_ready(breakers: Breakers, record: ClaimRecord, now: datetime, report: RunReport) -> None:
    """Record that the claim's node is ready: its pool's breaker closes. Raises PortError."""
    if record.plan.node_pool and breakers.joined(record.plan.node_pool, now):
        report.decide(
            DecisionKind.RELEASE, record.plan.node_pool, RunReason.BREAKER_CLOSED, f"the node of {record.name} is ready"
        )
