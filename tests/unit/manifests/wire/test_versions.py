"""Which API versions are read."""

from __future__ import annotations

import pytest

from core.manifests.wire.resources import ALL
from core.manifests.wire.versions import refused_version


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        (
            "karpenter.sh/v9",
            "NodePool",
            "karpenter.sh/v9 has no NodePool; allowed: karpenter.sh/v1, karpenter.sh/v1beta1",
        ),
        (
            "karpenter.sh/v1alpha5",
            "NodePool",
            "karpenter.sh/v1alpha5 has no NodePool; allowed: karpenter.sh/v1, karpenter.sh/v1beta1",
        ),
        ("karpenter.sh/v1", "Provisioner", "karpenter.sh/v1 has no Provisioner; allowed: karpenter.sh/v1alpha5"),
        ("karpenter.sh/v1", "NodeOverlay", "karpenter.sh/v1 has no NodeOverlay; allowed: karpenter.sh/v1alpha1"),
        ("v1", "NodePool", "v1 has no NodePool; allowed: karpenter.sh/v1, karpenter.sh/v1beta1"),
        ("v1", "Deployment", "v1 has no Deployment; allowed: apps/v1"),
        ("apps/v9", "Deployment", "apps/v9 has no Deployment; allowed: apps/v1"),
        ("apps/v1", "Pod", "apps/v1 has no Pod; allowed: v1"),
        ("v1beta1", "Pod", "v1beta1 has no Pod; allowed: v1"),
        ("policy/v1beta1", "Deployment", "policy/v1beta1 has no Deployment; allowed: apps/v1"),
        ("batch/v1beta1", "Deployment", "batch/v1beta1 has no Deployment; allowed: apps/v1"),
        ("extensions/v1beta1", "Job", "extensions/v1beta1 has no Job; allowed: batch/v1"),
        (None, "Pod", "is missing; allowed: v1"),
        ("karpenter.sh/v1", "NodePol", "karpenter.sh/v1 has no kind NodePol"),
        ("karpenter.sh/v1alpha5", "Machine", "karpenter.sh/v1alpha5 has no kind Machine"),
        ("karpenter.k8s.aws/v1", "NodeClass", "karpenter.k8s.aws/v1 has no kind NodeClass"),
    ],
)
def test_a_kind_of_a_version_that_does_not_exist_is_refused(version: str | None, kind: str, said: str) -> None:
    """A NodePool of v9 was read as one of v1, and a Deployment of v1 was left out."""
    assert refused_version({"apiVersion": version, "kind": kind}) == said


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("karpenter.sh/v1beta1", "NodePool"),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
        ("extensions/v1beta1", "Deployment"),
        ("apps/v1beta2", "StatefulSet"),
        ("batch/v2alpha1", "CronJob"),
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("autoscaling.x-k8s.io/v1alpha1", "CapacityBuffer"),
        ("serving.knative.dev/v9", "Service"),
        ("events.k8s.io/v1", "Event"),
        ("autoscaling/v1", "HorizontalPodAutoscaler"),
        ("autoscaling/v1", "Scale"),
        ("policy/v1", "Eviction"),
        ("lifecycle.k8s.io/v1alpha1", "Eviction"),
        ("networking.k8s.io/v1beta1", "ServiceCIDR"),
        ("coordination.k8s.io/v1beta1", "LeaseCandidate"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema"),
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"),
        ("storage.k8s.io/v1beta1", "VolumeAttributesClass"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("hypershift.openshift.io/v1alpha1", "NodePool"),
        ("karpenter.azure.com/v1beta1", "AKSNodeClass"),
        ("v1", "Secret"),
        (None, "Secret"),
        *((resource.api_version, resource.kind) for resource in ALL),
    ],
)
def test_present_and_older_versions_and_kinds_of_others_are_not_refused(version: str | None, kind: str) -> None:
    """Clusters and Helm charts have them."""
    assert refused_version({"apiVersion": version, "kind": kind}) == ""
