"""Stores what disruption moved recently: an item for each workload, watched command, failed command, rollout, drained node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from core.disruption.budgets.recent_evictions import PERIOD
from core.disruption.move_history import (
    FAILURE_FORGOTTEN_AFTER,
    FORGOTTEN_AFTER,
    LONGEST_HOLD,
    LONGEST_PAUSE,
    WATCHED_FOR,
    CommandOutcome,
    FailedCommand,
    MoveHistory,
)
from core.disruption.rollouts import LONGEST_STOP, Rollout
from core.model.moved_workload import EvictedNode, MovedWorkload
from lambdas.adapters.aws.dynamodb.records import packed, partition_of, sort_of, unpacked
from lambdas.adapters.aws.dynamodb.table import TRANSACTION_LIMIT, DynamoTable, Item, key, number
from lambdas.wiring import TABLE

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


class DynamoMoves:
    """`lambdas.store.MoveHistoryStore`."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "moves")

    def read(self, now: datetime) -> MoveHistory:
        """Return all that is remembered; DynamoDB deletes items some time after they expire."""
        items = [item for item in self._table.query(self._partition) if int(item[TABLE.expiry]["N"]) > now.timestamp()]
        return MoveHistory(
            workloads=_of(items, _WORKLOAD, MovedWorkload),
            outcomes=_of(items, _COMMAND, CommandOutcome),
            failures=_of(items, _FAILED, FailedCommand),
            rollouts=_of(items, _ROLLOUT, Rollout),
            evicted_nodes=_of(items, _DRAINED, EvictedNode),
        )

    def write(self, changed: MoveHistory, now: datetime) -> None:
        """Replace the entries in `changed`, a hundred items at a time."""
        rows: list[tuple[str, str, msgspec.Struct]] = [
            (_WORKLOAD + name, _WORKLOAD, found) for name, found in sorted(changed.workloads.items())
        ]
        rows += [(_COMMAND + name, _COMMAND, found) for name, found in sorted(changed.outcomes.items())]
        rows += [(_FAILED + name, _FAILED, found) for name, found in sorted(changed.failures.items())]
        rows += [(_ROLLOUT + name, _ROLLOUT, found) for name, found in sorted(changed.rollouts.items())]
        rows += [(_DRAINED + name, _DRAINED, found) for name, found in sorted(changed.evicted_nodes.items())]
        puts: list[tuple[str, Item]] = []
        for sort, kind, found in rows:
            expiry = {TABLE.expiry: number(int((now + _KEPT_FOR[kind]).timestamp()))}
            body = {"body": packed(msgspec.json.encode(found))}
            puts.append(("Put", {"Item": {**key(self._partition, sort), **body, **expiry}}))
        for start in range(0, len(puts), TRANSACTION_LIMIT):
            self._table.transact(puts[start : start + TRANSACTION_LIMIT])


def _of(items: Iterable[Item], kind: str, type_: type[T]) -> dict[str, T]:
    found = [item for item in items if sort_of(item).startswith(kind)]
    return {sort_of(item).removeprefix(kind): msgspec.json.decode(unpacked(item["body"]), type=type_) for item in found}
