"""The API server goes away for a minute, while a function is killed in the middle of a launch."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from tests.e2e.play import Outcome, Play, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import killed, outage
from tests.e2e.world import World

KILLED = "function killed in a launch"
OUTAGE = "API server stopped for a minute"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> dict[str, Outcome]:
    """Both at once: the killed function's lease is over when the server is back."""
    was_killed = threading.Event()

    def kill(playing: Play) -> None:
        killed.scene(playing, was_killed.set)

    return play_together(
        world, report, {KILLED: kill, OUTAGE: partial(outage.scene, ready=lambda: was_killed.wait(PATIENCE))}
    )


@pytest.mark.parametrize("name", [KILLED, OUTAGE])
def test_what_was_cut_off_is_taken_up_again(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, a crash or an outage would cost a second instance, a running node, or pods that wait for ever."""
    outcomes[name].assert_lawful()
