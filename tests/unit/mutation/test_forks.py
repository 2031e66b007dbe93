"""Children that play mutants: what they say, and what ends those that hang."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.mutation.forks import KILLED, SURVIVED, forked

LONG = 60.0
Say = Callable[[str], None]


def test_a_child_says_how_it_ended() -> None:
    def body(say: Say) -> int:
        say("killed by a test")
        return KILLED

    ended = forked(body, LONG)
    assert (ended.status, ended.said) == (KILLED, "killed by a test")


def test_a_child_that_raises_says_where() -> None:
    def body(_: Say) -> int:
        raise ValueError("a defect")

    ended = forked(body, LONG)
    assert ended.status not in (SURVIVED, KILLED)
    assert "ValueError: a defect" in ended.said


def test_a_child_that_sleeps_is_ended_unless_it_is_allowed_to() -> None:
    """A mutant may wait for ever; tests without a mutant may wait for a process of their own on a busy machine."""

    def body(say: Say) -> int:
        time.sleep(3)
        say("awake")
        return SURVIVED

    assert forked(body, LONG, idle_max=1).status == -signal.SIGKILL
    assert forked(body, LONG, idle_max=LONG).said == "awake"


def test_a_child_ends_when_its_time_is_over() -> None:
    def body(_: Say) -> int:
        time.sleep(LONG)
        return SURVIVED

    assert forked(body, 1.0, idle_max=LONG).status == -signal.SIGKILL
