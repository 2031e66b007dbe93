"""Applies the project's CustomResourceDefinitions to writes, as the API server does: defaults, pruning, schemas and rules.

Rules in CEL are judged by the models from which the definitions are made (`core.api`); tests hold the two together. What these
cannot see, a transition rule such as `self == oldSelf`, is judged here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from core.api.crds import definitions
from core.api.objects import JsonObject
from core.api.older_versions import problems
from core.errors import InvalidInputError
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource

DEFINED: Final = (
    resources.NODE_POOLS,
    resources.NODE_CLAIMS,
    resources.NODE_OVERLAYS,
    resources.EC2_NODE_CLASSES,
    resources.CALENDARS,
)
"""The kinds that a CustomResourceDefinition of ours defines."""

_OWN: Final = ("apiVersion", "kind", "metadata")
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_IMMUTABLE: Final = "self == oldSelf"
_SAME_FIELD: Final = re.compile(r"self\.(\w+) == oldSelf\.\1")
_SAME_PRESENCE: Final = re.compile(r"has\(self\.(\w+)\) == has\(oldSelf\.\1\)")
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def stored(resource: Resource, obj: JsonObject, old: JsonObject | None = None) -> JsonObject:
    """Return an object as the API server would store it, in place of `old` if it exists.

    Raises:
        InvalidInputError: If the API server would refuse it; the error names the field.
    """
    if resource not in DEFINED:
        return obj
    schema = _schema(resource.kind)
    subject = f"{resource.kind} {obj.get('metadata', {}).get('name', '')}"
    if old is not None and obj.get("spec") is old.get("spec"):
        return _with_status(obj, schema, subject)
    kept: JsonObject = {key: obj[key] for key in _OWN if key in obj}
    completed = {**kept, **_completed({key: value for key, value in obj.items() if key not in _OWN}, schema)}
    for field, problem in _faults(completed, schema, ""):
        raise InvalidInputError(problem, subject=subject, field=field)
    for fault in problems({key: value for key, value in completed.items() if key != "status"}):
        raise InvalidInputError(fault.message, subject=subject, field=fault.field)
    for field in _changed_for_ever(completed, old, schema, "") if old is not None else ():
        raise InvalidInputError("must not change", subject=subject, field=field)
    return completed


def _with_status(obj: JsonObject, schema: JsonObject, subject: str) -> JsonObject:
    """Return an object of which the metadata or the status alone is new: the rest was judged when it was written."""
    of_status = schema["properties"].get("status")
    if of_status is None or "status" not in obj:
        return obj
    status = _completed(obj["status"], of_status)
    for field, problem in _faults(status, of_status, "status"):
        raise InvalidInputError(problem, subject=subject, field=field)
    return {**obj, "status": status}


@cache
def _schema(kind: str) -> JsonObject:
    definition = next(candidate for candidate in definitions() if candidate["spec"]["names"]["kind"] == kind)
    schema: JsonObject = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _completed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value with the defaults of its schema, and without fields that the schema does not have."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_completed(entry, schema["items"]) for entry in value]
    if not isinstance(value, dict):
        return value
    if isinstance(schema.get("additionalProperties"), dict):
        return {key: _completed(entry, schema["additionalProperties"]) for key, entry in value.items()}
    fields = schema.get("properties")
    if fields is None:
        return value
    completed = {
        key: _completed(entry, fields[key]) for key, entry in value.items() if key in fields and entry is not None
    }
    if schema.get(_PRESERVES):
        completed |= {key: entry for key, entry in value.items() if key not in fields}
    for key, of_field in fields.items():
        if key not in completed and "default" in of_field:
            completed[key] = _completed(copy.deepcopy(of_field["default"]), of_field)
    return completed


def _faults(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Yield field and problem of what the schema does not admit."""
    wanted = _TYPES.get(schema.get("type", ""))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
        yield place, f"must be of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield place, f"must be one of {', '.join(map(str, schema['enum']))}"
    if is_number and value < schema.get("minimum", value):
        yield place, f"must be {schema['minimum']} or more"
    if is_number and value > schema.get("maximum", value):
        yield place, f"must be {schema['maximum']} or less"
    if isinstance(value, str):
        yield from _faults_of_text(value, schema, place)
    if isinstance(value, list):
        yield from _faults_of_size(len(value), schema, place, "Items")
        for index, entry in enumerate(value):
            yield from _faults(entry, schema.get("items") or {}, f"{place}[{index}]")
    if isinstance(value, dict):
        yield from _faults_of_fields(value, schema, place)


def _faults_of_text(value: str, schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    yield from _faults_of_size(len(value), schema, place, "Length")
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield place, f"does not match {schema['pattern']}"


def _faults_of_fields(value: JsonObject, schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    inner = f"{place}." if place else ""
    for key in schema.get("required") or ():
        if key not in value and key not in _OWN:
            yield f"{inner}{key}", "is required"
    of_all = schema.get("additionalProperties")
    yield from _faults_of_size(len(value), schema, place, "Properties")
    for key, entry in value.items():
        of_field = (schema.get("properties") or {}).get(key, of_all)
        if isinstance(of_field, dict) and not (not place and key in _OWN):
            yield from _faults(entry, of_field, f"{inner}{key}")


def _faults_of_size(size: int, schema: Mapping[str, Any], place: str, what: str) -> Iterator[tuple[str, str]]:
    low, high = schema.get(f"min{what}"), schema.get(f"max{what}")
    if (low is not None and size < low) or (high is not None and size > high):
        yield place, f"has {size} {what.lower()}, which is not between {low or 0} and {high}"


def _changed_for_ever(new: Any, old: Any, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the fields that must not change and do; a rule about both values holds only where there were both."""
    rules = [str(rule.get("rule")) for rule in schema.get(_RULES) or ()]
    before = _completed(old, schema)
    if _IMMUTABLE in rules and new != before:
        yield place
    if not isinstance(new, dict) or not isinstance(before, dict):
        return
    for rule in rules:
        if (same := _SAME_FIELD.fullmatch(rule)) and new.get(same[1]) != before.get(same[1]):
            yield f"{place}.{same[1]}"
        if (there := _SAME_PRESENCE.fullmatch(rule)) and (there[1] in new) != (there[1] in before):
            yield f"{place}.{there[1]}"
    for key, of_field in (schema.get("properties") or {}).items():
        if key in new and key in old and key not in _OWN:
            yield from _changed_for_ever(new[key], old[key], of_field, f"{place}.{key}" if place else key)
