"""Messages about claims: handled once, and dropped where their claim is gone. An odd message loses itself only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from adapters.messages import (
    InstanceNotice,
    chain_ends_at,
    check_command,
    deleted_node_claim,
    hops_of,
    made_node_claim,
    notice_of_instance,
    wake_up,
    woken_by,
    work_on_claim,
    work_on_claims,
    work_on_command,
)
from adapters.ports import JsonObject, PortError, TransientError
from adapters.run_report import RunReport
from core import labels
from core.manifests.wire import resources
from core.reasons.code import TerminationReason
from lambdas.controllers.interruption import read_event
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod


def test_a_claim_of_two_messages_that_fails_is_tried_again_once(lab: Lab) -> None:
    """Both messages would go on, each with a series of checks of its own, and each failure would double them."""
    lab.interrupt()
    (message,) = lab.work.take()

    def fail(call: str) -> None:
        raise TransientError(f"kube:{call}", "throttled")

    lab.kubernetes.before_call = fail
    report = lab.execute(message, message)
    assert report.counts["portErrors"] == 1
    assert len(lab.work.sent) == 1


def test_a_message_about_a_deleted_claim_is_dropped(lab: Lab) -> None:
    """Messages come late; claims end."""
    report = lab.execute(work_on_claim("long-gone", lab.clock.now()))
    assert report.failed_messages == []
    assert lab.work.sent == []


def test_a_series_of_runs_ends(lab: Lab) -> None:
    """Otherwise, each slow round adds a series, and the queue fills up."""
    lab.kubernetes.protected = {"default/p"}
    lab.interrupt()
    for _ in range(100):
        lab.tick(seconds=5)
    assert lab.work.sent == []
    lab.reconcile()
    assert [message.get("claim") for message, _ in lab.work.sent] == [lab.claim.name]


# Odd messages and events.


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, -(2**63), 2**63, 10**400, 0.5, 1e308, "", " ", "x" * 5_000, "\x00", "\ud800", "a/../b", "NaN"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00", "2026-13-01"),
    *([], [[]], ["x"], ["x"] * 300, [None], {}, {"": ""}, {"a": {"b": []}}),
)
NOTICE = {"instance_id": "i-1", "reason": "SpotInterrupted", "ends_at": "2026-11-20T00:00:00Z"}
WORK: dict[str, Any] = {
    "claim": "gone",
    "until": "2026-11-20T00:03:00Z",
    "failures": 1,
    "is_deleted": True,
    "is_made": True,
    "due": "2026-11-20T00:00:00Z",
    "notice": NOTICE,
    "hops": 1,
}
WAKE_UP: dict[str, Any] = {"wakeUp": "x", "until": "2026-11-20T00:01:00Z", "hops": 3, "look": True}
WARNING: dict[str, Any] = {
    "source": "aws.ec2",
    "detail-type": "EC2 Spot Instance Interruption Warning",
    "time": "2026-11-20T00:00:00Z",
    "detail": {"instance-id": "i-1", "instance-action": "terminate"},
}
RETIREMENT: dict[str, Any] = {
    "source": "aws.health",
    "detail-type": "AWS Health Event",
    "time": "2026-11-20T00:00:00Z",
    "detail": {
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "statusCode": "upcoming",
        "startTime": "Fri, 20 Nov 2026 00:00:00 GMT",
        "affectedEntities": [{"entityValue": "i-1", "status": "IMPAIRED"}],
    },
}


def odd_forms(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the message with each of its fields replaced by each odd value, and without it."""
    for field, value in plain.items():
        yield {key: kept for key, kept in plain.items() if key != field}
        yield from ({**plain, field: odd} for odd in ODD_VALUES)
        if isinstance(value, dict):
            yield from ({**plain, field: inner} for inner in odd_forms(value))
        if isinstance(value, list):
            yield from ({**plain, field: [inner, *value]} for inner in odd_forms(value[0]))


def body_of(message: Any) -> str:
    return json.dumps(message)


@pytest.mark.parametrize("field", sorted(WORK))
def test_an_odd_work_message_costs_itself_only(field: str) -> None:
    """One whose chain ends in year 9999 was counted on when it came a second time, and lost its batch."""
    lab = Lab()
    others = {key: value for key, value in WORK.items() if key != field}
    forms = [{**others, **form} for form in odd_forms({field: WORK[field]})]
    forms += [{"command": "gone", **form} for form in forms if "claim" not in form]
    records = [
        {"messageId": f"odd-{n}", "body": body_of(form), "attributes": {"ApproximateReceiveCount": "9"}}
        for n, form in enumerate(forms)
    ]
    plain = {"messageId": "plain", "body": body_of(work_on_claim("other", lab.clock.now()))}
    report = RunReport()
    lab.app.execution.run([*records, plain], report, deadline=lab.clock.now() + timedelta(minutes=1))
    assert report.counts["messages"] == len(records) + 1
    assert "plain" not in report.failed_messages


@pytest.mark.parametrize(
    "body", ["", "{", "\x00", "\ud800", "[" * 5_000, "7", b"\xff".decode("latin-1"), *map(body_of, odd_forms(WAKE_UP))]
)
def test_an_odd_wake_up_wakes_and_ends_no_batch(body: str) -> None:
    plain = {"body": body_of(WAKE_UP)}
    event = {"Records": [{"body": body}, plain]}
    assert chain_ends_at(event, NOW) >= NOW
    assert hops_of(event) >= 0
    assert woken_by(event)


@pytest.mark.parametrize("plain", [WARNING, RETIREMENT])
def test_an_odd_event_raises_nothing_that_would_deliver_it_again_for_ever(plain: dict[str, Any]) -> None:
    lab = Lab()
    for event in odd_forms(plain):
        read_event(event)
        report = RunReport()
        with suppress(PortError):
            lab.app.interruptions.run(event, report)
    for odd in ODD_VALUES:
        assert read_event(odd) is None


# Each message may come twice, in another order, or again hours later: the world ends in the same state.


def _outcome(lab: Lab) -> dict[str, Any]:
    """All that a message may change: claims, commands, instances, nodes and their taints, NodeClaims, pods."""
    kubernetes, claims = lab.kubernetes, sorted(lab.claims, key=lambda record: record.name)
    nodes = {name: kubernetes.raw(resources.NODES, name)["spec"] for name in kubernetes.names(resources.NODES)}
    return {
        "claims": [(c.plan.node_pool, c.phase, c.deletion and c.deletion.reason) for c in claims],
        "commands": len(lab.rows.commands),
        "instances": sum(instance.is_alive for instance in lab.cloud.instances()),
        "nodes": {name: sorted(taint["key"] for taint in spec.get("taints") or ()) for name, spec in nodes.items()},
        "nodeClaims": len(kubernetes.names(resources.NODE_CLAIMS)),
        "pods": [
            (name, kubernetes.raw(resources.PODS, name, "default")["spec"].get("nodeName")) for name in _pods(lab)
        ],
    }


def _pods(lab: Lab) -> list[str]:
    return sorted(lab.kubernetes.names(resources.PODS))


def _of_claim(lab: Lab) -> list[JsonObject]:
    return [work_on_claim(lab.claim.name, lab.clock.now()), *work_on_claims([lab.claim.name], lab.clock.now())]


def _of_interruption(lab: Lab) -> list[JsonObject]:
    lab.interrupt()
    return list(lab.work.take())


def _of_notice(lab: Lab) -> list[JsonObject]:
    """Of an instance whose row is lost, together with the check of its claim."""
    claim, now = lab.claim, lab.clock.now()
    lab.rows.claims.clear()
    end = now + timedelta(minutes=2)
    notice = InstanceNotice(claim.instance_id, TerminationReason.SPOT_INTERRUPTED, end)
    return [notice_of_instance(claim.name, notice, now), work_on_claim(claim.name, now)]


def _of_command(lab: Lab) -> list[JsonObject]:
    """Of a node that goes as empty."""
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(minutes=5)
    lab.disrupt()
    (command,) = lab.rows.commands
    return [work_on_command(command, lab.clock.now()), check_command(command), *lab.work.take()]


def _of_deleted_node_claim(lab: Lab) -> list[JsonObject]:
    (name,) = lab.kubernetes.names(resources.NODE_CLAIMS)
    lab.kubernetes.amend(resources.NODE_CLAIMS, name, {"metadata": {"deletionTimestamp": NOW.isoformat()}})
    return [deleted_node_claim(name, lab.clock.now()), work_on_claim(name, lab.clock.now())]


def _of_made_node_claim(lab: Lab) -> list[JsonObject]:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    lab.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", {"status": status})
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
    wanted = [{"key": labels.OS, "operator": "In", "values": ["linux"]}]
    spec = {"nodeClassRef": reference, "requirements": wanted, "resources": {"requests": {"cpu": "1"}}}
    lab.kubernetes.put({"kind": "NodeClaim", "metadata": {"name": "mine", "uid": "u-1"}, "spec": spec})
    return [made_node_claim("mine", lab.clock.now()), work_on_claim("mine", lab.clock.now())]


MESSAGES = {
    "claims": _of_claim,
    "an interruption": _of_interruption,
    "a notice": _of_notice,
    "a command": _of_command,
    "a deleted NodeClaim": _of_deleted_node_claim,
    "a NodeClaim made by hand": _of_made_node_claim,
}


def _played(kind: str, *, times: int = 1, reverse: bool = False, again: int = 0) -> dict[str, Any]:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.reconcile()
    lab.work.take()
    messages = MESSAGES[kind](lab) * times
    for message in reversed(messages) if reverse else messages:
        lab.execute(message)
    lab.boot()
    lab.tick(30, seconds=10)
    lab.clock.advance(hours=3)
    for message in messages * again:
        lab.execute(message)
    lab.tick(12, seconds=10)
    return _outcome(lab)


@pytest.mark.parametrize("times", [2, 3])
def test_wake_ups_that_come_again_launch_and_remove_nothing_more(times: int) -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    for _ in range(times):
        lab.provision(wake_up("audit log"))
    lab.boot()
    lab.tick(4)
    lab.bind("p")
    lab.clock.advance(hours=3)
    for _ in range(times):
        lab.provision(wake_up("audit log"))
        lab.disrupt(is_woken=True)
    lab.tick(6, seconds=10)
    assert len(lab.claims) == len(lab.cloud.instances()) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
    ],
)
def test_events_of_ec2_that_come_again_end_in_the_same_state(kind: str) -> None:
    def played(times: int, *, again: int = 0) -> dict[str, Any]:
        lab = Lab()
        lab.kubernetes.put(a_pending_pod("p"))
        lab.settle()
        lab.bind("p")
        detail = {"instance-id": lab.claim.instance_id, "state": "stopping"}
        event = {"source": "aws.ec2", "detail-type": kind, "detail": detail}
        for _ in range(times):
            lab.app.interruptions.run(event, RunReport())
        lab.tick(30, seconds=10)
        lab.clock.advance(hours=3)
        for _ in range(again):
            lab.app.interruptions.run(event, RunReport())
        lab.tick(12, seconds=10)
        return _outcome(lab)

    assert played(3, again=2) == played(2) == played(1)


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages_that_come_doubled_in_another_order_or_hours_later_end_in_the_same_state(kind: str) -> None:
    once = _played(kind)
    assert _played(kind, times=2) == once
    assert _played(kind, reverse=True) == once
    assert _played(kind, times=2, reverse=True, again=2) == once
