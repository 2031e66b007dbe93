"""Claims that were planned together share one message and one run at a time."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.messages import (
    CLAIMS_A_MESSAGE,
    WorkItem,
    deleted_node_claim,
    made_node_claim,
    work_on_claim,
    work_on_claims,
)
from adapters.ports import ConflictError, JsonObject, LostReplyError, TransientError
from core import labels
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    """Three nodes that boot, planned together."""
    found = Lab(bind_pods=False)
    found.kubernetes.put(*(a_pending_pod(name, cpu="3") for name in ("a", "b", "c")))
    found.provision()
    return found


def names(lab: Lab) -> list[str]:
    return [claim.name for claim in lab.claims]


def test_the_claims_of_a_plan_share_one_message(lab: Lab) -> None:
    ((message, delay),) = lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(lab), timedelta(seconds=15))


def test_their_next_message_is_shared_again(lab: Lab) -> None:
    lab.tick(seconds=15)
    ((message, delay),) = lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(lab), timedelta(seconds=1))


@pytest.mark.parametrize("launched_apart", [0.3, 2.2], ids=["within a second", "within seconds"])
def test_claims_launched_one_after_the_other_still_share_a_message(lab: Lab, launched_apart: float) -> None:
    """Each would wait for its own moment, so that the message of fifty claims becomes fifty messages."""
    for number, record in enumerate(lab.claims):
        launched = record.phase_since + timedelta(seconds=number * launched_apart)
        lab.rows.claims[record.name] = msgspec.structs.replace(record, phase_since=launched)
    lab.tick(seconds=15)
    ((message, delay),) = lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(lab), timedelta(seconds=1))


def test_delays_count_in_whole_seconds(lab: Lab) -> None:
    """SQS does not know shorter ones, so that claims with delays of the same second come together anyway."""
    for number, record in enumerate(lab.claims):
        launched = record.phase_since + timedelta(seconds=5.2 + number * 0.3)
        lab.rows.claims[record.name] = msgspec.structs.replace(record, phase_since=launched)
    lab.tick(seconds=14)
    ((message, delay),) = lab.work.sent
    assert (sorted(message["claims"]), delay) == (names(lab), timedelta(seconds=7))


def test_one_run_for_all_of_them_lists_nodes_once(lab: Lab) -> None:
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.tick(seconds=15)
    assert len([call for call in calls if call.startswith("list nodes")]) == 1


def test_a_message_holds_a_limited_number_of_claims(lab: Lab) -> None:
    many = [f"c{number:03}" for number in range(CLAIMS_A_MESSAGE + 1)]
    first, last = work_on_claims(many, lab.clock.now())
    assert (tuple(first["claims"]), last["claim"]) == (tuple(many[:-1]), many[-1])


def test_a_claim_whose_call_fails_continues_alone(lab: Lab) -> None:
    """Its failures slow down its own next runs, and not those of the others."""
    lab.boot()
    (node, *_) = lab.kubernetes.names(kinds.NODES)
    failing = next(claim.name for claim in lab.claims if claim.instance_id == node)
    failures = [TransientError("kube:patch nodes", "500")]

    def fail(call: str) -> None:
        if call == "patch nodes" and failures:
            raise failures.pop()

    lab.kubernetes.before_call = fail
    lab.clock.advance(seconds=15)
    report = lab.execute()
    assert report.failed_messages == []
    alone = [(message["claim"], message["failures"]) for message, _ in lab.work.sent if message.get("failures")]
    assert alone == [(failing, 1)]
    assert sorted(claim.phase for claim in lab.claims).count(ClaimPhase.INITIALIZED) == 2


def test_a_claim_that_continues_alone_is_still_one_whose_node_claim_was_deleted(lab: Lab) -> None:
    """Otherwise, a single failure leaves a node that somebody has deleted."""
    claim = names(lab)[0]
    lab.work.take()
    for written in (deleted_node_claim, made_node_claim):
        lab.kubernetes.before_call = _fails
        report = lab.execute(written(claim, lab.clock.now()))
        lab.kubernetes.before_call = lambda _: None
        assert report.failed_messages == []
        ((message, _),) = lab.work.sent
        said = message.get("is_deleted", False), message.get("is_made", False)
        assert said == (written is deleted_node_claim, written is made_node_claim)
        lab.work.take()


def _fails(_: str) -> None:
    raise TransientError("kube:get nodeclaims", "500")


def test_a_claim_that_raises_is_delivered_again_without_the_others(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise, one defect takes a whole plan to the dead-letter queue."""
    broken = names(lab)[1]
    advance = lab.app.shared.claim_work.advance

    def fail(name: str, *rest: object, **more: object) -> object:
        if name == broken:
            raise ValueError("a defect")
        return advance(name, *rest, **more)  # type: ignore[arg-type]  # as given

    lab.app.shared.claim_work.advance = fail  # type: ignore[method-assign, assignment]  # breaks one claim
    report = lab.tick(seconds=15)[0]
    assert report.failed_messages == []
    assert [(logged.message, logged.__dict__["claim"]) for logged in caplog.records] == [("claim failed", broken)]
    (alone,) = [message for message, _ in lab.work.sent if message.get("claim") == broken]
    lab.work.take()
    assert lab.execute(alone).failed_messages == ["0"]


def test_a_claim_in_two_messages_is_handled_once(lab: Lab) -> None:
    (joined,) = lab.work.take()
    longer = work_on_claim(names(lab)[0], lab.clock.now() + timedelta(minutes=1))
    lab.clock.advance(seconds=15)
    lab.execute(joined, longer)
    asked = sorted(name for message, _ in lab.work.sent for name in (message.get("claims") or [message["claim"]]))
    assert asked == names(lab)


def test_a_message_with_a_hanging_claim_goes_back_to_the_queue(lab: Lab) -> None:
    lab.app.execution._run_tasks = lambda tasks, _: tuple(number > 0 for number in range(len(tasks)))
    lab.clock.advance(seconds=15)
    assert lab.execute().failed_messages == ["0"]


def test_a_node_that_changes_meanwhile_is_patched_again_at_once(lab: Lab) -> None:
    """The cloud controller and the kubelet write to a new node all the time; waiting a second delays its pods."""
    lab.boot()
    left = {"patch nodes": 2}

    def conflict(call: str) -> None:
        if left.get(call):
            left[call] -= 1
            raise ConflictError("kube:patch nodes", "the object has been modified")

    lab.kubernetes.before_call = conflict
    lab.clock.advance(seconds=15)
    report = lab.execute()
    assert report.counts["patchedAgain"] == 2
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.INITIALIZED}


def test_next_checks_that_the_queue_refuses_have_the_message_delivered_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, a node that boots waits for the next sweep."""

    def refuse(*_: object, **__: object) -> None:
        raise TransientError("sqs:SendMessage", "503")

    (message,) = lab.work.take()
    monkeypatch.setattr(lab.work, "send", refuse)
    assert lab.execute(message).failed_messages == ["0"]
    (logged,) = caplog.records
    assert (logged.message, sorted(logged.__dict__["claims"])) == ("next checks could not be requested", names(lab))


def test_an_item_names_its_claims() -> None:
    assert WorkItem(claim="a").claim_names == ("a",)
    assert WorkItem(claims=("a", "b")).claim_names == ("a", "b")
    assert WorkItem(command="x").claim_names == ()


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
