"""Finds capacity reservations that end soon: no pod is moved there by choice, since it would move again at their end."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core import labels
from core.disruption.conditions.expiration import SOON
from core.model.catalogue import Catalogue, InstanceType
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode


def ending_reservations(snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of reservations that nodes leave, or pay for again, before a saving has lasted its time."""
    ends = (end for node_class in snapshot.node_classes for end in node_class.reservation_ends.items())
    return frozenset(identity for identity, leaves in ends if leaves - snapshot.now <= SOON)


class EndingReservations:
    """Some reservations that end soon, and the market with and without launches into them."""

    def __init__(self, snapshot: Snapshot, identities: frozenset[str]) -> None:
        self._ids = identities
        self._whole = snapshot.catalogue
        self._lasting = _without_launches(snapshot.catalogue, identities)

    @property
    def take_nodes(self) -> bool:
        """Whether any of them takes a new node, so that the two markets differ."""
        return self._lasting is not self._whole

    def avoided(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without launches into them."""
        return msgspec.structs.replace(snapshot, catalogue=self._lasting) if self.take_nodes else snapshot

    def allowed(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with launches into them."""
        return msgspec.structs.replace(snapshot, catalogue=self._whole) if self.take_nodes else snapshot

    def nodes(self, states: Iterable[StateNode]) -> frozenset[str]:
        """Return the names of the nodes in them."""
        if not self._ids:
            return frozenset()
        return frozenset(state.name for state in states if state.labels.get(labels.RESERVATION_ID, "") in self._ids)


def _without_launches(catalogue: Catalogue, reservations: frozenset[str]) -> Catalogue:
    """Return the catalogue in which these reservations take no new node; the same one if they take none already."""
    every = (catalogue.default, *catalogue.by_node_class.values())
    if not any(_takes_nodes(one, reservations) for types in every for one in types if reservations):
        return catalogue
    by_class = {name: _closed(types, reservations) for name, types in catalogue.by_node_class.items()}
    return Catalogue(_closed(catalogue.default, reservations), by_class)


def _takes_nodes(one: InstanceType, reservations: frozenset[str]) -> bool:
    return any(offering.available and offering.reservation_id in reservations for offering in one.offerings)


def _closed(types: tuple[InstanceType, ...], reservations: frozenset[str]) -> tuple[InstanceType, ...]:
    return tuple(_type_closed(one, reservations) if _takes_nodes(one, reservations) else one for one in types)


def _type_closed(one: InstanceType, reservations: frozenset[str]) -> InstanceType:
    offerings = tuple(
        msgspec.structs.replace(offering, available=False) if offering.reservation_id in reservations else offering
        for offering in one.offerings
    )
    return msgspec.structs.replace(one, offerings=offerings)
