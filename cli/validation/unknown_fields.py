"""Finds fields that no API server knows: in Karpenter's objects, in Pods and in the pod templates of workloads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from cli.manifests.reading import Document
from cli.validation.field_places import right_place
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest
from core.api import conversion
from core.api.objects import group_and_version, kind_of
from core.api.problem import Location, path_of
from core.api.schemas.base import ApiModel, parts
from core.api.validation import MODELS

POD_FIELDS: Final = Path(__file__).parents[1] / "assets" / "pod-fields.json"
"""Kubernetes' types from `V1PodTemplateSpec` down: type → field → type of its value, empty for plain values. By `make docs`."""

_OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA: Final = "V1ObjectMeta"
TEMPLATES: Final[Mapping[str, Location]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""The path of a workload's pod template."""

_WORKLOAD_GROUPS: Final = ("", "apps", "batch", "extensions")
Unknown = tuple[Location, str]
"""The path of an unknown field, and the known field with the most similar spelling."""


def unknown_fields(document: Document, *, is_lenient: bool) -> Iterator[Finding]:
    """Return a finding for each unknown field; older versions of Karpenter's objects are not checked.

    In the pod template of a workload each is an error. In other objects, a field with a spelling similar to a known one, or
    known in another place, is an error; any other is a warning, since it may be of a newer version.
    """
    is_template = document.kind in TEMPLATES
    for location, suggestion in _found(document):
        elsewhere = "" if is_template else right_place(document.object, location)
        meant = elsewhere or suggestion
        severity = Severity.ERROR if (meant or is_template) and not is_lenient else Severity.WARNING
        message = "there is no such field here" if elsewhere else "there is no such field"
        yield finding_in(document, Code.UNKNOWN_FIELD, path_of(location), message, severity=severity, suggestion=meant)


def _found(document: Document) -> Iterator[Unknown]:
    obj = document.object
    group, version = group_and_version(obj)
    model = MODELS.get((group, version, kind_of(obj)))
    if model is not None and not conversion.is_old(obj):
        yield from _unknown_keys(obj, _OBJECT_FIELDS, ())
        yield from _in_struct(obj.get("metadata"), _METADATA, ("metadata",))
        if "spec" in dict(parts(model)):
            yield from _in_model(obj.get("spec"), dict(parts(model))["spec"], ("spec",))
    elif group in _WORKLOAD_GROUPS and document.kind in TEMPLATES:
        place = TEMPLATES[document.kind]
        yield from _in_struct(_at(obj, place), "V1PodTemplateSpec", place)
    elif not group and document.kind == "Pod":
        yield from _in_struct(obj.get("metadata"), _METADATA, ("metadata",))
        yield from _in_struct(obj.get("spec"), "V1PodSpec", ("spec",))


def _in_model(value: object, model: type[ApiModel], at: Location) -> Iterator[Unknown]:
    if not isinstance(value, dict) or model.model_config.get("extra") == "forbid":
        return
    known = [field.alias or name for name, field in model.model_fields.items()]
    yield from _unknown_keys(value, known, at)
    for name, part in parts(model):
        for place, item in _items(value.get(name), (*at, name)):
            yield from _in_model(item, part, place)


def _in_struct(value: object, kind: str, at: Location) -> Iterator[Unknown]:
    if not isinstance(value, dict):
        return
    fields = pod_fields()[kind]
    yield from _unknown_keys(value, fields, at)
    for name, inner in fields.items():
        if inner:
            for place, item in _items(value.get(name), (*at, name)):
                yield from _in_struct(item, inner, place)


def _items(value: object, at: Location) -> Iterator[tuple[Location, object]]:
    if isinstance(value, list):
        yield from (((*at, index), item) for index, item in enumerate(value))
    else:
        yield at, value


def _unknown_keys(value: Mapping[str, Any], known: Any, at: Location) -> Iterator[Unknown]:
    names = list(known)
    for key in value:
        if key not in names:
            yield (*at, key), nearest(key, names)


def _at(obj: Any, place: Location) -> Any:
    for part in place:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


@cache
def pod_fields() -> dict[str, dict[str, str]]:
    """The bundled table of Kubernetes' fields."""
    found: dict[str, dict[str, str]] = json.loads(POD_FIELDS.read_text(encoding="utf-8"))
    return found


def written_pod_fields() -> str:
    """The table as the pinned Kubernetes client has it: what `make docs` writes to `POD_FIELDS`."""
    from kubernetes.client import models

    found: dict[str, dict[str, str]] = {}
    waiting = ["V1PodTemplateSpec"]
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        described = getattr(models, kind)
        types = {described.attribute_map[name]: _struct_in(text) for name, text in described.openapi_types.items()}
        found[kind] = dict(sorted(types.items()))
        waiting += [inner for inner in types.values() if inner]
    return json.dumps(dict(sorted(found.items())), indent=1) + "\n"


def _struct_in(text: str) -> str:
    """The Kubernetes type in a client's type such as `List[V1Container]`; empty for plain values and for maps."""
    match = re.fullmatch(r"(?:[Ll]ist\[)?((?:Core)?V[0-9]\w*)\]?", text)
    return match.group(1) if match else ""
