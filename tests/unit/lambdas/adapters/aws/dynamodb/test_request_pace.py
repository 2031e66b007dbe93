"""Requests to EC2 keep to its rates, however many sandboxes make them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.adapters.aws.dynamodb.request_pace import DynamoRequestPace
from lambdas.ports import ThrottledError, TransientError
from simulator.aws.ec2.request_rates import WRITING
from tests.builders import NOW


class CountingTable:
    """Counts as an `ADD` does."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], int] = {}
        self.is_down = False

    def update(self, partition: str, sort: str, **_: Any) -> dict[str, dict[str, str]]:
        if self.is_down:
            raise TransientError("dynamodb:UpdateItem", "down")
        count = self.rows[partition, sort] = self.rows.get((partition, sort), 0) + 1
        return {"requests": {"N": str(count)}}


def paces(number: int) -> tuple[CountingTable, list[DynamoRequestPace]]:
    table: Any = CountingTable()
    return table, [DynamoRequestPace(table, "ec2:CreateFleet") for _ in range(number)]


@given(gaps=st.lists(st.integers(0, 2000), min_size=1, max_size=300))
def test_requests_of_all_sandboxes_stay_within_what_ec2_takes(gaps: list[int]) -> None:
    """A bucket of 50 that gets 5 a second, from any moment on, never runs dry."""
    _, sandboxes = paces(3)
    now, sent = NOW, list[datetime]()
    for number, gap in enumerate(gaps):
        now += timedelta(milliseconds=gap if number % 40 == 0 else 0)
        with suppress(ThrottledError):
            sent.append(now + sandboxes[number % 3].wait(now))
    tokens, last = float(WRITING.burst), sent[0] if sent else NOW
    for moment in sorted(sent):
        tokens = min(WRITING.burst, tokens + (moment - last).total_seconds() * WRITING.per_second)
        last = moment
        assert tokens >= 1
        tokens -= 1


def test_the_requests_for_a_thousand_nodes_need_not_wait() -> None:
    _, (pace,) = paces(1)
    assert {pace.wait(NOW) for _ in range(20)} == {timedelta(0)}


def test_a_launch_that_would_wait_long_goes_back_to_the_queue() -> None:
    """A function that waits is paid for, and may be killed."""
    _, (pace,) = paces(1)
    waits = [pace.wait(NOW) for _ in range(3 * 25)]
    assert max(waits) <= timedelta(seconds=15)
    with pytest.raises(ThrottledError):
        pace.wait(NOW)


def test_without_the_table_launches_go_on() -> None:
    """EC2 throttles what is too fast; no launch at all would be worse."""
    table, (pace,) = paces(1)
    table.is_down = True
    assert pace.wait(NOW) == timedelta(0)
