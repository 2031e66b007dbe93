"""Decodes JSON to typed objects: pages of the Kubernetes API, and single objects from files.

The kinds of Karpenter's own groups, and kinds that we do not read, stay plain JSON objects: `core.api` reads the former.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from core.errors import InvalidInputError
from core.manifests.partial import explained, located, readable_rest
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import buffer as wire_buffer
from core.manifests.wire import cluster as wire_cluster
from core.manifests.wire import pod as wire_pod
from core.manifests.wire import workloads as wire_workloads
from core.manifests.wire.api_resources import Resource
from core.manifests.wire.object_metadata import Labelled

T = TypeVar("T")

_TYPES: Final[dict[Resource, Any]] = {
    kinds.PODS: wire_pod.WirePod,
    kinds.NODES: wire_cluster.WireNode,
    kinds.NAMESPACES: Labelled,
    kinds.SERVICES: wire_cluster.WireService,
    kinds.PERSISTENT_VOLUMES: wire_cluster.WirePersistentVolume,
    kinds.PERSISTENT_VOLUME_CLAIMS: wire_cluster.WirePersistentVolumeClaim,
    kinds.REPLICATION_CONTROLLERS: wire_workloads.ReplicationController,
    kinds.STORAGE_CLASSES: wire_cluster.WireStorageClass,
    kinds.CSI_NODES: wire_cluster.CsiNode,
    kinds.VOLUME_ATTACHMENTS: wire_cluster.WireVolumeAttachment,
    kinds.PRIORITY_CLASSES: wire_cluster.PriorityClass,
    kinds.POD_DISRUPTION_BUDGETS: wire_cluster.WirePodDisruptionBudget,
    kinds.DAEMON_SETS: wire_workloads.WireWorkload,
    kinds.DEPLOYMENTS: wire_workloads.WireWorkload,
    kinds.REPLICA_SETS: wire_workloads.WireWorkload,
    kinds.STATEFUL_SETS: wire_workloads.WireWorkload,
    kinds.JOBS: wire_workloads.Job,
    kinds.CRON_JOBS: Labelled,
    kinds.POD_TEMPLATES: wire_workloads.PodTemplateObject,
    kinds.CAPACITY_BUFFERS: wire_buffer.WireCapacityBuffer,
}
KEPT_IN_PART: Final = (kinds.PODS, kinds.NODES, kinds.POD_DISRUPTION_BUDGETS, kinds.DAEMON_SETS)
"""Kinds whose unreadable objects are kept in part: without them, a node might be disrupted or filled that must not be."""


class Page(msgspec.Struct, frozen=True):
    """One page of a list.

    Attributes:
        items: The objects: structs of `core.manifests.wire`, or JSON objects for kinds without one.
        continue_token: Where the next page begins, empty after the last.
        rejected: Unreadable objects: (`namespace/name`, why). For kinds in `KEPT_IN_PART`, the readable part of the object is
            among the items, and its `unreadable` names the field.
    """

    items: tuple[Any, ...]
    continue_token: str = ""
    rejected: tuple[tuple[str, str], ...] = ()


class _ListMetadata(msgspec.Struct):
    continue_token: str = msgspec.field(default="", name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


class _PageOf(msgspec.Struct, Generic[T]):
    items: tuple[T, ...] | None = ()
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


def type_of(resource: Resource) -> Any:
    """Return the struct of a kind; plain JSON objects for kinds without one."""
    return _TYPES.get(resource, dict[str, Any])


def decode_page(resource: Resource, raw: bytes) -> Page:
    """Read one page of a list as the API server sends it. An unreadable object does not affect the others.

    Raises:
        InvalidInputError: If the page is not a list, or an unreadable pod or node has no name.
    """
    try:
        page = _page_decoder(resource)(raw)
        return Page(page.items or (), page.metadata.continue_token)
    except msgspec.MsgspecError:
        return _decode_one_by_one(resource, raw)


def decode_count(raw: bytes) -> int | None:
    """Return how many objects a list has, from its first page; None if there are more pages and the page does not say.

    Raises:
        InvalidInputError: If it is not a list.
    """
    try:
        page = msgspec.json.decode(raw, type=_PageOf[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"the list cannot be read: {error}") from error
    on_page, rest = len(page.items or ()), page.metadata
    if not rest.continue_token:
        return on_page
    return None if rest.remaining is None else on_page + rest.remaining


def decode(resource: Resource, raw: bytes) -> Any:
    """Read one object as the API server sends it.

    Raises:
        InvalidInputError: If it cannot be read; the error names the field.
    """
    try:
        return msgspec.json.decode(raw, type=type_of(resource))
    except msgspec.ValidationError:
        return from_object(resource, msgspec.json.decode(raw))
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"is not JSON: {error}") from error


def from_object(resource: Resource, obj: dict[str, Any]) -> Any:
    """Read one parsed object, for instance from a file. Nulls count as absent, as in the API server.

    Raises:
        InvalidInputError: If a field has the wrong type; the error names the object and the field.
    """
    type_ = type_of(resource)
    try:
        return msgspec.convert(obj, type_)
    except (msgspec.ValidationError, OverflowError):
        pass
    try:
        return msgspec.convert(_without_nulls(obj), type_)
    except OverflowError as error:
        problem, field = "does not fit into 64 bits", _beyond_64_bits(obj)
        raise InvalidInputError(problem, subject=f"{resource.kind} {name_of(obj)}", field=field) from error
    except msgspec.ValidationError as error:
        problem, field = explained(str(error))
        field = located(field, problem, obj)
        raise InvalidInputError(problem, subject=f"{resource.kind} {name_of(obj)}", field=field) from error


def _beyond_64_bits(value: object, place: str = "") -> str:
    """Return the path of the first number that no API server would take; empty if there is none."""
    if isinstance(value, int):
        return "" if -(2**63) <= value < 2**63 else place
    entries = value.items() if isinstance(value, dict) else ()
    parts = [(f"{place}.{name}" if place else str(name), part) for name, part in entries]
    if isinstance(value, list):
        parts = [(f"{place}[{index}]", part) for index, part in enumerate(value)]
    return next((found for inner, part in parts if (found := _beyond_64_bits(part, inner))), "")


def rest_of(resource: Resource, obj: object) -> Any | None:
    """Return the readable part of an object that is unreadable as a whole; None for kinds that are left out instead."""
    return readable_rest(type_of(resource), _without_nulls(obj)) if resource in KEPT_IN_PART else None


def name_of(obj: object) -> str:
    """Return `namespace/name` of a JSON object, or the part of it that exists."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        return "without a name"
    parts = [str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)]
    return "/".join(parts) or "without a name"


def _decode_one_by_one(resource: Resource, raw: bytes) -> Page:
    try:
        page = msgspec.json.decode(raw, type=_PageOf[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"the list of {resource.plural} cannot be read: {error}") from error
    items: list[Any] = []
    rejected: list[tuple[str, str]] = []
    for item in page.items or ():
        try:
            items.append(decode(resource, bytes(item)))
        except InvalidInputError as error:
            obj = msgspec.json.decode(item)
            rest = rest_of(resource, obj)
            if rest is not None:
                items.append(rest)
                continue
            reason = ": ".join(part for part in (error.field, error.problem) if part)
            if resource in KEPT_IN_PART:
                raise InvalidInputError(f"the list of {resource.plural} has something else in it: {reason}") from error
            rejected.append((name_of(obj), reason))
    return Page(tuple(items), page.metadata.continue_token, tuple(rejected))


@lru_cache(maxsize=64)
def _page_decoder(resource: Resource) -> Callable[[bytes], _PageOf[Any]]:
    generic: Any = _PageOf
    return msgspec.json.Decoder(generic[type_of(resource)]).decode


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value if inner is not None]
    return value
