"""Reads rows one by one: a row that cannot be read is left out and reported, and all others count.

People edit rows, restore them from copies and point functions at another table; other releases write them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from lambdas.adapters.aws.dynamodb.table import DynamoTable, Item, sort_of
from lambdas.ports import DeniedError
from lambdas.runtime.observability import logger
from lambdas.store import UnreadableRow
from lambdas.wiring import TABLE

T = TypeVar("T")

_MALFORMED: Final = (KeyError, AttributeError, TypeError, ValueError, OverflowError, zlib.error, msgspec.MsgspecError)
"""What decoding raises for attributes that are missing, or of another type or format."""


def decoded(item: Item, read: Callable[[Item], T]) -> T:
    """Return what `read` makes of the row. Raises DeniedError, which names the row, if it is malformed."""
    try:
        return read(item)
    except _MALFORMED as error:
        partition, why = item[TABLE.partition_key]["S"], f"{type(error).__name__}: {error}"
        detail = f"row {sort_of(item)} of partition {partition} cannot be read ({why}); correct or delete it"
        raise DeniedError("dynamodb:Query", detail) from error


def readable_rows(table: DynamoTable, partition: str, read: Callable[[Item], T]) -> dict[str, T]:
    """Return what `read` makes of each row of the partition, by sort key in order; malformed rows are left out."""
    found: dict[str, T] = {}
    problems: dict[str, str] = {}
    for item in table.query(partition):
        try:
            found[sort_of(item)] = decoded(item, read)
        except DeniedError as error:
            problems[sort_of(item)] = error.detail
    table.leave_out(partition, problems)
    return found


def readable_row(item: Item | None, read: Callable[[Item], T]) -> T | None:
    """Return what `read` makes of a row that the next write replaces; None if there is none or it is malformed."""
    try:
        return None if item is None else decoded(item, read)
    except DeniedError as error:
        logger.warning("row counts as absent", extra={"problem": error.detail})
        return None


class DynamoUnreadableRows:
    """`lambdas.store.UnreadableRows` of the tables that a function reads."""

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
