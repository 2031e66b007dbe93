"""Selectors of a list request, as the Kubernetes API takes them: `spec.nodeName=,status.phase=Pending`, `!team,tier in (a)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from adapters.ports import DeniedError
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.objects import labels_of

Test = Callable[[JsonObject], bool]

_FIELDS: Final[dict[Resource, tuple[str, ...]]] = {
    kinds.PODS: ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase"),
    kinds.NODES: ("spec.unschedulable",),
}
"""Selectable fields besides `metadata.name` and `metadata.namespace`; the API server refuses any other field."""

_IN: Final = re.compile(r"(?P<key>\S+) (?P<operator>in|notin) \((?P<values>[^)]*)\)")
_COMMA: Final = re.compile(r",(?![^(]*\))")


def selection(resource: Resource, fields: str, labels: str) -> Test:
    """Whether an object is selected by both. Raises DeniedError for a field that the server does not know."""
    tests = [_field_test(resource, part) for part in _parts(fields)] + [_label_test(part) for part in _parts(labels)]
    return lambda obj: all(test(obj) for test in tests)


def node_of_selector(fields: str) -> str:
    """Return the node whose pods a field selector selects, empty if it selects by other fields."""
    return next(
        (part.removeprefix("spec.nodeName=") for part in _parts(fields) if part.startswith("spec.nodeName=")), ""
    )


def _parts(selector: str) -> Iterable[str]:
    return [part.strip() for part in _COMMA.split(selector)] if selector else []


def _field_test(resource: Resource, part: str) -> Test:
    path, wanted, equal = _comparison(part)
    if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ())):
        raise DeniedError(f"kube:list {resource.plural}", f"400 field label not supported: {path}")
    return lambda obj: (_value(obj, path) == wanted) is equal


def _label_test(part: str) -> Test:
    found = _IN.fullmatch(part)
    if found is not None:
        values, wanted = {value.strip() for value in found["values"].split(",")}, found["operator"] == "in"
        key = found["key"]
        return lambda obj: (labels_of(obj).get(key) in values) is wanted
    if "=" in part:
        key, value, equal = _comparison(part)
        return lambda obj: (labels_of(obj).get(key) == value) is equal
    if part.startswith("!"):
        return lambda obj: part[1:] not in labels_of(obj)
    return lambda obj: part in labels_of(obj)


def _comparison(part: str) -> tuple[str, str, bool]:
    left, _, right = part.partition("=")
    return left.rstrip("!"), right.removeprefix("="), not left.endswith("!")


def _value(obj: JsonObject, path: str) -> str:
    value: object = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
