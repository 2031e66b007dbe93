"""Reads rows one by one: a row that cannot be read is left out and reported, and all others count.

Rows that forbid something, such as a command or a stopped rollout, are not left out: what they forbid would be allowed.

People edit rows, restore them from copies and point functions at another table; other releases write them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from adapters.aws.dynamodb.table import DynamoTable, Item, sort_of
from adapters.runtime.observability import logger
from adapters.store import UnreadableRow, UnreadableRowError
from installation.wiring import TABLE

T = TypeVar("T")

_MALFORMED: Final = (
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    zlib.error,
    msgspec.MsgspecError,
)
"""What decoding raises for attributes that are missing, of another type or format, or nested too deep."""


def decoded(item: Item, read: Callable[[Item], T]) -> T:
    """Return what `read` makes of the row. Raises UnreadableRowError, which names the row, if it is malformed."""
    try:
        return read(item)
    except _MALFORMED as error:
        partition, why = item[TABLE.partition_key]["S"], f"{type(error).__name__}: {error}"
        detail = f"row {sort_of(item)} of partition {partition} cannot be read ({why}); correct or delete it"
        raise UnreadableRowError("dynamodb:Query", UnreadableRow(partition, sort_of(item), detail)) from error


def readable_rows(
    table: DynamoTable,
    partition: str,
    read: Callable[[Item], T],
    *,
    is_required: Callable[[str], bool] = lambda _: False,
) -> dict[str, T]:
    """Return what `read` makes of each row of the partition, by sort key in order; malformed rows are left out.

    Args:
        table: The table.
        partition: The partition key.
        read: Decodes a row.
        is_required: Whether the row with a sort key may not be left out.

    Raises:
        UnreadableRowError: If a required row is malformed; it names the first one.
    """
    found: dict[str, T] = {}
    problems: dict[str, UnreadableRowError] = {}
    for item in table.query(partition):
        try:
            found[sort_of(item)] = decoded(item, read)
        except UnreadableRowError as error:
            problems[sort_of(item)] = error
    table.leave_out(partition, {sort: problem.detail for sort, problem in problems.items()})
    for sort, problem in problems.items():
        if is_required(sort):
            raise problem
    return found


def aware(written: str) -> datetime:
    """Read a time. Raises ValueError if it is none, or has no zone and cannot be compared with others."""
    moment = datetime.fromisoformat(written)
    if moment.tzinfo is None:
        raise ValueError(f"{written} has no time zone")
    return moment


def readable_row(item: Item | None, read: Callable[[Item], T]) -> T | None:
    """Return what `read` makes of a row that the next write replaces; None if there is none or it is malformed."""
    try:
        return None if item is None else decoded(item, read)
    except UnreadableRowError as error:
        logger.warning("row counts as absent", extra={"problem": error.detail})
        return None


class DynamoUnreadableRows:
    """`adapters.store.UnreadableRows` of the tables that a function reads."""

    def __init__(self, tables: Iterable[DynamoTable]) -> None:
        self._tables = tuple(tables)

    def all(self) -> tuple[UnreadableRow, ...]:
        """Return the rows that were left out when their partitions were last read."""
        found = {
            UnreadableRow(partition, sort, problem)
            for table in self._tables
            for partition, problems in list(table.unreadable.items())
            for sort, problem in problems.items()
        }
        return tuple(sorted(found))
