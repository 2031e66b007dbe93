"""An EC2NodeClass in the model, with what its status resolves it to."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.api.node_class_translation import node_class_of
from core.api.schemas.base import examined
from core.api.schemas.ec2_node_class import EC2NodeClassSpec
from core.model.node_pool import NodeClass
from core.model.values.requirements import Requirement
from tests.unit.api.objects import NODE_CLASS

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
