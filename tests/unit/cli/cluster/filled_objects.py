"""Objects in which every field of their kind has a text of the user, made from the types that decode them and from the CRDs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource

CRDS: Final = Path(__file__).parents[4] / "crds"


def _is_decoded(one: object) -> bool:
    return (
        isinstance(one, Resource)
        and isinstance(decoding.type_of(one), type)
        and issubclass(decoding.type_of(one), msgspec.Struct)
    )


TEXT: Final = "hush"
_KEY: Final = "hush.example/l"
_FORMS: Final = (TEXT, _KEY, "subnet-0a1b2c3d4e5f60718", "1", "1h", "10%", "123456789012")
"""What a text may be, the most telling first; a field takes the first that its pattern admits."""

_WORDS: Final = {
    "apiVersion": "hush.example/v1",
    "group": "hush.example",
    "apiGroup": "hush.example",
    "operator": "In",
    "effect": "NoSchedule",
    "phase": "Running",
    "protocol": "TCP",
    "restartPolicy": "Always",
    "whenUnsatisfiable": "DoNotSchedule",
    "nodeAffinityPolicy": "Honor",
    "nodeTaintsPolicy": "Honor",
    "unhealthyPodEvictionPolicy": "AlwaysAllow",
    "volumeBindingMode": "Immediate",
    "resize": "Proposed",
    "owner": "123456789012",
    "deviceName": "/dev/xvda",
    "type": "hush.example/Type",
    "status": "True",
    "accessModes": "ReadWriteOnce",
    "volumeMode": "Filesystem",
    "scopes": "Terminating",
    "scopeName": "PriorityClass",
}
"""Fields of which the API server takes only some words, and groups, types and accounts in the form that they have."""

_QUANTITIES: Final = (
    *("requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "resources", "podFixed"),
    *("hard", "used", "default", "defaultRequest", "min", "max", "maxLimitRequestRatio"),
)
_NOT_WRITTEN: Final = ("unreadable", "strategy")
"""A mark of ours, and words of the API server in an object of their own."""

_DEPTH_MAX: Final = 22
_PLAIN: Final = (resources.NODE_POOLS, resources.NODE_CLAIMS, resources.NODE_OVERLAYS, resources.EC2_NODE_CLASSES)
SERVED: Final = tuple(sorted({*(one for one in vars(resources).values() if _is_decoded(one)), *_PLAIN}))
"""The kinds that a snapshot may have."""


def filled(resource: Resource) -> dict[str, Any]:
    """An object of this kind; a list has one item, a choice its first part, and enumerations keep their words."""
    schema, definitions = _schema(resource)
    found = _filled("", schema, definitions, 0)
    assert isinstance(found, dict)
    return found | {"apiVersion": resource.api_version, "kind": resource.kind}


def _schema(resource: Resource) -> tuple[dict[str, Any], dict[str, Any]]:
    if resource not in _PLAIN:
        whole = msgspec.json.schema(decoding.type_of(resource), schema_hook=lambda _: {"title": "anything"})
        return whole, whole["$defs"]
    versions = yaml.safe_load((CRDS / f"{resource.group}_{resource.plural}.yaml").read_text())["spec"]["versions"]
    (served,) = (one for one in versions if resource.api_version.endswith(one["name"]))
    text, texts = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}
    metadata = {"type": "object", "properties": {"name": text, "labels": texts, "annotations": texts, "uid": text}}
    whole = served["schema"]["openAPIV3Schema"]
    return {**whole, "properties": whole["properties"] | {"metadata": metadata}}, {}


def _filled(name: str, schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return _filled(name, definitions[schema["$ref"].rpartition("/")[2]], definitions, depth)
    if "anyOf" in schema and "properties" not in schema and schema.get("type") != "object":
        return _filled(name, next(one for one in schema["anyOf"] if one.get("type") != "null"), definitions, depth)
    if depth > _DEPTH_MAX or "enum" in schema or "const" in schema:
        return next(iter(schema.get("enum", [schema.get("const")]))) if depth <= _DEPTH_MAX else None
    match schema.get("type"):
        case "object":
            return _object(name, schema, definitions, depth + 1)
        case "array":
            return [_filled(name, schema["items"], definitions, depth + 1)] if schema.get("items") else []
        case "string":
            return _text(name, schema)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    return "1"  # a quantity, or anything


def _object(name: str, schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> dict[str, Any]:
    parts = {
        part: _filled(part, inner, definitions, depth)
        for part, inner in schema.get("properties", {}).items()
        if part not in _NOT_WRITTEN
    }
    found = {part: inner for part, inner in parts.items() if inner is not None}
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        found[_KEY] = "1" if name in _QUANTITIES else _filled("", values, definitions, depth)
    return found


def _text(name: str, schema: dict[str, Any]) -> str | None:
    if schema.get("format") == "date-time":
        return "2026-07-01T00:00:00Z"
    pattern, longest = schema.get("pattern", ""), schema.get("maxLength", 1000)
    forms = (_WORDS[name],) if name in _WORDS else _FORMS
    return next((form for form in forms if len(form) <= longest and re.search(pattern, form)), None)
