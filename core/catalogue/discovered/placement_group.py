"""The placement group that an EC2NodeClass selects, stored in an annotation of the class.

Karpenter's definition of the class has no field for it in the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import EC2NodeClass, PlacementGroup

PARTITION: Final = "partition"
"""The strategy whose groups have numbered partitions."""


def placement_group_of(node_class: EC2NodeClass) -> PlacementGroup | None:
    """Return the group of the class, None if it selects none or the group is unknown.

    An annotation that was written for an earlier selector does not count.
    """
    selector = node_class.spec.placement_group_selector
    if selector is None:
        return None
    found = node_class.status.placement_group or _read(node_class.metadata.annotations.get(labels.PLACEMENT_GROUP, ""))
    is_selected = found is not None and (found.id == selector.id if selector.id else found.name == selector.name)
    return found if is_selected else None


def group_labels(group: PlacementGroup) -> dict[str, tuple[str, ...]]:
    """Return the values of the labels that a node of the group may carry (Karpenter)."""
    found: dict[str, tuple[str, ...]] = {labels.PLACEMENT_GROUP_ID: (group.id,)}
    if group.strategy == PARTITION:
        found[labels.PLACEMENT_GROUP_PARTITION] = tuple(str(number + 1) for number in range(group.partitions))
    return found


def written_group(group: Mapping[str, Any]) -> str:
    """Return the value of the annotation `labels.PLACEMENT_GROUP` for a resolved group."""
    return msgspec.json.encode(dict(sorted(group.items()))).decode()


def _read(text: str) -> PlacementGroup | None:
    """Read the annotation; users may write anything there."""
    try:
        return msgspec.json.decode(text, type=PlacementGroup)
    except msgspec.MsgspecError:
        return None
