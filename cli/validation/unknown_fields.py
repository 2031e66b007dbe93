"""Finds fields that no API server knows: in Karpenter's objects, in Pods, workloads and the other kinds that people write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.manifests.document import Document
from cli.validation.field_places import right_place
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest
from cli.validation.kubernetes_fields import OBJECT_META, kubernetes_fields, type_of
from cli.validation.workload_places import TEMPLATES, place_in_workload
from core.api import conversion
from core.api.objects import group_and_version, is_ours, kind_of
from core.api.problem import Location, path_of
from core.api.schemas.base import ApiModel, parts
from core.api.validation import MODELS

_OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_WITH_PODS: Final = (*TEMPLATES, "Pod")

Unknown = tuple[Location, str]
"""The path of an unknown field, and the known field with the most similar spelling."""


def unknown_fields(document: Document, *, is_lenient: bool) -> Iterator[Finding]:
    """Return a finding for each unknown field; older versions of Karpenter's objects are not checked.

    In the pod template of a workload each is an error. Elsewhere, a field with a spelling similar to a known one, or known in
    another place, is an error; any other is a warning, since it may be of a newer version.
    """
    template = TEMPLATES.get(document.kind, ())
    for location, similar in _found(document):
        is_in_template = bool(template) and location[: len(template)] == template
        elsewhere = _right_place(document, location)
        meant = elsewhere or similar
        severity = Severity.ERROR if (meant or is_in_template) and not is_lenient else Severity.WARNING
        message = "there is no such field here" if elsewhere else "there is no such field"
        yield finding_in(document, Code.UNKNOWN_FIELD, path_of(location), message, severity=severity, suggestion=meant)


def _found(document: Document) -> Iterator[Unknown]:
    obj = document.object
    group, version = group_and_version(obj)
    model = MODELS.get((group, version, kind_of(obj)))
    if model is not None and not conversion.is_old(obj):
        yield from _unknown_keys(obj, _OBJECT_FIELDS, ())
        yield from _in_struct(obj.get("metadata"), OBJECT_META, ("metadata",))
        if "spec" in dict(parts(model)):
            yield from _in_model(obj.get("spec"), dict(parts(model))["spec"], ("spec",))
    elif kind := type_of(obj):
        yield from _in_struct(obj, kind, ())


def _right_place(document: Document, location: Location) -> str:
    """Return the path where the field belongs, empty if it belongs nowhere."""
    if is_ours(document.object):
        return right_place(document.object, location)
    return place_in_workload(document.kind, type_of(document.object), location) if document.kind in _WITH_PODS else ""


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
    fields = kubernetes_fields()[kind]
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
