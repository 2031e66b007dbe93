"""Decodes JSON to typed objects: pages of the Kubernetes API, and single objects from files.

The kinds of Karpenter's own groups, and kinds that we do not read, stay plain JSON objects: `core.api` reads the former.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from core.containment import SetAsideError, internal_error
from core.errors import InvalidInputError
from core.manifests.wire import admission, objects, pod, resources
from core.manifests.wire.objects import Labelled
from core.manifests.wire.resources import Resource

# Reads objects that are partly unreadable: the readable part still has their identity, place and state.
#
# Omitting such an object would be dangerous: a node whose only pod is unreadable is not empty.


PARTS_MAX: Final = 16
"""The most unreadable fields of one object; with more of them it is not an object of the kind."""

_PLACE: Final = re.compile(r"(?P<problem>.*?) - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`\Z", re.DOTALL)
_TYPES: Final = re.compile(r"Expected `(?P<wanted>[a-z |]+)`(?:, got `(?P<given>[a-z |]+)`)?\Z")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]+)`\Z")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORDS: Final = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time",
}
"""Type name in msgspec's messages → name in the messages of `core.api`."""
_TYPE_NAMES: Final[dict[type, str]] = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_INDEX: Final = re.compile(r"\[.*")


def explained(message: str) -> tuple[str, str]:
    """Return the problem and its path from msgspec's message, in the words of `core.api`: `must be text, not a number`."""
    match = _PLACE.match(message)
    problem, path = (match["problem"], match["path"].lstrip(".")) if match else (message, "")
    path = path.replace("[...]", ".*")
    prefix = "a key: " if match and match["key"] else ""
    absent = _MISSING.match(problem)
    if absent is not None:
        return "is required", ".".join(part for part in (path, absent["field"]) if part)
    types = _TYPES.match(problem)
    if types is not None:
        actual = types["given"] or ""
        wanted = _words(types["wanted"])
        if actual == "float" and "a number" in wanted:
            return prefix + f"must be {wanted.replace('a number', 'a whole number')}", path
        problem = f"must be {wanted}" + (f", not {_words(actual)}" if actual else "")
    return prefix + problem, path


def located(path: str, problem: str, obj: object) -> str:
    """Return the path with the invalid map entry in place of a last `*`: msgspec does not name entries.

    Args:
        path: As `explained` returns it.
        problem: Likewise.
        obj: The object that could not be read.
    """
    if not path.endswith(".*"):
        return path
    place = path.removesuffix(".*")
    node = obj
    for name, index in _STEP.findall(place):
        node = node[int(index)] if index and isinstance(node, list) else _mapping(node).get(name)
    actual = problem.rpartition(", not ")[2]
    entry = next((key for key, value in _mapping(node).items() if _TYPE_NAMES.get(type(value)) == actual), "*")
    return f"{place}.{entry}" if _PLAIN_KEY.match(entry) or entry == "*" else f"{place}[{entry}]"


def _words(types: str) -> str:
    named = [name.strip() for name in types.split("|")]
    return " or ".join(dict.fromkeys(_WORDS.get(name, name) for name in named if name != "null" or len(named) == 1))


def readable_rest(type_: Any, obj: object) -> Any | None:
    """Return the object without its unreadable fields, the first of which `unreadable` names; None if it then has no name.

    A second-level field is removed as a whole: `spec.containers`, not `spec.containers[0].ports`.
    """
    rest = {key: dict(value) if isinstance(value, dict) else value for key, value in _mapping(obj).items()}
    first = ""
    for _ in range(PARTS_MAX):
        try:
            readable = msgspec.convert(rest, type_)
        except msgspec.ValidationError as error:
            problem, path = explained(str(error))
            first = first or ": ".join(part for part in (path, problem) if part)
            if not _drop(rest, [_INDEX.sub("", step) for step in path.split(".")]):
                return None
        else:
            readable.unreadable = first
            return readable if readable.metadata.name else None
    return None


def _drop(rest: dict[str, Any], path: list[str]) -> bool:
    """Remove the field at the path; return whether it existed."""
    section = rest.get(path[0])
    if isinstance(section, dict) and len(path) > 1 and path[1] in section:
        del section[path[1]]
        return True
    return rest.pop(path[0], None) is not None


def _mapping(obj: object) -> dict[str, Any]:
    return obj if isinstance(obj, dict) else {}


T = TypeVar("T")

_TYPES_BY_RESOURCE: Final[dict[Resource, Any]] = {
    resources.PODS: pod.WirePod,
    resources.NODES: objects.WireNode,
    resources.NAMESPACES: objects.WireNamespace,
    resources.SERVICES: objects.WireService,
    resources.PERSISTENT_VOLUMES: objects.WirePersistentVolume,
    resources.PERSISTENT_VOLUME_CLAIMS: objects.WirePersistentVolumeClaim,
    resources.REPLICATION_CONTROLLERS: pod.ReplicationController,
    resources.STORAGE_CLASSES: objects.WireStorageClass,
    resources.CSI_NODES: objects.CsiNode,
    resources.CSI_DRIVERS: objects.CsiDriverInstalled,
    resources.VOLUME_ATTACHMENTS: objects.WireVolumeAttachment,
    resources.PRIORITY_CLASSES: objects.PriorityClass,
    resources.POD_DISRUPTION_BUDGETS: objects.WirePodDisruptionBudget,
    resources.DAEMON_SETS: pod.WireWorkload,
    resources.DEPLOYMENTS: pod.WireWorkload,
    resources.REPLICA_SETS: pod.WireWorkload,
    resources.STATEFUL_SETS: pod.WireWorkload,
    resources.JOBS: pod.Job,
    resources.CRON_JOBS: Labelled,
    resources.POD_TEMPLATES: pod.PodTemplateObject,
    resources.CAPACITY_BUFFERS: objects.WireCapacityBuffer,
    resources.PROVISIONING_REQUESTS: objects.WireProvisioningRequest,
    resources.LIMIT_RANGES: admission.LimitRange,
    resources.RESOURCE_QUOTAS: admission.ResourceQuota,
    resources.RUNTIME_CLASSES: admission.RuntimeClass,
    resources.HORIZONTAL_POD_AUTOSCALERS: admission.HorizontalPodAutoscaler,
    resources.SCALED_OBJECTS: admission.ScaledObject,
    resources.POD_GROUPS: pod.WirePodGroup,
    resources.WORKLOADS: pod.WireGroupWorkload,
    resources.VOLCANO_POD_GROUPS: pod.WirePodGroup,
    resources.COSCHEDULING_POD_GROUPS: pod.WirePodGroup,
    resources.LEADER_WORKER_SETS: pod.LeaderWorkerSet,
    resources.JOB_SETS: pod.JobSet,
}
KEPT_IN_PART: Final = (resources.PODS, resources.NODES, resources.POD_DISRUPTION_BUDGETS, resources.DAEMON_SETS)
"""Kinds whose unreadable objects are kept in part: without them, a node might be disrupted or filled that must not be."""


class Page(msgspec.Struct, frozen=True):
    """One page of a list.

    Attributes:
        items: The objects: structs of `core.manifests.wire`, or JSON objects for kinds without one.
        continue_token: Where the next page begins, empty after the last.
        rejected: Unreadable objects: (`namespace/name`, why). For kinds in `KEPT_IN_PART`, the readable part of the object is
            among the items, and its `unreadable` names the field.
        remaining: How many objects follow on later pages; None if the server does not say.
        version: The `resourceVersion` of the list.
    """

    items: tuple[Any, ...]
    continue_token: str = ""
    rejected: tuple[tuple[str, str], ...] = ()
    remaining: int | None = None
    version: str = ""


class _ListMetadata(msgspec.Struct):
    continue_token: str = msgspec.field(default="", name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")
    version: str = msgspec.field(default="", name="resourceVersion")


class _PageOf(msgspec.Struct, Generic[T]):
    items: tuple[T, ...] | None = ()
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


def type_of(resource: Resource) -> Any:
    """Return the struct of a kind; plain JSON objects for kinds without one."""
    return _TYPES_BY_RESOURCE.get(resource, dict[str, Any])


def decode_page(resource: Resource, raw: bytes) -> Page:
    """Read one page of a list as the API server sends it. An unreadable object does not affect the others.

    Raises:
        InvalidInputError: If the page is not a list, or an unreadable pod or node has no name.
    """
    try:
        page = _page_decoder(resource)(raw)
        metadata = page.metadata
        return Page(page.items or (), metadata.continue_token, remaining=metadata.remaining, version=metadata.version)
    except Exception:  # noqa: BLE001 - whatever one object causes costs only that object
        return _decode_one_by_one(resource, raw)


HELD_MAX: Final = 32 << 20
"""The most bytes of one kind's objects that a namespace can make a run hold, as written in a compact form: some 60,000 claims,
or so many different specs of pods. Objects in memory take about four times as much."""


class NamespaceRoom:
    """Bounds what each namespace makes a run hold of one list, so that nobody's objects use up the memory for all.

    Beyond it, a pod keeps its identity, its place and its requests, kinds whose absence would be unsafe keep their form that
    protects, and other objects are left out.
    """

    def __init__(self, resource: Resource, at_most: int = HELD_MAX) -> None:
        self._resource = resource
        self._at_most = at_most
        self._held: dict[str, int] = {}
        self._known: set[int] = set()
        """Identities of parts that are held already, and stay so while the list is read."""
        self.is_exceeded = False
        """Whether an object was left out, or lost parts."""

    @property
    def held(self) -> dict[str, int]:
        """Bytes that each namespace makes a run hold."""
        return self._held

    def within(self, page: Page) -> Page:
        """Return the page with the objects that there is room for."""
        if not self._resource.namespaced or self._resource not in _TYPES_BY_RESOURCE:
            return page
        items, rejected = list[Any](), list(page.rejected)
        for item in page.items:
            namespace = item.metadata.namespace
            fresh = [part for part in _parts_of(self._resource, item) if part and id(part) not in self._known]
            held = self._held.get(namespace, 0) + sum(len(_packed(part)) for part in fresh)
            if held <= self._at_most:
                self._held[namespace] = held
                self._known.update(map(id, fresh))
                items.append(item)
                continue
            self.is_exceeded = True
            problem = (
                f"more {self._resource.plural} of namespace {namespace} than fit into the {self._at_most >> 20} MiB"
            )
            problem += " that a run holds of them"
            if self._resource in KEPT_IN_PART:
                items.append(self._in_part(item, problem))
            else:
                rejected.append((f"{namespace}/{item.metadata.name}", problem))
        return msgspec.structs.replace(page, items=tuple(items), rejected=tuple(rejected))

    def _in_part(self, item: Any, problem: str) -> Any:
        if self._resource == resources.PODS:
            return pod.without_parts(item, problem)
        metadata = item.metadata
        names = objects.WireMetadata(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        return type_of(self._resource)(metadata=names, unreadable=problem)


_packed: Final = msgspec.msgpack.Encoder().encode


def _parts_of(resource: Resource, item: Any) -> tuple[Any, ...]:
    return pod.parts_of(item) if resource == resources.PODS else (item,)


def held_by(resource: Resource, item: Any) -> int:
    """Return the most bytes that an object makes a run hold, if it shares nothing with others (`NamespaceRoom`)."""
    return sum(len(_packed(part)) for part in _parts_of(resource, item) if part)


def decode_extent(raw: bytes) -> tuple[int | None, str]:
    """Return how many objects a list has, and its version, from its first page.

    The number is None if there are more pages and the page does not say how many objects are on them.

    Raises:
        InvalidInputError: If it is not a list.
    """
    try:
        page = msgspec.json.decode(raw, type=_PageOf[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"the list cannot be read: {error}") from error
    on_page, metadata = len(page.items or ()), page.metadata
    if not metadata.continue_token:
        return on_page, metadata.version
    return None if metadata.remaining is None else on_page + metadata.remaining, metadata.version


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
    except Exception as error:
        raise SetAsideError(internal_error(resource.kind, error).message) from error


def from_object(resource: Resource, obj: dict[str, Any]) -> Any:
    """Read one parsed object, for instance from a file. Nulls count as absent, as in the API server.

    Raises:
        InvalidInputError: If a field has the wrong type; the error names the object and the field.
        SetAsideError: If the object causes another exception.
    """
    try:
        return _converted(resource, obj)
    except InvalidInputError:
        raise
    except Exception as error:
        name = f"{resource.kind} {name_of(obj)}"
        raise SetAsideError(internal_error(name, error).message, subject=name) from error


def _converted(resource: Resource, obj: dict[str, Any]) -> Any:
    type_ = type_of(resource)
    if resource not in _MANY and (field := _beyond_64_bits(obj)):
        raise _too_large(resource, obj, field)  # where pods are made of a template, it would raise another error
    try:
        return msgspec.convert(obj, type_)
    except (msgspec.ValidationError, OverflowError):
        pass
    try:
        return msgspec.convert(_without_nulls(obj), type_)
    except OverflowError as error:
        raise _too_large(resource, obj, _beyond_64_bits(obj)) from error
    except msgspec.ValidationError as error:
        problem, field = explained(str(error))
        field = located(field, problem, obj)
        hint = ": put it in quotes" if problem in _NO_TEXTS else ""
        raise InvalidInputError(problem + hint, subject=f"{resource.kind} {name_of(obj)}", field=field) from error


_NO_TEXTS: Final = tuple(f"must be text, not {_WORDS[name]}" for name in ("int", "bool"))
"""What is said where YAML reads a number or a truth, and people mean text: `prometheus.io/port: 9090`."""

_MANY: Final = (resources.PODS, resources.NODES, resources.NODE_CLAIMS)
"""Kinds without a template. A cluster has too many of these objects to search each."""


def _too_large(resource: Resource, obj: dict[str, Any], field: str) -> InvalidInputError:
    return InvalidInputError("does not fit into 64 bits", subject=f"{resource.kind} {name_of(obj)}", field=field)


def _beyond_64_bits(value: object, place: str = "") -> str:
    """Return the path of the first number that no API server would take; empty if there is none."""
    if isinstance(value, int):
        return "" if -(2**63) <= value < 2**63 else place
    entries = value.items() if isinstance(value, dict) else ()
    parts = [(f"{place}.{name}" if place else str(name), part) for name, part in entries]
    if isinstance(value, list):
        parts = [(f"{place}[{index}]", part) for index, part in enumerate(value)]
    return next((path for inner, part in parts if (path := _beyond_64_bits(part, inner))), "")


def readable_or_rest(resource: Resource, obj: dict[str, Any]) -> Any | None:
    """Return an object, or the readable part of it; None for one of a kind that is left out where it is unreadable."""
    try:
        return from_object(resource, obj)
    except InvalidInputError:
        return rest_of(resource, obj)


def rest_of(resource: Resource, obj: object) -> Any | None:
    """Return the readable part of an object that is unreadable as a whole; None for kinds that are left out instead."""
    if resource not in KEPT_IN_PART:
        return None
    try:
        return readable_rest(type_of(resource), _without_nulls(obj))
    except Exception as error:  # noqa: BLE001 - then nothing of it is read but what it is and where it runs
        parts, spec = _mapping(_mapping(obj).get("metadata")), _mapping(_mapping(obj).get("spec"))
        place = {key: spec[key] for key in ("nodeName", "providerID") if isinstance(spec.get(key), str)}
        names = {key: parts[key] for key in ("name", "namespace", "uid") if isinstance(parts.get(key), str)}
        rest = readable_rest(type_of(resource), {"metadata": names, "spec": place})
        if rest is not None:
            rest.unreadable = internal_error(resource.kind, error).message
        return rest


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
            obj = _object_of(item)
            rest = rest_of(resource, obj)
            if rest is not None:
                items.append(rest)
                continue
            reason = ": ".join(part for part in (error.field, error.problem) if part)
            if resource in KEPT_IN_PART:
                raise InvalidInputError(f"the list of {resource.plural} has something else in it: {reason}") from error
            rejected.append((name_of(obj), reason))
    metadata = page.metadata
    return Page(tuple(items), metadata.continue_token, tuple(rejected), metadata.remaining, metadata.version)


class Event(msgspec.Struct, frozen=True):
    """One event of a watch.

    Attributes:
        version: The `resourceVersion` up to which nothing of the kind is missing after this event.
        name: `namespace/name` of the object, or its name; empty in a bookmark.
        item: The object as it is now; None for one that is gone, and in a bookmark.
    """

    version: int
    name: str = ""
    item: Any | None = None


class _EventMetadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _EventObject(msgspec.Struct):
    metadata: _EventMetadata = msgspec.field(default_factory=_EventMetadata)


class _EventOf(msgspec.Struct):
    type: str
    object: msgspec.Raw


_OF_OBJECTS: Final = ("ADDED", "MODIFIED", "DELETED")


def decode_event(resource: Resource, raw: bytes) -> Event:
    """Read one event of a watch, of a kind in `KEPT_IN_PART`: an unreadable object is read as in a list.

    Raises:
        InvalidInputError: If it is an error, or nothing that a watch may send.
    """
    try:
        event = msgspec.json.decode(raw, type=_EventOf)
        metadata = msgspec.json.decode(event.object, type=_EventObject).metadata
        version = int(metadata.version)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidInputError(f"the watch of {resource.plural} cannot be read: {error}") from error
    if event.type == "BOOKMARK":
        return Event(version)
    if event.type not in _OF_OBJECTS or not metadata.name:
        raise InvalidInputError(f"the watch of {resource.plural} sent {event.type}")
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return Event(version, name, None if event.type == "DELETED" else _item_of(resource, event.object))


def _item_of(resource: Resource, raw: msgspec.Raw) -> Any:
    try:
        return decode(resource, bytes(raw))
    except InvalidInputError:
        item = rest_of(resource, _object_of(raw))
        if item is None:
            raise
        return item


class _Names(msgspec.Struct):
    metadata: dict[str, msgspec.Raw] = {}
    spec: dict[str, msgspec.Raw] = {}


def _object_of(item: msgspec.Raw) -> dict[str, Any]:
    """Return an object; of one that cannot even be parsed, only its name and place."""
    try:
        obj: dict[str, Any] = msgspec.json.decode(item)
    except RecursionError:
        names = msgspec.json.decode(item, type=_Names)
        wanted = {"metadata": ("name", "namespace", "uid"), "spec": ("nodeName", "providerID")}
        parts = {"metadata": names.metadata, "spec": names.spec}
        obj = {
            part: {key: msgspec.json.decode(parts[part][key]) for key in keys if key in parts[part]}
            for part, keys in wanted.items()
        }
    return obj


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
