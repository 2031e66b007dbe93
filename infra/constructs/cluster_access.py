"""How the functions get into the cluster: an EKS access entry for each role, all in one Kubernetes group."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_eks as eks
from constructs import Construct

from infra.cluster_role import KUBERNETES_GROUP
from infra.constructs.function import ProvisionerFunction


class ClusterAccess(Construct):
    """Access entries. What the group may do is the ClusterRole of `infra.cluster_role`, applied with kubectl or GitOps."""

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: str, functions: Sequence[ProvisionerFunction]
    ) -> None:
        super().__init__(scope, construct_id)
        for function in functions:
            eks.CfnAccessEntry(
                self,
                function.spec.name,
                cluster_name=cluster,
                principal_arn=function.role.role_arn,
                kubernetes_groups=[KUBERNETES_GROUP],
                type="STANDARD",
            )
