"""The table's calls: low-level items in and out, with DynamoDB's errors translated to ours."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from zlib import crc32

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.session import code_of, translate
from adapters.observability import logger
from adapters.ports import ConflictError, DeniedError, PortError, TransientError
from adapters.runtime import pause
from adapters.store import UnreadableRow, UnreadableRowError
from installation.wiring import TABLE

T = TypeVar("T")
Item = dict[str, Any]
Operation = tuple[str, Item]
"""One operation of a transaction: its kind, such as `Put`, and its parameters."""

TRANSACTION_LIMIT: Final = 100
TRANSACTION_BYTES: Final = 3_000_000
"""The most bytes per transaction; DynamoDB accepts four megabytes, and counts more than the items alone."""

PAGES_LIMIT: Final = 1000
CONFLICT_PAUSES: Final = (timedelta(milliseconds=40), timedelta(milliseconds=120), timedelta(milliseconds=400))
"""Pauses before retries of a transaction that conflicted or was throttled: all launches of a NodePool change one counter.

Their sum is less than the time limit of one call, so no deadline is checked.
"""

_CONFLICT: Final = "TransactionConflictException"
"""Error code of a single-item call that conflicted with a transaction."""

_PASSING: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"}
)
_REFUSED: Final = frozenset({"ItemCollectionSizeLimitExceeded", "ValidationError"})
"""Cancellation reasons for which a retry does not help."""


class Cancelled(msgspec.Struct, frozen=True):
    """Why a transaction was cancelled: for each of its operations in order, whether its own condition failed."""

    failed: tuple[bool, ...]


class DynamoTable:
    """One table, one client. Reads are consistent. `pause` waits between the tries of a transaction.

    Attributes:
        unreadable: Partition → sort key → why the row could not be read when the partition was last read.
    """

    def __init__(self, client: Any, name: str, pause: Callable[[timedelta], None] = pause) -> None:
        self._client = client
        self._name = name
        self._pause = pause
        self.unreadable: dict[str, Mapping[str, str]] = {}

    def leave_out(self, partition: str, problems: Mapping[str, str]) -> None:
        """Replace what is known of a partition's unreadable rows, and log those that are new."""
        known_problems = self.unreadable.get(partition, {})
        self.unreadable[partition] = problems
        for problem in (problem for sort, problem in problems.items() if sort not in known_problems):
            logger.error("row cannot be read", extra={"problem": problem})

    def named(self, name: str) -> Self:
        """Return another table, for the same client and with the same permissions."""
        return type(self)(self._client, name, self._pause)

    def get(self, partition: str, sort: str) -> Item | None:
        """Return one item, None if there is none."""
        answer = self._call("get_item", Key=key(partition, sort), ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def query(self, partition: str) -> Iterator[Item]:
        """Return every item of a partition in the order of its sort keys."""
        start: Item | None = None
        for _ in range(PAGES_LIMIT):
            more = {"ExclusiveStartKey": start} if start else {}
            page = self._call(
                "query",
                KeyConditionExpression="#p = :p",
                ExpressionAttributeNames={"#p": TABLE.partition_key},
                ExpressionAttributeValues={":p": {"S": partition}},
                ConsistentRead=True,
                **more,
            )
            yield from page.get("Items", ())
            start = page.get("LastEvaluatedKey")
            if not start:
                return

    def put(self, item: Item, *, condition: Mapping[str, Any] | None = None) -> None:
        """Write a whole item. Raises ConflictError if the condition does not hold."""
        self._call("put_item", Item=item, **(condition or {}))

    def delete(self, partition: str, sort: str, *, condition: Mapping[str, Any] | None = None) -> None:
        """Delete an item. Raises ConflictError if the condition does not hold."""
        self._call("delete_item", Key=key(partition, sort), **(condition or {}))

    def update(self, partition: str, sort: str, **arguments: Any) -> Item:
        """Update an item and return all of it. Raises ConflictError if the condition does not hold."""
        answer = self._call("update_item", Key=key(partition, sort), ReturnValues="ALL_NEW", **arguments)
        attributes: Item = answer["Attributes"]
        return attributes

    def transact(self, operations: Sequence[Operation]) -> Cancelled | None:
        """Do all operations or none; each is (Put | Update | Delete | ConditionCheck, its arguments).

        Returns:
            None if they are done; the failed conditions if a condition prevented them.

        Raises:
            TransientError: If another transaction touched the same items, or DynamoDB is overloaded; nothing is done.
        """
        items = [{kind: {"TableName": self._name, **arguments}} for kind, arguments in operations]
        return self._patiently(lambda: self._transact(items), items)

    def _transact(self, items: Sequence[Item]) -> Cancelled | None:
        """Make one attempt."""
        try:
            self._client.transact_write_items(TransactItems=items)
        except self._client.exceptions.TransactionCanceledException as error:
            codes = [reason.get("Code") for reason in error.response.get("CancellationReasons", ())]
            if any(code == "ConditionalCheckFailed" for code in codes):
                return Cancelled(tuple(code == "ConditionalCheckFailed" for code in codes))
            if _REFUSED.intersection(codes):
                raise DeniedError("dynamodb:TransactWriteItems", str(error)) from error
            raise translate("dynamodb:TransactWriteItems", error) from error
        except (ClientError, BotoCoreError) as error:
            raise translate("dynamodb:TransactWriteItems", error) from error
        return None

    def _call(self, operation: str, **arguments: Any) -> Any:
        return self._patiently(lambda: self._call_once(operation, arguments), arguments)

    def _call_once(self, operation: str, arguments: Item) -> Any:
        call = "dynamodb:" + operation.title().replace("_", "")
        try:
            return getattr(self._client, operation)(TableName=self._name, **arguments)
        except self._client.exceptions.ConditionalCheckFailedException as error:
            raise ConflictError(call, str(error)) from error
        except (ClientError, BotoCoreError) as error:
            raise translate(call, error) from error

    def _patiently(self, attempt: Callable[[], T], written: object) -> T:
        """Make the call, and repeat it after a pause if another transaction changed the same items."""
        for wait in CONFLICT_PAUSES:
            try:
                return attempt()
            except TransientError as error:
                if not _met_another(error):
                    raise
                self._pause(wait * (1 + _spread(written)))
        return attempt()


def _met_another(error: PortError) -> bool:
    """Whether the error is transient and nothing was done."""
    cause = error.__cause__
    if not isinstance(cause, ClientError):
        return False
    reasons = cause.response.get("CancellationReasons", ())
    return code_of(cause) == _CONFLICT or any(reason.get("Code") in _PASSING for reason in reasons)


def _spread(written: object) -> float:
    """Return a number from zero to one derived from the written items, so that conflicting writers retry at different times."""
    return crc32(repr(written).encode()) / 2**32


def key(partition: str, sort: str) -> Item:
    """Return an item's key."""
    return {TABLE.partition_key: {"S": partition}, TABLE.sort_key: {"S": sort}}


def sort_of(item: Item) -> str:
    """Return an item's sort key."""
    sort: str = item[TABLE.sort_key]["S"]
    return sort


def number(value: int) -> dict[str, str]:
    """Return a whole number in DynamoDB's notation."""
    return {"N": str(value)}


def size_of(item: Item) -> int:
    """Return about how many bytes DynamoDB counts for an item: names and values."""
    return sum(len(name) + len(value) for name, typed in item.items() for value in typed.values())


ABSENT: Final[Mapping[str, Any]] = {
    "ConditionExpression": "attribute_not_exists(#p)",
    "ExpressionAttributeNames": {"#p": TABLE.partition_key},
}
"""Condition: the item does not exist yet."""


def as_read(item: Item) -> dict[str, Any]:
    """Condition: the item's attributes are still those that were read."""
    attributes = sorted(item.items())
    return {
        "ConditionExpression": " AND ".join(f"#a{index} = :a{index}" for index in range(len(attributes))),
        "ExpressionAttributeNames": {f"#a{index}": name for index, (name, _) in enumerate(attributes)},
        "ExpressionAttributeValues": {f":a{index}": value for index, (_, value) in enumerate(attributes)},
    }


def at_version(version: int) -> dict[str, Any]:
    """Condition: the item is still at the version that was read."""
    return {
        "ConditionExpression": "#v = :v",
        "ExpressionAttributeNames": {"#v": "version"},
        "ExpressionAttributeValues": {":v": number(version)},
    }


# Reads rows one by one: a row that cannot be read is left out and reported, and all others count.
#
# Rows that forbid something, such as a command or a stopped rollout, are not left out: what they forbid would be allowed.
#
# People edit rows, restore them from copies and point functions at another table; other releases write them.


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
    rows: dict[str, T] = {}
    problems: dict[str, UnreadableRowError] = {}
    for item in table.query(partition):
        try:
            rows[sort_of(item)] = decoded(item, read)
        except UnreadableRowError as error:
            problems[sort_of(item)] = error
    table.leave_out(partition, {sort: problem.detail for sort, problem in problems.items()})
    for sort, problem in problems.items():
        if is_required(sort):
            raise problem
    return rows


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
        names = {
            UnreadableRow(partition, sort, problem)
            for table in self._tables
            for partition, problems in list(table.unreadable.items())
            for sort, problem in problems.items()
        }
        return tuple(sorted(names))


# Stores records as items: the record's JSON in `body`, its version in a separate attribute for conditional writes.
#
# An item may have 400 KB, and writes are priced per kilobyte; a claim names all suitable types, and a command all pods that
# move. Long bodies are therefore compressed, to about a tenth of their length.


PACKED_FROM: Final = 1024
"""Bytes from which a body is compressed; shorter ones stay readable in the table.

Writes are priced per kilobyte and a claim's body has more than two: compressed, it costs one write unit and half the read
units.
"""


READ_AT_MOST: Final = 2_000
"""The most decoded records of a partition that are cached if a sandbox reads them singly, some kilobytes each; then the cache
is cleared."""


class Versioned(Protocol):
    """A record with a version that grows with each write."""

    @property
    def version(self) -> int:
        """The version; zero before the first write."""
        ...


R = TypeVar("R", bound=Versioned)


class _Read(msgspec.Struct, Generic[R], frozen=True):
    item: Item
    record: R


@cache
def _decoder(type_: type[R]) -> msgspec.json.Decoder[R]:
    """Return the decoder of a type, which takes a millisecond to make: the shards of claims share one."""
    return msgspec.json.Decoder(type_)


class RecordItems(Generic[R]):
    """The records of one type in one partition of the table. Unchanged items are decoded only once."""

    def __init__(self, table: DynamoTable, partition: str, type_: type[R], *, requires_all: bool = False) -> None:
        """Read the records of the partition; with `requires_all` a list that would lack one is an error."""
        self.partition = partition
        self._requires_all = requires_all
        self._table = table
        self._decode = _decoder(type_).decode
        self._read: dict[str, _Read[R]] = {}

    def all(self) -> tuple[R, ...]:
        """Return every record, in the order of the sort keys."""
        return tuple(record for _, record in self.named())

    def readable(self) -> tuple[R, ...]:
        """Return every record whose row can be read, in the order of the sort keys, even if all are required."""
        return tuple(record for _, record in self._named(requires_all=False))

    def named(self) -> tuple[tuple[str, R], ...]:
        """Return every record with its sort key, in the order of the sort keys; rows that cannot be read are left out.

        Raises:
            UnreadableRowError: If all are required and one cannot be read.
        """
        return self._named(requires_all=self._requires_all)

    def _named(self, *, requires_all: bool) -> tuple[tuple[str, R], ...]:
        cached_rows = self._read
        read = readable_rows(
            self._table,
            self.partition,
            lambda item: self._decoded(item, cached_rows.get(sort_of(item))),
            is_required=lambda _: requires_all,
        )
        self._read = dict(read)
        return tuple((sort, row.record) for sort, row in read.items())

    def get(self, sort: str) -> R | None:
        """Return one record, None if there is none. Raises UnreadableRowError if its row cannot be read."""
        item = self._table.get(self.partition, sort)
        cached = self._read.pop(sort, None)
        if item is None:
            return None
        if len(self._read) >= READ_AT_MOST:
            self._read = {}
        read = self._read[sort] = decoded(item, lambda item: self._decoded(item, cached))
        return read.record

    def discard_unreadable(self, sort: str) -> None:
        """Delete a row that cannot be read. Raises ConflictError if it changes meanwhile."""
        item = self._table.get(self.partition, sort)
        if item is None:
            return
        try:
            decoded(item, lambda item: self._decoded(item, cached=None))
        except UnreadableRowError:
            self._table.delete(self.partition, sort, condition=as_read(item))

    def item(self, sort: str, record: R) -> Item:
        """Return the item to write for `record`, under its own version."""
        body = packed(msgspec.json.encode(record))
        return {**key(self.partition, sort), "version": number(record.version), "body": body}

    def _decoded(self, item: Item, cached: _Read[R] | None) -> _Read[R]:
        """Return the item's record; if the item has not changed since the last read, the cached one."""
        if cached is not None and cached.item == item:
            return cached
        body: Any = self._decode(unpacked(item["body"]))
        record: R = msgspec.structs.replace(body, version=int(item["version"]["N"]))
        return _Read(item, record)


def packed(body: bytes) -> dict[str, Any]:
    """Return JSON as an attribute value, compressed if it is long."""
    return {"S": body.decode()} if len(body) < PACKED_FROM else {"B": zlib.compress(body)}


def unpacked(attribute: Mapping[str, Any]) -> bytes:
    """Return the JSON in an attribute that `packed` made."""
    return attribute["S"].encode() if "S" in attribute else zlib.decompress(attribute["B"])


def partition_of(cluster: str, kind: str) -> str:
    """Return the partition key for one type of item of one cluster."""
    return f"{cluster}#{kind}"


# Tables for code that must not write.


class ReadOnlyTable(DynamoTable):
    """The table for readers: writes are refused before they are sent."""

    def put(self, item: Item, *, condition: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002 - the table's own signature
        """Refuse. Raises DeniedError."""
        raise DeniedError("dynamodb:PutItem", "the table is only read here")

    def delete(self, partition: str, sort: str, *, condition: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002 - the table's own signature
        """Refuse. Raises DeniedError."""
        raise DeniedError("dynamodb:DeleteItem", "the table is only read here")

    def update(self, partition: str, sort: str, **arguments: Any) -> Item:  # noqa: ARG002 - the table's own signature
        """Refuse. Raises DeniedError."""
        raise DeniedError("dynamodb:UpdateItem", "the table is only read here")

    def transact(self, operations: Sequence[tuple[str, Item]]) -> Cancelled | None:  # noqa: ARG002 - the table's own signature
        """Refuse. Raises DeniedError."""
        raise DeniedError("dynamodb:TransactWriteItems", "the table is only read here")


class EmptyTable(ReadOnlyTable):
    """A table without rows, for `mode: shadow`, in which no function may access DynamoDB."""

    def __init__(self) -> None:
        super().__init__(None, "")

    def get(self, partition: str, sort: str) -> Item | None:  # noqa: ARG002 - the table's own signature
        """There is none."""
        return None

    def query(self, partition: str) -> Iterator[Item]:  # noqa: ARG002 - the table's own signature
        """There is none."""
        return iter(())

    def named(self, name: str) -> Self:  # noqa: ARG002 - the table's own signature
        """Return this table: there is no other."""
        return self
