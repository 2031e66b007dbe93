"""Stores moves and nominations of pods in DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, TypeVar

import msgspec

from adapters.aws.dynamodb.table import (
    TRANSACTION_LIMIT,
    DynamoTable,
    Item,
    Operation,
    key,
    number,
    packed,
    partition_of,
    readable_row,
    readable_rows,
    sort_of,
    unpacked,
)
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
from core.model.snapshot import EvictedNode, MovedWorkload
from installation.wiring import TABLE

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


_SORT: Final = "all"


class DynamoNominations:
    """`adapters.store.Nominations`. Only the planner writes, so the last write wins."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "nominations")

    def until(self, now: datetime) -> dict[str, datetime]:
        """Return node or claim name → expiry, for nominations that still hold."""
        known = readable_row(self._table.get(self._partition, _SORT), _nominated) or {}
        return {name: moment for name, moment in sorted(known.items()) if moment > now}

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        """Add these nominations to those that still hold."""
        nominated = self.until(now) | dict.fromkeys(sorted(set(names)), until)
        body = packed(msgspec.json.encode(dict(sorted(nominated.items()))))
        self._table.put({**key(self._partition, _SORT), "body": body})


def _nominated(item: Item) -> dict[str, datetime]:
    return msgspec.json.decode(unpacked(item["body"]), type=dict[str, Annotated[datetime, msgspec.Meta(tz=True)]])
