"""Dedicated hardware and placement groups."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.launch.placement import is_confined, partition, tenancy
from core.model.values.requirements import Requirement
from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    rendered,
    template_data,
)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ((Requirement.one_of(labels.TENANCY, "dedicated"),), {"Tenancy": "dedicated"}),
        ((Requirement.of(labels.TENANCY, "NotIn", ["default"]),), {"Tenancy": "dedicated"}),
        ((Requirement.one_of(labels.TENANCY, "default", "dedicated"),), None),
        ((Requirement.one_of(labels.TENANCY, "host"),), None),
        ((Requirement.one_of(labels.ZONE, "us-east-1a"),), None),
    ],
)
def test_a_claim_for_dedicated_hardware_is_launched_on_it(
    allowed: tuple[Requirement, ...], expected: dict[str, str] | None
) -> None:
    """Otherwise, its pods share a machine with other accounts, on a node whose label denies it."""
    launch = rendered(a_type("m5.large"), tenancy=tenancy(allowed))
    assert template_data(launch).get("Placement") == expected


@pytest.mark.parametrize(
    ("selector", "expected"), [({"name": "tight"}, {"GroupName": "tight"}), ({"id": "pg-1"}, {"GroupId": "pg-1"})]
)
def test_nodes_of_a_class_with_a_placement_group_are_launched_into_it(
    selector: dict[str, str], expected: dict[str, str]
) -> None:
    """Otherwise, they are placed anywhere in the zone, far from each other or on the same rack."""
    launch = rendered(a_type("m5.large"), node_class=a_node_class({"placementGroupSelector": selector}))
    assert template_data(launch)["Placement"] == expected


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "2"), 2),
        (Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "10", "2"), 2),
        (Requirement.of(labels.PLACEMENT_GROUP_PARTITION, "Exists"), 0),
        (Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "rack"), 0),
        (Requirement.of(labels.PLACEMENT_GROUP_PARTITION, "NotIn", ["2"]), 0),
        (Requirement.one_of(labels.ZONE, "us-east-1a"), 0),
    ],
)
def test_a_claim_is_launched_into_the_lowest_partition_that_it_admits(demanded: Requirement, expected: int) -> None:
    """Its label is promised to pods: EC2 would choose any of the group's partitions."""
    node_class = a_node_class({"placementGroupSelector": {"name": "racks"}})
    launch = rendered(a_type("m5.large"), node_class=node_class, partition=partition([demanded]))
    assert template_data(launch)["Placement"].get("PartitionNumber", 0) == expected


def test_without_a_group_there_is_no_partition() -> None:
    """EC2 refuses a launch with a partition of no group."""
    assert "Placement" not in template_data(rendered(a_type("m5.large"), partition=2))


@pytest.mark.parametrize(
    ("allowed", "spec", "confined"),
    [
        ((), {}, False),
        ((), None, False),
        ((Requirement.one_of(labels.TENANCY, "dedicated"),), None, True),
        ((Requirement.one_of(labels.TENANCY, "default", "dedicated"),), {}, False),
        ((), {"placementGroupSelector": {"name": "racks"}}, True),
        ((), {"cpuOptions": {"nestedVirtualization": "enabled"}}, True),
        ((), {"cpuOptions": {}, "role": "nodes"}, False),
    ],
)
def test_a_refusal_counts_for_others_only_if_they_ask_for_the_same_capacity(
    allowed: tuple[Requirement, ...], spec: dict[str, Any] | None, *, confined: bool
) -> None:
    """A full placement group says nothing of the zone: its offerings would be avoided by every other pod."""
    assert is_confined(allowed, {} if spec is None else {"spec": spec}) is confined
