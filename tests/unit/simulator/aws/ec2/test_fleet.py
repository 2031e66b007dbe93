"""CreateFleet as EC2 does it, asked for as the functions ask."""

from __future__ import annotations

import base64
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapters.aws.services import PATIENT
from core import labels
from simulator.aws.installation import Selection
from simulator.clock import constant
from simulator.invocation.faults import CrashError, Fault
from simulator.step_forms import Silences, Tokens
from tests.builders import a_type
from tests.fakes.account import START, FakeAccount

ZONES = ("zone-a", "zone-b")
TYPES = (
    a_type("m5.large", price=0.1, zones=ZONES),
    a_type("m5.xlarge", price=0.2, zones=ZONES),
    a_type("m6g.large", price=0.05, zones=ZONES, **{labels.ARCH: "arm64"}),
)


class Bench(FakeAccount):
    """An account with three types in two zones, and what is needed to ask it for fleets."""

    def __init__(self, silences: Silences | None = None) -> None:
        self.bus: list[tuple[Any, ...]] = []
        super().__init__(TYPES, bus=lambda *event: self.bus.append(event), silences=silences)
        self.ec2 = self.client("ec2", config=PATIENT)
        parameter = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
        self.image = self.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
        self.group = self.ec2.describe_security_groups(
            Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["fleetwright"]}]
        )["SecurityGroups"][0]["GroupId"]
        subnets = self.ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["fleetwright"]}])
        self.subnets = {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in subnets["Subnets"]}
        self.ec2.create_launch_template(
            LaunchTemplateName="nodes",
            LaunchTemplateData={
                "ImageId": self.image,
                "UserData": base64.b64encode(b"data").decode(),
                "SecurityGroupIds": [self.group],
                "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "template"}]}],
            },
        )

    def fleet(
        self,
        *choices: tuple[str, str],
        token: str = "t",  # noqa: S107 - an idempotency token
        count: int = 1,
        **changes: Any,
    ) -> dict[str, Any]:
        """Ask for a fleet of these (type, zone)."""
        also = changes.pop("override", {})
        overrides = [{"InstanceType": t, "SubnetId": self.subnets[zone], **also} for t, zone in choices]
        request = {
            "Type": "instant",
            "ClientToken": token,
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
                    "Overrides": overrides,
                }
            ],
            "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": "on-demand"},
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "claim", "Value": token}]}],
            **changes,
        }
        answer: dict[str, Any] = self.ec2.create_fleet(**request)
        return answer


@pytest.fixture
def bench() -> Bench:
    """An account."""
    return Bench()


def launched(answer: dict[str, Any]) -> list[tuple[str, int]]:
    """Type and number of instances, group by group."""
    return [(group["InstanceType"], len(group["InstanceIds"])) for group in answer["Instances"]]


def test_the_cheapest_pool_with_capacity_is_chosen(bench: Bench) -> None:
    """If this failed, the order of overrides would decide what a cluster costs."""
    assert launched(bench.fleet(("m5.xlarge", "zone-a"), ("m5.large", "zone-b"))) == [("m5.large", 1)]


def test_pools_without_capacity_are_told_and_the_next_is_taken(bench: Bench) -> None:
    """If this failed, functions would never learn where capacity is short."""
    bench.account.exchange.state_capacity(Selection("m5.large"), 0)
    answer = bench.fleet(("m5.large", "zone-a"), ("m5.large", "zone-b"), ("m5.xlarge", "zone-a"))
    assert launched(answer) == [("m5.xlarge", 1)]
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["InsufficientInstanceCapacity"] * 2
    assert [refused["zone"] for refused in bench.named("launchRefused")] == ["zone-a", "zone-b"]


def test_a_fleet_is_filled_as_far_as_there_is_capacity(bench: Bench) -> None:
    """If this failed, scarcity would be all or nothing."""
    bench.account.exchange.state_capacity(Selection("m5.large", "zone-a"), 2)
    answer = bench.fleet(("m5.large", "zone-a"), count=5)
    assert launched(answer) == [("m5.large", 2)]
    assert len(answer["Errors"]) == 1


def test_the_latest_statement_about_capacity_holds(bench: Bench) -> None:
    """If this failed, capacity that came back would stay refused."""
    exchange = bench.account.exchange
    exchange.state_capacity(Selection(), 0)
    assert launched(bench.fleet(("m5.large", "zone-a"), token="1")) == []
    exchange.state_capacity(Selection(zone="zone-b"), 1)
    assert launched(bench.fleet(("m5.large", "zone-a"), ("m5.large", "zone-b"), token="2")) == [("m5.large", 1)]
    exchange.state_capacity(Selection(), None)
    assert launched(bench.fleet(("m5.large", "zone-a"), token="3")) == [("m5.large", 1)]


def test_each_instance_takes_a_token(bench: Bench) -> None:
    """If this failed, a burst would launch faster than an account may, and no throttled fleet would be played."""
    tight = Bench(Silences(instance_tokens=Tokens(burst=2, per_second=0.5)))
    answer = tight.fleet(("m5.large", "zone-a"), ("m5.xlarge", "zone-a"), count=5)
    assert launched(answer) == [("m5.large", 2)]
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["RequestLimitExceeded"]
    tight.clock.spend(timedelta(seconds=2))
    assert launched(tight.fleet(("m5.large", "zone-a"), token="later", count=5)) == [("m5.large", 1)]
    assert launched(bench.fleet(("m5.large", "zone-a"), count=5)) == [("m5.large", 5)]


def test_each_terminated_instance_takes_a_token() -> None:
    """If this failed, no throttled termination would be played."""
    tight = Bench(Silences(termination_tokens=Tokens(burst=3, per_second=0.01)))
    answer = tight.fleet(("m5.large", "zone-a"), count=4)
    ids = [identity for part in answer["Instances"] for identity in part["InstanceIds"]]
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        tight.ec2.terminate_instances(InstanceIds=ids)
    tight.ec2.terminate_instances(InstanceIds=ids[:3])
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        tight.ec2.terminate_instances(InstanceIds=ids[3:])


def test_other_programs_of_the_account_leave_few_requests() -> None:
    """If this failed, functions would never be throttled in a small world."""
    tight = Bench(Silences(request_tokens=Tokens(burst=3, per_second=0.01)))
    request = partial(tight.ec2.describe_instance_status)
    for _ in range(3):
        request()
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        request()


def test_lists_lack_new_instances_and_their_tags() -> None:
    """If this failed, functions could rely on finding what they just launched."""
    late = Bench(Silences(tag_lag=constant(timedelta(seconds=10)), partial_lists=0.5))
    late.fleet(("m5.large", "zone-a"), count=40)
    assert len(listed(late)) in range(10, 31)
    assert not listed(late, Filters=[{"Name": "tag:claim", "Values": ["t"]}])
    late.clock.spend(timedelta(seconds=60))
    assert len(listed(late, Filters=[{"Name": "tag:claim", "Values": ["t"]}])) == 40


def listed(bench: Bench, **parameters: Any) -> list[str]:
    """The instances of an answer."""
    reservations = bench.ec2.describe_instances(**parameters)["Reservations"]
    return [i["InstanceId"] for reservation in reservations for i in reservation["Instances"]]


def test_health_says_again_what_it_said_and_names_what_is_resolved() -> None:
    """If this failed, an event that comes twice or spares an instance would never be played."""
    bench = Bench(Silences(health_updates=True))
    bench.fleet(("m5.large", "zone-a"), count=2)
    first, second = bench.account.instances.all()
    bench.account.instances.interrupt(first, "scheduledChange")
    bench.clock.run_until(bench.clock.now() + timedelta(minutes=2))
    told = [detail["affectedEntities"] for source, _, detail in bench.bus if source == "aws.health"]
    assert told == [[{"entityValue": first.id}, {"entityValue": second.id, "status": "RESOLVED"}]] * 2


def test_one_token_is_one_fleet(bench: Bench) -> None:
    """If this failed, a retry after a lost answer would launch twice without anyone noticing."""
    first = bench.fleet(("m5.large", "zone-a"))
    assert bench.fleet(("m5.large", "zone-a"))["Instances"] == first["Instances"]
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        bench.fleet(("m5.xlarge", "zone-a"))
    assert len(bench.named("instanceLaunched")) == 1


def test_a_lost_reply_is_done_and_its_retry_finds_it(bench: Bench) -> None:
    """If this failed, the hardest case of launching would never be played."""
    bench.faults.arm("ec2:CreateFleet", Fault(kind="lostReply"), count=1)
    assert launched(bench.fleet(("m5.large", "zone-a"))) == [("m5.large", 1)]
    assert len(bench.named("instanceLaunched")) == 1
    assert bench.named("fault") == [{"call": "ec2:CreateFleet", "kind": "lostReply"}]


def test_the_sdk_tries_again_and_each_attempt_counts(bench: Bench) -> None:
    """If this failed, `count` would mean something else than the contract says, or real time would pass."""
    bench.faults.arm("ec2:CreateFleet", Fault(kind="throttle"), count=2)
    bench.fleet(("m5.large", "zone-a"))
    assert len(bench.named("fault")) == 2
    assert bench.clock.now() > START + timedelta(seconds=3)


def test_a_crash_is_not_caught_by_what_catches_exceptions(bench: Bench) -> None:
    """If this failed, functions would survive their own death."""
    bench.faults.arm("ec2:CreateFleet", Fault(kind="crashAfter"), count=1)
    with pytest.raises(CrashError):
        bench.fleet(("m5.large", "zone-a"))
    assert len(bench.named("instanceLaunched")) == 1


@pytest.mark.parametrize(
    ("choice", "changes", "code"),
    [
        (("m6g.large", "zone-a"), {}, "InvalidParameterValue"),
        (("m9.large", "zone-a"), {}, "Unsupported"),
        (("m5.large", "zone-a"), {"override": {"ImageId": "ami-0gone"}}, "InvalidAMIID.NotFound"),
    ],
)
def test_what_ec2_would_not_launch_is_refused(
    bench: Bench, choice: tuple[str, str], changes: dict[str, Any], code: str
) -> None:
    """If this failed, nodes would start that could not exist."""
    answer = bench.fleet(choice, **changes)
    assert launched(answer) == []
    assert [error["ErrorCode"] for error in answer["Errors"]] == [code]


def test_a_subnet_without_addresses_takes_nothing(bench: Bench) -> None:
    """If this failed, a full subnet would go on taking nodes."""
    bench.account.network.set_free("zone-a", 1, 1)
    answer = bench.fleet(("m5.large", "zone-a"), ("m5.large", "zone-b"), count=2)
    assert launched(answer) == [("m5.large", 1), ("m5.large", 1)]
    assert answer["Errors"][0]["ErrorCode"] == "InsufficientFreeAddressesInSubnet"
    subnets = bench.ec2.describe_subnets(SubnetIds=[bench.subnets["zone-a"]])["Subnets"]
    assert subnets[0]["AvailableIpAddressCount"] == 0


def test_instances_carry_what_template_and_fleet_say(bench: Bench) -> None:
    """If this failed, nobody could tell whose an instance is."""
    bench.fleet(("m5.large", "zone-b"))
    reservations = bench.ec2.describe_instances(Filters=[{"Name": "tag:claim", "Values": ["t*"]}])["Reservations"]
    instance = reservations[0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (tags["from"], tags["claim"]) == ("template", "t")
    assert instance["Placement"]["AvailabilityZone"] == "zone-b"
    assert instance["SecurityGroups"][0]["GroupId"] == bench.group
    assert instance["State"]["Name"] == "pending"


def test_terminating_is_all_or_nothing_and_may_be_asked_twice(bench: Bench) -> None:
    """If this failed, one wrong id would end half a batch, or a second look would fail."""
    bench.fleet(("m5.large", "zone-a"))
    instance = bench.named("instanceLaunched")[0]["instance"]
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        bench.ec2.terminate_instances(InstanceIds=[instance, "i-0000000000000000f"])
    assert bench.named("instanceTerminated") == []
    for _ in range(2):
        bench.ec2.terminate_instances(InstanceIds=[instance])
    assert bench.named("instanceTerminated") == [{"instance": instance, "by": "api"}]


def test_ended_instances_are_forgotten_after_an_hour(bench: Bench) -> None:
    """If this failed, looking at EC2 would slow down as a run goes on."""
    bench.fleet(("m5.large", "zone-a"))
    bench.ec2.terminate_instances(InstanceIds=[bench.named("instanceLaunched")[0]["instance"]])
    bench.clock.run_until(bench.clock.now() + timedelta(minutes=59))
    assert [i.state for i in bench.account.instances.all()] == ["terminated"]
    bench.clock.run_until(bench.clock.now() + timedelta(minutes=2))
    assert bench.account.instances.all() == ()


def test_a_spot_instance_is_reclaimed_two_minutes_after_its_notice(bench: Bench) -> None:
    """If this failed, drains would have more time here than on EC2, or less."""
    spot = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"}
    bench.fleet(("m5.large", "zone-a"), TargetCapacitySpecification=spot)
    instance = bench.account.instances.all()[0]
    noticed = bench.clock.now()
    bench.account.instances.interrupt(instance, "spot")
    bench.clock.run_until(noticed + timedelta(seconds=119))
    assert instance.is_alive
    bench.clock.run_until(noticed + timedelta(seconds=120))
    assert bench.named("instanceTerminated") == [{"instance": instance.id, "by": "interruption"}]
    assert "EC2 Spot Instance Interruption Warning" in [event[1] for event in bench.bus]


def test_new_images_are_what_an_alias_resolves_to(bench: Bench) -> None:
    """If this failed, an `ami` step would drift nothing."""
    bench.account.images.publish("al2023@latest", "ami-0new")
    path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/%s/standard/recommended/image_id"
    ssm = bench.client("ssm")
    values = [ssm.get_parameter(Name=path % arch)["Parameter"]["Value"] for arch in ("x86_64", "arm64")]
    assert values[0] == "ami-0new"
    images = bench.ec2.describe_images(ImageIds=values)["Images"]
    assert sorted(image["Architecture"] for image in images) == ["arm64", "x86_64"]


@pytest.mark.parametrize(("tags", "code"), [(50, ""), (51, "TagLimitExceeded")])
def test_instances_have_fifty_tags_at_most(tags: int, code: str) -> None:
    """If this failed, no simulated world would show that a class has more tags than EC2 takes with ours."""
    listed = [{"Key": f"tag-{number}", "Value": "x"} for number in range(tags)]
    specifications = [{"ResourceType": "instance", "Tags": listed}]
    if not code:
        assert Bench().fleet(("m5.large", "zone-a"), TagSpecifications=specifications)["Instances"]
        return
    with pytest.raises(ClientError) as refused:
        Bench().fleet(("m5.large", "zone-a"), TagSpecifications=specifications)
    assert refused.value.response["Error"]["Code"] == code
