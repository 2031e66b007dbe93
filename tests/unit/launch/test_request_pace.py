"""The pace of requests to EC2: multiplicative decrease where EC2 throttles, additive increase once it is quiet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.launch.request_pace import (
    AT_ONCE,
    CLOCKS_APART,
    FASTEST,
    LONGEST_WAIT,
    QUIET,
    RISE,
    SLOWEST,
    Pace,
    latest_full,
    rate_of,
    slowed,
    take_turn,
    token_time,
)

NOW = 1_800_000_000_000
SECOND = 1_000
BACK_AGAIN = QUIET + (FASTEST - SLOWEST) * SECOND // RISE + SECOND
"""By then, every bucket has the fastest rate again."""


def turns(pace: Pace, now: int, number: int) -> tuple[list[int], Pace]:
    """The waits of this many requests at once, and the bucket after them; what must not wait takes no turn."""
    waits = []
    for _ in range(number):
        turn = take_turn(pace, now)
        waits.append(turn.wait)
        pace = pace if turn.pace is None else turn.pace
    return waits, pace


def test_a_full_bucket_serves_a_burst_then_one_request_for_each_token() -> None:
    waits, _ = turns(Pace(), NOW, AT_ONCE + 3)
    assert waits == [0] * AT_ONCE + [200, 400, 600]


def test_each_throttled_answer_halves_the_rate() -> None:
    for answers, rate in ((1, 2500), (2, 1250), (3, 625), (8, SLOWEST), (100, SLOWEST)):
        assert slowed(Pace(), NOW, NOW, answers).rate == rate


def test_a_reduced_rate_spreads_requests_evenly() -> None:
    """A burst is what EC2 throttles."""
    pace = slowed(Pace(), NOW, NOW, 3)
    waits, _ = turns(pace, NOW, 4)
    assert waits == [1600, 3200, 4800, 6400]


def test_a_wait_that_is_too_long_takes_no_turn() -> None:
    pace = slowed(Pace(), NOW, NOW, 9)
    turn = take_turn(pace, NOW)
    assert (turn.wait, turn.pace) == (token_time(SLOWEST), None)
    assert take_turn(pace, NOW + token_time(SLOWEST)).wait == 0


def test_a_bucket_may_be_full_no_later_than_the_longest_wait_allows() -> None:
    """The row in the table is written on this condition: a moment later, the turn would come too late."""
    last = Pace(full_at=latest_full(NOW), rate=FASTEST, slowed_at=NOW - BACK_AGAIN)
    turn = take_turn(last, NOW)
    assert turn.pace is not None
    assert turn.wait == LONGEST_WAIT
    later = take_turn(Pace(full_at=latest_full(NOW) + 1, rate=FASTEST, slowed_at=NOW - BACK_AGAIN), NOW)
    assert later.pace is None


def test_requests_side_by_side_reduce_the_rate_once() -> None:
    """A hundred throttled requests of one burst say no more than one of them."""
    pace = slowed(Pace(), NOW, NOW + SECOND, 1)
    for number in range(100):
        pace = slowed(pace, NOW + number, NOW + 2 * SECOND, 3)
    assert pace.rate == FASTEST // 2


def test_a_request_at_the_reduced_rate_reduces_it_further() -> None:
    pace = slowed(Pace(), NOW, NOW, 1)
    assert slowed(pace, NOW + SECOND, NOW + SECOND, 1).rate == FASTEST // 4


def test_the_rate_stays_until_it_has_been_quiet_and_then_rises_evenly() -> None:
    pace = slowed(Pace(), NOW, NOW, 9)
    rates = [rate_of(pace, NOW + QUIET + seconds * SECOND) for seconds in (-44, 0, 1, 2, 10)]
    assert rates == [SLOWEST, SLOWEST, SLOWEST + RISE, SLOWEST + 2 * RISE, SLOWEST + 10 * RISE]
    assert rate_of(pace, NOW + BACK_AGAIN) == FASTEST


def test_a_bucket_that_has_recovered_is_as_new() -> None:
    pace = slowed(Pace(), NOW, NOW, 9)
    waits, after = turns(pace, NOW + BACK_AGAIN, AT_ONCE + 1)
    assert waits == [0] * AT_ONCE + [200]
    assert (after.rate, after.slowed_at) == (FASTEST, 0)


def test_turns_that_were_given_before_the_throttling_are_waited_for() -> None:
    """They are sent all the same, and the next request comes after them."""
    waits, pace = turns(Pace(), NOW, AT_ONCE + 10)
    after = slowed(pace, NOW, NOW, 1)
    assert take_turn(after, NOW).wait == waits[-1] + token_time(after.rate)


@pytest.mark.parametrize(
    "pace",
    [
        Pace(full_at=latest_full(NOW) + CLOCKS_APART + 1),
        Pace(full_at=NOW, rate=SLOWEST, slowed_at=NOW + CLOCKS_APART + 1),
        Pace(full_at=10**18, rate=SLOWEST, slowed_at=10**18),
        Pace(full_at=-5, rate=SLOWEST, slowed_at=1),
    ],
)
def test_a_moment_of_a_wrong_clock_stops_nothing(pace: Pace) -> None:
    turn = take_turn(pace, NOW)
    assert turn.wait == 0
    assert turn.pace is not None
    assert turn.pace.full_at == NOW + token_time(FASTEST)


@given(rate=st.integers(-(10**9), 10**9), slowed_at=st.integers(0, NOW + 10**7), full_at=st.integers(-(10**9), 10**15))
def test_whatever_is_stored_the_rate_is_within_its_bounds_and_comes_back(
    rate: int, slowed_at: int, full_at: int
) -> None:
    pace = Pace(full_at, rate, slowed_at)
    assert SLOWEST <= rate_of(pace, NOW) <= FASTEST
    assert rate_of(pace, NOW + CLOCKS_APART + BACK_AGAIN) == FASTEST or slowed_at > NOW + CLOCKS_APART
    turn = take_turn(pace, NOW)
    assert turn.wait >= 0
    assert (turn.pace is None) == (turn.wait > LONGEST_WAIT)


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 3)), max_size=60))
def test_while_ec2_throttles_requests_are_at_least_as_far_apart_as_the_rate_says(steps: list[tuple[int, int]]) -> None:
    """Each request waits for its turn, and EC2 throttles some of its attempts."""
    pace, now, last = slowed(Pace(), NOW, NOW, 3), NOW, NOW
    for gap, answers in steps:
        now += gap
        turn = take_turn(pace, now)
        if turn.pace is None:
            continue
        sent, rate = now + turn.wait, rate_of(pace, now)
        if rate < FASTEST:
            assert sent - last >= token_time(rate) - 1 or pace.slowed_at > last
        pace, last = turn.pace, sent
        if answers:
            pace, now = slowed(pace, sent, sent, answers), max(now, sent)


def test_a_throttled_answer_to_a_request_that_was_sent_before_counts_once_the_rate_is_the_fastest_again() -> None:
    """It says that even this rate is too fast; while the rate is reduced, it is the same sign again."""
    pace = slowed(Pace(), NOW, NOW, 1)
    recovered = NOW + QUIET + (FASTEST // 2) * SECOND // RISE
    assert rate_of(pace, recovered) == FASTEST > rate_of(pace, recovered - SECOND)
    assert slowed(pace, NOW - 1, recovered - SECOND, 1) == pace
    assert slowed(pace, NOW - 1, recovered, 1).rate == FASTEST // 2
    assert slowed(pace, NOW - 1, recovered, 1).slowed_at == recovered


@pytest.mark.parametrize(("ahead", "rate"), [(0, SLOWEST), (1, FASTEST)])
def test_a_clock_that_is_a_little_ahead_is_believed(ahead: int, rate: int) -> None:
    assert rate_of(Pace(full_at=NOW, rate=SLOWEST, slowed_at=NOW + CLOCKS_APART + ahead), NOW) == rate


def test_a_request_that_was_sent_at_the_moment_of_the_throttling_came_after_it() -> None:
    """It had the reduced rate already, so its own throttling is another sign."""
    pace = slowed(Pace(), NOW, NOW, 1)
    assert slowed(pace, NOW, NOW + SECOND, 1).rate == FASTEST // 4
    assert slowed(pace, NOW - 1, NOW + SECOND, 1) == pace


def test_a_bucket_that_never_slowed_has_the_fastest_rate() -> None:
    assert rate_of(Pace(rate=SLOWEST), NOW) == FASTEST


@pytest.mark.parametrize(("ahead", "is_believed"), [(0, True), (1, False)])
def test_a_full_bucket_of_a_clock_a_little_ahead_is_believed(ahead: int, *, is_believed: bool) -> None:
    """Otherwise, requests of a sandbox whose clock is a second ahead count for nothing in the next one."""
    pace = Pace(full_at=latest_full(NOW) + CLOCKS_APART + ahead)
    assert (take_turn(pace, NOW).wait > 0) is is_believed


def test_a_token_takes_a_second_at_one_hertz() -> None:
    """Rates are millihertz, moments milliseconds."""
    assert [token_time(rate) for rate in (1_000, 5_000, 33)] == [1_000, 200, 30_303]
