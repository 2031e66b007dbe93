"""Removes claims: stores them as leaving, terminates their instances, and deletes their rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from adapters.brakes.joining import count_failure
from adapters.brakes.ports import Breakers
from adapters.messages import wake_up
from adapters.ports import Clock, CloudProvider, Queue
from adapters.run_report import RunReport
from adapters.store import ClaimChange, ClaimStore
from core.lifecycle import steps
from core.lifecycle.draining import deletion
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from installation.metric_names import INSTANCES_TERMINATED
from lambdas.controllers.launching.instance_outcomes import end_outcome


class ClaimDeletion:
    """Stores that claims leave, for all controllers; `ClaimWork` drains and terminates them."""

    def __init__(
        self, cloud: CloudProvider, claims: ClaimStore, breakers: Breakers, wake_ups: Queue, clock: Clock
    ) -> None:
        self._cloud = cloud
        self._claims = claims
        self._breakers = breakers
        self._wake_ups = wake_ups
        self._clock = clock

    def begin(
        self,
        record: ClaimRecord,
        reason: TerminationReason,
        message: str,
        report: RunReport,
        *,
        ends_at: datetime | None = None,
    ) -> ClaimRecord:
        """Store that the claim must be removed, regardless of budgets; it counts in them.

        A leaving claim is unchanged, unless its removal was voluntary and now is mandatory, or must be earlier.
        `ends_at` is when its instance would end, and so bounds the wait for replacements.
        """
        if record.deletion is not None:
            after = deletion.expedited(record, reason, message, ends_at)
            if after is record:
                return record
            report.decide(DecisionKind.TERMINATE, record.name, reason, message)
            return self._claims.change(record, after)
        changed = self._claims.change(record, deletion.leaving(record, reason, message, self._clock.now(), ends_at))
        self._has_begun(changed, reason, message, report)
        return changed

    def begin_within(
        self,
        record: ClaimRecord,
        reason: TerminationReason,
        message: str,
        places: Mapping[str, int],
        report: RunReport,
        *,
        ends_at: datetime | None = None,
    ) -> bool:
        """As `begin`, for a claim that is not leaving, if its NodePool's budgets have a place; return whether they have.

        `places` is how many of a NodePool's claims may hold one (`core.disruption.budgets.node_pool_budgets.places`).
        """
        after = deletion.leaving(record, reason, message, self._clock.now(), ends_at)
        if record.phase is ClaimPhase.REGISTERED:  # its node may already be initialized, if a response was lost
            after = msgspec.structs.replace(after, is_disrupting=True)
        if not after.is_disrupting:
            self._claims.change(record, after)
        elif self._claims.disrupt([ClaimChange(record, after)], places).spent:
            return False
        self._has_begun(after, reason, message, report)
        return True

    def _has_begun(self, record: ClaimRecord, reason: TerminationReason, message: str, report: RunReport) -> None:
        report.decide(DecisionKind.TERMINATE, record.name, reason, message)
        count_failure(self._breakers, record, reason, self._clock.now(), report)
        self._wake_ups.send([wake_up(reason)])

    def terminate_instance(self, record: ClaimRecord, report: RunReport) -> ClaimRecord | None:
        """Ask EC2 to terminate the claim's instance; the first such request ends its hours in the ledger. Raises PortError."""
        self._cloud.terminate([record.instance_id])
        reason = TerminationReason.stored(record.deletion.reason if record.deletion else "")
        report.decide(DecisionKind.TERMINATE, record.instance_id, reason, f"instance of {record.name}")
        if record.deletion is not None and record.deletion.terminated_at is None:
            report.count(INSTANCES_TERMINATED)
            report.outcomes += end_outcome(record, reason, self._clock.now())
        return self._claims.change(record, deletion.terminated(record, self._clock.now()))

    def forget(self, record: ClaimRecord, step: steps.Forget, report: RunReport) -> None:
        """Delete the claim's row, and release everything that it holds. Raises PortError."""
        report.decide(DecisionKind.FORGET, record.name, step.reason, step.message)
        self._claims.forget(record)
        if record.deletion is None or record.deletion.terminated_at is None:
            report.outcomes += end_outcome(record, step.reason, self._clock.now())
        if (
            record.deletion is None and record.attempts
        ):  # a claim that was never launched does not count as a failure of its NodePool
            count_failure(self._breakers, record, step.reason, self._clock.now(), report)
