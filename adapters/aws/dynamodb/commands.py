"""Stores what disruption keeps in DynamoDB: commands, proposals, targets, moves and nominations of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeVar

import msgspec

from adapters.aws.dynamodb.table import (
    ABSENT,
    TRANSACTION_LIMIT,
    DynamoTable,
    Item,
    Operation,
    RecordItems,
    at_version,
    key,
    number,
    packed,
    partition_of,
    readable_row,
    readable_rows,
    sort_of,
    unpacked,
)
from adapters.observability import logger
from adapters.ports import ConflictError
from adapters.store import COMMANDS
from core.approval.proposal import Proposal, ProposalVerdict, deciding
from core.disruption.move_history import (
    FAILURE_FORGOTTEN_AFTER,
    FORGOTTEN_AFTER,
    LONGEST_HOLD,
    LONGEST_PAUSE,
    LONGEST_STOP,
    PERIOD,
    WATCHED_FOR,
    CommandOutcome,
    FailedCommand,
    MoveHistory,
    Rollout,
)
from core.disruption.target.stored import decode, encode
from core.lifecycle.records import CommandRecord
from core.model.plan import StoredTarget
from core.model.snapshot import EvictedNode, MovedWorkload
from installation.wiring import TABLE


class DynamoCommands:
    """The commands of one cluster (`adapters.store.CommandStore`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, COMMANDS), CommandRecord, requires_all=True)

    def all(self) -> tuple[CommandRecord, ...]:
        """Return every command, by id.

        Raises:
            DeniedError: If one cannot be read: nodes of a command that is left out would look as if they were in none.
        """
        return self._items.all()

    def readable(self) -> tuple[CommandRecord, ...]:
        """Return the commands whose rows can be read, by id."""
        return self._items.readable()

    def get(self, command_id: str) -> CommandRecord | None:
        """Return one command, None if there is none."""
        return self._items.get(command_id)

    def add(self, record: CommandRecord) -> None:
        """Store a new command. Raises ConflictError if the id is taken."""
        first = msgspec.structs.replace(record, version=1)
        self._table.put(self._items.item(record.id, first), condition=ABSENT)

    def change(self, before: CommandRecord, after: CommandRecord) -> CommandRecord:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        self._table.put(self._items.item(before.id, stored), condition=at_version(before.version))
        return stored

    def remove(self, record: CommandRecord) -> None:
        """Delete the command; no error if it is gone. Raises ConflictError if it has changed."""
        try:
            self._table.delete(self._items.partition, record.id, condition=at_version(record.version))
        except ConflictError:
            if self.get(record.id) is not None:
                raise


# Stores commands that wait for approval in DynamoDB.


KEPT_FOR: Final = timedelta(days=7)
"""How long a row is kept after its proposal ends, so that a late approval gets the outcome as its answer."""


SIGNERS_MAX: Final = 20
"""The most writers of verdicts that are asked about one proposal. Anybody who may answer may add notes in any name, so that a
rejection might be among those beyond it: a proposal with more is decided by nobody."""

NOTES_MAX: Final = 5_000
"""The most notes that are read; with more, no proposal is decided. They expire some days after their proposals."""


class DynamoProposals:
    """The proposals of one cluster (`adapters.store.ProposalStore`). Nothing is deleted: rows expire.

    Functions alone write proposals. A person's verdict is an item of its own, in a partition that ends with the person's
    `aws:userid`: IAM lets each person write there only under their own (docs/how-to/approve.md).
    """

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, "proposals"), Proposal, requires_all=True)
        self._notes = partition_of(cluster, "verdicts")

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal, by id; also those that have ended. Those that wait have the verdicts of people.

        What a row says of a verdict counts only once the proposal has ended: a function has then found the verdict itself.

        Raises:
            DeniedError: If one cannot be read: a rejected command would be proposed again.
        """
        proposals = self._items.all()
        if all(proposal.end is not None for proposal in proposals):
            return proposals
        signers = self._signers()
        return tuple(
            proposal
            if proposal.end is not None
            else msgspec.structs.replace(proposal, verdict=self._verdict(proposal, signers.get(proposal.id, ())))
            for proposal in proposals
        )

    def answer(self, proposal: Proposal, verdict: ProposalVerdict) -> None:
        """Store a verdict in the partition of its writer, and a note where to look for it, which proves nothing itself."""
        expiry = number(int((proposal.expires_at + KEPT_FOR).timestamp()))
        attributes = {
            "approved": {"BOOL": verdict.is_approved},
            "at": number(int(verdict.at.timestamp())),
            TABLE.expiry: expiry,
        }
        self._table.put({**key(self._partition_of(verdict.by), f"{proposal.id}#{proposal.digest}"), **attributes})
        self._table.put({**key(self._notes, f"{proposal.id}#{verdict.by}"), TABLE.expiry: expiry})

    def verdict_on(self, proposal: Proposal) -> ProposalVerdict | None:
        """Return the verdict on exactly this proposal that counts."""
        return self._verdict(proposal, self._signers().get(proposal.id, ()))

    def _signers(self) -> dict[str, list[str]]:
        """Return the writers that notes name, by the proposal's id; no proposal that has more than may be asked."""
        signers: dict[str, list[str]] = {}
        for read, item in enumerate(self._table.query(self._notes)):
            if read >= NOTES_MAX:
                logger.error("too many notes of verdicts", extra={"partition": self._notes, "most": NOTES_MAX})
                return {}
            proposal, _, signer = item[TABLE.sort_key]["S"].partition("#")
            if signer:
                signers.setdefault(proposal, []).append(signer)
        for proposal, names in signers.items():
            if len(names) > SIGNERS_MAX:
                logger.error("too many signers of a proposal", extra={"proposal": proposal, "most": SIGNERS_MAX})
        return {proposal: names for proposal, names in signers.items() if len(names) <= SIGNERS_MAX}

    def _verdict(self, proposal: Proposal, signers: Iterable[str]) -> ProposalVerdict | None:
        sort = f"{proposal.id}#{proposal.digest}"
        items = ((signer, self._table.get(self._partition_of(signer), sort)) for signer in signers)
        return deciding(_said(item, signer) for signer, item in items if item is not None)

    def _partition_of(self, signer: str) -> str:
        return f"{self._notes}#{signer}"

    def add(self, proposal: Proposal) -> Proposal:
        """Store a new proposal. Raises ConflictError if the id is taken."""
        first = msgspec.structs.replace(proposal, version=1)
        self._table.put(self._item(first), condition=ABSENT)
        return first

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        self._table.put(self._item(stored), condition=at_version(before.version))
        return stored

    def _item(self, proposal: Proposal) -> Item:
        expiry = number(int((proposal.expires_at + KEPT_FOR).timestamp()))
        return {**self._items.item(proposal.id, proposal), TABLE.expiry: expiry}


def _said(item: Item, signer: str) -> ProposalVerdict:
    """Return a verdict. What an item lacks, or has in another form, approves nothing."""
    at = datetime.fromtimestamp(0, UTC)
    with suppress(KeyError, ValueError, OverflowError):
        at = datetime.fromtimestamp(int(item["at"]["N"]), UTC)
    is_approved = item.get("approved", {}).get("BOOL") is True
    return ProposalVerdict(is_approved=is_approved, by=signer, at=at)


# Stores the current target of the fleet, in one DynamoDB item per cluster.


_SORT: Final = "all"


class DynamoTargets:
    """`adapters.store.Targets`. One run of `disrupt` writes at a time, so the last write wins.

    A target takes about 25 bytes for each node to drain: some 60 KB for 2,000. An item may have 400 KB.
    """

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "target")

    def read(self) -> StoredTarget | None:
        """Return the target, None if there is none or another release wrote it."""
        return readable_row(self._table.get(self._partition, _SORT), _target)

    def write(self, target: StoredTarget | None) -> None:
        """Replace the target."""
        body = {"body": {"B": encode(target)}} if target is not None else {}
        self._table.put({**key(self._partition, _SORT), **body})


def _target(item: Item) -> StoredTarget | None:
    return decode(bytes(item["body"]["B"])) if "body" in item else None


# Stores moves and nominations of pods in DynamoDB.


T = TypeVar("T", MovedWorkload, CommandOutcome, FailedCommand, Rollout, EvictedNode)

_WORKLOAD: Final = "workload#"
_COMMAND: Final = "command#"
_FAILED: Final = "failed#"
_ROLLOUT: Final = "rollout#"
_DRAINED: Final = "drained#"

_KEPT_FOR: Final[Mapping[str, timedelta]] = {
    _WORKLOAD: LONGEST_HOLD + FORGOTTEN_AFTER,
    _COMMAND: WATCHED_FOR,
    _ROLLOUT: LONGEST_STOP + FORGOTTEN_AFTER,
    _DRAINED: PERIOD,
    _FAILED: LONGEST_PAUSE + FAILURE_FORGOTTEN_AFTER,
}

_TYPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    _WORKLOAD: MovedWorkload,
    _COMMAND: CommandOutcome,
    _FAILED: FailedCommand,
    _ROLLOUT: Rollout,
    _DRAINED: EvictedNode,
}


class DynamoMoves:
    """`adapters.store.MoveHistoryStore`."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "moves")

    def read(self, now: datetime) -> MoveHistory:
        """Return all that is remembered; DynamoDB deletes items some time after they expire.

        Raises:
            UnreadableRowError: If a stopped rollout or a failed command cannot be read: it would go on as if it had not failed.
        """
        return self._history(now, is_required=_forbids)

    def readable(self, now: datetime) -> MoveHistory:
        """Return what can be read and has not expired."""
        return self._history(now, is_required=lambda _: False)

    def _history(self, now: datetime, *, is_required: Callable[[str], bool]) -> MoveHistory:
        rows = readable_rows(self._table, self._partition, lambda item: _entry(item, now), is_required=is_required)
        return MoveHistory(
            workloads=_of(rows, _WORKLOAD, MovedWorkload),
            outcomes=_of(rows, _COMMAND, CommandOutcome),
            failures=_of(rows, _FAILED, FailedCommand),
            rollouts=_of(rows, _ROLLOUT, Rollout),
            evicted_nodes=_of(rows, _DRAINED, EvictedNode),
        )

    def write(self, changed: MoveHistory, now: datetime) -> None:
        """Replace the entries in `changed`, a hundred items at a time."""
        rows: list[tuple[str, str, msgspec.Struct]] = [
            (_WORKLOAD + name, _WORKLOAD, workload) for name, workload in sorted(changed.workloads.items())
        ]
        rows += [(_COMMAND + name, _COMMAND, workload) for name, workload in sorted(changed.outcomes.items())]
        rows += [(_FAILED + name, _FAILED, workload) for name, workload in sorted(changed.failures.items())]
        rows += [(_ROLLOUT + name, _ROLLOUT, workload) for name, workload in sorted(changed.rollouts.items())]
        rows += [(_DRAINED + name, _DRAINED, workload) for name, workload in sorted(changed.evicted_nodes.items())]
        puts: list[Operation] = []
        for sort, kind, workload in rows:
            expiry = {TABLE.expiry: number(int((now + _KEPT_FOR[kind]).timestamp()))}
            body = {"body": packed(msgspec.json.encode(workload))}
            puts.append(("Put", {"Item": {**key(self._partition, sort), **body, **expiry}}))
        for start in range(0, len(puts), TRANSACTION_LIMIT):
            self._table.transact(puts[start : start + TRANSACTION_LIMIT])


def _forbids(sort: str) -> bool:
    return sort.startswith((_FAILED, _ROLLOUT))


def _entry(item: Item, now: datetime) -> msgspec.Struct | None:
    """Return the entry of a row; None if it has expired, or is of a kind that only a later release knows."""
    type_ = _TYPES.get(sort_of(item).partition("#")[0] + "#")
    if type_ is None or int(item[TABLE.expiry]["N"]) <= now.timestamp():
        return None
    return msgspec.json.decode(unpacked(item["body"]), type=type_)


def _of(entries: Mapping[str, msgspec.Struct | None], kind: str, type_: type[T]) -> dict[str, T]:
    """Return the entries of one kind by what follows it in their sort keys."""
    return {sort.removeprefix(kind): entry for sort, entry in entries.items() if isinstance(entry, type_)}


# Stores the nodes on which pods are expected soon, in one DynamoDB item per cluster.


class DynamoNominations:
    """`adapters.store.Nominations`. Only the planner writes, so the last write wins."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "nominations")

    def until(self, now: datetime) -> dict[str, datetime]:
        """Return node or claim name → expiry, for nominations that still hold."""
        nominated = readable_row(self._table.get(self._partition, _SORT), _nominated) or {}
        return {name: moment for name, moment in sorted(nominated.items()) if moment > now}

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        """Add these nominations to those that still hold."""
        nominated = self.until(now) | dict.fromkeys(sorted(set(names)), until)
        body = packed(msgspec.json.encode(dict(sorted(nominated.items()))))
        self._table.put({**key(self._partition, _SORT), "body": body})


def _nominated(item: Item) -> dict[str, datetime]:
    return msgspec.json.decode(unpacked(item["body"]), type=dict[str, Annotated[datetime, msgspec.Meta(tz=True)]])
