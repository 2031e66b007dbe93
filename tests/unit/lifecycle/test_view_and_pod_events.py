from __future__ import annotations

from datetime import timedelta

import msgspec

from core.lifecycle.pod_events import with_pod_events
from core.lifecycle.records import ClaimPhase, Deletion
from core.lifecycle.view import node_claim
from core.model.node_claim import CONSOLIDATABLE, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED
from core.model.pod import Owner
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_record

HOUR = timedelta(hours=1)
RUNNING = a_pod("p", node_name="n", phase="Running")


def test_a_claim_shows_how_far_it_has_come() -> None:
    reached = {
        phase: {
            name for name in (LAUNCHED, REGISTERED, INITIALIZED) if node_claim(a_record(phase), None, NOW).is_true(name)
        }
        for phase in ClaimPhase
    }
    assert reached == {
        ClaimPhase.REQUESTED: set(),
        ClaimPhase.LAUNCHED: {LAUNCHED},
        ClaimPhase.REGISTERED: {LAUNCHED, REGISTERED},
        ClaimPhase.INITIALIZED: {LAUNCHED, REGISTERED, INITIALIZED},
    }


def test_a_node_is_consolidatable_once_no_pod_has_come_or_gone_for_long_enough() -> None:
    """Else nodes go while a rollout is still moving pods, or never."""
    record = a_record(initialized_at=NOW - 2 * HOUR, last_pod_event_at=NOW - HOUR / 2)
    assert not node_claim(record, HOUR, NOW).is_true(CONSOLIDATABLE)
    assert node_claim(record, HOUR / 2, NOW).is_true(CONSOLIDATABLE)
    assert not node_claim(record, None, NOW).is_true(CONSOLIDATABLE), "consolidateAfter: Never"


def test_without_a_pod_event_the_time_counts_from_initialization() -> None:
    record = a_record(initialized_at=NOW - HOUR)
    assert node_claim(record, HOUR, NOW).is_true(CONSOLIDATABLE)
    assert not node_claim(record, 2 * HOUR, NOW).is_true(CONSOLIDATABLE)


def test_a_leaving_claim_says_so() -> None:
    """Else budgets count it as staying and the planner puts pods on it."""
    record = a_record(deletion=Deletion(reason="Empty", asked_at=NOW, terminated_at=NOW))
    seen = node_claim(record, None, NOW)
    assert seen.deleted_at == NOW
    assert seen.is_true(INSTANCE_TERMINATING)


def test_a_pod_that_came_or_went_is_noticed_at_the_next_look() -> None:
    (came,) = with_pod_events([a_record()], [RUNNING], NOW)
    assert came.last_pod_event_at == NOW
    (still,) = with_pod_events([came], [RUNNING], NOW + HOUR)
    assert still is came
    (went,) = with_pod_events([came], [], NOW + HOUR)
    assert went.last_pod_event_at == NOW + HOUR


def test_daemons_and_pods_on_their_way_out_are_no_news() -> None:
    """Else a node with a restarting log shipper is never consolidated."""
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


def test_a_new_empty_node_needs_no_write() -> None:
    record = a_record()
    assert with_pod_events([record], [], NOW)[0] is record
