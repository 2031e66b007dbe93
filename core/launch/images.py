"""Selects the image that an instance type boots from."""

from __future__ import annotations

from typing import Final

import msgspec

from core import labels
from core.catalogue.node_class import Ami, EC2NodeClass
from core.identity_cache import ByIdentity
from core.model.catalogue import InstanceType
from core.model.values.requirements import Requirement, Requirements

_CLASSES_KEPT: Final = 8


class _Images(msgspec.Struct, frozen=True):
    """The images of a class in order, each with its requirements on types, and all labels that the requirements use."""

    images: tuple[tuple[Ami, Requirements], ...]
    keys: frozenset[str]


def image_for(instance_type: InstanceType, node_class: EC2NodeClass) -> Ami | None:
    """Return the first resolved image whose requirements the type meets, None if there is none (Karpenter)."""
    wanted = _images_of(node_class)
    carried = Requirements(
        Requirement.one_of(key, *values)
        for key, values in instance_type.labels.items()
        if labels.normalized(key) in wanted.keys
    )
    return next((ami for ami, asked in wanted.images if carried.compatible(asked)), None)


def _read(node_class: EC2NodeClass) -> _Images:
    images = tuple(
        (ami, Requirements(Requirement.of(r.key, r.operator, r.values) for r in ami.requirements))
        for ami in node_class.status.amis
    )
    return _Images(images, frozenset(key for _, asked in images for key in asked))


_images_of: Final = ByIdentity(_read, size=_CLASSES_KEPT)
