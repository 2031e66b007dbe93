"""Handles EC2 and Health events about our instances: remembers the offering, removes the claim, and wakes `provision`.

A change announced days ahead is only stored: `reconcile` removes the claim in time. `execute` handles two cases: a notice about
an instance of ours whose claim is missing in the table or cannot be read, since the claim is rebuilt first, and the end of an
instance whose node never joined, since EC2 is asked for the cause, which the next launch avoids.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

import msgspec

from adapters.brakes import skipped
from adapters.messages import InstanceNotice, notice_of_instance, wake_up, work_on_claim
from adapters.observation.stores import Stores
from adapters.ports import Clock, CloudProvider, ConflictError, FunctionQueues, PortError, TransientError, reason_of
from adapters.run_report import RunReport
from adapters.store import UnreadableRow, UnreadableRowError
from core import labels
from core.brakes import Action
from core.lifecycle.commands import is_due
from core.lifecycle.deletion import REPLACED_WITHIN, SPOT_NOTICE, expedited
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.catalogue import OfferingKey
from core.reasons.code import DecisionKind, TerminationReason
from core.reasons.runs import RunReason
from installation.settings import Settings
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.claim_deletion import ClaimDeletion

# Reads EC2's and AWS Health's events about instances.


_STATES: Final = {
    "stopping": TerminationReason.INSTANCE_STOPPED,
    "stopped": TerminationReason.INSTANCE_STOPPED,
    "shutting-down": TerminationReason.INSTANCE_TERMINATED,
    "terminated": TerminationReason.INSTANCE_TERMINATED,
}


class Interruption(msgspec.Struct, frozen=True):
    """The content of an interruption event.

    Attributes:
        reason: The reason for removing the claims.
        ends_at: When the instances end, or are expected to; None if they are gone, or may end at any moment.
        said: EC2's reason, empty if unknown.
    """

    reason: TerminationReason
    instance_ids: tuple[str, ...]
    ends_at: datetime | None = None
    said: str = ""


def is_end(reason: TerminationReason) -> bool:
    """Whether the reason is the end of an instance, which no notice announced."""
    return reason in _STATES.values()


def read_event(event: Any) -> Interruption | None:
    """Return the interruption in an EventBridge event, None for any other event."""
    if not isinstance(event, dict) or not isinstance(event.get("detail"), dict):
        return None
    detail: dict[str, Any] = event["detail"]
    kind = (event.get("source"), event.get("detail-type"))
    instance, noticed_at = str(detail.get("instance-id", "")), _moment(event.get("time"))
    if kind == ("aws.ec2", "EC2 Spot Instance Interruption Warning"):
        return Interruption(TerminationReason.SPOT_INTERRUPTED, (instance,), noticed_at and noticed_at + SPOT_NOTICE)
    if kind == ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"):
        return Interruption(
            TerminationReason.RESERVATION_INTERRUPTED, (instance,), _end_of_reserved(detail, noticed_at)
        )
    if kind == ("aws.ec2", "EC2 Instance Rebalance Recommendation"):
        return Interruption(
            TerminationReason.REBALANCE_RECOMMENDED, (instance,), noticed_at and noticed_at + REPLACED_WITHIN
        )
    if kind == ("aws.ec2", "EC2 Instance State-change Notification"):
        reason = _STATES.get(str(detail.get("state", "")).lower())
        return Interruption(reason, (instance,)) if reason else None
    if kind == ("aws.health", "AWS Health Event"):
        return _scheduled_change(detail)
    return None


def _end_of_reserved(detail: dict[str, Any], noticed_at: datetime | None) -> datetime | None:
    """Return when the owner of a reservation takes the instance back, as the warning says or two minutes after it.

    An end that is not after the warning says nothing (docs/engineering/aws-facts.md#reservation-notice).
    """
    ends_at = _moment(detail.get("instance-termination-time"))
    if noticed_at is None or (ends_at is not None and ends_at > noticed_at):
        return ends_at
    return noticed_at + SPOT_NOTICE


_SPARED: Final = ("RESOLVED", "UNIMPAIRED")
"""Status of an entity that an open event lists although the change no longer concerns it: Health sends an event again with each
change of its entities (docs/engineering/aws-facts.md#health-entities)."""


def _scheduled_change(detail: dict[str, Any]) -> Interruption | None:
    """Return the change of instances that a Health event announces; None if it is about something else, past or cancelled."""
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return None
    if detail.get("statusCode") == "closed":
        return None
    listed = detail.get("affectedEntities")
    entities = [entity for entity in listed if isinstance(entity, dict)] if isinstance(listed, list) else []
    instances = tuple(str(entity.get("entityValue", "")) for entity in entities if entity.get("status") not in _SPARED)
    if entities and not instances:
        return None
    return Interruption(TerminationReason.SCHEDULED_CHANGE, instances, _moment(detail.get("startTime")))


def _moment(written: Any) -> datetime | None:
    """Parse a time in EventBridge's (RFC 3339) or Health's (RFC 1123) format to UTC; None if it is neither, or no such year."""
    if not isinstance(written, str):
        return None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = parse(written)
            moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            continue
        return moment if moment.year in _YEARS else None
    return None


_YEARS: Final = range(2000, 3000)
"""Years to which hours can be added, and from which they can be taken."""


_ANNOUNCED: Final = frozenset(
    {
        TerminationReason.SPOT_INTERRUPTED,
        TerminationReason.RESERVATION_INTERRUPTED,
        TerminationReason.REBALANCE_RECOMMENDED,
        TerminationReason.SCHEDULED_CHANGE,
    }
)
"""Reasons of notices about running instances. Each is announced once: `reconcile` cannot find an ignored notice."""


class Interruptions:
    """Controller of `interrupt`."""

    def __init__(
        self,
        stores: Stores,
        cloud: CloudProvider,
        deletion: ClaimDeletion,
        queues: FunctionQueues,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._cloud = cloud
        self._deletion = deletion
        self._wake_ups, self._work = queues.wake_ups, queues.work
        self._settings = settings
        self._clock = clock

    def run(self, event: Any, report: RunReport) -> None:
        """Act on one EventBridge event; events about other instances or of another kind are ignored."""
        notice = read_event(event)
        if notice is None:
            report.count("ignoredEvents")
            return
        boundary = Boundary(report)
        for instance_id in notice.instance_ids:
            boundary.attempt(instance_id, partial(self._interrupted, instance_id, notice, report))
        if boundary.failed:
            raise TransientError("interrupt", f"not all was done for {', '.join(boundary.failed)}: do it again")

    def _interrupted(self, instance_id: str, interruption: Interruption, report: RunReport) -> None:
        unreadable: UnreadableRow | None = None
        try:
            record = self._stores.claims.of_instance(instance_id)
        except UnreadableRowError as error:
            record, unreadable = None, error.row
        if record is not None and has_ended_early(record, interruption.reason):
            self._explain(record, interruption, report)
        elif record is not None:
            self.act(record, interruption, report)
        elif self._is_ignored(interruption.reason) or self._passed_on(instance_id, interruption, report):
            return
        elif unreadable is not None:
            message = (
                f"the notice about instance {instance_id} ({interruption.reason}) changes nothing: {unreadable.problem}"
            )
            report.decide(DecisionKind.SKIP, unreadable.name, RunReason.CANNOT_BE_READ, message)

    def _explain(self, record: ClaimRecord, interruption: Interruption, report: RunReport) -> None:
        """Have `execute` ask EC2 why the claim's instance ended, and act on the notice."""
        report.decide(
            DecisionKind.INTERRUPT,
            record.name,
            interruption.reason,
            f"instance {record.instance_id} before its node joined",
        )
        notice = InstanceNotice(record.instance_id, interruption.reason)
        self._work.send([notice_of_instance(record.name, notice, self._clock.now())])

    def _passed_on(self, instance_id: str, interruption: Interruption, report: RunReport) -> bool:
        """Have `execute` rebuild the claim of a running instance of ours, and act on the notice. Return whether it will."""
        if interruption.reason not in _ANNOUNCED:
            return False
        for instance in self._cloud.instances([instance_id]):
            claim, cluster = instance.tags.get(labels.CLAIM), instance.tags.get(labels.CLUSTER_TAG)
            if claim and cluster == self._settings.cluster_name and instance.is_alive:
                message = f"no readable claim has instance {instance_id}: it is rebuilt first"
                report.decide(DecisionKind.INTERRUPT, claim, interruption.reason, message)
                notice = InstanceNotice(instance_id, interruption.reason, interruption.ends_at)
                self._work.send([notice_of_instance(claim, notice, self._clock.now())])
                return True
        return False

    def act(self, record: ClaimRecord, interruption: Interruption, report: RunReport) -> None:
        """Remove the instance's claim; if it is already leaving, request its step again, since the first request may be lost.

        Raises:
            PortError: If a step fails; all steps can be repeated.
        """
        if interruption.reason == TerminationReason.SCHEDULED_CHANGE:
            self._announced(record, interruption, report)
            return
        if record.deletion is None or expedited(record, interruption.reason, "", interruption.ends_at) is not record:
            self._interrupt(record, interruption, report)
            return
        if record.deletion.tainted_at is None:
            self._wake_ups.send([wake_up(interruption.reason)])
        self._work.send([work_on_claim(record.name, self._clock.now())])

    def _announced(self, record: ClaimRecord, interruption: Interruption, report: RunReport) -> None:
        """Store the earliest date; if it is near or past, remove the claim at once."""
        now = self._clock.now()
        retires_at = interruption.ends_at or now
        if record.retires_at is None or retires_at < record.retires_at:
            message = f"instance {record.instance_id} at {retires_at:%Y-%m-%dT%H:%M:%SZ}"
            report.decide(DecisionKind.INTERRUPT, record.name, interruption.reason, message)
            record = self._stores.claims.change(record, msgspec.structs.replace(record, retires_at=retires_at))
        if is_due(record, now):
            ends_at = min(retires_at, now + REPLACED_WITHIN)
            self._interrupt(
                record, Interruption(TerminationReason.SCHEDULED_CHANGE_DUE, interruption.instance_ids, ends_at), report
            )

    def _interrupt(self, record: ClaimRecord, interruption: Interruption, report: RunReport) -> None:
        report.decide(DecisionKind.INTERRUPT, record.name, interruption.reason, _message(record, interruption))
        now = self._clock.now()
        if record.machine is not None:
            offering = record.machine.offering
            if interruption.reason == TerminationReason.SPOT_INTERRUPTED:
                self._avoid(OfferingKey(offering.instance_type, offering.zone, labels.SPOT), report)
            elif interruption.reason == TerminationReason.RESERVATION_INTERRUPTED:
                self._avoid(offering.key, report)
        if self._is_ignored(interruption.reason):
            return
        brake = self._stores.brakes.engaged().stopping(Action.EVACUATE, record.plan.node_pool)
        if brake is not None:
            skipped(brake, record.name, report)
            return
        try:
            self._begin(record, interruption, report)
        except ConflictError:
            latest = self._stores.claims.get(record.name)
            if latest is not None:
                self._begin(latest, interruption, report)
        self._work.send([work_on_claim(record.name, now)])

    def _is_ignored(self, reason: TerminationReason) -> bool:
        return reason == TerminationReason.REBALANCE_RECOMMENDED and self._settings.rebalance_policy == "ignore"

    def _begin(self, record: ClaimRecord, interruption: Interruption, report: RunReport) -> None:
        message = _message(record, interruption)
        self._deletion.begin(record, interruption.reason, message, report, ends_at=interruption.ends_at)
        if record.deletion is not None:  # the planner now has to record the replacements of its pods
            self._wake_ups.send([wake_up(interruption.reason)])

    def _avoid(self, offering: OfferingKey, report: RunReport) -> None:
        """Mark the offering as refused: otherwise a launch is wasted, and the node has only two minutes."""
        try:
            self._stores.unavailable.mark([offering], self._clock.now())
        except PortError as error:
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, offering.instance_type, reason_of(error), str(error))


def has_ended_early(record: ClaimRecord, reason: TerminationReason) -> bool:
    """Whether the event reports the end of an instance whose node has not joined and whose claim is not leaving."""
    return is_end(reason) and record.phase is ClaimPhase.LAUNCHED and record.deletion is None


def _message(record: ClaimRecord, interruption: Interruption) -> str:
    """Return what is said of an interruption; a group that started together loses a member, and mostly starts again."""
    text = (
        f"instance {record.instance_id}: {interruption.said}" if interruption.said else f"instance {record.instance_id}"
    )
    group = record.plan.annotations.get(labels.GROUP_OF_CLAIM)
    return f"{text}; group {group} loses the members that run there" if group else text
