"""Removes claims: stores them as leaving, terminates their instances, and deletes their rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from adapters.brakes import Breakers, count_failure
from adapters.messages import wake_up
from adapters.ports import Clock, CloudProvider, Queue
from adapters.run_report import RunReport
from adapters.store import ClaimChange, ClaimStore
from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from core.lifecycle import deletion, steps
from core.lifecycle.metering import whole_costs
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.reasons.code import ClaimReason, DecisionKind, TerminationReason
from installation.metric_names import INSTANCES_TERMINATED

# Records the launch and the end of instances in the ledger, from which reports count hours.


def launch_outcome(record: ClaimRecord, launched_at: datetime) -> list[DecisionOutcome]:
    """Return the launch of the claim's instance; nothing if the instance is unknown."""
    return _outcome(record, launched_at, launched_at, None, ClaimReason.LAUNCHED)


def end_outcome(record: ClaimRecord, reason: str, now: datetime) -> list[DecisionOutcome]:
    """Return the end of the claim's instance, which costs nothing from now on.

    Its launch time is the claim's; the entry of `launch_outcome` is more precise, if the ledger has it.
    """
    return _outcome(record, record.moments.launched_at or record.requested_at, now, now, reason)


def _outcome(
    record: ClaimRecord, launched_at: datetime, at: datetime, ended_at: datetime | None, reason: str
) -> list[DecisionOutcome]:
    machine = record.machine
    if machine is None:
        return []
    life = InstanceLife(
        instance=machine.instance_id,
        claim=record.name,
        node_pool=record.plan.node_pool,
        instance_type=machine.offering.instance_type,
        zone=machine.offering.zone,
        capacity_type=machine.offering.capacity_type,
        price=machine.offering.price,
        launched_at=launched_at,
        ended_at=ended_at,
    )
    return [
        DecisionOutcome(
            decision=record.decision,
            part=machine.instance_id,
            state=OutcomeState.DONE,
            at=at,
            reason=reason,
            instance=life,
        )
    ]


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
        drain_within: timedelta | None = None,
        command: str = "",
    ) -> ClaimRecord:
        """Store that the claim must be removed, regardless of budgets; it counts in them.

        A leaving claim is unchanged, unless its removal was voluntary and now is mandatory, or must be earlier.
        `ends_at` is when its instance would end, and so bounds the wait for replacements. `drain_within` bounds its drain.
        `command` is the id of the command that removes it, which has written its events.
        """
        if record.deletion is not None:
            deadline = None if drain_within is None else self._clock.now() + drain_within
            after = deletion.expedited(record, reason, message, ends_at, deadline)
            if after is record:
                return record
            report.decide(DecisionKind.TERMINATE, record.name, reason, message)
            return self._claims.change(record, after)
        now = self._clock.now()
        after = deletion.leaving(record, reason, message, now, ends_at, drain_within, command)
        changed = self._claims.change(record, after)
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

        `places` is how many of a NodePool's claims may hold one (`core.disruption.budgets.places`).
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
        self._claims.forget(record, whole_costs(record, self._clock.now()))
        if record.deletion is None or record.deletion.terminated_at is None:
            report.outcomes += end_outcome(record, step.reason, self._clock.now())
        if (
            record.deletion is None and record.attempts
        ):  # a claim that was never launched does not count as a failure of its NodePool
            count_failure(self._breakers, record, step.reason, self._clock.now(), report)
