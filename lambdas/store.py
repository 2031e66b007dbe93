"""What controllers need from the table. Every method raises PortError subclasses only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from core.lifecycle.records import ClaimRecord, CommandRecord
from lambdas.ports import OfferingKey

PLANNER = "planner"
"""Name of the lease under which claims are requested: one planner per cluster at a time."""


class Lease(msgspec.Struct, frozen=True):
    """A lease held. `fence` grows with each holder; writes check it, so a holder that overslept can do no harm."""

    name: str
    fence: int


class Requested(msgspec.Struct, frozen=True):
    """Which claims were stored, and which were not because a NodePool's limit was reached."""

    accepted: tuple[ClaimRecord, ...]
    refused: tuple[ClaimRecord, ...] = ()


class ClaimStore(Protocol):
    """The claims of one cluster, and what they hold of their NodePools' limits."""

    def all(self) -> tuple[ClaimRecord, ...]:
        """Every claim, by name."""
        ...

    def get(self, name: str) -> ClaimRecord | None:
        """One claim, None if there is none."""
        ...

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease
    ) -> Requested:
        """Store new claims and take their `reserved` from the limits (by NodePool), each with its limits or not at all.

        A claim that is stored already, with the same token, counts as accepted: asking twice is safe.

        Raises:
            ConflictError: If the lease is another's by now; nothing more is stored.
        """
        ...

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        """Replace `before` by `after`, and move the limits' use by the difference in `reserved`.

        Returns:
            What is stored now, with its new version.

        Raises:
            ConflictError: If the stored version is not that of `before`.
        """
        ...

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim and give back what it reserved. Raises ConflictError if it has changed; gone is fine."""
        ...


class CommandStore(Protocol):
    """The disruption commands under way in one cluster."""

    def all(self) -> tuple[CommandRecord, ...]:
        """Every command, by id."""
        ...

    def get(self, command_id: str) -> CommandRecord | None:
        """One command, None if there is none."""
        ...

    def add(self, record: CommandRecord) -> None:
        """Store a new one. Raises ConflictError if the id is taken."""
        ...

    def change(self, before: CommandRecord, after: CommandRecord) -> CommandRecord:
        """Replace `before`. Raises ConflictError if the stored version is another."""
        ...

    def remove(self, record: CommandRecord) -> None:
        """Delete it; gone is fine."""
        ...


class Leases(Protocol):
    """Leases of one cluster."""

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease, None while another holds it."""
        ...

    def release(self, lease: Lease) -> None:
        """Give it back; no error if it is another's by now."""
        ...


class UnavailableOfferings(Protocol):
    """Pools of EC2 capacity that refused a launch, shared by all clusters of the account and region."""

    def active(self, now: datetime) -> frozenset[OfferingKey]:
        """Those to be avoided now."""
        ...

    def mark(self, keys: Iterable[OfferingKey], now: datetime) -> None:
        """Avoid them for a while, for longer each time they refuse again soon after."""
        ...


class Nominations(Protocol):
    """Nodes and claims on which pods are expected for the next moments."""

    def until(self, now: datetime) -> dict[str, datetime]:
        """Node or claim name → until when, as far as that is still to come."""
        ...

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        """Add these to the ones that still hold."""
        ...
