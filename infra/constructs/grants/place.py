"""Where permissions hold: partition, region and account of a stack, as ARNs and conditions contain them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam


@dataclass(frozen=True, slots=True)
class Place:
    """Partition, region and account of the stack."""

    stack: cdk.Stack

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource of the account in the region."""
        return f"arn:{self.stack.partition}:{service}:{self.stack.region}:{self.stack.account}:{resource}"

    def ec2(self, resource: str) -> str:
        """Return the ARN of a resource of EC2 in the region, whichever account owns it: images and subnets may be shared."""
        return f"arn:{self.stack.partition}:ec2:{self.stack.region}:*:{resource}"

    def iam(self, resource: str) -> str:
        """Return the ARN of a resource of IAM, which has no regions."""
        return f"arn:{self.stack.partition}:iam::{self.stack.account}:{resource}"

    def in_region(self) -> dict[str, dict[str, str]]:
        """Return the condition that limits an action without resources, such as most Describe calls of EC2, to the region."""
        return {"StringEquals": {"aws:RequestedRegion": self.stack.region}}


def allow(
    role: iam.Role,
    actions: list[str],
    resources: list[str],
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> None:
    """Add a statement to the role's policy."""
    role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions))
