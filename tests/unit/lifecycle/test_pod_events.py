"""When a pod last came or went, from which consolidateAfter counts."""

from datetime import timedelta

import msgspec

from core.lifecycle.pod_events import ANY_NODE, with_pod_events
from core.model.pod import Owner
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_record

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
    (one,) = with_pod_events([a_record()], [RUNNING, other], NOW)
    (two,) = with_pod_events([one], [other, RUNNING], NOW + HOUR)
    assert two is one


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
