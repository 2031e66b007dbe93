"""NodeClaims that somebody made as plans."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.lifecycle.mirror.hand_made_claim import hand_made_plan, is_made_by_hand
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_claim import ObjectRef
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values.taints import Taint
from core.reasons.refusal import Refusal
from tests.builders import NOW

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
    found = hand_made_plan(obj, a_market(), {})
    assert isinstance(found, PlannedClaim), found
    return found


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
    found = hand_made_plan(obj, a_market(node_class), {})
    assert isinstance(found, Refusal)
    assert (found.reason, named in found.message) == (reason, True), found.message


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
    found = hand_made_plan(written(), msgspec.structs.replace(a_market(node_class), subnet_addresses=free), {})
    if zones:
        assert isinstance(found, PlannedClaim)
        assert found.zones == zones
    else:
        assert isinstance(found, Refusal)
        expected = (
            "no subnet of EC2NodeClass default has the free addresses that its node takes (us-east-1a, us-east-1b)"
        )
        assert (found.reason, found.message) == ("InsufficientCapacity", expected)


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
    found = hand_made_plan(written(metadata={"labels": {labels.NODEPOOL: "own"}}), market, {"own": held})
    if types:
        assert isinstance(found, PlannedClaim)
        assert found.instance_types == types
    else:
        assert isinstance(found, Refusal)
        assert (found.reason, found.message) == ("LimitReached", "the limits of NodePool own have no room for it")


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
    found = hand_made_plan(obj, market, {})
    assert isinstance(found, Refusal)
    return found.message


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
            kind, offerings=tuple(msgspec.structs.replace(one, available=False) for one in kind.offerings)
        )
        for kind in TYPES
    )
    empty = msgspec.structs.replace(a_market(), catalogue=Catalogue(default=sold_out))
    assert refused(written(), empty) == "none of the 4 suitable instance types is available now"


def test_types_of_one_price_are_in_the_order_of_their_names() -> None:
    """The first one is what a request asks for first, and what its author sees."""
    same = tuple(a_type(name, 2, 10) for name in ("b", "a", "c"))
    market = msgspec.structs.replace(a_market(), catalogue=Catalogue(default=same))
    found = hand_made_plan(written(), market, {})
    assert isinstance(found, PlannedClaim)
    assert found.instance_types == ("a", "b", "c")


def test_a_type_that_is_sold_out_is_no_part_of_the_plan() -> None:
    big, *others = TYPES
    gone = tuple(msgspec.structs.replace(one, available=False) for one in big.offerings)
    market = msgspec.structs.replace(
        a_market(), catalogue=Catalogue(default=(msgspec.structs.replace(big, offerings=gone), *others))
    )
    found = hand_made_plan(written(), market, {})
    assert isinstance(found, PlannedClaim)
    assert found.instance_types == ("small", "odd", "mid")


def test_an_order_for_another_providers_class_is_not_ours() -> None:
    theirs = written(nodeClassRef={"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"})
    assert not is_made_by_hand(theirs)
    assert not is_made_by_hand({"metadata": {"name": "bare"}})
