"""Tells a NodePool's breaker which of its new nodes came to nothing."""

from __future__ import annotations

from datetime import datetime

from core.brakes.brake import BrakeKind
from core.brakes.breaker import JOIN_FAILURES
from core.lifecycle.records import ClaimPhase, ClaimRecord
from lambdas.brakes.ports import Breakers
from lambdas.decisions import Outcome
from lambdas.ports import PortError


def went(breakers: Breakers, record: ClaimRecord, reason: str, now: datetime, outcome: Outcome) -> None:
    """The claim goes for `reason`: its pool's breaker counts that where its node never became ready. Never raises PortError."""
    if record.phase is ClaimPhase.INITIALIZED or reason not in JOIN_FAILURES:
        return
    pool = record.plan.node_pool
    try:
        has_opened = breakers.failed(pool, f"{record.name}, {reason}", now)
    except PortError as error:
        outcome.count("portErrors")
        outcome.decide("skip", pool, type(error).__name__, str(error))
        return
    if has_opened:
        outcome.decide(
            "brake", pool, BrakeKind.POOL_BREAKER, f"too many new nodes failed, the last {record.name}: {reason}"
        )


def became_ready(breakers: Breakers, record: ClaimRecord, now: datetime, outcome: Outcome) -> None:
    """The claim's node is ready: its pool's breaker closes. Raises PortError."""
    if breakers.joined(record.plan.node_pool, now):
        outcome.decide("release", record.plan.node_pool, "NodePoolBreakerClosed", f"the node of {record.name} is ready")
