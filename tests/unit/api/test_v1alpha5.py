"""Objects of the first API in v1beta1: what was implied is written out."""

from __future__ import annotations

import pytest

from core.api import v1alpha5
from core.api.objects import JsonObject
from core.errors import InvalidInputError

IMPLIED = ["kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type"]
SHAPES = ["karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-generation"]


def a_provisioner(**spec: object) -> JsonObject:
    return {"kind": "Provisioner", "metadata": {"name": "old"}, "spec": spec}


def a_template(**spec: object) -> JsonObject:
    return {"kind": "AWSNodeTemplate", "metadata": {"name": "old"}, "spec": spec}


def keys(provisioner: JsonObject) -> list[str]:
    spec = v1alpha5.provisioner(provisioner)["spec"]["template"]["spec"]
    return [entry["key"] for entry in spec["requirements"]]


def test_requirements_that_the_old_webhook_added_are_written_out() -> None:
    assert keys(a_provisioner()) == [*IMPLIED, *SHAPES]


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("kubernetes.io/os", [*IMPLIED[1:], *SHAPES]),
        ("beta.kubernetes.io/arch", [IMPLIED[0], IMPLIED[2], *SHAPES]),
        ("node.kubernetes.io/instance-type", IMPLIED),
        ("karpenter.k8s.aws/instance-family", IMPLIED),
    ],
)
def test_a_requirement_that_is_there_implies_no_other(key: str, left: list[str]) -> None:
    given = {"key": key, "operator": "In", "values": ["x"]}
    assert keys(a_provisioner(requirements=[given])) == [key, *left]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, {"expireAfter": "Never", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}),
        (
            {"ttlSecondsUntilExpired": 60, "ttlSecondsAfterEmpty": 30},
            {"expireAfter": "60s", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        ),
        ({"consolidation": {"enabled": True}}, {"expireAfter": "Never", "consolidationPolicy": "WhenUnderutilized"}),
    ],
)
def test_nodes_go_as_they_went(spec: JsonObject, found: JsonObject) -> None:
    assert v1alpha5.provisioner(a_provisioner(**spec))["spec"]["disruption"] == found


def test_names_of_annotations_and_of_the_class_follow() -> None:
    old = a_provisioner(annotations={"karpenter.sh/do-not-evict": "true"}, limits={"resources": {"cpu": "9"}}, weight=3)
    spec = v1alpha5.provisioner(old)["spec"]
    assert spec["template"]["metadata"] == {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    assert spec["template"]["spec"]["nodeClassRef"] == {"name": "old"}
    assert (spec["limits"], spec["weight"]) == ({"cpu": "9"}, 3)


def test_a_provider_inside_becomes_a_class_of_the_same_name() -> None:
    found = v1alpha5.inline_provider(a_provisioner(provider={"subnetSelector": {"a": "b"}}))
    assert found is not None
    assert (found["kind"], found["metadata"]["name"]) == ("EC2NodeClass", "old")
    assert v1alpha5.inline_provider(a_provisioner(provider={"a": "b"}, providerRef={"name": "other"})) is None
    assert v1alpha5.inline_provider(a_provisioner()) is None


def test_a_selector_becomes_a_term_for_each_combination() -> None:
    found = v1alpha5.node_template(
        a_template(subnetSelector={"team": "a, b"}, securityGroupSelector={"aws-ids": "sg-1,sg-2"})
    )
    assert found["spec"]["subnetSelectorTerms"] == [{"tags": {"team": "a"}}, {"tags": {"team": "b"}}]
    assert found["spec"]["securityGroupSelectorTerms"] == [{"id": "sg-1"}, {"id": "sg-2"}]


def test_defaults_of_the_cluster_are_placeholders() -> None:
    spec = v1alpha5.node_template(a_template())["spec"]
    assert (spec["role"], spec["amiFamily"]) == (v1alpha5.PLACEHOLDER_ROLE, "AL2")
    assert "role" not in v1alpha5.node_template(a_template(instanceProfile="p"))["spec"]


def test_a_launch_template_of_ones_own_is_refused_by_name_and_field() -> None:
    with pytest.raises(InvalidInputError) as refused:
        v1alpha5.node_template(a_template(launchTemplate="lt-1"))
    assert (refused.value.subject, refused.value.field) == ("AWSNodeTemplate old", "spec.launchTemplate")


def test_what_a_provisioner_does_not_say_stays_unsaid() -> None:
    """An empty map of limits, or a weight of nothing, would be a field that nobody wrote."""
    spec = v1alpha5.provisioner(a_provisioner())["spec"]
    assert spec.keys() == {"template", "disruption"}
    assert spec["template"]["spec"].keys() == {"nodeClassRef", "requirements"}


def kubelet_of(**settings: object) -> object:
    new = v1alpha5.provisioner(a_provisioner(kubeletConfiguration=settings))
    return new["spec"]["template"]["spec"].get("kubelet")


def test_kubelet_settings_stay_except_the_one_that_no_later_version_has() -> None:
    """Otherwise, nodes come back with room for other numbers of pods, or the API server refuses the NodePool."""
    kept = {"maxPods": 20, "clusterDNS": ["10.0.0.10"], "kubeReserved": {"cpu": "100m"}}
    assert kubelet_of(**kept, containerRuntime="containerd") == kept
    assert kubelet_of(containerRuntime="dockerd") is None


def test_all_that_describes_a_node_stays_in_its_class() -> None:
    """Otherwise, nodes come back without their start script, their disks or the tags that cost reports need."""
    described = {
        "amiFamily": "Bottlerocket",
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi"}}],
        "context": "reserved",
        "detailedMonitoring": True,
        "instanceProfile": "nodes",
        "metadataOptions": {"httpTokens": "optional"},
        "tags": {"team": "a"},
        "userData": "echo started",
    }
    spec = v1alpha5.node_template(a_template(**described))["spec"]
    assert {field: spec.get(field) for field in described} == described
