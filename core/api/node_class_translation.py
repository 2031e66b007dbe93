"""Translates an EC2NodeClass whose spec is valid, with what its status and annotations say it resolves to."""

from __future__ import annotations

from datetime import datetime

from core import labels
from core.api import drift_hash, status
from core.api.objects import JsonObject, mapping, sequence
from core.api.schemas.ec2_node_class import EC2NodeClassSpec
from core.catalogue.discovered.address_reading import reading_of
from core.catalogue.discovered.placement_group import placement_group_of
from core.catalogue.discovered.reservation_end import leaves_at
from core.catalogue.node_class import CapacityReservation, EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.model.node_pool import NodeClass
from core.model.values.requirements import Requirement


def node_class_of(spec: EC2NodeClassSpec, present: JsonObject) -> NodeClass:
    """Return the class in the model; `present` is the object of version v1 without nulls, `spec` its spec."""
    found, resolved = mapping(present.get("status")), _resolved(present)
    identity, subnets = status.identity(present), status.identified(found.get("subnets"))
    return NodeClass(
        name=identity["name"],
        uid=identity["uid"],
        deleted_at=identity["deleted_at"],
        is_ready=status.is_ready(present),
        amis=tuple((str(ami["id"]), _raw_requirements(ami)) for ami in status.identified(found.get("amis"))),
        security_groups=tuple(str(group["id"]) for group in status.identified(found.get("securityGroups"))),
        subnets=tuple((str(net["id"]), str(net.get("zone", ""))) for net in subnets),
        reservations=_reservations(found, resolved),
        reservation_begins=_reservation_begins(resolved),
        reservation_ends=_reservation_ends(resolved),
        placement_group=_placement_group(resolved),
        addresses_per_node=_addresses_per_node(resolved),
        zone_ids={str(net["zoneID"]): str(net["zone"]) for net in subnets if net.get("zoneID") and net.get("zone")},
        own_annotations=status.annotations_of(present),
        spec_hash=drift_hash.of_node_class(spec, present["spec"]),
    )


def _reservations(found: JsonObject, resolved: EC2NodeClass | None) -> tuple[str, ...] | None:
    """Return the ids of the reservations that a class selects, None where its status says nothing of them."""
    if found.get("capacityReservations") is None:
        return None
    begun = tuple(str(one["id"]) for one in status.identified(found["capacityReservations"]))
    return (*begun, *(one.id for one in _upcoming(resolved)))


def _resolved(present: JsonObject) -> EC2NodeClass | None:
    """Return the class with its status; None where a field of the status, which others may write, has a wrong type."""
    try:
        return read_node_class(present)
    except InvalidInputError:
        return None


def _reservation_begins(resolved: EC2NodeClass | None) -> dict[str, datetime]:
    found = _upcoming(resolved)
    if not found:
        return {}
    from core.catalogue.discovered.upcoming_reservations import begins_at

    return {one.id: begins for one in found if (begins := begins_at(one)) is not None}


def _reservation_ends(resolved: EC2NodeClass | None) -> dict[str, datetime]:
    begun = resolved.status.capacity_reservations if resolved is not None else ()
    return {one.id: leaves for one in (*begun, *_upcoming(resolved)) if (leaves := leaves_at(one)) is not None}


def _upcoming(resolved: EC2NodeClass | None) -> tuple[CapacityReservation, ...]:
    if resolved is None or labels.UPCOMING_RESERVATIONS not in resolved.metadata.annotations:
        return ()
    from core.catalogue.discovered.upcoming_reservations import upcoming_of  # most clusters have booked none

    return upcoming_of(resolved)


def _placement_group(resolved: EC2NodeClass | None) -> str:
    found = placement_group_of(resolved) if resolved is not None else None
    return found.id if found is not None else ""


def _addresses_per_node(resolved: EC2NodeClass | None) -> int:
    found = reading_of(resolved) if resolved is not None else None
    return found.per_node if found is not None else 1


def _raw_requirements(holder: JsonObject) -> tuple[Requirement, ...]:
    entries = (mapping(entry) for entry in sequence(holder.get("requirements")))
    return tuple(
        Requirement.of(str(entry.get("key")), str(entry.get("operator")), map(str, sequence(entry.get("values"))))
        for entry in entries
    )
