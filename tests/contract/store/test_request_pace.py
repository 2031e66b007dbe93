"""The token bucket of requests to EC2, on the simulator's table and on DynamoDB Local."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from lambdas.adapters.aws.dynamodb.request_pace import (
    AT_ONCE,
    FULL_AFTER,
    LONGEST_WAIT,
    PARTITION,
    TOKEN_EVERY,
    DynamoRequestPace,
)
from lambdas.adapters.aws.dynamodb.table import DynamoTable, key
from lambdas.ports import ThrottledError
from tests.contract.store.stores import NOW

MILLISECONDS = int(NOW.timestamp() * 1000)
LATER = [timedelta(milliseconds=200 * number) for number in range(1, 6)]


@pytest.fixture
def pace(table: DynamoTable, request: pytest.FixtureRequest) -> DynamoRequestPace:
    return DynamoRequestPace(table, request.node.name)


def test_each_request_takes_a_token_of_its_own(pace: DynamoRequestPace) -> None:
    assert [pace.wait(NOW) for _ in range(AT_ONCE + 5)] == [timedelta(0)] * AT_ONCE + LATER


@pytest.mark.e2e
def test_each_of_many_requests_at_once_takes_a_token_of_its_own(on_dynamodb_local: DynamoTable) -> None:
    """The simulator's table answers one caller at a time."""
    pace = DynamoRequestPace(on_dynamodb_local, "callers")
    with ThreadPoolExecutor(max_workers=16) as threads:
        waits = sorted(threads.map(lambda _: pace.wait(NOW), range(AT_ONCE + 5)))
    assert waits == [timedelta(0)] * AT_ONCE + LATER


def test_a_bucket_that_nobody_asked_for_long_is_full(pace: DynamoRequestPace) -> None:
    for _ in range(AT_ONCE):
        pace.wait(NOW)
    assert [pace.wait(NOW + timedelta(hours=1)) for _ in range(AT_ONCE)] == [timedelta(0)] * AT_ONCE


@pytest.mark.parametrize(
    ("full_at", "at_once"),
    [({"S": "soon"}, AT_ONCE), ({"N": "99999999999999"}, AT_ONCE), ({"N": f"{MILLISECONDS + 200}.5"}, AT_ONCE - 1)],
    ids=["text", "a wrong clock's", "fraction"],
)
def test_a_bucket_that_cannot_be_read_is_full(
    table: DynamoTable, pace: DynamoRequestPace, request: pytest.FixtureRequest, full_at: dict[str, str], at_once: int
) -> None:
    """Otherwise, every launch waits for a row that nobody writes again."""
    table.put({**key(PARTITION, request.node.name), "fullAt": full_at})
    assert [pace.wait(NOW) for _ in range(at_once)] == [timedelta(0)] * at_once
    assert pace.wait(NOW) > timedelta(0)


def test_a_bucket_with_more_waiting_than_fit_refuses(pace: DynamoRequestPace) -> None:
    waits = int((FULL_AFTER + LONGEST_WAIT) / TOKEN_EVERY)
    for _ in range(waits):
        pace.wait(NOW)
    with pytest.raises(ThrottledError):
        pace.wait(NOW)
