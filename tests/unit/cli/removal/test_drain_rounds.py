"""`drain --all` goes round by round until nothing is left, its time is up, or something cannot be asked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import DeniedError, TransientError
from cli.errors import InputError
from cli.removal.draining import FAILURES_MAX, ROUND, drain_all
from cli.removal.owned_resources import RemainingResources
from core.manifests.wire import api_resources as kinds
from tests.builders import NOW
from tests.fakes.world import FakeClock

POOL = RemainingResources((), (), ((kinds.NODE_POOLS, {"metadata": {"name": "default"}}),), (), ())
NOTHING = RemainingResources((), (), (), (), ())


class Installation:
    """A list of observations, of which the last one stays; an exception in the list is raised."""

    def __init__(self, *looks: RemainingResources | Exception, hindrances: Iterable[str] = ()) -> None:
        self.cluster, self.clock = "prod", FakeClock(NOW)
        self.done: list[str] = []
        self._looks, self._hindrances = list(looks), list(hindrances)

    def pause(self, wait: timedelta) -> None:
        self.done.append("pause")
        self.clock.advance(seconds=wait.total_seconds())

    def hindrances(self) -> list[str]:
        return self._hindrances

    def observe(self) -> RemainingResources:
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(found, Exception):
            raise found
        return found

    def delete_node_pools(self, remaining: RemainingResources) -> None:
        self.done.append("pools")

    def bound_drains(self, remaining: RemainingResources, grace: timedelta) -> None:
        self.done.append("bound")

    def clean(self, remaining: RemainingResources) -> None:
        self.done.append("clean")


def drained(installation: Installation, **more: Any) -> tuple[list[str], bool]:
    given: dict[str, Any] = {"is_acting": True, "grace": None, "timeout": timedelta(minutes=1), **more}
    _, is_done = drain_all(installation, **given)  # type: ignore[arg-type]  # the rounds need no cluster
    return installation.done, is_done


def test_rounds_end_when_nothing_is_left() -> None:
    assert drained(Installation(POOL, POOL, NOTHING)) == (["pools", "clean", "pause", "pools", "clean"], True)


def test_rounds_end_when_time_is_up_and_say_that_something_is_left() -> None:
    done, is_done = drained(Installation(POOL))
    assert (done.count("pause"), is_done) == (timedelta(minutes=1) // ROUND, False)


def test_drains_are_bounded_only_where_that_is_asked() -> None:
    assert "bound" in drained(Installation(POOL, NOTHING), grace=timedelta(0))[0]
    assert "bound" not in drained(Installation(POOL, NOTHING))[0]


def test_nothing_is_done_without_yes_or_while_something_is_in_the_way() -> None:
    assert drained(Installation(POOL), is_acting=False) == ([], False)
    assert drained(Installation(POOL, hindrances=["the functions stand still"])) == ([], False)


class Stopped(Installation):
    """The functions are switched off once the drain has begun."""

    def hindrances(self) -> list[str]:
        return ["the functions stand still"] if self.done else []


@pytest.mark.parametrize(("stops", "has_begun"), [(Stopped(POOL), True), (Installation(POOL, hindrances=["x"]), False)])
def test_the_answer_says_whether_anything_was_changed(stops: Installation, has_begun: bool) -> None:
    document, is_done = drain_all(stops, is_acting=True, grace=None, timeout=ROUND)  # type: ignore[arg-type]
    assert (document["begun"], len(document["hindrances"]), is_done) == (has_begun, 1, False)


def test_passing_errors_are_waited_out_and_refusals_are_not() -> None:
    passing = TransientError("kube:list nodes", "timeout")
    assert drained(Installation(POOL, passing, passing, NOTHING), timeout=timedelta(hours=1))[1]
    most = [passing] * FAILURES_MAX
    assert drained(Installation(POOL, *most, POOL, *most, NOTHING), timeout=timedelta(hours=1))[1]
    with pytest.raises(InputError, match="timeout"):
        drained(Installation(POOL, *most, passing, NOTHING), timeout=timedelta(hours=1))
    with pytest.raises(InputError, match="iam:ListInstanceProfiles"):
        drained(Installation(POOL, DeniedError("iam:ListInstanceProfiles", "AccessDenied")))


@pytest.mark.parametrize(("rounds", "pauses"), [(0.9, 0), (1.0, 1), (1.9, 1), (2.0, 2)])
def test_the_last_round_begins_before_time_is_up(rounds: float, pauses: int) -> None:
    """Each round that fits within the time is waited for, also one that ends with it."""
    done, is_done = drained(Installation(POOL), timeout=ROUND * rounds)
    assert (done.count("pools"), done.count("pause"), is_done) == (pauses + 1, pauses, False)
