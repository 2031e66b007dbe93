"""Marks offerings of the catalogue that EC2 recently refused, or in zones to avoid, as unavailable.

Such offerings still price running nodes, but nothing is launched from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from core.launch.denials.denial import LaunchDenial
from core.launch.denials.subnets import closed_zones
from core.model.catalogue import Catalogue, InstanceType, OfferingKey


def without_unavailable(catalogue: Catalogue, refused: AbstractSet[OfferingKey]) -> Catalogue:
    """Return the catalogue with the refused offerings marked as unavailable."""
    if not refused:
        return catalogue
    names = {key.instance_type for key in refused}

    def masked(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        return tuple(_masked(found, refused) if found.name in names else found for found in types)

    return Catalogue(
        default=masked(catalogue.default),
        by_node_class={name: masked(types) for name, types in catalogue.by_node_class.items()},
    )


def without_denied(catalogue: Catalogue, denials: Iterable[LaunchDenial]) -> Catalogue:
    """Return the catalogue with the offerings that EC2 denies an EC2NodeClass marked as unavailable, for that class."""
    by_class = dict(catalogue.by_node_class)
    for denial in denials:
        types = by_class.get(denial.node_class, catalogue.default)
        keys = {o.key for found in types for o in found.offerings if denial.scope.covers(o.key)}
        by_class[denial.node_class] = tuple(_masked(found, keys) for found in types)
    return Catalogue(default=catalogue.default, by_node_class=by_class)


def has_unavailable(catalogue: Catalogue) -> bool:
    """Whether any offering is not available."""
    every = (catalogue.default, *catalogue.by_node_class.values())
    return any(not offering.available for types in every for found in types for offering in found.offerings)


def without_full_subnets(
    catalogue: Catalogue, subnets: Mapping[str, Iterable[tuple[str, str]]], refused: AbstractSet[OfferingKey]
) -> Catalogue:
    """Return the catalogue with an EC2NodeClass's offerings marked as unavailable where all its subnets lack addresses.

    Args:
        catalogue: The catalogue.
        subnets: EC2NodeClass → (subnet id, zone).
        refused: What EC2 recently refused, subnets included.
    """
    by_class = dict(catalogue.by_node_class)
    for name, own in sorted(subnets.items()):
        zones = closed_zones(own, refused)
        if zones:
            types = catalogue.types_for(name)
            keys = {o.key for found in types for o in found.offerings if o.zone in zones}
            by_class[name] = tuple(_masked(found, keys) for found in types)
    return Catalogue(default=catalogue.default, by_node_class=by_class)


def without_zones(catalogue: Catalogue, zones: AbstractSet[str]) -> Catalogue:
    """Return the catalogue with all offerings in these zones marked as unavailable."""
    if not zones:
        return catalogue
    in_them = {
        offering.key
        for types in (catalogue.default, *catalogue.by_node_class.values())
        for found in types
        for offering in found.offerings
        if offering.zone in zones
    }
    return without_unavailable(catalogue, in_them)


def _masked(found: InstanceType, refused: AbstractSet[OfferingKey]) -> InstanceType:
    offerings = tuple(
        msgspec.structs.replace(offering, available=False) if offering.key in refused else offering
        for offering in found.offerings
    )
    return msgspec.structs.replace(found, offerings=offerings)
