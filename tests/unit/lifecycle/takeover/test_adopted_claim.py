"""Claims of ours made from Karpenter's NodeClaims."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from core import labels
from core.api.translation import node_claim
from core.disruption.conditions.drift import DriftCheck
from core.labels import HASH_VERSION
from core.lifecycle.mirror.node_claim_object import mirrored
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.lifecycle.takeover.adopted_claim import UNKNOWN_HASH, adopted, adopted_plan
from core.lifecycle.view import node_claim as as_node_claim
from core.model.catalogue import Offering
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodePool
from core.model.values.taints import Taint
from tests.builders import NOW, a_pool, a_snapshot
from tests.unit.lifecycle.takeover.karpenters_objects import (
    HASHES,
    INSTANCE,
    NODE,
    PROVIDER_ID,
    a_class,
    a_condition,
    a_karpenter_node,
    a_manifest,
)

MACHINE = Machine(
    instance_id=INSTANCE,
    provider_id=PROVIDER_ID,
    offering=Offering("m5.large", "us-east-1a", "spot", 1),
    labels={labels.INSTANCE_TYPE: "m5.large", labels.CAPACITY_TYPE: "on-demand"},
    capacity={"cpu": 2000, "memory": 1},
)
SECOND = timedelta(seconds=1)
POOL = a_pool(template_hash="pool-of-today", own_annotations=HASHES)


def a_claim_of(claim: NodeClaim, *, pool: NodePool = POOL) -> ClaimRecord:
    return adopted(claim, adopted_plan(claim, pool, a_class()), MACHINE, a_karpenter_node(), NOW)


def test_it_is_what_karpenter_launched_it_for() -> None:
    record = a_claim_of(node_claim(a_manifest()))
    plan = record.plan
    assert (plan.node_pool, plan.node_class.name, plan.expire_after) == ("default", "default", timedelta(hours=720))
    assert plan.resources == {"cpu": 1000, "pods": 4}
    assert plan.taints == (Taint("team", "NoSchedule", "a"),)
    assert [requirement.key for requirement in plan.requirements] == [labels.CAPACITY_TYPE]
    assert record.labels["team"] == "a"
    assert record.labels[labels.CAPACITY_TYPE] == "spot"  # the NodeClaim's labels go before what EC2 says
    assert (record.phase, record.node_name, record.instance_id) == (ClaimPhase.INITIALIZED, NODE, INSTANCE)


def test_limits_count_what_karpenter_counted() -> None:
    record = a_claim_of(node_claim(a_manifest()))
    assert record.reserved == {"cpu": 2000, "memory": 8 << 30, "pods": 29, "nodes": 1}


def test_its_size_is_karpenters_then_ec2s_then_the_nodes() -> None:
    """What has no size takes no room of the limits, and every pod seems too large for it."""
    theirs = node_claim(a_manifest())
    unsized = msgspec.structs.replace(theirs, capacity={}, allocatable={})
    node = msgspec.structs.replace(a_karpenter_node(), capacity={"cpu": 7}, allocatable={"cpu": 6})
    bare = msgspec.structs.replace(MACHINE, capacity={}, allocatable={})
    sized = msgspec.structs.replace(MACHINE, capacity={"cpu": 5}, allocatable={"cpu": 4})
    cases = [
        (theirs, sized, theirs.capacity, theirs.allocatable),
        (unsized, sized, {"cpu": 5}, {"cpu": 4}),
        (unsized, bare, {"cpu": 7}, {"cpu": 6}),
    ]
    for claim, machine, capacity, allocatable in cases:
        record = adopted(claim, adopted_plan(claim, POOL, a_class()), machine, node, NOW)
        assert record.machine is not None
        assert (record.machine.capacity, record.machine.allocatable) == (capacity, allocatable)
        assert record.reserved == {**capacity, "nodes": 1}


def test_its_pods_are_left_to_the_scheduler() -> None:
    """They have long been bound: held back, the node would take no others."""
    assert a_claim_of(node_claim(a_manifest())).is_bound


def test_its_age_and_its_quiet_go_on() -> None:
    """Neither expiry nor consolidateAfter starts again."""
    record = a_claim_of(node_claim(a_manifest()))
    assert record.requested_at == datetime(2026, 11, 19, 20, tzinfo=UTC)
    assert record.initialized_at == datetime(2026, 11, 19, 20, 1, tzinfo=UTC)
    assert record.last_pod_event_at == datetime(2026, 11, 19, 22, tzinfo=UTC)
    reached = datetime(2026, 11, 19, 20, 1, tzinfo=UTC)
    shown = mirrored(record).conditions
    for kind in ("Launched", "Registered", "Initialized"):
        assert (shown[kind].status, shown[kind].changed_at) == ("True", reached), kind
    assert shown["Ready"].status == "True"


def test_what_karpenter_does_not_date_counts_from_now_or_from_its_creation() -> None:
    """A restored NodeClaim has no status yet: without a moment, its working node would never count as initialized."""
    undated = msgspec.structs.replace(node_claim(a_manifest()), conditions={}, last_pod_event_at=None)
    record = a_claim_of(undated)
    assert (record.initialized_at, record.moments.opened_at) == (NOW, NOW)
    assert record.moments.launched_at == record.requested_at == undated.created_at
    assert mirrored(record).conditions["Ready"].status == "True"
    consolidate_after = timedelta(minutes=5)
    quiet = [
        as_node_claim(record, consolidate_after, NOW + consolidate_after + later) for later in (-SECOND, 0 * SECOND)
    ]
    assert ["Consolidatable" in claim.conditions for claim in quiet] == [False, True]
    assert a_claim_of(msgspec.structs.replace(undated, created_at=None)).requested_at == NOW


def test_what_has_not_happened_yet_has_no_moment() -> None:
    """A condition that is not True tells when it became so, not when the node was ready."""
    waiting = node_claim(a_manifest(conditions=[a_condition("Launched"), a_condition("Initialized", "False")]))
    record = a_claim_of(waiting)
    assert (record.initialized_at, record.moments.seen_at) == (NOW, None)


def drift_of(record: ClaimRecord) -> str:
    hashes = {labels.NODEPOOL_HASH: "pool-of-today", labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    class_hashes = {labels.NODECLASS_HASH: "class-of-today", labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    pool = msgspec.structs.replace(POOL, own_annotations=hashes)
    snapshot = a_snapshot(node_pools=(pool,), node_classes=(a_class(own_annotations=class_hashes),))
    return DriftCheck(snapshot, knows_types=False).reason(as_node_claim(record, None, NOW), pool)


def test_what_was_not_drifted_is_not_drifted_by_the_takeover() -> None:
    record = a_claim_of(node_claim(a_manifest()))
    assert record.plan.annotations == {
        labels.NODEPOOL_HASH: "pool-of-today",
        labels.NODEPOOL_HASH_VERSION: HASH_VERSION,
        labels.NODECLASS_HASH: "class-of-today",
        labels.NODECLASS_HASH_VERSION: HASH_VERSION,
    }
    assert drift_of(record) == ""


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("NodePoolDrifted", "NodePoolDrifted"),
        ("NodeClassDrift", "NodeClassDrifted"),
        ("AMIDrift", ""),  # found again from the image, or not
    ],
)
def test_what_was_drifted_stays_so(reason: str, expected: str) -> None:
    """A rollout that Karpenter began goes on."""
    record = a_claim_of(node_claim(a_manifest(a_condition("Drifted", reason=reason))))
    assert drift_of(record) == expected


def test_a_drift_that_karpenter_did_not_say_any_more_counts() -> None:
    """Its hash annotations differ: it was stopped between the edit and its next look."""
    edited = msgspec.structs.replace(POOL, own_annotations={**HASHES, labels.NODEPOOL_HASH: "new"})
    record = a_claim_of(node_claim(a_manifest()), pool=edited)
    assert drift_of(record) == "NodePoolDrifted"
    assert record.plan.annotations[labels.NODEPOOL_HASH] == HASHES[labels.NODEPOOL_HASH], "its own hash is kept"


def test_hashes_of_another_version_say_nothing_of_drift() -> None:
    """Karpenter compares none either: it writes the new version to both first."""
    edited = msgspec.structs.replace(POOL, own_annotations={**HASHES, labels.NODEPOOL_HASH: "new"})
    obj = a_manifest()
    obj["metadata"]["annotations"][labels.NODEPOOL_HASH_VERSION] = "v2"
    assert drift_of(a_claim_of(node_claim(obj), pool=edited)) == ""


def test_a_drifted_one_without_a_hash_stays_drifted() -> None:
    obj = a_manifest(a_condition("Drifted", reason="NodePoolDrifted"))
    del obj["metadata"]["annotations"][labels.NODEPOOL_HASH]
    record = a_claim_of(node_claim(obj))
    assert record.plan.annotations[labels.NODEPOOL_HASH] == UNKNOWN_HASH


def test_one_that_boots_is_registered_by_us() -> None:
    claim = node_claim(a_manifest())
    record = adopted(claim, adopted_plan(claim, POOL, a_class()), MACHINE, None, NOW)
    assert (record.phase, record.node_name, record.initialized_at) == (ClaimPhase.LAUNCHED, "", None)
    assert record.phase_since == datetime(2026, 11, 19, 20, 1, tzinfo=UTC)
    assert not record.is_bound
