"""Ports of the table for controllers. Every method raises PortError subclasses only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from core.lifecycle.records import ClaimRecord, CommandRecord

if TYPE_CHECKING:
    from core.approval.proposal import Proposal
    from core.disruption.move_history import MoveHistory  # it imports the planner, which most functions never load
    from core.launch.denials.denial import LaunchDenial
    from core.model.catalogue import OfferingKey
    from core.model.plan import StoredTarget

DECIDER: Final = "decider"
"""Name of the lease for deciding about disruption: two runs would decide the same twice."""


PLANNER = "planner"
"""Name of the lease for requesting claims: one planner per cluster at a time."""


DISRUPTION: Final = "disruption"
"""Name of the lease for validating commands: room that one finds is not counted on by another."""


BINDER: Final = "binder"
"""Name of the lease for binding pods to nodes: rules across nodes count what every other run binds."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Lease(msgspec.Struct, frozen=True):
    """A held lease. `fence` grows with each holder; writes check it, so a holder whose lease has expired can do no harm.

    It is at least the time in milliseconds, so it grows also across the loss of a table, or its replacement by an older copy:
    names derived from it are never reused.
    """

    name: str
    fence: int

    @property
    def stamp(self) -> str:
        """The fence in few characters, for names; it sorts like the fence."""
        rest, text = self.fence, ""
        while rest:
            rest, digit = divmod(rest, len(_DIGITS))
            text = _DIGITS[digit] + text
        return text


class Requested(msgspec.Struct, frozen=True):
    """The claims that were stored, and those that were not because a NodePool's limit was reached."""

    accepted: tuple[ClaimRecord, ...]
    refused: tuple[ClaimRecord, ...] = ()


class ClaimChange(msgspec.Struct, frozen=True):
    """A claim as read, and as it is to be stored."""

    before: ClaimRecord
    after: ClaimRecord


class CommandChange(msgspec.Struct, frozen=True):
    """A command as read, and as it is to be stored."""

    before: CommandRecord
    after: CommandRecord


class Disrupted(msgspec.Struct, frozen=True):
    """The result of storing claims that begin to leave.

    Attributes:
        claims: The stored claims with their new versions, in the given order.
        command: The command as stored; None where none was given, or where it was not stored.
        spent: NodePools whose budgets are used up; empty where everything is stored.
    """

    claims: tuple[ClaimRecord, ...]
    command: CommandRecord | None = None
    spent: tuple[str, ...] = ()


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one NodePool.

    Attributes:
        reserved: What its claims hold of its limits, summed.
        disrupting: How many of its claims are leaving (`ClaimRecord.is_disrupting`).
        version: Grows with each change, so that an outdated sum is recognized.
    """

    node_pool: str
    reserved: dict[str, int] = {}
    disrupting: int = 0
    version: int = 0


class SweepState(msgspec.Struct, frozen=True):
    """The state of one sweep of `reconcile`.

    Attributes:
        clean_at: When it last repaired all that it found; before its first time, when it was first due.
        failures: Rounds in a row in which it was not clean since.
        reason: The last failure, for people.
    """

    clean_at: datetime
    failures: int = 0
    reason: str = ""


class SweepLog(Protocol):
    """The states of one cluster's sweeps, across sandboxes. Only `reconcile` writes, one run at a time."""

    def read(self) -> dict[str, SweepState]:
        """Return the state by sweep name; a sweep that was never stored is missing."""
        ...

    def write(self, states: Mapping[str, SweepState]) -> None:
        """Replace all states."""
        ...


class Changes(Protocol):
    """When the cluster was last seen to have changed, so that no sandbox rests on an older observation."""

    def last(self) -> datetime | None:
        """Return that moment, None if there is none."""
        ...

    def record(self, now: datetime) -> None:
        """Set that moment to now."""
        ...


class PodEnds(Protocol):
    """When a pod last ended on each node of one cluster, as the audit log reports."""

    def latest(self, now: datetime) -> dict[str, datetime]:
        """Node, or `ANY_NODE`, → that moment; of nodes on which pods ended in the last hours."""
        ...

    def record(self, ended: Mapping[str, datetime], now: datetime) -> None:
        """Record these ends; the later moment of a node counts."""
        ...


class ClaimStore(Protocol):
    """The claims of one cluster, and the counters of what they hold of their NodePools' limits and budgets."""

    def all(self) -> tuple[ClaimRecord, ...]:
        """Return every claim, by name."""
        ...

    def get(self, name: str) -> ClaimRecord | None:
        """Return one claim, None if there is none."""
        ...

    def of_instance(self, instance_id: str) -> ClaimRecord | None:
        """Return the claim that was launched as this instance, None if there is none; without reading the others."""
        ...

    def indexed(self) -> frozenset[str]:
        """Return the instance ids in the index that `of_instance` searches."""
        ...

    def index(self, claim: ClaimRecord) -> None:
        """Add a claim that has an instance to that index, where its row there is lost or older than the index."""
        ...

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> Requested:
        """Store new claims and take their `reserved` from the limits (by NodePool), each within its limits or not at all.

        A claim that is stored already, with the same token, counts as accepted: repeating the call is safe. Without a lease
        nothing but the names keeps two runs from storing the same: enough for a NodeClaim that was made by hand.

        Raises:
            ConflictError: If the lease is another run's by now; nothing more is stored.
        """
        ...

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose instance exists and whose row is lost, and count what it holds, regardless of limits.

        Returns:
            What is stored, None if the name is taken: then somebody else was faster, or the row is not lost.
        """
        ...

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        """Replace `before` by `after`, and move the NodePool's counters where `reserved` or `is_disrupting` differ.

        Returns:
            What is stored now, with its new version.

        Raises:
            ConflictError: If the stored version is not that of `before`.
        """
        ...

    def change_within(self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, int]) -> ClaimRecord | None:
        """As `change`, if its NodePool's limits have room for its additional reservation; None where they do not."""
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
            claims: Each as read and as it is to be stored; those that hold a place already take no other.
            bounds: NodePool → how many of its claims may hold places together; no bound where it is missing.
            command: Stored with them.
            lease: Must still be held.

        Raises:
            ConflictError: If a claim or the command has changed, or the lease is another's by now.
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


class CommandStore(Protocol):
    """The disruption commands in progress in one cluster."""

    def all(self) -> tuple[CommandRecord, ...]:
        """Return every command, by id."""
        ...

    def get(self, command_id: str) -> CommandRecord | None:
        """Return one command, None if there is none."""
        ...

    def add(self, record: CommandRecord) -> None:
        """Store a new command. Raises ConflictError if the id is taken."""
        ...

    def change(self, before: CommandRecord, after: CommandRecord) -> CommandRecord:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        ...

    def remove(self, record: CommandRecord) -> None:
        """Delete the command; no error if it is gone. Raises ConflictError if it has changed."""
        ...


class ProposalStore(Protocol):
    """The commands of one cluster that wait for approval, and for some days those that no longer do."""

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal, by id."""
        ...

    def add(self, proposal: Proposal) -> Proposal:
        """Store a new proposal, and return it with its version. Raises ConflictError if the id is taken."""
        ...

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        ...


class Leases(Protocol):
    """Leases of one cluster."""

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease, None while another holds it. Its fence exceeds all earlier ones and is not below the time."""
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease; no error if another owner holds it by now."""
        ...


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


class Targets(Protocol):
    """The target of one cluster's fleet that is under way."""

    def read(self) -> StoredTarget | None:
        """The target, None where none is kept."""
        ...

    def write(self, target: StoredTarget | None) -> None:
        """Replace it. Only `disrupt` writes, one run at a time."""
        ...


class MoveHistoryStore(Protocol):
    """What disruption moved recently in one cluster, and the results."""

    def read(self, now: datetime) -> MoveHistory:
        """Return all that is remembered."""
        ...

    def write(self, changed: MoveHistory, now: datetime) -> None:
        """Replace the entries in `changed`. The last writer wins: a lost write costs only a pause."""
        ...
