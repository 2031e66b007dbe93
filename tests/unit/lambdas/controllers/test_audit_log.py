"""Fields of audit events, whoever wrote them."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from adapters.ports import FunctionQueues
from adapters.run_report import RunReport
from adapters.store import PodEnds
from core.errors import InvalidInputError
from core.lifecycle.records import ANY_NODE
from core.manifests.wire import resources
from lambdas.controllers.audit_log import (
    GRAIN,
    NODES_PER_DELIVERY,
    SEEN_WITHIN,
    AuditLog,
    PodEnd,
    PodEndWriter,
    deleted_node_claim_of,
    has_happened,
    made_node_claim_of,
    moment_of,
    object_of,
    pod_end,
    reason_to_wake,
)
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeQueue

# Fields of audit events, whoever wrote them.


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"stage": "ResponseComplete", "responseStatus": {"code": 200}}, True),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 299}}, True),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 300}}, False),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 199}}, False),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 409}}, False),
        ({"stage": "ResponseComplete", "responseStatus": {"code": "200"}}, False),
        ({"stage": "RequestReceived", "responseStatus": {"code": 200}}, False),
        ({"stage": "Panic"}, False),
        ({"stage": "ResponseComplete", "responseStatus": None}, True),
        ({"responseStatus": {"code": 201}}, True),
        ({}, True),
    ],
)
def test_only_a_complete_request_with_a_success_has_happened(entry: dict[str, Any], expected: bool) -> None:
    assert has_happened(entry) is expected


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-11-20T00:00:00Z", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T01:00:00+01:00", datetime(2026, 11, 20, 1, tzinfo=timezone(timedelta(hours=1)))),
        ("2026-11-20T00:00:00", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("at noon", None),
        ("", None),
        (20, None),
        (None, None),
    ],
)
def test_a_moment_without_a_zone_is_none(written: Any, moment: datetime | None) -> None:
    """It could not be compared with ours."""
    assert moment_of(written) == moment


@pytest.mark.parametrize(("value", "fields"), [({"a": 1}, {"a": 1}), ({}, {}), (None, {}), ("a", {}), (["a"], {})])
def test_what_is_no_object_has_no_fields(value: Any, fields: dict[str, Any]) -> None:
    assert object_of(value) == fields


UNSCHEDULABLE = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}


def scheduler_error(message: str) -> dict[str, Any]:
    """What kube-scheduler 1.37 says of a group in a cluster without nodes, or of a mistake in one."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    return {"status": {"conditions": [condition]}}


def pod_ends() -> PodEnds:
    return Rows().stores().pod_ends


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
        (an_entry(requestObject=scheduler_error("PodGroupPostFilter plugins: not found")), "PodUnschedulable"),
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
    "event",
    [
        {},
        {"awslogs": {"data": "%%%"}},
        {"awslogs": {"data": "é"}},
        {"awslogs": {"data": base64.b64encode(b"x").decode()}},
        {"awslogs": {"data": base64.b64encode(gzip.compress(b'{"messageType": "DATA_MESSAGE", "logEvents": 7}'))}},
    ],
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
    for entry, looks_expected in ((gone, 1), (waits, 0)):
        looks = FakeQueue()
        AuditLog(queues(FakeQueue(), None, looks), pod_ends(), FakeClock(NOW)).run(
            a_delivery(json.dumps(entry)), RunReport()
        )
        assert len(looks.sent) == looks_expected


# Which ends of pods the audit log reports, and their cost.


KUBELET = {"username": "system:node:n1"}
OLD = {"metadata": {"creationTimestamp": "2026-11-19T00:00:00Z"}}
YOUNG = {"metadata": {"creationTimestamp": NOW.isoformat()}}
DAEMON = {"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}, "spec": {"nodeName": "n1"}}


@pytest.mark.parametrize(
    ("entry", "node"),
    [
        (an_entry(user=KUBELET, requestObject={"status": {"phase": "Succeeded"}}), "n1"),
        (an_entry(user=KUBELET, requestObject={"status": {"phase": "Failed"}}), "n1"),
        (an_entry(user=KUBELET, requestObject={"status": {"phase": "Running"}}), ""),
        (an_entry(user=KUBELET, requestObject={"status": {"conditions": []}}), ""),
        (an_entry(part="", user=KUBELET, requestObject={"status": {"phase": "Failed"}}), ""),
        (an_entry(part="binding", user=KUBELET, requestObject={"status": {"phase": "Failed"}}), ""),
        (an_entry("delete", part="", user=KUBELET), "n1"),
        (an_entry("delete", part="", user={"username": "me"}, responseObject={"spec": {"nodeName": "n2"}}), "n2"),
        (an_entry("delete", part="", user={"username": "me"}), ""),
        (an_entry("delete", part="", user={"username": "me"}, responseObject={"spec": {"nodeName": 7}}), ""),
        (an_entry("delete", part="", user=KUBELET, responseObject=DAEMON), ""),
        (an_entry("delete", part="", user=KUBELET, responseObject=OLD), ""),
        (an_entry("delete", part="", user=KUBELET, responseObject=YOUNG), "n1"),
        (an_entry("delete", part="", user=KUBELET, responseStatus={"code": 409}), ""),
        (an_entry("delete", "nodes", "", user=KUBELET), ""),
        (an_entry("delete", part="eviction", user=KUBELET), ""),
        (an_entry("create", part="", user=KUBELET), ""),
    ],
)
def test_the_end_of_a_pod_is_reported_with_its_node(entry: dict[str, Any], node: str) -> None:
    end = pod_end(entry, NOW)
    assert (end.node if end else "") == node


@pytest.mark.parametrize("field", ["objectRef", "responseStatus", "requestObject", "responseObject", "user", "verb"])
@pytest.mark.parametrize("odd", [None, "text", 7, [], {"username": 3}, {"status": "x"}, {"metadata": []}])
def test_pod_ends_an_odd_entry_never_stops_the_others(field: str, odd: object) -> None:
    pod_end({**an_entry("delete", part="", user=KUBELET), field: odd}, NOW)


def test_a_pod_that_no_run_saw_keeps_its_node_from_being_consolidated() -> None:
    """From the audit log's delivery to the decision: 40 seconds between two runs, and consolidateAfter starts again."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.disrupt()
    lab.clock.advance(minutes=30)
    told = lab.clock.now() - timedelta(seconds=20)
    entry = an_entry(
        user={"username": f"system:node:{lab.claim.node_name}"},
        requestObject={"status": {"phase": "Succeeded"}},
        requestReceivedTimestamp=told.isoformat(),
    )
    lab.app.audit_log.run(a_delivery(json.dumps(entry)), RunReport())
    lab.app.provisioning.record_change()
    lab.disrupt()
    heard = lab.claim.last_pod_event_at
    assert heard is not None
    assert told <= heard < told + GRAIN
    assert lab.kubernetes.names(resources.PODS) == ["p"]


def test_a_node_on_which_many_pods_end_costs_a_write_in_two_seconds() -> None:
    """Otherwise, CronJobs on every node cost a write per pod."""
    lab = Lab()
    writer, writes = PodEndWriter(lab.app.adapters.stores.pod_ends), []
    for second in range(60):
        at = NOW + timedelta(seconds=second)
        writes.append(writer.write([PodEnd("n", at), PodEnd("n", at - timedelta(minutes=1))], at))
    assert sum(writes) <= 60 // 2 + 1
    assert lab.rows.pod_ends["n"] >= NOW + timedelta(seconds=59)


def test_a_flood_counts_for_every_node() -> None:
    """Otherwise, a delivery of thousands takes longer than the function may."""
    lab = Lab()
    ends = [PodEnd(f"n{number}", NOW + timedelta(minutes=number)) for number in range(-NODES_PER_DELIVERY, 1)]
    assert PodEndWriter(lab.app.adapters.stores.pod_ends).write(ends, NOW) == 1
    assert lab.rows.pod_ends == {ANY_NODE: ends[-1].at}, "the last of them"
    assert PodEndWriter(lab.app.adapters.stores.pod_ends).write(ends[1:], NOW) == NODES_PER_DELIVERY


def test_an_end_in_the_future_counts_as_one_of_now() -> None:
    """The node would otherwise not be consolidated until then."""
    lab = Lab()
    far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert PodEndWriter(lab.app.adapters.stores.pod_ends).write([PodEnd("n", far)], NOW) == 1
    assert lab.rows.pod_ends == {"n": NOW}


@pytest.mark.parametrize("name", ["x" * 254, "x" * 300_000, "*", "a#b", "A", "\x1b[8m", "", 7, None, ["n"]])
def test_what_can_be_no_name_becomes_no_message_and_no_row(name: Any) -> None:
    """A message of 300 KB is refused by SQS, a key of 2 KB by DynamoDB: the whole delivery would come again and again."""
    wake_ups, work, stored = FakeQueue(), FakeQueue(), pod_ends()
    target = {"resource": "nodeclaims", "name": name}
    ended = an_entry("delete", part="", responseObject={"spec": {"nodeName": name}})
    lines = [a_deletion(objectRef=target), a_deletion(objectRef=target, verb="create"), ended]
    AuditLog(queues(wake_ups, work), stored, FakeClock(NOW)).run(a_delivery(*map(json.dumps, lines)), RunReport())
    assert work.take() == []
    assert stored.latest(NOW) == {}
    assert wake_ups.take() == [{"wakeUp": "PodDeleted"}]


@pytest.mark.parametrize(("age", "counts"), [(SEEN_WITHIN, True), (SEEN_WITHIN + timedelta(seconds=1), False)])
def test_a_pod_that_lived_long_enough_to_be_seen_need_not_be_recorded(age: timedelta, *, counts: bool) -> None:
    pod = {"metadata": {"creationTimestamp": (NOW - age).isoformat()}}
    end = pod_end(an_entry("delete", part="", user=KUBELET, responseObject=pod), NOW)
    assert (end is not None) == counts


# What a run counts is what operators graph and alarm on: a count of nothing is reported, too, or the graph has a gap.


@pytest.fixture
def lab() -> Lab:
    made = Lab()
    made.kubernetes.put(a_pending_pod("a", cpu="3"), a_pending_pod("b", cpu="3"))
    return made


def test_a_plan_counts_pods_denials_and_what_it_costs(lab: Lab) -> None:
    counts = lab.provision().counts
    assert counts.pop("plannedMicrodollars") >= counts.pop("boundMicrodollars") > 0
    assert counts == {
        "pendingPods": 2,
        "awaitedPods": 0,
        "handedOver": 0,
        "launchDenials": 0,
        "quotaDenials": 0,
        "unschedulablePods": 0,
    }


def nearly_empty(nodes: int) -> Lab:
    """Nodes with one small pod each, of which one at a time may go."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"large-{number}", cpu="3") for number in range(nodes)))
    lab.settle()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for number, node in enumerate(lab.kubernetes.names(resources.NODES)):
        lab.kubernetes.drop(resources.PODS, f"large-{number}", "default")
        pod = a_pending_pod(f"small-{number}", cpu="250m", nodeName=node, metadata={"ownerReferences": [owner]})
        lab.kubernetes.put({**pod, "status": running})
    lab.clock.advance(minutes=1)
    return lab


@pytest.mark.parametrize(("nodes", "commands", "drains"), [(1, 0, 0), (3, 1, 1)])
def test_a_decision_to_disrupt_counts_commands_and_the_drains_of_its_target(
    nodes: int, commands: int, drains: int
) -> None:
    counts = nearly_empty(nodes).disrupt().counts
    assert {name: counts[name] for name in ("commands", "targetDrains", "cutOffDecisions")} == {
        "commands": commands,
        "targetDrains": drains,
        "cutOffDecisions": 0,
    }


def test_a_round_of_reconcile_counts_what_each_sweep_found(lab: Lab) -> None:
    lab.provision()
    lab.settle()
    counts = lab.reconcile().counts
    assert counts.pop("fleetMillidollarsPerHour") == 160
    assert counts == {
        "changedNodeClasses": 1,
        "instances": 2,
        "claims": 2,
        **dict.fromkeys(
            (
                *("prunedTemplates", "prunedProfiles", "drainsBlocked", "drainsBlockedForADay", "impairedInstances"),
                *(
                    "lateNodes",
                    "inconsistentNodes",
                    "deletedNodes",
                    "resumed",
                    "untrackedInstances",
                    "unknownInstances",
                ),
                *("staleSweeps", "budgetsClosedForAWeek"),
            ),
            0,
        ),
    }


def counted(*entries: object) -> dict[str, int]:
    """What the function that reads the audit log counts of one delivery."""
    report, made = RunReport(), [FakeQueue(), FakeQueue(), FakeQueue()]
    AuditLog(queues(*made), pod_ends(), FakeClock(NOW)).run(a_delivery(*map(json.dumps, entries)), report)
    return report.counts


def test_the_audit_log_counts_its_events_and_what_they_asked_for() -> None:
    mark = an_entry(requestObject=UNSCHEDULABLE, requestReceivedTimestamp="2026-11-19T23:59:57.5Z")
    assert counted(mark, mark, an_entry(requestObject={"status": {"phase": "Running"}})) == {
        "auditEvents": 3,
        "auditPodUnschedulable": 2,
        "auditLagSeconds": 2,
        "wakeUps": 1,
        "podEnds": 0,
    }


@pytest.mark.parametrize(
    ("verb", "name", "code"), [("delete", "deletedNodeClaims", 200), ("create", "madeNodeClaims", 201)]
)
def test_the_audit_log_counts_node_claims_that_people_make_and_delete(verb: str, name: str, code: int) -> None:
    reference = {"resource": "nodeclaims", "name": "c"}
    entry = an_entry(verb=verb, objectRef=reference, responseStatus={"code": code}, user={"username": "ada"})
    assert counted(entry)[name] == 1
