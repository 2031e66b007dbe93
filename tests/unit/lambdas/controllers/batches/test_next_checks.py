"""A series of runs for one claim: each costs an invocation a second while a node boots, and one is enough."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from adapters.messages import WorkItem, work_on_claim
from lambdas.controllers.batches import next_checks
from lambdas.controllers.batches.next_checks import NextChecks
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def lab() -> Lab:
    """A node that boots."""
    found = Lab(bind_pods=False)
    found.kubernetes.put(a_pending_pod("a", cpu="3"))
    found.provision()
    found.work.take()
    return found


def test_a_claim_with_two_messages_is_continued_by_one(lab: Lab) -> None:
    """Otherwise, each run that requests a next one adds an invocation a second until the node has joined."""
    (claim,) = lab.claims
    message = work_on_claim(claim.name, lab.clock.now())
    lab.execute(message)
    assert len(lab.work.take()) == 1
    lab.clock.advance(milliseconds=200)
    report = lab.execute(message)
    assert report.failed_messages == []
    assert lab.work.take() == []


def test_the_longer_request_counts(lab: Lab) -> None:
    """Otherwise, the runs end with the message that ends first."""
    (claim,) = lab.claims
    lab.execute(work_on_claim(claim.name, lab.clock.now(), checked_for=MINUTE))
    lab.work.take()
    lab.clock.advance(milliseconds=200)
    lab.execute(work_on_claim(claim.name, lab.clock.now(), checked_for=2 * MINUTE))
    assert len(lab.work.take()) == 1


def test_each_run_requests_the_next_one_if_its_message_comes_early(lab: Lab) -> None:
    """Otherwise, a series takes its own message for another's, and the claim is not observed any more."""
    (claim,) = lab.claims
    lab.execute(work_on_claim(claim.name, lab.clock.now()))
    for _ in range(5):
        lab.clock.advance(milliseconds=100)
        lab.execute()
        assert len(lab.work.sent) == 1


def test_of_two_series_in_different_sandboxes_the_later_one_goes_on(lab: Lab) -> None:
    """Otherwise, each death of `execute` adds a series until the node has joined: a sandbox remembers only its own."""
    (claim,) = lab.claims
    earlier = work_on_claim(claim.name, lab.clock.now())
    lab.clock.advance(seconds=1)
    later = work_on_claim(claim.name, lab.clock.now())
    lab.execute(earlier)
    (next_of_earlier,) = lab.work.take()
    lab.restart()
    lab.execute(later)
    (next_of_later,) = lab.work.take()
    lab.clock.advance(seconds=1)
    for message, goes_on in ((next_of_earlier, False), (next_of_later, True)):
        lab.restart()
        lab.execute(message)
        assert bool(lab.work.take()) is goes_on


def test_a_redelivered_message_replaces_the_series_that_its_first_delivery_began(lab: Lab) -> None:
    """Otherwise, a function that dies after it requested the next run leaves two series that end at the same time."""
    (claim,) = lab.claims
    message = work_on_claim(claim.name, lab.clock.now())
    lab.execute(message)
    (first,) = lab.work.take()
    lab.restart()
    lab.execute(message, deliveries=2)
    (second,) = lab.work.take()
    for found, goes_on in ((first, False), (second, True)):
        lab.restart()
        lab.execute(found)
        assert bool(lab.work.take()) is goes_on


def test_a_series_is_stored_once(lab: Lab) -> None:
    """Otherwise, each run writes the claim's row."""
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    version = lab.claim.version
    for _ in range(3):
        lab.clock.advance(seconds=1)
        lab.execute()
    assert lab.claim.version == version


@pytest.mark.parametrize(
    ("now", "due", "item", "is_asked"),
    [
        (NOW, NOW + SECOND, WorkItem(until=NOW + MINUTE), True),
        (NOW, NOW + SECOND / 2, WorkItem(until=NOW + MINUTE), False),  # sooner than the requested run
        (NOW, NOW + SECOND, WorkItem(until=NOW + 2 * MINUTE), False),
        (NOW + SECOND, NOW + 2 * SECOND, WorkItem(until=NOW + MINUTE), False),  # the requested run is in the past
        (NOW, NOW + 2 * SECOND, WorkItem(until=NOW + MINUTE, due=NOW + SECOND), False),  # is this one
        (NOW, NOW + 2 * SECOND, WorkItem(until=NOW + MINUTE, due=NOW), True),
    ],
)
def test_a_run_leaves_the_rest_to_an_earlier_one_that_lasts_as_long(
    now: datetime, due: datetime, item: WorkItem, is_asked: bool
) -> None:
    checks = NextChecks()
    checks.note("c", NOW, NOW + SECOND, NOW + MINUTE)
    assert checks.is_asked("c", now, due, item) is is_asked
    assert not checks.is_asked("d", now, due, item)


def test_past_runs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_checks, "REMEMBERED", 2)
    checks = NextChecks()
    for number, name in enumerate("abcd"):
        checks.note(name, NOW + number * MINUTE, NOW + number * MINUTE + SECOND, NOW + number * MINUTE + SECOND)
    assert sorted(checks._asked) == ["c", "d"]


DUE, UNTIL = NOW + SECOND, NOW + MINUTE


@pytest.mark.parametrize(
    ("now", "due", "item", "is_asked"),
    [
        (NOW, DUE, WorkItem("a", until=UNTIL), True),
        (NOW, DUE - SECOND / 2, WorkItem("a", until=UNTIL), False),
        (DUE, DUE + SECOND, WorkItem("a", until=UNTIL), False),
        (NOW, DUE, WorkItem("a", until=UNTIL + SECOND), False),
        (NOW, DUE, WorkItem("a", until=UNTIL, due=DUE), False),
        (NOW, DUE, WorkItem("a"), False),
    ],
    ids=["same", "sooner", "past", "lasts longer", "its own", "without end"],
)
def test_a_check_is_left_to_another_message_only_if_that_one_does_all_of_it(
    now: datetime, due: datetime, item: WorkItem, is_asked: bool
) -> None:
    checks = NextChecks()
    checks.note("a", NOW, DUE, UNTIL)
    assert checks.is_asked("a", now, due, item) is is_asked
    assert not checks.is_asked("b", now, due, item)
