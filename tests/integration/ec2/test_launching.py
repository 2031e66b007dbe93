"""From an order to an instance, over boto3."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ReadTimeoutError

from adapters.aws.ec2 import instances
from adapters.aws.ec2.fleet import EC2Turns
from adapters.aws.ec2.instances import KEPT_FOR
from adapters.ports import (
    ConflictError,
    DeniedError,
    InsufficientCapacityError,
    JsonObject,
    LaunchDeniedError,
    LostReplyError,
    RefusedOffering,
    SilentError,
    ThrottledError,
    UnfulfilledError,
)
from core.launch.denials import NO_IMAGE_OR_SUBNET
from core.launch.template import NAME_PREFIX
from core.lifecycle.steps import LISTED_WITHIN
from core.model.catalogue import OfferingKey
from tests.builders import a_type
from tests.integration.ec2.conftest import CLUSTER, Account, a_manifest, an_order


def fleet_answer(request: JsonObject, *, launched: int | None, codes: dict[int, str]) -> JsonObject:
    """CreateFleet's answer by override number: which was launched, which failed and how."""
    choices = [
        {"LaunchTemplateSpecification": config["LaunchTemplateSpecification"], "Overrides": override}
        for config in request["LaunchTemplateConfigs"]
        for override in config["Overrides"]
    ]
    errors = [
        {"LaunchTemplateAndOverrides": choices[n], "Lifecycle": "spot", "ErrorCode": code, "ErrorMessage": "m"}
        for n, code in codes.items()
    ]
    instances = [] if launched is None else [launched]
    return {
        "FleetId": "fleet-1",
        "Errors": errors,
        "Instances": [
            {
                "LaunchTemplateAndOverrides": choices[n],
                "InstanceIds": ["i-0123"],
                "InstanceType": choices[n]["Overrides"]["InstanceType"],
                "Lifecycle": "spot",
            }
            for n in instances
        ],
    }


def templates(account: Account) -> list[Any]:
    found: list[Any] = account.ec2.describe_launch_templates()["LaunchTemplates"]
    return found


def test_an_order_becomes_one_tagged_instance(account: Account) -> None:
    """All steps: class resolved, template created, fleet launched, instance found again by its tags."""
    launched = account.cloud.launch(an_order())
    (found,) = account.cloud.instances()
    assert launched.instances[0].instance_id == found.instance_id
    assert launched.instances[0].provider_id == found.provider_id
    assert found.instance_type == "m5.large"
    assert found.tags["karpenter.sh/nodeclaim"] == "general-1"
    assert found.tags["eks:eks-cluster-name"] == CLUSTER
    assert launched.instances[0].image_id == account.images["x86_64"]
    assert launched.refused == ()


def test_the_template_in_ec2_joins_the_cluster(account: Account) -> None:
    """Otherwise, the instance would run and never become a node."""
    account.cloud.launch(an_order())
    (template,) = templates(account)
    version = account.ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])
    data = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    user_data = base64.b64decode(data["UserData"]).decode()
    assert "10.100.0.0/16" in user_data
    assert "karpenter.sh/unregistered" in user_data
    assert data["NetworkInterfaces"][0]["Groups"] == [account.group]
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    profile = data["IamInstanceProfile"]["Name"]
    roles = account.iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]
    assert [role["RoleName"] for role in roles] == ["NodeRole"]


@pytest.mark.parametrize(("asked", "interfaces"), [({"vpc.amazonaws.com/efa": 1}, 4), ({}, 0)])
def test_an_instance_has_the_efa_interfaces_that_it_was_launched_with(
    asked: dict[str, int], interfaces: int, account: Account
) -> None:
    """Otherwise, pods for the fast network would be sent to a node that could have had it, and wait there."""
    fast = a_type("p4d.24xlarge", zones=("us-east-1a",), extra={"vpc.amazonaws.com/efa": "4"})
    launched = account.cloud.launch(msgspec.structs.replace(an_order(fast), requests=asked))
    assert launched.instances[0].efa_interfaces == interfaces


def test_each_zone_gets_its_subnet_with_most_addresses(account: Account) -> None:
    """Otherwise, the small subnet would run out of addresses while the large one stays empty."""
    account.cloud.launch(an_order())
    (request,) = account.fleets
    chosen = {o["SubnetId"] for config in request["LaunchTemplateConfigs"] for o in config["Overrides"]}
    assert chosen == {account.subnets["a24"], account.subnets["b23"]}


def test_a_claim_is_launched_into_its_subnet(account: Account) -> None:
    """Otherwise, all claims of a plan would go to the subnet that had most addresses before it."""
    small = account.subnets["b26"]
    launched = account.cloud.launch(msgspec.structs.replace(an_order(), subnets={"us-east-1b": small}))
    in_b = [
        override["SubnetId"]
        for config in account.fleets[0]["LaunchTemplateConfigs"]
        for override in config["Overrides"]
        if override["AvailabilityZone"] == "us-east-1b"
    ]
    assert set(in_b) == {small}
    assert launched.instances[0].subnet_id in {small, account.subnets["a24"]}


def test_a_full_subnet_leaves_the_others_of_its_zone(account: Account) -> None:
    """Otherwise, a second subnet with a thousand addresses would never be used."""
    full = account.subnets["b23"]
    account.answer_fleet = lambda request: fleet_answer(
        request, launched=None, codes=dict.fromkeys(range(2), "InsufficientFreeAddressesInSubnet")
    )
    with pytest.raises(InsufficientCapacityError) as raised:
        account.cloud.launch(an_order())
    assert full in {found.subnet for found in raised.value.refused}
    account.answer_fleet = None
    account.cloud.launch(msgspec.structs.replace(an_order(claim="general-2"), avoided_subnets=(full,)))
    chosen = [o for config in account.fleets[-1]["LaunchTemplateConfigs"] for o in config["Overrides"]]
    in_b = {o["SubnetId"] for o in chosen if o["AvailabilityZone"] == "us-east-1b"}
    assert in_b
    assert full not in in_b


def test_templates_are_created_once(account: Account) -> None:
    """Otherwise, each launch would make a template of its own until the account is full."""
    account.cloud.launch(an_order(claim="general-1"))
    account.cloud.launch(an_order(claim="general-2"))
    account.new_sandbox().launch(an_order(claim="general-3"))
    assert len(templates(account)) == 1
    assert account.called.count("CreateLaunchTemplate") == 2


def test_a_deleted_template_is_created_again(account: Account) -> None:
    """Otherwise, all launches of a warm function would fail until it is replaced."""
    account.cloud.launch(an_order(claim="general-1"))
    account.ec2.delete_launch_template(LaunchTemplateName=templates(account)[0]["LaunchTemplateName"])
    account.cloud.launch(an_order(claim="general-2"))
    assert len(account.cloud.instances()) == 2


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("InvalidLaunchTemplateName.NotFoundException", 2),
        ("InvalidCapacityReservationId.NotFound", 1),
        ("InvalidCapacityReservationState.Unavailable", 1),
        ("InvalidPlacementGroup.Unknown", 1),
    ],
)
def test_only_a_missing_template_is_asked_for_twice(code: str, calls: int, account: Account) -> None:
    """A reservation that is gone was, each time: nothing of it is created again."""
    account.denied["CreateFleet"] = (code, "it does not exist")
    with pytest.raises((InsufficientCapacityError, LaunchDeniedError)):
        account.cloud.launch(an_order())
    assert account.called.count("CreateFleet") == calls


def test_the_oldest_of_too_many_templates_are_deleted(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that makes a thousand within days would take the room that all clusters of the region share."""
    monkeypatch.setattr(instances, "KEPT_MAX", 2)
    for number in range(4):
        order = an_order(claim=f"general-{number}")
        account.cloud.launch(msgspec.structs.replace(order, node_labels={"number": str(number)}))
    account.clock.time = max(template["CreateTime"] for template in templates(account))
    before = sorted((template["CreateTime"], template["LaunchTemplateName"]) for template in templates(account))
    assert account.cloud.prune_templates() == 2
    assert sorted(t["LaunchTemplateName"] for t in templates(account)) == sorted(name for _, name in before[2:])
    assert account.cloud.prune_templates() == 0


def test_old_templates_are_deleted_and_foreign_ones_kept(account: Account) -> None:
    """An account may have 5,000; foreign templates must not be deleted."""
    account.cloud.launch(an_order())
    account.ec2.create_launch_template(LaunchTemplateName="theirs", LaunchTemplateData={"ImageId": "ami-1"})
    (ours,) = (found for found in templates(account) if found["LaunchTemplateName"].startswith(NAME_PREFIX))
    account.clock.time = ours["CreateTime"] + KEPT_FOR
    assert account.cloud.prune_templates() == 0
    account.clock.pass_by(timedelta(minutes=1))
    assert account.cloud.prune_templates() == 1
    assert [template["LaunchTemplateName"] for template in templates(account)] == ["theirs"]
    account.cloud.launch(an_order(claim="general-2"))
    assert any(template["LaunchTemplateName"].startswith(NAME_PREFIX) for template in templates(account))


def test_offerings_refused_on_the_way_are_returned_with_the_instance(account: Account) -> None:
    """Otherwise, the next claim would try the empty pools again."""
    account.answer_fleet = lambda request: fleet_answer(request, launched=1, codes={0: "InsufficientInstanceCapacity"})
    launched = account.cloud.launch(an_order())
    assert launched.instances[0].instance_id == "i-0123"
    assert launched.instances[0].zone == "us-east-1b"
    pool, subnet = OfferingKey("m5.large", "us-east-1a", "spot"), account.subnets["a24"]
    refused = RefusedOffering(pool, "InsufficientInstanceCapacity", "m", subnet)
    assert launched.refused == (refused,)


def test_no_capacity_anywhere_names_every_pool(account: Account) -> None:
    """The claim must be planned again at once, without them."""
    account.answer_fleet = lambda request: fleet_answer(
        request, launched=None, codes={0: "InsufficientInstanceCapacity", 1: "UnfulfillableCapacity"}
    )
    with pytest.raises(InsufficientCapacityError) as raised:
        account.cloud.launch(an_order())
    assert [found.code for found in raised.value.refused] == ["InsufficientInstanceCapacity", "UnfulfillableCapacity"]


def test_a_denied_fleet_raises_an_alarm_and_closes_no_pool(account: Account) -> None:
    """Otherwise, a missing permission would look like a region without capacity."""
    account.answer_fleet = lambda request: fleet_answer(
        request, launched=None, codes={0: "UnauthorizedOperation", 1: "UnauthorizedOperation"}
    )
    with pytest.raises(DeniedError, match="Unauthorized"):
        account.cloud.launch(an_order())


def test_a_lost_reply_does_not_count_as_a_failure(account: Account) -> None:
    """Another launch with a new token would give the claim two instances."""

    def lose(_: JsonObject) -> JsonObject:
        raise ReadTimeoutError(endpoint_url="ec2")

    account.answer_fleet = lose
    with pytest.raises(LostReplyError):
        account.cloud.launch(an_order())
    assert {request["ClientToken"] for request in account.fleets} == {"token-general-1"}


def test_a_token_that_was_used_before_finds_its_instance(account: Account) -> None:
    """The first reply was lost and prices moved: the instance exists, and must not be launched twice."""
    first = account.cloud.launch(an_order())

    def mismatch(_: JsonObject) -> JsonObject:
        return {"Error": {"Code": "IdempotentParameterMismatch", "Message": "m"}}

    account.answer_fleet = mismatch
    assert account.cloud.launch(an_order()).instances[0].instance_id == first.instances[0].instance_id
    absent = an_order(claim="general-2")
    with pytest.raises(SilentError, match="may not be listed yet"):
        account.cloud.launch(absent)
    unclear_at = account.clock.now() - LISTED_WITHIN
    with pytest.raises(ConflictError, match="new token"):
        account.cloud.launch(msgspec.structs.replace(absent, unclear_at=unclear_at))


def test_a_class_that_cannot_be_rendered_is_denied_with_its_field(account: Account) -> None:
    """The user must find the fault in the EC2NodeClass, not in a stack trace."""
    with pytest.raises(DeniedError, match=r"spec\.userData"):
        account.cloud.launch(an_order(node_class=a_manifest(userData="MIME-Version: 1.0\n\nbroken")))


def test_an_order_that_no_type_fits_closes_no_offering(account: Account) -> None:
    """Otherwise, types without an image would be taken for pools without capacity, in all clusters."""
    arm = a_type("c7g.large", zones=("us-east-1c",), **{"kubernetes.io/arch": "arm64"})
    with pytest.raises(LaunchDeniedError) as raised:
        account.cloud.launch(an_order(arm))
    assert {found.code for found in raised.value.refused} == {NO_IMAGE_OR_SUBNET}
    assert account.fleets == []


def test_only_this_clusters_instances_are_ours(account: Account) -> None:
    """Terminating another cluster's instances would be the worst fault of all."""
    account.cloud.launch(an_order())
    image = account.images["x86_64"]
    for tags in ({"eks:eks-cluster-name": "other", "karpenter.sh/nodepool": "x"}, {"eks:eks-cluster-name": CLUSTER}):
        spec = [{"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        account.ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=spec)
    assert len(account.cloud.instances()) == 1


def test_a_listing_may_be_limited_to_known_instances(account: Account) -> None:
    """Listing all instances for each of a thousand claims would be throttled; a missing id is no error."""
    ids = [account.cloud.launch(an_order(claim=f"general-{n}")).instances[0].instance_id for n in range(2)]
    found = account.cloud.instances([ids[0], "i-00000000000000000"])
    assert [instance.instance_id for instance in found] == ids[:1]


def test_why_an_instance_ended_can_be_asked_for(account: Account) -> None:
    """Without it an instance that cannot start is launched again and again."""
    ended, running = (account.cloud.launch(an_order(claim=f"general-{n}")).instances[0].instance_id for n in range(2))
    account.cloud.terminate([ended])
    end = account.cloud.end_of(ended)
    assert end is not None
    assert end.code == "Client.UserInitiatedShutdown"
    assert not end.message.startswith(end.code)
    with pytest.raises(ConflictError, match=running):
        account.cloud.end_of(running)
    assert account.cloud.end_of("i-00000000000000000") is None


def test_one_unknown_id_does_not_prevent_other_terminations(account: Account) -> None:
    """EC2 refuses the whole call; nodes that should be gone would run on."""
    instance = account.cloud.launch(an_order()).instances[0].instance_id
    account.cloud.terminate([instance, "i-00000000000000000"])
    assert account.cloud.instances() == ()
    account.cloud.terminate([instance])
    account.cloud.terminate([])


class TestThrottling:
    """Whatever EC2 throttles slows down all launches of the account."""

    @pytest.fixture
    def turns(self, account: Account) -> NotedTurns:
        turns = NotedTurns()
        account.cloud = account.new_sandbox(turns=turns)
        return turns

    def test_of_a_call(self, account: Account, turns: NotedTurns) -> None:
        account.denied = {"CreateFleet": ("RequestLimitExceeded", "Request limit exceeded.")}
        with pytest.raises(ThrottledError):
            account.cloud.launch(an_order())
        assert turns.slowed == [1]

    def test_of_its_template(self, account: Account, turns: NotedTurns) -> None:
        """A launch makes up to a template for each kind of machine: 13 launches made 116 requests in half a minute."""
        account.denied = {"CreateLaunchTemplate": ("RequestLimitExceeded", "Request limit exceeded.")}
        with pytest.raises(ThrottledError):
            account.cloud.launch(an_order())
        assert turns.slowed == [1]
        assert account.fleets == []

    def test_that_lasts_sends_nothing_before_its_turn(self, account: Account) -> None:
        account.cloud = account.new_sandbox(turns=NoTurns())
        with pytest.raises(ThrottledError):
            account.cloud.launch(an_order())
        assert "CreateLaunchTemplate" not in account.called

    def test_of_a_fleet_that_launched_nothing(self, account: Account, turns: NotedTurns) -> None:
        account.answer_fleet = lambda request: fleet_answer(request, launched=None, codes={0: "RequestLimitExceeded"})
        with pytest.raises(UnfulfilledError):
            account.cloud.launch(an_order())
        assert turns.slowed == [1]

    def test_of_a_part_of_a_fleet(self, account: Account, turns: NotedTurns) -> None:
        account.answer_fleet = lambda request: fleet_answer(request, launched=1, codes={0: "RequestLimitExceeded"})
        assert account.cloud.launch(an_order()).refused == ()
        assert turns.slowed == [1]

    def test_no_answer_of_another_kind(self, account: Account, turns: NotedTurns) -> None:
        account.answer_fleet = lambda request: fleet_answer(request, launched=1, codes={0: "Unsupported"})
        account.cloud.launch(an_order())
        assert (turns.slowed, turns.unlaunched) == ([0], [0])

    @pytest.mark.parametrize(("code", "unlaunched"), [("Unsupported", [2]), ("RequestLimitExceeded", [])])
    def test_what_ec2_has_no_capacity_for_takes_no_tokens(
        self, account: Account, turns: NotedTurns, code: str, unlaunched: list[int]
    ) -> None:
        """Otherwise, an hour without capacity would leave no tokens for the launches after it."""
        account.answer_fleet = lambda request: fleet_answer(request, launched=1, codes={0: code})
        account.cloud.launch(msgspec.structs.replace(an_order(), count=3))
        assert turns.unlaunched == unlaunched


class NoTurns(EC2Turns):
    """Has no turn soon."""

    def launch(self, instances: int) -> datetime | None:
        raise ThrottledError("CreateFleet", "throttled")


class NotedTurns(EC2Turns):
    """Notes what it learns."""

    def __init__(self) -> None:
        self.slowed: list[int] = []
        self.unlaunched: list[int] = []

    def not_launched(self, instances: int) -> None:
        self.unlaunched.append(instances)

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        self.slowed.append(answers)
