"""Computes drift hashes: two objects have equal hashes if a node made from one needs no replacement under the other.

The hashes and their version (`labels.HASH_VERSION`) are our own: they cover the same fields as Karpenter's, and are not equal
to Karpenter's. Hashes of different versions are never compared, so nodes of Karpenter's do not drift when we take over.

What counts (Karpenter): of a NodePool its template without requirements; of an EC2NodeClass the spec without selectors, prefix
count and the family as written. Lists are sets; what has its default, and lists and maps without entries, count as absent. An
explicit false differs from an absent value where EC2 or the subnet would decide, and so does an empty tag.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from core.api.objects import JsonObject
from core.api.schemas.ec2_node_class import EC2NodeClassSpec
from core.api.schemas.ec2_node_class_rules import ami_family
from core.api.schemas.node_pool import Template
from core.model.values import quantity
from core.model.values.duration import parse_duration

_DURATIONS: Final = ("expireAfter", "terminationGracePeriod")
_DYNAMIC: Final = (
    "amiFamily",
    "amiSelectorTerms",
    "capacityReservationSelectorTerms",
    "ipPrefixCount",
    "securityGroupSelectorTerms",
    "subnetSelectorTerms",
)
_HASH_LENGTH: Final = 16


def of_template(template: Template) -> str:
    """Return the hash of a NodePool's `spec.template`."""
    content = template.model_dump(by_alias=True)
    spec = content["spec"]
    del spec["requirements"]
    for name in _DURATIONS:
        spec[name] = _seconds(spec[name])
    return _digest(content)


def of_node_class(spec: EC2NodeClassSpec, raw: JsonObject) -> str:
    """Return the hash of an EC2NodeClass's `spec`; `raw` is the same spec as written."""
    content = spec.model_dump(by_alias=True)
    content = {name: value for name, value in content.items() if name not in _DYNAMIC}
    for device in content["blockDeviceMappings"]:
        if device["ebs"] and device["ebs"]["volumeSize"]:
            device["ebs"]["volumeSize"] = quantity.parse(device["ebs"]["volumeSize"], quantity.EPHEMERAL_STORAGE)
    kubelet = json.dumps(raw.get("kubelet"), sort_keys=True)
    return _digest(content | {"resolvedFamily": ami_family(raw), "kubelet": kubelet})


def _seconds(text: str | None) -> str | None:
    """Normalize a duration, so that 60m and 1h are equal; Never and an absent value both become None."""
    span = parse_duration(text) if text else None
    return None if span is None else str(span.total_seconds())


def _digest(content: JsonObject) -> str:
    return hashlib.sha256(_canonical(_pruned(content)).encode()).hexdigest()[:_HASH_LENGTH]


def _pruned(value: Any) -> Any:
    """Return the value without nulls and empty collections, with lists in canonical order."""
    if isinstance(value, dict):
        kept = ((key, _pruned(item)) for key, item in value.items())
        return {key: item for key, item in kept if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return sorted((_pruned(item) for item in value), key=_canonical)
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
