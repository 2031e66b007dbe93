"""Conflicting transactions: DynamoDB cancels one of them, and it may be repeated at once."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError

from adapters.aws.dynamodb import table
from adapters.aws.dynamodb.table import CONFLICT_PAUSES, DynamoTable, Item, RecordItems
from adapters.ports import TransientError

# Rows that are read again and again: `execute` reads a claim each second while its node boots.


class Note(msgspec.Struct, frozen=True):
    """A record."""

    text: str
    version: int = 0


class Rows:
    """A table of one partition."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def get(self, _: str, sort: str) -> Item | None:
        return self.items.get(sort)


@pytest.fixture
def notes() -> tuple[RecordItems[Note], Rows]:
    rows: Any = Rows()
    return RecordItems(rows, "notes", Note), rows


def test_a_row_is_decoded_once_until_it_changes(notes: tuple[RecordItems[Note], Rows]) -> None:
    """Otherwise, each read of a claim costs as much as the first one, or returns an old version."""
    record_items, rows = notes
    rows.items["a"] = record_items.item("a", Note("x" * 2000, 1))
    first = record_items.get("a")
    assert first == Note("x" * 2000, 1)
    assert record_items.get("a") is first
    rows.items["a"] = record_items.item("a", Note("y", 2))
    assert record_items.get("a") == Note("y", 2)
    del rows.items["a"]
    assert record_items.get("a") is None
    rows.items["a"] = record_items.item("a", Note("y", 3))
    assert record_items.get("a") == Note("y", 3)


def test_a_sandbox_does_not_keep_every_row_it_ever_read(
    notes: tuple[RecordItems[Note], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "READ_AT_MOST", 3)
    record_items, rows = notes
    for name in "abcdefgh":
        rows.items[name] = record_items.item(name, Note(name))
        assert record_items.get(name) == Note(name)
        assert len(record_items._read) <= 3


PUT = ("Put", {"Item": {"pk": {"S": "a"}}})


class TransactionCanceledError(ClientError):
    """Named as in the client of DynamoDB."""


class ConditionalCheckError(ClientError):
    """Named as in the client of DynamoDB."""


class Busy:
    """A client whose table reports conflicts for this many calls."""

    exceptions = SimpleNamespace(
        TransactionCanceledException=TransactionCanceledError, ConditionalCheckFailedException=ConditionalCheckError
    )

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.calls = 0

    def transact_write_items(self, **_: Any) -> None:
        self.calls += 1
        if self.answers:
            reasons = [{"Code": "None"}, {"Code": self.answers.pop(0)}]
            error: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
            raise TransactionCanceledError(error, "TransactWriteItems")

    def put_item(self, **_: Any) -> None:
        self.calls += 1
        if self.answers:
            raise ClientError({"Error": {"Code": self.answers.pop(0)}}, "PutItem")


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_transaction_that_conflicts_is_repeated(code: str) -> None:
    """Every launch of a NodePool changes one counter; the run ended at the first conflict."""
    waited: list[timedelta] = []
    client = Busy(code, code)
    assert DynamoTable(client, "t", waited.append).transact([PUT]) is None
    assert (client.calls, len(waited)) == (3, 2)
    assert all(wait <= 2 * most for wait, most in zip(waited, CONFLICT_PAUSES, strict=False))


def test_a_single_write_that_conflicts_with_a_transaction_is_repeated() -> None:
    """It fails with another code, for the same reason."""
    client = Busy("TransactionConflictException")
    DynamoTable(client, "t", lambda _: None).put({})
    assert client.calls == 2


def test_it_is_not_repeated_forever() -> None:
    """The invocation must end in time; the caller decides what to do then."""
    client = Busy(*["TransactionConflict"] * 10)
    with pytest.raises(TransientError):
        DynamoTable(client, "t", lambda _: None).transact([PUT])
    assert client.calls == len(CONFLICT_PAUSES) + 1
