"""Limits which of a claim's offerings may be requested from EC2 now, and remembers EC2's refusals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import groupby
from typing import Final

import msgspec

from adapters.ports import ConflictError, JsonObject, PortError, RefusedOffering
from adapters.run_report import RunReport
from adapters.store import LaunchDenials, OfferingProbe, UnavailableOfferings
from core.launch.denials.codes import Remembered, rule_of
from core.launch.denials.denial import DeniedLaunch, LaunchDenial, revision_of
from core.launch.denials.subnets import closed_zones, refused_subnets, subnet_by_zone, subnet_key, subnets_of
from core.launch.placement import is_confined
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Offering, OfferingKey
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.denial_memory import DenialMemory, could_not

_ALSO_IN_SUCCESS: Final = (Remembered.QUOTA, Remembered.CAPACITY_TYPE)
"""Codes that are remembered although another offering of the same request was launched."""

NO_CAPACITY: Final = "EC2 recently had no capacity for its offerings"


class Admission(msgspec.Struct, frozen=True):
    """Permission to ask EC2.

    Attributes:
        offerings: The offerings to request, cheapest first.
        denials: The known denials of the EC2NodeClass at that moment.
        subnets: Zone → the subnet to request there; the first one of the class in other zones.
        avoided_subnets: Subnets recently without free addresses.
        probe: Those of the offerings that refused recently and that only this launch tries.
    """

    offerings: tuple[Offering, ...]
    denials: tuple[LaunchDenial, ...]
    subnets: dict[str, str] = {}
    avoided_subnets: tuple[str, ...] = ()
    probe: OfferingProbe = OfferingProbe()

    @property
    def tries(self) -> tuple[str, ...]:
        """Codes of the denials that the node disproves if it joins."""
        return tuple(denial.code for denial in self._of_starts())

    @property
    def is_try(self) -> bool:
        """Whether instances of the class ended while they started, so that only one is launched until its node joins."""
        return any(denial.is_engaged for denial in self._of_starts())

    def _of_starts(self) -> Iterator[LaunchDenial]:
        for denial in self.denials:
            if denial.is_of_starts and any(denial.scope.covers(offering.key) for offering in self.offerings):
                yield denial


class LaunchGate:
    """Keeps launches from offerings that EC2 denied or had no capacity for, and lets one launch retry after a pause."""

    def __init__(self, denials: LaunchDenials, unavailable: UnavailableOfferings) -> None:
        self._denials = denials
        self._memory = DenialMemory(denials)
        self._unavailable = unavailable

    def admit(self, record: ClaimRecord, node_class: JsonObject, now: datetime) -> Admission | Refusal:
        """Return the offerings to request for the claim, or why none is left.

        A claim that was tried before requests the same offerings again: its instance may exist already.

        Raises:
            PortError: If the table does not answer.
        """
        known = tuple(d for d in self._denials.all() if d.node_class == record.plan.node_class.name)
        refused = self._unavailable.refused(now)
        if record.attempts:
            return Admission(record.offerings, known, record.subnets)
        revision = revision_of(node_class)
        engaged = [denial for denial in known if denial.is_engaged]
        paused = [denial for denial in engaged if denial.is_paused(now, revision)]
        own, full = subnets_of(node_class), refused_subnets(refused.avoided)
        closed = closed_zones(own, refused.avoided)
        left = tuple(
            o
            for o in record.offerings
            if o.key not in refused.avoided and o.zone not in closed and not _covers_any(paused, o.key)
        )
        if not left:
            message = "; ".join(denial.explanation() for denial in paused) or NO_CAPACITY
            return Refusal(ClaimReason.LAUNCH_HELD_BACK, message)
        is_full = any(subnet in full for subnet, _ in own)
        subnets = subnet_by_zone(own, record.subnets, full) if is_full else record.subnets
        admission = Admission(left, known, subnets, tuple(sorted(full)))
        half_open = [denial for denial in engaged if denial not in paused]
        if any(requirement.min_values is not None for requirement in record.plan.requirements):
            whole = msgspec.structs.replace(admission, offerings=record.offerings)
            return self._past_denials(whole, half_open, now)  # fewer types may violate minValues
        if not is_confined(record.plan.requirements, node_class):
            admission = self._with_probe(admission, refused.half_open, now)
            if not admission.offerings:
                return Refusal(ClaimReason.LAUNCH_HELD_BACK, f"another launch is retrying: {NO_CAPACITY}")
        found = self._past_denials(admission, half_open, now)
        if isinstance(found, Refusal):
            self._unavailable.end(admission.probe, ())
        return found

    def learn(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        admission: Admission,
        refused: Iterable[RefusedOffering],
        call: str,
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember a failed launch.

        A failure to store it only costs a wasted launch, so it does not fail this launch.
        """
        refused = tuple(refused)
        self._mark(record, node_class, refused, now, report)
        self._end(admission.probe, (), report)
        for found in _by_code(refused):
            if rule_of(found[0].code).remembered is not Remembered.SUBNET:  # the next subnet of the zone may work
                self._memory.add(_denied(record, node_class, found, call), now, report)

    def succeeded(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        admission: Admission,
        launched: Collection[OfferingKey],
        refused: Iterable[RefusedOffering],
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember the refusals beside a successful launch, and drop the denials that it disproves.

        Denials of instances that ended while they started stay until a node joins (`FailedStarts.disprove`).
        """
        refused = tuple(refused)
        self._mark(record, node_class, refused, now, report)
        self._end(admission.probe, launched, report)
        for found in _by_code(refused):
            denied = _denied(record, node_class, found, "ec2:CreateFleet")
            if rule_of(denied.code).remembered in _ALSO_IN_SUCCESS and not any(map(denied.scope.covers, launched)):
                self._memory.add(denied, now, report)
        for denial in admission.denials:
            if any(map(denial.scope.covers, launched)) and not denial.is_of_starts:
                self._memory.drop(denial, ClaimReason.LAUNCHED, report)

    def _with_probe(self, admission: Admission, half_open: AbstractSet[OfferingKey], now: datetime) -> Admission:
        """Return the admission with those half-open offerings that no other launch in any cluster is trying."""
        asking = [offering.key for offering in admission.offerings if offering.key in half_open]
        if not asking:
            return admission
        probe = self._unavailable.probe(asking, now)
        offerings = tuple(o for o in admission.offerings if o.key not in half_open or o.key in probe.offerings)
        return msgspec.structs.replace(admission, offerings=offerings, probe=probe)

    def _past_denials(self, admission: Admission, half_open: list[LaunchDenial], now: datetime) -> Admission | Refusal:
        """Return the admission without denied offerings; if all are denied, permission for one claim at a time to retry."""
        free = tuple(o for o in admission.offerings if not _covers_any(half_open, o.key))
        if free:
            return msgspec.structs.replace(admission, offerings=free)
        asking = [d for d in half_open if any(d.scope.covers(o.key) for o in admission.offerings)]
        try:
            probed = {id(denial): self._denials.change(denial, denial.probed(now)) for denial in asking}
        except ConflictError:
            return Refusal(ClaimReason.LAUNCH_HELD_BACK, f"another claim is retrying: {asking[0].explanation()}")
        denials = tuple(probed.get(id(denial), denial) for denial in admission.denials)
        return msgspec.structs.replace(admission, denials=denials)

    def _end(self, probe: OfferingProbe, launched: Iterable[OfferingKey], report: RunReport) -> None:
        """End the probe; if that fails, it expires."""
        try:
            self._unavailable.end(probe, launched)
        except PortError as error:
            could_not(f"{len(probe.offerings)} offerings that were tried again", error, report)

    def _mark(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        refused: tuple[RefusedOffering, ...],
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember offerings and subnets for all clusters; of a confined launch only subnets (the rest is a denial)."""
        is_shared = not is_confined(record.plan.requirements, node_class)
        capacity = (found for found in refused if rule_of(found.code).remembered is Remembered.OFFERINGS)
        keys = {found.offering for found in capacity if is_shared}
        full = (found.subnet for found in refused if rule_of(found.code).remembered is Remembered.SUBNET)
        keys |= {subnet_key(subnet) for subnet in full if subnet}
        if not keys:
            return
        try:
            self._unavailable.mark(keys, now)
        except PortError as error:
            could_not(f"{len(keys)} offerings", error, report)


def _by_code(refused: Iterable[RefusedOffering]) -> Iterator[tuple[RefusedOffering, ...]]:
    ordered = sorted(refused, key=lambda found: (found.code, found.offering))
    for _, group in groupby(ordered, key=lambda found: found.code):
        yield tuple(group)


def _denied(
    record: ClaimRecord, node_class: JsonObject, refused: tuple[RefusedOffering, ...], call: str
) -> DeniedLaunch:
    return DeniedLaunch(
        node_class=record.plan.node_class.name,
        code=refused[0].code,
        call=call,
        message=refused[0].message,
        offerings=tuple(found.offering for found in refused),
        node_pool=record.plan.node_pool,
        revision=revision_of(node_class),
        is_confined=is_confined(record.plan.requirements, node_class),
    )


def _covers_any(denials: Iterable[LaunchDenial], key: OfferingKey) -> bool:
    return any(denial.scope.covers(key) for denial in denials)
