"""One batch of the work queue: handled concurrently, within the invocation's time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Barrier, Event

import msgspec
import pytest

from adapters.messages import (
    InstanceNotice,
    WorkItem,
    check_command,
    notice_of_instance,
    work_on_claim,
    work_on_command,
)
from adapters.ports import JsonObject, TransientError
from adapters.run_report import RunReport
from adapters.runtime.parallel_tasks import Task, in_threads, in_turn
from core.lifecycle.binding.eligibility import SETTLES_WITHIN
from core.manifests.wire import api_resources as kinds
from core.reasons.termination import TerminationReason
from installation.wiring import BY_NAME, WORK
from lambdas.controllers.batches.binding.pod_binder import NEXT_TURN
from lambdas.controllers.batches.execution import ANSWER_WITHIN, BEGIN_WITHIN, HAND_BACK_AFTER
from lambdas.controllers.batches.retries import AFTER_FAULT
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


def test_what_is_left_of_the_time_bounds_the_batch(lab: Lab) -> None:
    """The answer to SQS takes a moment of its own; without one, a batch that is cut off is delivered again as a whole."""
    asked: list[timedelta] = []

    def note(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        asked.append(patience)
        return in_turn(tasks, patience)

    lab.app.execution._run_tasks = note
    deliver(lab, left=timedelta(minutes=1))
    deliver(lab, left=ANSWER_WITHIN - timedelta(seconds=1))
    assert asked == [timedelta(minutes=1) - ANSWER_WITHIN, timedelta(0)]


def test_a_command_that_did_not_end_goes_back_and_claims_do_not(lab: Lab) -> None:
    """Commands are the last task of a batch."""
    claims = lab.work.take()
    lab.work.send([*claims, {"command": "x", "until": (lab.clock.now() + timedelta(minutes=5)).isoformat()}])
    lab.app.execution._run_tasks = lambda tasks, _: tuple(number < len(tasks) - 1 for number in range(len(tasks)))
    report = deliver(lab, left=timedelta(minutes=1))
    assert report.failed_messages == [str(len(claims))]


class TestACommand:
    """Its message is answered by when it is to be checked again."""

    def deliver(
        self, *, until: timedelta | None = timedelta(minutes=5), left: timedelta = timedelta(minutes=1)
    ) -> RunReport:
        message = {"command": "x"}
        if until is not None:
            message["until"] = (self.lab.clock.now() + until).isoformat()
        self.lab.work.take()
        self.lab.work.send([message])
        return deliver(self.lab, left=left)

    @pytest.fixture(autouse=True)
    def answer(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        self.found: timedelta | Exception | None = timedelta(seconds=7)

        def advance(*_: object) -> timedelta | None:
            if isinstance(self.found, Exception):
                raise self.found
            return self.found

        monkeypatch.setattr(lab.app.execution._command_work, "advance", advance)

    def sent(self) -> list[tuple[str, int, timedelta]]:
        return [(body["command"], body.get("failures", 0), delay) for body, delay in self.lab.work.sent]

    def test_is_checked_again_after_its_delay(self) -> None:
        self.deliver()
        assert self.sent() == [("x", 0, timedelta(seconds=7))]

    def test_is_checked_again_until_its_chain_ends(self) -> None:
        self.deliver(until=timedelta(seconds=7))
        assert len(self.sent()) == 1
        self.deliver(until=timedelta(seconds=6))
        assert self.sent() == []
        self.deliver(until=None)
        assert self.sent() == []

    def test_is_not_checked_again_once_it_is_done(self) -> None:
        self.found = None
        self.deliver()
        assert self.sent() == []

    def test_that_fails_is_tried_again_later(self) -> None:
        self.found = TransientError("kube:list nodes", "503")
        report = self.deliver()
        assert self.sent() == [("x", 1, timedelta(seconds=5))]
        assert report.counts["portErrors"] == 1
        assert [(decision.kind, decision.subject, decision.reason) for decision in report.decisions] == [
            ("skip", "x", "TransientError")
        ]

    def test_that_fails_for_a_defect_of_ours_is_delivered_again(self) -> None:
        self.found = ValueError("a defect")
        report = self.deliver()
        assert (report.failed_messages, self.sent()) == (["0"], [])

    def test_begins_with_time_enough(self) -> None:
        report = self.deliver(left=BEGIN_WITHIN - timedelta(seconds=1))
        assert (report.counts["handedBack"], self.sent()) == (1, [("x", 0, HAND_BACK_AFTER)])
        assert "handedBack" not in self.deliver(left=BEGIN_WITHIN).counts


class TestATurnOfBinding:
    """It follows the checks of a batch, and serves all nodes that these found ready."""

    @pytest.fixture
    def lab(self) -> Lab:
        """A node whose pod may be bound now."""
        lab = Lab(bind_pods=True)
        lab.kubernetes.put(a_pending_pod("a"))
        lab.provision()
        lab.clock.advance(seconds=15)
        lab.boot()
        lab.tick(seconds=0)
        lab.clock.advance(seconds=SETTLES_WITHIN.total_seconds())
        return lab

    def is_bound(self, lab: Lab) -> bool:
        return bool(lab.kubernetes.raw(kinds.PODS, "a", "default")["spec"].get("nodeName"))

    @pytest.mark.parametrize(
        ("late", "binds", "delay"), [(0, True, NEXT_TURN), (1, False, HAND_BACK_AFTER)], ids=["in time", "too late"]
    )
    def test_begins_with_time_enough(self, lab: Lab, *, late: int, binds: bool, delay: timedelta) -> None:
        """The checks before it take their time."""

        def take_time(_: str) -> None:
            lab.kubernetes.before_call = lambda _: None
            lab.clock.advance(seconds=5 + late)

        lab.kubernetes.before_call = take_time
        deliver(lab, left=BEGIN_WITHIN + timedelta(seconds=5))
        assert self.is_bound(lab) is binds
        assert [sent for _, sent in lab.work.sent] == [delay]

    @pytest.mark.parametrize(("ends_apart", "messages"), [(0, 1), (1, 2)], ids=["one plan", "two plans"])
    def test_is_followed_by_one_message_for_the_claims_of_a_plan(self, ends_apart: int, messages: int) -> None:
        """Claims leave their common message as their nodes join; each alone would cost a share of an invocation a second."""
        lab, names = self.two_nodes(ends_apart)
        deliver(lab, left=timedelta(minutes=1))
        asked = [message.get("claims") or (message["claim"],) for message, _ in lab.work.sent]
        assert (len(asked), sorted(name for some in asked for name in some)) == (messages, names)

    def test_whose_next_checks_cannot_be_requested_has_all_its_messages_delivered_again(self) -> None:
        lab, _ = self.two_nodes(0)

        def fail(*_: object, **__: object) -> None:
            raise TransientError("sqs:SendMessageBatch", "503")

        lab.work.send, send = fail, lab.work.send  # type: ignore[method-assign]  # breaks the queue
        report = deliver(lab, left=timedelta(minutes=1))
        lab.work.send = send  # type: ignore[method-assign]
        assert report.failed_messages == ["0", "1"]

    def two_nodes(self, ends_apart: int) -> tuple[Lab, list[str]]:
        """Two nodes whose pods may be bound now, each in a message of its own; their chains end so many seconds apart."""
        lab = Lab(bind_pods=True)
        lab.kubernetes.put(a_pending_pod("a", cpu="3"), a_pending_pod("b", cpu="3"))
        lab.provision()
        lab.clock.advance(seconds=15)
        lab.boot()
        lab.tick(seconds=0)
        lab.work.take()
        lab.clock.advance(seconds=SETTLES_WITHIN.total_seconds())
        names = [claim.name for claim in lab.claims]
        for number, name in enumerate(names):
            until = lab.clock.now() + timedelta(minutes=3, seconds=number * ends_apart)
            lab.work.send([WorkItem(claim=name, until=until).to_message()])
        return lab, names

    def test_is_followed_by_the_next_before_its_events_are_written(self, lab: Lab) -> None:
        """Five hundred events take seconds, for which pods that wait for the next turn would stand idle."""
        sent_before: list[int] = []

        def note(call: str) -> None:
            if call == "create events":
                sent_before.append(len(lab.work.sent))

        lab.kubernetes.before_call = note
        deliver(lab, left=timedelta(minutes=1))
        assert (self.is_bound(lab), sent_before) == (True, [1])

    def test_that_fails_is_repeated_later(self, lab: Lab) -> None:
        def fail(call: str) -> None:
            if call == "count pods":
                raise TransientError("kube:list pods", "503")

        lab.kubernetes.before_call = fail
        report = deliver(lab, left=timedelta(minutes=1))
        assert [sent for _, sent in lab.work.sent] == [AFTER_FAULT]
        assert (report.counts["portErrors"], report.failed_messages) == (1, [])
        assert [(one.kind, one.subject, one.reason) for one in report.decisions] == [
            ("skip", lab.claim.name, "TransientError")
        ]

    def test_is_none_of_a_batch_that_does_not_end(self, lab: Lab) -> None:
        """Its message comes again, and with it the turn."""
        run = lab.app.execution._run_tasks
        lab.app.execution._run_tasks = lambda tasks, patience: tuple(False for _ in run(tasks, patience))
        report = deliver(lab, left=timedelta(minutes=1))
        assert (self.is_bound(lab), report.failed_messages, lab.work.sent) == (False, ["0"], [])


def test_of_messages_about_one_command_the_one_that_lasts_longest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would begin a series of checks of its own."""
    lab, handled = Lab(), []
    now, later = lab.clock.now(), timedelta(seconds=7)

    def advance(command: str, *_: object) -> timedelta:
        handled.append(command)
        return later

    monkeypatch.setattr(lab.app.execution._command_work, "advance", advance)
    of_x = [work_on_command("x", now, checked_for=timedelta(minutes=minutes)) for minutes in (5, 8, 2)]
    of_y = work_on_command("y", now)
    lab.work.send([check_command("x"), *of_x, of_y])
    report = deliver(lab, left=timedelta(minutes=1))
    assert (handled, report.counts["messages"]) == (["x", "y"], 5)
    assert lab.work.sent == [(of_x[1], later), (of_y, later)]


@pytest.mark.parametrize("later_first", [True, False])
def test_a_claim_that_several_messages_name_is_checked_once_by_the_one_that_lasts_longest(later_first: bool) -> None:
    """Each message would begin a chain of checks of its own, and their number would double with each redelivery."""
    lab = Lab()
    for name in ("a", "b"):
        lab.kubernetes.put(a_pending_pod(name, cpu="3"))
    lab.provision()
    lab.work.take()
    now = lab.clock.now()
    both = sorted(claim.name for claim in lab.claims)
    short, long = (now + timedelta(minutes=minutes) for minutes in (3, 8))
    messages = [WorkItem(claims=tuple(both), until=short), WorkItem(claim=both[0], until=long)]
    lab.work.send([item.to_message() for item in (reversed(messages) if later_first else messages)])
    report = deliver(lab, left=timedelta(minutes=1))
    assert report.failed_messages == []
    asked = [
        (name, datetime.fromisoformat(sent["until"]))
        for sent, _ in lab.work.sent
        for name in sent.get("claims") or (sent["claim"],)
    ]
    assert sorted(asked) == [(both[0], long), (both[1], short)]


def handled(lab: Lab, *bodies: str) -> RunReport:
    report = RunReport()
    records = [{"messageId": f"m{number}", "body": body} for number, body in enumerate(bodies)]
    lab.app.execution.run(records, report, deadline=lab.clock.now() + timedelta(minutes=1))
    return report


def written(message: JsonObject) -> str:
    return msgspec.json.encode(message).decode()


def test_a_message_that_cannot_be_read_fails_alone(lab: Lab) -> None:
    """It goes to the dead letters, and the claims of the others must not wait for it."""
    messages = [written(message) for message in lab.work.take()]
    report = handled(lab, "not JSON", *messages)
    assert report.failed_messages == ["m0"]
    assert report.counts["messages"] == 1 + len(messages)
    assert all(claim.deletion is not None and claim.deletion.tainted_at is not None for claim in lab.claims)


def test_a_notice_comes_before_a_longer_chain_of_checks() -> None:
    """Nothing repeats a notice; `reconcile` repeats checks."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.work.take()
    now, claim = lab.clock.now(), lab.claim
    notice = InstanceNotice(claim.instance_id, TerminationReason.SPOT_INTERRUPTED, now + timedelta(minutes=2))
    checks = work_on_claim(claim.name, now, checked_for=timedelta(minutes=10))
    lab.execute(checks, notice_of_instance(claim.name, notice, now))
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == TerminationReason.SPOT_INTERRUPTED


@pytest.mark.parametrize(("commands", "tasks"), [(0, 3), (1, 4), (2, 4)])
def test_each_claim_is_a_task_and_all_commands_are_one(lab: Lab, commands: int, tasks: int) -> None:
    """A command observes the whole cluster: two at once need the memory of two observations."""
    given: list[int] = []

    def noted(found: Sequence[Task], left: timedelta) -> tuple[bool, ...]:
        given.append(len(found))
        return in_turn(found, left)

    lab.app.execution._run_tasks = noted
    lab.execute(*lab.work.take(), *(check_command(f"command-{number}") for number in range(commands)))
    assert given == [tasks]
