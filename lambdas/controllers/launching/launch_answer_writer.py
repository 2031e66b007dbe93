"""Stores EC2's answer to a launch: claims with machines, claims to try again, and refused claims, which are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from adapters.observation.instance_description import machine_of
from adapters.ports import (
    ConflictError,
    DeniedError,
    Instance,
    InsufficientCapacityError,
    PortError,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.ledger.outcome import DecisionOutcome, OutcomeState
from core.lifecycle.launching.shared_launch import is_unanswered
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.model.catalogue import Catalogue
from core.model.values import resources
from core.reasons.claim import ClaimReason
from core.reasons.code import ReasonCode
from core.reasons.decision import DecisionKind
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.launching.instance_outcomes import launch_outcome
from lambdas.controllers.launching.launch_answer import LaunchAnswer
from lambdas.controllers.launching.launch_tokens import LaunchTokens

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
                return self._renewed(record, error)
            tried = self._tried(record, error)
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
        holds = resources.add(machine.capacity, {"nodes": 1}) if machine.capacity else record.reserved
        after = msgspec.structs.replace(
            record,
            phase=ClaimPhase.LAUNCHED,
            phase_since=now,
            plan=msgspec.structs.replace(record.plan, instance_types=()),
            offerings=(),
            subnets={},
            awaits_pods=False,
            machine=machine,
            reserved=holds,
            reason="",
            message="",
        )
        return self._claims.change(record, after)

    def _tried(self, record: ClaimRecord, error: PortError) -> ClaimRecord:
        """Return the claim after an inconclusive answer; the next try first looks for an instance with its tag.

        The token stays, so that the same order cannot launch twice; it is replaced only if EC2 knows it from another order. A
        claim that shares a launch then checks once whether an instance of the launch is left for it.
        A throttled request launched nothing: the claims go on sharing it, as if it had not been sent. Only its first failure is
        written, so that no writer meets another.
        """
        if isinstance(error, ThrottledError):
            return record if record.reason == ClaimReason.LAUNCH_FAILED else _failed(record, error)
        attempts = record.attempts + 1
        tried = msgspec.structs.replace(_failed(record, error), attempts=attempts)
        if not isinstance(error, ConflictError) or (record.shares > 1 and not record.attempts):
            return tried
        return msgspec.structs.replace(
            tried, token=self._tokens.of(record.name, attempts, record.plan.made_by_hand), shares=1, share=0, first=""
        )

    def _renewed(self, record: ClaimRecord, error: UnfulfilledError) -> ClaimRecord:
        """Give a claim a new token, the same one to all that share its launch: EC2 repeats its answer to the old one.

        Another run may have written the row in the meantime, for example since its request was throttled.
        """
        token, current = self._tokens.again(record.token), record
        for attempt in range(1, STORE_ATTEMPTS + 1):
            try:
                return self._claims.change(current, msgspec.structs.replace(_failed(current, error), token=token))
            except ConflictError:
                latest = self._claims.get(record.name)
                if attempt == STORE_ATTEMPTS or latest is None or not is_unanswered(latest, record.first):
                    raise
                current = latest
        raise ConflictError("store", f"claim {record.name} was not tried to be stored")


def _failed(record: ClaimRecord, error: PortError) -> ClaimRecord:
    return msgspec.structs.replace(record, reason=ClaimReason.LAUNCH_FAILED, message=str(error)[:300])


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
