"""One batch of the work queue: handled concurrently, within the invocation's time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Barrier, Event
from typing import Any

import msgspec
import pytest

from adapters.messages import (
    CLAIMS_A_MESSAGE,
    HOPS_MAX,
    InstanceNotice,
    WorkItem,
    check_command,
    deleted_node_claim,
    made_node_claim,
    notice_of_instance,
    work_on_claim,
    work_on_claims,
    work_on_command,
)
from adapters.ports import (
    ConflictError,
    DeniedError,
    JsonObject,
    LostReplyError,
    NotFoundError,
    PortError,
    ThrottledError,
    TransientError,
)
from adapters.run_report import RunReport
from adapters.runtime import Task, in_threads, in_turn
from core import labels
from core.lifecycle.binding import SETTLES_WITHIN
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import resources
from core.reasons.code import TerminationReason
from installation.metric_names import CHAINS_CUT
from installation.wiring import BY_NAME, WORK
from lambdas.controllers.binding import NEXT_TURN
from lambdas.controllers.execution import (
    AFTER_FAULT,
    ANSWER_WITHIN,
    BEGIN_WITHIN,
    HAND_BACK_AFTER,
    ClaimChecks,
    NextChecks,
    retry_after,
)
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod

# One check of a claim: what its message reports is acted on first, then the claim takes its next steps.


REPORT, READER = RunReport(), object()
NOTICE: Any = object()
SOON = timedelta(seconds=3)


class Asked:
    """Notes what a part is asked in one list of all parts: their order counts."""

    def __init__(self, calls: list[tuple[Any, ...]], name: str) -> None:
        self.calls = calls
        self.name = name

    def act(self, notice: Any, report: RunReport) -> None:
        assert report is REPORT
        self.calls.append(("notice", notice))

    def check(self, name: str, report: RunReport) -> timedelta:
        assert report is REPORT
        self.calls.append((self.name, name))
        return SOON

    def advance(self, name: str, reader: Any, report: RunReport, **options: Any) -> timedelta:
        assert (reader, report) == (READER, REPORT)
        self.calls.append(("advance", name, options))
        return SOON


def checks() -> tuple[ClaimChecks, list[tuple[Any, ...]]]:
    calls: list[tuple[Any, ...]] = []
    parts: Any = {name: Asked(calls, name) for name in ("claim_work", "deleted", "hand_made", "notices")}
    return ClaimChecks(**parts), calls


@pytest.mark.parametrize(
    ("item", "is_checked"),
    [
        (WorkItem(claim="c"), False),
        (WorkItem(claim="c", is_made=True), True),
        (WorkItem(claim="c", is_deleted=True), True),
        (WorkItem(claim="c", notice=NOTICE), False),
        (WorkItem(claim="c", notice=NOTICE, is_made=True), True),
    ],
)
def test_only_a_node_claim_that_was_made_or_deleted_may_be_a_hand_made_one(item: WorkItem, is_checked: bool) -> None:
    """And what EC2 says of the instance is acted on before it."""
    checked, calls = checks()
    assert checked.take_on(item, "c", REPORT) == (SOON if is_checked else None)
    notices = [("notice", NOTICE)] if item.notice is NOTICE else []
    assert calls == [*notices, *([("hand_made", "c")] if is_checked else [])]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_deletion_is_handled_before_the_next_step(is_deleted: bool) -> None:
    checked, calls = checks()
    assert checked.take("c", READER, REPORT, WorkItem(claim="c", is_deleted=is_deleted)) == SOON  # type: ignore[arg-type]
    step = ("advance", "c", {"until": None, "is_first": True})
    assert calls == [*([("deleted", "c")] if is_deleted else []), step]


@pytest.mark.parametrize(("due", "is_first"), [(None, True), (NOW, False)])
def test_a_message_that_no_check_asked_for_begins_a_chain(due: Any, is_first: bool) -> None:
    """The first check of a chain gives the instance its name."""
    checked, calls = checks()
    checked.take("c", READER, REPORT, WorkItem(claim="c", until=NOW, due=due))  # type: ignore[arg-type]
    assert calls == [("advance", "c", {"until": NOW, "is_first": is_first})]


# Claims that were planned together share one message and one run at a time.


@pytest.fixture
def claim_group_lab() -> Lab:
    """Three nodes that boot, planned together."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(*(a_pending_pod(name, cpu="3") for name in ("a", "b", "c")))
    lab.provision()
    return lab


def names(lab: Lab) -> list[str]:
    return [claim.name for claim in lab.claims]


def test_the_claims_of_a_plan_share_one_message(claim_group_lab: Lab) -> None:
    ((message, delay),) = claim_group_lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(claim_group_lab), timedelta(seconds=15))


def test_their_next_message_is_shared_again(claim_group_lab: Lab) -> None:
    claim_group_lab.tick(seconds=15)
    ((message, delay),) = claim_group_lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(claim_group_lab), timedelta(seconds=1))


def test_each_message_counts_those_before_it(claim_group_lab: Lab) -> None:
    claim_group_lab.tick(seconds=15)
    claim_group_lab.tick(seconds=1)
    ((message, _),) = claim_group_lab.work.sent
    assert message["hops"] == 2


@pytest.mark.parametrize(("hops", "follows"), [(HOPS_MAX - 1, True), (HOPS_MAX, False)])
@pytest.mark.parametrize("subject", ["claims", "command"])
def test_a_chain_that_does_not_end_by_itself_is_cut(subject: str, *, hops: int, follows: bool) -> None:
    """If this failed, a chain whose end a defect moves on would never end: Lambda's own bound is off."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(*(a_pending_pod(name, cpu="3") for name in ("a", "b")))
    lab.provision()
    lab.work.sent.clear()
    until = lab.clock.now() + timedelta(minutes=3)
    if subject == "claims":
        item = WorkItem(claims=tuple(claim.name for claim in lab.claims), until=until, hops=hops)
    else:
        lab.app.execution._command_work.advance = lambda *_: timedelta(seconds=1)  # type: ignore[method-assign]
        item = WorkItem(command="c", until=until, hops=hops)
    report, body = RunReport(), msgspec.json.encode(item.to_message()).decode()
    record = {"messageId": "m", "body": body}
    lab.app.execution.run([record], report, deadline=lab.clock.now() + timedelta(minutes=1))
    assert [message["hops"] for message, _ in lab.work.sent] == ([HOPS_MAX] if follows else [])
    assert report.counts.get(CHAINS_CUT, 0) == int(not follows)
    assert report.failed_messages == []


@pytest.mark.parametrize("launched_apart", [0.3, 2.2], ids=["within a second", "within seconds"])
def test_claims_launched_one_after_the_other_still_share_a_message(claim_group_lab: Lab, launched_apart: float) -> None:
    """Each would wait for its own moment, so that the message of fifty claims becomes fifty messages."""
    for number, record in enumerate(claim_group_lab.claims):
        launched = record.phase_since + timedelta(seconds=number * launched_apart)
        claim_group_lab.rows.claims[record.name] = msgspec.structs.replace(record, phase_since=launched)
    claim_group_lab.tick(seconds=15)
    ((message, delay),) = claim_group_lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(claim_group_lab), timedelta(seconds=1))


def test_delays_count_in_whole_seconds(claim_group_lab: Lab) -> None:
    """SQS does not know shorter ones, so that claims with delays of the same second come together anyway."""
    for number, record in enumerate(claim_group_lab.claims):
        launched = record.phase_since + timedelta(seconds=5.2 + number * 0.3)
        claim_group_lab.rows.claims[record.name] = msgspec.structs.replace(record, phase_since=launched)
    claim_group_lab.tick(seconds=14)
    ((message, delay),) = claim_group_lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(claim_group_lab), timedelta(seconds=7))


def test_one_run_for_all_of_them_lists_nodes_once(claim_group_lab: Lab) -> None:
    calls: list[str] = []
    claim_group_lab.kubernetes.before_call = calls.append
    claim_group_lab.tick(seconds=15)
    assert len([call for call in calls if call.startswith("list nodes")]) == 1


def test_a_message_holds_a_limited_number_of_claims(claim_group_lab: Lab) -> None:
    many = [f"c{number:03}" for number in range(CLAIMS_A_MESSAGE + 1)]
    first, last = work_on_claims(many, claim_group_lab.clock.now())
    assert (tuple(first["claims"]), last["claim"]) == (tuple(many[:-1]), many[-1])


def test_a_claim_whose_call_fails_continues_alone(claim_group_lab: Lab) -> None:
    """Its failures slow down its own next runs, and not those of the others."""
    claim_group_lab.boot()
    (node, *_) = claim_group_lab.kubernetes.names(resources.NODES)
    failing = next(claim.name for claim in claim_group_lab.claims if claim.instance_id == node)
    failures = [TransientError("kube:patch nodes", "500")]

    def fail(call: str) -> None:
        if call == "patch nodes" and failures:
            raise failures.pop()

    claim_group_lab.kubernetes.before_call = fail
    claim_group_lab.clock.advance(seconds=15)
    report = claim_group_lab.execute()
    assert report.failed_messages == []
    alone = [
        (message["claim"], message["failures"]) for message, _ in claim_group_lab.work.sent if message.get("failures")
    ]
    assert alone == [(failing, 1)]
    assert sorted(claim.phase for claim in claim_group_lab.claims).count(ClaimPhase.INITIALIZED) == 2


def test_a_claim_that_continues_alone_is_still_one_whose_node_claim_was_deleted(claim_group_lab: Lab) -> None:
    """Otherwise, a single failure leaves a node that somebody has deleted."""
    claim = names(claim_group_lab)[0]
    claim_group_lab.work.take()
    for written in (deleted_node_claim, made_node_claim):
        claim_group_lab.kubernetes.before_call = _fails
        report = claim_group_lab.execute(written(claim, claim_group_lab.clock.now()))
        claim_group_lab.kubernetes.before_call = lambda _: None
        assert report.failed_messages == []
        ((message, _),) = claim_group_lab.work.sent
        marks = message.get("is_deleted", False), message.get("is_made", False)
        assert marks == (written is deleted_node_claim, written is made_node_claim)
        claim_group_lab.work.take()


def _fails(_: str) -> None:
    raise TransientError("kube:get nodeclaims", "500")


def test_a_claim_that_raises_is_delivered_again_without_the_others(
    claim_group_lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, one defect takes a whole plan to the dead-letter queue."""
    broken = names(claim_group_lab)[1]
    advance = claim_group_lab.app.shared.claim_work.advance

    def fail(name: str, *rest: object, **more: object) -> object:
        if name == broken:
            raise ValueError("a defect")
        return advance(name, *rest, **more)  # type: ignore[arg-type]  # as given

    claim_group_lab.app.shared.claim_work.advance = fail  # type: ignore[method-assign, assignment]  # breaks one claim
    report = claim_group_lab.tick(seconds=15)[0]
    assert report.failed_messages == []
    assert [(logged.message, logged.__dict__["claim"]) for logged in caplog.records] == [("claim failed", broken)]
    (alone,) = [message for message, _ in claim_group_lab.work.sent if message.get("claim") == broken]
    claim_group_lab.work.take()
    assert claim_group_lab.execute(alone).failed_messages == ["0"]


def test_a_claim_in_two_messages_is_handled_once(claim_group_lab: Lab) -> None:
    (joined,) = claim_group_lab.work.take()
    longer = work_on_claim(names(claim_group_lab)[0], claim_group_lab.clock.now() + timedelta(minutes=1))
    claim_group_lab.clock.advance(seconds=15)
    claim_group_lab.execute(joined, longer)
    requested = sorted(
        name for message, _ in claim_group_lab.work.sent for name in (message.get("claims") or [message["claim"]])
    )
    assert requested == names(claim_group_lab)


def test_a_message_with_a_hanging_claim_goes_back_to_the_queue(claim_group_lab: Lab) -> None:
    claim_group_lab.app.execution._run_tasks = lambda tasks, _: tuple(number > 0 for number in range(len(tasks)))
    claim_group_lab.clock.advance(seconds=15)
    assert claim_group_lab.execute().failed_messages == ["0"]


def test_a_node_that_changes_meanwhile_is_patched_again_at_once(claim_group_lab: Lab) -> None:
    """The cloud controller and the kubelet write to a new node all the time; waiting a second delays its pods."""
    claim_group_lab.boot()
    remaining = {"patch nodes": 2}

    def conflict(call: str) -> None:
        if remaining.get(call):
            remaining[call] -= 1
            raise ConflictError("kube:patch nodes", "the object has been modified")

    claim_group_lab.kubernetes.before_call = conflict
    claim_group_lab.clock.advance(seconds=15)
    report = claim_group_lab.execute()
    assert report.counts["patchedAgain"] == 2
    assert {claim.phase for claim in claim_group_lab.claims} == {ClaimPhase.INITIALIZED}


def test_next_checks_that_the_queue_refuses_have_the_message_delivered_again(
    claim_group_lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, a node that boots waits for the next sweep."""

    def refuse(*_: object, **__: object) -> None:
        raise TransientError("sqs:SendMessage", "503")

    (message,) = claim_group_lab.work.take()
    monkeypatch.setattr(claim_group_lab.work, "send", refuse)
    assert claim_group_lab.execute(message).failed_messages == ["0"]
    (logged,) = caplog.records
    assert (logged.message, sorted(logged.__dict__["claims"])) == (
        "next checks could not be requested",
        names(claim_group_lab),
    )


def lose(call: str) -> None:
    """EC2's answer is lost, so claims stay as they were stored."""
    if call == "launch":
        raise LostReplyError("ec2:CreateFleet", "timed out")


def a_spread_pod(name: str) -> JsonObject:
    """A pod whose spread allows a skew of one between zones."""
    rule = {
        "topologyKey": labels.ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return a_pending_pod(name, metadata={"labels": {"app": "spread"}}, topologySpreadConstraints=[rule])


def test_pods_of_a_claim_in_flight_count_in_its_zone() -> None:
    """Two plans that ignore each other would need a skew that no order of binding can reach."""
    lab = Lab()
    lab.cloud.before_call = lose
    for name in ("a", "b", "c"):
        lab.kubernetes.put(a_spread_pod(name))
        lab.provision()
    zones = {offering.zone for claim in lab.claims for offering in claim.offerings}
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.REQUESTED] * 3
    assert zones == {"us-east-1a", "us-east-1b", "us-east-1c"}


def test_a_claim_that_is_not_launched_yet_has_no_room_for_others() -> None:
    """Its type is unknown: room that seems free may not exist."""
    lab = Lab()
    lab.cloud.before_call = lose
    for name in ("a", "b"):
        lab.kubernetes.put(a_pending_pod(name, cpu="100m"))
        lab.provision()
    assert sorted(claim.plan.pods for claim in lab.claims) == [("default/a",), ("default/b",)]


@pytest.fixture
def lab() -> Lab:
    """Three nodes whose spot capacity is reclaimed."""
    lab = Lab()
    for name in ("a", "b", "c"):
        lab.kubernetes.put(a_pending_pod(name, cpu="3"))
    lab.settle()
    for claim in lab.claims:
        event = {
            "source": "aws.ec2",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "detail": {"instance-id": claim.instance_id},
        }
        lab.app.interruptions.run(event, RunReport())
    return lab


def deliver(lab: Lab, *, remaining: timedelta) -> RunReport:
    report = RunReport()
    records = [
        {"messageId": str(i), "body": msgspec.json.encode(message).decode()}
        for i, message in enumerate(lab.work.take())
    ]
    lab.app.execution.run(records, report, deadline=lab.clock.now() + remaining)
    return report


def test_messages_without_time_left_are_delivered_again_soon(lab: Lab) -> None:
    """A function that is killed half-way hides its whole batch; a spot notice leaves two minutes."""
    lab.kubernetes.before_call = lambda _: lab.clock.advance(seconds=5)
    report = deliver(lab, remaining=timedelta(seconds=40))
    handed_back = [message for message, delay in lab.work.sent if delay == timedelta(seconds=1)]
    assert report.counts["handedBack"] == len(handed_back) == 2
    assert report.failed_messages == []
    lab.kubernetes.before_call = lambda _: None
    assert "handedBack" not in deliver(lab, remaining=timedelta(minutes=1)).counts


def test_every_message_is_started_by_an_invocation_with_all_its_time() -> None:
    """Otherwise, a message is redelivered forever."""
    assert BY_NAME["execute"].timeout > BEGIN_WITHIN


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


def test_what_is_left_of_the_time_bounds_the_batch(lab: Lab) -> None:
    """The answer to SQS takes a moment of its own; without one, a batch that is cut off is delivered again as a whole."""
    patiences: list[timedelta] = []

    def note(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        patiences.append(patience)
        return in_turn(tasks, patience)

    lab.app.execution._run_tasks = note
    deliver(lab, remaining=timedelta(minutes=1))
    deliver(lab, remaining=ANSWER_WITHIN - timedelta(seconds=1))
    assert patiences == [timedelta(minutes=1) - ANSWER_WITHIN, timedelta(0)]


def test_a_command_that_did_not_end_goes_back_and_claims_do_not(lab: Lab) -> None:
    """Commands are the last task of a batch."""
    claims = lab.work.take()
    lab.work.send([*claims, {"command": "x", "until": (lab.clock.now() + timedelta(minutes=5)).isoformat()}])
    lab.app.execution._run_tasks = lambda tasks, _: tuple(number < len(tasks) - 1 for number in range(len(tasks)))
    report = deliver(lab, remaining=timedelta(minutes=1))
    assert report.failed_messages == [str(len(claims))]


class TestACommand:
    """Its message is answered by when it is to be checked again."""

    def deliver(
        self, *, until: timedelta | None = timedelta(minutes=5), remaining: timedelta = timedelta(minutes=1)
    ) -> RunReport:
        message = {"command": "x"}
        if until is not None:
            message["until"] = (self.lab.clock.now() + until).isoformat()
        self.lab.work.take()
        self.lab.work.send([message])
        return deliver(self.lab, remaining=remaining)

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
        report = self.deliver(remaining=BEGIN_WITHIN - timedelta(seconds=1))
        assert (report.counts["handedBack"], self.sent()) == (1, [("x", 0, HAND_BACK_AFTER)])
        assert "handedBack" not in self.deliver(remaining=BEGIN_WITHIN).counts


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
        return bool(lab.kubernetes.raw(resources.PODS, "a", "default")["spec"].get("nodeName"))

    @pytest.mark.parametrize(
        ("late", "binds", "delay"), [(0, True, NEXT_TURN), (1, False, HAND_BACK_AFTER)], ids=["in time", "too late"]
    )
    def test_begins_with_time_enough(self, lab: Lab, *, late: int, binds: bool, delay: timedelta) -> None:
        """The checks before it take their time."""

        def take_time(_: str) -> None:
            lab.kubernetes.before_call = lambda _: None
            lab.clock.advance(seconds=5 + late)

        lab.kubernetes.before_call = take_time
        deliver(lab, remaining=BEGIN_WITHIN + timedelta(seconds=5))
        assert self.is_bound(lab) is binds
        assert [sent for _, sent in lab.work.sent] == [delay]

    @pytest.mark.parametrize(("ends_apart", "messages"), [(0, 1), (1, 2)], ids=["one plan", "two plans"])
    def test_is_followed_by_one_message_for_the_claims_of_a_plan(self, ends_apart: int, messages: int) -> None:
        """Claims leave their common message as their nodes join; each alone would cost a share of an invocation a second."""
        lab, names = self.two_nodes(ends_apart)
        deliver(lab, remaining=timedelta(minutes=1))
        requested = [message.get("claims") or (message["claim"],) for message, _ in lab.work.sent]
        assert (len(requested), sorted(name for some in requested for name in some)) == (messages, names)

    def test_whose_next_checks_cannot_be_requested_has_all_its_messages_delivered_again(self) -> None:
        lab, _ = self.two_nodes(0)

        def fail(*_: object, **__: object) -> None:
            raise TransientError("sqs:SendMessageBatch", "503")

        lab.work.send, send = fail, lab.work.send  # type: ignore[method-assign]  # breaks the queue
        report = deliver(lab, remaining=timedelta(minutes=1))
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
        deliver(lab, remaining=timedelta(minutes=1))
        assert (self.is_bound(lab), sent_before) == (True, [1])

    def test_that_fails_is_repeated_later(self, lab: Lab) -> None:
        def fail(call: str) -> None:
            if call == "count pods":
                raise TransientError("kube:list pods", "503")

        lab.kubernetes.before_call = fail
        report = deliver(lab, remaining=timedelta(minutes=1))
        assert [sent for _, sent in lab.work.sent] == [AFTER_FAULT]
        assert (report.counts["portErrors"], report.failed_messages) == (1, [])
        assert [(decision.kind, decision.subject, decision.reason) for decision in report.decisions] == [
            ("skip", lab.claim.name, "TransientError")
        ]

    def test_is_none_of_a_batch_that_does_not_end(self, lab: Lab) -> None:
        """Its message comes again, and with it the turn."""
        run = lab.app.execution._run_tasks
        lab.app.execution._run_tasks = lambda tasks, patience: tuple(False for _ in run(tasks, patience))
        report = deliver(lab, remaining=timedelta(minutes=1))
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
    report = deliver(lab, remaining=timedelta(minutes=1))
    assert (handled, report.counts["messages"]) == (["x", "y"], 5)
    assert lab.work.sent == [({**of_x[1], "hops": 1}, later), ({**of_y, "hops": 1}, later)]


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
    report = deliver(lab, remaining=timedelta(minutes=1))
    assert report.failed_messages == []
    requested = [
        (name, datetime.fromisoformat(sent["until"]))
        for sent, _ in lab.work.sent
        for name in sent.get("claims") or (sent["claim"],)
    ]
    assert sorted(requested) == [(both[0], long), (both[1], short)]


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


@pytest.mark.parametrize("counted", ["x", "-1", "9" * 50, "", None, 7])
def test_a_number_of_deliveries_that_is_none_counts_as_one(lab: Lab, counted: object) -> None:
    records = [
        {"messageId": "m", "body": written(message), "attributes": {"ApproximateReceiveCount": counted}}
        for message in lab.work.take()
    ]
    lab.app.execution.run(records, RunReport(), deadline=lab.clock.now() + timedelta(minutes=1))
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
    task_counts: list[int] = []

    def noted(pieces: Sequence[Task], remaining: timedelta) -> tuple[bool, ...]:
        task_counts.append(len(pieces))
        return in_turn(pieces, remaining)

    lab.app.execution._run_tasks = noted
    lab.execute(*lab.work.take(), *(check_command(f"command-{number}") for number in range(commands)))
    assert task_counts == [tasks]


# A series of runs for one claim: each costs an invocation a second while a node boots, and one is enough.


SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def next_checks_lab() -> Lab:
    """A node that boots."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(a_pending_pod("a", cpu="3"))
    lab.provision()
    lab.work.take()
    return lab


def test_the_longer_request_counts(next_checks_lab: Lab) -> None:
    """Otherwise, the runs end with the message that ends first."""
    (claim,) = next_checks_lab.claims
    next_checks_lab.execute(work_on_claim(claim.name, next_checks_lab.clock.now(), checked_for=MINUTE))
    next_checks_lab.work.take()
    next_checks_lab.clock.advance(milliseconds=200)
    next_checks_lab.execute(work_on_claim(claim.name, next_checks_lab.clock.now(), checked_for=2 * MINUTE))
    assert len(next_checks_lab.work.take()) == 1


def test_each_run_requests_the_next_one_if_its_message_comes_early(next_checks_lab: Lab) -> None:
    """Otherwise, a series takes its own message for another's, and the claim is not observed any more."""
    (claim,) = next_checks_lab.claims
    next_checks_lab.execute(work_on_claim(claim.name, next_checks_lab.clock.now()))
    for _ in range(5):
        next_checks_lab.clock.advance(milliseconds=100)
        next_checks_lab.execute()
        assert len(next_checks_lab.work.sent) == 1


def test_of_two_series_in_different_sandboxes_the_later_one_goes_on(next_checks_lab: Lab) -> None:
    """Otherwise, each death of `execute` adds a series until the node has joined: a sandbox remembers only its own."""
    (claim,) = next_checks_lab.claims
    earlier = work_on_claim(claim.name, next_checks_lab.clock.now())
    next_checks_lab.clock.advance(seconds=1)
    later = work_on_claim(claim.name, next_checks_lab.clock.now())
    next_checks_lab.execute(earlier)
    (next_of_earlier,) = next_checks_lab.work.take()
    next_checks_lab.restart()
    next_checks_lab.execute(later)
    (next_of_later,) = next_checks_lab.work.take()
    next_checks_lab.clock.advance(seconds=1)
    for message, goes_on in ((next_of_earlier, False), (next_of_later, True)):
        next_checks_lab.restart()
        next_checks_lab.execute(message)
        assert bool(next_checks_lab.work.take()) is goes_on


def test_a_redelivered_message_replaces_the_series_that_its_first_delivery_began(next_checks_lab: Lab) -> None:
    """Otherwise, a function that dies after it requested the next run leaves two series that end at the same time."""
    (claim,) = next_checks_lab.claims
    message = work_on_claim(claim.name, next_checks_lab.clock.now())
    next_checks_lab.execute(message)
    (first,) = next_checks_lab.work.take()
    next_checks_lab.restart()
    next_checks_lab.execute(message, deliveries=2)
    (second,) = next_checks_lab.work.take()
    for delivered, goes_on in ((first, False), (second, True)):
        next_checks_lab.restart()
        next_checks_lab.execute(delivered)
        assert bool(next_checks_lab.work.take()) is goes_on


def test_a_series_is_stored_once(next_checks_lab: Lab) -> None:
    """Otherwise, each run writes the claim's row."""
    next_checks_lab.execute(work_on_claim(next_checks_lab.claim.name, next_checks_lab.clock.now()))
    version = next_checks_lab.claim.version
    for _ in range(3):
        next_checks_lab.clock.advance(seconds=1)
        next_checks_lab.execute()
    assert next_checks_lab.claim.version == version


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


# How long a failed step waits.


CALL = "kube:patch nodes"


@pytest.mark.parametrize(
    ("error", "delays"),
    [
        (ConflictError(CALL, "changed"), [1, 2, 4, 8, 16, 30]),
        (TransientError(CALL, "503"), [5, 10, 20, 30]),
        (NotFoundError(CALL, "gone"), [5, 10, 20, 30]),
        (ThrottledError(CALL, "429"), [5, 10, 20, 30]),
        (ThrottledError(CALL, "429", timedelta(seconds=40)), [40, 40]),
        (ThrottledError(CALL, "429", timedelta(seconds=2)), [5, 5]),
        (DeniedError(CALL, "forbidden"), [60, 60]),
    ],
)
def test_the_delay_doubles_up_to_half_a_minute(error: PortError, delays: list[int]) -> None:
    """A spot notice is two minutes; what another writer changed is read again at once; a person resolves a denial."""
    seconds = [retry_after(error, failures).total_seconds() for failures in range(len(delays))]
    assert seconds == delays


def test_a_thousand_failures_wait_no_longer() -> None:
    assert retry_after(ConflictError(CALL, "changed"), 1000) == timedelta(seconds=30)
