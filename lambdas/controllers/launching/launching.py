"""Launches a planned claim: the intent is stored first, then EC2 is called, then the answer is stored."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Final

import msgspec

from core import api, labels
from core.errors import InvalidInputError
from core.ledger.outcome import DecisionOutcome, OutcomeState
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.model.catalogue import Catalogue, OfferingKey
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values import resources
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.refusal import Refusal
from lambdas.brakes.joining import went
from lambdas.controllers.launching.claim_record import order_of, requested, with_class_hash
from lambdas.controllers.launching.instance_description import machine_of
from lambdas.controllers.launching.instance_outcomes import came
from lambdas.controllers.launching.launch_gate import LaunchGate
from lambdas.observation.observer import Stores
from lambdas.ports import (
    CloudProvider,
    ConflictError,
    DeniedError,
    Instance,
    InsufficientCapacityError,
    JsonObject,
    LaunchDeniedError,
    PortError,
    RefusedOffering,
    TransientError,
)
from lambdas.run_report import RunReport

STORE_ATTEMPTS: Final = 3
"""Attempts to store an instance. After the last one `execute` finds the instance by its tag and adopts it."""


class Launcher:
    """Turns planned claims into records, and records into instances."""

    def __init__(self, cloud: CloudProvider, stores: Stores, *, cluster: str, uses_reservations: bool = True) -> None:
        self._cloud = cloud
        self._claims = stores.claims
        self._breakers = stores.breakers
        self._gate = LaunchGate(stores.denials, stores.unavailable)
        self._cluster = cluster
        self._uses_reservations = uses_reservations

    def record(self, planned: PlannedClaim, name: str, snapshot: Snapshot, now: datetime) -> ClaimRecord | Refusal:
        """Return the record to store before the launch, or why there is none where nothing can be launched."""
        return requested(planned, name, self._token(name, 0), snapshot, now)

    def launch(
        self, record: ClaimRecord, node_class: JsonObject, catalogue: Catalogue, now: datetime, report: RunReport
    ) -> ClaimRecord | None:
        """Launch the claim's instance and store it.

        Returns:
            The claim as launched, or as it was where EC2's answer is unknown; None where EC2 refused and the claim is
            forgotten, so that its pods are planned again.

        Raises:
            PortError: If the table does not accept the answer; the same token returns the same instance later.
        """
        admission = self._gate.admit(record, node_class, now)
        if isinstance(admission, Refusal):
            report.count("heldBackLaunches")
            report.decide(DecisionKind.FORGET, record.name, admission.reason, admission.message)
            report.outcomes.append(refused(record, ClaimReason.LAUNCH_HELD_BACK, admission.message, now))
            self._claims.forget(record)
            return None
        asked = msgspec.structs.replace(record, offerings=admission.offerings, plan=_of_class(record, node_class))
        if asked != record:
            record = self._claims.change(record, asked)
        try:
            avoided = admission.avoided_subnets
            order = order_of(
                record,
                node_class,
                catalogue,
                cluster=self._cluster,
                avoided_subnets=avoided,
                uses_reservations=self._uses_reservations,
            )
            launched = self._cloud.launch(order)
        except InsufficientCapacityError as error:
            self._gate.learn(record, node_class, error.refused, error.call, now, report)
            report.count("refusedLaunches")
            report.decide(DecisionKind.FORGET, record.name, ClaimReason.INSUFFICIENT_CAPACITY, str(error))
            report.outcomes.append(refused(record, ClaimReason.INSUFFICIENT_CAPACITY, str(error), now))
            self._claims.forget(record)
            return None
        except DeniedError as error:
            self._gate.learn(record, node_class, _denied_offerings(record, error), error.call, now, report)
            report.count("deniedLaunches")
            report.decide(DecisionKind.FORGET, record.name, ClaimReason.LAUNCH_DENIED, str(error))
            report.outcomes.append(refused(record, ClaimReason.LAUNCH_DENIED, str(error), now))
            self._claims.forget(record)
            went(self._breakers, record, ClaimReason.LAUNCH_DENIED, now, report)
            return None
        except (TransientError, ConflictError) as error:
            report.count("unclearLaunches")
            return self._claims.change(record, self._tried(record, error))
        report.decide(DecisionKind.LAUNCH, record.name, ClaimReason.LAUNCHED, _described(launched.instance, record))
        report.outcomes.append(_ended(record, OutcomeState.DONE, ClaimReason.LAUNCHED, "", now))
        stored = self._stored(record, launched.instance, catalogue, now)
        report.outcomes += came(stored, launched.instance.launched_at)
        key = _key_of(launched.instance)
        self._gate.succeeded(record, node_class, admission, key, launched.refused, now, report)
        return stored

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
        """As `adopt`, for a machine that is described already."""
        holds = resources.add(machine.capacity, {"nodes": 1}) if machine.capacity else record.reserved
        after = msgspec.structs.replace(
            record,
            phase=ClaimPhase.LAUNCHED,
            phase_since=now,
            plan=msgspec.structs.replace(record.plan, instance_types=()),
            offerings=(),
            awaits_pods=False,
            machine=machine,
            reserved=holds,
            reason="",
            message="",
        )
        return self._claims.change(record, after)

    def _tried(self, record: ClaimRecord, error: PortError) -> ClaimRecord:
        """Return the claim after an inconclusive answer; the next try first looks for an instance with its tag.

        The token stays, so that the same order cannot launch twice; it is replaced only where EC2 knows it from another order.
        """
        attempts = record.attempts + 1
        token = self._token(record.name, attempts) if isinstance(error, ConflictError) else record.token
        return msgspec.structs.replace(
            record, attempts=attempts, token=token, reason=ClaimReason.LAUNCH_FAILED, message=str(error)[:300]
        )

    def _token(self, name: str, attempt: int) -> str:
        return blake2b(f"{self._cluster}/{name}/{attempt}".encode(), digest_size=16).hexdigest()


def refused(record: ClaimRecord, reason: ClaimReason, message: str, now: datetime) -> DecisionOutcome:
    """Return the outcome of a failed claim for the ledger."""
    return _ended(record, OutcomeState.REFUSED, reason, message, now)


def _ended(
    record: ClaimRecord, state: OutcomeState, reason: ClaimReason, message: str, now: datetime
) -> DecisionOutcome:
    decision = record.plan.annotations.get(labels.DECISION, "")
    return DecisionOutcome(decision=decision, part=record.name, state=state, at=now, reason=reason, message=message)


def _of_class(record: ClaimRecord, node_class: JsonObject) -> PlannedClaim:
    """Return the claim's plan with the hash of the class that launches it, which may have been edited since the plan."""
    if record.attempts:
        return record.plan
    try:
        return with_class_hash(record.plan, [api.node_class(node_class)])
    except InvalidInputError:
        return record.plan  # the launch is denied, with the reason


def _denied_offerings(record: ClaimRecord, error: DeniedError) -> tuple[RefusedOffering, ...]:
    """Return the denied offerings: all requested ones, where the error does not name them."""
    if isinstance(error, LaunchDeniedError):
        return error.refused
    return tuple(RefusedOffering(offering.key, error.code, error.said) for offering in record.offerings)


def _key_of(instance: Instance) -> OfferingKey:
    return OfferingKey(instance.instance_type, instance.zone, instance.capacity_type, instance.reservation_id)


def _described(instance: Instance, record: ClaimRecord) -> str:
    where = f"{instance.instance_type} {instance.capacity_type} in {instance.zone}"
    return f"{instance.instance_id} ({where}) for {len(record.plan.pods)} pods"
