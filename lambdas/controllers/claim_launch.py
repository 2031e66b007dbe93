"""Provides a claim's instance: launches one, or adopts one from an earlier launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Final

import msgspec

from adapters.messages import wake_up, work_on_claims
from adapters.observation.observer import Observer
from adapters.ports import (
    Clock,
    CloudProvider,
    ConflictError,
    FunctionQueues,
    JsonObject,
    NotFoundError,
    ThrottledError,
)
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.lifecycle import steps
from core.lifecycle.claims import BOOT_AT_LEAST
from core.lifecycle.launching import group_of, is_unanswered, name_tags
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.values import quantity
from core.pools import PoolTypes, holder, pool_types
from core.reasons.code import (
    GROUP_CHANGED,
    PODS_ELSEWHERE,
    ClaimReason,
    DecisionKind,
    OverLimit,
    PricesHaveRisen,
    Refusal,
    Stated,
)
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.launching import Launcher
from lambdas.controllers.nodes import NodeStateReader

# Names the instances of a shared launch: EC2 gives all of them the same tags, so none has its claim's name at launch.


THROTTLED_FOR: Final = timedelta(seconds=30)
"""How long a sandbox names nothing after EC2 has throttled a name: a name is worth less than the calls that it displaces."""


class InstanceNames:
    """Sets the tags that name an instance after its claim: once, since the claim's row then says so."""

    def __init__(self, cloud: CloudProvider, claims: ClaimStore, clock: Clock) -> None:
        self._cloud = cloud
        self._claims = claims
        self._clock = clock
        self._throttled_until: datetime | None = None

    def give(self, record: ClaimRecord, report: RunReport) -> ClaimRecord:
        """Name the claim's instance before its node joins; return the claim, which is stored again where this succeeds.

        Nothing is done where the launch or an earlier check has named it, and while EC2 throttles names. A failure is reported
        and stops nothing: `reconcile` names the instance later. Raises PortError if the table does not answer.
        """
        if record.shares == 1 or record.machine is None or record.node_name or record.moments.named_at is not None:
            return record
        if self._throttled_until is not None and self._clock.now() < self._throttled_until:
            return record
        if not Boundary(report).attempt(record.name, partial(self._name, record)):
            return record
        moments = msgspec.structs.replace(record.moments, named_at=self._clock.now())
        with suppress(ConflictError):  # the row has changed, so that another check may name the instance once more
            return self._claims.change(record, msgspec.structs.replace(record, moments=moments))
        return record

    def _name(self, record: ClaimRecord) -> None:
        try:
            self._cloud.tag(record.instance_id, name_tags(record.name))
        except ThrottledError as error:
            self._throttled_until = self._clock.now() + max(THROTTLED_FOR, error.retry_after)
            raise


# Finds the instance that an earlier request launched for a claim, although its answer is unknown.


def launched_earlier(record: ClaimRecord, reader: NodeStateReader, claims: ClaimStore) -> str:
    """Return the id of a living instance that is tagged for the claim, or free in its shared launch; empty for none."""
    tagged = reader.tagged(record.name)
    return tagged.instance_id if tagged is not None else free_of_launch(record, reader, claims)


def free_of_launch(record: ClaimRecord, reader: NodeStateReader, claims: ClaimStore) -> str:
    """Return the id of an instance of the claim's shared launch that no claim has yet; empty for none."""
    if record.shares == 1:
        return ""
    launched = (instance.instance_id for instance in reader.launched_with(record))
    return next((instance for instance in launched if claims.of_instance(instance) is None), "")


Usage = Callable[[], dict[str, dict[str, int]]]
"""Reads what each counter of limits holds, once for all claims that are looked at together."""

Prices = Callable[[], PoolTypes]
"""Reads NodePools and their prices of now, once for all claims that are looked at together."""


class ClaimLaunch:
    """Launches claims whose pods still wait, within the limits of their NodePools."""

    def __init__(
        self,
        claims: ClaimStore,
        launcher: Launcher,
        names: InstanceNames,
        observer: Observer,
        queues: FunctionQueues,
        clock: Clock,
    ) -> None:
        self._claims = claims
        self._launcher = launcher
        self._names = names
        self._observer = observer
        self._wake_ups, self._work = queues.wake_ups, queues.work
        self._clock = clock

    def launch(self, record: ClaimRecord, reader: NodeStateReader, report: RunReport) -> ClaimRecord | None:
        """Launch the claim's instance; None if the claim is deleted instead, with the reason in the report.

        Before the first attempt: its pods must wait, and its NodePool must have room within its limits. A shared launch without
        an answer is requested for all of its claims by the first one; the others stay unchanged until then. Raises PortError.
        """
        members, every = [record], cache(self._claims.all)
        if record.first and not record.attempts:
            if record.first != record.name and is_unanswered(self._claims.get(record.first), record.first):
                return record
            members = self._members(record, every)
        wanted, kept = list[ClaimRecord](), dict[str, ClaimRecord]()
        others = _of_groups(members, every)
        objections = self._objections((*members, *others), reader)
        for other in others:
            if other.name in objections:
                with suppress(ConflictError):  # a run that has asked EC2 for it meanwhile keeps it
                    self._end(other, objections[other.name], reader, report)
        for member in members:
            objection = objections.get(member.name)
            if objection is None:
                wanted.append(member)
                continue
            remaining = self._end(member, objection, reader, report)
            if remaining is not None:
                kept[remaining.name] = remaining
        launched = self._request(wanted, report) if wanted else {}
        return (kept | launched).get(record.name)

    def _members(self, record: ClaimRecord, every: Callable[[], Sequence[ClaimRecord]]) -> list[ClaimRecord]:
        """Return the claims for which the first one requests the launch; another is alone, since the first has an answer."""
        if record.first != record.name:
            return [record]
        members = sorted((r for r in every() if is_unanswered(r, record.name)), key=lambda claim: claim.share)
        if not members or members[0].name != record.name:
            return [record]  # another run has had an answer since the record was read
        return [self._launcher.joined(claim, members[0]) for claim in members]

    def _request(self, members: Sequence[ClaimRecord], report: RunReport) -> dict[str, ClaimRecord]:
        """Request the launch that these claims share; return those that remain, by name."""
        now, name = self._clock.now(), members[0].plan.node_class.name
        try:
            node_class = self._observer.node_class(name)
        except NotFoundError as error:
            staying = {member.name: member for member in members if steps.may_be_asked_for(member, now)}
            for member in members:
                if member.name not in staying:
                    self._forget(member, Stated(ClaimReason.NODE_CLASS_NOT_FOUND, str(error)), report)
            return staying
        catalogue = self._observer.open_market.catalogue([node_class], now)
        launched = self._launcher.launch(members, node_class, catalogue, now, report)
        if len(launched) < len(members):
            self._wake_ups.send([wake_up("refused launch")])
        booting = [
            instance.name for instance in launched.values() if instance.machine is not None and instance.shares > 1
        ]
        if booting:
            self._work.send(work_on_claims(booting, now), delay=BOOT_AT_LEAST)
        return launched

    def _objections(self, members: Sequence[ClaimRecord], reader: NodeStateReader) -> dict[str, Refusal]:
        """Return claim → why it must not be launched any more.

        A part of a group is not launched without the rest: it is planned again as a whole.
        """
        fresh = [member for member in members if not member.attempts]
        used = cache(lambda: {usage.node_pool: usage.reserved for usage in self._claims.usage()})
        prices = cache(lambda: pool_types(self._observer.market()))
        objections = {
            m.name: objection for m in fresh if (objection := self._objection(m, reader, used, prices)) is not None
        }
        groups = {group_of(member) for member in fresh if member.name in objections} - {""}
        others = [member.name for member in fresh if group_of(member) in groups]
        return dict.fromkeys(others, GROUP_CHANGED) | objections

    def _objection(self, record: ClaimRecord, reader: NodeStateReader, used: Usage, prices: Prices) -> Refusal | None:
        """Return why the claim must not be launched any more, None if nothing is against it."""
        if record.awaits_pods and not reader.unbound_pods(record.plan.pods):
            return PODS_ELSEWHERE
        return self._limit_in_the_way(record, reader, used) or _rise_in_the_way(record, prices)

    def _end(
        self, record: ClaimRecord, objection: Refusal, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Delete the claim, unless a failed request launched its instance: return it with that.

        While another run may be asking EC2 for the instance, the claim stays as it is.
        """
        failed = record.reason == ClaimReason.LAUNCH_FAILED
        instance = launched_earlier(record, reader, self._claims) if failed else ""
        if instance:
            return self.adopt(record, steps.Adopt(instance), reader, report)
        if steps.may_be_asked_for(record, self._clock.now()):
            return record
        self._forget(record, objection, report)
        if objection.reason != ClaimReason.PODS_PLACED_ELSEWHERE:
            self._wake_ups.send([wake_up("claim given up")])
        return None

    def _forget(self, record: ClaimRecord, cause: Refusal, report: RunReport) -> None:
        report.decide(DecisionKind.FORGET, record.name, cause.reason, cause.message)
        self._claims.forget(record)

    def _limit_in_the_way(self, record: ClaimRecord, reader: NodeStateReader, usage: Usage) -> Refusal | None:
        """Return the limit or cap that is exceeded by now; rows may be lost, or it was lowered."""
        name = record.plan.node_pool
        limits = {name: reader.limits(name)} if name else {}
        groups = [counter for counter in record.counters if counter != name]
        if groups:
            in_force = reader.limits_in_force()
            limits |= {counter: in_force[counter] for counter in groups if counter in in_force}
        if not any(limits.values()):
            return None
        used = {counter: reserved for counter, reserved in usage().items() if counter in limits}
        over = _exceeded(record, limits, used)
        if over and name in over:  # a calendar may raise it
            over = _exceeded(record, {**limits, name: {**limits[name], **reader.limits_in_force().get(name, {})}}, used)
        counter = min(over, default=None)
        return None if counter is None else OverLimit(holder(counter), over[counter])

    def adopt(
        self, record: ClaimRecord, step: steps.Adopt, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Store the instance of an earlier launch, whose response was lost, as the claim's.

        Raises:
            ConflictError: If the instance is gone again.
        """
        instance = reader.instance(step.instance_id)
        if instance is None:
            raise ConflictError("ec2:DescribeInstances", f"instance {step.instance_id} is gone again")
        now = self._clock.now()
        node_classes = list[JsonObject]()
        with suppress(NotFoundError):  # its EC2NodeClass may be gone; the instance is there
            node_classes.append(self._observer.node_class(record.plan.node_class.name))
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.FOUND_BY_TAG, f"instance {step.instance_id}")
        adopted = self._launcher.answer_writer.adopt(
            record, instance, self._observer.open_market.catalogue(node_classes, now), now
        )
        return self._names.give(adopted, report)


def _exceeded(
    record: ClaimRecord, limits: Mapping[str, Mapping[str, int]], used: Mapping[str, Mapping[str, int]]
) -> dict[str, str]:
    """Return counter → the first resource that the claim takes and of which the counter holds more than its limit."""
    over: dict[str, str] = {}
    for counter, bounds in sorted(limits.items()):
        holds = record.reserved_in(counter)
        named = [name for name in sorted(bounds) if holds.get(name, 0) > 0]
        exceeded = [name for name in named if used.get(counter, {}).get(name, 0) > bounds[name]]
        if exceeded:
            over[counter] = exceeded[0]
    return over


def _rise_in_the_way(record: ClaimRecord, prices: Prices) -> Refusal | None:
    """Return that an instance may cost more by now than limits and caps in dollars count for the claim."""
    counted = record.reserved.get(quantity.HOURLY)
    if counted is None:
        return None
    types, pool = prices(), record.plan.node_pool
    most = max((types.counted_offering(pool, offering.key) for offering in record.offerings), default=0)
    if most <= counted:
        return None
    return PricesHaveRisen(*(quantity.render(amount, quantity.HOURLY) for amount in (most, counted)))


def _of_groups(members: Sequence[ClaimRecord], every: Callable[[], Sequence[ClaimRecord]]) -> tuple[ClaimRecord, ...]:
    """Return the claims of other launches that were not asked for yet and are for the same groups, by name.

    Each launch sees its own claims; the first one that is given up may leave room for the next, and a part would start.
    """
    groups = {group_of(member) for member in members if not member.attempts} - {""}
    if not groups:
        return ()
    names = {member.name for member in members}
    others = (record for record in every() if record.name not in names and group_of(record) in groups)
    waiting = (r for r in others if r.phase is ClaimPhase.REQUESTED and r.deletion is None and not r.attempts)
    return tuple(sorted(waiting, key=lambda record: record.name))
