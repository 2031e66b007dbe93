"""Ports of the brakes for controllers. `core.brakes` says what each brake stops.

brake = brakes.engaged().stopping(Action.EXPIRE, pool)
if brake is not None:
    skipped(brake, subject, report)
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

from adapters.run_report import RunReport
from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.brakes.breaker import Breaker
from core.reasons.decision import DecisionKind
from installation.metric_names import STOPPED, stopped_by

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
        """Return the state of each NodePool of which nodes were launched."""
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
