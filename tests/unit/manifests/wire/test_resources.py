"""Paths of the API server."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from core.manifests.wire.resources import (
    ALL,
    BY_KIND,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    NODE_POOLS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    Resource,
    resource_read,
)

CRDS = Path(__file__).parents[4] / "crds"


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("p", "shop", "eviction") == "/api/v1/namespaces/shop/pods/p/eviction"
    assert NODES.path("n") == "/api/v1/nodes/n"
    assert POD_DISRUPTION_BUDGETS.path(namespace="shop") == "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
    assert (PODS.api_version, POD_DISRUPTION_BUDGETS.api_version) == ("v1", "policy/v1")


def test_a_kind_is_listed_once() -> None:
    """Three groups have a PodGroup; the name alone means Kubernetes' own."""
    others = {resource for resource in ALL if resource.kind == "PodGroup"} - {BY_KIND["PodGroup"]}
    assert {resource.group for resource in others} == {"scheduling.volcano.sh", "scheduling.x-k8s.io"}
    assert len(BY_KIND) == len(ALL) - len(others)


def test_kinds_without_a_namespace_are_those_of_kubernetes_and_of_the_crds() -> None:
    """A path with a namespace for such a kind is one that no API server knows."""
    ours = [yaml.safe_load(path.read_text())["spec"] for path in sorted(CRDS.glob("*.yaml"))]
    scoped = {one["names"]["kind"] for one in ours if one["scope"] == "Cluster"}
    scoped |= {
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
        "PriorityClass",
    }
    scoped |= {"RuntimeClass"}
    assert {one.kind for one in ALL if not one.namespaced} == scoped
    assert len(ours) == 5


@pytest.mark.parametrize(
    ("group", "kind", "read"),
    [
        ("", "Service", SERVICES),
        ("serving.knative.dev", "Service", None),
        ("apps", "Deployment", DEPLOYMENTS),
        ("extensions", "Deployment", DEPLOYMENTS),
        ("", "Deployment", None),
        ("karpenter.sh", "NodePool", NODE_POOLS),
        ("karpenter.sh", "Provisioner", NODE_POOLS),
        ("karpenter.k8s.aws", "AWSNodeTemplate", EC2_NODE_CLASSES),
        ("other.io", "Provisioner", None),
        ("eks.amazonaws.com", "NodeClass", None),
        ("", "ConfigMap", None),
    ],
)
def test_a_kind_is_read_in_its_own_group_alone(group: str, kind: str, read: Resource | None) -> None:
    """Other groups have a Service, too; Karpenter's older kinds are read as what they are now."""
    assert resource_read(group, kind) == read
