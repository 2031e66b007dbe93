"""The table's calls: low-level items in and out, with DynamoDB's errors translated to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Self, TypeVar
from zlib import crc32

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import code_of, translate
from adapters.ports import ConflictError, DeniedError, PortError, TransientError
from adapters.runtime.clock import pause
from adapters.runtime.observability import logger
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
        known = self.unreadable.get(partition, {})
        self.unreadable[partition] = problems
        for problem in (problem for sort, problem in problems.items() if sort not in known):
            logger.error("row cannot be read", extra={"problem": problem})

    def named(self, name: str) -> Self:
        """Return another table, for the same client and with the same permissions."""
        return type(self)(self._client, name, self._pause)

    def get(self, partition: str, sort: str) -> Item | None:
        """Return one item, None if there is none."""
        answer = self._call("get_item", Key=key(partition, sort), ConsistentRead=True)
        found: Item | None = answer.get("Item")
        return found

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
