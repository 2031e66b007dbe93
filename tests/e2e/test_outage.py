"""The API server goes away for a minute, while a function is killed in the middle of a launch."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from tests.e2e.play import SECONDS, Outcome, Play, Scene, assert_decisions_repeat, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import disruption
from tests.e2e.world import World

KILLED = "function killed in a launch"
SINGLES = "one pod at a time"
OUTAGE = "API server stopped for a minute"


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> dict[str, Outcome]:
    """Side by side: killed once the single pods run, whom its lease would hold up; it is over when the server is back."""
    was_killed, all_run = threading.Event(), threading.Event()

    def both() -> bool:
        return was_killed.wait(SECONDS) and all_run.wait(SECONDS)

    def kill(playing: Play) -> None:
        all_run.wait(SECONDS)
        disruption.killed_in_a_launch(playing, was_killed.set)

    scenes: dict[str, Scene] = {
        SINGLES: partial(disruption.one_by_one, launched=all_run.set),
        KILLED: kill,
        OUTAGE: partial(disruption.api_server_away, ready=both),
    }
    return play_together(world, report, scenes)


@pytest.mark.parametrize("name", [SINGLES, KILLED, OUTAGE])
def test_what_was_cut_off_is_taken_up_again(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, a crash or an outage would cost a second instance, a running node, or pods that wait forever."""
    outcomes[name].assert_lawful()


def test_the_audit_log_wakes_the_planner(outcomes: dict[str, Outcome]) -> None:
    """The minute's schedule hid a trigger that woke nobody."""
    outcomes[SINGLES].assert_woken()


def test_the_decisions_are_repeated_byte_for_byte(world: World, report: Report, outcomes: dict[str, Outcome]) -> None:
    """What a clock bounded on a busy machine must be repeated elsewhere; simulated runs bound their searches by steps."""
    assert outcomes
    assert_decisions_repeat(world, report)
