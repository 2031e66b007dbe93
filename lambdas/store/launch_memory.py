"""What launches must know of earlier ones: offerings without capacity, denials, and where pods are expected."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from core.launch.denials.denial import LaunchDenial
    from core.model.catalogue import OfferingKey


class UnavailableOfferings(Protocol):
    """Pools of EC2 capacity that refused a launch, shared by all clusters of the account and region."""

    def active(self, now: datetime) -> frozenset[OfferingKey]:
        """Return the offerings to avoid now."""
        ...

    def mark(self, keys: Iterable[OfferingKey], now: datetime) -> None:
        """Avoid these offerings for a while, longer each time they refuse again soon after."""
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
