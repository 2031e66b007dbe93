"""A launch waits for its turn, and whatever EC2 throttles is reported to the shared pace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from adapters.aws.ec2.fleet import UNPACED, InstanceStatuses, PacedTurns
from adapters.aws.services import AwsService
from adapters.ports import Impairment, ThrottledError, TransientError
from tests.builders import NOW
from tests.fakes.world import FakeClock

SECOND = timedelta(seconds=1)


class SlowPace:
    """Each turn is a second after the previous one."""

    def __init__(self) -> None:
        self.is_down = False
        self.next = NOW
        self.slowed: list[tuple[datetime, datetime, int]] = []

    def wait(self, now: datetime, tokens: int = 1) -> timedelta:
        wait, self.next = max(timedelta(0), self.next - now), self.next + tokens * SECOND
        if wait > 5 * SECOND:
            raise ThrottledError("ec2:CreateFleet", "too many", wait)
        return wait

    def give_back(self, tokens: int) -> None:
        if self.is_down:
            raise TransientError("dynamodb:UpdateItem", "down")
        self.next -= tokens * SECOND

    def slow_down(self, sent: datetime, now: datetime, answers: int) -> None:
        if self.is_down:
            raise TransientError("dynamodb:UpdateItem", "down")
        self.slowed.append((sent, now, answers))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def pace() -> SlowPace:
    return SlowPace()


@pytest.fixture
def turns(pace: SlowPace, clock: FakeClock) -> PacedTurns:
    return PacedTurns(pace, SlowPace(), SlowPace(), clock, clock.pause)


def test_a_turn_is_the_moment_at_which_the_request_is_sent(turns: PacedTurns) -> None:
    assert [turns.launch(1) for _ in range(3)] == [NOW, NOW + SECOND, NOW + 2 * SECOND]


def test_a_launch_waits_for_a_token_for_each_instance(clock: FakeClock) -> None:
    """EC2 counts instances: 60 requests of 50 would ask for 3,000 at once."""
    launched, terminated = SlowPace(), SlowPace()
    turns = PacedTurns(SlowPace(), launched, terminated, clock, clock.pause)
    assert [turns.launch(3), turns.launch(1)] == [NOW, NOW + 3 * SECOND]
    turns.not_launched(1)
    assert turns.launch(1) == NOW + 3 * SECOND
    turns.terminate(2)
    turns.terminate(1)
    assert (clock.now(), terminated.next) == (NOW + 3 * SECOND, NOW + 3 * SECOND)
    launched.is_down = True
    turns.not_launched(1)


def test_a_dry_run_takes_a_turn_of_requests_and_no_token_of_instances(pace: SlowPace, clock: FakeClock) -> None:
    launched = SlowPace()
    turns = PacedTurns(pace, launched, SlowPace(), clock, clock.pause)
    assert [turns.dry_run(), turns.dry_run(), turns.launch(1)] == [NOW, NOW + SECOND, NOW + 2 * SECOND]
    assert launched.next == NOW + SECOND


def test_a_turn_that_does_not_come_is_not_waited_for(turns: PacedTurns, pace: SlowPace, clock: FakeClock) -> None:
    pace.next = NOW + 60 * SECOND
    with pytest.raises(ThrottledError):
        turns.launch(1)
    assert clock.now() == NOW


def test_throttled_answers_are_reported_with_the_moment_of_their_request(
    turns: PacedTurns, pace: SlowPace, clock: FakeClock
) -> None:
    """By it, the pace knows which requests had the reduced rate already."""
    sent = turns.launch(1)
    clock.advance(seconds=3)
    turns.slow_down(sent, 3)
    assert pace.slowed == [(NOW, NOW + 3 * SECOND, 3)]


@pytest.mark.parametrize("answers", [0, 1])
def test_a_table_that_does_not_answer_fails_no_launch(turns: PacedTurns, pace: SlowPace, answers: int) -> None:
    pace.is_down = True
    turns.slow_down(NOW, answers)
    assert pace.slowed == []


def test_no_request_waits_without_a_pace() -> None:
    assert UNPACED.launch(1) is None
    UNPACED.terminate(1)
    UNPACED.not_launched(1)
    UNPACED.slow_down(None, 3)


SINCE = datetime(2026, 11, 20, 8, tzinfo=UTC)


def a_status(instance_id: str, field: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"InstanceId": instance_id, field: {"Status": "impaired", "Details": list(details)}}


def test_both_checks_are_read_in_pages_and_only_failed_details_with_a_time_count() -> None:
    """Otherwise, a machine with a broken host is not replaced, or one that is still starting is."""
    client = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    failed = {"Name": "reachability", "Status": "failed", "ImpairedSince": SINCE}
    instance = {"Filters": [{"Name": "instance-status.status", "Values": ["impaired"]}], "MaxResults": 1000}
    system = {"Filters": [{"Name": "system-status.status", "Values": ["impaired"]}], "MaxResults": 1000}
    undated = {"Name": "reachability", "Status": "failed"}
    passed = {"Name": "reachability", "Status": "passed", "ImpairedSince": SINCE}
    pages = [
        (instance, {"InstanceStatuses": [a_status("i-2", "InstanceStatus", failed)], "NextToken": "more"}),
        (instance | {"NextToken": "more"}, {"InstanceStatuses": [a_status("i-3", "InstanceStatus", undated, passed)]}),
        (system, {"InstanceStatuses": [a_status("i-1", "SystemStatus", passed, failed)]}),
    ]
    with Stubber(client) as stub:
        for expected, answer in pages:
            stub.add_response("describe_instance_status", answer, expected)
        impairments = InstanceStatuses(AwsService(client)).impaired()
        stub.assert_no_pending_responses()
    assert impairments == (Impairment("i-1", "system", SINCE), Impairment("i-2", "instance", SINCE))
