"""Gives functions and nodes access to the cluster: EKS access entries.

Each role that uses the API server is in a group of its own; the roles of nodes may join.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from constructs import Construct

from infra.constructs.function import ProvisionerFunction
from installation.cluster_roles import RULES_OF, group_of


class ClusterAccess(Construct):
    """Access entries.

    The permissions of each group are in the ClusterRoles of `infra.cluster_role`, applied with kubectl or GitOps.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: str,
        functions: Sequence[ProvisionerFunction],
        node_roles: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        for function in (candidate for candidate in functions if candidate.spec.name in RULES_OF):
            eks.CfnAccessEntry(
                self,
                function.spec.name,
                cluster_name=cluster,
                principal_arn=function.role.role_arn,
                kubernetes_groups=[group_of(function.spec.name)],
                type="STANDARD",
            )
        stack = cdk.Stack.of(self)
        for role in node_roles:
            eks.CfnAccessEntry(
                self,
                f"nodes-{role}",
                cluster_name=cluster,
                principal_arn=stack.format_arn(service="iam", region="", resource="role", resource_name=role),
                type="EC2_LINUX",
            )
