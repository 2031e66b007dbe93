"""What EC2 is asked for one claim."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import pytest

from core import labels
from core.ami_families.bootstrap import Cluster
from core.catalogue.node_class import NodeClass, read_node_class
from core.errors import InvalidInputError
from core.launch.placement import tenancy
from core.launch.render import RenderedLaunch, render_launch
from core.model.catalogue import InstanceType
from core.model.launch_order import LaunchOrder
from core.model.values.requirements import Requirement
from tests.builders import a_type

CLUSTER = Cluster(name="shop", endpoint="https://api.example", certificate_authority="Q0E=", service_cidr="10.1.0.0/16")
GPU_COUNT = f"{labels.AWS_GROUP}/instance-gpu-count"


def a_node_class(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> NodeClass:
    resolved = {
        "subnets": [
            {"id": "subnet-a2", "zone": "us-east-1a"},
            {"id": "subnet-a1", "zone": "us-east-1a"},
            {"id": "subnet-b1", "zone": "us-east-1b"},
        ],
        "securityGroups": [{"id": "sg-1", "name": "nodes"}],
        "amis": [
            {"id": "ami-gpu", "requirements": [_image("amd64"), {"key": GPU_COUNT, "operator": "Exists"}]},
            {"id": "ami-x86", "requirements": [_image("amd64")]},
            {"id": "ami-arm", "requirements": [_image("arm64")]},
        ],
        "instanceProfile": "shop-nodes",
    }
    own = {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r", **(spec or {})}
    return read_node_class({"metadata": {"name": "default"}, "spec": own, "status": resolved | (status or {})})


def _image(arch: str) -> dict[str, Any]:
    return {"key": labels.ARCH, "operator": "In", "values": [arch]}


_WEIGHED = (("m8g.large", 0.10), ("m5a.large", 0.12))


def an_order(*types: InstanceType, **changes: Any) -> LaunchOrder:
    fields: dict[str, Any] = {
        "claim": "general-1",
        "token": "t-1",
        "node_class": {},
        "node_pool": "general",
        "offerings": tuple(o for t in types for o in t.offerings),
        "instance_types": types,
        "node_labels": {labels.NODEPOOL: "general"},
        "taints": (),
        "tags": {"karpenter.sh/nodeclaim": "general-1"},
        **changes,
    }
    return LaunchOrder(**fields)


def rendered(*types: InstanceType, node_class: NodeClass | None = None, **changes: Any) -> RenderedLaunch:
    return render_launch(an_order(*types, **changes), node_class or a_node_class(), CLUSTER)


def overrides(launch: RenderedLaunch) -> list[tuple[str, str, str]]:
    return [
        (o["InstanceType"], o["SubnetId"], o["ImageId"])
        for config in launch.request["LaunchTemplateConfigs"]
        for o in config["Overrides"]
    ]


def template_data(launch: RenderedLaunch) -> dict[str, Any]:
    (template,) = launch.templates
    return template.data


def test_a_fleet_asks_for_one_instance_of_what_the_claim_allows() -> None:
    """More would be orphans, fewer would leave pods pending."""
    request = rendered(a_type("m5.large")).request
    assert request["Type"] == "instant"
    assert request["ClientToken"] == "t-1"
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "spot",
    }
    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert {spec["ResourceType"] for spec in request["TagSpecifications"]} == {"instance", "volume", "fleet"}


def test_on_demand_is_bought_where_it_is_cheapest() -> None:
    """The strategy for spot is refused for on-demand."""
    request = rendered(a_type("m5.large", capacity_types=("on-demand",))).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in request


def test_a_pool_s_own_prices_rank_the_offerings() -> None:
    """EC2 would take what its price list calls cheapest, which is what the price factors were written against."""
    weighed = [a_type(name, price=price, capacity_types=("on-demand",)) for name, price in _WEIGHED]
    request = rendered(*weighed, is_ranked=True).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
    overrides = [override for config in request["LaunchTemplateConfigs"] for override in config["Overrides"]]
    ranks = sorted((override["Priority"], override["InstanceType"]) for override in overrides)
    assert [name for _, name in ranks] == ["m8g.large"] * 2 + ["m5a.large"] * 2
    assert [rank for rank, _ in ranks] == [0.0, 1.0, 2.0, 3.0]


def test_each_zone_gets_its_roomiest_subnet_and_zones_without_one_are_left_out() -> None:
    """Instances would run out of addresses, or EC2 would refuse the request."""
    assert {(t, s) for t, s, _ in overrides(rendered(a_type("m5.large")))} == {
        ("m5.large", "subnet-a2"),
        ("m5.large", "subnet-b1"),
    }


def test_every_type_boots_from_an_image_that_fits_it() -> None:
    """An arm64 machine given an amd64 image never boots; a GPU machine without drivers is useless."""
    arm = a_type("c7g.large", **{labels.ARCH: "arm64"})
    gpu = a_type("g5.xlarge", **{GPU_COUNT: "1"})
    assert {(t, image) for t, _, image in overrides(rendered(a_type("m5.large"), arm, gpu))} == {
        ("m5.large", "ami-x86"),
        ("c7g.large", "ami-arm"),
        ("g5.xlarge", "ami-gpu"),
    }


def test_a_type_without_an_image_is_not_launched() -> None:
    """EC2 would refuse the whole request."""
    only_arm = a_node_class(status={"amis": [{"id": "ami-arm", "requirements": [_image("arm64")]}]})
    assert rendered(a_type("m5.large"), node_class=only_arm).offerings == ()


def test_types_with_different_pod_limits_boot_from_different_templates() -> None:
    """The kubelet of the larger would refuse pods that the plan put there."""
    launch = rendered(a_type("m5.large", pods="29"), a_type("m5.xlarge", pods="58"), a_type("c5.large", pods="29"))
    texts = [base64.b64decode(t.data["UserData"]).decode() for t in launch.templates]
    limits = [int(match[1]) for text in texts if (match := re.search(r"maxPods: (\d+)", text))]
    assert sorted(limits) == [29, 58]
    names = [c["LaunchTemplateSpecification"]["LaunchTemplateName"] for c in launch.request["LaunchTemplateConfigs"]]
    assert sorted(names) == sorted(t.name for t in launch.templates)


def test_a_template_is_named_for_its_content_and_for_no_claim() -> None:
    """One template per claim would soon exceed the account's 5,000; an edited one would change running launches."""
    first, second = (rendered(a_type("m5.large"), tags={"karpenter.sh/nodeclaim": n}, token=n) for n in ("a", "b"))
    assert first.templates == second.templates
    changed = rendered(a_type("m5.large"), taints=("x:NoSchedule",))
    assert changed.templates[0].name != first.templates[0].name
    assert re.fullmatch(r"[a-zA-Z0-9()./_-]{3,125}", first.templates[0].name)


def test_a_node_is_tagged_as_ours_whatever_the_class_says() -> None:
    """An instance that cannot be found by its tags is an orphan for ever."""
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


def test_the_default_template_is_locked_down() -> None:
    """Pods could read the node's credentials, or volumes would be unencrypted."""
    data = template_data(rendered(a_type("m5.large")))
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpPutResponseHopLimit": 1,
        "HttpTokens": "required",
        "InstanceMetadataTags": "disabled",
    }
    assert data["BlockDeviceMappings"] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}}
    ]
    assert data["NetworkInterfaces"] == [{"DeviceIndex": 0, "Groups": ["sg-1"]}]
    assert data["IamInstanceProfile"] == {"Name": "shop-nodes"}
    assert "SecurityGroupIds" not in data


def test_what_the_class_sets_reaches_the_template() -> None:
    """Each of these is a user's explicit wish."""
    ebs = {
        "volumeSize": "100G",
        "volumeType": "io2",
        "iops": 4000,
        "kmsKeyID": "key-1",
        "deleteOnTermination": True,
        "encrypted": False,
    }
    data = template_data(
        rendered(
            a_type("m5.large"),
            node_class=a_node_class(
                {
                    "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}],
                    "detailedMonitoring": True,
                    "metadataOptions": {"httpTokens": "optional"},
                    "associatePublicIPAddress": False,
                    "ipPrefixCount": 2,
                    "connectionTracking": {"udpTimeout": 40},
                    "cpuOptions": {"nestedVirtualization": "enabled"},
                }
            ),
        )
    )
    assert data["BlockDeviceMappings"][0]["Ebs"] == {
        "VolumeSize": 94,
        "VolumeType": "io2",
        "Iops": 4000,
        "KmsKeyId": "key-1",
        "DeleteOnTermination": True,
        "Encrypted": False,
    }
    assert data["Monitoring"] == {"Enabled": True}
    assert data["MetadataOptions"]["HttpTokens"] == "optional"
    assert data["MetadataOptions"]["HttpEndpoint"] == "enabled"
    (interface,) = data["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is False
    assert interface["Ipv4PrefixCount"] == 2
    assert interface["ConnectionTrackingSpecification"] == {"UdpTimeout": 40}
    assert data["CpuOptions"] == {"NestedVirtualization": "enabled"}


def test_configured_interfaces_are_launched_as_written() -> None:
    """EFA traffic would go over the wrong card."""
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    node_class = a_node_class({"networkInterfaces": interfaces})
    first, second = template_data(rendered(a_type("m5.large"), node_class=node_class))["NetworkInterfaces"]
    assert (first["NetworkCardIndex"], first["InterfaceType"]) == (0, "interface")
    assert second == {"DeviceIndex": 1, "Groups": ["sg-1"], "NetworkCardIndex": 1, "InterfaceType": "efa-only"}


def test_a_claim_for_efa_gets_an_interface_on_each_card() -> None:
    """The job would run over TCP, many times slower, and the extended resource would be missing."""
    efa = a_type("p4d.24xlarge", extra={"vpc.amazonaws.com/efa": "2"})
    with_efa = template_data(rendered(efa, requests={"vpc.amazonaws.com/efa": 1}))["NetworkInterfaces"]
    assert [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in with_efa] == [
        (0, 0, "efa"),
        (1, 1, "efa"),
    ]
    assert len(template_data(rendered(efa))["NetworkInterfaces"]) == 1


def test_only_a_single_interface_says_whether_it_has_a_public_address() -> None:
    """EC2 refuses the field beside a second interface, and the claims for EFA would never be launched."""
    node_class, efa = a_node_class({"associatePublicIPAddress": True}), "vpc.amazonaws.com/efa"
    for count, expected in ((1, [True]), (2, [None, None])):
        found = rendered(a_type(extra={efa: str(count)}), node_class=node_class, requests={efa: 1})
        interfaces = template_data(found)["NetworkInterfaces"]
        assert [interface.get("AssociatePublicIpAddress") for interface in interfaces] == expected


def test_a_node_has_a_name_in_the_console_unless_the_class_names_it() -> None:
    """Nobody finds the nameless instance of a claim."""
    own = a_node_class({"tags": {"Name": "worker"}})
    names = [rendered(a_type(), node_class=node_class).tags["Name"] for node_class in (a_node_class(), own)]
    assert names == ["general-1", "worker"]


def test_ipv6_clusters_get_ipv6_nodes() -> None:
    """Pods on the node would have no address in the cluster's network."""
    cluster = msgspec.structs.replace(CLUSTER, service_cidr="fd00::/108")
    launch = render_launch(an_order(a_type("m5.large")), a_node_class({"ipPrefixCount": 1}), cluster)
    (interface,) = template_data(launch)["NetworkInterfaces"]
    assert (interface["PrimaryIpv6"], interface["Ipv6AddressCount"], interface["Ipv6PrefixCount"]) == (True, 1, 1)


@pytest.mark.parametrize("missing", ["subnets", "securityGroups", "instanceProfile"])
def test_a_class_that_is_not_resolved_names_what_is_missing(missing: str) -> None:
    """EC2's error would say nothing about the EC2NodeClass."""
    with pytest.raises(InvalidInputError, match=rf"EC2NodeClass default: status\.{missing}"):
        rendered(a_type("m5.large"), node_class=a_node_class(status={missing: None}))


def test_the_class_context_reaches_the_fleet() -> None:
    """Accounts that EC2 Fleet bills or routes by context need it."""
    assert rendered(a_type("m5.large"), node_class=a_node_class({"context": "c-1"})).request["Context"] == "c-1"
    assert "Context" not in rendered(a_type("m5.large")).request


def test_a_claim_for_enclaves_gets_them_switched_on() -> None:
    """The pod would find no enclave device."""
    data = template_data(rendered(a_type("m5.large"), requests={"eks.amazonaws.com/nitro-sandbox": 1}))
    assert data["EnclaveOptions"] == {"Enabled": True}


def test_a_custom_image_brings_its_own_volumes() -> None:
    """EC2 would attach volumes that the image does not know."""
    custom = a_node_class({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-x86"}]})
    assert "BlockDeviceMappings" not in template_data(rendered(a_type("m5.large"), node_class=custom))


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
    """Older releases must be told where pods' directories are."""
    image = {"id": "ami-x86", "name": name, "requirements": [_image("amd64")]}
    node_class = a_node_class(
        {"amiFamily": "Bottlerocket", "amiSelectorTerms": [term], "instanceStorePolicy": "RAID0"}, {"amis": [image]}
    )
    text = base64.b64decode(template_data(rendered(a_type("m5.large"), node_class=node_class))["UserData"]).decode()
    assert ("--dirs" in text) is is_told


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ((Requirement.one_of(labels.TENANCY, "dedicated"),), {"Tenancy": "dedicated"}),
        ((Requirement.of(labels.TENANCY, "NotIn", ["default"]),), {"Tenancy": "dedicated"}),
        ((Requirement.one_of(labels.TENANCY, "default", "dedicated"),), None),
        ((Requirement.one_of(labels.ZONE, "us-east-1a"),), None),
    ],
)
def test_a_claim_for_dedicated_hardware_is_launched_on_it(
    allowed: tuple[Requirement, ...], expected: dict[str, str] | None
) -> None:
    """Its pods would share a machine with other accounts, on a node whose label says that they do not."""
    launch = rendered(a_type("m5.large"), tenancy=tenancy(allowed))
    assert template_data(launch).get("Placement") == expected


@pytest.mark.parametrize(
    ("selector", "expected"), [({"name": "tight"}, {"GroupName": "tight"}), ({"id": "pg-1"}, {"GroupId": "pg-1"})]
)
def test_nodes_of_a_class_with_a_placement_group_are_launched_into_it(
    selector: dict[str, str], expected: dict[str, str]
) -> None:
    """They would end up anywhere in the zone, far from each other or on the same rack."""
    launch = rendered(a_type("m5.large"), node_class=a_node_class({"placementGroupSelector": selector}))
    assert template_data(launch)["Placement"] == expected


def test_metadata_over_ipv6_is_named_only_where_it_is_wanted() -> None:
    """Isolated regions refuse a template that names it, even to say no."""
    wanted = a_node_class({"metadataOptions": {"httpProtocolIPv6": "enabled"}})
    named = [template_data(rendered(a_type(), node_class=c))["MetadataOptions"] for c in (a_node_class(), wanted)]
    assert [options.get("HttpProtocolIpv6") for options in named] == [None, "enabled"]
