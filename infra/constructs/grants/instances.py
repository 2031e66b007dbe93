"""Permissions in EC2, and in what launching needs of IAM and SSM: conditioned on our tags wherever EC2 can tell."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from infra.config import ClusterConfig
from infra.constructs.grants.place import Place, allow

CLUSTER_TAG = "eks:eks-cluster-name"
POOL_TAG = "karpenter.sh/nodepool"
CLAIM_TAG = "fleetwright.dev/claim"
"""Only our instances have this tag; Karpenter's instances have the two above as well."""

LAUNCH_TAG = "fleetwright.dev/launch"
"""Only instances that one request launched for several claims have this tag."""

LAUNCH_ACTIONS = ["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate"]
CREATED = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
USED = ("image/*", "snapshot/*", "subnet/*", "security-group/*", "capacity-reservation/*", "placement-group/*")


class InstanceGrants:
    """Permissions to read the market, and to launch, describe, name and terminate instances of one cluster."""

    def __init__(self, stack: cdk.Stack, config: ClusterConfig) -> None:
        self._place = Place(stack)
        self._config = config

    def _tagged(self, prefix: str) -> dict[str, dict[str, str]]:
        return {
            "StringEquals": {f"{prefix}/{CLUSTER_TAG}": self._config.cluster},
            "StringLike": {f"{prefix}/{POOL_TAG}": "*"},
        }

    def describes_statuses(self, role: iam.Role) -> None:
        """Allow reading EC2's status checks and scheduled events of instances."""
        allow(role, ["ec2:DescribeInstanceStatus"], ["*"], self._place.in_region())

    def describes_instances(self, role: iam.Role) -> None:
        """Allow finding instances by their tags."""
        allow(role, ["ec2:DescribeInstances"], ["*"], self._place.in_region())

    def launches(self, role: iam.Role) -> None:
        """Allow launching with the cluster's tags, from images, subnets and groups of anybody's."""
        created = [self._place.ec2(f"{kind}/*") for kind in CREATED]
        allow(role, LAUNCH_ACTIONS, created, self._tagged("aws:RequestTag"))
        allow(role, LAUNCH_ACTIONS[:2], [self._place.ec2("launch-template/*")], self._tagged("aws:ResourceTag"))
        allow(role, LAUNCH_ACTIONS[:2], [self._place.ec2(resource) for resource in USED])
        on_create = {"StringEquals": {"ec2:CreateAction": ["CreateFleet", "RunInstances", "CreateLaunchTemplate"]}}
        allow(role, ["ec2:CreateTags"], created, on_create)

    def names_instances(self, role: iam.Role) -> None:
        """Allow naming the instances of a shared launch after their claims, and no other tag."""
        ours = self._tagged("aws:ResourceTag")
        ours["StringLike"][f"aws:ResourceTag/{LAUNCH_TAG}"] = "*"
        names = {"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "karpenter.sh/nodeclaim", CLAIM_TAG]}}
        allow(role, ["ec2:CreateTags"], [self._place.ec2("instance/*")], {**ours, **names})

    def resolves_node_classes(self, role: iam.Role) -> None:
        """Allow finding what an EC2NodeClass selects, and making its instance profile."""
        describes = ["CapacityReservations", "Images", "PlacementGroups", "SecurityGroups", "Subnets"]
        allow(role, [f"ec2:Describe{what}" for what in describes], ["*"], self._place.in_region())
        service_parameters = (
            f"arn:{self._place.stack.partition}:ssm:{self._place.stack.region}::parameter/aws/service/*"
        )
        own_parameters = [self._place.arn("ssm", f"parameter{path}") for path in self._config.image_parameters]
        allow(role, ["ssm:GetParameters"], [service_parameters, *own_parameters])
        self._makes_instance_profiles(role)

    def _makes_instance_profiles(self, role: iam.Role) -> None:
        """Allow creating instance profiles under our path, for EC2NodeClasses that name a role."""
        all_profiles, ours = self._instance_profiles()
        allow(role, ["iam:GetInstanceProfile"], [all_profiles])
        making = ["iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile"]
        allow(role, making, [ours])
        allow(
            role,
            ["iam:PassRole"],
            [self._place.iam(f"role/{name}") for name in self._config.node_roles],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        )

    def prunes_instance_profiles(self, role: iam.Role) -> None:
        """Allow deleting our instance profiles. Listing covers all profiles of the account: the action has no resource.

        See docs/engineering/aws-facts.md#list-profiles-resource.
        """
        _, ours = self._instance_profiles()
        allow(role, ["iam:ListInstanceProfiles"], ["*"])
        allow(role, ["iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"], [ours])

    def _instance_profiles(self) -> tuple[str, str]:
        """Return the ARNs of every instance profile of the account, and of ours."""
        own_path = f"fleetwright/{self._place.stack.region}/{self._config.cluster}"
        return self._place.iam("instance-profile/*"), self._place.iam(f"instance-profile/{own_path}/*")

    def prunes_templates(self, role: iam.Role) -> None:
        """Allow deleting the cluster's launch templates."""
        template = self._place.ec2("launch-template/*")
        allow(role, ["ec2:DescribeLaunchTemplates"], ["*"], self._place.in_region())
        allow(role, ["ec2:DeleteLaunchTemplate"], [template], self._tagged("aws:ResourceTag"))

    def terminates(self, role: iam.Role) -> None:
        """Allow terminating instances that carry our own tag, which Karpenter's lack."""
        ours = self._tagged("aws:ResourceTag")
        ours["StringLike"][f"aws:ResourceTag/{CLAIM_TAG}"] = "*"
        allow(role, ["ec2:TerminateInstances"], [self._place.ec2("instance/*")], ours)

    def reads_market(self, role: iam.Role) -> None:
        """Allow reading instance types, zones, prices, and quotas with their use."""
        describes = ["InstanceTypes", "InstanceTypeOfferings", "SpotPriceHistory"]
        allow(role, [f"ec2:Describe{what}" for what in describes], ["*"], self._place.in_region())
        allow(role, ["pricing:GetProducts"], ["*"])
        allow(role, ["servicequotas:ListServiceQuotas"], ["*"])
        self.describes_instances(role)
