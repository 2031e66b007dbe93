"""Grants least privilege: each function's permissions in EC2, IAM and elsewhere, conditioned on our tags.

Actions that EC2 cannot limit to a resource (most Describe calls) are limited to the region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from infra.config import ClusterConfig
from infra.constructs.function import ProvisionerFunction
from infra.constructs.kill_switch import KillSwitchParameter
from infra.constructs.queues import Queues
from infra.constructs.windows import BudgetWindows

Grant = Callable[[iam.Role], None]

CLUSTER_TAG = "eks:eks-cluster-name"
POOL_TAG = "karpenter.sh/nodepool"
CLAIM_TAG = "fleetwright.dev/claim"
"""Only our instances have this tag; Karpenter's instances have the two above as well."""

LAUNCH_TAG = "fleetwright.dev/launch"
"""Only instances that one request launched for several claims have this tag."""

LAUNCH_ACTIONS = ["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate"]
CREATED = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
USED = ("image/*", "snapshot/*", "subnet/*", "security-group/*", "capacity-reservation/*", "placement-group/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Grants each function the permissions for its work.

    Attributes:
        stack: The stack whose partition, region and account the ARNs contain.
        shared_table, shared_bucket: Shared by the clusters of the account and region; the cluster's own if it shares nothing.
    """

    stack: cdk.Stack
    config: ClusterConfig
    table: dynamodb.ITable
    bucket: s3.IBucket
    shared_table: dynamodb.ITable
    shared_bucket: s3.IBucket
    queues: Queues
    windows: BudgetWindows
    kill_switch: KillSwitchParameter
    approval_topic_arn: str = ""

    def grant(self, function: ProvisionerFunction) -> None:
        """Grant `function` the permissions for its work."""
        for give in (self._to_observe_only() if self.config.is_shadow else self._to_act())[function.spec.name]:
            give(function.role)

    def _to_observe_only(self) -> Mapping[str, Sequence[Grant]]:
        """Return the grants with `mode: shadow`: functions read, and write only the ledger and the catalogue."""
        observes = [self._enters_cluster, self._reads_catalogue, self._keeps_decisions]
        return {
            "provision": [*observes, self._wakes_provision],
            "disrupt": observes,
            "refresh_catalogue": [self._reads_market, self._reads_catalogue, self._writes_catalogue],
        }

    def _to_observe(self) -> Sequence[Grant]:
        return [
            self._reads_brakes,
            self._enters_cluster,
            self._reads_catalogue,
            self._reads_refusals,
            self._sends_work,
        ]

    def _to_launch(self) -> Sequence[Grant]:
        return [
            self._launches,
            self._learns_refusals,
            self._tries_refusals_again,
            self._counts_launches,
            self._describes_instances,
            self._resolves_node_classes,
            self._wakes_provision,
        ]

    def _to_act(self) -> Mapping[str, Sequence[Grant]]:
        observes, launches = self._to_observe(), self._to_launch()
        return {
            "watch_audit_log": [self._wakes_provision, self._wakes_disrupt, self._sends_work, self._records_pod_ends],
            "provision": [*observes, self._keeps_state, *launches, self._keeps_ledger],
            "disrupt": [
                *observes,
                self._marks_claims,
                self._wakes_disrupt,
                self._keeps_ledger,
                self._asks_for_approval,
            ],
            "execute": [
                *observes,
                self._keeps_state,
                *launches,
                self._wakes_disrupt,
                self._terminates,
                self._records_outcomes,
            ],
            "interrupt": [
                self._reads_kill_switch,
                self._marks_one_claim,
                self._describes_instances,
                self._learns_refusals,
                self._sends_work,
                self._wakes_provision,
            ],
            "reconcile": [
                *observes,
                self._keeps_state,
                self._launches,
                self._resolves_node_classes,
                self._wakes_provision,
                self._describes_instances,
                self._describes_statuses,
                self._names_instances,
                self._prunes_templates,
                self._prunes_instance_profiles,
                self._keeps_windows,
            ],
            "refresh_catalogue": [self._reads_market, self._reads_catalogue, self._writes_catalogue],
        }

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:{self.stack.partition}:{service}:{self.stack.region}:{self.stack.account}:{resource}"

    def _ec2(self, resource: str) -> str:
        return f"arn:{self.stack.partition}:ec2:{self.stack.region}:*:{resource}"

    def _in_region(self) -> dict[str, dict[str, str]]:
        return {"StringEquals": {"aws:RequestedRegion": self.stack.region}}

    def _tagged(self, prefix: str) -> dict[str, dict[str, str]]:
        return {
            "StringEquals": {f"{prefix}/{CLUSTER_TAG}": self.config.cluster},
            "StringLike": {f"{prefix}/{POOL_TAG}": "*"},
        }

    def _reads_kill_switch(self, role: iam.Role) -> None:
        self._allow(role, ["ssm:GetParameter"], [self._arn("ssm", f"parameter{self.kill_switch.name}")])

    def _reads_brakes(self, role: iam.Role) -> None:
        self._reads_kill_switch(role)
        if self.config.pausing_alarms:
            self._allow(role, ["cloudwatch:DescribeAlarms"], ["*"], self._in_region())
        if self.config.follow_zonal_shift:
            self._allow(role, ["arc-zonal-shift:GetManagedResource"], ["*"], self._in_region())

    def _enters_cluster(self, role: iam.Role) -> None:
        """Allow reading the API server's address; the signed token needs no permission."""
        self._allow(role, ["eks:DescribeCluster"], [self._arn("eks", f"cluster/{self.config.cluster}")])

    def _keeps_state(self, role: iam.Role) -> None:
        self._marks_claims(role)
        self.table.grant(role, "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem")

    def _marks_claims(self, role: iam.Role) -> None:
        self._adds_commands(role)
        self.table.grant(role, "dynamodb:UpdateItem")

    def _marks_one_claim(self, role: iam.Role) -> None:
        """Allow changing the claim of one instance. It is found by the instance's id, so no query is granted."""
        self.table.grant(role, "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")

    def _records_pod_ends(self, role: iam.Role) -> None:
        self.table.grant(role, "dynamodb:PutItem")

    def _adds_commands(self, role: iam.Role) -> None:
        self.table.grant(role, "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query")

    def _reads_catalogue(self, role: iam.Role) -> None:
        self._allow(role, ["s3:GetObject"], [self.shared_bucket.arn_for_objects("catalogue/*")])
        self._hears_what_is_missing(role, self.shared_bucket)

    def _hears_what_is_missing(self, role: iam.Role, bucket: s3.IBucket) -> None:
        """Allow listing the bucket: without it, S3 reports a missing object as denied."""
        self._allow(role, ["s3:ListBucket"], [bucket.bucket_arn])

    def _reads_refusals(self, role: iam.Role) -> None:
        self.shared_table.grant(role, "dynamodb:Query")

    def _learns_refusals(self, role: iam.Role) -> None:
        self.shared_table.grant(role, "dynamodb:GetItem", "dynamodb:PutItem")

    def _tries_refusals_again(self, role: iam.Role) -> None:
        """Allow taking the right to probe a refused offering, and deleting its row after a success."""
        self.shared_table.grant(role, "dynamodb:UpdateItem", "dynamodb:DeleteItem")

    def _counts_launches(self, role: iam.Role) -> None:
        """Allow counting launches for all clusters: EC2 limits the rate of requests per account and region."""
        self.shared_table.grant(role, "dynamodb:UpdateItem")

    def _writes_catalogue(self, role: iam.Role) -> None:
        self._allow(role, ["s3:PutObject"], [self.shared_bucket.arn_for_objects("catalogue/*")])

    def _keeps_ledger(self, role: iam.Role) -> None:
        self._records_outcomes(role)
        self._keeps_decisions(role)

    def _keeps_decisions(self, role: iam.Role) -> None:
        """Allow writing decisions, and reading the bases against which they are stored."""
        self._allow(role, ["s3:PutObject"], [self.bucket.arn_for_objects("ledger/decisions/*")])
        bases = [self.bucket.arn_for_objects("ledger/bases/*")]
        self._allow(role, ["s3:GetObject", "s3:PutObject"], bases)
        self._hears_what_is_missing(role, self.bucket)

    def _records_outcomes(self, role: iam.Role) -> None:
        self._allow(role, ["s3:PutObject"], [self.bucket.arn_for_objects("ledger/outcomes/*")])

    def _asks_for_approval(self, role: iam.Role) -> None:
        if self.approval_topic_arn:
            self._allow(role, ["sns:Publish"], [self.approval_topic_arn])

    def _sends_work(self, role: iam.Role) -> None:
        self._allow(role, ["sqs:SendMessage"], [self.queues.by_name["work"].queue_arn])

    def _wakes_provision(self, role: iam.Role) -> None:
        self._allow(role, ["sqs:SendMessage"], [self.queues.by_name["wake-ups"].queue_arn])

    def _wakes_disrupt(self, role: iam.Role) -> None:
        self._allow(role, ["sqs:SendMessage"], [self.queues.by_name["looks"].queue_arn])

    def _describes_statuses(self, role: iam.Role) -> None:
        self._allow(role, ["ec2:DescribeInstanceStatus"], ["*"], self._in_region())

    def _describes_instances(self, role: iam.Role) -> None:
        self._allow(role, ["ec2:DescribeInstances"], ["*"], self._in_region())

    def _launches(self, role: iam.Role) -> None:
        created = [self._ec2(f"{kind}/*") for kind in CREATED]
        self._allow(role, LAUNCH_ACTIONS, created, self._tagged("aws:RequestTag"))
        self._allow(role, LAUNCH_ACTIONS[:2], [self._ec2("launch-template/*")], self._tagged("aws:ResourceTag"))
        self._allow(role, LAUNCH_ACTIONS[:2], [self._ec2(resource) for resource in USED])
        on_create = {"StringEquals": {"ec2:CreateAction": ["CreateFleet", "RunInstances", "CreateLaunchTemplate"]}}
        self._allow(role, ["ec2:CreateTags"], created, on_create)

    def _names_instances(self, role: iam.Role) -> None:
        """Allow naming the instances of a shared launch after their claims, and no other tag."""
        ours = self._tagged("aws:ResourceTag")
        ours["StringLike"][f"aws:ResourceTag/{LAUNCH_TAG}"] = "*"
        names = {"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "karpenter.sh/nodeclaim", CLAIM_TAG]}}
        self._allow(role, ["ec2:CreateTags"], [self._ec2("instance/*")], {**ours, **names})

    def _resolves_node_classes(self, role: iam.Role) -> None:
        describes = ["CapacityReservations", "Images", "PlacementGroups", "SecurityGroups", "Subnets"]
        self._allow(role, [f"ec2:Describe{what}" for what in describes], ["*"], self._in_region())
        service_parameters = f"arn:{self.stack.partition}:ssm:{self.stack.region}::parameter/aws/service/*"
        own_parameters = [self._arn("ssm", f"parameter{path}") for path in self.config.image_parameters]
        self._allow(role, ["ssm:GetParameters"], [service_parameters, *own_parameters])
        self._makes_instance_profiles(role)

    def _makes_instance_profiles(self, role: iam.Role) -> None:
        """Allow creating instance profiles under our path, for EC2NodeClasses that name a role."""
        every, ours = self._instance_profiles()
        self._allow(role, ["iam:GetInstanceProfile"], [every])
        making = ["iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile"]
        self._allow(role, making, [ours])
        self._allow(
            role,
            ["iam:PassRole"],
            [f"arn:{self.stack.partition}:iam::{self.stack.account}:role/{name}" for name in self.config.node_roles],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        )

    def _prunes_instance_profiles(self, role: iam.Role) -> None:
        """Allow deleting our instance profiles. Listing covers all profiles of the account: IAM cannot limit it to a path."""
        every, ours = self._instance_profiles()
        self._allow(role, ["iam:ListInstanceProfiles"], [every])
        self._allow(role, ["iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"], [ours])

    def _instance_profiles(self) -> tuple[str, str]:
        """Return the ARNs of every instance profile of the account, and of ours."""
        every = f"arn:{self.stack.partition}:iam::{self.stack.account}:instance-profile"
        return f"{every}/*", f"{every}/fleetwright/{self.stack.region}/{self.config.cluster}/*"

    def _prunes_templates(self, role: iam.Role) -> None:
        template = self._ec2("launch-template/*")
        self._allow(role, ["ec2:DescribeLaunchTemplates"], ["*"], self._in_region())
        self._allow(role, ["ec2:DeleteLaunchTemplate"], [template], self._tagged("aws:ResourceTag"))

    def _terminates(self, role: iam.Role) -> None:
        ours = self._tagged("aws:ResourceTag")
        ours["StringLike"][f"aws:ResourceTag/{CLAIM_TAG}"] = "*"
        self._allow(role, ["ec2:TerminateInstances"], [self._ec2("instance/*")], ours)

    def _reads_market(self, role: iam.Role) -> None:
        describes = ["InstanceTypes", "InstanceTypeOfferings", "SpotPriceHistory"]
        self._allow(role, [f"ec2:Describe{what}" for what in describes], ["*"], self._in_region())
        self._allow(role, ["pricing:GetProducts"], ["*"])
        self._allow(role, ["servicequotas:ListServiceQuotas"], ["*"])
        self._describes_instances(role)

    def _keeps_windows(self, role: iam.Role) -> None:
        self.windows.managed_by(role, arn_prefix=self._arn("scheduler", ""))

    @staticmethod
    def _allow(
        role: iam.Role,
        actions: list[str],
        resources: list[str],
        conditions: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions))
