"""Rows of the table: those of an earlier version can still be read."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.lifecycle.records import ANY_NODE, ClaimPhase, ClaimRecord, with_pod_events
from core.model.catalogue import Offering
from core.model.pod import Owner
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_record

# When a pod last came or went, from which consolidateAfter counts.


HOUR = timedelta(hours=1)


RUNNING = a_pod("p", node_name="n", phase="Running")


def test_a_pod_that_came_or_went_is_noticed_in_the_next_run() -> None:
    (came,) = with_pod_events([a_record()], [RUNNING], NOW)
    assert came.last_pod_event_at == NOW
    (still,) = with_pod_events([came], [RUNNING], NOW + HOUR)
    assert still is came
    (went,) = with_pod_events([came], [], NOW + HOUR)
    assert went.last_pod_event_at == NOW + HOUR


def test_daemon_pods_and_terminating_pods_are_no_events() -> None:
    """Otherwise, a node with a restarting log shipper is never consolidated."""
    daemon = msgspec.structs.replace(RUNNING, name="d", uid="d", owners=(Owner("DaemonSet", "d"),))
    record = a_record()
    assert with_pod_events([record], [daemon], NOW)[0] is record
    (came,) = with_pod_events([record], [RUNNING], NOW)
    (leaving,) = with_pod_events([came], [msgspec.structs.replace(RUNNING, deleted_at=NOW)], NOW + HOUR)
    assert leaving.last_pod_event_at == NOW + HOUR, "starting to terminate is an event"


def test_the_order_of_the_list_is_no_event() -> None:
    other = a_pod("q", node_name="n", phase="Running")
    (record,) = with_pod_events([a_record()], [RUNNING, other], NOW)
    (two,) = with_pod_events([record], [other, RUNNING], NOW + HOUR)
    assert two is record


def test_a_pod_that_came_and_went_between_two_runs_counts() -> None:
    """The audit log reports it; otherwise, consolidateAfter is over too early (aws#3059: cron pods of 40 seconds)."""
    (came,) = with_pod_events([a_record()], [RUNNING], NOW)
    (told,) = with_pod_events([came], [RUNNING], NOW + HOUR, {"n": NOW + HOUR / 2, "other": NOW + HOUR})
    assert told.last_pod_event_at == NOW + HOUR / 2
    assert with_pod_events([told], [RUNNING], NOW + HOUR, {"n": NOW + HOUR / 2})[0] is told
    (all_of_them,) = with_pod_events([told], [RUNNING], NOW + HOUR, {ANY_NODE: NOW + HOUR})
    assert all_of_them.last_pod_event_at == NOW + HOUR


def test_an_end_before_the_node_was_ready_is_no_event() -> None:
    record = msgspec.structs.replace(a_record(), initialized_at=NOW)
    assert with_pod_events([record], [], NOW, {"n": NOW - HOUR})[0] is record


def test_a_new_empty_node_needs_no_write() -> None:
    record = a_record()
    assert with_pod_events([record], [], NOW)[0] is record


def test_a_pod_without_a_node_waits_and_one_that_was_expected_is_not_any_more() -> None:
    """A nomination ends when its pod has come, or is gone."""
    record = msgspec.structs.replace(a_record(), nominated=("default/p", "default/q", "default/r"))
    (came,) = with_pod_events([record], [RUNNING, a_pod("q")], NOW)
    assert came.nominated == ("default/q",)
    (unseen,) = with_pod_events([record], [a_pod("q")], NOW)
    assert unseen is record, "no pod came or went"


def test_only_a_working_node_has_pod_events() -> None:
    """Before, it is empty because it is not ready."""
    starting = a_record(ClaimPhase.REGISTERED)
    assert with_pod_events([starting], [RUNNING], NOW, {"n": NOW, ANY_NODE: NOW})[0] is starting


def test_the_latest_of_both_times_of_the_audit_log_counts() -> None:
    record = msgspec.structs.replace(a_record(), initialized_at=NOW - HOUR)
    for ends, latest in (
        ({"n": NOW, ANY_NODE: NOW - HOUR / 2}, NOW),
        ({"n": NOW - HOUR / 2, ANY_NODE: NOW}, NOW),
        ({ANY_NODE: NOW - HOUR / 2}, NOW - HOUR / 2),
    ):
        assert with_pod_events([record], [], NOW, ends)[0].last_pod_event_at == latest
    assert with_pod_events([record], [], NOW, {"n": NOW - HOUR})[0] is record, "it was not ready before"
    never = msgspec.structs.replace(record, initialized_at=None)
    assert with_pod_events([never], [], NOW, {"n": NOW})[0].last_pod_event_at == NOW


def test_pods_without_uids_are_told_apart_by_their_names() -> None:
    first, other = (a_pod(name, node_name="n", phase="Running", uid="") for name in ("p", "q"))
    (came,) = with_pod_events([a_record()], [first], NOW)
    (changed,) = with_pod_events([came], [other], NOW + HOUR)
    assert changed.last_pod_event_at == NOW + HOUR


SPOT = Offering("m5.large", "us-east-1a", "spot", 40_000_000)

ROW_OF_2026_10 = b"""{
    "name": "general-1",
    "plan": {
        "name": "general-1",
        "node_pool": "general",
        "node_class": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "instance_types": ["m5.large"],
        "zones": ["us-east-1a"],
        "capacity_types": ["spot"]
    },
    "token": "t",
    "requested_at": "2026-10-01T00:00:00Z",
    "phase_since": "2026-10-01T00:00:00Z",
    "phase": "launched",
    "offerings": [
        {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "price": 40000000}
    ],
    "machine": {
        "instance_id": "i-1",
        "provider_id": "aws:///us-east-1a/i-1",
        "offering": {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "price": 40000000}
    }
}"""
"""As written when an offering of a claim and an offering of the catalogue were two types."""


def test_a_row_of_an_earlier_version_is_read() -> None:
    """Otherwise, an upgrade loses every claim, and with them the nodes."""
    record = msgspec.json.decode(ROW_OF_2026_10, type=ClaimRecord)
    assert record.offerings == (SPOT,)
    assert record.machine is not None
    assert record.machine.offering == SPOT


def test_a_row_holds_only_the_offering_fields_that_an_earlier_version_reads() -> None:
    """During an upgrade, functions of both versions read the same rows; and writes are paid by the kilobyte."""
    written = msgspec.json.decode(msgspec.json.encode(SPOT))
    assert written == {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "price": 40_000_000}
