"""Requests to EC2 carry what EC2 judges, in forms that EC2 takes: DryRuns, filters, placement groups."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.aws.ec2.fleet import FleetLauncher
from adapters.aws.ec2.instances import Instances, LaunchTemplates, _one_instance
from adapters.aws.node_class import PlacementGroups
from adapters.aws.services import AwsService
from adapters.ports import (
    ConflictError,
    InsufficientCapacityError,
    Launched,
    LostReplyError,
    NotFoundError,
    SilentError,
    ThrottledError,
    UnfulfilledError,
)
from core import labels
from core.catalogue.node_class import PlacementGroupSelector
from core.lifecycle.steps import LISTED_WITHIN
from simulator.aws.session import problems_of, service_model
from tests.builders import NOW, a_type
from tests.fakes.world import FakeClock
from tests.unit.launch.orders import CLUSTER, a_node_class, an_order, rendered, template_data


class Ec2:
    """Notes requests, refuses what EC2 would refuse, and answers with what a test gives."""

    def __init__(self, **answers: Any) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers

    def service(self) -> AwsService:
        service = AwsService(SimpleNamespace(meta=SimpleNamespace(service_model=service_model("ec2"))))
        service.call = self.call  # type: ignore[method-assign]
        return service

    def call(self, operation: str, **request: Any) -> Any:
        shape = service_model("ec2").operation_model(operation).input_shape
        assert problems_of(f"ec2:{operation}", shape, request) == []
        self.sent.append((operation, request))
        answer = self.answers.get(operation, {})
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("capacity_type", [labels.ON_DEMAND, labels.SPOT])
def test_a_dry_run_carries_the_tags_of_every_kind_that_the_launch_creates(capacity_type: str) -> None:
    """Our own role demands the cluster's tags on all of them; a tag for a kind that is not created fails the request."""
    request = _one_instance(rendered(a_type("m5.large", capacity_types=(capacity_type,))))
    kinds = [specification["ResourceType"] for specification in request["TagSpecifications"]]
    spot = ["spot-instances-request"] if capacity_type == labels.SPOT else []
    assert kinds == ["instance", "volume", "network-interface", *spot]
    for tag_specification in request["TagSpecifications"]:
        tags = {tag["Key"]: tag["Value"] for tag in tag_specification["Tags"]}
        assert {labels.CLUSTER_TAG, labels.NODEPOOL} <= tags.keys(), tag_specification["ResourceType"]


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
    parts = [
        f["Values"] for _, request in ec2.sent for f in request["Filters"] if f["Name"] == "capacity-reservation-id"
    ]
    assert [len(values) for values in parts] == [200, 200, 1]
    assert [identity for values in parts for identity in values] == ids


def test_a_placement_group_is_found_by_its_id() -> None:
    """EC2 has no filter for it, and finds a group that another account shares by `GroupIds` alone."""
    group = {"GroupId": "pg-1", "GroupName": "g", "Strategy": "cluster", "State": "available"}
    ec2 = Ec2(DescribePlacementGroups={"PlacementGroups": [group]})
    status = PlacementGroups(ec2.service()).resolve(PlacementGroupSelector(id="pg-1"))
    assert status == {"id": "pg-1", "name": "g", "strategy": "cluster", "partitions": 0}
    assert ec2.sent == [("DescribePlacementGroups", {"GroupIds": ["pg-1"]})]


def test_an_unknown_placement_group_is_none() -> None:
    unknown = NotFoundError(
        "ec2:DescribePlacementGroups", "InvalidPlacementGroup.Unknown: The Placement Group is unknown"
    )
    ec2 = Ec2(DescribePlacementGroups=unknown)
    with pytest.raises(NotFoundError, match="placement group pg-2 does not exist"):
        PlacementGroups(ec2.service()).resolve(PlacementGroupSelector(id="pg-2"))


SILENCE: dict[str, Any] = {"FleetId": "fleet-1"}
REPEATED: dict[str, Any] = {**SILENCE, "ResponseMetadata": {"RetryAttempts": 1}}
RUNNING: dict[str, Any] = {
    "InstanceId": "i-1",
    "InstanceType": "m5.large",
    "Placement": {"AvailabilityZone": "zone-a"},
    "State": {"Name": "pending"},
    "LaunchTime": NOW,
    "Tags": [{"Key": labels.NODECLAIM, "Value": "general-1"}],
}


def launched(ec2: Ec2, unclear_for: timedelta | None = None, *, is_renewed: bool = False) -> Launched:
    service = ec2.service()
    parts = LaunchTemplates(service, cluster="c"), Instances(service, cluster="c"), FakeClock(NOW)
    unclear_at = None if unclear_for is None else NOW - unclear_for
    order = an_order(a_type("m5.large"), unclear_at=unclear_at, is_renewed=is_renewed)
    return FleetLauncher(service, *parts).launch(order, a_node_class(), CLUSTER)


def asked(ec2: Ec2, operation: str) -> list[dict[str, Any]]:
    return [request for name, request in ec2.sent if name == operation]


def test_instances_of_a_lost_answer_are_found_before_anything_is_blamed() -> None:
    """All offerings were remembered as without capacity, by every cluster of the account, while the instances ran."""
    ec2 = Ec2(CreateFleet=[REPEATED], DescribeInstances={"Reservations": [{"Instances": [RUNNING]}]})
    assert [instance.instance_id for instance in launched(ec2).instances] == ["i-1"]
    assert len(asked(ec2, "CreateFleet")) == 1


ALMOST = LISTED_WITHIN - timedelta(seconds=1)
MISMATCH = ConflictError("ec2:CreateFleet", "IdempotentParameterMismatch: m")


@pytest.mark.parametrize("unclear_for", [None, timedelta(0), ALMOST])
@pytest.mark.parametrize("answer", [REPEATED, SILENCE, MISMATCH], ids=["repeated", "silent", "another order"])
def test_a_token_that_ec2_may_know_is_kept_until_an_instance_would_be_listed(
    answer: Any, unclear_for: timedelta | None
) -> None:
    """However often EC2 is asked: another token would launch a second instance.

    A sandbox that ended after its request has stored no attempt, so a first attempt may be a repetition, too.
    """
    ec2 = Ec2(CreateFleet=[answer], DescribeInstances={"Reservations": []})
    with pytest.raises(SilentError):
        launched(ec2, unclear_for)
    assert len(asked(ec2, "CreateFleet")) == 1


def test_a_silent_token_without_instances_is_replaced_in_the_end() -> None:
    ec2 = Ec2(CreateFleet=[SILENCE], DescribeInstances={"Reservations": []})
    with pytest.raises(UnfulfilledError) as raised:
        launched(ec2, LISTED_WITHIN)
    assert raised.value.is_silent


def test_a_token_of_another_order_without_instances_is_replaced_in_the_end() -> None:
    ec2 = Ec2(CreateFleet=[MISMATCH], DescribeInstances={"Reservations": []})
    with pytest.raises(ConflictError):
        launched(ec2, LISTED_WITHIN)


def test_offerings_are_without_capacity_if_ec2_is_silent_to_two_tokens() -> None:
    """One silence may have another cause, and what is remembered counts for all clusters."""
    ec2 = Ec2(CreateFleet=[SILENCE], DescribeInstances={"Reservations": []})
    with pytest.raises(InsufficientCapacityError) as raised:
        launched(ec2, LISTED_WITHIN, is_renewed=True)
    assert raised.value.refused


class Names:
    """The names that sandboxes share."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def all(self) -> frozenset[str]:
        return frozenset(self.known)

    def add(self, names: Iterable[str]) -> None:
        self.known.update(names)

    def drop(self, names: Iterable[str]) -> None:
        self.known.difference_update(names)


def test_a_new_sandbox_creates_no_template_that_another_has_created() -> None:
    """While EC2 throttles, each new sandbox created all of them again in every run."""
    ec2, names, templates = Ec2(), Names(), rendered(a_type("m5.large")).templates
    for _ in range(3):
        LaunchTemplates(ec2.service(), cluster="c", names=names).ensure(templates)
    assert len(asked(ec2, "CreateLaunchTemplate")) == len(templates)
    LaunchTemplates(ec2.service(), cluster="c", names=names).forget(templates)
    LaunchTemplates(ec2.service(), cluster="c", names=names).ensure(templates)
    assert len(asked(ec2, "CreateLaunchTemplate")) == 2 * len(templates)


@pytest.mark.parametrize("answer", [ConflictError("ec2:CreateLaunchTemplate", "AlreadyExists"), {}])
def test_a_template_that_exists_is_known_from_then_on(answer: Any) -> None:
    ec2, names, templates = Ec2(CreateLaunchTemplate=answer), Names(), rendered(a_type("m5.large")).templates
    LaunchTemplates(ec2.service(), cluster="c", names=names).ensure(templates)
    assert names.known == {template.name for template in templates}


def test_a_template_that_ec2_did_not_create_is_unknown() -> None:
    ec2, names = Ec2(CreateLaunchTemplate=ThrottledError("ec2:CreateLaunchTemplate", "slow down")), Names()
    with pytest.raises(ThrottledError):
        LaunchTemplates(ec2.service(), cluster="c", names=names).ensure(rendered(a_type("m5.large")).templates)
    assert names.known == set()


ANSWER_WITHOUT_ZONE: dict[str, Any] = {"Instances": [{"InstanceIds": ["i-1"], "InstanceType": "m5.large"}]}


def described_in(zone: str) -> dict[str, Any]:
    described = {
        "InstanceId": "i-1",
        "InstanceType": "m5.large",
        "State": {"Name": "pending"},
        "Placement": {"AvailabilityZone": zone},
        "SubnetId": "subnet-listed",
        "LaunchTime": NOW,
    }
    return {"Reservations": [{"Instances": [described]}]}


def test_an_answer_without_zones_is_completed_from_ec2s_list() -> None:
    """A node is found by its instance's zone: a claim without one waited for its node until it was given up."""
    ec2 = Ec2(CreateFleet=[ANSWER_WITHOUT_ZONE], DescribeInstances=described_in("us-east-1b"))
    (instance,) = launched(ec2).instances
    assert (instance.zone, instance.subnet_id) == ("us-east-1b", "subnet-listed")


def test_an_instance_whose_zone_nobody_knows_yet_is_asked_for_again() -> None:
    """The same token launches nothing twice."""
    ec2 = Ec2(CreateFleet=[ANSWER_WITHOUT_ZONE], DescribeInstances={"Reservations": []})
    with pytest.raises(LostReplyError):
        launched(ec2)
