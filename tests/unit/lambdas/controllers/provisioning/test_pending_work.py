"""When pods are planned for: a burst in one plan, and a single pod without delay."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.cluster_reader import UNBOUND
from adapters.ports import JsonObject, TransientError
from core import labels
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.manifests.wire import api_resources as kinds
from core.model.snapshot import Options
from lambdas.controllers.provisioning.pending_work import (
    LEAVING_ASKED_MAX,
    PendingWork,
    displaces_pods,
    is_unlaunched,
    pending_work,
)
from tests.builders import NOW, a_pod
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lifecycle.records_for_tests import a_record


def born(name: str, at: datetime) -> JsonObject:
    return a_pending_pod(name, metadata={"creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ")})


def arrive(lab: Lab, seconds: int) -> None:
    """From now on, one pod arrives each second, for this many seconds."""
    start, come = lab.clock.now(), set[int]()

    def look(call: str) -> None:
        for number in range(min(seconds, int((lab.clock.now() - start).total_seconds()) + 1)):
            if call == f"list pods {UNBOUND}" and number not in come:
                come.add(number)
                lab.kubernetes.put(born(f"p{number}", lab.clock.now()))

    lab.kubernetes.before_call = look


def waited(lab: Lab) -> timedelta:
    before = lab.clock.now()
    lab.provision({"wakeUp": "PodUnschedulable"})
    return lab.clock.now() - before


def test_a_pod_that_is_already_pending_is_planned_for_at_once(lab: Lab) -> None:
    """When the audit log reports a pod, it is seconds old."""
    lab.kubernetes.put(born("p", lab.clock.now() - timedelta(seconds=2)))
    assert waited(lab) == timedelta(0)
    assert len(lab.claims) == 1


def test_a_single_new_pod_waits_for_the_idle_time_only(lab: Lab) -> None:
    arrive(lab, 1)
    assert waited(lab) == timedelta(seconds=1)
    assert len(lab.claims) == 1


def test_a_burst_is_planned_once_the_scheduler_has_marked_it(lab: Lab) -> None:
    """Otherwise, the pods that it marks last are planned later, onto nodes of their own."""
    start = lab.clock.now()
    for name in ("p0", "p1", "p2"):
        lab.kubernetes.put({**born(name, start), "status": {"phase": "Pending"}})

    def mark(call: str) -> None:
        now = lab.clock.now()
        number = int((now - start).total_seconds())
        if call == f"list pods {UNBOUND}" and number < 3:
            marked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            body = {"status": {"conditions": [{**marked, "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ")}]}}
            lab.kubernetes.amend(kinds.PODS, f"p{number}", body, namespace="default")

    lab.kubernetes.before_call = mark
    assert waited(lab) == timedelta(seconds=2)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 3


def test_a_burst_is_planned_once_the_scheduler_has_tried_one_of_each_kind(lab: Lab) -> None:
    """It marks about a hundred pods a second, and an equal pod of the same ReplicaSet fails as the first one did."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
    for number in range(5):
        pod = born(f"p{number}", lab.clock.now() - timedelta(seconds=2))
        pod["metadata"]["ownerReferences"] = [owner]
        lab.kubernetes.put(pod if number == 0 else {**pod, "status": {"phase": "Pending"}})
    assert waited(lab) == timedelta(0)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 5


def test_a_burst_of_several_workloads_does_not_wait_for_each_of_their_marks(lab: Lab) -> None:
    """The scheduler marks 3,000 pods in 25 seconds; a pod that demands no less than one that it marked fails as well."""
    now = lab.clock.now()
    for number in range(5):
        pod = born(f"p{number}", now - timedelta(seconds=2))
        lab.kubernetes.put(pod if number == 0 else {**pod, "status": {"phase": "Pending"}})
    assert waited(lab) == timedelta(0)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 5


def test_a_pod_that_nobody_has_tried_for_long_holds_up_no_other(lab: Lab) -> None:
    """It belongs to another scheduler, and would cost every plan a second."""
    now = lab.clock.now()
    foreign = {**born("foreign", now - timedelta(seconds=10)), "status": {"phase": "Pending"}}
    foreign["spec"]["schedulerName"] = "other"
    lab.kubernetes.put(foreign)
    lab.kubernetes.put(born("p", now - timedelta(seconds=2)))
    assert waited(lab) == timedelta(0)
    assert [claim.plan.pods for claim in lab.claims] == [("default/p",)]


def test_a_burst_is_planned_once_it_has_arrived(lab: Lab) -> None:
    arrive(lab, 5)
    assert waited(lab) == timedelta(seconds=5)
    assert sum(len(claim.plan.pods) for claim in lab.claims) == 5


def test_a_burst_without_end_is_planned_after_ten_seconds(lab: Lab) -> None:
    arrive(lab, 1000)
    assert waited(lab) == timedelta(seconds=10)
    assert lab.claims


def test_the_setting_turns_batching_off() -> None:
    lab = Lab(batch_idle_seconds=0)
    arrive(lab, 5)
    assert waited(lab) == timedelta(0)


def test_a_clock_behind_the_cluster_costs_one_idle_time(lab: Lab) -> None:
    lab.kubernetes.put(born("p", lab.clock.now() + timedelta(hours=1)))
    assert waited(lab) == timedelta(seconds=1)


def test_no_run_lists_pods_while_another_plans(lab: Lab) -> None:
    """A burst wakes many runs, and listing a large cluster takes seconds."""
    lab.kubernetes.put(born("p", lab.clock.now()))
    lease = lab.app.adapters.leases.acquire("planner", "another", now=lab.clock.now(), for_=timedelta(seconds=30))
    assert lease is not None
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    report = lab.provision({"wakeUp": "PodUnschedulable"})
    assert ([found.reason for found in report.decisions], calls) == (["PlannerBusy"], [])


def test_a_run_that_fails_leaves_the_next_one_to_plan(lab: Lab) -> None:
    """Otherwise, pods wait for the minute that its lease would have lasted."""
    lab.kubernetes.put(born("p", lab.clock.now() - timedelta(seconds=2)))

    def fail(call: str) -> None:
        if call == "list nodes":
            raise TransientError("kube:list nodes", "500")

    lab.kubernetes.before_call = fail
    with pytest.raises(TransientError):
        lab.provision({"wakeUp": "PodUnschedulable"})
    lab.kubernetes.before_call = lambda _: None
    lab.clock.advance(seconds=1)
    lab.provision({"wakeUp": "PodUnschedulable"})
    assert len(lab.claims) == 1


def an_owned_pod(name: str, kind: str) -> JsonObject:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    return a_pending_pod(name, metadata={"ownerReferences": [owner]})


@pytest.mark.parametrize(
    "pod",
    [
        an_owned_pod("p", "DaemonSet"),
        a_pending_pod("p", metadata={"deletionTimestamp": "2026-11-20T00:01:00Z"}),
        {**a_pending_pod("p"), "status": {**a_pending_pod("p")["status"], "nominatedNodeName": "node-1"}},
        a_pending_pod("p", schedulingGates=[{"name": "quota"}]),
    ],
)
def test_a_pod_that_cannot_be_planned_for_is_no_work(lab: Lab, pod: JsonObject) -> None:
    """Otherwise, a DaemonSet's pod on a full node costs a list of the whole cluster each minute."""
    lab.kubernetes.put(pod)
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    report = lab.provision()
    assert report.counts["pendingPods"] == 0
    assert "list nodes" not in calls


def test_daemon_pods_do_not_delay_a_burst(lab: Lab) -> None:
    """Each node that joins brings some, while the pods that it was launched for are bound."""
    lab.kubernetes.put(born("p", lab.clock.now() - timedelta(seconds=2)))
    daemon = an_owned_pod("d", "DaemonSet")
    daemon["metadata"]["creationTimestamp"] = lab.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    lab.kubernetes.put(daemon)
    assert waited(lab) == timedelta(0)


def test_a_pod_that_we_nominated_is_work(lab: Lab) -> None:
    """The scheduler may bind it elsewhere or not at all; only the next plan sees that, so there must be one."""
    (ours, others) = (a_pod(name, is_marked_unschedulable=True, nominated_node_name="n") for name in ("a", "b"))
    record = a_record(node_name="n", nominated=("default/a",))
    assert pending_work([ours], [record], NOW, Options()) == PendingWork(marked=1)
    assert pending_work([others], [record], NOW, Options()) == PendingWork()


def test_nothing_is_planned_if_every_pending_pod_has_a_node_in_flight(lab: Lab) -> None:
    """Each verdict of the scheduler wakes a run, and each plan of a burst takes seconds of CPU time."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.clock.advance(seconds=1)
    report = lab.provision({"wakeUp": "PodUnschedulable"})
    assert [found.reason for found in report.decisions] == ["NodesUnderWay"]
    assert (report.counts["pendingPods"], report.counts["awaitedPods"]) == (1, 1)
    assert calls == [f"list pods {UNBOUND}"]
    lab.kubernetes.put(a_pending_pod("other"))
    lab.provision()
    assert len(calls) > 2


def a_leaving_claim(number: int = 0, **changes: Any) -> ClaimRecord:
    deletion = Deletion(**{"reason": "Empty", "asked_at": NOW, **changes})
    return msgspec.structs.replace(a_record(deletion=deletion), name=f"c{number}", node_name=f"n{number}")


def displaced(*records: ClaimRecord, pods: Iterable[JsonObject] = ()) -> tuple[bool, list[str]]:
    """Whether leaving nodes have pods that must move, and what was asked."""
    lab, calls = Lab(), list[str]()
    lab.kubernetes.put(*pods)
    lab.kubernetes.before_call = calls.append
    return displaces_pods(lab.app.shared.observer, records, NOW), calls


def on_node(name: str, node: str = "n0", **metadata: Any) -> JsonObject:
    pod = a_pending_pod(name, nodeName=node, metadata={"namespace": "default", **metadata})
    return {**pod, "status": {"phase": "Running"}}


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
PROTECTED = {labels.DO_NOT_DISRUPT: "true"}


def test_pods_of_a_leaving_node_must_move() -> None:
    assert displaced(a_leaving_claim(), pods=[on_node("p")]) == (True, ["list pods spec.nodeName=n0"])


def test_daemons_and_pods_of_other_nodes_do_not_move() -> None:
    pods = [on_node("d", ownerReferences=[DAEMON]), on_node("p", "other")]
    assert displaced(a_leaving_claim(), pods=pods) == (False, ["list pods spec.nodeName=n0"])


@pytest.mark.parametrize(("changes", "moves"), [({}, False), ({"reclaimed_at": NOW}, True)])
def test_a_protected_pod_moves_only_if_its_instance_is_reclaimed(changes: dict[str, Any], moves: bool) -> None:
    """Otherwise, the drain waits for it, and a node for it would stand empty."""
    pods = [on_node("p", annotations=PROTECTED)]
    assert displaced(a_leaving_claim(**changes), pods=pods)[0] is moves


def test_a_reclaimed_instance_without_a_pod_that_moves_displaces_none() -> None:
    pods = [on_node("d", ownerReferences=[DAEMON])]
    assert displaced(a_leaving_claim(reclaimed_at=NOW), pods=pods)[0] is False


def test_nodes_that_stay_and_claims_without_a_node_are_not_asked_about() -> None:
    nameless = msgspec.structs.replace(a_leaving_claim(), node_name="")
    assert displaced(a_record(node_name="n0"), nameless, pods=[on_node("p")]) == (False, [])


@pytest.mark.parametrize(("number", "lists"), [(LEAVING_ASKED_MAX, LEAVING_ASKED_MAX), (LEAVING_ASKED_MAX + 1, 0)])
def test_many_leaving_nodes_are_not_asked_about_one_by_one(number: int, lists: int) -> None:
    found, calls = displaced(*map(a_leaving_claim, range(number)))
    assert (found, len(calls)) == (lists == 0, lists)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (a_record(ClaimPhase.REQUESTED), True),
        (a_record(ClaimPhase.LAUNCHED), False),
        (a_record(ClaimPhase.REQUESTED, deletion=Deletion(reason="Empty", asked_at=NOW)), False),
    ],
)
def test_a_stored_claim_is_unlaunched_until_it_has_an_instance_or_leaves(record: ClaimRecord, expected: bool) -> None:
    assert is_unlaunched(record) is expected
    assert pending_work([], [record], NOW, Options()) == PendingWork(unlaunched=int(expected))
    assert pending_work([], [record], NOW, Options()).is_any is expected
