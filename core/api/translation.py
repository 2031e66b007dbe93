"""Translates the users' objects to `core.model`. Older API versions are converted on the way.

Every function raises InvalidInputError, naming object and field, for an unusable object; the caller decides how to proceed
without it. Status fields come from controllers and are read leniently.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

from core import labels
from core.api import older_versions, status
from core.api.objects import JsonObject, group_and_version, kind_of, mapping, name_of, sequence, without_nulls
from core.api.schemas import fields
from core.api.schemas import node_pool as tuning
from core.api.schemas.calendar import CalendarObject, annotated_calendar, calendar_of
from core.api.schemas.ec2_node_class import EC2NodeClassObject, EC2NodeClassSpec, ami_family
from core.api.schemas.fields import ApiModel, examined, parts
from core.api.schemas.node_pool import (
    ClaimRequirement,
    DisruptionPolicy,
    NodeClaimObject,
    NodeClassReference,
    NodeOverlayObject,
    NodePoolObject,
    RequirementEntry,
    TaintEntry,
    Template,
)
from core.api.status import Location, path_of
from core.catalogue.free_addresses import reading_of
from core.catalogue.node_class import CapacityReservation, EC2NodeClass, read_node_class
from core.catalogue.node_memory import placement_group_of
from core.catalogue.reservations import leaves_at, reservations_of
from core.errors import InvalidInputError
from core.model.node_pool import Budget, Calendar, Disruption, NodeClass, NodePool
from core.model.plan import NodeClaim, ObjectRef
from core.model.snapshot import NodeOverlay
from core.model.values import quantity
from core.model.values.quantity import nanodollars, parse_duration
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint

# Fields of Karpenter's objects that this version does not know: the models say which ones it does, as for the CRDs.


def unknown_fields(obj: JsonObject) -> tuple[str, ...]:
    """Return the paths of the unknown fields in an object's spec, sorted; none for other kinds and older versions."""
    spec = _spec_model(obj)
    return tuple(sorted(map(path_of, unknown_in(obj.get("spec"), spec, ("spec",))))) if spec is not None else ()


def without_unknown_fields(obj: JsonObject) -> JsonObject:
    """Return an object with only the known fields of its spec, as an API server stores it; other kinds unchanged."""
    spec = _spec_model(obj)
    return {**obj, "spec": _known_part(obj["spec"], spec)} if spec is not None and "spec" in obj else obj


def _spec_model(obj: JsonObject) -> type[ApiModel] | None:
    model = older_versions.MODELS.get((*group_and_version(obj), kind_of(obj)))
    return dict(parts(model)).get("spec") if model is not None else None


def _known_part(value: Any, model: type[ApiModel]) -> Any:
    if not isinstance(value, dict) or model.model_config.get("extra") == "forbid":
        return value
    field_names = _names(model)
    kept = {key: inner for key, inner in value.items() if key in field_names}
    for name, part in parts(model):
        inner = kept.get(name)
        if inner is not None:
            is_list = isinstance(inner, list)
            kept[name] = [_known_part(item, part) for item in inner] if is_list else _known_part(inner, part)
    return kept


def _names(model: type[ApiModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def not_ignored(obj: JsonObject) -> tuple[str, ...]:
    """Return the unknown fields that the object's annotation `labels.IGNORED_FIELDS` does not name."""
    unknown = unknown_fields(obj)
    if not unknown:
        return ()
    written = mapping(mapping(obj.get("metadata")).get("annotations")).get(labels.IGNORED_FIELDS)
    ignored = {name.strip() for name in written.split(",")} if isinstance(written, str) else set()
    return tuple(name for name in unknown if name not in ignored)


def unknown_in(value: object, model: type[ApiModel], at: Location) -> Iterator[Location]:
    """Yield the place of each field of a value that its model does not have; the kubelet's fields have a check of their own."""
    if not isinstance(value, dict) or model.model_config.get("extra") == "forbid":
        return
    field_names = _names(model)
    yield from ((*at, key) for key in value if key not in field_names)
    for name, part in parts(model):
        inner = value.get(name)
        items = enumerate(inner) if isinstance(inner, list) else [(None, inner)]
        for index, item in items:
            yield from unknown_in(item, part, (*at, name) if index is None else (*at, name, index))


# Computes drift hashes: two objects have equal hashes if a node made from one needs no replacement under the other.
#
# The hashes and their version (`labels.HASH_VERSION`) are our own: they cover the same fields as Karpenter's, and are not equal
# to Karpenter's. Hashes of different versions are never compared, so nodes of Karpenter's do not drift when we take over.
#
# What counts (Karpenter): of a NodePool its template without requirements; of an EC2NodeClass the spec without selectors,
# prefix count and the family as written. Lists are sets; what has its default, and lists and maps without entries, count as
# absent. An explicit false differs from an absent value where EC2 or the subnet would decide, and so does an empty tag.


_DURATIONS: Final = ("expireAfter", "terminationGracePeriod")
_DYNAMIC: Final = (
    "amiFamily",
    "amiSelectorTerms",
    "capacityReservationSelectorTerms",
    "ipPrefixCount",
    "securityGroupSelectorTerms",
    "subnetSelectorTerms",
)
_HASH_LENGTH: Final = 16


def of_template(template: Template) -> str:
    """Return the hash of a NodePool's `spec.template`."""
    content = template.model_dump(by_alias=True)
    spec = content["spec"]
    del spec["requirements"]
    for name in _DURATIONS:
        spec[name] = _seconds(spec[name])
    return _digest(content)


def of_node_class(spec: EC2NodeClassSpec, raw: JsonObject) -> str:
    """Return the hash of an EC2NodeClass's `spec`; `raw` is the same spec as written."""
    content = spec.model_dump(by_alias=True)
    content = {name: value for name, value in content.items() if name not in _DYNAMIC}
    for device in content["blockDeviceMappings"]:
        if device["ebs"] and device["ebs"]["volumeSize"]:
            device["ebs"]["volumeSize"] = quantity.parse(device["ebs"]["volumeSize"], quantity.EPHEMERAL_STORAGE)
    if not (content["enclaveOptions"] or {}).get("enabled"):
        del content["enclaveOptions"]  # EC2's default is off, so a node needs no replacement
    kubelet = json.dumps(raw.get("kubelet"), sort_keys=True)
    return _digest(content | {"resolvedFamily": ami_family(raw), "kubelet": kubelet})


def _seconds(text: str | None) -> str | None:
    """Normalize a duration, so that 60m and 1h are equal; Never and an absent value both become None."""
    span = parse_duration(text) if text else None
    return None if span is None else str(span.total_seconds())


def _digest(content: JsonObject) -> str:
    return hashlib.sha256(_canonical(_pruned(content)).encode()).hexdigest()[:_HASH_LENGTH]


def _pruned(value: Any) -> Any:
    """Return the value without nulls and empty collections, with lists in canonical order."""
    if isinstance(value, dict):
        kept = ((key, _pruned(item)) for key, item in value.items())
        return {key: item for key, item in kept if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return sorted((_pruned(item) for item in value), key=_canonical)
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# Translates an EC2NodeClass whose spec is valid, with what its status and annotations say it resolves to.


def node_class_of(spec: EC2NodeClassSpec, present: JsonObject) -> NodeClass:
    """Return the class in the model; `present` is the object of version v1 without nulls, `spec` its spec."""
    written_status, resolved = mapping(present.get("status")), _resolved(present)
    identity, subnets = status.identity(present), status.identified(written_status.get("subnets"))
    return NodeClass(
        name=identity["name"],
        uid=identity["uid"],
        deleted_at=identity["deleted_at"],
        is_ready=status.is_ready(present),
        amis=tuple((str(ami["id"]), _raw_requirements(ami)) for ami in status.identified(written_status.get("amis"))),
        security_groups=tuple(str(group["id"]) for group in status.identified(written_status.get("securityGroups"))),
        subnets=tuple((str(net["id"]), str(net.get("zone", ""))) for net in subnets),
        reservations=_reservations(written_status, resolved),
        reservation_begins=_reservation_begins(resolved),
        reservation_ends=_reservation_ends(resolved),
        reservation_places=_reservation_places(resolved),
        placement_group=_placement_group(resolved),
        addresses_per_node=_addresses_per_node(resolved),
        zone_ids={str(net["zoneID"]): str(net["zone"]) for net in subnets if net.get("zoneID") and net.get("zone")},
        own_annotations=status.annotations_of(present),
        spec_hash=of_node_class(spec, present["spec"]),
        unknown_fields=not_ignored(present),
    )


def _reservations(written_status: JsonObject, resolved: EC2NodeClass | None) -> tuple[str, ...] | None:
    """Return the ids of the reservations that a class selects, None where its status says nothing of them."""
    if written_status.get("capacityReservations") is None:
        return None
    begun = tuple(str(reservation["id"]) for reservation in status.identified(written_status["capacityReservations"]))
    return (*begun, *(reservation.id for reservation in _upcoming(resolved)))


def _resolved(present: JsonObject) -> EC2NodeClass | None:
    """Return the class with its status; None where a field of the status, which others may write, has a wrong type."""
    try:
        return read_node_class(present)
    except InvalidInputError:
        return None


def _reservation_begins(resolved: EC2NodeClass | None) -> dict[str, datetime]:
    upcoming = _upcoming(resolved)
    if not upcoming:
        return {}
    from core.catalogue.reservations import begins_at

    return {reservation.id: begins for reservation in upcoming if (begins := begins_at(reservation)) is not None}


def _reservation_ends(resolved: EC2NodeClass | None) -> dict[str, datetime]:
    begun = resolved.status.capacity_reservations if resolved is not None else ()
    return {
        reservation.id: leaves
        for reservation in (*begun, *_upcoming(resolved))
        if (leaves := leaves_at(reservation)) is not None
    }


def _reservation_places(resolved: EC2NodeClass | None) -> dict[str, int]:
    reservations = reservations_of(resolved) if resolved is not None else ()
    return {reservation.id: reservation.places for reservation in reservations if reservation.places is not None}


def _upcoming(resolved: EC2NodeClass | None) -> tuple[CapacityReservation, ...]:
    if resolved is None or labels.UPCOMING_RESERVATIONS not in resolved.metadata.annotations:
        return ()
    from core.catalogue.reservations import upcoming_of  # most clusters have booked none

    return upcoming_of(resolved)


def _placement_group(resolved: EC2NodeClass | None) -> str:
    group = placement_group_of(resolved) if resolved is not None else None
    return group.id if group is not None else ""


def _addresses_per_node(resolved: EC2NodeClass | None) -> int:
    reading = reading_of(resolved) if resolved is not None else None
    return reading.per_node if reading is not None else 1


def _raw_requirements(holder: JsonObject) -> tuple[Requirement, ...]:
    entries = (mapping(entry) for entry in sequence(holder.get("requirements")))
    return tuple(
        Requirement.of(str(entry.get("key")), str(entry.get("operator")), map(str, sequence(entry.get("values"))))
        for entry in entries
    )


M = TypeVar("M", bound=ApiModel)
T = TypeVar("T")

KEPT: Final = 256
"""How many NodePools, and how many EC2NodeClasses, are cached as read: each observation reads all of them, and they rarely
change."""

_WITHOUT_REFERENCES: Final = 2
"""The version of marshal's format in which equal content has equal bytes, regardless of sharing."""


class _Written:
    """An object as written, compared by content. Raises ValueError for values that JSON cannot represent."""

    __slots__ = ("_content", "obj")

    def __init__(self, obj: JsonObject) -> None:
        self.obj = obj
        self._content = marshal.dumps(obj, _WITHOUT_REFERENCES)

    def __hash__(self) -> int:
        return hash(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self._content == other._content


def _cached(read: Callable[[JsonObject], T]) -> Callable[[JsonObject], T]:
    """Return the same function with its last `KEPT` results cached by the content of the object."""

    @lru_cache(maxsize=KEPT)
    def kept(written: _Written) -> T:
        return read(written.obj)

    @wraps(read)
    def cached(obj: JsonObject) -> T:
        try:
            written = _Written(obj)
        except ValueError:
            return read(obj)
        return kept(written)

    return cached


@_cached
def node_pool(obj: JsonObject) -> NodePool:
    """Read a NodePool. A bad budget does not invalidate the pool: it is passed on as written, and closes the pool.

    Raises:
        InvalidInputError: If anything else in it is wrong.
    """
    present = _present(obj)
    spec, budgets = _read(NodePoolObject, _without_budgets(present)).spec, _budgets(present)
    template, annotations = spec.template, status.annotations_of(present)
    return NodePool(
        labels=dict(template.metadata.labels),
        annotations=labels.without_own(template.metadata.annotations),
        taints=_taints(template.spec.taints),
        startup_taints=_taints(template.spec.startup_taints),
        requirements=_requirements(template.spec.requirements),
        node_class=_reference(template.spec.node_class_ref),
        expire_after=_duration(template.spec.expire_after),
        termination_grace_period=_duration(template.spec.termination_grace_period),
        limits=quantity.parse_resources(spec.limits),
        weight=spec.weight or 0,
        replicas=spec.replicas,
        disruption=_disruption(spec.disruption, budgets),
        is_ready=status.is_ready(present),
        own_annotations=annotations,
        own_labels=status.labels_of(present),
        calendar=annotated_calendar(present, name_of(present)),
        price_factors=tuning.price_factors(annotations),
        expires_forcefully=tuning.expires_forcefully(annotations),
        evictions_per_hour=tuning.evictions_per_hour(annotations),
        largest_node=tuning.largest_node(annotations),
        shared_limits=tuning.shared_limits(annotations),
        template_hash=of_template(template),
        unknown_fields=tuple(field for field in not_ignored(present) if field.startswith("spec.template.")),
        **status.identity(present),
    )


@_cached
def node_class(obj: JsonObject) -> NodeClass:
    """Read an EC2NodeClass and what its status says it resolves to.

    Raises:
        InvalidInputError: If its spec is wrong.
    """
    present = _present(obj)
    return node_class_of(_read(EC2NodeClassObject, present).spec, present)


def node_claim(obj: JsonObject) -> NodeClaim:
    """Read a NodeClaim.

    Raises:
        InvalidInputError: If its spec, or an amount in its status, is wrong.
    """
    present = _present(obj)
    spec = _read(NodeClaimObject, present).spec
    written_status, identity = mapping(present.get("status")), status.identity(present)
    return NodeClaim(
        labels=status.labels_of(present),
        annotations=status.annotations_of(present),
        taints=_taints(spec.taints),
        startup_taints=_taints(spec.startup_taints),
        requirements=_requirements(spec.requirements),
        resources=quantity.parse_resources(spec.resources.requests),
        node_class=_reference(spec.node_class_ref),
        expire_after=_duration(spec.expire_after),
        termination_grace_period=_duration(spec.termination_grace_period),
        provider_id=str(written_status.get("providerID", "")),
        node_name=str(written_status.get("nodeName", "")),
        image_id=str(written_status.get("imageID", "")),
        capacity=_amounts(written_status, "capacity", identity["name"]),
        allocatable=_amounts(written_status, "allocatable", identity["name"]),
        conditions=status.conditions(present),
        last_pod_event_at=status.moment(written_status.get("lastPodEventTime")),
        **identity,
    )


def node_overlay(obj: JsonObject) -> NodeOverlay:
    """Read a NodeOverlay.

    Raises:
        InvalidInputError: If anything in it is wrong.
    """
    present = _present(obj)
    spec = _read(NodeOverlayObject, present).spec
    return NodeOverlay(
        name=name_of(present),
        requirements=_requirements(spec.requirements),
        price=None if spec.price is None else nanodollars(spec.price),
        price_adjustment=spec.price_adjustment,
        capacity=quantity.parse_resources(spec.capacity),
        weight=spec.weight or 0,
    )


def calendar(obj: JsonObject) -> Calendar:
    """Read a Calendar.

    Raises:
        InvalidInputError: If anything in it is wrong.
    """
    present: JsonObject = without_nulls(obj)
    return calendar_of(_read(CalendarObject, present).spec, name_of(present))


def _present(obj: JsonObject) -> JsonObject:
    present: JsonObject = without_nulls(older_versions.as_v1(obj))
    return present


def _read(model: type[M], present: JsonObject) -> M:
    read, faults = examined(model, present)
    if read is None or faults:
        location, message = faults[0]
        subject = f"{kind_of(present)} {name_of(present)}"
        raise InvalidInputError(message, subject=subject, field=path_of(location))
    return read


def _requirements(entries: Iterable[RequirementEntry]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement.of(
            entry.key,
            entry.operator,
            entry.values,
            entry.min_values if isinstance(entry, ClaimRequirement) else None,
        )
        for entry in entries
    )


def _taints(entries: Iterable[TaintEntry]) -> tuple[Taint, ...]:
    return tuple(Taint(entry.key, entry.effect, entry.value) for entry in entries)


def _reference(reference: NodeClassReference) -> ObjectRef:
    return ObjectRef(reference.group, reference.kind, reference.name)


def _without_budgets(pool: JsonObject) -> JsonObject:
    spec = mapping(pool.get("spec"))
    policy = spec.get("disruption")
    if not isinstance(policy, dict):
        return pool
    return {**pool, "spec": {**spec, "disruption": {key: policy[key] for key in policy if key != "budgets"}}}


def _disruption(policy: DisruptionPolicy, budgets: tuple[Budget, ...]) -> Disruption:
    after = _duration(policy.consolidate_after)
    return Disruption(policy=policy.consolidation_policy, consolidate_after=after, budgets=budgets)


def _budgets(pool: JsonObject) -> tuple[Budget, ...]:
    policy = mapping(mapping(pool.get("spec")).get("disruption"))
    written = (entry for entry in sequence(policy.get("budgets")) if isinstance(entry, dict))
    return tuple(map(_budget, written)) if "budgets" in policy else Disruption().budgets


def _budget(raw: JsonObject) -> Budget:
    """A budget as written. An unreadable window leaves a schedule without its duration, which closes the pool."""
    reasons, schedule, duration = raw.get("reasons"), raw.get("schedule"), raw.get("duration")
    return Budget(
        nodes=str(raw.get("nodes", "10%")),
        reasons=None if reasons is None else tuple(str(reason) for reason in sequence(reasons)),
        schedule="" if schedule is None and duration is not None else schedule and str(schedule),
        duration=None if duration is None else parse_duration(str(duration)),
    )


def _amounts(written_status: JsonObject, field: str, name: str) -> dict[str, int]:
    try:
        return quantity.parse_resources(mapping(written_status.get(field)), field=f"status.{field}")
    except InvalidInputError as error:
        raise error.within(subject=f"NodeClaim {name}") from error


def _duration(text: str | None) -> timedelta | None:
    return None if text is None or text == fields.NEVER else parse_duration(text)
