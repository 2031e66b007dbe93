"""An EC2NodeClass in the model, with what its status resolves it to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from core import labels
from core.api.node_class_translation import node_class_of
from core.api.schemas.base import examined
from core.api.schemas.ec2_node_class import EC2NodeClassSpec
from core.catalogue.discovered.address_reading import written_reading
from core.catalogue.discovered.placement_group import written_group
from core.catalogue.discovered.upcoming_reservations import written_upcoming
from core.catalogue.node_class import AddressReading
from core.model.node_pool import NodeClass
from core.model.values.requirements import Requirement
from tests.unit.api.objects import NODE_CLASS

AT = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)
SUBNETS = [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}, {"id": "subnet-2"}]


def translated(status: Any = None, **spec: Any) -> NodeClass:
    written = {**NODE_CLASS["spec"], **spec}
    read, _ = examined(EC2NodeClassSpec, written)
    assert read is not None
    return node_class_of(read, {**NODE_CLASS, "spec": written, **({} if status is None else {"status": status})})


def test_a_class_that_was_never_resolved_has_nothing() -> None:
    found = translated()
    assert (found.name, found.amis, found.subnets, found.security_groups) == ("default", (), (), ())
    assert (found.reservations, found.placement_group, found.addresses_per_node) == (None, "", 1)


def test_the_status_says_what_the_selectors_have_found() -> None:
    arm = {"key": labels.ARCH, "operator": "In", "values": ["arm64"]}
    amis = [{"id": "ami-1", "requirements": [arm]}]
    found = translated(
        {"subnets": SUBNETS, "securityGroups": [{"id": "sg-1"}], "amis": amis, "capacityReservations": []}
    )
    assert found.subnets == (("subnet-1", "us-east-1a"), ("subnet-2", ""))
    assert found.zone_ids == {"use1-az1": "us-east-1a"}
    assert (found.security_groups, found.reservations) == (("sg-1",), ())
    assert found.amis == (("ami-1", (Requirement.one_of(labels.ARCH, "arm64"),)),)


@pytest.mark.parametrize("status", ["broken", [], {"subnets": "x", "amis": {"id": 1}}, {"subnets": [7, {"zone": "a"}]}])
def test_a_status_that_something_else_wrote_is_taken_for_empty(status: Any) -> None:
    """Others may write it, and a class must not stop every plan."""
    found = translated(status)
    assert (found.subnets, found.amis) == ((), ())


def test_another_spec_has_another_hash() -> None:
    assert translated().spec_hash == translated({"subnets": SUBNETS}).spec_hash
    assert translated().spec_hash != translated(userData="#!/bin/sh").spec_hash


def annotated(**annotations: str) -> dict[str, Any]:
    metadata = {"name": "c", "uid": "u-1", "deletionTimestamp": "2026-11-20T01:02:03Z", "annotations": annotations}
    return {**NODE_CLASS, "metadata": metadata}


BLOCK = {"instanceType": "p5.48xlarge", "reservationType": "capacity-block", "endTime": "2026-11-21T00:00:00Z"}
BOOKED = {"state": "scheduled", "startTime": "2026-11-20T10:00:00Z", **BLOCK}


def test_a_class_is_translated_whole() -> None:
    """Each field of the model has a value of its own, so that one that is lost or mixed up is noticed."""
    texts = {
        labels.PLACEMENT_GROUP: written_group({"id": "pg-1", "name": "g", "strategy": "spread"}),
        labels.UPCOMING_RESERVATIONS: written_upcoming([{"id": "cr-3", **BOOKED}, {"id": "cr-4", "state": "delayed"}])
        or "",
        labels.SUBNET_ADDRESSES: written_reading(AddressReading(read_at=AT, per_node=3, free={"subnet-1": 1}), "")
        or "",
    }
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "subnets": [
            SUBNETS[0],
            {"id": "subnet-3", "zone": "us-east-1c"},
        ],
        "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
        "amis": [{"id": "ami-1"}],
        "capacityReservations": [{"id": "cr-1", **BLOCK}, {"id": "cr-2"}],
    }
    present = annotated(**texts)
    present = {**present, "spec": {**NODE_CLASS["spec"], "placementGroupSelector": {"name": "g"}}, "status": status}
    read, _ = examined(EC2NodeClassSpec, present["spec"])
    assert read is not None
    found = node_class_of(read, present)
    leaves = datetime(2026, 11, 20, 23, 20, tzinfo=UTC)
    assert found == NodeClass(
        name="c",
        uid="u-1",
        deleted_at=AT,
        is_ready=True,
        amis=(("ami-1", ()),),
        security_groups=("sg-1", "sg-2"),
        subnets=(("subnet-1", "us-east-1a"), ("subnet-3", "us-east-1c")),
        reservations=("cr-1", "cr-2", "cr-3", "cr-4"),
        reservation_begins={"cr-3": datetime(2026, 11, 20, 10, tzinfo=UTC)},
        reservation_ends={"cr-1": leaves, "cr-3": leaves},
        placement_group="pg-1",
        addresses_per_node=3,
        zone_ids={"use1-az1": "us-east-1a"},
        own_annotations=texts,
        spec_hash=found.spec_hash,
    )
    assert len(found.spec_hash) == 16


def test_a_status_that_cannot_be_read_resolves_nothing() -> None:
    """Its ids are shown, but no end, no group and no addresses."""
    found = translated({"capacityReservations": [{"id": "cr-1", **BLOCK, "places": "x"}]})
    assert found.reservations == ("cr-1",)
    assert (found.reservation_ends, found.reservation_begins, found.placement_group) == ({}, {}, "")
    assert found.addresses_per_node == 1


def test_only_a_subnet_with_both_names_of_its_zone_tells_one_from_the_other() -> None:
    """A volume names its zone by either."""
    subnets = [
        *SUBNETS,
        {"id": "subnet-3", "zone": "us-east-1c"},
        {"id": "subnet-4", "zoneID": "use1-az4"},
        {"zone": "us-east-1e", "zoneID": "use1-az5"},
    ]
    found = translated({"subnets": subnets})
    assert found.zone_ids == {"use1-az1": "us-east-1a"}
    assert found.subnets == (("subnet-1", "us-east-1a"), ("subnet-2", ""), ("subnet-3", "us-east-1c"), ("subnet-4", ""))
