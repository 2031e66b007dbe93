"""Which instance profiles are deleted, in the embedded account: those that no EC2NodeClass and no instance needs any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from adapters.aws import instance_profiles
from adapters.aws.instance_profiles import DELETED_MAX, KEPT_FOR, InstanceProfiles, OwnedProfiles, UnusedProfiles
from adapters.aws.services import PATIENT, AwsService
from adapters.ports import PortError, TransientError
from core.catalogue.node_class import read_node_class
from tests.builders import a_class_manifest
from tests.fakes.account import FakeAccount

WHERE: Final = {"cluster": "shop", "region": "us-east-1"}


class World:
    """The account, and the profiles that one sandbox makes and prunes."""

    def __init__(self) -> None:
        self.account = FakeAccount()
        self.clock = self.account.clock
        self.ec2, self.iam = (AwsService(self.account.client(name, config=PATIENT)) for name in ("ec2", "iam"))
        self.made = InstanceProfiles(self.iam, **WHERE, clock=self.clock)
        self.owned = OwnedProfiles(self.iam, **WHERE)

    def make(self, manifest: dict[str, Any]) -> str:
        return self.made.resolve(read_node_class(manifest))

    def prune(self, *manifests: dict[str, Any]) -> int:
        return UnusedProfiles(self.ec2, self.made, self.owned, self.clock).prune(manifests)

    def names(self) -> set[str]:
        return {profile["InstanceProfileName"] for profile in self.owned.all()}

    def launch_with(self, profile: str) -> str:
        """Launch an instance that has the profile, and return its id."""
        parameter = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
        image = self.account.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
        data = {"ImageId": image, "IamInstanceProfile": {"Name": profile}}
        self.ec2.call("CreateLaunchTemplate", LaunchTemplateName="nodes", LaunchTemplateData=data)
        subnet = self.ec2.call("DescribeSubnets")["Subnets"][0]["SubnetId"]
        config = {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
            "Overrides": [{"InstanceType": "m5.large", "SubnetId": subnet}],
        }
        answer = self.ec2.call(
            "CreateFleet",
            Type="instant",
            ClientToken="t",
            LaunchTemplateConfigs=[config],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        )
        return str(answer["Instances"][0]["InstanceIds"][0])

    def age(self, span: timedelta = KEPT_FOR) -> None:
        self.clock.run_until(self.clock.now() + span)


def a_class(name: str = "default", **spec: Any) -> dict[str, Any]:
    return a_class_manifest(name, metadata={"uid": f"uid-of-{name}"}, **spec)


@pytest.fixture
def world() -> World:
    return World()


def test_the_profile_of_a_class_that_is_gone_is_deleted(world: World) -> None:
    """Each class that is made again has another uid, and so another profile: a thousand of them fill an account."""
    kept, gone = world.make(a_class("default")), world.make(a_class("gone"))
    world.age(KEPT_FOR - timedelta(minutes=1))
    assert world.prune(a_class("default")) == 0
    world.age()
    assert world.prune(a_class("default")) == 1
    assert world.names() == {kept}
    assert world.make(a_class("gone")) == gone
    assert world.names() == {kept, gone}, "it is made again where the class comes back"


def test_a_profile_stays_until_the_last_instance_that_has_it_is_gone(world: World) -> None:
    """Its pods would lose their credentials in the midst of their work."""
    name = world.make(a_class("gone"))
    instance = world.launch_with(name)
    world.age()
    assert world.prune() == 0
    world.ec2.call("TerminateInstances", InstanceIds=[instance])
    world.age(timedelta(hours=1))
    assert world.prune() == 1
    assert world.names() == set()


def test_what_the_status_names_and_what_the_spec_asks_for_both_stay(world: World) -> None:
    """A changed role is not resolved yet, and launches that are under way use the old one."""
    before, after = world.make(a_class("before")), world.make(a_class())
    world.age()
    assert world.prune(a_class() | {"status": {"instanceProfile": before}}) == 0
    assert world.names() == {before, after}
    assert world.prune(a_class() | {"status": {"instanceProfile": after}}) == 1
    assert world.names() == {after}


def test_a_class_that_cannot_be_read_keeps_what_its_status_names(world: World) -> None:
    name = world.make(a_class())
    world.age()
    broken = {**a_class(), "spec": {"amiFamily": 7}, "status": {"instanceProfile": name}}
    assert world.prune(broken) == 0


def test_foreign_profiles_stay(world: World) -> None:
    world.iam.call("CreateInstanceProfile", InstanceProfileName="theirs", Path="/")
    world.iam.call("CreateInstanceProfile", InstanceProfileName="other", Path="/fleetwright/us-east-1/other/")
    world.age()
    assert world.prune() == 0
    assert {
        found["InstanceProfileName"] for found in OwnedProfiles(world.iam, cluster="other", region="us-east-1").all()
    }


def test_nothing_is_deleted_while_ec2_does_not_say_what_is_in_use(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.make(a_class())
    world.age()

    def silent(*_: Any, **__: Any) -> Any:
        raise TransientError("ec2:DescribeInstances", "503")

    monkeypatch.setattr(world.ec2, "items", silent)
    with pytest.raises(PortError):
        world.prune()
    assert world.names() == {name}


def test_a_round_deletes_some_and_the_next_the_others(world: World) -> None:
    for number in range(DELETED_MAX + 1):
        world.make(a_class(f"class-{number}"))
    world.age()
    assert [world.prune(), world.prune(), world.prune()] == [DELETED_MAX, 1, 0]


def test_an_endless_list_of_profiles_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_profiles, "PAGES_MAX", 3)
    endless = {"InstanceProfiles": [], "IsTruncated": True, "Marker": "m"}
    monkeypatch.setattr(world.iam, "call", lambda *_, **__: endless)
    with pytest.raises(TransientError, match="more than 3 pages"):
        world.prune()
