"""One claim's launch, rendered completely."""

from __future__ import annotations

import base64
import re

import msgspec
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


@pytest.mark.parametrize(
    ("asked", "has", "interfaces"),
    [({}, {"vpc.amazonaws.com/efa": "2"}, 0), ({"vpc.amazonaws.com/efa": 1}, {"vpc.amazonaws.com/efa": "2"}, 2),
     ({"vpc.amazonaws.com/efa": 1}, {}, 0)],
)  # fmt: skip
def test_only_a_claim_for_efa_gets_its_interfaces_as_many_as_the_type_has(
    asked: dict[str, int], has: dict[str, str], interfaces: int
) -> None:
    """An instance with EFA interfaces costs pods' addresses, and EC2 refuses them on a type without any."""
    data = template_data(rendered(a_type("p4d.24xlarge", extra=has), requests=asked))
    kinds = [one.get("InterfaceType") for one in data["NetworkInterfaces"]]
    assert sum(kind == "efa" for kind in kinds) == interfaces


@pytest.mark.parametrize(("requests", "on"), [({}, False), ({"eks.amazonaws.com/nitro-sandbox": 0}, False),
                                              ({"eks.amazonaws.com/nitro-sandbox": 1}, True)])  # fmt: skip
def test_enclaves_are_switched_on_for_claims_that_request_one(requests: dict[str, int], *, on: bool) -> None:
    """They take memory and processors away from pods, and most types have none."""
    assert ("EnclaveOptions" in template_data(rendered(a_type(), requests=requests))) is on


def test_a_type_of_which_no_pods_are_known_admits_none() -> None:
    kind = a_type("m5.large")
    bare = msgspec.structs.replace(kind, capacity={key: n for key, n in kind.capacity.items() if key != "pods"})
    text = base64.b64decode(template_data(rendered(bare))["UserData"]).decode()
    assert "maxPods: 0" in text
