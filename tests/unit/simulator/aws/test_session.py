"""Clients of the embedded account behave as boto3's do: exceptions, checks of parameters, retries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError

from adapters.aws.services import QUICK
from installation.wiring import AUDIT_LOG_FILTER
from simulator.aws.queues import UnansweredError
from simulator.aws.session import next_fire
from simulator.events import compile_filter, matches
from simulator.invocation.faults import Fault
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


# The small languages of AWS that the wiring is written in: filter patterns, event patterns, schedule expressions.


NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
"""A Friday."""


def an_event(user: str, verb: str, resource: str, subresource: str = "") -> dict:
    part = {"subresource": subresource} if subresource else {}
    return {
        "stage": "ResponseComplete",
        "user": {"username": user},
        "verb": verb,
        "objectRef": {"resource": resource, **part},
    }


def a_finished_pod(phase: str) -> dict:
    """A kubelet's patch of a pod's status with this phase."""
    event = an_event("system:node:ip-10-0-0-1", "patch", "pods", "status")
    return {**event, "requestObject": {"status": {"phase": phase}}}


@pytest.mark.parametrize(
    ("pattern", "event", "hit"),
    [
        ('{ $.a = "1" }', {"a": "1"}, True),
        ('{ $.a.b = "1" }', {"a": {"b": "1"}}, True),
        ('{ $.a.b = "1" }', {"a": "1"}, False),
        ('{ $.a != "1" }', {}, True),
        ('{ ($.a = "1") && (($.b = "2") || ($.c = "3")) }', {"a": "1", "c": "3"}, True),
        ('{ ($.a = "1") && (($.b = "2") || ($.c = "3")) }', {"c": "3"}, False),
        ('{ $.a = "x:*" }', {"a": "x:y"}, True),
        ('{ $.a != "x:*" }', {"a": "x:y"}, False),
        ('{ $.a = "x.*" }', {"a": "x:y"}, False),
        ("{ $.a.b NOT EXISTS }", {"a": {}}, True),
        ("{ $.a.b NOT EXISTS }", {"a": {"b": "c"}}, False),
        (AUDIT_LOG_FILTER, an_event("system:kube-scheduler", "patch", "pods", "status"), True),
        (AUDIT_LOG_FILTER, an_event("system:node:ip-10-0-0-1", "patch", "pods", "status"), False),
        (AUDIT_LOG_FILTER, a_finished_pod("Running"), False),
        (AUDIT_LOG_FILTER, a_finished_pod("Succeeded"), True),
        (AUDIT_LOG_FILTER, a_finished_pod("Failed"), True),
        (AUDIT_LOG_FILTER, an_event("system:node:ip-10-0-0-1", "delete", "pods"), True),
        (AUDIT_LOG_FILTER, an_event("someone", "create", "pods", "eviction"), False),
        (AUDIT_LOG_FILTER, an_event("someone", "patch", "nodepools"), True),
        (AUDIT_LOG_FILTER, an_event("someone", "patch", "nodepools", "status"), False),
        (AUDIT_LOG_FILTER, an_event("someone", "list", "nodepools"), False),
        (AUDIT_LOG_FILTER, {"stage": "RequestReceived", "objectRef": {"resource": "nodepools"}}, False),
    ],
)
def test_filter_patterns(pattern: str, event: dict, hit: bool) -> None:
    """If this failed, the simulated subscription would deliver other events than the deployed one, or every kubelet's."""
    assert compile_filter(pattern)(event) == hit


@pytest.mark.parametrize("pattern", ["$.a = 1", "{ $.a = 1 }", '{ ($.a = "1" }', '{ $.a = "1" junk }', "{ }"])
def test_a_filter_pattern_that_is_none_is_refused(pattern: str) -> None:
    """If this failed, a misspelt filter would let everything through."""
    with pytest.raises(ValueError, match=r"."):
        compile_filter(pattern)


@pytest.mark.parametrize(
    ("pattern", "event", "hit"),
    [
        ({"source": ["aws.ec2"]}, {"source": "aws.ec2", "other": 1}, True),
        ({"detail": {"state": ["running", "stopped"]}}, {"detail": {"state": "stopped"}}, True),
        ({"detail": {"state": ["running"]}}, {"detail": {}}, False),
        ({"source": [{"prefix": "aws."}]}, {"source": "aws.health"}, True),
        ({"source": [{"anything-but": ["aws.ec2"]}]}, {"source": "aws.ec2"}, False),
        ({"x": [{"exists": False}]}, {}, True),
        ({"tags": ["a"]}, {"tags": ["b", "a"]}, True),
    ],
)
def test_event_patterns(pattern: dict, event: dict, hit: bool) -> None:
    """If this failed, rules would wake functions that they do not wake when deployed."""
    assert matches(pattern, event) == hit


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("cron(0 8 ? * SUN *)", datetime(2026, 11, 22, 8, tzinfo=UTC)),
        ("cron(0 8 ? * 1 *)", datetime(2026, 11, 22, 8, tzinfo=UTC)),
        ("cron(30 12 * * ? *)", datetime(2026, 11, 20, 12, 30, tzinfo=UTC)),
        ("cron(0 12 * * ? *)", datetime(2026, 11, 21, 12, tzinfo=UTC)),
        ("cron(0 0 1 1 ? 2027)", datetime(2027, 1, 1, tzinfo=UTC)),
        ("at(2026-11-20T13:00:00)", datetime(2026, 11, 20, 13, tzinfo=UTC)),
        ("at(2026-11-20T12:00:00)", None),
        ("rate(5 minutes)", datetime(2026, 11, 20, 12, 5, tzinfo=UTC)),
    ],
)
def test_schedule_expressions(expression: str, fires: datetime | None) -> None:
    """If this failed, budget windows would open at other hours than on EventBridge."""
    assert next_fire(expression, NOW) == fires


@pytest.mark.parametrize("expression", ["cron(0 8 * * SUN)", "every day", "cron(61 8 * * ? *)"])
def test_a_schedule_that_is_none_is_refused(expression: str) -> None:
    """If this failed, a malformed schedule would silently never fire, as in moto."""
    with pytest.raises(ValueError, match=r"."):
        next_fire(expression, NOW)
