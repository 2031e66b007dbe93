"""A claim's record as decisions read it."""

from datetime import timedelta

from core.lifecycle.records import ClaimPhase, Deletion
from core.lifecycle.view import node_claim
from core.model.node_claim import CONSOLIDATABLE, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_record

HOUR = timedelta(hours=1)


RUNNING = a_pod("p", node_name="n", phase="Running")


def test_a_claim_shows_its_conditions() -> None:
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
    """Otherwise, nodes go while a rollout still moves pods, or never."""
    record = a_record(initialized_at=NOW - 2 * HOUR, last_pod_event_at=NOW - HOUR / 2)
    assert not node_claim(record, HOUR, NOW).is_true(CONSOLIDATABLE)
    assert node_claim(record, HOUR / 2, NOW).is_true(CONSOLIDATABLE)
    assert not node_claim(record, None, NOW).is_true(CONSOLIDATABLE), "consolidateAfter: Never"


def test_without_a_pod_event_the_time_counts_from_initialization() -> None:
    record = a_record(initialized_at=NOW - HOUR)
    assert node_claim(record, HOUR, NOW).is_true(CONSOLIDATABLE)
    assert not node_claim(record, 2 * HOUR, NOW).is_true(CONSOLIDATABLE)


def test_a_terminating_claim_is_marked() -> None:
    """Otherwise, budgets count it as staying, and the planner places pods on it."""
    record = a_record(deletion=Deletion(reason="Empty", asked_at=NOW, terminated_at=NOW))
    seen = node_claim(record, None, NOW)
    assert seen.deleted_at == NOW
    assert seen.is_true(INSTANCE_TERMINATING)
