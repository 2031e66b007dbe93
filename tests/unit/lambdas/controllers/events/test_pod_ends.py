"""Which ends of pods the audit log reports, and their cost."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from adapters.run_report import RunReport
from core.lifecycle.pod_events import ANY_NODE
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.events.pod_ends import GRAIN, NODES_PER_DELIVERY, SEEN_WITHIN, PodEnd, PodEndWriter, pod_end
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.events.test_audit_log import a_delivery, an_entry

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
    found = pod_end(entry, NOW)
    assert (found.node if found else "") == node


@pytest.mark.parametrize("field", ["objectRef", "responseStatus", "requestObject", "responseObject", "user", "verb"])
@pytest.mark.parametrize("odd", [None, "text", 7, [], {"username": 3}, {"status": "x"}, {"metadata": []}])
def test_an_odd_entry_never_stops_the_others(field: str, odd: object) -> None:
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
    assert lab.kubernetes.names(kinds.PODS) == ["p"]


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
    ends = [PodEnd(f"n{number}", NOW + timedelta(minutes=number)) for number in range(NODES_PER_DELIVERY + 1)]
    assert PodEndWriter(lab.app.adapters.stores.pod_ends).write(ends, NOW) == 1
    assert lab.rows.pod_ends == {ANY_NODE: ends[-1].at}, "the last of them"
    assert PodEndWriter(lab.app.adapters.stores.pod_ends).write(ends[1:], NOW) == NODES_PER_DELIVERY


@pytest.mark.parametrize(("age", "counts"), [(SEEN_WITHIN, True), (SEEN_WITHIN + timedelta(seconds=1), False)])
def test_a_pod_that_lived_long_enough_to_be_seen_need_not_be_recorded(age: timedelta, *, counts: bool) -> None:
    pod = {"metadata": {"creationTimestamp": (NOW - age).isoformat()}}
    found = pod_end(an_entry("delete", part="", user=KUBELET, responseObject=pod), NOW)
    assert (found is not None) == counts
