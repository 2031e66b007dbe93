"""Memory of instance types as nodes that joined have shown it, in place of the estimate (Karpenter, discovered capacity).

EC2 says how much memory it sells, not what hypervisor, firmware and kernel leave of it. The kernel is the image's, so what was
seen counts for the EC2NodeClass' present images only. It is kept in an annotation of the class, where every reader of the class
has it: no row, no further read.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec

from core import labels
from core.catalogue.node_class import EC2NodeClass

MIB: Final = 2**20
TYPES_MAX: Final = 600
"""Most instance types that are remembered of a class: 12 KB of the 256 KB that an object's annotations may have."""

_CHARACTERS: Final = 12


class SeenMemory(msgspec.Struct, frozen=True):
    """What one node showed: its capacity in bytes."""

    instance_type: str
    image_id: str
    memory: int


class _Written(msgspec.Struct, frozen=True):
    """The annotation: a digest of the images, and instance type → MiB."""

    images: str
    mib: dict[str, int]


def discovered_memory(node_class: EC2NodeClass) -> tuple[tuple[str, int], ...]:
    """Return (instance type, MiB) as seen with the class' present images, by type; nothing where it cannot be read."""
    return tuple(sorted(_read(node_class).items()))


def with_seen(node_class: EC2NodeClass, seen: Iterable[SeenMemory]) -> str | None:
    """Return the new value of the annotation; None where it stays as it is.

    The smallest counts, in whole MiB: a plan that expects more than the next node has would leave a pod without a place. What
    was seen with other images than the present ones is dropped once something is seen with these.
    """
    images = {ami.id for ami in node_class.status.amis}
    before = _read(node_class)
    after = dict(before)
    for one in sorted(seen, key=lambda one: (one.instance_type, one.memory)):
        mib = one.memory // MIB
        if mib <= 0 or one.image_id not in images:
            continue
        if one.instance_type in after or len(after) < TYPES_MAX:
            after[one.instance_type] = min(mib, after.get(one.instance_type, mib))
    if after == before:
        return None
    return msgspec.json.encode(_Written(_digest(_images(node_class)), after), order="deterministic").decode()


def with_renamed_images(text: str, images: Iterable[str], renamed: Iterable[str]) -> str | None:
    """Return the annotation's value for a class whose present images have other ids; None where it says nothing of these."""
    written = _decoded(text)
    if written is None or written.images != _digest(images):
        return None
    return msgspec.json.encode(_Written(_digest(renamed), written.mib), order="deterministic").decode()


def _read(node_class: EC2NodeClass) -> dict[str, int]:
    written = _decoded(node_class.metadata.annotations.get(labels.NODE_MEMORY, ""))
    return written.mib if written is not None and written.images == _digest(_images(node_class)) else {}


def _decoded(text: str) -> _Written | None:
    try:
        return msgspec.json.decode(text, type=_Written) if text else None
    except msgspec.DecodeError:
        return None


def _images(node_class: EC2NodeClass) -> Iterable[str]:
    return (ami.id for ami in node_class.status.amis)


def _digest(images: Iterable[str]) -> str:
    return sha256(",".join(sorted(set(images))).encode()).hexdigest()[:_CHARACTERS]
