"""Remembers subnets without free addresses, as offerings of any type in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from core.api.objects import mapping, sequence
from core.model.catalogue import OfferingKey

_ANY: Final = "*"


def subnet_key(subnet_id: str) -> OfferingKey:
    """Return the key under which a subnet is remembered."""
    return OfferingKey(_ANY, subnet_id, _ANY)


def refused_subnets(refused: Iterable[OfferingKey]) -> frozenset[str]:
    """Return the subnets among the refused offerings."""
    return frozenset(key.zone for key in refused if key.instance_type == _ANY)


def closed_zones(subnets: Iterable[tuple[str, str]], refused: Iterable[OfferingKey]) -> frozenset[str]:
    """Return the zones in which no subnet is left.

    Args:
        subnets: (subnet id, zone) of an EC2NodeClass.
        refused: What EC2 recently refused.
    """
    full, pairs = refused_subnets(refused), tuple(subnets)
    left = {zone for subnet, zone in pairs if subnet not in full}
    return frozenset(zone for _, zone in pairs if zone not in left)


def subnet_by_zone(
    subnets: Iterable[tuple[str, str]], chosen: Mapping[str, str], avoided: Collection[str]
) -> dict[str, str]:
    """Return zone → the chosen subnet, or the first one where none is chosen or the chosen one is avoided or gone.

    Args:
        subnets: (subnet id, zone) of an EC2NodeClass, those with most free addresses first.
        chosen: Zone → subnet.
        avoided: Ids of subnets.
    """
    found: dict[str, str] = {}
    for subnet, zone in subnets:
        if subnet not in avoided and (zone not in found or chosen.get(zone) == subnet):
            found[zone] = subnet
    return found


def subnets_of(node_class: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (subnet id, zone) of what an EC2NodeClass manifest resolves to; others may write anything into its status."""
    found = map(mapping, sequence(mapping(node_class.get("status")).get("subnets")))
    return tuple((str(subnet.get("id", "")), str(subnet.get("zone", ""))) for subnet in found if subnet)
