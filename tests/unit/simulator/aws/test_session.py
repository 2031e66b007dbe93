"""Clients of the embedded account behave as boto3's do: exceptions, checks of parameters, retries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError

from adapters.aws.service import QUICK
from simulator.aws.errors import UnansweredError
from simulator.invocation.calls import Fault
from tests.fakes.account import START, FakeAccount

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}


@pytest.fixture
def account() -> FakeAccount:
    return FakeAccount()


def put(account: FakeAccount, **arguments: Any) -> dict[str, Any]:
    client = account.client("dynamodb", config=QUICK)
    answer: dict[str, Any] = client.put_item(TableName=account.table, Item=KEY, **arguments)
    return answer


def test_an_error_is_raised_as_the_exception_that_the_client_names(account: FakeAccount) -> None:
    """If this failed, handlers would not recognise a failed condition here and would in AWS."""
    put(account)
    with pytest.raises(account.client("dynamodb").exceptions.ConditionalCheckFailedException) as raised:
        put(account, ConditionExpression="attribute_not_exists(pk)")
    assert isinstance(raised.value, ClientError)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_parameters_that_no_service_takes_are_refused_before_they_are_sent(account: FakeAccount) -> None:
    """If this failed, a misspelt parameter would be found by AWS alone."""
    account.faults.arm("dynamodb:*", Fault(kind="throttle"))
    with pytest.raises(ParamValidationError, match="Conditon"):
        put(account, Conditon="x")
    assert account.named("fault") == []


@pytest.mark.parametrize(("kind", "longest"), [("throttle", 3.0), ("error", 0.075), ("lostReply", 0.075)])
def test_a_call_is_tried_three_times_with_growing_waits(account: FakeAccount, kind: str, longest: float) -> None:
    """The configuration's three attempts; botocore waits up to 1 and 2 s where throttled, DynamoDB else a fortieth."""
    account.faults.arm("dynamodb:PutItem", Fault(kind=kind))
    with pytest.raises((ClientError, ReadTimeoutError)):
        put(account)
    assert len(account.named("fault")) == 3
    waited = account.clock.now() - START - 3 * timedelta(milliseconds=5)
    assert timedelta(0) < waited < timedelta(seconds=longest)


def test_what_was_tried_again_is_told_in_the_answer(account: FakeAccount) -> None:
    """If this failed, nobody could tell a call that went through at once from one that did not."""
    account.faults.arm("dynamodb:PutItem", Fault(kind="throttle"), count=2)
    assert put(account)["ResponseMetadata"]["RetryAttempts"] == 2


def test_a_transaction_whose_reply_is_lost_is_carried_out_once(account: FakeAccount) -> None:
    """The SDK repeats it with the token that it made for it. If this failed, counters would count twice."""
    client = account.client("dynamodb", config=QUICK)
    account.faults.arm("dynamodb:TransactWriteItems", Fault(kind="lostReply"), count=1)
    add = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    client.transact_write_items(TransactItems=[{"Update": {"TableName": account.table, "Key": KEY, **add}}])
    assert client.get_item(TableName=account.table, Key=KEY, ConsistentRead=True)["Item"]["n"] == {"N": "1"}


def test_a_call_without_an_answer_is_said_by_name(account: FakeAccount) -> None:
    """If this failed, an author of a new call would have to guess what is missing."""
    with pytest.raises(UnansweredError, match="sqs:PurgeQueue"):
        account.client("sqs").purge_queue(QueueUrl="u")
