"""NodeClaims that somebody made as plans."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from core import labels
from core.api.older_versions import problems
from core.api.translation import node_claim
from core.lifecycle.node_claim_objects import Mirrored, hand_made_plan, is_made_by_hand, is_mirror, mirrored, new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import INITIALIZED, READY, Condition, ObjectRef, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.reasons.code import Refusal
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_leaving, a_plan, a_record

ON_DEMAND = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}


def a_type(name: str, cpu: int, price: int) -> InstanceType:
    offerings = tuple(
        Offering(name, zone, kind, price // (3 if kind == labels.SPOT else 1))
        for zone in ("us-east-1a", "us-east-1b")
        for kind in (labels.SPOT, labels.ON_DEMAND)
    )
    return InstanceType(
        name=name,
        labels={labels.ARCH: ("amd64",)},
        capacity={"cpu": cpu * 1000, "memory": 2**30, "pods": 29},
        overhead={"cpu": 100},
        offerings=offerings,
    )


TYPES = (a_type("big", 8, 80), a_type("mid", 4, 50), a_type("odd", 4, 40), a_type("small", 2, 10))
REFERENCE = ObjectRef(labels.AWS_GROUP, "EC2NodeClass", "default")
CLASS = NodeClass(name="default", is_ready=True, zone_ids={"use1-az1": "us-east-1a"})


def a_market(node_class: NodeClass = CLASS) -> Snapshot:
    return Snapshot(now=NOW, node_classes=(node_class,), catalogue=Catalogue(default=TYPES))


def written(*requirements: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
    return {
        "metadata": {"name": "mine", "uid": "u-1", **(metadata or {})},
        "spec": {"nodeClassRef": reference, "requirements": list(requirements), **spec},
    }


def plan_of(obj: dict[str, Any]) -> PlannedClaim:
    planned = hand_made_plan(obj, a_market(), {})
    assert isinstance(planned, PlannedClaim), planned
    return planned


def test_it_is_launched_as_it_says() -> None:
    """Types by price, of those that hold its requests and meet its requirements."""
    plan = plan_of(
        written(
            ON_DEMAND,
            {"key": labels.ZONE_ID, "operator": "In", "values": ["use1-az1"]},
            {"key": "example.com/team", "operator": "In", "values": ["red", "blue"]},
            metadata={
                "labels": {"app": "x", labels.NODEPOOL: "none", labels.ARCH: "arm64"},
                "annotations": {
                    labels.DO_NOT_DISRUPT: "true",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                },
            },
            resources={"requests": {"cpu": "3"}},
            taints=[{"key": "a", "effect": "NoSchedule"}],
            startupTaints=[{"key": "b", "effect": "NoExecute"}],
            terminationGracePeriod="1h",
        )
    )
    assert plan.instance_types == ("odd", "mid", "big")
    assert (plan.zones, plan.capacity_types, plan.price) == (("us-east-1a",), ("on-demand",), 40)
    assert (plan.node_pool, plan.made_by_hand, plan.resources) == ("none", "u-1", {"cpu": 3000})
    assert plan.labels == {
        "app": "x",
        "example.com/team": "blue",
        labels.NODEPOOL: "none",
        labels.NODECLASS: "default",
    }
    assert plan.annotations == {labels.DO_NOT_DISRUPT: "true", labels.MADE_BY_HAND: "u-1"}
    assert (plan.taints, plan.startup_taints) == ((Taint("a", "NoSchedule"),), (Taint("b", "NoExecute"),))
    assert (plan.expire_after, plan.termination_grace_period) == (timedelta(hours=720), timedelta(hours=1))


def test_without_a_node_pool_it_has_no_such_label() -> None:
    """An empty label would make it a node of a NodePool without a name."""
    plan = plan_of(written())
    assert (plan.node_pool, labels.NODEPOOL in plan.labels, plan.capacity_types) == ("", False, ("on-demand", "spot"))


@pytest.mark.parametrize(
    ("obj", "node_class", "reason", "named"),
    [
        (written(ON_DEMAND | {"values": []}), CLASS, "NodeClaimValidationFailed", "spec.requirements[0]"),
        (written(expireAfter="soon"), CLASS, "NodeClaimValidationFailed", "spec.expireAfter"),
        (
            written(metadata={"finalizers": ["a.io/b"]}),
            CLASS,
            "NodeClaimValidationFailed",
            "metadata.finalizers: a.io/b",
        ),
        (written(metadata={"labels": {"a": "$(b)"}}), CLASS, "NodeClaimValidationFailed", "labels of its node"),
        (
            written(nodeClassRef={"group": labels.AWS_GROUP, "kind": "X", "name": "default"}),
            CLASS,
            "NodeClaimValidationFailed",
            "spec.nodeClassRef.kind: 'X' is not EC2NodeClass",
        ),
        (written(), NodeClass(name="other", is_ready=True), "NodeClassNotFound", "spec.nodeClassRef.name"),
        (written(), NodeClass(name="default"), "NodeClassNotReady", "EC2NodeClass default"),
        (written(ON_DEMAND | {"key": labels.ARCH, "values": ["arm64"]}), CLASS, "InsufficientCapacity", labels.ARCH),
        (
            written(ON_DEMAND | {"key": labels.ZONE_ID, "values": ["use1-az9"]}),
            CLASS,
            "InsufficientCapacity",
            labels.ZONE_ID,
        ),
        (written(resources={"requests": {"cpu": "8"}}), CLASS, "InsufficientCapacity", "spec.resources.requests"),
        (written(resources={"requests": {"x.io/y": "1"}}), CLASS, "InsufficientCapacity", "spec.resources.requests"),
    ],
)
def test_what_cannot_be_launched_is_named(obj: dict[str, Any], node_class: NodeClass, reason: str, named: str) -> None:
    """Its author reads it in a condition, and nowhere else."""
    planned = hand_made_plan(obj, a_market(node_class), {})
    assert isinstance(planned, Refusal)
    assert (planned.reason, named in planned.message) == (reason, True), planned.message


@pytest.mark.parametrize(
    ("free", "zones"),
    [
        ({}, ("us-east-1a", "us-east-1b")),
        ({"a1": 1}, ("us-east-1a", "us-east-1b")),  # a2 has plenty
        ({"a1": 1, "a2": 0}, ("us-east-1b",)),  # a node takes two
        ({"a1": 2, "a2": 0, "b1": -1}, ("us-east-1a",)),
        ({"a1": 0, "a2": 1, "b1": 0}, ()),
    ],
)
def test_it_is_launched_where_a_subnet_has_its_addresses(free: dict[str, int], zones: tuple[str, ...]) -> None:
    """EC2 refused it, which closed the subnet for everything else."""
    subnets = (("a1", "us-east-1a"), ("a2", "us-east-1a"), ("b1", "us-east-1b"))
    node_class = msgspec.structs.replace(CLASS, subnets=subnets, addresses_per_node=2)
    planned = hand_made_plan(written(), msgspec.structs.replace(a_market(node_class), subnet_addresses=free), {})
    if zones:
        assert isinstance(planned, PlannedClaim)
        assert planned.zones == zones
    else:
        assert isinstance(planned, Refusal)
        expected = (
            "no subnet of EC2NodeClass default has the free addresses that its node takes (us-east-1a, us-east-1b)"
        )
        assert (planned.reason, planned.message) == ("InsufficientCapacity", expected)


@pytest.mark.parametrize(
    ("limits", "held", "types"),
    [
        ({}, {"cpu": 99_000}, ("small", "odd", "mid", "big")),
        ({"cpu": 10_000}, {"cpu": 2_000, "nodes": 1}, ("small", "odd", "mid", "big")),
        ({"cpu": 10_000}, {"cpu": 2_001, "nodes": 1}, ("small", "odd", "mid")),
        ({"cpu": 10_000, "memory": 2**30 - 1}, {}, ()),
        ({"x.io/y": 0}, {}, ("small", "odd", "mid", "big")),
        ({"nodes": 3}, {"nodes": 2}, ("small", "odd", "mid", "big")),
        ({"nodes": 3}, {"nodes": 3}, ()),
        ({"cpu": 1_000}, {"cpu": 5_000}, ()),
    ],
)
def test_only_types_within_the_limits_of_its_pool(
    limits: dict[str, int], held: dict[str, int], types: tuple[str, ...]
) -> None:
    """A claim is charged its largest type, so one type above the limits refused all smaller ones with it."""
    pools = (NodePool(name="own", node_class=REFERENCE, limits=limits), NodePool(name="other", node_class=REFERENCE))
    market = msgspec.structs.replace(a_market(), node_pools=pools)
    planned = hand_made_plan(written(metadata={"labels": {labels.NODEPOOL: "own"}}), market, {"own": held})
    if types:
        assert isinstance(planned, PlannedClaim)
        assert planned.instance_types == types
    else:
        assert isinstance(planned, Refusal)
        assert (planned.reason, planned.message) == ("LimitReached", "the limits of NodePool own have no room for it")


@pytest.mark.parametrize(
    ("metadata", "status", "expected"),
    [
        ({}, {}, True),
        ({"finalizers": ["x.io/y"]}, {}, True),
        ({"finalizers": [labels.TERMINATION_FINALIZER]}, {}, True),
        ({"deletionTimestamp": "2026-11-23T00:00:00Z", "finalizers": [labels.TERMINATION_FINALIZER]}, {}, True),
        ({"deletionTimestamp": "2026-11-23T00:00:00Z", "finalizers": ["x.io/y"]}, {}, False),
        ({"finalizers": [labels.KARPENTER_FINALIZER]}, {}, False),
        ({"annotations": {labels.CLAIM: "mine"}}, {}, False),
        ({}, {"providerID": "aws:///a/i-1"}, False),
        ({}, None, True),
    ],
)
def test_an_order_is_what_nobody_answers_for(
    metadata: dict[str, Any], status: dict[str, Any] | None, expected: bool
) -> None:
    """Taking what is Karpenter's for an order would launch its node a second time."""
    assert is_made_by_hand({**written(metadata=metadata), "status": status}) is expected


def refused(obj: dict[str, Any], market: Snapshot) -> str:
    planned = hand_made_plan(obj, market, {})
    assert isinstance(planned, Refusal)
    return planned.message


def test_a_refusal_says_in_words_what_is_missing() -> None:
    """Each requirement alone may be met, only not all together; a class may be leaving, or say itself what is wrong."""
    arm = msgspec.structs.replace(a_type("arm", 2, 10), labels={labels.ARCH: ("arm64",)})
    market = msgspec.structs.replace(a_market(), catalogue=Catalogue(default=(*TYPES, arm)))
    both = [
        {"key": labels.ARCH, "operator": "In", "values": ["arm64"]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["big"]},
    ]
    assert refused(written(*both), market) == "spec.requirements: no instance type meets them all"
    lone = {"key": labels.ARCH, "operator": "In", "values": ["riscv"]}
    assert refused(written(lone), market) == f"spec.requirements: no instance type meets that on {labels.ARCH}"
    leaving = msgspec.structs.replace(CLASS, deleted_at=NOW)
    assert refused(written(), a_market(leaving)) == "spec.nodeClassRef.name: EC2NodeClass default is being deleted"
    none = a_market(msgspec.structs.replace(CLASS, name="other"))
    assert refused(written(), none) == "spec.nodeClassRef.name: EC2NodeClass default does not exist"
    unready = msgspec.structs.replace(CLASS, is_ready=None)
    assert refused(written(), a_market(unready)) == "EC2NodeClass default: its condition Ready is not True"
    told = msgspec.structs.replace(CLASS, problem="no subnets")
    assert refused(written(), a_market(told)) == "EC2NodeClass default: no subnets"
    large = written(resources={"requests": {"cpu": "8"}})
    assert refused(large, a_market()) == (
        "spec.resources.requests: none of the 4 instance types that spec.requirements admit has as much"
    )
    sold_out = tuple(
        msgspec.structs.replace(
            kind, offerings=tuple(msgspec.structs.replace(offering, available=False) for offering in kind.offerings)
        )
        for kind in TYPES
    )
    empty = msgspec.structs.replace(a_market(), catalogue=Catalogue(default=sold_out))
    assert refused(written(), empty) == "none of the 4 suitable instance types is available now"


def test_types_of_one_price_are_in_the_order_of_their_names() -> None:
    """The first one is what a request asks for first, and what its author sees."""
    same = tuple(a_type(name, 2, 10) for name in ("b", "a", "c"))
    market = msgspec.structs.replace(a_market(), catalogue=Catalogue(default=same))
    planned = hand_made_plan(written(), market, {})
    assert isinstance(planned, PlannedClaim)
    assert planned.instance_types == ("a", "b", "c")


def test_a_type_that_is_sold_out_is_no_part_of_the_plan() -> None:
    big, *others = TYPES
    gone = tuple(msgspec.structs.replace(offering, available=False) for offering in big.offerings)
    market = msgspec.structs.replace(
        a_market(), catalogue=Catalogue(default=(msgspec.structs.replace(big, offerings=gone), *others))
    )
    planned = hand_made_plan(written(), market, {})
    assert isinstance(planned, PlannedClaim)
    assert planned.instance_types == ("small", "odd", "mid")


def test_an_order_for_another_providers_class_is_not_ours() -> None:
    theirs = written(nodeClassRef={"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"})
    assert not is_made_by_hand(theirs)
    assert not is_made_by_hand({"metadata": {"name": "bare"}})


# Claims as NodeClaim objects.


def node_claim_object_written(record: ClaimRecord) -> dict[str, Any]:
    mirrored_claim = mirrored(record)
    status = {**mirrored_claim.status, "conditions": mirrored_claim.written_conditions()}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **new_object(record), "status": status}


def statuses(record: ClaimRecord) -> dict[str, str]:
    return {kind: condition.status for kind, condition in mirrored(record).conditions.items()}


def test_the_object_is_valid_and_reads_back_as_planned() -> None:
    """Otherwise, the API server refuses it, or files with our NodeClaims give another plan than the cluster."""
    plan = a_plan(
        requirements=(Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT), Requirement(labels.ARCH, gte=None)),
        taints=(Taint("team", "NoSchedule", "a"),),
        startup_taints=(Taint("boot", "NoExecute"),),
        expire_after=timedelta(hours=720),
        termination_grace_period=timedelta(seconds=90),
    )
    obj = node_claim_object_written(a_record(plan=plan))
    assert problems(obj) == ()
    assert obj["spec"]["taints"] == [{"key": "team", "effect": "NoSchedule", "value": "a"}]
    assert obj["spec"]["startupTaints"] == [{"key": "boot", "effect": "NoExecute"}]
    assert (obj["spec"]["expireAfter"], obj["spec"]["terminationGracePeriod"]) == ("720h", "90s")
    read = node_claim(obj)
    for field in ("requirements", "resources", "taints", "startup_taints", "node_class", "termination_grace_period"):
        assert getattr(read, field) == getattr(plan, field), field
    assert (read.expire_after, read.provider_id, read.node_name) == (plan.expire_after, "aws:///us-east-1a/i-1", "n")
    assert read.is_true(READY)
    assert is_mirror(obj)


@pytest.mark.parametrize(
    ("phase", "ready", "reached"),
    [
        (ClaimPhase.REQUESTED, "Unknown", ("Unknown", "Unknown", "Unknown")),
        (ClaimPhase.LAUNCHED, "Unknown", ("True", "Unknown", "Unknown")),
        (ClaimPhase.REGISTERED, "Unknown", ("True", "True", "Unknown")),
        (ClaimPhase.INITIALIZED, "True", ("True", "True", "True")),
    ],
)
def test_conditions_follow_the_phase(phase: ClaimPhase, ready: str, reached: tuple[str, ...]) -> None:
    status_of = statuses(a_record(phase))
    assert (status_of["Ready"], (status_of["Launched"], status_of["Registered"], status_of["Initialized"])) == (
        ready,
        reached,
    )


def test_ready_names_the_missing_condition() -> None:
    late = {INITIALIZED: Condition("False", "InitializationTimeout", "it does not become ready")}
    ready = mirrored(a_record(ClaimPhase.REGISTERED), late).conditions[READY]
    assert (ready.status, ready.message) == ("False", "Initialized=False: it does not become ready")


@pytest.mark.parametrize(
    ("record", "leaves"),
    [
        (a_record(), False),
        (a_leaving(reason="Empty"), False),
        (a_leaving(reason="Empty", is_final=True), True),
        (a_leaving(reason="Empty", terminated_at=NOW), True),
        (a_leaving(reason="Drifted"), False),
        (a_leaving(reason="Drifted", deadline=NOW), True),
        (a_leaving(reason="SpotInterrupted", tainted=None), True),
        (a_leaving(reason="NodeClaimDeleted", tainted=None), True),
    ],
)
def test_a_node_claim_is_deleted_once_its_drain_cannot_be_cancelled(record: ClaimRecord, leaves: bool) -> None:
    """A deletion in the API server cannot be undone; the drain of a node that may stay can."""
    assert mirrored(record).is_leaving is leaves
    assert mirrored(record).conditions["DisruptionReason"].reason == record.deletion.reason if record.deletion else True


def test_fields_invisible_to_users_cause_no_write() -> None:
    """Otherwise, each pod that comes or goes costs a write."""
    record = a_record()
    busy = msgspec.structs.replace(record, version=9, pods_digest="x", last_pod_event_at=NOW, is_bound=True)
    assert mirrored(busy) == mirrored(record)


EARLIER, LATER = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)


def test_a_condition_says_since_when_and_what_is_missing() -> None:
    """`kubectl wait` and Karpenter's dashboards read them."""
    requested = a_record(ClaimPhase.REQUESTED, requested_at=EARLIER)
    conditions = mirrored(requested).conditions
    assert conditions["Launched"] == Condition(
        "Unknown", "AwaitingReconciliation", "its instance is not launched yet", EARLIER
    )
    assert conditions["Registered"].message == "its node has not joined the cluster yet"
    assert conditions["Initialized"].message == "its node is not ready for pods yet"
    assert conditions["Ready"] == Condition(
        "Unknown", "ReconcilingDependents", "Launched=Unknown: its instance is not launched yet", EARLIER
    )
    told = mirrored(a_record(ClaimPhase.REGISTERED, message="a device is missing")).conditions
    assert told["Initialized"].message == "a device is missing"
    moments = Moments(launched_at=EARLIER, seen_at=NOW)
    ready = mirrored(a_record(phase_since=NOW, moments=moments, initialized_at=LATER)).conditions
    assert ready == {
        "Launched": Condition("True", "Launched", "", EARLIER),
        "Registered": Condition("True", "Registered", "", NOW),
        "Initialized": Condition("True", "Initialized", "", LATER),
        "ConsistentStateFound": Condition("True", "ConsistentStateFound", "", LATER),
        "Ready": Condition("True", "Ready", "", LATER),
    }
    bare = mirrored(a_record(phase_since=NOW, moments=Moments())).conditions
    assert {bare[kind].changed_at for kind in ("Launched", "Registered", "Initialized")} == {NOW}


def test_a_node_that_is_smaller_than_planned_says_so() -> None:
    small = a_record(reason="FailedConsistencyCheck", message="node n has less", initialized_at=NOW)
    assert mirrored(small).conditions["ConsistentStateFound"] == Condition(
        "False", "FailedConsistencyCheck", "node n has less", NOW
    )
    other = a_record(reason="InitializationTimeout", message="late", initialized_at=NOW)
    assert mirrored(other).conditions["ConsistentStateFound"].status == "True"
    assert "ConsistentStateFound" not in mirrored(a_record(ClaimPhase.REGISTERED)).conditions


def test_the_course_of_a_drain_is_shown() -> None:
    """Why the node goes, whether its pods are leaving, and when its instance was terminated."""
    leaving_record = a_record(deletion=Deletion(reason="Empty", message="no pods", asked_at=EARLIER))
    conditions = mirrored(leaving_record).conditions
    assert conditions["DisruptionReason"] == Condition("True", "Empty", "no pods", EARLIER)
    assert "Drained" not in conditions
    draining = msgspec.structs.replace(
        leaving_record, deletion=msgspec.structs.replace(leaving_record.deletion, tainted_at=NOW)
    )
    conditions = mirrored(draining).conditions
    assert conditions["Drained"] == Condition("Unknown", "Draining", "pods are leaving its node", NOW)
    assert "InstanceTerminating" not in conditions
    ended = msgspec.structs.replace(draining, deletion=msgspec.structs.replace(draining.deletion, terminated_at=LATER))
    conditions = mirrored(ended).conditions
    assert conditions["Drained"] == Condition("True", "Drained", "", LATER)
    assert conditions["InstanceTerminating"] == Condition("True", "InstanceTerminating", "", LATER)


def test_the_worst_condition_decides_whether_it_is_ready() -> None:
    """One that is False comes before one that is only unknown; a found condition before the record's own."""
    conditions = {"Registered": Condition("False", "X", "the kubelet is gone", NOW)}
    ready = mirrored(a_record(ClaimPhase.REQUESTED), conditions).conditions["Ready"]
    assert ready == Condition("False", "UnhealthyDependents", "Registered=False: the kubelet is gone", NOW)


def test_the_status_has_what_is_known_and_nothing_empty() -> None:
    assert mirrored(a_record(ClaimPhase.REQUESTED)).status == {}
    record = a_record()
    assert record.machine is not None
    sized = msgspec.structs.replace(
        record.machine, image_id="ami-1", capacity={"cpu": 2000, "pods": 29}, allocatable={"cpu": 1900}
    )
    assert mirrored(msgspec.structs.replace(record, machine=sized)).status == {
        "nodeName": "n",
        "providerID": PROVIDER_ID,
        "imageID": "ami-1",
        "capacity": {"cpu": "2", "pods": "29"},
        "allocatable": {"cpu": "1900m"},
    }


def test_conditions_are_written_in_order_and_in_kubernetes_form() -> None:
    """A moment in UTC and in whole seconds; a reason is never empty, or the API server refuses it."""
    at = datetime(2026, 11, 22, 7, 31, 5, 900, tzinfo=timezone(timedelta(hours=2)))
    kinds = {"B": Condition("True", "", "", at), "A": Condition("False", "Why", "because", None)}
    found = Mirrored(labels={}, status={}, conditions=kinds, is_leaving=False).written_conditions()
    assert found == [
        {
            "type": "A",
            "status": "False",
            "reason": "Why",
            "message": "because",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "observedGeneration": 1,
        },
        {
            "type": "B",
            "status": "True",
            "reason": "B",
            "message": "",
            "lastTransitionTime": "2026-11-22T05:31:05Z",
            "observedGeneration": 1,
        },
    ]


@pytest.mark.parametrize(
    ("span", "written"),
    [(None, "Never"), (timedelta(hours=1), "1h"), (timedelta(days=2), "48h"), (timedelta(minutes=90), "5400s")],
)
def test_an_expiry_is_written_in_hours_or_seconds(span: timedelta | None, written: str) -> None:
    """The schema takes no days and no fractions."""
    obj = new_object(a_record(plan=a_plan(expire_after=span)))
    assert obj["spec"]["expireAfter"] == written
    assert "terminationGracePeriod" not in obj["spec"]
    assert not {"taints", "startupTaints"} & obj["spec"].keys()


def test_an_object_names_its_claim_its_class_and_our_finalizer() -> None:
    obj = new_object(a_record(plan=a_plan(annotations={"b": "2"}, resources={"cpu": 1500})))
    assert obj["metadata"] == {
        "name": "c",
        "labels": mirrored(a_record()).labels,
        "annotations": {"b": "2", labels.CLAIM: "c"},
        "finalizers": [labels.TERMINATION_FINALIZER],
    }
    assert obj["spec"]["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert obj["spec"]["resources"] == {"requests": {"cpu": "1500m"}}


@pytest.mark.parametrize(
    ("metadata", "is_ours"),
    [
        ({"name": "c", "annotations": {labels.CLAIM: "c"}}, True),
        ({"name": "c", "annotations": {labels.CLAIM: "d"}}, False),
        ({"name": "c", "annotations": None}, False),
        ({"name": "c"}, False),
    ],
)
def test_a_mirror_is_known_by_its_annotation(metadata: dict[str, Any], *, is_ours: bool) -> None:
    """A copy of a mirror's manifest under another name is an order of its author."""
    assert is_mirror({"metadata": metadata}) is is_ours
