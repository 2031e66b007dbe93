"""A claim store that notifies a listener of changes, so that the mirror needs no calls from controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adapters.store import ClaimChange, ClaimStore, CommandChange, Disrupted, Lease, PoolUsage, Requested
from core.lifecycle.records import ClaimRecord

Listener = Callable[[ClaimRecord | None, ClaimRecord | None], None]
"""Called with the claim before and after a change; None if it is new or deleted. May be called in any thread."""


class ObservedClaims:
    """Delegates to the store (`adapters.store.ClaimStore`), and notifies the listener, if any."""

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims
        self._listener: Listener = _nobody

    def listen(self, listener: Listener) -> None:
        """Notify the listener of each change from now on."""
        self._listener = listener

    def all(self) -> tuple[ClaimRecord, ...]:
        """Return every claim, by name."""
        return self._claims.all()

    def get(self, name: str) -> ClaimRecord | None:
        """Return one claim, None if there is none."""
        return self._claims.get(name)

    def of_instance(self, instance_id: str) -> ClaimRecord | None:
        """Return the claim that was launched as this instance, None if there is none."""
        return self._claims.of_instance(instance_id)

    def indexed(self) -> frozenset[str]:
        """Return the ids of the instances in the index."""
        return self._claims.indexed()

    def index(self, claim: ClaimRecord) -> None:
        """Add a claim with an instance to the index."""
        self._claims.index(claim)

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> Requested:
        """Store new claims within limits. Raises ConflictError."""
        requested = self._claims.request(claims, limits, lease)
        for record in requested.accepted:
            self._listener(None, record)
        return requested

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose row is lost; None if the name is taken."""
        stored = self._claims.restore(claim)
        if stored is not None:
            self._listener(None, stored)
        return stored

    def discard_unreadable(self, name: str) -> None:
        """Delete a claim's row if it cannot be read. Raises ConflictError."""
        self._claims.discard_unreadable(name)

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        """Replace `before` by `after`. Raises ConflictError."""
        stored = self._claims.change(before, after)
        self._listener(before, stored)
        return stored

    def change_within(self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, int]) -> ClaimRecord | None:
        """As `change`, within limits; None if they have no room. Raises ConflictError."""
        stored = self._claims.change_within(before, after, limits)
        if stored is not None:
            self._listener(before, stored)
        return stored

    def disrupt(
        self,
        claims: Sequence[ClaimChange],
        bounds: Mapping[str, int],
        *,
        command: CommandChange | None = None,
        lease: Lease | None = None,
    ) -> Disrupted:
        """Store that claims begin to leave. Raises ConflictError."""
        disrupted = self._claims.disrupt(claims, bounds, command=command, lease=lease)
        before = {change.before.name: change.before for change in claims}
        for stored in disrupted.claims:
            self._listener(before[stored.name], stored)
        return disrupted

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim. Raises ConflictError."""
        self._claims.forget(record)
        self._listener(record, None)

    def usage(self) -> tuple[PoolUsage, ...]:
        """Return the counters of every NodePool."""
        return self._claims.usage()

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Correct a NodePool's counters. Raises ConflictError."""
        self._claims.recount(before, after)


def _nobody(_: ClaimRecord | None, __: ClaimRecord | None) -> None:
    """The default listener, which does nothing."""
