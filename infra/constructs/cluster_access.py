"""How functions get into the cluster: an EKS access entry for each role that asks the API server, in a group of its own."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_eks as eks
from constructs import Construct

from infra.cluster_role import RULES_OF, group_of
from infra.constructs.function import ProvisionerFunction


class ClusterAccess(Construct):
    """Access entries. What each group may do is in the ClusterRoles of `infra.cluster_role`, applied with kubectl or GitOps."""

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: str, functions: Sequence[ProvisionerFunction]
    ) -> None:
        super().__init__(scope, construct_id)
        for function in (found for found in functions if found.spec.name in RULES_OF):
            eks.CfnAccessEntry(
                self,
                function.spec.name,
                cluster_name=cluster,
                principal_arn=function.role.role_arn,
                kubernetes_groups=[group_of(function.spec.name)],
                type="STANDARD",
            )
