"""A round of sweeps ends in time, and what it cannot do it says."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.observation.cluster_state import ClusterState
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.model.snapshot import Snapshot
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen
from tests.builders import NOW
from tests.fakes.world import FakeClock
from tests.unit.lifecycle.records_for_tests import a_command, a_record

ITEMS = ("a", "b", "c")


def a_round(*, seconds: float = 60, seen: Seen = Seen(None, None)) -> ReconcileRound:  # noqa: B008
    """A round that must have ended in so many seconds."""
    return ReconcileRound(seen, RunReport(), NOW + timedelta(seconds=seconds), FakeClock(NOW))


def done_in(round_: ReconcileRound, *, each: float = 0, failing: str = "") -> list[str]:
    """What was done of three pieces of work that take some seconds each."""
    done: list[str] = []

    def work(item: str) -> None:
        round_.clock.advance(seconds=each)  # type: ignore[attr-defined]  # the clock of tests
        if item == failing:
            raise TransientError("kube:patch nodes", "no answer")
        done.append(item)

    round_.each(ITEMS, work, subject=lambda item: f"node {item}")
    return done


def test_no_work_begins_within_twenty_seconds_of_the_end() -> None:
    """The next call may take four attempts, and the round must be reported."""
    assert done_in(a_round(seconds=20)) == list(ITEMS)
    assert done_in(a_round(seconds=19.9)) == []
    round_ = a_round(seconds=30)
    assert done_in(round_, each=10) == ["a", "b"]
    assert round_.failed == ("node c",)
    assert [d.reason for d in round_.report.decisions] == ["TimeShort"]


def test_what_fails_keeps_nothing_else_from_being_done() -> None:
    round_ = a_round()
    assert done_in(round_, failing="b") == ["a", "c"]
    assert round_.failed == ("node b",)


def test_work_says_whether_it_succeeded() -> None:
    round_ = a_round()
    assert round_.attempt("node a", lambda: None)
    assert not round_.attempt("node b", lambda: round_.view)


def test_what_was_not_seen_cannot_be_worked_on() -> None:
    for what, call in (("view", "observer:observe"), ("instances", "ec2:DescribeInstances")):
        with pytest.raises(TransientError, match=call):
            getattr(a_round(), what)
    assert a_round(seen=Seen((), None)).instances == ()


def test_rows_are_missing_only_where_an_observation_found_none() -> None:
    empty = ClusterState(snapshot=Snapshot(now=NOW), claims={}, commands=(), node_pools={}, node_classes={})
    for view, has_none in (
        (None, False),
        (empty, True),
        (msgspec.structs.replace(empty, claims={"c": a_record()}), False),
        (msgspec.structs.replace(empty, commands=(a_command(),)), False),
    ):
        assert a_round(seen=Seen((), view)).saw_no_rows() is has_none
    assert a_round(seen=Seen((), empty)).view is empty
