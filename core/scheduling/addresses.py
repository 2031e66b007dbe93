"""Tracks the free addresses of subnets: every node takes at least one of its subnet, before any pod runs on it.

Only zones count in which every subnet of an EC2NodeClass has few addresses. Their sum counts: once EC2 refuses one subnet,
launches go to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from core import labels
from core.model.node_pool import NodeClass
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.new_node import ClaimDraft, InFlightClaim, NodeClaimTemplate


class ZoneSubnets(NamedTuple):
    """The subnets of an EC2NodeClass in one zone.

    Attributes:
        subnets: Their ids, sorted.
        per_node: How many addresses of one of them a node takes.
    """

    subnets: tuple[str, ...]
    per_node: int


class RemainingAddresses:
    """The addresses that the subnets of each zone have left within one plan.

    Attributes:
        left: Subnets of a zone → addresses that nodes can still take there; negative if the plan takes too many.
    """

    def __init__(
        self, by_template: Sequence[Mapping[str, ZoneSubnets]] = (), remaining: Mapping[ZoneSubnets, int] | None = None
    ) -> None:
        self._by_template = by_template
        self.left = dict(remaining or {})

    @classmethod
    def of(cls, snapshot: Snapshot, templates: Iterable[NodeClaimTemplate]) -> RemainingAddresses:
        """Return what the snapshot leaves to each NodePool; nothing is limited where all subnets have plenty."""
        classes = {node_class.name: node_class for node_class in snapshot.node_classes}
        free = snapshot.subnet_addresses
        by_template = [_scarce_zones(classes.get(template.pool.node_class.name), free) for template in templates]
        free_addresses = {
            zone: _usable([max(0, free[subnet]) for subnet in zone.subnets], zone.per_node)
            for zones in by_template
            for zone in zones.values()
        }
        return cls(by_template, free_addresses)

    def copy(self) -> RemainingAddresses:
        """Return an independent copy."""
        return RemainingAddresses(self._by_template, self.left)

    def scarce_zones(self, template: NodeClaimTemplate) -> Mapping[str, ZoneSubnets]:
        """Return zone → subnets, for the zones in which the NodePool's nodes are counted."""
        return self._by_template[template.index] if self._by_template else {}

    def has_room(self, template: NodeClaimTemplate, zone: str) -> bool:
        """Whether one more node of the NodePool can start in a zone."""
        scarce = self.scarce_zones(template).get(zone)
        return scarce is None or self.left[scarce] >= scarce.per_node

    def take(self, template: NodeClaimTemplate, zone: str) -> None:
        """Charge a node. Where EC2NodeClasses share only some subnets, it counts in all zones that it may be in."""
        scarce = self.scarce_zones(template).get(zone)
        if scarce is None:
            return
        for other in self.left:
            if not set(other.subnets).isdisjoint(scarce.subnets):
                self.left[other] -= scarce.per_node

    @property
    def is_exceeded(self) -> bool:
        """Whether more was taken than there is."""
        return any(amount < 0 for amount in self.left.values())


def _usable(free: Sequence[int], per_node: int) -> int:
    """Return the addresses that nodes can take; the rest of each of several subnets is too small for one."""
    return sum(count // per_node * per_node for count in free) if len(free) > 1 else sum(free)


def _scarce_zones(node_class: NodeClass | None, free: Mapping[str, int]) -> dict[str, ZoneSubnets]:
    """Return zone → its subnets, for the zones of a class in which all subnets have few addresses."""
    by_zone: dict[str, list[str]] = {}
    for subnet, zone in sorted(node_class.subnets) if node_class is not None and free else ():
        by_zone.setdefault(zone, []).append(subnet)
    per_node = node_class.addresses_per_node if node_class is not None else 1
    return {
        zone: ZoneSubnets(tuple(subnets), per_node)
        for zone, subnets in by_zone.items()
        if all(subnet in free for subnet in subnets)
    }


# Fits the claims of a plan into the free addresses of subnets without planning again: it drops alternative zones.
#
# Most claims may be launched in several zones, and few plans come near the last address of one.


def fitted(claims: Sequence[InFlightClaim], addresses: RemainingAddresses) -> RemainingAddresses | None:
    """Restrict claims so that wherever EC2 launches each of them, every subnet has an address for it.

    Returns:
        The addresses left beside them, or None if they cannot fit; then no claim is changed.
    """
    worst = addresses.copy()
    for claim in claims:
        _take_all(claim.draft, worst)
    if not worst.is_exceeded:
        return worst
    addresses_left = addresses.copy()
    narrowed = [claim.draft for claim in claims]
    has_choice = [len(zones_of(draft)) > 1 for draft in narrowed]
    for draft in (
        draft_of_choice for draft_of_choice, may_choose in zip(narrowed, has_choice, strict=True) if not may_choose
    ):
        _take_all(draft, addresses_left)
    for position in (position for position, may_choose in enumerate(has_choice) if may_choose):
        narrowed[position] = in_one_scarce_zone(narrowed[position], addresses_left)
        _take_all(narrowed[position], addresses_left)
    if addresses_left.is_exceeded:
        return None
    for claim, draft in zip(claims, narrowed, strict=True):
        claim.reqs = draft.reqs
    return addresses_left


def in_one_scarce_zone(draft: ClaimDraft, addresses: RemainingAddresses) -> ClaimDraft:
    """Return the draft in all zones with plenty of addresses, or in one zone with few: whichever is cheapest.

    Ties go to plenty, then to the zone with the most left. If no zone has room, the draft is returned unchanged.
    """
    template, table = draft.template, draft.template.types.table
    zones, scarce = zones_of(draft), addresses.scarce_zones(draft.template)
    few = [zone for zone in zones if zone in scarce]
    if not few or len(zones) == 1:
        return draft
    plenty = [zone for zone in zones if zone not in scarce]
    few = sorted((zone for zone in few if addresses.has_room(template, zone)), key=lambda z: -addresses.left[scarce[z]])
    requirements = [Requirements([Requirement.one_of(labels.ZONE, *plenty)])] if plenty else []
    requirements += [Requirements([Requirement.one_of(labels.ZONE, zone)]) for zone in few]
    choices = [draft.narrowed(table.narrowed(draft.reqs, required=table.intern(narrower))) for narrower in requirements]
    possible = [choice for choice in choices if choice.is_possible]
    complete = [choice for choice in possible if not choice.missing_values()] or possible
    return min(complete, key=lambda choice: choice.price, default=draft)


def zones_of(draft: ClaimDraft) -> tuple[str, ...]:
    """Return the zones in which a claim may be launched, sorted."""
    return draft.template.types.offerings.zones_and_capacity_types(draft.fitting_types, draft.reqs)[0]


def _take_all(draft: ClaimDraft, addresses: RemainingAddresses) -> None:
    for zone in zones_of(draft):
        addresses.take(draft.template, zone)
