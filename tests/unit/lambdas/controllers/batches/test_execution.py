"""One batch of the work queue: handled concurrently, within the invocation's time."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Event

import msgspec
import pytest

from lambdas.controllers.batches.execution import BEGIN_WITHIN
from lambdas.parallel_tasks import in_threads
from lambdas.run_report import RunReport
from lambdas.wiring import BY_NAME, WORK
from tests.fakes.lab import Lab, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    """Three nodes whose spot capacity is reclaimed."""
    found = Lab()
    for name in ("a", "b", "c"):
        found.kubernetes.put(a_pending_pod(name, cpu="3"))
    found.settle()
    for claim in found.claims:
        event = {
            "source": "aws.ec2",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "detail": {"instance-id": claim.instance_id},
        }
        found.app.interruptions.run(event, RunReport())
    return found


def deliver(lab: Lab, *, left: timedelta) -> RunReport:
    report = RunReport()
    records = [
        {"messageId": str(i), "body": msgspec.json.encode(message).decode()}
        for i, message in enumerate(lab.work.take())
    ]
    lab.app.execution.run(records, report, deadline=lab.clock.now() + left)
    return report


def test_messages_without_time_left_are_delivered_again_soon(lab: Lab) -> None:
    """A function that is killed half-way hides its whole batch; a spot notice leaves two minutes."""
    lab.kubernetes.before_call = lambda _: lab.clock.advance(seconds=5)
    report = deliver(lab, left=timedelta(seconds=40))
    handed_back = [message for message, delay in lab.work.sent if delay == timedelta(seconds=1)]
    assert report.counts["handedBack"] == len(handed_back) == 2
    assert report.failed_messages == []
    lab.kubernetes.before_call = lambda _: None
    assert "handedBack" not in deliver(lab, left=timedelta(minutes=1)).counts


def test_every_message_is_started_by_an_invocation_with_all_its_time() -> None:
    """Otherwise, a message is redelivered forever."""
    assert BY_NAME["execute"].timeout > BEGIN_WITHIN


def test_a_batch_is_visible_again_soon_after_a_time_out() -> None:
    assert BY_NAME["execute"].timeout < WORK.visibility <= timedelta(minutes=2)


def test_a_whole_batch_is_handled_concurrently() -> None:
    """Ten drains that wait for an API server one after the other take ten times as long."""
    all_there = Barrier(WORK.batch_size, timeout=10)

    def wait_for_the_others() -> None:
        all_there.wait()

    ended = in_threads([wait_for_the_others] * WORK.batch_size, timedelta(seconds=10))
    assert ended == (True,) * WORK.batch_size
    assert not all_there.broken


def test_a_hanging_message_does_not_hide_the_others() -> None:
    """One node whose calls never end would delay nine others, batch after batch."""
    never = Event()

    def hang() -> None:
        never.wait(10)

    def end() -> None:
        return

    ended = in_threads([end, hang, end], timedelta(milliseconds=200))
    never.set()
    assert ended == (True, False, True)


def test_an_unfinished_message_goes_back_to_the_queue(lab: Lab) -> None:
    lab.app.execution._run_tasks = lambda tasks, _: tuple(number > 0 for number in range(len(tasks)))
    report = deliver(lab, left=timedelta(minutes=1))
    assert report.failed_messages == ["0"]
    assert report.counts["unfinishedMessages"] == 1
