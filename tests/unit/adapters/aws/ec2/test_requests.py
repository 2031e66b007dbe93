"""Requests to EC2 carry what EC2 judges, in forms that EC2 takes: DryRuns, filters, placement groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adapters.aws.ec2.instances import Instances, _one_instance
from adapters.aws.node_class import PlacementGroups
from adapters.aws.services import AwsService
from adapters.ports import NotFoundError
from core import labels
from core.catalogue.node_class import PlacementGroupSelector
from simulator.aws.request_rules import problems_of
from simulator.aws.session import service_model
from tests.builders import a_type
from tests.unit.launch.orders import a_node_class, rendered, template_data


class Ec2:
    """Notes requests, refuses what EC2 would refuse, and answers with what a test gives."""

    def __init__(self, **answers: Any) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers

    def service(self) -> AwsService:
        found = AwsService(SimpleNamespace(meta=SimpleNamespace(service_model=service_model("ec2"))))
        found.call = self.call  # type: ignore[method-assign]
        return found

    def call(self, operation: str, **request: Any) -> Any:
        shape = service_model("ec2").operation_model(operation).input_shape
        assert problems_of(f"ec2:{operation}", shape, request) == []
        self.sent.append((operation, request))
        answer = self.answers.get(operation, {})
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("capacity_type", [labels.ON_DEMAND, labels.SPOT])
def test_a_dry_run_carries_the_tags_of_every_kind_that_the_launch_creates(capacity_type: str) -> None:
    """Our own role demands the cluster's tags on all of them; a tag for a kind that is not created fails the request."""
    request = _one_instance(rendered(a_type("m5.large", capacity_types=(capacity_type,))))
    kinds = [given["ResourceType"] for given in request["TagSpecifications"]]
    spot = ["spot-instances-request"] if capacity_type == labels.SPOT else []
    assert kinds == ["instance", "volume", "network-interface", *spot]
    for given in request["TagSpecifications"]:
        tags = {tag["Key"]: tag["Value"] for tag in given["Tags"]}
        assert {labels.CLUSTER_TAG, labels.NODEPOOL} <= tags.keys(), given["ResourceType"]


def test_a_dry_run_carries_what_policies_put_conditions_on() -> None:
    """A policy that demands IMDSv2 denies a request without metadata options, although the template has them."""
    node_class = a_node_class({"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}})
    launch = rendered(a_type("m5.large"), node_class=node_class)
    request, template = _one_instance(launch), template_data(launch)
    for field in ("MetadataOptions", "IamInstanceProfile", "BlockDeviceMappings"):
        assert request[field] == template[field]
    assert request["MetadataOptions"]["HttpTokens"] == "required"
    assert request["NetworkInterfaces"][0]["SubnetId"]
    shape = service_model("ec2").operation_model("RunInstances").input_shape
    assert problems_of("ec2:RunInstances", shape, request) == []


def test_more_reservations_than_a_filter_takes_are_asked_for_in_parts() -> None:
    """EC2 refuses the whole call, and the class with them was never ready."""
    ec2 = Ec2(DescribeInstances={"Reservations": []})
    ids = [f"cr-{number:04}" for number in range(401)]
    assert Instances(ec2.service(), cluster="c").in_reservations(ids) == dict.fromkeys(ids, 0)
    asked = [
        f["Values"] for _, request in ec2.sent for f in request["Filters"] if f["Name"] == "capacity-reservation-id"
    ]
    assert [len(values) for values in asked] == [200, 200, 1]
    assert [identity for values in asked for identity in values] == ids


def test_a_placement_group_is_found_by_its_id() -> None:
    """EC2 has no filter for it, and finds a group that another account shares by `GroupIds` alone."""
    group = {"GroupId": "pg-1", "GroupName": "g", "Strategy": "cluster", "State": "available"}
    ec2 = Ec2(DescribePlacementGroups={"PlacementGroups": [group]})
    found = PlacementGroups(ec2.service()).resolve(PlacementGroupSelector(id="pg-1"))
    assert found == {"id": "pg-1", "name": "g", "strategy": "cluster", "partitions": 0}
    assert ec2.sent == [("DescribePlacementGroups", {"GroupIds": ["pg-1"]})]


def test_an_unknown_placement_group_is_none() -> None:
    unknown = NotFoundError(
        "ec2:DescribePlacementGroups", "InvalidPlacementGroup.Unknown: The Placement Group is unknown"
    )
    ec2 = Ec2(DescribePlacementGroups=unknown)
    with pytest.raises(NotFoundError, match="placement group pg-2 does not exist"):
        PlacementGroups(ec2.service()).resolve(PlacementGroupSelector(id="pg-2"))
