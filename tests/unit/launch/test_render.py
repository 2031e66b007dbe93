"""One claim's launch, rendered completely."""

from __future__ import annotations

import base64
import re

import pytest

from core.errors import InvalidInputError
from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    rendered,
    requires_arch,
    template_data,
)


def test_types_with_different_pod_limits_boot_from_different_templates() -> None:
    """Otherwise, the kubelet of the larger type refuses pods that the plan placed there."""
    launch = rendered(a_type("m5.large", pods="29"), a_type("m5.xlarge", pods="58"), a_type("c5.large", pods="29"))
    texts = [base64.b64decode(t.data["UserData"]).decode() for t in launch.templates]
    limits = [int(match[1]) for text in texts if (match := re.search(r"maxPods: (\d+)", text))]
    assert sorted(limits) == [29, 58]
    names = [c["LaunchTemplateSpecification"]["LaunchTemplateName"] for c in launch.request["LaunchTemplateConfigs"]]
    assert sorted(names) == sorted(t.name for t in launch.templates)


def test_a_node_is_tagged_as_ours_whatever_the_class_says() -> None:
    """An instance that cannot be found by its tags is an orphan."""
    node_class = a_node_class({"tags": {"team": "a", "karpenter.sh/nodepool": "theirs"}})
    launch = rendered(a_type("m5.large"), node_class=node_class)
    assert launch.tags == {
        "Name": "general-1",
        "team": "a",
        "karpenter.sh/nodeclaim": "general-1",
        "karpenter.sh/nodepool": "general",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "eks:eks-cluster-name": "shop",
        "kubernetes.io/cluster/shop": "owned",
    }
    kinds = {spec["ResourceType"] for spec in template_data(launch)["TagSpecifications"]}
    assert kinds == {"network-interface", "spot-instances-request"}


def test_a_node_has_a_name_in_the_console_unless_the_class_names_it() -> None:
    """Otherwise, the instance of a claim cannot be found in the console."""
    own = a_node_class({"tags": {"Name": "worker"}})
    names = [rendered(a_type(), node_class=node_class).tags["Name"] for node_class in (a_node_class(), own)]
    assert names == ["general-1", "worker"]


@pytest.mark.parametrize("missing", ["subnets", "securityGroups", "instanceProfile"])
def test_an_unresolved_class_names_what_is_missing(missing: str) -> None:
    """EC2's error would not mention the EC2NodeClass."""
    with pytest.raises(InvalidInputError, match=rf"EC2NodeClass default: status\.{missing}"):
        rendered(a_type("m5.large"), node_class=a_node_class(status={missing: None}))


@pytest.mark.parametrize(
    ("term", "name", "is_told"),
    [
        ({"alias": "bottlerocket@v1.30.0"}, "", True),
        ({"alias": "bottlerocket@latest"}, "", False),
        ({"id": "ami-1"}, "bottlerocket-aws-k8s-1.34-x86_64-v1.46.0-abc", False),
        ({"id": "ami-1"}, "my-rocket", True),
    ],
)
def test_the_release_of_a_bottlerocket_image_is_known(term: dict[str, str], name: str, is_told: bool) -> None:
    """Older releases need the directories of pods."""
    image = {"id": "ami-x86", "name": name, "requirements": [requires_arch("amd64")]}
    node_class = a_node_class(
        {"amiFamily": "Bottlerocket", "amiSelectorTerms": [term], "instanceStorePolicy": "RAID0"}, {"amis": [image]}
    )
    text = base64.b64decode(template_data(rendered(a_type("m5.large"), node_class=node_class))["UserData"]).decode()
    assert ("--dirs" in text) is is_told
