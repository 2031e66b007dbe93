"""Limits which of a claim's offerings EC2 may be asked for now, and remembers EC2's refusals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Final

import msgspec

from core.launch.denials.codes import Remembered, rule_of
from core.launch.denials.denial import DeniedLaunch, LaunchDenial, revision_of
from core.launch.denials.subnets import closed_zones, refused_subnets, subnet_key, subnets_of
from core.launch.placement import is_confined
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Offering, OfferingKey
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.refusal import Refusal
from lambdas.ports import ConflictError, JsonObject, PortError, RefusedOffering, reason_of
from lambdas.run_report import RunReport
from lambdas.store import LaunchDenials, UnavailableOfferings

TRIES: Final = 5
"""Most attempts to write a denial that others write, too: denials of one cause come together."""

_ALSO_IN_SUCCESS: Final = (Remembered.QUOTA, Remembered.CAPACITY_TYPE)
"""Codes that are remembered although another offering of the same request was launched."""


class Admission(msgspec.Struct, frozen=True):
    """Permission to ask EC2.

    Attributes:
        offerings: The offerings to request, cheapest first.
        denials: The known denials of the EC2NodeClass at that moment.
        avoided_subnets: Subnets recently without free addresses.
    """

    offerings: tuple[Offering, ...]
    denials: tuple[LaunchDenial, ...]
    avoided_subnets: tuple[str, ...] = ()


class LaunchGate:
    """Keeps launches away from offerings that EC2 denied or had no capacity for, and lets one retry when a pause is over."""

    def __init__(self, denials: LaunchDenials, unavailable: UnavailableOfferings) -> None:
        self._denials = denials
        self._unavailable = unavailable

    def admit(self, record: ClaimRecord, node_class: JsonObject, now: datetime) -> Admission | Refusal:
        """Return what the claim may be launched as, or why not where nothing is left.

        A claim that was tried before requests the same offerings again: its instance may exist already.

        Raises:
            PortError: If the table does not answer.
        """
        known = tuple(d for d in self._denials.all() if d.node_class == record.plan.node_class.name)
        refused = self._unavailable.active(now)
        avoided = tuple(sorted(refused_subnets(refused)))
        if record.attempts:
            return Admission(record.offerings, known)
        revision = revision_of(node_class)
        engaged = [denial for denial in known if denial.is_engaged]
        paused = [denial for denial in engaged if denial.is_paused(now, revision)]
        closed = closed_zones(subnets_of(node_class), refused)
        left = [
            o
            for o in record.offerings
            if o.key not in refused and o.zone not in closed and not _covers_any(paused, o.key)
        ]
        if not left:
            message = (
                "; ".join(denial.explanation() for denial in paused) or "EC2 had none of its offerings a moment ago"
            )
            return Refusal(ClaimReason.LAUNCH_HELD_BACK, message)
        if any(requirement.min_values is not None for requirement in record.plan.requirements):
            left = list(record.offerings)  # fewer types may violate minValues
        half_open = [denial for denial in engaged if denial not in paused]
        free = tuple(o for o in left if not _covers_any(half_open, o.key))
        if free:
            return Admission(free, known, avoided)
        return self._probe(Admission(tuple(left), known, avoided), half_open, now)

    def learn(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        refused: Iterable[RefusedOffering],
        call: str,
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember a failed launch.

        A failure to store it only costs a wasted launch, so it does not lose this launch's answer.
        """
        refused = tuple(refused)
        self._mark(record, node_class, refused, now, report)
        for found in _by_code(refused):
            if rule_of(found[0].code).remembered is not Remembered.SUBNET:  # the next subnet of the zone may work
                self._deny(_denied(record, node_class, found, call), now, report)

    def succeeded(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        admission: Admission,
        launched: OfferingKey,
        refused: Iterable[RefusedOffering],
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember the refusals on the way to a successful launch, and drop the denials that it disproved."""
        refused = tuple(refused)
        self._mark(record, node_class, refused, now, report)
        for found in _by_code(refused):
            denied = _denied(record, node_class, found, "ec2:CreateFleet")
            if rule_of(denied.code).remembered in _ALSO_IN_SUCCESS and not denied.scope.covers(launched):
                self._deny(denied, now, report)
        for denial in admission.denials:
            if denial.scope.covers(launched):
                self._let_go(denial, report)

    def _probe(self, admission: Admission, half_open: list[LaunchDenial], now: datetime) -> Admission | Refusal:
        """Return permission to retry what was denied, for one claim at a time."""
        asking = [d for d in half_open if any(d.scope.covers(o.key) for o in admission.offerings)]
        try:
            probed = {id(denial): self._denials.change(denial, denial.probed(now)) for denial in asking}
        except ConflictError:
            return Refusal(ClaimReason.LAUNCH_HELD_BACK, f"another claim asks again: {asking[0].explanation()}")
        denials = tuple(probed.get(id(denial), denial) for denial in admission.denials)
        return msgspec.structs.replace(admission, denials=denials)

    def _deny(self, found: DeniedLaunch, now: datetime, report: RunReport) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                self._deny_once(found, now)
            except ConflictError as error:
                if attempt == TRIES:
                    _could_not(f"denial {found.code}", error, report)
            except PortError as error:
                _could_not(f"denial {found.code}", error, report)
                return
            else:
                return

    def _deny_once(self, found: DeniedLaunch, now: datetime) -> None:
        same = (d for d in self._denials.all() if (d.node_class, d.code) == (found.node_class, found.code))
        before = next(same, None)
        first = LaunchDenial(node_class=found.node_class, code=found.code)
        self._denials.change(before, (before or first).after(found, now))

    def _let_go(self, denial: LaunchDenial, report: RunReport) -> None:
        try:
            self._denials.remove(denial)
        except ConflictError:
            return  # it was denied again meanwhile, or another claim is retrying
        except PortError as error:
            _could_not(f"denial {denial.code}", error, report)
            return
        if denial.is_engaged:
            report.decide(
                DecisionKind.RELEASE,
                f"EC2NodeClass {denial.node_class}",
                ClaimReason.LAUNCHED,
                f"no longer {denial.code}",
            )

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
            _could_not(f"{len(keys)} offerings", error, report)


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


def _could_not(what: str, error: PortError, report: RunReport) -> None:
    report.count("portErrors")
    report.decide(DecisionKind.SKIP, what, reason_of(error), str(error))
