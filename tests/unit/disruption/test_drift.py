"""When a claim has drifted from its NodePool and EC2NodeClass."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.drift import DriftCheck
from core.model.catalogue import Catalogue
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import DRIFTED, Condition, NodeClaim
from core.model.values.requirements import Requirement
from core.reasons.nodes import DriftReason
from tests.builders import NOW, a_node_of, a_pool, a_snapshot, a_type

TYPE = a_type()
CLAIM, _ = a_node_of(TYPE)


def reason(claim: NodeClaim = CLAIM, pool: NodePool | None = None, **snapshot: Any) -> str:
    """Why the claim has drifted."""
    return DriftCheck(a_snapshot(**{"types": (TYPE,), **snapshot})).reason(claim, pool or a_pool())


def changed(**changes: Any) -> NodeClaim:
    """The claim, with changes."""
    return msgspec.structs.replace(CLAIM, **changes)


def hashes(value: str, version: str = "v3") -> dict[str, str]:
    """The pool's hash annotations."""
    return {labels.NODEPOOL_HASH: value, labels.NODEPOOL_HASH_VERSION: version}


def test_nothing_changed() -> None:
    """A node that matches its pool has not drifted."""
    assert reason() == ""


@pytest.mark.parametrize(("status", "expected"), [("True", "CloudProviderDrifted"), ("False", ""), ("Unknown", "")])
def test_condition_is_believed(status: str, expected: str) -> None:
    """Whatever set Drifted=True may know more than we do."""
    assert reason(changed(conditions={DRIFTED: Condition(status, "CloudProviderDrifted")})) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (hashes("1"), hashes("1"), ""),
        (hashes("1"), hashes("2"), DriftReason.NODE_POOL_DRIFTED),
        (hashes("1"), hashes("2", "v4"), ""),
        ({}, hashes("2"), ""),
        (hashes("1"), {}, ""),
    ],
)
def test_template_hash(ours: dict[str, str], theirs: dict[str, str], expected: str) -> None:
    """Hashes count only if both exist and have the same version: an upgrade must not replace the fleet."""
    assert reason(changed(annotations=ours), a_pool(own_annotations=theirs)) == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement.one_of(labels.ZONE, "us-east-1a"), ""),
        (Requirement.one_of(labels.ZONE, "us-east-1b"), DriftReason.REQUIREMENTS_DRIFTED),
        (Requirement.of(labels.ARCH, "NotIn", ["arm64"]), ""),
        (Requirement.of("example.com/team", "Exists"), DriftReason.REQUIREMENTS_DRIFTED),
        (Requirement.of("example.com/team", "DoesNotExist"), ""),
    ],
)
def test_requirements(requirement: Requirement, expected: str) -> None:
    """The requirements must still admit the claim's labels; a label that is now required and missing is drift."""
    assert reason(pool=a_pool("default", requirement)) == expected


def test_type_that_is_gone() -> None:
    """A type that left the catalogue, or is no longer sold in the node's zone, cannot be launched again."""
    elsewhere = msgspec.structs.replace(TYPE, offerings=tuple(o for o in TYPE.offerings if o.zone != "us-east-1a"))
    assert reason(types=()) == DriftReason.INSTANCE_TYPE_NOT_FOUND
    assert reason(types=(elsewhere,)) == DriftReason.INSTANCE_TYPE_NOT_FOUND


def test_type_that_is_out_of_capacity_is_still_offered() -> None:
    """Missing capacity is temporary; it is not drift."""
    empty = tuple(msgspec.structs.replace(o, available=False) for o in TYPE.offerings)
    assert reason(types=(msgspec.structs.replace(TYPE, offerings=empty),)) == ""


def test_the_type_of_a_young_claim_is_not_checked() -> None:
    """A catalogue may lag behind a launch; an hour later it no longer does."""
    assert reason(changed(created_at=NOW - timedelta(hours=1)), types=()) == ""


@pytest.mark.parametrize(
    ("known", "offered", "expected"),
    [
        ({labels.CAPACITY_TYPE: labels.ON_DEMAND}, labels.ON_DEMAND, ""),
        ({labels.CAPACITY_TYPE: labels.ON_DEMAND}, labels.SPOT, DriftReason.INSTANCE_TYPE_NOT_FOUND),
        ({labels.CAPACITY_TYPE: labels.RESERVED}, labels.SPOT, DriftReason.INSTANCE_TYPE_NOT_FOUND),
        ({}, labels.SPOT, ""),
    ],
)
def test_a_type_that_is_no_longer_sold_by_the_terms_of_the_node_is_gone(
    known: dict[str, str], offered: str, expected: str
) -> None:
    """A node that does not say its terms, as one that was adopted, has drifted from none."""
    claim_labels = {key: value for key, value in CLAIM.labels.items() if key != labels.CAPACITY_TYPE}
    types = (a_type(capacity_types=(offered,)),)
    assert reason(changed(labels={**claim_labels, **known}), types=types) == expected


def test_a_condition_without_a_reason_is_believed_as_well() -> None:
    assert reason(changed(conditions={DRIFTED: Condition("True")})) == "Drifted"


def test_reserved_node_may_have_become_on_demand() -> None:
    """An expired reservation leaves an on-demand node, not a drifted one."""
    assert reason(changed(labels={**CLAIM.labels, labels.CAPACITY_TYPE: labels.RESERVED})) == ""


@pytest.mark.parametrize(
    ("amis", "image", "expected"),
    [
        ((("ami-1", ()),), "ami-1", ""),
        ((("ami-2", ()),), "ami-1", DriftReason.AMI_DRIFT),
        ((("ami-2", (Requirement.one_of(labels.ARCH, "arm64"),)), ("ami-1", ())), "ami-1", ""),
        ((("ami-2", ()), ("ami-1", ())), "ami-1", DriftReason.AMI_DRIFT),
        ((), "ami-1", ""),
        ((("ami-2", ()),), "", ""),
    ],
)
def test_image(amis: tuple[tuple[str, tuple[Requirement, ...]], ...], image: str, expected: str) -> None:
    """A launch today would use the first image that fits the node's type."""
    assert reason(changed(image_id=image), node_classes=(NodeClass(name="default", amis=amis),)) == expected


def test_a_newer_accelerator_image_does_not_apply_to_nodes_without_accelerators() -> None:
    """A family's alias resolves to images for several kinds of machines, the newest first."""
    nvidia = (Requirement.of(f"{labels.AWS_GROUP}/instance-gpu-count", "Exists"),)
    neuron = (Requirement.of(f"{labels.AWS_GROUP}/instance-accelerator-count", "Exists"),)
    amis = (("ami-nvidia", nvidia), ("ami-neuron", neuron), ("ami-1", ()))
    classes = (NodeClass(name="default", amis=amis),)
    assert reason(changed(image_id="ami-1"), node_classes=classes) == ""
    assert reason(changed(image_id="ami-1"), node_classes=classes, types=()) == DriftReason.INSTANCE_TYPE_NOT_FOUND
    young = changed(image_id="ami-1", created_at=NOW)
    assert reason(young, node_classes=classes, types=()) == ""


def test_class_hash() -> None:
    """A changed EC2NodeClass replaces its nodes."""
    keys = (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION)
    ours, theirs = dict(zip(keys, ("1", "v4"), strict=True)), dict(zip(keys, ("2", "v4"), strict=True))
    classes = (NodeClass(name="default", own_annotations=theirs),)
    assert reason(changed(annotations=ours), node_classes=classes) == DriftReason.NODE_CLASS_DRIFTED


def test_claim_that_is_not_launched_cannot_drift() -> None:
    """Its labels are not complete yet."""
    assert reason(changed(conditions={}), catalogue=Catalogue()) == ""


@pytest.mark.parametrize(
    ("launched", "selected", "expected"),
    [
        ({"security_groups": ("sg-1", "sg-2")}, {"security_groups": ("sg-2", "sg-1")}, ""),
        ({"security_groups": ("sg-1",)}, {"security_groups": ("sg-1", "sg-2")}, DriftReason.SECURITY_GROUP_DRIFT),
        ({"security_groups": ()}, {"security_groups": ("sg-1",)}, ""),
        ({"security_groups": ("sg-1",)}, {}, ""),
        ({"subnet_id": "subnet-a"}, {"subnets": (("subnet-a", "a"), ("subnet-b", "b"))}, ""),
        ({"subnet_id": "subnet-a"}, {"subnets": (("subnet-b", "b"),)}, DriftReason.SUBNET_DRIFT),
        ({"subnet_id": ""}, {"subnets": (("subnet-b", "b"),)}, ""),
        ({"subnet_id": "subnet-a"}, {}, ""),
    ],
)
def test_network(launched: dict[str, Any], selected: dict[str, Any], expected: str) -> None:
    """A changed selector must reach running nodes; a row or a class without values must not replace them all."""
    pool = a_pool()
    node_class = NodeClass(name=pool.node_class.name, **selected)
    assert reason(changed(**launched), pool, node_classes=(node_class,)) == expected


@pytest.mark.parametrize(
    ("launched", "selected", "expected"),
    [
        ("pg-1", "pg-1", ""),
        ("pg-1", "pg-2", DriftReason.PLACEMENT_GROUP_DRIFT),
        ("pg-1", "", ""),
        ("", "pg-1", ""),
    ],
)
def test_a_placement_group_that_is_not_selected_any_more(launched: str, selected: str, expected: str) -> None:
    """Where one of both is not known, all nodes of the class would be replaced."""
    pool = a_pool()
    claim = changed(labels={**CLAIM.labels, **({labels.PLACEMENT_GROUP_ID: launched} if launched else {})})
    node_class = NodeClass(name=pool.node_class.name, placement_group=selected)
    assert reason(claim, pool, node_classes=(node_class,)) == expected


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        (("cr-1", "cr-2"), ""),
        (("cr-2",), DriftReason.CAPACITY_RESERVATION_DRIFT),
        ((), DriftReason.CAPACITY_RESERVATION_DRIFT),
        (None, ""),
    ],
)
def test_a_reservation_that_is_not_selected_any_more(selected: tuple[str, ...] | None, expected: str) -> None:
    """Where the class says nothing of reservations, as with the gate off, all reserved nodes would be replaced."""
    pool = a_pool()
    claim = changed(labels={**CLAIM.labels, labels.RESERVATION_ID: "cr-1"})
    node_class = NodeClass(name=pool.node_class.name, reservations=selected)
    assert reason(claim, pool, node_classes=(node_class,)) == expected
