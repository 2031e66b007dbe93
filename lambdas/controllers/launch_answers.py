"""Stores EC2's answer to a launch: claims with machines, claims to try again, and refused claims, which are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Final, Self

import msgspec

from adapters.observation.cluster_reader import machine_of
from adapters.observation.observer import Observer
from adapters.observation.stores import Stores
from adapters.ports import (
    Clock,
    CloudProvider,
    ConflictError,
    DeniedError,
    Instance,
    InsufficientCapacityError,
    JsonObject,
    LaunchDeniedError,
    Launched,
    NotFoundError,
    PortError,
    RefusedOffering,
    SilentError,
    ThrottledError,
    TransientError,
    UnfulfilledError,
    reason_of,
)
from adapters.run_report import RunReport
from adapters.store import ClaimStore, LaunchDenials
from core import api, labels
from core.errors import InvalidInputError
from core.launch.denials import DeniedLaunch, LaunchDenial, Remembered, revision_of, rule_of_end, termination_reason
from core.launch.template import is_confined
from core.ledger.outcome import DecisionOutcome, OutcomeState
from core.lifecycle.deletion import held_by, price_at_launch
from core.lifecycle.launching import group_of, is_unanswered
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.lifecycle.steps import may_be_unlisted
from core.model.catalogue import Catalogue, Offering, OfferingKey
from core.model.values.quotas import InstanceEnd
from core.reasons.code import ONE_TRIES, ClaimReason, DecisionKind, ReasonCode, Refusal, TerminationReason
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.claim_deletion import launch_outcome

# Stores denied launches in the table. A failure to store one costs only a wasted launch, so it is reported and not raised.


TRIES: Final = 5
"""The most attempts to write a denial against concurrent writes: denials of one cause come together."""


class DenialMemory:
    """Adds and drops denials that other runs may be changing, too."""

    def __init__(self, denials: LaunchDenials) -> None:
        self._denials = denials

    def add(self, denied_launch: DeniedLaunch, now: datetime, report: RunReport) -> None:
        """Count one more failed launch."""
        for attempt in range(1, TRIES + 1):
            try:
                self._add_once(denied_launch, now)
            except ConflictError as error:
                if attempt == TRIES:
                    could_not(f"denial {denied_launch.code}", error, report)
            except PortError as error:
                could_not(f"denial {denied_launch.code}", error, report)
                return
            else:
                return

    def drop(self, denial: LaunchDenial, reason: ClaimReason, report: RunReport) -> None:
        """Delete a denial that was disproved."""
        try:
            self._denials.remove(denial)
        except ConflictError:
            return  # it was denied again meanwhile, or another claim is retrying
        except PortError as error:
            could_not(f"denial {denial.code}", error, report)
            return
        if denial.is_engaged:
            report.decide(DecisionKind.RELEASE, f"EC2NodeClass {denial.node_class}", reason, f"no longer {denial.code}")

    def _add_once(self, denied_launch: DeniedLaunch, now: datetime) -> None:
        same = (
            d for d in self._denials.all() if (d.node_class, d.code) == (denied_launch.node_class, denied_launch.code)
        )
        before = next(same, None)
        first = LaunchDenial(node_class=denied_launch.node_class, code=denied_launch.code)
        self._denials.change(before, (before or first).after(denied_launch, now))


def could_not(what: str, error: PortError, report: RunReport) -> None:
    """Report what could not be stored."""
    report.count("portErrors")
    report.decide(DecisionKind.SKIP, what, reason_of(error), str(error))


# Learns why EC2 ended an instance whose node never joined, so that launches avoid the cause.
#
# CreateFleet succeeds for such an instance. Without the reason, the next one would be launched at once and end in the same way.


CALL = "ec2:CreateFleet"
"""The action that a denial names: the one that launched the instance."""


class FailedStarts:
    """Reads the ends of instances, and stores their meaning for further launches."""

    def __init__(self, cloud: CloudProvider, stores: Stores, observer: Observer, clock: Clock) -> None:
        self._cloud = cloud
        self._denials = stores.denials
        self._unavailable = stores.unavailable
        self._memory = DenialMemory(stores.denials)
        self._observer = observer
        self._clock = clock

    def learn(self, record: ClaimRecord, report: RunReport) -> InstanceEnd | None:
        """Store and return why the claim's instance ended; None if EC2 no longer knows the instance.

        Raises:
            ConflictError: If EC2 still describes it as running: its answers may be some seconds old.
            PortError: If EC2 or the API server does not answer.
        """
        end = self._cloud.end_of(record.instance_id)
        rule = rule_of_end(end.code) if end is not None else None
        if end is None or rule is None or record.machine is None:
            return end
        node_class = self._node_class(record)
        if node_class is None:
            return end  # the reason does not apply to another version of the class
        now, offering = self._clock.now(), record.machine.offering
        confined = is_confined(record.plan.requirements, node_class)
        if rule.remembered is Remembered.OFFERINGS and not confined:
            self._avoid(offering, report)
        denied = DeniedLaunch(
            node_class=record.plan.node_class.name,
            code=end.code,
            call=CALL,
            message=f"the instance ended while it started: {end.message or end.code}",
            offerings=(offering.key,),
            node_pool=record.plan.node_pool,
            revision=revision_of(node_class),
            is_confined=confined,
        )
        self._memory.add(denied, now, report)
        return end

    def explain_loss(self, record: ClaimRecord, message: str, report: RunReport) -> tuple[TerminationReason, str]:
        """Return reason and message for a claim whose instance is gone, with EC2's reason if its node never joined.

        Raises as `learn`.
        """
        end = self.learn(record, report) if record.phase is ClaimPhase.LAUNCHED else None
        if end is None:
            return TerminationReason.INSTANCE_GONE, message
        return termination_reason(end) or TerminationReason.INSTANCE_GONE, f"{message}: {end.said}"

    def disprove(self, record: ClaimRecord, report: RunReport) -> None:
        """Drop the denials that the claim's launch tested, since its node has joined. A denial after the launch stays."""
        try:
            denials = self._denials.all()
        except PortError as error:
            could_not("denials that a node disproves", error, report)
            return
        for denial in denials:
            is_tried = denial.node_class == record.plan.node_class.name and denial.code in record.tries
            if is_tried and (denial.denied_at is None or denial.denied_at <= record.phase_since):
                self._memory.drop(denial, ClaimReason.NODE_JOINED, report)

    def _node_class(self, record: ClaimRecord) -> JsonObject | None:
        """Return the EC2NodeClass from which the instance was launched, None if it is gone or has changed since."""
        try:
            manifest = self._observer.node_class(record.plan.node_class.name)
            spec_hash = api.node_class(manifest).spec_hash
        except (NotFoundError, InvalidInputError):
            return None
        launched_from = record.plan.annotations.get(labels.NODECLASS_HASH, spec_hash)
        return manifest if launched_from == spec_hash else None

    def _avoid(self, offering: Offering, report: RunReport) -> None:
        try:
            self._unavailable.mark([offering.key], self._clock.now())
        except PortError as error:
            could_not(offering.instance_type, error, report)


# EC2's answer to one request for the claims that share a launch.


GROUP_PART: Final = "no instance of its launch is left for it: its group, which starts together, is planned again"


class LaunchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """EC2's answer: exactly one of held back, an error, or launched.

    Attributes:
        held_back: Why EC2 was not asked.
        asked: The requested claims by name, as stored before the request.
        error: EC2's refusal, or why its answer is unknown.
        is_try: Whether only one instance was requested for all claims, to test whether its node joins.
        launched: The launched instances, fewer than requested if capacity was short.
    """

    held_back: Refusal | None = None
    asked: dict[str, ClaimRecord] = {}
    error: PortError | None = None
    launched: Launched | None = None
    is_try: bool = False

    @classmethod
    def of_part(cls, records: Sequence[ClaimRecord], now: datetime) -> Self:
        """Return the answer for claims of a launch that others share, and that another run may have requested."""
        unclear_at = records[0].moments.unclear_at
        is_open = unclear_at is not None and may_be_unlisted(unclear_at, now)
        detail = "another run may have requested the launch that this claim shares"
        error = SilentError(CALL, detail) if is_open else ConflictError(CALL, detail)
        return cls(asked={record.name: record for record in records}, error=error)

    def left_out(self, record: ClaimRecord) -> Refusal | None:
        """Return why the claim waits if another claim of its launch is tried first; None if it was requested."""
        waits = self.is_try and record.name not in self.asked
        return ONE_TRIES if waits else None

    def instance_of(self, record: ClaimRecord) -> Instance | None:
        """Return the claim's instance, None where EC2 launched fewer."""
        instances = self.launched.instances if self.launched is not None else ()
        return instances[record.share] if record.share < len(instances) else None

    def shortage(self) -> str:
        """Return, for people, why a claim has no instance although others of its launch have one."""
        if self.launched is None:
            return ""
        refusals = dict.fromkeys(f"{refused.code}: {refused.message}" for refused in self.launched.refused)
        few = (
            f"EC2 launched {len(self.launched.instances)} of the {max(r.shares for r in self.asked.values())} asked for"
        )
        return "; ".join([few, *refusals])[:500]


def refused_by(error: PortError) -> tuple[RefusedOffering, ...]:
    """Return the offerings without capacity; none if EC2 did nothing."""
    return error.refused if isinstance(error, InsufficientCapacityError) else ()


def denied_by(record: ClaimRecord, error: DeniedError) -> tuple[RefusedOffering, ...]:
    """Return the denied offerings: all requested ones if the error names none."""
    if isinstance(error, LaunchDeniedError):
        return error.refused
    return tuple(RefusedOffering(offering.key, error.code, error.message) for offering in record.offerings)


def key_of(instance: Instance) -> OfferingKey:
    """Return the offering that an instance was launched from."""
    return OfferingKey(instance.instance_type, instance.zone, instance.capacity_type, instance.reservation_id)


# Makes the tokens of launch requests: with the same one, EC2 repeats its answer instead of launching again.


class LaunchTokens:
    """The tokens of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def of(self, name: str, attempt: int, made_by_hand: str = "") -> str:
        """Return the token of a claim's attempt.

        Our names are unique, but users may use one again for another NodeClaim, with another UID (`made_by_hand`).
        """
        return self._digest(f"{name}/{made_by_hand}/{attempt}" if made_by_hand else f"{name}/{attempt}")

    def of_shared(self, first: str) -> str:
        """Return the token of a launch that several claims share, by its first claim's name."""
        return self.of(f"{first}/shared", 0)

    def again(self, token: str) -> str:
        """Return the token that follows one to which EC2 has answered for good."""
        return self._digest(f"{token}/again")

    def _digest(self, subject: str) -> str:
        return blake2b(f"{self._cluster}/{subject}".encode(), digest_size=16).hexdigest()


STORE_ATTEMPTS: Final = 3
"""Attempts to store an answer. After the last one `execute` finds the instance by its tag and adopts it."""


class SettledClaims(msgspec.Struct):
    """What the answer to one request means for its claims.

    Attributes:
        launched: Claims that EC2 has, or may have, launched.
        refused: Names of claims that EC2 refused and whose records are deleted.
        unclear: Names of claims for which the answer could not be stored.
    """

    launched: list[ClaimRecord] = []
    refused: list[str] = []
    unclear: list[str] = []


class LaunchResults(SettledClaims):
    """The results of several launches.

    Attributes:
        launched, refused: As for one request.
        left: Names of claims whose launch was not started.
        unclear: Names of claims whose launch failed midway, or did not end in time.
    """

    left: list[str] = []

    def add(self, other: LaunchResults) -> None:
        """Merge another result."""
        self.add_settled(other)
        self.left += other.left

    def add_settled(self, settled: SettledClaims) -> None:
        """Add what the answer to one request means."""
        self.launched += settled.launched
        self.refused += settled.refused
        self.unclear += settled.unclear


class LaunchAnswerWriter:
    """Stores answers on the records of claims."""

    def __init__(self, claims: ClaimStore, tokens: LaunchTokens) -> None:
        self._claims = claims
        self._tokens = tokens

    def settle_each(
        self,
        records: Iterable[ClaimRecord],
        answer: LaunchAnswer,
        catalogue: Catalogue,
        now: datetime,
        report: RunReport,
    ) -> SettledClaims:
        """Store the result for each of the claims that shared a request as `settle`; a failure of one is reported."""
        settled, boundary = SettledClaims(), Boundary(report)

        def settle(record: ClaimRecord) -> None:
            claim = self.settle(record, answer, catalogue, now, report)
            if claim is None:
                settled.refused.append(record.name)
            else:
                settled.launched.append(claim)

        for record in records:
            if not boundary.attempt(record.name, partial(settle, record)):
                settled.unclear.append(record.name)
        return settled

    def settle(
        self, record: ClaimRecord, answer: LaunchAnswer, catalogue: Catalogue, now: datetime, report: RunReport
    ) -> ClaimRecord | None:
        """Store the result of EC2's answer for one of the requested claims.

        Returns:
            The launched claim, or the unchanged one if EC2's answer is unknown; None if EC2 refused and the claim is deleted,
            so that its pods are planned again.

        Raises:
            PortError: If the answer cannot be stored; the same token returns the same instance later.
        """
        held_back = answer.held_back or answer.left_out(record)
        if held_back is not None:
            report.count("heldBackLaunches")
            return self._forgotten(record, held_back.reason, held_back.message, now, report)
        record, error = answer.asked[record.name], answer.error
        if isinstance(error, InsufficientCapacityError):
            report.count("refusedLaunches")
            return self._forgotten(record, ClaimReason.INSUFFICIENT_CAPACITY, str(error), now, report)
        if isinstance(error, DeniedError):
            report.count("deniedLaunches")
            return self._forgotten(record, ClaimReason.LAUNCH_DENIED, str(error), now, report)
        if error is not None:
            report.count("throttledLaunches" if isinstance(error, ThrottledError) else "unclearLaunches")
            if isinstance(error, UnfulfilledError):
                return self._renewed(record, error, now)
            if isinstance(error, ConflictError) and _goes_alone(record) and group_of(record):
                return self._forgotten(record, ClaimReason.LAUNCH_HELD_BACK, GROUP_PART, now, report)
            tried = self._tried(record, error, now)
            return record if tried == record else self._claims.change(record, tried)
        instance = answer.instance_of(record)
        if instance is None:
            report.count("refusedLaunches")
            return self._forgotten(record, ClaimReason.INSUFFICIENT_CAPACITY, answer.shortage(), now, report)
        report.decide(DecisionKind.LAUNCH, record.name, ClaimReason.LAUNCHED, _described(instance, record))
        report.outcomes.append(_ended(record, OutcomeState.DONE, ClaimReason.LAUNCHED, "", now))
        stored = self._stored(record, instance, catalogue, now)
        report.outcomes += launch_outcome(stored, instance.launched_at)
        return stored

    def _forgotten(
        self, record: ClaimRecord, reason: ReasonCode, message: str, now: datetime, report: RunReport
    ) -> ClaimRecord | None:
        report.decide(DecisionKind.FORGET, record.name, reason, message)
        report.outcomes.append(refused(record, reason, message, now))
        self._claims.forget(record)
        return None

    def _stored(self, record: ClaimRecord, instance: Instance, catalogue: Catalogue, now: datetime) -> ClaimRecord:
        """Store the instance on the claim's current record: a conflict does not launch a second one."""
        current = record
        for attempt in range(1, STORE_ATTEMPTS + 1):
            try:
                return self.adopt(current, instance, catalogue, now)
            except (ConflictError, TransientError):
                if attempt == STORE_ATTEMPTS:
                    raise
                latest = self._claims.get(record.name)
                if latest is None:
                    raise
                if latest.machine is not None:
                    return latest
                current = latest
        raise ConflictError("store", f"claim {record.name} was not tried to be stored")

    def adopt(self, record: ClaimRecord, instance: Instance, catalogue: Catalogue, now: datetime) -> ClaimRecord:
        """Store that the claim has this instance; its reservation shrinks to what the instance has."""
        machine = machine_of(instance, record.plan, catalogue)
        return self.take_over(record, machine, now)

    def take_over(self, record: ClaimRecord, machine: Machine, now: datetime) -> ClaimRecord:
        """Store that the claim has this machine; `adopt` for one that is already described."""
        priced = msgspec.structs.replace(
            record, machine=machine, price_changes=record.price_changes or price_at_launch(record, machine)
        )
        holds = held_by(priced, machine) if machine.capacity else record.reserved
        after = msgspec.structs.replace(
            priced,
            phase=ClaimPhase.LAUNCHED,
            phase_since=now,
            plan=msgspec.structs.replace(record.plan, instance_types=()),
            offerings=(),
            price_factors={},
            subnets={},
            awaits_pods=False,
            reserved=holds,
            moments=msgspec.structs.replace(record.moments, asked_at=None),
            reason="",
            message="",
        )
        return self._claims.change(record, after)

    def _tried(self, record: ClaimRecord, error: PortError, now: datetime) -> ClaimRecord:
        """Return the claim after an inconclusive answer; the next try first looks for an instance with its tag.

        The token stays, so that the same order cannot launch twice. It is replaced only if EC2 knows it from another order and
        would list its instance by now. A claim that shares a launch then checks once whether an instance of the launch is left
        for it.
        A throttled request launched nothing: the claims go on sharing it, as if it had not been sent. Only its first failure is
        written, so that no writer meets another.
        """
        if isinstance(error, ThrottledError):
            return record if record.reason == ClaimReason.LAUNCH_FAILED else _failed(record, error)
        attempts = record.attempts + 1
        tried = msgspec.structs.replace(_failed(record, error), attempts=attempts)
        if not isinstance(error, ConflictError):
            # Silence launches nothing by itself: what counts is the request before it.
            before = record.moments.unclear_at if isinstance(error, SilentError) else None
            return _unclear(tried, before or now)
        if record.shares > 1 and not _goes_alone(record):
            return tried
        token = self._tokens.of(record.name, attempts, record.plan.made_by_hand)
        return msgspec.structs.replace(_unclear(tried, None), token=token, shares=1, share=0, first="")

    def _renewed(self, record: ClaimRecord, error: UnfulfilledError, now: datetime) -> ClaimRecord:
        """Give a claim a new token, the same one to all that share its launch: EC2 repeats its answer to the old one.

        Another run may have written the row in the meantime, for example since its request was throttled.
        """
        token, current = self._tokens.again(record.token), record
        for attempt in range(1, STORE_ATTEMPTS + 1):
            try:
                failed = _unclear(_failed(current, error), None)
                if error.is_silent:
                    moments = msgspec.structs.replace(failed.moments, renewed_at=now)
                    failed = msgspec.structs.replace(failed, moments=moments)
                # An attempt more: what follows an unclear answer is no longer unclear itself.
                attempts = current.attempts + bool(current.attempts)
                return self._claims.change(current, msgspec.structs.replace(failed, token=token, attempts=attempts))
            except ConflictError:
                latest = self._claims.get(record.name)
                if attempt == STORE_ATTEMPTS or latest is None or not is_unanswered(latest, record.first):
                    raise
                current = latest
        raise ConflictError("store", f"claim {record.name} was not tried to be stored")


def _goes_alone(record: ClaimRecord) -> bool:
    """Whether the claim has looked for an instance of its shared launch before, and found none."""
    return record.shares > 1 and record.attempts > 0


def _failed(record: ClaimRecord, error: PortError) -> ClaimRecord:
    return msgspec.structs.replace(record, reason=ClaimReason.LAUNCH_FAILED, message=str(error)[:300])


def _unclear(record: ClaimRecord, at: datetime | None) -> ClaimRecord:
    """Return the claim with the time at which its token may have launched, None for a token that was never sent."""
    return msgspec.structs.replace(record, moments=msgspec.structs.replace(record.moments, unclear_at=at))


def refused(record: ClaimRecord, reason: ReasonCode, message: str, now: datetime) -> DecisionOutcome:
    """Return the outcome of a failed claim for the ledger."""
    return _ended(record, OutcomeState.REFUSED, reason, message, now)


def _ended(
    record: ClaimRecord, state: OutcomeState, reason: ReasonCode, message: str, now: datetime
) -> DecisionOutcome:
    return DecisionOutcome(
        decision=record.decision, part=record.name, state=state, at=now, reason=reason, message=message
    )


def _described(instance: Instance, record: ClaimRecord) -> str:
    where = f"{instance.instance_type} {instance.capacity_type} in {instance.zone}"
    return f"{instance.instance_id} ({where}) for {len(record.plan.pods)} pods"
