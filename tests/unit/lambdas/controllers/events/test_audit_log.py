from __future__ import annotations

import base64
import gzip
import json
from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import FunctionQueues
from adapters.run_report import RunReport
from adapters.store import PodEnds
from core.errors import InvalidInputError
from lambdas.controllers.events.audit_log import (
    AuditLog,
    deleted_node_claim_of,
    made_node_claim_of,
    reason_to_wake,
)
from tests.builders import NOW
from tests.fakes.brakes import FakeBrakes
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeQueue

UNSCHEDULABLE = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}


def pod_ends() -> PodEnds:
    return Rows().stores(FakeBrakes(FakeClock(NOW))).pod_ends


def an_entry(verb: str = "patch", resource: str = "pods", part: str = "status", **changes: Any) -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": {"resource": resource, "namespace": "d", "name": "p", "subresource": part},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-20T00:00:00.000000Z",
        **changes,
    }


def a_delivery(*lines: str, kind: str = "DATA_MESSAGE") -> dict[str, Any]:
    payload = {"messageType": kind, "logEvents": [{"id": str(i), "message": line} for i, line in enumerate(lines)]}
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(payload).encode())).decode()}}


def queues(wake_ups: FakeQueue, work: FakeQueue | None = None, looks: FakeQueue | None = None) -> FunctionQueues:
    return FunctionQueues(wake_ups=wake_ups, work=work or FakeQueue(), run_requests=looks or FakeQueue())


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (an_entry(requestObject=UNSCHEDULABLE), "PodUnschedulable"),
        (an_entry(responseObject=UNSCHEDULABLE), "PodUnschedulable"),
        (an_entry(requestObject={"status": {"phase": "Running"}}), ""),
        (an_entry(part="", responseObject=UNSCHEDULABLE), ""),
        (an_entry(requestObject={"status": {"nominatedNodeName": "n"}}, responseObject=UNSCHEDULABLE), ""),
        (
            an_entry(requestObject={"status": {"nominatedNodeName": None}}, responseObject=UNSCHEDULABLE),
            "PodUnschedulable",
        ),
        (an_entry(requestObject=UNSCHEDULABLE, responseStatus={"code": 409}), ""),
        (an_entry(requestObject=UNSCHEDULABLE, stage="RequestReceived"), ""),
        (an_entry("delete", part=""), "PodDeleted"),
        (an_entry("delete", part="eviction"), ""),
        (an_entry("update", "nodepools", ""), "NodePoolChanged"),
        (an_entry("patch", "nodepools", "status", requestObject={}), ""),
        (an_entry("get", "nodepools", ""), ""),
        (an_entry("delete", "configmaps", ""), ""),
    ],
)
def test_only_events_that_may_mean_work_wake_a_function(entry: dict[str, Any], reason: str) -> None:
    """Otherwise, pods wait for the schedule, or every heartbeat of the cluster costs a planning run."""
    assert reason_to_wake(entry) == reason


def test_many_events_make_one_wake_up() -> None:
    """Otherwise, a rollout of a thousand pods floods the queue."""
    queue, clock, report = FakeQueue(), FakeClock(NOW + timedelta(seconds=9)), RunReport()
    lines = [json.dumps(an_entry(requestObject=UNSCHEDULABLE))] * 3 + [
        "no json",
        json.dumps(an_entry("delete", part="")),
    ]
    AuditLog(queues(queue), pod_ends(), clock).run(a_delivery(*lines), report)
    assert queue.take() == [{"wakeUp": "PodDeleted,PodUnschedulable"}]
    assert report.counts["auditPodUnschedulable"] == 3
    assert report.counts["auditLagSeconds"] == 9


def test_a_control_message_wakes_no_function() -> None:
    """CloudWatch Logs sends one when the subscription is made."""
    queue = FakeQueue()
    AuditLog(queues(queue), pod_ends(), FakeClock(NOW)).run(
        a_delivery("CWL CONTROL MESSAGE", kind="CONTROL_MESSAGE"), RunReport()
    )
    assert queue.sent == []


@pytest.mark.parametrize(
    "event", [{}, {"awslogs": {"data": "%%%"}}, {"awslogs": {"data": base64.b64encode(b"x").decode()}}]
)
def test_a_malformed_delivery_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        AuditLog(queues(FakeQueue()), pod_ends(), FakeClock(NOW)).run(event, RunReport())


@pytest.mark.parametrize(("code", "wakes"), [(199, False), (200, True), (299, True), (300, False), (409, False)])
def test_a_refused_request_wakes_nobody(*, code: int, wakes: bool) -> None:
    entry = an_entry(requestObject=UNSCHEDULABLE, responseStatus={"code": code})
    assert bool(reason_to_wake(entry)) is wakes


@pytest.mark.parametrize("field", ["objectRef", "responseStatus", "requestObject", "responseObject", "verb", "stage"])
@pytest.mark.parametrize("odd", [None, "text", 7, [], {"code": None}, {"status": "x"}])
def test_an_odd_entry_never_stops_the_others(field: str, odd: object) -> None:
    """Otherwise, one entry in an unusual form loses the whole delivery, again and again."""
    entry = {"verb": "patch", "objectRef": {"resource": "pods", "subresource": "status"}, field: odd}
    assert reason_to_wake(entry) == ""


def a_deletion(**changes: Any) -> dict[str, Any]:
    """A user deletes NodeClaim `c`."""
    target = {"resource": "nodeclaims", "apiGroup": "karpenter.sh", "name": "c"}
    return {"verb": "delete", "stage": "ResponseComplete", "objectRef": target, "user": {"username": "me"}, **changes}


def test_a_deleted_node_claim_goes_to_execute() -> None:
    """Otherwise, `kubectl delete nodeclaim` hangs for minutes on its finalizer."""
    wake_ups, work, report = FakeQueue(), FakeQueue(), RunReport()
    lines = [json.dumps(a_deletion())] * 2
    AuditLog(queues(wake_ups, work), pod_ends(), FakeClock(NOW)).run(a_delivery(*lines), report)
    assert [(message["claim"], message["is_deleted"]) for message in work.take()] == [("c", True)]
    assert wake_ups.take() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"user": {"username": "role", "groups": ["system:authenticated", "fleetwright:execute"]}},
        {"responseStatus": {"code": 404}},
        {"verb": "patch"},
        {"stage": "RequestReceived"},
    ],
)
def test_only_a_users_successful_deletion_goes_to_execute(changes: dict[str, Any]) -> None:
    """Our own functions delete the NodeClaim of each terminated node."""
    assert deleted_node_claim_of(a_deletion(**changes)) == ""


def test_a_node_claim_that_somebody_makes_goes_to_execute() -> None:
    """Otherwise, its launch waits for a round of `reconcile`; our own are not taken for orders."""
    entry = a_deletion(verb="create", responseStatus={"code": 201})
    named = {"objectRef": {"resource": "nodeclaims"}, "responseObject": {"metadata": {"name": "gen-x1"}}}
    ours = {**entry, "user": {"username": "role", "groups": ["fleetwright:provision"]}}
    assert [made_node_claim_of(e) for e in (entry, {**entry, **named}, ours, a_deletion())] == ["c", "gen-x1", "", ""]
    work = FakeQueue()
    AuditLog(queues(FakeQueue(), work), pod_ends(), FakeClock(NOW)).run(a_delivery(json.dumps(entry)), RunReport())
    assert [(message["claim"], message["is_made"]) for message in work.take()] == [("c", True)]


def test_pods_that_go_ask_for_a_look_at_nodes() -> None:
    """Otherwise, nodes that they leave are looked at up to a minute later."""
    target = {"resource": "pods", "namespace": "default", "name": "p"}
    gone = {"verb": "delete", "stage": "ResponseComplete", "objectRef": target, "user": {"username": "me"}}
    waits = {**a_deletion(), "objectRef": {"resource": "pods", "subresource": "status"}, "verb": "patch"}
    for entry, asked in ((gone, 1), (waits, 0)):
        looks = FakeQueue()
        AuditLog(queues(FakeQueue(), None, looks), pod_ends(), FakeClock(NOW)).run(
            a_delivery(json.dumps(entry)), RunReport()
        )
        assert len(looks.sent) == asked
