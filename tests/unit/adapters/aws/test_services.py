"""Calls about many ids that several threads request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from adapters.aws.services import (
    LAUNCHING,
    PAGES_MAX,
    PATIENT,
    QUICK,
    AwsService,
    CoalescedCalls,
    SnsTopic,
    longest,
)
from adapters.ports import DeniedError, TransientError
from installation.wiring import FUNCTIONS, FunctionSpec

OTHERS = ("b", "c", "d")


class Slow:
    """A service whose first call blocks until `arrived` ids wait for the next one."""

    def __init__(self, refused: str = "", error: type[Exception] | None = None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.go_on = Event()
        self._refused = refused
        self._error = error

    def __call__(self, ids: Sequence[str]) -> dict[str, str]:
        self.calls.append(tuple(ids))
        if len(self.calls) == 1:
            assert self.go_on.wait(10)
        if self._error is not None and self._refused in ids:
            raise self._error("ec2:Call", self._refused)
        return {name: name.upper() for name in ids}


def ask_together(service: Slow) -> list[dict[str, str] | BaseException]:
    """Request `a` first and the others while that call is under way.

    Returns replies or errors, in the order of the names.
    """
    gathered = CoalescedCalls(service)
    with ThreadPoolExecutor(max_workers=4) as pool:
        first = pool.submit(gathered, ["a"])
        while not service.calls:
            continue
        rest = [pool.submit(gathered, [name]) for name in OTHERS]
        while gathered._next.callers < len(OTHERS):
            continue
        service.go_on.set()
        return [future.exception() or future.result() for future in (first, *rest)]


def test_ids_requested_during_a_call_share_the_next_one() -> None:
    """A call for each node of a wave would spend EC2's rate for the whole account."""
    service = Slow()
    answers = ask_together(service)
    assert service.calls == [("a",), OTHERS]
    assert all(isinstance(answer, dict) and name in answer for name, answer in zip("abcd", answers, strict=True))


def test_a_refused_id_fails_only_its_own_caller() -> None:
    service = Slow(refused="c", error=DeniedError)
    answers = ask_together(service)
    assert [isinstance(answer, DeniedError) for answer in answers] == [False, False, True, False]


def test_a_throttled_call_is_not_repeated_for_each_caller() -> None:
    """Ten more calls only make the throttling worse."""
    service = Slow(refused="c", error=TransientError)
    answers = ask_together(service)
    assert [isinstance(answer, TransientError) for answer in answers] == [False, True, True, True]
    assert len(service.calls) == 2


def test_a_single_caller_does_not_wait() -> None:
    service = Slow()
    service.go_on.set()
    gathered = CoalescedCalls(service)
    assert [gathered(["a"]), gathered(["b", "b"])] == [{"a": "A"}, {"b": "B"}]


def test_an_error_is_not_remembered() -> None:
    service = Slow(refused="a", error=TransientError)
    service.go_on.set()
    gathered = CoalescedCalls(service)
    with pytest.raises(TransientError):
        gathered(["a"])
    assert gathered(["b"]) == {"b": "B"}


# Listings of AWS, page by page.


class Pager:
    """A client whose listing has this many pages of one item."""

    def __init__(self, pages: int | None) -> None:
        self.pages = pages
        self.meta = SimpleNamespace(service_model=SimpleNamespace(service_name="ec2"))

    def describe_things(self, *, Kind: str, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803 - EC2's own names
        page = int(NextToken)
        if page == 2 and Kind == "throttled":
            raise ClientError({"Error": {"Code": "RequestLimitExceeded", "Message": "m"}}, "DescribeThings")
        answer: dict[str, Any] = {"Things": [f"{Kind}-{page}"]}
        is_last = self.pages is not None and page + 1 == self.pages
        return answer if is_last else {**answer, "NextToken": str(page + 1)}


def test_all_pages_are_read_with_the_same_parameters() -> None:
    """Otherwise, types, instances or prices beyond the first page would not exist for us."""
    assert list(AwsService(Pager(3)).items("DescribeThings", "Things", Kind="x")) == ["x-0", "x-1", "x-2"]


def test_an_endless_listing_is_given_up() -> None:
    """A token that never ends would keep the function busy until it is killed."""
    with pytest.raises(TransientError, match=str(PAGES_MAX)):
        list(AwsService(Pager(None)).items("DescribeThings", "Things", Kind="x"))


def test_a_partial_listing_is_not_used() -> None:
    """Otherwise, with half of the instances missing, their claims would look lost."""
    with pytest.raises(TransientError, match="ec2:DescribeThings"):
        list(AwsService(Pager(5)).items("DescribeThings", "Things", Kind="throttled"))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_call_times_out_within_the_function_s_own_time(function: FunctionSpec) -> None:
    """Otherwise, the function is killed while it waits, and no log names the call."""
    only_queues = function.reads_audit_log
    assert longest(QUICK if only_queues else PATIENT) < function.timeout - timedelta(seconds=5)
    assert only_queues or longest(LAUNCHING) < function.timeout - timedelta(seconds=5)


def test_a_launch_is_waited_for_longer_than_other_calls() -> None:
    """An answer that comes too late is lost: the instances run, and nobody knows whose they are."""
    assert 2 * read_seconds(PATIENT) > read_seconds(LAUNCHING) > read_seconds(PATIENT)


def read_seconds(config: Any) -> float:
    seconds: float = config.read_timeout
    return seconds


@pytest.mark.parametrize("kind", ["", ".fifo"])
def test_a_message_reaches_those_who_subscribe_to_a_topic_of_either_kind(kind: str) -> None:
    """SNS refused each message to a FIFO topic, which the context allows: it wants a group and an id against repetition."""
    with mock_aws():
        session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
        sns, sqs = session.client("sns"), session.client("sqs")
        attributes = {"FifoTopic": "true"} if kind else {}
        topic = sns.create_topic(Name=f"t{kind}", Attributes=attributes)["TopicArn"]
        fifo = {"FifoQueue": "true"} if kind else {}
        url = sqs.create_queue(QueueName=f"q{kind}", Attributes=fifo)["QueueUrl"]
        queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
        announcing = SnsTopic(AwsService(sns), topic)
        for text in ("first", "second"):
            announcing.publish("subject", text)
        received = [
            json.loads(message["Body"])["Message"]
            for _ in range(2)
            for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
        ]
    assert sorted(set(received)) == ["first", "second"]
