"""What controllers need from the table. Every method raises PortError subclasses only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from core.launch.denials.denial import LaunchDenial
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.catalogue import OfferingKey

if TYPE_CHECKING:
    from core.disruption.move_history import MoveHistory  # with it comes the planner, which most functions never load

PLANNER = "planner"
"""Name of the lease under which claims are requested: one planner per cluster at a time."""


DISRUPTION: Final = "disruption"
"""Name of the lease under which commands are checked again: what one finds room for, no other counts on."""


BINDER: Final = "binder"
"""Name of the lease under which pods are bound to nodes: rules across nodes count what every other run binds."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Lease(msgspec.Struct, frozen=True):
    """A lease held. `fence` grows with each holder; writes check it, so a holder that overslept can do no harm.

    It is at least the time in milliseconds, so it grows also across the loss of a table, or its replacement by an older copy:
    what is named after it is not named a second time.
    """

    name: str
    fence: int

    @property
    def stamp(self) -> str:
        """The fence with few characters, for names; its order is that of fences."""
        rest, text = self.fence, ""
        while rest:
            rest, digit = divmod(rest, len(_DIGITS))
            text = _DIGITS[digit] + text
        return text


class Requested(msgspec.Struct, frozen=True):
    """Which claims were stored, and which were not because a NodePool's limit was reached."""

    accepted: tuple[ClaimRecord, ...]
    refused: tuple[ClaimRecord, ...] = ()


class ClaimChange(msgspec.Struct, frozen=True):
    """A claim as it was read, and as it is to be stored."""

    before: ClaimRecord
    after: ClaimRecord


class CommandChange(msgspec.Struct, frozen=True):
    """A command as it was read, and as it is to be stored."""

    before: CommandRecord
    after: CommandRecord


class Disrupted(msgspec.Struct, frozen=True):
    """What was stored of claims that start to go.

    Attributes:
        claims: Those that are stored, with their new versions, in the order in which they were given.
        command: The command as stored; None where none was given, or where it was not stored.
        spent: NodePools that bear no more nodes that go; empty where everything is stored.
    """

    claims: tuple[ClaimRecord, ...]
    command: CommandRecord | None = None
    spent: tuple[str, ...] = ()


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one NodePool.

    Attributes:
        reserved: What its claims hold of its limits, summed.
        disrupting: How many of its claims go (`ClaimRecord.is_disrupting`).
        version: Grows with each change, so that a sum of what was read can be told from one that is out of date.
    """

    node_pool: str
    reserved: dict[str, int] = {}
    disrupting: int = 0
    version: int = 0


class SweepState(msgspec.Struct, frozen=True):
    """How one sweep of `reconcile` fares.

    Attributes:
        clean_at: When it last put everything right that it saw; before its first time, when it was first due.
        failures: Rounds in a row in which it was not clean since.
        reason: What failed the last time, for people.
    """

    clean_at: datetime
    failures: int = 0
    reason: str = ""


class SweepLog(Protocol):
    """How the sweeps of one cluster fare, across sandboxes. Only `reconcile` writes, one run at a time."""

    def read(self) -> dict[str, SweepState]:
        """State by sweep's name; a sweep that was never told of is missing."""
        ...

    def write(self, states: Mapping[str, SweepState]) -> None:
        """Replace all of it."""
        ...


class Changes(Protocol):
    """When somebody last saw that the cluster is no longer as it was, so that nobody rests on an older look."""

    def last(self) -> datetime | None:
        """That moment, None if nobody ever did."""
        ...

    def tell(self, now: datetime) -> None:
        """Say that it is now."""
        ...


class ClaimStore(Protocol):
    """The claims of one cluster, and the counters of what they hold of their NodePools' limits and budgets."""

    def all(self) -> tuple[ClaimRecord, ...]:
        """Every claim, by name."""
        ...

    def get(self, name: str) -> ClaimRecord | None:
        """One claim, None if there is none."""
        ...

    def of_instance(self, instance_id: str) -> ClaimRecord | None:
        """The claim that became this instance, None where none did; without reading the others."""
        ...

    def indexed(self) -> frozenset[str]:
        """Ids of the instances in the index by which `of_instance` finds."""
        ...

    def index(self, claim: ClaimRecord) -> None:
        """Put a claim that has an instance into that index, where its row there is lost or older than the index."""
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

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose instance exists and whose row is lost, and count what it holds, whatever the limits.

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
        """As `change`, on condition that its NodePool's limits have room for what it reserves anew; None where they do not."""
        ...

    def disrupt(
        self,
        claims: Sequence[ClaimChange],
        bounds: Mapping[str, int],
        *,
        command: CommandChange | None = None,
        lease: Lease | None = None,
    ) -> Disrupted:
        """Store that claims start to go: each takes a place (`is_disrupting`) in its NodePool's count.

        All of it is one transaction, and nothing is stored where any condition fails. Only more claims than fit in one
        are stored in several, the command with the last; where one of those is refused, the earlier stay stored.

        Args:
            claims: Each as it was read and as it is to be; those that hold a place already take no other.
            bounds: NodePool → how many of its claims may hold places together; no bound where it is missing.
            command: Stored with them.
            lease: Must still be held.

        Raises:
            ConflictError: If a claim or the command has changed, or the lease is another's by now.
        """
        ...

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim and give back all that it held. Raises ConflictError if it has changed; gone is fine."""
        ...

    def usage(self) -> tuple[PoolUsage, ...]:
        """The counters of every NodePool that ever had a claim, by name."""
        ...

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Put a NodePool's counters right.

        Read `before`, then the claims; their sum is `after`. Raises ConflictError if a counter has moved since.
        """
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
        """Delete it; gone is fine. Raises ConflictError if it has changed."""
        ...


class Leases(Protocol):
    """Leases of one cluster."""

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease, None while another holds it. Its fence is above all earlier ones and not below the time."""
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


class LaunchDenials(Protocol):
    """What EC2 denies the launches of one cluster."""

    def all(self) -> tuple[LaunchDenial, ...]:
        """Every denial, by EC2NodeClass and code."""
        ...

    def change(self, before: LaunchDenial | None, after: LaunchDenial) -> LaunchDenial:
        """Replace `before`, or store the first of its EC2NodeClass and code; what is stored now, with its version.

        Raises:
            ConflictError: If the stored version is another.
        """
        ...

    def remove(self, denial: LaunchDenial) -> None:
        """Delete it; gone is fine. Raises ConflictError if it has changed."""
        ...


class Nominations(Protocol):
    """Nodes and claims on which pods are expected for the next moments."""

    def until(self, now: datetime) -> dict[str, datetime]:
        """Node or claim name → until when, as far as that is still to come."""
        ...

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        """Add these to the ones that still hold."""
        ...


class MoveHistoryStore(Protocol):
    """What disruption moved of late in one cluster, and what came of it."""

    def read(self, now: datetime) -> MoveHistory:
        """All that is remembered."""
        ...

    def write(self, changed: MoveHistory, now: datetime) -> None:
        """Replace what `changed` names. The last writer wins: what is lost is a pause."""
        ...
