"""A launch waits for its turn, and whatever EC2 throttles is reported to the shared pace."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from adapters.aws.ec2.launch_turns import UNPACED, PacedTurns
from adapters.ports import ThrottledError, TransientError
from tests.builders import NOW
from tests.fakes.world import FakeClock

SECOND = timedelta(seconds=1)


class SlowPace:
    """Each turn is a second after the previous one."""

    def __init__(self) -> None:
        self.is_down = False
        self.next = NOW
        self.slowed: list[tuple[datetime, datetime, int]] = []

    def wait(self, now: datetime) -> timedelta:
        wait, self.next = max(timedelta(0), self.next - now), self.next + SECOND
        if wait > 5 * SECOND:
            raise ThrottledError("ec2:CreateFleet", "too many", wait)
        return wait

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
    return PacedTurns(pace, clock, clock.pause)


def test_a_turn_is_the_moment_at_which_the_request_is_sent(turns: PacedTurns) -> None:
    assert [turns.take() for _ in range(3)] == [NOW, NOW + SECOND, NOW + 2 * SECOND]


def test_a_turn_that_does_not_come_is_not_waited_for(turns: PacedTurns, pace: SlowPace, clock: FakeClock) -> None:
    pace.next = NOW + 60 * SECOND
    with pytest.raises(ThrottledError):
        turns.take()
    assert clock.now() == NOW


def test_throttled_answers_are_reported_with_the_moment_of_their_request(
    turns: PacedTurns, pace: SlowPace, clock: FakeClock
) -> None:
    """By it, the pace knows which requests had the reduced rate already."""
    sent = turns.take()
    clock.advance(seconds=3)
    turns.slow_down(sent, 3)
    assert pace.slowed == [(NOW, NOW + 3 * SECOND, 3)]


@pytest.mark.parametrize("answers", [0, 1])
def test_a_table_that_does_not_answer_fails_no_launch(turns: PacedTurns, pace: SlowPace, answers: int) -> None:
    pace.is_down = True
    turns.slow_down(NOW, answers)
    assert pace.slowed == []


def test_no_request_waits_without_a_pace() -> None:
    assert UNPACED.take() is None
    UNPACED.slow_down(None, 3)
