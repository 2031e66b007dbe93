"""How often a simulation lets nodes go, and what it therefore cannot show."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from cli.answers.pace import minutes, pace, pace_warnings
from core.counterfactual.fleet_simulation import TICK, tick_of
from core.model.node_pool import NodePool
from tests.builders import a_pool

DAY, MONTH = timedelta(days=1) / 2, timedelta(days=30)


def pool(name: str, wait: timedelta | None) -> NodePool:
    made = a_pool(name)
    return msgspec.structs.replace(made, disruption=msgspec.structs.replace(made.disruption, consolidate_after=wait))


def test_the_pace_is_an_assumption_of_the_answer() -> None:
    assert pace(DAY) == f"nodes are let go every {minutes(TICK)} at most"
    assert tick_of(MONTH) > TICK
    assert pace(MONTH) == (
        f"nodes are let go every {minutes(tick_of(MONTH))} at most; every {minutes(TICK)} at most where they have no pods, "
        "are left for a later wave, or a budget changes"
    )


def test_a_wait_that_ends_between_two_decisions_is_told() -> None:
    short = TICK - timedelta(seconds=1)
    (told,) = pace_warnings([pool("a", short)], [], DAY)
    assert told == (
        f"NodePool a: consolidateAfter of {short // timedelta(seconds=1)} s is shorter than the {minutes(TICK)} between two "
        "decisions, so the simulation shows less of its effect"
    )
    (told,) = pace_warnings([pool("a", TICK)], [pool("a", timedelta(0))], MONTH)
    assert told.endswith("shows less of its effect; a period of less than 21 hours has more decisions")


def test_nothing_is_said_of_a_wait_that_is_long_off_or_not_changed() -> None:
    short = TICK - timedelta(seconds=1)
    assert pace_warnings([pool("a", TICK), pool("b", None), pool("c", short)], [pool("c", short)], DAY) == []


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "1 minute"), (29, "1 minute"), (89, "1 minute"), (91, "2 minutes"), (600, "10 minutes")]
)
def test_minutes_are_rounded_and_never_none(seconds: int, words: str) -> None:
    assert minutes(timedelta(seconds=seconds)) == words
