"""Memory of instance types as joined nodes reported it, which replaces the estimate (Karpenter, discovered capacity).

EC2 reports the memory that it sells, of which hypervisor, firmware and kernel use a part. The kernel comes with the
image, so a report is valid only for the EC2NodeClass' present images. An annotation of the class stores the reports, so
that reading the class needs no second read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import EC2NodeClass, PlacementGroup
from core.model.values.quantity import MIB

TYPES_MAX: Final = 600
"""The most instance types that are remembered per class: 12 KB of the 256 KB that an object's annotations may have."""

BAND_PERCENT: Final = 5
"""How far below the median of its type's nodes a report may be."""

_CHARACTERS: Final = 12


class SeenMemory(msgspec.Struct, frozen=True):
    """The memory capacity that one node reported, in bytes."""

    instance_type: str
    image_id: str
    memory: int


class _Written(msgspec.Struct, frozen=True):
    """The annotation: a digest of the images, and instance type → MiB."""

    images: str
    mib: dict[str, int]


def discovered_memory(node_class: EC2NodeClass) -> tuple[tuple[str, int], ...]:
    """Return (instance type, MiB) as seen with the class' present images, by type; empty if the annotation is unreadable."""
    return tuple(sorted(_read(node_class).items()))


def with_seen(node_class: EC2NodeClass, seen: Iterable[SeenMemory]) -> str | None:
    """Return the new value of the annotation; None if it does not change.

    The smallest report that the present nodes agree on counts, in whole MiB: if the next node has less than the plan expects, a
    pod finds no place. Reports for earlier images are dropped with the first report for the present ones.
    """
    images = {ami.id for ami in node_class.status.amis}
    before = _read(node_class)
    after = dict(before)
    reports: dict[str, list[int]] = {}
    for report in seen:
        if report.memory >= MIB and report.image_id in images:
            reports.setdefault(report.instance_type, []).append(report.memory // MIB)
    for instance_type, measured in sorted(reports.items()):
        if instance_type in after or len(after) < TYPES_MAX:
            after[instance_type] = _agreed(sorted(measured), after.get(instance_type))
    if after == before:
        return None
    return msgspec.json.encode(_Written(_digest(_images(node_class)), after), order="deterministic").decode()


def _agreed(reports: Sequence[int], before: int | None) -> int:
    """Return the MiB to plan with, from reports in order.

    Nodes of one type and image differ by little, so a report far below the median is a mistake or a lie. What is known changes
    by a single report only a little, and only downwards; if several nodes agree on more, the known value was wrong and heals.
    """
    median = reports[(len(reports) - 1) // 2]
    credible = min(mib for mib in reports if mib * 100 >= median * (100 - BAND_PERCENT))
    if before is None:
        return credible
    if len(reports) == 1:
        return credible if before * (100 - BAND_PERCENT) <= credible * 100 <= before * 100 else before
    return credible if before * 100 < credible * (100 - BAND_PERCENT) else min(before, credible)


def with_renamed_images(text: str, images: Iterable[str], renamed: Iterable[str]) -> str | None:
    """Return the annotation's value for a class whose present images have other ids; None if it has no reports for these."""
    written = _decoded(text)
    if written is None or written.images != _digest(images):
        return None
    return msgspec.json.encode(_Written(_digest(renamed), written.mib), order="deterministic").decode()


def _read(node_class: EC2NodeClass) -> dict[str, int]:
    written = _decoded(node_class.metadata.annotations.get(labels.NODE_MEMORY, ""))
    return written.mib if written is not None and written.images == _digest(_images(node_class)) else {}


def _decoded(text: str) -> _Written | None:
    try:
        return msgspec.json.decode(text, type=_Written)
    except msgspec.DecodeError:
        return None


def _images(node_class: EC2NodeClass) -> Iterable[str]:
    return (ami.id for ami in node_class.status.amis)


def _digest(images: Iterable[str]) -> str:
    return sha256(",".join(sorted(set(images))).encode()).hexdigest()[:_CHARACTERS]


# The placement group that an EC2NodeClass selects, stored in an annotation of the class.
#
# Karpenter's definition of the class has no field for it in the status.


PARTITION: Final = "partition"
"""The strategy whose groups have numbered partitions."""


def placement_group_of(node_class: EC2NodeClass) -> PlacementGroup | None:
    """Return the group of the class, None if it selects none or the group is unknown.

    An annotation that was written for an earlier selector does not count.
    """
    selector = node_class.spec.placement_group_selector
    if selector is None:
        return None
    group = node_class.status.placement_group or _read_placement_group(
        node_class.metadata.annotations.get(labels.PLACEMENT_GROUP, "")
    )
    is_selected = group is not None and (group.id == selector.id if selector.id else group.name == selector.name)
    return group if is_selected else None


def group_labels(group: PlacementGroup) -> dict[str, tuple[str, ...]]:
    """Return the values of the labels that a node of the group may carry (Karpenter)."""
    offered: dict[str, tuple[str, ...]] = {labels.PLACEMENT_GROUP_ID: (group.id,)}
    if group.strategy == PARTITION:
        offered[labels.PLACEMENT_GROUP_PARTITION] = tuple(str(number + 1) for number in range(group.partitions))
    return offered


def written_group(group: Mapping[str, Any]) -> str:
    """Return the value of the annotation `labels.PLACEMENT_GROUP` for a resolved group."""
    return msgspec.json.encode(dict(sorted(group.items()))).decode()


def _read_placement_group(text: str) -> PlacementGroup | None:
    """Read the annotation; users may write anything there."""
    try:
        return msgspec.json.decode(text, type=PlacementGroup)
    except msgspec.MsgspecError:
        return None
