"""Renders a node's placement: shared or dedicated hardware, and the placement group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from core import labels
from core.catalogue.node_class import NodeClassSpec
from core.model.values.requirements import Requirement

SHARED: Final = labels.SHARED_TENANCY
DEDICATED: Final = "dedicated"

_CONFINING: Final = ("placementGroupSelector", "cpuOptions")


def tenancy(requirements: Iterable[Requirement]) -> str:
    """Return the tenancy that a claim is launched with: dedicated only if shared hardware is excluded (Karpenter)."""
    asked = next((requirement for requirement in requirements if requirement.key == labels.TENANCY), None)
    return DEDICATED if asked is not None and not asked.has(SHARED) and asked.has(DEDICATED) else SHARED


def is_confined(requirements: Iterable[Requirement], node_class: Mapping[str, Any]) -> bool:
    """Whether a launch may use only part of an offering's capacity, so that its refusal does not apply to other launches.

    True for dedicated hardware, a placement group, or a feature that few machines have. `node_class` is the manifest.
    """
    spec = node_class.get("spec") or {}
    return tenancy(requirements) != SHARED or any(spec.get(field) for field in _CONFINING)


def partition(requirements: Iterable[Requirement]) -> int:
    """Return the partition of its placement group that a claim requires: the lowest of several, 0 for any.

    Karpenter takes the alphabetically first, so `10` before `2`.
    """
    asked = next((one for one in requirements if one.key == labels.PLACEMENT_GROUP_PARTITION), None)
    if asked is None or not asked.is_finite:
        return 0
    return min((int(value) for value in asked.values if value.isdecimal()), default=0)


def placement(spec: NodeClassSpec, node_tenancy: str, partition_number: int = 0) -> dict[str, Any]:
    """Return `Placement` of a launch template; empty where EC2's default applies."""
    group = spec.placement_group_selector
    fields = {
        "Tenancy": node_tenancy if node_tenancy != SHARED else "",
        "GroupName": group.name if group else "",
        "GroupId": group.id if group else "",
        "PartitionNumber": partition_number if group else 0,
    }
    return {name: value for name, value in fields.items() if value}
