"""Interfaces of the table's stores, with what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import msgspec

from adapters.ports import DeniedError
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.catalogue import OfferingKey
from core.reasons.runs import FailureReason

if TYPE_CHECKING:
    from core.approval.proposal import Proposal, ProposalVerdict
    from core.disruption.move_history import MoveHistory
    from core.forecast import Forecast, GrowthHistory
    from core.launch.denials import LaunchDenial
    from core.lifecycle.metering import SpendMeter
    from core.model.plan import StoredTarget


# Disruption commands: those in progress, those that wait for approval, and the target that they lead to.


class CommandChange(msgspec.Struct, frozen=True):
    """A command before and after a change."""

    before: CommandRecord
    after: CommandRecord


class CommandStore(Protocol):
    """The disruption commands in progress in one cluster."""

    def all(self) -> tuple[CommandRecord, ...]:
        """Return every command, by id: for those who decide which nodes may go.

        Raises:
            UnreadableRowError: If one cannot be read.
        """
        ...

    def readable(self) -> tuple[CommandRecord, ...]:
        """Return the commands whose rows can be read, by id: launches and repairs go on without the others."""
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
    """The commands of one cluster that wait for approval, and for some days those that no longer wait."""

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal, by id."""
        ...

    def add(self, proposal: Proposal) -> Proposal:
        """Store a new proposal, and return it with its version. Raises ConflictError if the id is taken."""
        ...

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        ...

    def answer(self, proposal: Proposal, verdict: ProposalVerdict) -> None:
        """Store a person's verdict on exactly this proposal, apart from its row, under the person's own id."""
        ...

    def verdict_on(self, proposal: Proposal) -> ProposalVerdict | None:
        """Return the verdict that people have stored on exactly this proposal; None if there is none."""
        ...


class Targets(Protocol):
    """The current target of one cluster's fleet."""

    def read(self) -> StoredTarget | None:
        """Return the target, None if there is none."""
        ...

    def write(self, target: StoredTarget | None) -> None:
        """Replace the target. Only `disrupt` writes, one run at a time."""
        ...


class Requested(msgspec.Struct, frozen=True):
    """The claims that were stored, and those that were not because a limit or cap was reached.

    Attributes:
        accepted: The former.
        refused: The latter.
        full: Claim that was refused → the counter that has no room for it.
    """

    accepted: tuple[ClaimRecord, ...]
    refused: tuple[ClaimRecord, ...] = ()
    full: dict[str, str] = {}


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
    """The counters of one NodePool, or of a group of NodePools that share limits (`core.model.node_pool.GROUP_COUNTER`).

    Attributes:
        node_pool: Its name, or that of the group's counter.
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
        """Store new claims and take their `reserved` from the limits, each within all of its limits or not at all.

        `limits` are those of each counter (`core.pools.limits_by_counter`).

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

    def change(self, before: ClaimRecord, after: ClaimRecord, costs: Mapping[str, int] = {}) -> ClaimRecord:
        """Replace `before` by `after`, and change the counters if `reserved`, `limit_groups` or `is_disrupting` differ.

        `costs`: what is added to the meters of caps.

        Returns:
            The stored claim with its new version.

        Raises:
            ConflictError: If the stored version is not that of `before`.
        """
        ...

    def change_within(
        self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, Mapping[str, int]]
    ) -> ClaimRecord | None:
        """As `change`, if the limits of each of its counters have room for its additional reservation; None if they do not."""
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

    def forget(self, record: ClaimRecord, costs: Mapping[str, int] = {}) -> None:
        """Delete the claim, release all that it held, and add what it cost to the meters of its caps.

        Args:
            record: The claim.
            costs: Cap → nano-dollars (`core.spending.whole_costs`).

        Raises:
            ConflictError: If it has changed; there is no error if it is gone.
        """
        ...

    def meters(self) -> dict[str, SpendMeter]:
        """Return the meters of caps, by cap."""
        ...

    def read_meter(self, cap: str, period: str, since: datetime, reading: int) -> None:
        """Store the reading of a cap's meter at the start of a period; the first one of each start stays."""
        ...

    def usage(self) -> tuple[PoolUsage, ...]:
        """Return the counters of every NodePool that ever had a claim, by name."""
        ...

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Correct a NodePool's counters.

        Read `before`, then the claims; their sum is `after`. Raises ConflictError if a counter has moved since.
        """
        ...


# Ports of the memory of launches: offerings without capacity, denials, and nominations.


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

    def mark(self, keys: Iterable[OfferingKey], now: datetime, choices: int | None = None) -> None:
        """Avoid these offerings for a while, longer each time they refuse again soon after.

        `choices`: How many offerings the launch could choose from, None if unknown; with few, the pause stays short.
        """
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


# Leases: the exclusive right of one run to plan, decide, validate or bind.


DECIDER: Final = "decider"
"""Name of the lease for deciding about disruption: two runs would decide the same twice."""


PARTS: Final = "parts"
"""Name of the lease that an execution holds while functions decide about a cluster's parts: one at a time."""

PLANNER = "planner"
"""Name of the lease for requesting claims: one planner per cluster at a time."""


DISRUPTION: Final = "disruption"
"""Name of the lease for validating commands, so that two runs do not use the same room."""


BINDER: Final = "binder"
"""Name of the lease for binding pods to nodes: rules across nodes count what every other run binds."""


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Lease(msgspec.Struct, frozen=True):
    """A held lease. `fence` grows with each holder; writes check it, so a holder whose lease has expired cannot write.

    It is at least the time in milliseconds, so it also grows across the loss of a table or its replacement by an older copy:
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


class Leases(Protocol):
    """Leases of one cluster."""

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease, None while another holds it. Its fence exceeds all earlier ones and is not below the time."""
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease; no error if another owner holds it by now."""
        ...


# What is forecast of a cluster's pods. One run of `disrupt` writes at a time.


class ForecastStore(Protocol):
    """The growth of NodePools that was read from the ledger, and the forecast from it. A row that cannot be read is none."""

    def history(self) -> GrowthHistory | None:
        """Return what was read so far."""
        ...

    def write_history(self, history: GrowthHistory) -> None:
        """Replace it; one that is too large loses the smallest slots of all days."""
        ...

    def forecast(self) -> Forecast | None:
        """Return the last forecast."""
        ...

    def write_forecast(self, forecast: Forecast) -> None:
        """Replace it."""
        ...


# Ports of times in a cluster: changes, ends of pods, moves, clean sweeps. Runs use them to skip, wait or pause.


class Changes(Protocol):
    """When the cluster was last seen to have changed, so that no sandbox relies on an older observation."""

    def last(self) -> datetime | None:
        """Return that time, None if there is none."""
        ...

    def record(self, now: datetime) -> None:
        """Set that time to now."""
        ...


class PodEnds(Protocol):
    """When a pod last ended on each node of one cluster, as the audit log reports."""

    def latest(self, now: datetime) -> dict[str, datetime]:
        """Return node, or `ANY_NODE`, → that time, for nodes on which pods ended in the last hours."""
        ...

    def record(self, ended: Mapping[str, datetime], now: datetime) -> None:
        """Record these ends; the latest time of a node counts."""
        ...


class MoveHistoryStore(Protocol):
    """The move history of one cluster."""

    def read(self, now: datetime) -> MoveHistory:
        """Return the complete history.

        Raises:
            UnreadableRowError: If a stopped rollout or a failed command cannot be read.
        """
        ...

    def readable(self, now: datetime) -> MoveHistory:
        """Return what can be read of the history: for those who disrupt nothing."""
        ...

    def write(self, changed: MoveHistory, now: datetime) -> None:
        """Replace the entries in `changed`. The last writer wins: a lost write costs only a pause."""
        ...


class SweepState(msgspec.Struct, frozen=True):
    """The state of one sweep of `reconcile`.

    Attributes:
        clean_at: When it last repaired everything that it found; before its first run, when it was first due.
        failures: Rounds in a row since then in which it was not clean.
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


# Rows of the table that cannot be read.


CLAIMS: Final = "claims"
"""Type of the claims' rows, in the names of their partitions."""

COMMANDS: Final = "commands"
"""Type of the commands' rows, in the name of their partition."""


class UnreadableRow(msgspec.Struct, frozen=True, order=True):
    """A row that was left out of a list: it exists, so nobody may treat its object as gone.

    Attributes:
        partition: The partition key: cluster, type, and the number of the partition where a type has several.
        name: The sort key, which is a claim's name or a command's id.
        problem: The row, what is wrong with it and what to do.
    """

    partition: str
    name: str
    problem: str

    @property
    def is_claim(self) -> bool:
        """Whether it is the row of a claim."""
        return self.partition.split("#")[1:2] == [CLAIMS]

    @property
    def is_command(self) -> bool:
        """Whether it is the row of a command."""
        return self.partition.split("#")[1:2] == [COMMANDS]


class UnreadableRowError(DeniedError):
    """A row that is needed cannot be read."""

    reason: ClassVar[FailureReason] = FailureReason.UNREADABLE_ROW

    def __init__(self, call: str, row: UnreadableRow) -> None:
        super().__init__(call, row.problem)
        self.row = row


class UnreadableRows(Protocol):
    """The unreadable rows that the lists of one sandbox have left out."""

    def all(self) -> tuple[UnreadableRow, ...]:
        """Return the rows that were left out when their types were last listed, in order. Reads nothing."""
        ...


# Ports of the table for controllers. Every method raises PortError subclasses only.


__all__ = [
    "BINDER",
    "DECIDER",
    "DISRUPTION",
    "PARTS",
    "PLANNER",
    "Changes",
    "ClaimChange",
    "ClaimStore",
    "CommandChange",
    "CommandStore",
    "Disrupted",
    "LaunchDenials",
    "Lease",
    "Leases",
    "MoveHistoryStore",
    "Nominations",
    "OfferingProbe",
    "PodEnds",
    "PoolUsage",
    "ProposalStore",
    "RefusedOfferings",
    "Requested",
    "SweepLog",
    "SweepState",
    "Targets",
    "UnavailableOfferings",
    "UnreadableRow",
    "UnreadableRowError",
    "UnreadableRows",
]


# A claim store that notifies a listener of changes, so that the mirror needs no calls from controllers.


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

    def change(self, before: ClaimRecord, after: ClaimRecord, costs: Mapping[str, int] = {}) -> ClaimRecord:
        """Replace `before` by `after`. Raises ConflictError."""
        stored = self._claims.change(before, after, costs)
        self._listener(before, stored)
        return stored

    def change_within(
        self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, Mapping[str, int]]
    ) -> ClaimRecord | None:
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

    def forget(self, record: ClaimRecord, costs: Mapping[str, int] = {}) -> None:
        """Delete the claim. Raises ConflictError."""
        self._claims.forget(record, costs)
        self._listener(record, None)

    def meters(self) -> dict[str, SpendMeter]:
        """Return the meters of caps."""
        return self._claims.meters()

    def read_meter(self, cap: str, period: str, since: datetime, reading: int) -> None:
        """Store the reading of a meter at the start of a period."""
        self._claims.read_meter(cap, period, since, reading)

    def usage(self) -> tuple[PoolUsage, ...]:
        """Return the counters of every NodePool."""
        return self._claims.usage()

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Correct a NodePool's counters. Raises ConflictError."""
        self._claims.recount(before, after)


def _nobody(_: ClaimRecord | None, __: ClaimRecord | None) -> None:
    """The default listener, which does nothing."""
