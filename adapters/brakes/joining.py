"""Reports to a NodePool's breaker which of its new nodes failed."""

from __future__ import annotations

from datetime import datetime

from adapters.brakes.ports import Breakers
from adapters.ports import PortError, reason_of
from adapters.run_report import RunReport
from core.brakes.brake import BrakeKind
from core.brakes.breaker import JOIN_FAILURES
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason


def count_failure(breakers: Breakers, record: ClaimRecord, reason: str, now: datetime, report: RunReport) -> None:
    """Record that the claim is removed for `reason`: its pool's breaker counts it if its node never became ready.

    Never raises PortError. A claim without a NodePool has no breaker.
    """
    pool = record.plan.node_pool
    if not pool or record.phase is ClaimPhase.INITIALIZED or reason not in JOIN_FAILURES:
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
