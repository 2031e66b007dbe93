"""Whether EC2 takes the user data of a NodePool's nodes is known before anything is launched."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.ami_families.family import Cluster
from core.ami_families.registry import FAMILIES
from core.catalogue.node_class import EC2NodeClass
from core.errors import InvalidInputError
from core.launch.request import bootstrap_of, may_exceed, user_data_problem
from core.model.node_pool import NodePool
from core.model.values.requirements import Requirement
from core.model.values.taints import UNREGISTERED, Taint
from core.pools import template_labels
from tests.builders import a_pool, a_type
from tests.unit.launch.orders import CLUSTER, GPU_COUNT, a_node_class, overrides, rendered, requires_arch, template_data

# The CreateFleet request.


_WEIGHED = (("m8g.large", 0.10), ("m5a.large", 0.12))


def test_a_fleet_requests_one_instance_of_the_claims_offerings() -> None:
    """More instances would be orphans; fewer would leave pods pending."""
    request = rendered(a_type("m5.large")).request
    assert request["Type"] == "instant"
    assert request["ClientToken"] == "t-1"
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "spot",
    }
    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert {spec["ResourceType"] for spec in request["TagSpecifications"]} == {"instance", "volume", "fleet"}


def test_on_demand_is_launched_where_it_is_cheapest() -> None:
    """EC2 refuses spot's strategy for on-demand."""
    request = rendered(a_type("m5.large", capacity_types=("on-demand",))).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in request


def test_a_pools_own_prices_rank_the_offerings() -> None:
    """Otherwise, EC2 takes the cheapest by its own price list, which the price factors are meant to change."""
    weighed = [a_type(name, price=price, capacity_types=("on-demand",)) for name, price in _WEIGHED]
    request = rendered(*weighed, is_ranked=True).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
    overrides = [override for config in request["LaunchTemplateConfigs"] for override in config["Overrides"]]
    ranks = sorted((override["Priority"], override["InstanceType"]) for override in overrides)
    assert [name for _, name in ranks] == ["m8g.large"] * 2 + ["m5a.large"] * 2
    assert [rank for rank, _ in ranks] == [0.0, 1.0, 2.0, 3.0]


def test_each_zone_gets_its_subnet_with_most_addresses_and_zones_without_one_are_left_out() -> None:
    """Otherwise, instances run out of addresses, or EC2 refuses the request."""
    assert {(t, s) for t, s, _ in overrides(rendered(a_type("m5.large")))} == {
        ("m5.large", "subnet-a2"),
        ("m5.large", "subnet-b1"),
    }


def test_the_class_context_reaches_the_fleet() -> None:
    """Accounts whose fleets are billed or routed by context need it."""
    assert rendered(a_type("m5.large"), node_class=a_node_class({"context": "c-1"})).request["Context"] == "c-1"
    assert "Context" not in rendered(a_type("m5.large")).request


def test_without_prices_of_its_own_a_pool_leaves_the_order_to_ec2() -> None:
    """EC2 refuses priorities beside its own strategies."""
    request = rendered(a_type("m5.large")).request
    (config,) = request["LaunchTemplateConfigs"]
    assert {tuple(sorted(override)) for override in config["Overrides"]} == {
        ("AvailabilityZone", "ImageId", "InstanceType", "SubnetId")
    }


def test_a_fleet_for_several_claims_requests_as_many_instances() -> None:
    assert rendered(a_type(), count=7).request["TargetCapacitySpecification"]["TotalTargetCapacity"] == 7


@pytest.mark.parametrize(("kind", "options"), [("spot", "SpotOptions"), ("on-demand", "OnDemandOptions")])
def test_a_fleet_for_a_group_is_launched_whole_or_not_at_all(kind: str, options: str) -> None:
    """EC2 takes a minimum only for one zone or one type."""
    request = rendered(a_type(capacity_types=(kind,)), count=7, minimum=7).request
    assert request[options]["MinTargetCapacity"] == 7
    assert request[options]["SingleAvailabilityZone"] is True
    assert request["TargetCapacitySpecification"]["TotalTargetCapacity"] == 7
    assert "MinTargetCapacity" not in rendered(a_type(capacity_types=(kind,)), count=7).request[options]


# Which image an instance type boots from.


def test_every_type_boots_from_an_image_that_fits_it() -> None:
    """An arm64 machine never boots an amd64 image; a GPU machine without drivers is useless."""
    arm = a_type("c7g.large", **{labels.ARCH: "arm64"})
    gpu = a_type("g5.xlarge", **{GPU_COUNT: "1"})
    assert {(t, image) for t, _, image in overrides(rendered(a_type("m5.large"), arm, gpu))} == {
        ("m5.large", "ami-x86"),
        ("c7g.large", "ami-arm"),
        ("g5.xlarge", "ami-gpu"),
    }


def test_a_type_without_an_image_is_not_launched() -> None:
    """Otherwise, EC2 refuses the whole request."""
    only_arm = a_node_class(status={"amis": [{"id": "ami-arm", "requirements": [requires_arch("arm64")]}]})
    assert rendered(a_type("m5.large"), node_class=only_arm).offerings == ()


# The boot data of a node.


@pytest.mark.parametrize(("policy", "raids"), [(None, False), ("RAID0", True)])
def test_a_node_boots_with_what_its_class_says(policy: str | None, raids: bool) -> None:
    """What is left out here is what users wrote and no node has."""
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@v20260101"}],
        "kubelet": {"podsPerCore": 2},
        "userData": "#!/bin/sh",
        **({} if policy is None else {"instanceStorePolicy": policy}),
    }
    found = bootstrap_of(a_node_class(spec), CLUSTER, labels={"a": "1"}, taints=(UNREGISTERED,), max_pods=29)
    assert (found.cluster, dict(found.labels), found.taints, found.max_pods) == (
        CLUSTER,
        {"a": "1"},
        (UNREGISTERED,),
        29,
    )
    assert (found.kubelet, found.user_data, found.raids_instance_store) == ({"podsPerCore": 2}, "#!/bin/sh", raids)
    assert found.alias_release == "v20260101"


# One claim's launch, rendered completely.


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


def test_a_type_of_which_no_pods_are_known_admits_none() -> None:
    kind = a_type("m5.large")
    bare = msgspec.structs.replace(kind, capacity={key: n for key, n in kind.capacity.items() if key != "pods"})
    text = base64.b64decode(template_data(rendered(bare))["UserData"]).decode()
    assert "maxPods: 0" in text


LARGE = Cluster(
    name="a" * 100,
    endpoint=f"https://{'0' * 32}.gr7.ap-southeast-1.eks.amazonaws.com",
    certificate_authority="Q" * 3000,
    service_cidr="172.20.0.0/16",
)
"""Longer than EKS gives them."""


def of_family(name: str, **spec: Any) -> EC2NodeClass:
    """A class of this family; TOML for Bottlerocket, a script for others."""
    return a_node_class({"amiFamily": name, "amiSelectorTerms": [{"id": "ami-1"}], **spec})


def text(size: int, family: str) -> str:
    """User data of so many bytes."""
    return f'[settings]\nmotd = "{"x" * (size - 20)}"\n' if family == "Bottlerocket" else "#" * size


@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(
    own=st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.from_regex(r"[a-z]{0,40}", fullmatch=True)),
    taints=st.lists(st.from_regex(r"[a-z]{1,20}", fullmatch=True)),
    reserved=st.dictionaries(st.sampled_from(["cpu", "memory", "pid"]), st.sampled_from(["1", "100Mi"])),
    size=st.integers(20, 2048),
)
def test_what_is_short_by_far_always_fits(
    family: str, own: dict[str, str], taints: list[str], reserved: dict[str, str], size: int
) -> None:
    """Otherwise, a NodePool that is too large is not measured, and launched."""
    node_class = of_family(family, userData=text(size, family), kubelet={"kubeReserved": reserved})
    pool = a_pool("a", labels=own, taints=tuple(Taint(key, "NoSchedule") for key in taints))
    if not may_exceed(node_class, pool):
        assert user_data_problem(node_class, LARGE, pool) == ""


def test_the_labels_of_a_node_pool_can_be_too_long() -> None:
    """EC2 would refuse each launch, and the class would pause for its other NodePools."""
    node_class = a_node_class({"userData": text(12_000, "")})
    small, large = a_pool("small"), a_pool("large", labels={f"team-{n:02d}": "x" * 50 for n in range(80)})
    assert user_data_problem(node_class, CLUSTER, small) == ""
    problem = user_data_problem(node_class, CLUSTER, large)
    assert re.search(r"EC2NodeClass default with the labels .*has \d{5} bytes, EC2 accepts 16384", problem)


def test_a_class_that_is_too_long_by_itself_is_no_fault_of_a_node_pool() -> None:
    """Its own condition says so."""
    assert user_data_problem(a_node_class({"userData": text(17_000, "")}), CLUSTER, a_pool()) == ""


def test_the_size_is_that_of_a_launch() -> None:
    """Otherwise, a NodePool at the edge is refused here, or by EC2."""
    team = Requirement.one_of("team", "a", "bcd")
    pool = NodePool(name="general", requirements=(team,), taints=(Taint("t", "NoSchedule"),))
    order = {"node_labels": {labels.NODEPOOL: "general", "team": "bcd"}, "taints": ("t:NoSchedule",)}
    outcomes = []
    for size in range(15_500, 16_384, 8):
        node_class = a_node_class({"userData": text(size, "")})
        try:
            rendered(a_type(pods="1000"), node_class=node_class, **order)
        except InvalidInputError:
            outcomes.append((size, user_data_problem(node_class, CLUSTER, pool)))
        else:
            assert user_data_problem(node_class, CLUSTER, pool) == ""
    assert outcomes[0][1], "the first size that cannot be launched is too long because of the labels"


def test_exactly_what_always_fits_need_not_be_measured() -> None:
    """Two bytes are the empty settings of the kubelet; the rest is what class and NodePool have written."""
    used = sum(map(len, (labels.CAPACITY_TYPE, labels.ON_DEMAND, "{}")))
    pool = NodePool(name="general")
    assert template_labels(pool) == {labels.NODEPOOL: "general"}
    left = 2048 - used - len(labels.NODEPOOL) - len("general")
    found = [may_exceed(a_node_class({"userData": "#" * (left + more)}), pool) for more in (0, 1)]
    assert found == [False, True]


@pytest.mark.parametrize(
    ("requirement", "counts"),
    [
        (Requirement.one_of("team", "x" * 2000), True),
        (Requirement.of("team", "NotIn", ["x" * 2000]), False),
        (Requirement.one_of(labels.ZONE, "x" * 2000), False),
    ],
)
def test_a_label_that_a_pod_may_choose_counts_with_its_longest_value(requirement: Requirement, *, counts: bool) -> None:
    """One that it may not have, and one that does not come from the user data, do not."""
    pool = NodePool(name="general", requirements=(requirement,))
    assert may_exceed(a_node_class({}), pool) is counts


def test_a_label_has_the_longest_value_that_a_pod_may_choose() -> None:
    """And none where no value is left; the number of pods counts with as many digits as any node's."""
    few = NodePool(name="general", requirements=(Requirement.one_of("team", "x" * 2000, "zz"),))
    none = NodePool(name="general", requirements=(Requirement.of("team", "In", []),))
    assert (may_exceed(a_node_class({}), few), may_exceed(a_node_class({}), none)) == (True, False)


def test_the_number_of_pods_counts_with_its_digits() -> None:
    """What is said to fit must fit with a type of many pods, too, though none is known yet."""
    pool, sizes = NodePool(name="general"), range(15_500, 16_384)
    first = next(n for n in sizes if user_data_problem(a_node_class({"userData": text(n, "")}), CLUSTER, pool))
    assert first > sizes[0]
    rendered(a_type(pods="1000"), node_class=a_node_class({"userData": text(first - 1, "")}))
