"""What conversion writes that the older object did not say."""

from __future__ import annotations

from typing import Any

import pytest

from core.api.conversion import as_v1
from core.api.written_defaults import written_defaults


def older(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def defaults_of(old: dict[str, Any]) -> list[str]:
    return written_defaults(old, as_v1(old))


TEMPLATE = {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}}


def test_a_node_pool_states_expiry_and_consolidation() -> None:
    """All three were applied by the API server, and are in no file."""
    assert defaults_of(older("karpenter.sh/v1beta1", "NodePool", template=TEMPLATE)) == [
        "spec.template.spec.expireAfter: 720h",
        "spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized",
        "spec.disruption.consolidateAfter: 0s",
    ]


def test_a_provisioner_states_what_its_webhook_added() -> None:
    own = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    assert defaults_of(
        older("karpenter.sh/v1alpha5", "Provisioner", requirements=[own, None], ttlSecondsAfterEmpty=30)
    ) == [
        "spec.template.spec.expireAfter: Never",
        "spec.template.spec.requirements: kubernetes.io/os In [linux]",
        "spec.template.spec.requirements: karpenter.sh/capacity-type In [on-demand]",
        "spec.template.spec.requirements: karpenter.k8s.aws/instance-category In [c, m, r]",
        "spec.template.spec.requirements: karpenter.k8s.aws/instance-generation Gt [2]",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["spec.amiSelectorTerms: [alias al2@latest]"]),
        ({"amiSelectorTerms": [{"id": "ami-1"}]}, ["spec.amiFamily: Custom"]),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]}, []),
    ],
)
def test_a_node_class_states_images_and_metadata_options(spec: dict[str, Any], expected: list[str]) -> None:
    options = {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1}
    old = older("karpenter.k8s.aws/v1beta1", "EC2NodeClass", metadataOptions=options, **spec)
    assert defaults_of(old) == [*expected, "spec.metadataOptions.httpTokens: required"]


def test_an_object_that_says_everything_has_none() -> None:
    spec = {"expireAfter": "24h", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"}
    assert defaults_of(older("karpenter.sh/v1beta1", "NodePool", template=TEMPLATE, disruption=spec)) == []
