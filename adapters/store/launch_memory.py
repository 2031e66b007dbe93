"""Ports of the memory of launches: offerings without capacity, denials, and nominations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from core.model.catalogue import OfferingKey

if TYPE_CHECKING:
    from core.launch.denials.denial import LaunchDenial


class RefusedOfferings(msgspec.Struct, frozen=True):
    """The offerings that refused recently.

    Attributes:
        avoided: Offerings that must not be requested now: their pause is not over, or another launch probes them.
        half_open: Offerings whose pause is over and that were not tried since.
    """

    avoided: frozenset[OfferingKey] = frozenset()
    half_open: frozenset[OfferingKey] = frozenset()


class OfferingProbe(msgspec.Struct, frozen=True):
    """The half-open offerings that one launch probes while all others avoid them, at most until `until`."""

    offerings: frozenset[OfferingKey] = frozenset()
    until: datetime | None = None


class UnavailableOfferings(Protocol):
    """Pools of EC2 capacity that refused a launch, shared by all clusters of the account and region."""

    def refused(self, now: datetime) -> RefusedOfferings:
        """Return the offerings that refused recently."""
        ...

    def mark(self, keys: Iterable[OfferingKey], now: datetime) -> None:
        """Avoid these offerings for a while, longer each time they refuse again soon after."""
        ...

    def probe(self, keys: Iterable[OfferingKey], now: datetime) -> OfferingProbe:
        """Take the right to try half-open offerings, `keys` in order of preference; return those that no other launch has."""
        ...

    def end(self, probe: OfferingProbe, launched: Iterable[OfferingKey]) -> None:
        """Reopen the offerings that a probe launched, and let another launch probe the rest."""
        ...


class LaunchDenials(Protocol):
    """EC2's launch denials of one cluster."""

    def all(self) -> tuple[LaunchDenial, ...]:
        """Return every denial, by EC2NodeClass and code."""
        ...

    def change(self, before: LaunchDenial | None, after: LaunchDenial) -> LaunchDenial:
        """Replace `before`, or store the first of its EC2NodeClass and code; return what is stored, with its version.

        Raises:
            ConflictError: If the stored version is another.
        """
        ...

    def remove(self, denial: LaunchDenial) -> None:
        """Delete the denial; no error if it is gone. Raises ConflictError if it has changed."""
        ...


class Nominations(Protocol):
    """Nodes and claims on which pods are expected soon."""

    def until(self, now: datetime) -> dict[str, datetime]:
        """Return node or claim name → expiry, for nominations that still hold."""
        ...

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        """Add these nominations to those that still hold."""
        ...
