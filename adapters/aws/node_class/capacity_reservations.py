"""Finds the capacity reservations of an EC2NodeClass: EC2's On-Demand Capacity Reservations and Capacity Blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from adapters.aws.node_class.network import tag_filters
from adapters.aws.service import AwsService
from adapters.ports import JsonObject, NotFoundError
from core.catalogue.discovered.reservation_end import leaves_at
from core.catalogue.node_class import (
    ACTIVE,
    CAPACITY_BLOCK,
    DEFAULT_RESERVATION,
    EXPIRING,
    UPCOMING,
    CapacityReservation,
    EC2NodeClass,
    ReservationTerm,
)
from core.launch.placement import SHARED

_PAGE: Final = 1000
_KINDS: Final = (DEFAULT_RESERVATION, CAPACITY_BLOCK)
_CRITERIA: Final = ("open", "targeted")
_LINUX: Final = "Linux/UNIX"
_WINDOWS: Final = "Windows"
_SIZE_TAG: Final = "aws:ec2capacityreservation:incrementalRequestedQuantity"


class CapacityReservations:
    """Looks up reservations by the terms of a class.

    Args:
        ec2: The client.
        own_instances: Reservation ids → how many living instances of ours each holds.
    """

    def __init__(self, ec2: AwsService, own_instances: Callable[[Sequence[str]], Mapping[str, int]]) -> None:
        self._ec2 = ec2
        self._own_instances = own_instances

    def resolve(self, node_class: EC2NodeClass, now: datetime) -> list[JsonObject]:
        """Return `status.capacityReservations`, by id, each with an additional `places`. Raises PortError.

        Those that have not begun have EC2's state and an additional `startTime`. It excludes ended and dedicated ones, and
        those that the class's images cannot be launched into.
        """
        found: dict[str, JsonObject] = {}
        for described in self._matching(node_class.spec.capacity_reservation_selector_terms):
            if _is_usable(described, node_class, now):
                found[described["CapacityReservationId"]] = described
        own_instances = self._own_instances(sorted(found)) if found else {}
        return [{**_entry(found[one], now), "places": _places(found[one], own_instances[one])} for one in sorted(found)]

    def _matching(self, terms: Sequence[ReservationTerm]) -> Iterator[JsonObject]:
        ids = sorted({term.id for term in terms if term.id})
        yield from self._by_id(ids)
        for term in terms:
            if not term.id:
                yield from self._ec2.items(
                    "DescribeCapacityReservations", "CapacityReservations", Filters=_filters(term), MaxResults=_PAGE
                )

    def _by_id(self, ids: Sequence[str]) -> Iterable[JsonObject]:
        """Return the reservations with these ids.

        EC2 refuses a whole call for one unknown id; then each id is requested alone.
        """
        if not ids:
            return ()
        try:
            return list(
                self._ec2.items(
                    "DescribeCapacityReservations",
                    "CapacityReservations",
                    CapacityReservationIds=list(ids),
                )
            )
        except NotFoundError:
            if len(ids) == 1:
                return ()
            return [described for one in ids for described in self._by_id([one])]


def _filters(term: ReservationTerm) -> list[JsonObject]:
    named = {
        "owner-id": term.owner_id,
        "instance-match-criteria": term.instance_match_criteria,
    }
    filters: list[JsonObject] = [{"Name": name, "Values": [value]} for name, value in named.items() if value]
    return [*filters, *tag_filters(term.tags)]


def _is_usable(described: JsonObject, node_class: EC2NodeClass, now: datetime) -> bool:
    end = described.get("EndDate")
    return bool(
        (described.get("State") == ACTIVE or (described.get("State") in UPCOMING and described.get("StartDate")))
        and (end is None or end > now)
        and described.get("ReservationType", DEFAULT_RESERVATION) in _KINDS
        and described.get("InstanceMatchCriteria") in _CRITERIA
        and described.get("Tenancy", SHARED) == SHARED
        and _is_of_platform(described, node_class)
    )


def _is_of_platform(described: JsonObject, node_class: EC2NodeClass) -> bool:
    """Whether the class can use the reservation's platform.

    A class with custom images may use any: only its owner knows their billing.
    """
    family = node_class.family
    if not node_class.alias:
        return True
    platform: str = described.get("InstancePlatform", _LINUX)
    return platform == (_WINDOWS if family.windows_build else _LINUX)


def _entry(described: JsonObject, now: datetime) -> JsonObject:
    end = described.get("EndDate")
    entry = {
        "id": described["CapacityReservationId"],
        "instanceType": described["InstanceType"],
        "availabilityZone": described["AvailabilityZone"],
        "ownerID": described.get("OwnerId", ""),
        "instanceMatchCriteria": described["InstanceMatchCriteria"],
        "reservationType": described.get("ReservationType", DEFAULT_RESERVATION),
        "state": described["State"],
    }
    if end is not None:
        entry["endTime"] = _written(end)
    if described["State"] in UPCOMING:
        entry["startTime"] = _written(described["StartDate"])
    leaves = leaves_at(msgspec.convert(entry, CapacityReservation))
    if described["State"] == ACTIVE and leaves is not None and leaves <= now:
        entry["state"] = EXPIRING
    return {**entry, "interruptible": True} if described.get("Interruptible") else entry


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _places(described: JsonObject, own_instances: int) -> int:
    """Return how many of our instances fit: the free places, and those that ours hold.

    An instance that is launched between the two calls counts in both figures; the reservation's size bounds the error.
    Before the start nothing is free, and a tag has the size of a block (EC2).
    """
    if described["State"] in UPCOMING:
        sizes = [str(tag.get("Value", "")) for tag in described.get("Tags") or () if tag.get("Key") == _SIZE_TAG]
        return max(
            [int(size) for size in sizes if size.isdecimal()], default=int(described.get("TotalInstanceCount", 0))
        )
    return int(min(described.get("AvailableInstanceCount", 0) + own_instances, described.get("TotalInstanceCount", 0)))
