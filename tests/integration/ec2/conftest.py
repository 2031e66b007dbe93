"""An AWS account in moto: a VPC, a node role, images, an EKS cluster; and CreateFleet as EC2 really answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import boto3
import pytest
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ssm.models import Parameter, ssm_backends

from adapters.aws.ec2.fleet import UNPACED, AwsServices, Ec2Cloud, EC2Turns
from adapters.aws.ec2.instances import TypesFor, unread
from adapters.aws.services import PATIENT, AwsService
from adapters.ports import JsonObject
from core.model.catalogue import InstanceType
from core.model.plan import LaunchOrder
from tests.builders import NOW, a_class_manifest, a_type

REGION: Final = "us-east-1"
CLUSTER: Final = "shop"
VERSION: Final = "1.34"
DISCOVERY: Final = {"karpenter.sh/discovery": CLUSTER}

FleetAnswer = Callable[[JsonObject], JsonObject | None]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def pass_by(self, span: timedelta) -> None:
        self.time += span


class Account:
    """The account, as a test arranges and inspects it.

    Attributes:
        answer_fleet: Answers CreateFleet in moto's place; None lets moto launch.
        denied: Operation → error code and message with which EC2 answers it in moto's place.
        fleets, tries: Every CreateFleet and every RunInstances request that was sent.
        called: Every operation that was sent.
    """

    def __init__(self) -> None:
        self.ec2 = boto3.client("ec2", region_name=REGION)
        self.iam = boto3.client("iam", region_name=REGION)
        self.subnets: dict[str, str] = {}
        self._furnish()
        self._services = [self._service(name) for name in ("ec2", "ssm", "iam", "eks")]
        self.tidy()

    def tidy(self) -> None:
        """Remove what a test left, and forget what it armed."""
        self.clock = Clock()
        self.answer_fleet: FleetAnswer | None = None
        self.denied: dict[str, tuple[str, str]] = {}
        for reservation in self.ec2.describe_instances()["Reservations"]:
            self.ec2.terminate_instances(InstanceIds=[i["InstanceId"] for i in reservation["Instances"]])
        for template in self.ec2.describe_launch_templates()["LaunchTemplates"]:
            self.ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])
        self.cloud = self.new_sandbox()
        self.fleets: list[JsonObject] = []
        self.tries: list[JsonObject] = []
        self.called: list[str] = []

    def new_sandbox(self, types_for: TypesFor = unread, turns: EC2Turns = UNPACED) -> Ec2Cloud:
        """The adapter as a cold function has it, after this reading of the market."""
        services = AwsServices(*self._services, region=REGION)
        return Ec2Cloud(services, cluster=CLUSTER, clock=self.clock, types_for=types_for, turns=turns)

    def _service(self, name: str) -> Any:
        service = AwsService(boto3.client(name, region_name=REGION, config=PATIENT))
        events = service._client.meta.events
        events.register(f"before-parameter-build.{name}", self._note)
        events.register("before-call.ec2", self._maybe_deny)
        events.register("before-call.ec2.CreateFleet", self._maybe_answer)
        return service

    def _note(self, params: JsonObject, model: Any, **_: Any) -> None:
        self.called.append(model.name)
        if model.name in ("CreateFleet", "RunInstances"):
            (self.fleets if model.name == "CreateFleet" else self.tries).append(dict(params))

    def _maybe_deny(self, model: Any, **_: Any) -> Any:
        if model.name not in self.denied:
            return None
        code, message = self.denied[model.name]
        return type("Http", (), {"status_code": 403})(), {"Error": {"Code": code, "Message": message}}

    def _maybe_answer(self, **_: Any) -> Any:
        answer = self.answer_fleet(self.fleets[-1]) if self.answer_fleet else None
        if answer is None:
            return None
        return type("Http", (), {"status_code": 400 if "Error" in answer else 200})(), answer

    def _furnish(self) -> None:
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        tags = [{"Key": key, "Value": value} for key, value in DISCOVERY.items()]
        for number, (zone, size) in enumerate((("a", 24), ("b", 23), ("b", 26))):
            subnet = self.ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{number * 4}.0/{size}", AvailabilityZone=f"{REGION}{zone}"
            )["Subnet"]["SubnetId"]
            self.ec2.create_tags(Resources=[subnet], Tags=tags)
            self.subnets[f"{zone}{size}"] = subnet
        group = self.ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
        self.ec2.create_tags(Resources=[group], Tags=tags)
        self.group: str = group
        self.iam.create_role(RoleName="NodeRole", AssumeRolePolicyDocument="{}")
        boto3.client("eks", region_name=REGION).create_cluster(
            name=CLUSTER,
            version=VERSION,
            roleArn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/eks",
            resourcesVpcConfig={"subnetIds": list(self.subnets.values())},
            kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"},
        )
        self.images = {arch: self.publish(arch, "standard") for arch in ("x86_64", "arm64")}

    def register(self, name: str, architecture: str = "x86_64") -> str:
        """An image; moto forgets what it is for."""
        image: str = self.ec2.register_image(Name=name)["ImageId"]
        ec2_backends[DEFAULT_ACCOUNT_ID][REGION].amis[image].architecture = architecture
        return image

    def publish(self, architecture: str, variant: str, name: str = "") -> str:
        """Publish an AL2023 image behind the alias's parameter."""
        image = self.register(name or f"al2023-{architecture}-{variant}", architecture)
        root = f"/aws/service/eks/optimized-ami/{VERSION}/amazon-linux-2023"
        set_parameter(f"{root}/{architecture}/{variant}/recommended/image_id", image)
        return image


def set_parameter(name: str, value: str) -> None:
    """Put a public parameter, which the API refuses."""
    parameter = Parameter(
        account_id=DEFAULT_ACCOUNT_ID,
        name=name,
        value=value,
        parameter_type="String",
        description="",
        allowed_pattern=None,
        keyid=None,
        last_modified_date=0,
        version=1,
        data_type="text",
    )
    ssm_backends[DEFAULT_ACCOUNT_ID][REGION]._parameters[name] = [parameter]


@pytest.fixture(scope="module")
def furnished() -> Iterator[Account]:
    """One account for all tests of a module: furnishing it takes seconds."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        environment.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
        environment.setenv("AWS_DEFAULT_REGION", REGION)
        with mock_aws():
            yield Account()


@pytest.fixture
def account(furnished: Account) -> Account:
    """The account, as if nothing had happened in it yet."""
    furnished.tidy()
    return furnished


def a_manifest(name: str = "default", **spec: Any) -> JsonObject:
    own = {"discovery": CLUSTER, "metadata": {"uid": f"uid-{name}", "generation": 3}}
    return a_class_manifest(name, **own, **{"role": "NodeRole", **spec})


def an_order(*types: InstanceType, node_class: JsonObject | None = None, claim: str = "general-1") -> LaunchOrder:
    chosen = types or (a_type("m5.large", zones=("us-east-1a", "us-east-1b"), capacity_types=("spot",)),)
    return LaunchOrder(
        claim=claim,
        node_pool="general",
        token=f"token-{claim}",
        offerings=tuple(o for t in chosen for o in t.offerings),
        node_class=node_class or a_manifest(),
        node_labels={"karpenter.sh/nodepool": "general"},
        taints=(),
        tags={"karpenter.sh/nodeclaim": claim},
        instance_types=chosen,
    )
