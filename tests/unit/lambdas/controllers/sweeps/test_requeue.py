"""Claims and commands that stand still get another message."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.messages import LAUNCHES_A_MESSAGE, work_on_claim, work_on_command
from core.lifecycle.records import ClaimPhase
from lambdas.controllers.sweeps.requeue import COMMAND_CHECKED_FOR, STALLED_AFTER
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, sweep
from tests.unit.lifecycle.records_for_tests import a_command, a_leaving, a_record

NAME = "stalled"
JUST_BEFORE = STALLED_AFTER - timedelta(seconds=1)


def resumed(lab: Lab) -> int:
    report = sweep(lab, NAME)
    return report.counts.get("resumed", -1)


@pytest.mark.parametrize(("age", "number"), [(JUST_BEFORE, 0), (STALLED_AFTER, 1)])
def test_a_claim_in_the_midst_of_something_is_resumed_after_a_minute(age: timedelta, number: int) -> None:
    lab = Lab()
    lab.rows.claims["c"] = a_record(ClaimPhase.LAUNCHED, age=age)
    assert resumed(lab) == number
    assert [message for message, _ in lab.work.sent] == [work_on_claim("c", lab.clock.now())] * number


@pytest.mark.parametrize(("ahead", "number"), [(JUST_BEFORE, 0), (timedelta(hours=9), 1)])
def test_what_a_wrong_clock_wrote_is_resumed_too(ahead: timedelta, number: int) -> None:
    """If this failed, a claim whose message was lost would stand still until that moment."""
    lab = Lab()
    lab.rows.claims["c"] = a_record(ClaimPhase.LAUNCHED, age=-ahead)
    assert resumed(lab) == number


def test_claims_that_stand_still_together_share_a_message() -> None:
    """A burst takes longer than a minute on a slow control plane: one message for each claim would keep it slow."""
    lab, names = Lab(), [f"c{number:02}" for number in range(LAUNCHES_A_MESSAGE + 2)]
    for name in names:
        lab.rows.claims[name] = msgspec.structs.replace(a_record(ClaimPhase.LAUNCHED, age=STALLED_AFTER), name=name)
    assert resumed(lab) == len(names)
    assert [len(message["claims"]) for message, _ in lab.work.sent] == [LAUNCHES_A_MESSAGE, 2]


def test_a_claim_that_works_is_left_alone() -> None:
    lab = Lab()
    lab.rows.claims["c"] = a_record(age=timedelta(days=1))
    assert (resumed(lab), lab.work.sent) == (0, [])


@pytest.mark.parametrize(("ago", "number"), [(JUST_BEFORE, 0), (STALLED_AFTER, 1)])
def test_of_a_leaving_claim_its_removal_counts(ago: timedelta, number: int) -> None:
    """Its phase may be days old; its message was sent when the removal began."""
    lab = Lab()
    leaving = a_leaving(asked_at=lab.clock.now() - ago)
    lab.rows.claims["c"] = msgspec.structs.replace(leaving, phase_since=lab.clock.now() - timedelta(days=1))
    assert resumed(lab) == number


@pytest.mark.parametrize(("age", "number"), [(JUST_BEFORE, 0), (STALLED_AFTER, 1)])
def test_a_command_is_resumed_for_as_long_as_a_round_lasts(age: timedelta, number: int) -> None:
    lab = Lab()
    lab.rows.commands["x"] = a_command(age=age)
    assert resumed(lab) == number
    message = work_on_command("x", lab.clock.now(), checked_for=COMMAND_CHECKED_FOR)
    assert [message for message, _ in lab.work.sent] == [message] * number


def test_without_rows_none_are_read() -> None:
    """An idle cluster reads its table once a round."""
    lab = Lab()
    round_, calls = a_round(lab), list[str]()
    lab.rows.before_call = calls.append
    assert sweep(lab, NAME, round_).counts == {}
    assert calls == []


def test_a_claim_that_makes_no_progress_gets_another_message(lab: Lab) -> None:
    """Messages get lost."""
    lab.kubernetes.put(a_pending_pod("q", cpu="3500m"))
    lab.clock.advance(seconds=5)
    lab.provision()
    lab.work.take()
    lab.clock.advance(minutes=1)
    lab.reconcile()
    (standing,) = [claim for claim in lab.claims if claim.phase is ClaimPhase.LAUNCHED]
    assert [message["claim"] for message, _ in lab.work.sent] == [standing.name]
