"""Tables for code that must not write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from adapters.aws.dynamodb.table import Cancelled, DynamoTable, Item
from adapters.ports import DeniedError


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
