"""The claims of a cluster, and the counters of what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from adapters.store.commands import CommandChange
from core.lifecycle.records import ClaimRecord, CommandRecord

if TYPE_CHECKING:
    from adapters.store.leases import Lease


class Requested(msgspec.Struct, frozen=True):
    """The claims that were stored, and those that were not because a NodePool's limit was reached."""

    accepted: tuple[ClaimRecord, ...]
    refused: tuple[ClaimRecord, ...] = ()


class ClaimChange(msgspec.Struct, frozen=True):
    """A claim before and after a change."""

    before: ClaimRecord
    after: ClaimRecord


class Disrupted(msgspec.Struct, frozen=True):
    """The result of storing claims that begin to leave.

    Attributes:
        claims: The stored claims with their new versions, in the given order.
        command: The stored command; None if none was given or it was not stored.
        spent: NodePools whose budgets are used up; empty where everything is stored.
    """

    claims: tuple[ClaimRecord, ...]
    command: CommandRecord | None = None
    spent: tuple[str, ...] = ()


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one NodePool.

    Attributes:
        reserved: The sum of its claims' reservations of its limits.
        disrupting: How many of its claims are leaving (`ClaimRecord.is_disrupting`).
        version: Grows with each change, so that an outdated sum is recognized.
        problem: What is malformed in its row, empty if nothing is; a malformed counter is zero here, and a recount replaces it.
    """

    node_pool: str
    reserved: dict[str, int] = {}
    disrupting: int = 0
    version: int = 0
    problem: str = ""


class ClaimStore(Protocol):
    """The claims of one cluster, and the counters of what they hold of their NodePools' limits and budgets."""

    def all(self) -> tuple[ClaimRecord, ...]:
        """Return every claim, by name."""
        ...

    def get(self, name: str) -> ClaimRecord | None:
        """Return one claim, None if there is none. Raises UnreadableRowError if its row cannot be read."""
        ...

    def of_instance(self, instance_id: str) -> ClaimRecord | None:
        """Return the claim that was launched as this instance, None if there is none; without reading the others.

        Raises:
            UnreadableRowError: If the claim's row cannot be read; its name is that of the claim.
        """
        ...

    def indexed(self) -> frozenset[str]:
        """Return the instance ids in the index that `of_instance` searches."""
        ...

    def index(self, claim: ClaimRecord) -> None:
        """Add a claim with an instance to that index, if its row there is lost or the claim is older than the index."""
        ...

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> Requested:
        """Store new claims and take their `reserved` from the limits (by NodePool), each within its limits or not at all.

        A claim that is already stored with the same token counts as accepted, so the call can be repeated. Without a lease,
        only the names prevent two runs from storing the same claims, which is enough for a hand-made NodeClaim.

        Raises:
            ConflictError: If another run has the lease by now; nothing more is stored.
        """
        ...

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose instance exists but whose row is lost, and count its usage, regardless of limits.

        Returns:
            The stored claim; None if the name is taken, by a concurrent run or because the row is not lost.
        """
        ...

    def discard_unreadable(self, name: str) -> None:
        """Delete a claim's row if it cannot be read, so that the claim is rebuilt; what it held is recounted later.

        Raises:
            ConflictError: If the row changes meanwhile.
        """
        ...

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        """Replace `before` by `after`, and change the NodePool's counters if `reserved` or `is_disrupting` differ.

        Returns:
            The stored claim with its new version.

        Raises:
            ConflictError: If the stored version is not that of `before`.
        """
        ...

    def change_within(self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, int]) -> ClaimRecord | None:
        """As `change`, if its NodePool's limits have room for its additional reservation; None if they do not."""
        ...

    def disrupt(
        self,
        claims: Sequence[ClaimChange],
        bounds: Mapping[str, int],
        *,
        command: CommandChange | None = None,
        lease: Lease | None = None,
    ) -> Disrupted:
        """Store that claims begin to leave: each takes a place (`is_disrupting`) in its NodePool's count.

        All of it is one transaction, and nothing is stored if any condition fails. Only claims that exceed one transaction are
        stored in several, the command with the last; if one of those is refused, the earlier ones stay stored.

        Args:
            claims: Each before and after the change; those that already hold a place take no other.
            bounds: NodePool → how many of its claims may hold places together; no bound if it is missing.
            command: Stored with them.
            lease: Must still be held.

        Raises:
            ConflictError: If a claim or the command has changed, or another run has the lease by now.
        """
        ...

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim and release all that it held. Raises ConflictError if it has changed; no error if it is gone."""
        ...

    def usage(self) -> tuple[PoolUsage, ...]:
        """Return the counters of every NodePool that ever had a claim, by name."""
        ...

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Correct a NodePool's counters.

        Read `before`, then the claims; their sum is `after`. Raises ConflictError if a counter has moved since.
        """
        ...
