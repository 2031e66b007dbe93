"""Whose NodePool one is: Karpenter's core takes any provider's class, and ours is one of them."""

from __future__ import annotations

import pytest

from core import labels
from core.manifests.node_class_refs import AUTO_MODE_GROUP, owner_of


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (labels.AWS_GROUP, "EC2NodeClass"),
        (labels.AWS_GROUP, "NodeClass"),
        (labels.CORE_GROUP, "EC2NodeClass"),
        ("", ""),
        ("", "EC2NodeClass"),
        ("", "Ec2NodeClass"),
        ("karpenter.k8s.aw", "EC2NodeClass"),
        ("karpenter.k8s.aws.", "NodeClass"),
        ("karpenter.example.com", "EC2NodeClas"),
        ("", "NodeClass"),
        ("karpenter.k8s.asw", "E2CNodeClass"),
    ],
)
def test_ours_and_misspellings_of_ours_have_no_other_owner(group: str, kind: str) -> None:
    """Someone else's NodePool is left alone in silence; a typing error must be reported, not passed over."""
    assert owner_of(group, kind) == ""


@pytest.mark.parametrize(
    ("group", "kind", "owner"),
    [
        (AUTO_MODE_GROUP, "NodeClass", "EKS Auto Mode (eks.amazonaws.com)"),
        (AUTO_MODE_GROUP, "EC2NodeClass", "EKS Auto Mode (eks.amazonaws.com)"),
        ("karpenter.azure.com", "AKSNodeClass", "another provider (karpenter.azure.com, AKSNodeClass)"),
        ("karpenter.k8s.gcp", "GCENodeClass", "another provider (karpenter.k8s.gcp, GCENodeClass)"),
        (
            "karpenter.k8s.alibabacloud",
            "ECSNodeClass",
            "another provider (karpenter.k8s.alibabacloud, ECSNodeClass)",
        ),
        ("karpenter.k8s.oracle", "OCINodeClass", "another provider (karpenter.k8s.oracle, OCINodeClass)"),
        ("example.com", "EC2NodeClass", "another provider (example.com, EC2NodeClass)"),
        ("example.com", "", "another provider (example.com, no kind)"),
        ("", "AKSNodeClass", "another provider (no group, AKSNodeClass)"),
    ],
)
def test_other_providers_are_named(group: str, kind: str, owner: str) -> None:
    """A NodePool of EKS Auto Mode or of another provider is launched by its own controller: two would launch twice."""
    assert owner_of(group, kind) == owner
