"""The token bucket of requests to EC2, on the simulator's table and on DynamoDB Local."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from lambdas.adapters.aws.dynamodb.request_pace import AT_ONCE, DynamoRequestPace
from lambdas.adapters.aws.dynamodb.table import DynamoTable
from tests.builders import NOW


@pytest.fixture
def pace(table: DynamoTable, request: pytest.FixtureRequest) -> DynamoRequestPace:
    return DynamoRequestPace(table, request.node.name)


def test_each_of_many_requests_at_once_takes_a_token_of_its_own(pace: DynamoRequestPace) -> None:
    with ThreadPoolExecutor(max_workers=16) as threads:
        waits = sorted(threads.map(lambda _: pace.wait(NOW), range(AT_ONCE + 5)))
    later = [timedelta(milliseconds=200 * number) for number in range(1, 6)]
    assert waits == [timedelta(0)] * AT_ONCE + later


def test_a_bucket_that_nobody_asked_for_long_is_full(pace: DynamoRequestPace) -> None:
    for _ in range(AT_ONCE):
        pace.wait(NOW)
    assert [pace.wait(NOW + timedelta(hours=1)) for _ in range(AT_ONCE)] == [timedelta(0)] * AT_ONCE
