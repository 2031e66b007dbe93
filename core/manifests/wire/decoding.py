"""From JSON to typed objects: pages of the Kubernetes API, and single objects out of files.

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
"""Kinds of which an object that is left out would let a node go, or be filled, that must not."""


class Page(msgspec.Struct, frozen=True):
    """One page of a list.

    Attributes:
        items: The objects: structs of `core.manifests.wire`, or JSON objects for kinds without one.
        continue_token: Where the next page begins, empty after the last.
        rejected: Those that could not be read: (`namespace/name`, why). Of kinds that decide about nodes, what can be read of
            such an object is among the items, with the field at fault in `unreadable`.
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
    """The struct of a kind; a plain JSON object for kinds that have none."""
    return _TYPES.get(resource, dict[str, Any])


def decode_page(resource: Resource, raw: bytes) -> Page:
    """Read one page of a list as the API server sends it. An object that cannot be read never loses the others.

    Raises:
        InvalidInputError: If the page as a whole is no list, or has something nameless where a pod or node must be.
    """
    try:
        page = _page_decoder(resource)(raw)
        return Page(page.items or (), page.metadata.continue_token)
    except msgspec.MsgspecError:
        return _decode_one_by_one(resource, raw)


def decode_count(raw: bytes) -> int | None:
    """How many objects a list has of which this is the first page; None where there are more and it does not say how many.

    Raises:
        InvalidInputError: If it is no list.
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
        InvalidInputError: If it cannot be read; names the field.
    """
    try:
        return msgspec.json.decode(raw, type=type_of(resource))
    except msgspec.ValidationError:
        return from_object(resource, msgspec.json.decode(raw))
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"is not JSON: {error}") from error


def from_object(resource: Resource, obj: dict[str, Any]) -> Any:
    """Read one object that is already parsed, out of a file for instance. Nulls count as absent, as in the API server.

    Raises:
        InvalidInputError: If a field has the wrong type; names the object and the field.
    """
    type_ = type_of(resource)
    try:
        return msgspec.convert(obj, type_)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_without_nulls(obj), type_)
    except msgspec.ValidationError as error:
        problem, field = explained(str(error))
        field = located(field, problem, obj)
        raise InvalidInputError(problem, subject=f"{resource.kind} {name_of(obj)}", field=field) from error


def rest_of(resource: Resource, obj: object) -> Any | None:
    """What can be read of an object that cannot be read as a whole; None for kinds that are left out instead."""
    return readable_rest(type_of(resource), _without_nulls(obj)) if resource in KEPT_IN_PART else None


def name_of(obj: object) -> str:
    """`namespace/name` of a JSON object, as much of it as there is."""
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
