"""Reduces objects to the fields that decisions read: no environment, no images, only the annotations that matter.

The structs that decode objects name every field that is read; other fields are left out. A field that a decision begins to read
is therefore in the next snapshot automatically.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from core import labels
from core.api.objects import JsonObject, mapping
from core.manifests.wire import decoding
from core.manifests.wire.api_resources import Resource
from core.manifests.wire.object_metadata import WireMetadata
from core.manifests.wire.pod import WirePod

DECIDING_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws", "fleetwright.dev", "pv.kubernetes.io")
DECIDING: Final = (
    "controller.kubernetes.io/pod-deletion-cost",
    "volume.beta.kubernetes.io/storage-class",
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Annotations that decisions read, besides those in the domains above."""

_NOT_DECIDING: Final = (labels.CLAIM_SPEC, labels.DECISION, labels.LAUNCH_VALIDATION)
_UNREAD_METADATA: Final = ("managedFields", "resourceVersion", "selfLink", "generateName")


def lean(resource: Resource, obj: JsonObject) -> JsonObject:
    """Return the object with only the fields that decisions read.

    Raises:
        InvalidInputError: If a field has the wrong type.
    """
    head = {"apiVersion": obj.get("apiVersion") or resource.api_version, "kind": obj.get("kind") or resource.kind}
    if resource.namespaced and not mapping(obj.get("metadata")).get("namespace"):
        obj = {**obj, "metadata": {**mapping(obj.get("metadata")), "namespace": "default"}}
    decoded = decoding.from_object(resource, obj)
    if isinstance(decoded, dict):
        return head | _lean_plain(decoded)
    written: JsonObject = _written(decoded)
    if isinstance(decoded, WirePod):
        node = written.pop("boundTo", "")
        if node:
            written.setdefault("spec", {})["nodeName"] = node
    return head | written


def _lean_plain(obj: JsonObject) -> JsonObject:
    """Return Karpenter's object completely, except for metadata of other writers."""
    kept = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    kept["metadata"] = _lean_plain_metadata(mapping(obj.get("metadata")))
    template = mapping(kept.get("spec")).get("template")
    if isinstance(template, dict) and isinstance(template.get("metadata"), dict):
        lean_template = {**template, "metadata": _lean_plain_metadata(template["metadata"])}
        kept["spec"] = {**kept["spec"], "template": lean_template}
    return kept


def _lean_plain_metadata(metadata: JsonObject) -> JsonObject:
    kept = {key: value for key, value in metadata.items() if key not in _UNREAD_METADATA}
    annotations = metadata.get("annotations")
    if annotations:
        kept["annotations"] = _deciding(annotations)
    return {key: value for key, value in kept.items() if value not in ({}, [], "", None)}


def _deciding(annotations: JsonObject) -> JsonObject:
    return {key: value for key, value in annotations.items() if _decides(key)}


def _decides(key: str) -> bool:
    domain = key.partition("/")[0]
    in_domain = any(domain == known or domain.endswith(f".{known}") for known in DECIDING_DOMAINS)
    return (in_domain or key in DECIDING) and key not in _NOT_DECIDING


def _written(value: Any) -> Any:
    """Return a struct of the wire as it was written, without fields at their defaults."""
    if isinstance(value, WireMetadata):
        value = msgspec.structs.replace(value, annotations=_deciding(value.annotations), resource_version="")
    if isinstance(value, msgspec.Struct):
        found = {}
        for field in msgspec.structs.fields(value):
            inner = getattr(value, field.name)
            if inner != _default(field):
                found[field.encode_name] = _written(inner)
        return found
    if isinstance(value, tuple | list):
        return [_written(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _written(inner) for key, inner in value.items()}
    return msgspec.to_builtins(value) if isinstance(value, datetime) else value


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default
