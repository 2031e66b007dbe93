"""A claim's record as decisions read it."""

from datetime import timedelta

import msgspec

from core import labels
from core.lifecycle.claims import INITIALIZATION_TIMEOUT
from core.lifecycle.records import ClaimPhase, Deletion
from core.lifecycle.view import node_claim, requested_claim
from core.model.catalogue import Offering
from core.model.node_claim import (
    CONSOLIDATABLE,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    Hold,
    NodeClaim,
)
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

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


def test_every_field_comes_from_the_record() -> None:
    """A field that is lost here is lost for every decision: a node that was given back would be drained again."""
    plan = a_plan(
        annotations={"a": "b"},
        taints=(Taint("a", "NoSchedule"),),
        startup_taints=(Taint("b", "NoSchedule"),),
        requirements=(Requirement.one_of("a", "b"),),
        expire_after=HOUR,
        termination_grace_period=HOUR,
    )
    record = a_record(
        plan=plan,
        deletion=Deletion(reason="SpotInterrupted", asked_at=NOW, ends_at=NOW + HOUR),
        hold=Hold(NOW + HOUR, "DrainBlocked", ""),
        last_pod_event_at=NOW,
    )
    assert record.machine is not None
    of_ec2 = {"image_id": "ami-1", "subnet_id": "subnet-1", "security_groups": ("sg-1",)}
    sizes = {"capacity": {"cpu": 2000}, "allocatable": {"cpu": 1900}}
    record = msgspec.structs.replace(record, machine=msgspec.structs.replace(record.machine, **of_ec2, **sizes))
    seen, empty = node_claim(record, HOUR, NOW), NodeClaim(name="")
    assert [name for name in NodeClaim.__struct_fields__ if getattr(seen, name) == getattr(empty, name)] == []


def test_a_claim_before_its_launch_is_a_node_without_room_for_others() -> None:
    """Its labels are what all its offerings agree on; what it holds of limits is its size, without the node itself."""
    offerings = tuple(Offering("m5.large", zone, labels.SPOT, 1) for zone in ("a", "b"))
    record = a_record(
        ClaimPhase.REQUESTED,
        offerings=offerings,
        reserved={"cpu": 2000, "memory": 5, "nodes": 1},
        plan=a_plan(resources={"cpu": 1000}),
    )
    seen = requested_claim(record, NOW)
    assert (seen.capacity, seen.allocatable) == ({"cpu": 2000, "memory": 5}, {"cpu": 1000})
    assert (seen.provider_id, seen.node_name) == ("requested:///c", "c")
    agreed = {labels.INSTANCE_TYPE: "m5.large", labels.CAPACITY_TYPE: labels.SPOT}
    assert seen.labels == {**record.plan.labels, **agreed}


def test_the_end_is_announced_only_where_ec2_takes_the_instance() -> None:
    """An expired node waits for pods that may not be disrupted: nothing is launched for them."""
    ends = {
        reason: node_claim(
            a_record(deletion=Deletion(reason=reason, asked_at=NOW, ends_at=NOW + HOUR)), None, NOW
        ).ends_at
        for reason in ("SpotInterrupted", "CapacityBlockEnds", "RebalanceRecommended", "Expired")
    }
    assert ends == {
        "SpotInterrupted": NOW + HOUR,
        "CapacityBlockEnds": NOW + HOUR,
        "RebalanceRecommended": None,
        "Expired": None,
    }


def test_a_late_node_says_since_when_it_is_late() -> None:
    """From the end of its time on, not from its beginning."""
    late = a_record(ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT + HOUR)
    found = node_claim(late, None, NOW).conditions[INITIALIZED]
    assert (found.status, found.reason, found.changed_at) == ("False", "InitializationTimeout", NOW - HOUR)
    young = a_record(ClaimPhase.REGISTERED, age=INITIALIZATION_TIMEOUT - HOUR / 60)
    assert INITIALIZED not in node_claim(young, None, NOW).conditions
