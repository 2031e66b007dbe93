"""Reading whole Kubernetes objects, as plain JSON: names, owners, conditions, times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire.api_resources import Resource

Key = tuple[str, str]
"""Namespace and name."""

PROGRAM: Final = "program"
USER: Final = "user"
CONTROLLER: Final = "controller"

RUN_SECONDS: Final = "simulate.fleetwright.dev/run-seconds"
"""Annotation of pods: they finish this many seconds after they started."""

FINISHED: Final = ("Succeeded", "Failed")


def timestamp(moment: datetime) -> str:
    """Return a time as the API server writes it: RFC 3339 in UTC, whole seconds."""
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def moment_of(text: str) -> datetime:
    """Parse a time that `timestamp` wrote."""
    return datetime.fromisoformat(text).astimezone(UTC)


def key_of(obj: JsonObject) -> Key:
    """Namespace and name of an object; the namespace is empty for those of the whole cluster."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def name_of(obj: JsonObject) -> str:
    """The object's name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: JsonObject) -> str:
    """The object's namespace, empty for those of the whole cluster."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: JsonObject) -> str:
    """The object's uid."""
    return str(obj["metadata"]["uid"])


def full_name(obj: JsonObject) -> str:
    """`namespace/name`."""
    return "/".join(part for part in key_of(obj) if part)


def labels_of(obj: JsonObject) -> Mapping[str, str]:
    """The object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: JsonObject) -> Mapping[str, str]:
    """The object's annotations."""
    return obj["metadata"].get("annotations") or {}


def spec_of(obj: JsonObject) -> JsonObject:
    """The object's spec, empty where it has none."""
    return obj.get("spec") or {}


def status_of(obj: JsonObject) -> JsonObject:
    """The object's status, empty where it has none."""
    return obj.get("status") or {}


def condition_of(obj: JsonObject, kind: str) -> JsonObject:
    """The condition of that type, empty where there is none."""
    return next((c for c in status_of(obj).get("conditions") or () if c["type"] == kind), {})


def with_condition(obj: JsonObject, kind: str, status: str, now: datetime, **fields: str) -> list[JsonObject]:
    """The object's conditions with one of them set; the transition time moves only where the status does."""
    before = condition_of(obj, kind)
    since = before["lastTransitionTime"] if before.get("status") == status else timestamp(now)
    others = [c for c in status_of(obj).get("conditions") or () if c["type"] != kind]
    return [*others, {"type": kind, "status": status, "lastTransitionTime": since, **fields}]


def is_deleting(obj: JsonObject) -> bool:
    """Return whether deletion was requested."""
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The owner reference of the controller, None for an object without one."""
    return next((ref for ref in obj["metadata"].get("ownerReferences") or () if ref.get("controller")), None)


def owner_reference(resource: Resource, owner: JsonObject) -> JsonObject:
    """Return the owner reference of an object that `owner` controls."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def node_of(pod: JsonObject) -> str:
    """The name of the node that the pod is bound to, empty for none."""
    return str(pod["spec"].get("nodeName") or "")


def phase_of(pod: JsonObject) -> str:
    """The pod's phase."""
    return str(status_of(pod).get("phase", "Pending"))


def is_finished(pod: JsonObject) -> bool:
    """Whether the pod has succeeded or failed."""
    return phase_of(pod) in FINISHED


def is_active(pod: JsonObject) -> bool:
    """Return whether a controller counts the pod as a replica: neither finished nor being deleted."""
    return not is_finished(pod) and not is_deleting(pod)


def is_ready(obj: JsonObject) -> bool:
    """Whether the condition Ready of a pod or node is true."""
    return condition_of(obj, "Ready").get("status") == "True"
