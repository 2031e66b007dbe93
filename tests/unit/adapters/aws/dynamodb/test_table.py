"""Conflicting transactions: DynamoDB cancels one of them, and it may be repeated at once."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapters.aws.dynamodb.table import CONFLICT_PAUSES, DynamoTable
from adapters.ports import TransientError

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
