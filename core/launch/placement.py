"""Places a node on EC2's hardware: shared or dedicated, and which placement group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from core import labels
from core.catalogue.node_class import NodeClassSpec
from core.model.values.requirements import Requirement

SHARED: Final = "default"
DEDICATED: Final = "dedicated"


def tenancy(requirements: Iterable[Requirement]) -> str:
    """Return the tenancy that a claim is launched with: dedicated only where shared hardware is ruled out (Karpenter)."""
    asked = next((requirement for requirement in requirements if requirement.key == labels.TENANCY), None)
    return DEDICATED if asked is not None and not asked.has(SHARED) and asked.has(DEDICATED) else SHARED


def placement(spec: NodeClassSpec, node_tenancy: str) -> dict[str, Any]:
    """Return `Placement` of a launch template; empty where EC2's default applies."""
    group = spec.placement_group_selector
    fields = {
        "Tenancy": node_tenancy if node_tenancy != SHARED else "",
        "GroupName": group.name if group else "",
        "GroupId": group.id if group else "",
    }
    return {name: value for name, value in fields.items() if value}
