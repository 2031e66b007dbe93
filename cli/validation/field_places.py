"""Finds where a misplaced field belongs: deeper, in another object, or under a newer name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from core.api.objects import group_and_version, kind_of
from core.api.problem import Location, path_of
from core.api.schemas.base import ApiModel, parts
from core.api.validation import MODELS

_RENAMED: Final = {
    "ttlSecondsAfterEmpty": "spec.disruption.consolidateAfter",
    "ttlSecondsUntilExpired": "spec.template.spec.expireAfter",
    "consolidation": "spec.disruption.consolidationPolicy",
    "providerRef": "spec.template.spec.nodeClassRef",
    "provider": "spec.template.spec.nodeClassRef",
    "kubeletConfiguration": "spec.kubelet of the EC2NodeClass",
    "subnetSelector": "spec.subnetSelectorTerms",
    "securityGroupSelector": "spec.securityGroupSelectorTerms",
    "amiSelector": "spec.amiSelectorTerms",
    "launchTemplate": "spec.userData, spec.blockDeviceMappings and spec.metadataOptions",
}
"""Fields of older versions → their place in v1."""

_GROUP_OF_REFERENCE: Final = ("nodeClassRef", "apiVersion")
_OTHERS: Final = {"NodePool": "EC2NodeClass", "EC2NodeClass": "NodePool"}


def right_place(obj: dict[str, Any], location: Location) -> str:
    """Return the path where an unknown field belongs; empty unless exactly one place has a field of that name."""
    if location[-2:] == _GROUP_OF_REFERENCE:
        return "group"
    name = str(location[-1])
    own = _places(kind_of(obj), group_and_version(obj)[0], name)
    if len(own) == 1:
        return own[0]
    if name in _RENAMED:
        return _RENAMED[name]
    other = _OTHERS.get(kind_of(obj), "")
    group = next((key[0] for key in MODELS if key[2] == other), "")
    others = _places(other, group, name) if other and not own else ()
    return f"{others[0]} of the {other}" if len(others) == 1 else ""


@cache
def _places(kind: str, group: str, name: str) -> tuple[str, ...]:
    """Return every place where a kind has a field of this name, outside of lists."""
    model = next((found for key, found in MODELS.items() if (key[0], key[2]) == (group, kind)), None)
    spec = dict(parts(model)).get("spec") if model is not None else None
    return tuple(path_of(place) for place in _fields(spec, ("spec",)) if place[-1] == name) if spec else ()


def _fields(model: type[ApiModel], at: Location) -> Iterator[Location]:
    within = dict(parts(model))
    for name, field in model.model_fields.items():
        known = field.alias or name
        yield (*at, known)
        if known in within and not _is_list(field.annotation):
            yield from _fields(within[known], (*at, known))


def _is_list(annotation: Any) -> bool:
    return "list[" in str(annotation)
