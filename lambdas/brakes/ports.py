"""What controllers need of the brakes. `core.brakes` says what each brake stops.

brake = brakes.engaged().stopping(Action.EXPIRE, pool)
if brake is not None:
    skipped(brake, subject, report)
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.brakes.breaker import Breaker
from core.reasons.decision import DecisionKind
from lambdas.metric_names import STOPPED, stopped_by
from lambdas.run_report import RunReport


class Brakes(Protocol):
    """All brakes of one cluster, read together and at most every few seconds."""

    def engaged(self) -> EngagedBrakes:
        """Those that are engaged now. Raises nothing: a brake that cannot be read counts as engaged."""
        ...


class HeldBrakes(Protocol):
    """Brakes that a function engages itself and that stay until it releases them. Every method raises PortError."""

    def held(self) -> tuple[Brake, ...]:
        """Those that are engaged."""
        ...

    def hold(self, brake: Brake, now: datetime) -> None:
        """Engage it, or replace its message; one of each kind for a NodePool, or for all."""
        ...

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        """Release it; no error if it is not engaged."""
        ...


class Breakers(Protocol):
    """One breaker for each NodePool: new nodes that do not join, one after another, open it. Raises PortError."""

    def failed(self, node_pool: str, message: str, now: datetime) -> bool:
        """A new node of the pool could not be launched, did not join or did not become ready; whether that opens it."""
        ...

    def joined(self, node_pool: str, now: datetime) -> bool:
        """A new node of the pool is ready for pods; whether that closes an open breaker."""
        ...

    def breakers(self) -> tuple[Breaker, ...]:
        """What is remembered of each NodePool of which nodes were launched."""
        ...

    def renew(self, node_pool: str, generations: str, now: datetime) -> None:
        """From now on results are those of these generations of NodePool and EC2NodeClass; others' are let go."""
        ...


def skipped(brake: Brake, subject: str, report: RunReport) -> None:
    """Say that `subject` is left as it is because of `brake`: a decision, and a count by which an alarm goes off."""
    report.decide(DecisionKind.SKIP, subject, brake.kind, brake.message)
    if brake.kind is not BrakeKind.UNREADABLE:  # that one has an alarm of its own, which forgives a single failure
        report.count(STOPPED)
    report.count(stopped_by(brake.kind))
