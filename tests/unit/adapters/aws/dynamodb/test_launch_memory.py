"""Requests to EC2 keep to its rates, however many sandboxes make them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.aws.dynamodb.launch_memory import MILLISECOND, DynamoRequestPace, DynamoTemplateNames
from adapters.aws.dynamodb.table import DynamoTable, key
from adapters.ports import ThrottledError, TransientError
from core.launch.selection import (
    AT_ONCE,
    LONGEST_WAIT,
    REQUESTS,
    Bucket,
    Pace,
    of_instances,
    slowed,
    take_turn,
)
from simulator.aws.ec2.requests import WRITING
from tests.builders import NOW
from tests.fakes.account import FakeAccount


def paces(number: int, bucket: Bucket = REQUESTS) -> list[DynamoRequestPace]:
    account = FakeAccount()
    return [
        DynamoRequestPace(DynamoTable(account.client("dynamodb"), account.table), "ec2:CreateFleet", bucket)
        for _ in range(number)
    ]


def check_ec2_takes(moments: Sequence[datetime]) -> None:
    """A bucket of 50 that gets 5 a second, from any moment on, never runs dry."""
    tokens, last = float(WRITING.burst), moments[0] if moments else NOW
    for moment in sorted(moments):
        tokens = min(WRITING.burst, tokens + (moment - last).total_seconds() * WRITING.per_second)
        last = moment
        assert tokens >= 1
        tokens -= 1


@given(
    gaps=st.lists(st.integers(0, 2000), min_size=1, max_size=200),
    ahead=st.lists(st.integers(0, 1000), min_size=3, max_size=3),
)
def test_requests_of_all_sandboxes_stay_within_what_ec2_takes(gaps: list[int], ahead: list[int]) -> None:
    """Their clocks may be a second apart."""
    sandboxes = paces(3)
    now, sent = NOW, list[datetime]()
    for number, gap in enumerate(gaps):
        now += timedelta(milliseconds=gap if number % 40 == 0 else 0)
        clock = now + timedelta(milliseconds=ahead[number % 3])
        with suppress(ThrottledError):
            sent.append(now + sandboxes[number % 3].wait(clock))
    check_ec2_takes(sent)


def test_the_requests_for_a_thousand_nodes_need_not_wait() -> None:
    """A plan for a thousand pods asks for its nodes in forty requests."""
    (pace,) = paces(1)
    assert {pace.wait(NOW) for _ in range(AT_ONCE)} == {timedelta(0)}


def test_further_requests_wait_for_the_next_token_each() -> None:
    (pace,) = paces(1)
    waits = [pace.wait(NOW) for _ in range(AT_ONCE + 3)]
    assert [wait.total_seconds() for wait in waits[AT_ONCE:]] == [0.2, 0.4, 0.6]


def test_tokens_return_while_nobody_asks() -> None:
    (pace,) = paces(1)
    for _ in range(AT_ONCE):
        pace.wait(NOW)
    later = NOW + timedelta(seconds=1)
    assert [pace.wait(later).total_seconds() for _ in range(6)] == [0, 0, 0, 0, 0, 0.2]


def test_a_launch_that_would_wait_long_goes_back_to_the_queue() -> None:
    """A function that waits is paid for, and may be killed. What goes back takes no token."""
    (pace,) = paces(1)
    for _ in range(AT_ONCE + 75):
        assert pace.wait(NOW) <= LONGEST_WAIT * MILLISECOND
    for _ in range(10):
        with pytest.raises(ThrottledError):
            pace.wait(NOW)
    assert pace.wait(NOW + timedelta(milliseconds=200)) == LONGEST_WAIT * MILLISECOND


@given(
    orders=st.lists(
        st.tuples(st.integers(0, 30_000), st.integers(1, 60), st.integers(0, 1000), st.booleans()), max_size=60
    ),
    size=st.integers(3, 200),
    per_second=st.integers(1, 20),
)
def test_instances_of_all_sandboxes_stay_within_what_ec2_takes(
    orders: list[tuple[int, int, int, bool]], size: int, per_second: int
) -> None:
    """Whatever their clocks within a second, and whatever EC2 did not launch."""
    sandboxes, now = paces(3, of_instances(size, per_second)), NOW
    sent = list[tuple[datetime, int]]()
    for number, (gap, count, ahead, is_launched) in enumerate(orders):
        now += timedelta(milliseconds=gap)
        wanted = min(count, max(1, size - per_second))
        pace = sandboxes[number % 3]
        with suppress(ThrottledError):
            wait = pace.wait(now + timedelta(milliseconds=ahead), wanted)
            if is_launched:
                sent.append((now + wait, wanted))
            else:
                pace.give_back(wanted)
    tokens, last = float(size), NOW
    for moment, wanted in sorted(sent):
        tokens, last = min(size, tokens + (moment - last).total_seconds() * per_second), moment
        tokens -= wanted
        assert tokens > -0.001


def test_tokens_of_instances_return_and_are_given_back() -> None:
    (pace,) = paces(1, of_instances(102, 2))
    assert [pace.wait(NOW, count).total_seconds() for count in (60, 40, 4)] == [0, 0, 2]
    with pytest.raises(ThrottledError) as throttled:
        pace.wait(NOW, 50)
    assert throttled.value.retry_after == timedelta(seconds=27)
    pace.give_back(44)
    assert [pace.wait(NOW, count).total_seconds() for count in (40, 2)] == [0, 1]
    (unused,) = paces(1, of_instances(102, 2))
    unused.give_back(5)
    assert unused.wait(NOW, 1000) == timedelta(0)


def test_without_the_table_launches_go_on() -> None:
    """EC2 throttles what is too fast; no launch at all would be worse."""

    class DownTable:
        def update(self, partition: str, sort: str, **_: Any) -> None:
            raise TransientError("dynamodb:UpdateItem", "down")

    table: Any = DownTable()
    assert DynamoRequestPace(table, "ec2:CreateFleet").wait(NOW) == timedelta(0)


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 40_000), st.sampled_from(("take", "take", "take", "throttled"))), max_size=60
    )
)
def test_the_table_decides_as_the_core_does(steps: list[tuple[int, str]]) -> None:
    """At the fastest rate, the table's conditions decide without the core."""
    first, second = paces(2)
    state, now = Pace(), NOW
    for number, (gap, kind) in enumerate(steps):
        now += timedelta(milliseconds=gap)
        moment = (now - datetime.fromtimestamp(0, UTC)) // MILLISECOND
        pace = (first, second)[number % 2]
        if kind == "throttled":
            pace.slow_down(now, now, 2)
            state = slowed(state, moment, moment, 2)
            continue
        turn = take_turn(state, moment)
        if turn.pace is None:
            with pytest.raises(ThrottledError):
                pace.wait(now)
        else:
            assert pace.wait(now) == turn.wait * MILLISECOND
            state = turn.pace


# Launch templates are known to all sandboxes of a cluster.


def test_names_are_added_dropped_and_read_by_another_sandbox() -> None:
    account = FakeAccount()
    table = DynamoTable(account.client("dynamodb"), account.table)
    names, other, foreign = (DynamoTemplateNames(table, cluster) for cluster in ("c", "c", "d"))
    names.add(["a", "b"])
    names.add([])
    other.add(["b", "c"])
    names.drop(["a", "never added"])
    assert (other.all(), foreign.all()) == ({"b", "c"}, frozenset())


def test_an_odd_row_or_a_table_without_an_answer_knows_no_names() -> None:
    account = FakeAccount()
    table = DynamoTable(account.client("dynamodb"), account.table)
    names = DynamoTemplateNames(table, "c")
    for odd in ({"S": "a"}, {"L": [{"S": "a"}]}, {"M": {}}):
        table.put({**key("c#launch-templates", "all"), "names": odd})
        assert names.all() == frozenset()
        names.add(["b"])  # DynamoDB refuses this, which costs a request later and nothing else
    table = DynamoTable(SimpleNamespace(), "gone")
    table.get = table.update = _silent  # type: ignore[method-assign, assignment]
    names = DynamoTemplateNames(table, "c")
    names.add(["b"])
    assert names.all() == frozenset()


def _silent(*_: object, **__: object) -> Any:
    raise TransientError("dynamodb:GetItem", "no answer")
