"""Requests the instances of claims from EC2: each request is stored first, and refusals are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from adapters.brakes.joining import count_failure
from adapters.observation.stores import Stores
from adapters.ports import (
    CloudProvider,
    ConflictError,
    DeniedError,
    Instance,
    InsufficientCapacityError,
    JsonObject,
    LaunchDeniedError,
    PortError,
    RefusedOffering,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from adapters.run_report import RunReport
from core import api
from core.errors import InvalidInputError
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue, OfferingKey
from core.model.launch_order import LaunchOrder
from core.model.plan import PlannedClaim
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.claim_record import order_of, with_class_hash
from lambdas.controllers.launching.launch_answer import LaunchAnswer
from lambdas.controllers.launching.launch_gate import Admission, LaunchGate


class LaunchRequests:
    """The requests to EC2 for claims whose records are stored."""

    def __init__(self, cloud: CloudProvider, stores: Stores, *, cluster: str, uses_reservations: bool = True) -> None:
        self._cloud = cloud
        self._claims = stores.claims
        self._breakers = stores.breakers
        self._gate = LaunchGate(stores.denials, stores.unavailable)
        self._cluster = cluster
        self._uses_reservations = uses_reservations

    def ask(
        self,
        records: Sequence[ClaimRecord],
        node_class: JsonObject,
        catalogue: Catalogue,
        now: datetime,
        report: RunReport,
    ) -> LaunchAnswer:
        """Request the instances of claims that share a launch, and remember EC2's refusals.

        If only some claims of a shared launch are given, another run may have requested it, so EC2 is not asked. Each claim
        then looks for an instance of the launch; without one it is launched alone.

        Raises:
            PortError: If the request cannot be stored in the table.
        """
        first = records[0]
        if len(records) < first.shares:
            unknown = ConflictError(
                "ec2:CreateFleet", "another run may have requested the launch that this claim shares"
            )
            return LaunchAnswer(asked={record.name: record for record in records}, error=unknown)
        admission = self._gate.admit(first, node_class, now)
        if isinstance(admission, Refusal):
            return LaunchAnswer(held_back=admission)
        keeps_plan = bool(first.attempts)
        is_try = admission.is_try and first.shares > 1
        stored = records[:1] if is_try else records
        asked = {record.name: self._asked(record, admission, node_class, keeps_plan) for record in stored}
        first = asked[first.name]
        order = self._order(first, node_class, catalogue, admission)
        try:
            launched = self._cloud.launch(msgspec.structs.replace(order, count=1) if is_try else order)
        except (InsufficientCapacityError, ThrottledError, UnfulfilledError) as error:
            self._gate.learn(first, node_class, admission, _refused(error), error.call, now, report)
            return LaunchAnswer(asked=asked, error=error, is_try=is_try)
        except DeniedError as error:
            self._gate.learn(first, node_class, admission, _denied_offerings(first, error), error.call, now, report)
            count_failure(self._breakers, first, ClaimReason.LAUNCH_DENIED, now, report)
            return LaunchAnswer(asked=asked, error=error, is_try=is_try)
        except (TransientError, ConflictError) as error:
            return LaunchAnswer(asked=asked, error=error, is_try=is_try)
        keys = frozenset(map(_key_of, launched.instances))
        self._gate.succeeded(first, node_class, admission, keys, launched.refused, now, report)
        return LaunchAnswer(asked=asked, launched=launched, is_try=is_try)

    def _asked(
        self, record: ClaimRecord, admission: Admission, node_class: JsonObject, keeps_plan: bool
    ) -> ClaimRecord:
        """Store the request before it is sent: the same token must mean the same request."""
        plan = record.plan if keeps_plan else _of_class(record, node_class)
        asked = msgspec.structs.replace(
            record, offerings=admission.offerings, subnets=admission.subnets, plan=plan, tries=admission.tries
        )
        return self._claims.change(record, asked) if asked != record else record

    def _order(
        self, record: ClaimRecord, node_class: JsonObject, catalogue: Catalogue, admission: Admission
    ) -> LaunchOrder:
        return order_of(
            record,
            node_class,
            catalogue,
            cluster=self._cluster,
            avoided_subnets=admission.avoided_subnets,
            uses_reservations=self._uses_reservations,
        )


def _of_class(record: ClaimRecord, node_class: JsonObject) -> PlannedClaim:
    """Return the claim's plan with the hash of the launching class, which may have been edited since the plan."""
    try:
        return with_class_hash(record.plan, [api.node_class(node_class)])
    except InvalidInputError:
        return record.plan  # EC2 denies the launch and states the reason


def _refused(error: PortError) -> tuple[RefusedOffering, ...]:
    """Return the offerings without capacity; none if EC2 did nothing."""
    return error.refused if isinstance(error, InsufficientCapacityError) else ()


def _denied_offerings(record: ClaimRecord, error: DeniedError) -> tuple[RefusedOffering, ...]:
    """Return the denied offerings: all requested ones if the error names none."""
    if isinstance(error, LaunchDeniedError):
        return error.refused
    return tuple(RefusedOffering(offering.key, error.code, error.said) for offering in record.offerings)


def _key_of(instance: Instance) -> OfferingKey:
    return OfferingKey(instance.instance_type, instance.zone, instance.capacity_type, instance.reservation_id)
