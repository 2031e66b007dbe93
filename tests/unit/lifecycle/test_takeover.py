"""Claims of ours made from Karpenter's NodeClaims."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.api.older_versions import problems
from core.api.translation import node_claim
from core.disruption.drift import DriftCheck
from core.labels import HASH_VERSION
from core.lifecycle import takeover
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.claims import node_claim as as_node_claim
from core.lifecycle.node_claim_objects import mirrored
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.lifecycle.takeover import (
    UNKNOWN_HASH,
    AdoptionState,
    OwnedClaim,
    adopted,
    adopted_plan,
    adoption_state,
    is_marked,
    karpenters_object,
    karpenters_status,
    objection,
    released,
)
from core.model.catalogue import Offering
from core.model.node_pool import NodePool
from core.model.plan import Condition, Hold, NodeClaim
from core.model.values.taints import DISRUPTED, HELD, Taint
from core.reasons.code import AdoptionReason, ReleaseReason
from simulator.cluster.store import merged
from tests.builders import NOW, a_pool, a_snapshot
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID as RELEASE_PROVIDER_ID
from tests.unit.lifecycle.records_for_tests import a_leaving, a_node, a_plan, a_record
from tests.unit.lifecycle.takeover.karpenters_objects import (
    CLUSTER,
    INSTANCE,
    NAME,
    NODE,
    PROVIDER_ID,
    TAGS,
    a_class,
    a_condition,
    a_karpenter_node,
    a_launched_claim,
    a_manifest,
    the_owners,
)
from tests.unit.lifecycle.takeover.karpenters_objects import HASHES as ADOPTED_CLAIM_HASHES

MACHINE = Machine(
    instance_id=INSTANCE,
    provider_id=PROVIDER_ID,
    offering=Offering("m5.large", "us-east-1a", "spot", 1),
    labels={labels.INSTANCE_TYPE: "m5.large", labels.CAPACITY_TYPE: "on-demand"},
    capacity={"cpu": 2000, "memory": 1},
)
SECOND = timedelta(seconds=1)
POOL = a_pool(template_hash="pool-of-today", own_annotations=ADOPTED_CLAIM_HASHES)


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
    edited = msgspec.structs.replace(POOL, own_annotations={**ADOPTED_CLAIM_HASHES, labels.NODEPOOL_HASH: "new"})
    record = a_claim_of(node_claim(a_manifest()), pool=edited)
    assert drift_of(record) == "NodePoolDrifted"
    assert record.plan.annotations[labels.NODEPOOL_HASH] == ADOPTED_CLAIM_HASHES[labels.NODEPOOL_HASH], (
        "its own hash is kept"
    )


def test_hashes_of_another_version_say_nothing_of_drift() -> None:
    """Karpenter compares none either: it writes the new version to both first."""
    edited = msgspec.structs.replace(POOL, own_annotations={**ADOPTED_CLAIM_HASHES, labels.NODEPOOL_HASH: "new"})
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


# Which NodeClaims of Karpenter's may be ours.


def with_claim(**changes: Any) -> Any:
    claim = a_launched_claim()
    return msgspec.structs.replace(claim, node_claim=msgspec.structs.replace(claim.node_claim, **changes))


def our_record(provider_id: str = PROVIDER_ID) -> Any:
    record = a_record()
    machine = msgspec.structs.replace(
        record.machine, provider_id=provider_id, instance_id=provider_id.rpartition("/")[2]
    )
    return msgspec.structs.replace(record, name=NAME, machine=machine)


def test_a_working_node_may_be_ours() -> None:
    assert adoption_state(a_launched_claim(), the_owners(), NOW) == (AdoptionState.ADOPTABLE, None)


def test_one_that_boots_may_be_ours_as_long_as_it_may_still_join() -> None:
    booting = a_launched_claim(nodes=(), launched_at=NOW - timedelta(minutes=14))
    assert adoption_state(booting, the_owners(), NOW) == (AdoptionState.ADOPTABLE, None)


@pytest.mark.parametrize(
    ("found", "owners", "reason", "part"),
    [
        (with_claim(node_class=None), the_owners(), AdoptionReason.OTHER_PROVIDER, "(none)"),
        (with_claim(deleted_at=NOW), the_owners(), AdoptionReason.BEING_DELETED, f"NodeClaim {NAME}"),
        (
            with_claim(conditions={"Rebooting": Condition("True", "RebootIssued")}),
            the_owners(),
            AdoptionReason.REBOOTING,
            f"NodeClaim {NAME}",
        ),
        (
            a_launched_claim(nodes=(a_karpenter_node(deleted_at=NOW),)),
            the_owners(),
            AdoptionReason.BEING_DELETED,
            "Node ip-10",
        ),
        (with_claim(provider_id=""), the_owners(), AdoptionReason.NOT_LAUNCHED, "status.providerID"),
        (
            a_launched_claim(),
            the_owners(pools={}),
            AdoptionReason.NODE_POOL_NOT_FOUND,
            "NodePool default does not exist",
        ),
        (
            a_launched_claim(),
            the_owners(pools={"default": a_pool(deleted_at=NOW)}),
            AdoptionReason.NODE_POOL_NOT_FOUND,
            "is being deleted",
        ),
        (with_claim(labels={}), the_owners(), AdoptionReason.NODE_POOL_NOT_FOUND, "(none)"),
        (a_launched_claim(), the_owners(node_classes={}), AdoptionReason.NODE_CLASS_NOT_FOUND, "does not exist"),
        (
            a_launched_claim(),
            the_owners(node_classes={"default": a_class(deleted_at=NOW)}),
            AdoptionReason.NODE_CLASS_NOT_FOUND,
            "is being deleted",
        ),
        (a_launched_claim(tags=None), the_owners(), AdoptionReason.INSTANCE_NOT_FOUND, "i-0abc"),
        (
            a_launched_claim(tags={**TAGS, labels.CLUSTER_TAG: "other"}),
            the_owners(),
            AdoptionReason.OTHER_OWNER,
            "'other' and not 'prod'",
        ),
        (
            a_launched_claim(tags={**TAGS, labels.CLAIM: "other"}),
            the_owners(),
            AdoptionReason.OTHER_OWNER,
            "fleetwright.dev/claim",
        ),
        (
            a_launched_claim(nodes=(a_karpenter_node(), a_karpenter_node(name="twin"))),
            the_owners(),
            AdoptionReason.SEVERAL_NODES,
            "twin",
        ),
        (a_launched_claim(nodes=()), the_owners(), AdoptionReason.NOT_JOINED, PROVIDER_ID),
        (
            a_launched_claim(),
            the_owners({NAME: our_record("aws:///us-east-1a/i-other")}),
            AdoptionReason.NAME_TAKEN,
            "i-other",
        ),
    ],
)
def test_what_is_in_the_way_is_named_with_its_object(
    found: Any, owners: Any, reason: AdoptionReason, part: str
) -> None:
    state, objection = adoption_state(found, owners, NOW)
    assert state is AdoptionState.REFUSED
    assert objection is not None
    assert objection.reason is reason
    assert part in objection.message
    assert objection.reason.advice or objection.reason is AdoptionReason.OTHER_PROVIDER


@pytest.mark.parametrize(("early", "refused"), [(timedelta(microseconds=1), False), (timedelta(0), True)])
def test_a_node_that_has_not_joined_in_time_is_an_obstacle(early: timedelta, *, refused: bool) -> None:
    claim = a_launched_claim(nodes=(), launched_at=NOW - REGISTRATION_TIMEOUT + early)
    objection = adoption_state(claim, the_owners(), NOW)[1]
    assert (objection is not None and objection.reason is AdoptionReason.NOT_JOINED) == refused


def test_missing_tags_are_added_and_no_obstacle() -> None:
    """Karpenter tags instances a moment after their nodes register."""
    assert adoption_state(a_launched_claim(tags={}), the_owners(), NOW)[0] is AdoptionState.ADOPTABLE


def ours(**changes: Any) -> Any:
    obj = a_manifest()
    obj["metadata"]["annotations"][labels.CLAIM] = NAME
    obj["metadata"]["finalizers"] = [labels.TERMINATION_FINALIZER]
    node = a_karpenter_node(annotations={labels.CLAIM: NAME}, finalizers=(labels.TERMINATION_FINALIZER,))
    return a_launched_claim(obj, **{"nodes": (node,), "tags": {**TAGS, labels.CLAIM: NAME}, **changes})


def test_a_run_that_died_is_gone_on_with() -> None:
    """With the row stored, each mark that is missing makes it unfinished."""
    owners = the_owners({NAME: our_record()})
    assert adoption_state(ours(), owners, NOW) == (AdoptionState.OURS, None)
    unnamed = msgspec.structs.replace(ours().node_claim, annotations={})
    halves = (
        ours(tags=TAGS),
        ours(nodes=(a_karpenter_node(),)),
        ours(finalizers=("karpenter.sh/termination",)),
        msgspec.structs.replace(ours(), node_claim=unnamed),
    )
    for half in halves:
        assert not is_marked(half, CLUSTER)
        assert adoption_state(half, owners, NOW) == (AdoptionState.BEGUN, None)


def test_a_half_done_one_that_went_meanwhile_is_refused() -> None:
    owners = the_owners({NAME: our_record()})
    gone, deleted = a_launched_claim(tags=None), with_claim(deleted_at=NOW)
    reasons = [
        objection.reason
        for _, objection in (adoption_state(found, owners, NOW) for found in (gone, deleted))
        if objection
    ]
    assert reasons == [AdoptionReason.INSTANCE_NOT_FOUND, AdoptionReason.BEING_DELETED]


# Marks of Karpenter's and of ours.


HASHES = {labels.NODEPOOL_HASH: "h", labels.NODEPOOL_HASH_VERSION: "fleetwright-v2"}
OTHERS = "example.com/keep"
OWNER = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u"}


def the_record() -> Any:
    return a_record(plan=a_plan(name=NAME, annotations=HASHES))


def test_there_and_back_a_node_claim_is_karpenters_as_before_but_for_hashes() -> None:
    """Annotations of Karpenter's that we do not read survive, such as the one that keeps an instance profile."""
    before = a_manifest()
    before["metadata"]["ownerReferences"] = [OWNER, *before["metadata"]["ownerReferences"]]
    record = the_record()
    ours = merged(before, {"metadata": takeover.node_claim_made_ours(record, before)})
    assert ours["metadata"]["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert ours["metadata"]["ownerReferences"] == [OWNER], "what others wrote stays"
    patch = {"metadata": takeover.node_claim_made_karpenters(record, ours, ("default", "uid-of-pool"))}
    after = merged(ours, patch)
    for field in ("finalizers", "ownerReferences"):
        assert after["metadata"][field] == before["metadata"][field]
    assert after["metadata"]["annotations"] == {**before["metadata"]["annotations"], **HASHES}
    assert after["spec"] == before["spec"]


def test_there_and_back_a_node_keeps_what_others_put_on_it() -> None:
    node: dict[str, Any] = {
        "metadata": {
            "annotations": {"a": "b"},
            "labels": {labels.EXCLUDE_FROM_BALANCERS: "karpenter"},
            "finalizers": [OTHERS, "karpenter.sh/termination"],
            "ownerReferences": [OWNER, {"kind": "NodeClaim", "name": NAME, "uid": "1"}],
        }
    }
    metadata = node["metadata"]
    taken = takeover.node_made_ours(the_record(), metadata["finalizers"], metadata["ownerReferences"])
    ours = merged(node, {"metadata": taken})["metadata"]
    assert ours["finalizers"] == [OTHERS, labels.TERMINATION_FINALIZER]
    assert ours["ownerReferences"] == [OWNER]
    assert ours["annotations"][labels.CLAIM] == the_record().name
    given = takeover.node_made_karpenters(ours["finalizers"], ours["ownerReferences"], ours["labels"], (NAME, "2"))
    after = merged({"metadata": ours}, {"metadata": given})["metadata"]
    assert after["finalizers"] == [OTHERS, "karpenter.sh/termination"]
    assert [owner["uid"] for owner in after["ownerReferences"]] == ["u", "2"]
    assert after["annotations"].keys() == {"a", *HASHES}
    assert after["labels"] == {}


def test_taints_of_a_boot_or_a_drain_go_and_others_stay() -> None:
    team = Taint("team", "NoSchedule", "a")
    assert takeover.taints_that_stay((team, HELD, DISRUPTED)) == (team,)


def test_tags_say_whose_it_is() -> None:
    ours, theirs = takeover.our_tags(the_record(), "prod"), takeover.karpenters_tags(the_record(), "prod")
    assert theirs["kubernetes.io/cluster/prod"] == "owned"
    assert ours.keys() - theirs.keys() == {labels.CLAIM, *HASHES}
    assert set(takeover.OURS_ALONE) >= ours.keys() - theirs.keys()


def test_nobody_keeps_a_class_from_being_deleted() -> None:
    assert takeover.class_made_ours([OTHERS, "karpenter.k8s.aws/termination"]) == {"finalizers": [OTHERS]}


def test_an_object_without_metadata_or_finalizers_gets_ours() -> None:
    """A manifest may leave out what is empty."""
    for bare in ({}, {"metadata": None}, {"metadata": {"finalizers": None, "ownerReferences": None}}):
        taken = takeover.node_claim_made_ours(the_record(), bare)
        assert taken["finalizers"] == [labels.TERMINATION_FINALIZER]
        assert taken["ownerReferences"] == []


# Which claims of ours may be Karpenter's.


MIRROR = {"metadata": {"name": "c"}, "status": {"providerID": RELEASE_PROVIDER_ID}}
DELETED = {"metadata": {"name": "c", "deletionTimestamp": "2026-11-20T00:00:00Z"}, "status": {}}


def owned(record: ClaimRecord | None = None, **changes: Any) -> OwnedClaim:
    fields = {
        "record": record or a_record(),
        "node_claim": MIRROR,
        "node": a_node(),
        "tagged": ("i-1",),
        "pool_uid": "p",
    }
    return OwnedClaim(**{**fields, **changes})


@pytest.mark.parametrize(
    "given",
    [
        owned(),
        owned(node_claim=None),
        owned(a_record(ClaimPhase.LAUNCHED), node=None),
        owned(a_record(ClaimPhase.REQUESTED), tagged=(), node=None),
        owned(a_leaving()),
    ],
)
def test_what_runs_and_stays_may_go(given: OwnedClaim) -> None:
    assert objection(given) is None


@pytest.mark.parametrize(
    ("given", "reason", "part"),
    [
        (owned(a_record(ClaimPhase.REQUESTED)), ReleaseReason.LAUNCHING, "i-1"),
        (owned(a_leaving(terminated_at=NOW)), ReleaseReason.LEAVING, "being terminated"),
        (owned(node=a_node(deleted_at=NOW)), ReleaseReason.LEAVING, "Node n"),
        (owned(node_claim=DELETED), ReleaseReason.LEAVING, "NodeClaim c"),
        (owned(tagged=()), ReleaseReason.GONE, "i-1"),
        (owned(node=None), ReleaseReason.GONE, "Node n does not exist"),
        (owned(pool_uid=""), ReleaseReason.POOL_NOT_FOUND, "NodePool default"),
        (owned(node_claim={"metadata": {}, "status": {"providerID": "x"}}), ReleaseReason.OTHER_NODE_CLAIM, "of x"),
    ],
)
def test_release_what_is_in_the_way_is_named_with_its_object(
    given: OwnedClaim, reason: ReleaseReason, part: str
) -> None:
    found = objection(given)
    assert found is not None
    assert found.reason is reason
    assert part in found.message
    assert reason.advice


def test_a_drain_that_has_begun_is_called_off() -> None:
    hold = Hold(NOW, "r", "m")
    after = released(msgspec.structs.replace(a_leaving(), is_disrupting=True, hold=hold))
    assert (after.deletion, after.is_disrupting, after.hold) == (None, False, None)


def test_the_node_claim_is_one_that_karpenter_goes_on_from() -> None:
    """Valid for the API server, without a sign of ours, with every condition that Karpenter would wait for."""
    plan = a_plan(annotations={labels.NODEPOOL_HASH: "h", labels.NODEPOOL_HASH_VERSION: "v", labels.DECISION: "d"})
    record = a_record(plan=plan, initialized_at=NOW, last_pod_event_at=NOW - timedelta(minutes=1))
    status = karpenters_status(record, "")
    obj = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **karpenters_object(record), "status": status}
    assert problems(obj) == ()
    assert obj["metadata"]["finalizers"] == [labels.KARPENTER_FINALIZER]
    assert obj["metadata"]["annotations"] == {labels.NODEPOOL_HASH: "h", labels.NODEPOOL_HASH_VERSION: "v"}
    told = {c["type"]: c["status"] for c in status["conditions"]}
    assert {kind: told[kind] for kind in ("Launched", "Registered", "Initialized")} == dict.fromkeys(
        ("Launched", "Registered", "Initialized"), "True"
    )
    assert "Drifted" not in told
    assert (status["providerID"], status["nodeName"]) == (RELEASE_PROVIDER_ID, "n")
    assert status["lastPodEventTime"] == "2026-11-19T23:59:00Z"


def test_a_drifted_node_stays_drifted() -> None:
    told = {c["type"]: c for c in karpenters_status(a_record(initialized_at=NOW), "NodePoolDrifted")["conditions"]}
    assert (told["Drifted"]["status"], told["Drifted"]["reason"]) == ("True", "NodePoolDrifted")
