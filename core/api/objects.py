"""Reads JSON objects: their identity, and their content without empty values."""

from __future__ import annotations

from typing import Any

from core import labels

JsonObject = dict[str, Any]


def group_and_version(obj: JsonObject) -> tuple[str, str]:
    """Return the two halves of `apiVersion`; the group is empty for core objects."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return group, version


def identity_problems(obj: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return which of `apiVersion` and `kind` are missing or not text, each with what is wrong."""
    identity = (("apiVersion", obj.get("apiVersion")), ("kind", obj.get("kind")))
    return tuple(
        (field, "must be text" if value else "is required")
        for field, value in identity
        if not value or not isinstance(value, str)
    )


def kind_of(obj: JsonObject) -> str:
    """`kind`, empty where it is missing."""
    return str(obj.get("kind") or "")


def name_of(obj: JsonObject) -> str:
    """`metadata.name`, empty where it is missing."""
    return str(mapping(obj.get("metadata")).get("name") or "")


def generation_of(obj: JsonObject) -> int:
    """`metadata.generation`, which counts changes of the spec; 0 where it is missing."""
    generation = mapping(obj.get("metadata")).get("generation")
    return generation if isinstance(generation, int) else 0


def is_ours(obj: JsonObject) -> bool:
    """Whether the object belongs to one of Karpenter's two API groups, in any version, or is a Calendar."""
    group = group_and_version(obj)[0]
    return group in (labels.CORE_GROUP, labels.AWS_GROUP) or (group == labels.OWN_GROUP and kind_of(obj) == "Calendar")


def mapping(value: object) -> JsonObject:
    """Return the value if it is an object, else an empty one: for reading on where validation reports the fault elsewhere."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def without_nulls(value: Any) -> Any:
    """Return the value without null fields, recursively: the API server drops them on arrival."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
