"""The token bucket of requests to EC2, on the simulator's table and on DynamoDB Local."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from adapters.aws.dynamodb.launch_memory import MILLISECOND, PACE_PARTITION, DynamoRequestPace
from adapters.aws.dynamodb.table import DynamoTable, key
from adapters.ports import ThrottledError
from core.launch.selection import AT_ONCE, FASTEST, LONGEST_WAIT, SLOWEST, token_time
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
    table.put({**key(PACE_PARTITION, request.node.name), "fullAt": full_at})
    assert [pace.wait(NOW) for _ in range(at_once)] == [timedelta(0)] * at_once
    assert pace.wait(NOW) > timedelta(0)


def test_a_bucket_with_more_waiting_than_fit_refuses(pace: DynamoRequestPace) -> None:
    waits = AT_ONCE + LONGEST_WAIT // token_time(FASTEST)
    for _ in range(waits):
        pace.wait(NOW)
    with pytest.raises(ThrottledError):
        pace.wait(NOW)


def test_a_throttled_request_slows_all_of_them_down(pace: DynamoRequestPace) -> None:
    for _ in range(AT_ONCE):
        pace.wait(NOW)
    pace.slow_down(NOW, NOW, 3)
    assert [pace.wait(NOW) / MILLISECOND for _ in range(3)] == [1600, 3200, 4800]


def test_a_bucket_that_nobody_asked_for_is_slowed_down_too(pace: DynamoRequestPace) -> None:
    pace.slow_down(NOW, NOW, 9)
    with pytest.raises(ThrottledError) as throttled:
        pace.wait(NOW)
    assert throttled.value.retry_after == token_time(SLOWEST) * MILLISECOND


def test_a_slow_bucket_recovers_once_it_is_quiet(pace: DynamoRequestPace) -> None:
    pace.slow_down(NOW, NOW, 9)
    later = NOW + timedelta(minutes=2)
    assert [pace.wait(later) for _ in range(AT_ONCE + 1)] == [timedelta(0)] * AT_ONCE + LATER[:1]


@pytest.mark.e2e
def test_each_of_many_requests_at_a_reduced_rate_takes_a_turn_of_its_own(on_dynamodb_local: DynamoTable) -> None:
    """Those that always meet another writer go back to the queue; the simulator's table answers one caller at a time."""
    pace = DynamoRequestPace(on_dynamodb_local, "slow callers")
    pace.slow_down(NOW, NOW, 1)

    def wait(_: int) -> timedelta | None:
        try:
            return pace.wait(NOW)
        except ThrottledError:
            return None

    with ThreadPoolExecutor(max_workers=8) as threads:
        waits = [found for found in threads.map(wait, range(20)) if found is not None]
    assert len(set(waits)) == len(waits) > 0
    assert sorted(waits) == [timedelta(milliseconds=400 * number) for number in range(1, len(waits) + 1)]


@pytest.mark.parametrize(
    "wrong", [{"rate": {"S": "slow"}}, {"rate": {"N": "-7"}}, {"slowedAt": {"N": "99999999999999"}}]
)
def test_a_reduced_rate_that_cannot_be_read_stops_nothing(
    table: DynamoTable, pace: DynamoRequestPace, request: pytest.FixtureRequest, wrong: dict[str, dict[str, str]]
) -> None:
    slow = {"fullAt": {"N": str(MILLISECONDS)}, "rate": {"N": "33"}, "slowedAt": {"N": str(MILLISECONDS)}}
    table.put({**key(PACE_PARTITION, request.node.name), **slow, **wrong})
    assert pace.wait(NOW) == timedelta(0)
