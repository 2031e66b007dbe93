"""A round of sweeps ends in time, and what it cannot do it says."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.observation.observer import ClusterState
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.brakes import Brake, BrakeKind
from core.lifecycle.deletion import leaving
from core.lifecycle.records import ClaimPhase
from core.model.snapshot import Snapshot
from core.reasons.code import TerminationReason
from lambdas.controllers.sweeps.sweep import ClaimTerminator, ReconcileRound, Seen
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.fakes.world import FakeClock
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend
from tests.unit.lifecycle.records_for_tests import a_command, a_record

# A sweep ends a claim by its current row, within brakes and budgets.


EXPIRED, GONE, EMPTY = TerminationReason.EXPIRED, TerminationReason.INSTANCE_GONE, TerminationReason.EMPTY


@pytest.fixture
def lab() -> Lab:
    found = a_working_node()
    found.work.take()
    return found


def terminator(lab: Lab) -> ClaimTerminator:
    claims = lab.app.adapters.stores.claims
    return ClaimTerminator(claims, lab.app.shared.claim_deletion, lab.brakes, lab.work, lab.clock)


def reason(lab: Lab) -> str:
    deletion = lab.claim.deletion
    return deletion.reason if deletion is not None else ""


def asked(lab: Lab) -> list[str]:
    return [message["claim"] for message, _ in lab.work.sent]


def leave(lab: Lab, why: TerminationReason) -> None:
    amend(lab, deletion=leaving(lab.claim, why, "", lab.clock.now(), None).deletion)


def test_a_claim_is_stored_as_leaving_and_its_step_requested(lab: Lab) -> None:
    ends_at = lab.clock.now() + timedelta(minutes=3)
    terminator(lab).begin(lab.claim.name, GONE, "it is gone", RunReport(), ends_at=ends_at)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert (deletion.reason, deletion.message, deletion.ends_at) == (GONE, "it is gone", ends_at)
    assert asked(lab) == [lab.claim.name]


def test_a_claim_that_is_gone_is_no_error(lab: Lab) -> None:
    terminator(lab).begin("gone", GONE, "", RunReport())
    assert terminator(lab).begin_within("gone", EXPIRED, "", dict, RunReport())
    assert asked(lab) == []


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        (EMPTY, GONE, GONE),
        (EMPTY, EXPIRED, EMPTY),
        (GONE, EXPIRED, GONE),
        (GONE, TerminationReason.NODE_POOL_DELETED, GONE),
    ],
)
def test_a_claim_that_leaves_is_ended_for_another_reason_only_if_it_might_have_stayed(
    lab: Lab, before: TerminationReason, now: TerminationReason, after: TerminationReason
) -> None:
    leave(lab, before)
    terminator(lab).begin(lab.claim.name, now, "", RunReport())
    assert reason(lab) == after
    assert asked(lab) == ([lab.claim.name] if before != after else [])


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("why", [EXPIRED, TerminationReason.UNHEALTHY])
def test_one_removal_tries_a_half_open_breaker_where_nothing_else_is_under_way(
    lab: Lab, why: TerminationReason, *, busy: bool
) -> None:
    """Otherwise a NodePool without commands and pending pods never finds out that its nodes join again."""
    lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "half open", node_pool="default"), lab.clock.now())
    if busy:
        other = msgspec.structs.replace(lab.claim, name="other", phase=ClaimPhase.LAUNCHED)
        lab.rows.claims[other.name] = other
    name = lab.claim.name if not busy else next(n for n in lab.rows.claims if n != "other")
    terminator(lab).begin(name, why, "", RunReport())
    assert (lab.rows.claims[name].deletion is not None) == (not busy)


@pytest.mark.parametrize(("kind", "why"), [(BrakeKind.POOL_BREAKER, EXPIRED), (BrakeKind.STOP, GONE)])
@pytest.mark.parametrize(("pool", "goes"), [("default", False), ("other", True)])
def test_a_brake_of_its_pool_keeps_it(
    lab: Lab, kind: BrakeKind, why: TerminationReason, pool: str, *, goes: bool
) -> None:
    lab.brakes.hold(Brake(kind, "a test", node_pool=pool), lab.clock.now())
    report = RunReport()
    terminator(lab).begin(lab.claim.name, why, "", report)
    assert (reason(lab) == why) == goes
    assert ("skip" in {decision.kind for decision in report.decisions}) != goes


@pytest.mark.parametrize(("places", "goes"), [(0, False), (1, True)])
def test_within_budgets_it_goes_where_there_is_a_place(lab: Lab, places: int, *, goes: bool) -> None:
    ends_at = lab.clock.now() + timedelta(minutes=3)
    name, report = lab.claim.name, RunReport()
    goes_now = terminator(lab).begin_within(name, EXPIRED, "old", lambda: {"default": places}, report, ends_at=ends_at)
    assert goes_now == goes
    deletion = lab.claim.deletion
    assert (deletion is not None) == goes
    assert deletion is None or (deletion.message, deletion.ends_at) == ("old", ends_at)
    assert asked(lab) == [name] * goes


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
