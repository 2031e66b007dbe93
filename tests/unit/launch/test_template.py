"""Launch templates."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from core import labels
from core.launch.request import render_launch
from core.launch.template import is_confined, partition, target_capacity_type, tenancy
from core.model.catalogue import Offering
from core.model.values.requirements import Requirement
from tests.builders import a_type
from tests.unit.launch.orders import CLUSTER, a_node_class, an_order, rendered, template_data

# Volumes that a node is launched with.


def test_a_custom_image_brings_its_own_volumes() -> None:
    """Otherwise, EC2 attaches volumes that the image does not expect."""
    custom = a_node_class({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-x86"}]})
    assert "BlockDeviceMappings" not in template_data(rendered(a_type("m5.large"), node_class=custom))


def test_a_volume_of_a_snapshot_has_the_snapshots_size() -> None:
    """EC2 takes the size from the snapshot where none is given; a size of ours would be refused or change the volume."""
    device = {"deviceName": "/dev/xvda", "ebs": {"snapshotID": "snap-1"}}
    of_snapshot = a_node_class({"blockDeviceMappings": [device]})
    (mapping,) = template_data(rendered(a_type("m5.large"), node_class=of_snapshot))["BlockDeviceMappings"]
    assert mapping["Ebs"]["SnapshotId"] == "snap-1"
    assert "VolumeSize" not in mapping["Ebs"]


def test_a_volume_has_what_the_class_says_and_nothing_else() -> None:
    """EC2 has its own defaults, and refuses zero and empty texts; a size is rounded up to whole GiB."""
    only = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}
    full = {
        "deviceName": "/dev/xvdb",
        "ebs": {
            "volumeSize": "1G",
            "volumeType": "gp3",
            "iops": 3000,
            "throughput": 250,
            "volumeInitializationRate": 300,
            "kmsKeyID": "key",
            "snapshotID": "snap-1",
            "encrypted": True,
            "deleteOnTermination": False,
        },
    }
    node_class = a_node_class({"blockDeviceMappings": [only, full, {"deviceName": "/dev/xvdc"}]})
    assert template_data(rendered(a_type("m5.large"), node_class=node_class))["BlockDeviceMappings"] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20}},
        {
            "DeviceName": "/dev/xvdb",
            "Ebs": {
                "VolumeSize": 1,
                "VolumeType": "gp3",
                "Iops": 3000,
                "Throughput": 250,
                "VolumeInitializationRate": 300,
                "KmsKeyId": "key",
                "SnapshotId": "snap-1",
                "Encrypted": True,
                "DeleteOnTermination": False,
            },
        },
        {"DeviceName": "/dev/xvdc"},
    ]


# Network interfaces that a node is launched with.


def test_configured_interfaces_are_launched_as_written() -> None:
    """Otherwise, EFA traffic uses the wrong card."""
    interfaces = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    node_class = a_node_class({"networkInterfaces": interfaces})
    first, second = template_data(rendered(a_type("m5.large"), node_class=node_class))["NetworkInterfaces"]
    assert (first["NetworkCardIndex"], first["InterfaceType"]) == (0, "interface")
    assert second == {"DeviceIndex": 1, "Groups": ["sg-1"], "NetworkCardIndex": 1, "InterfaceType": "efa-only"}


def test_a_claim_for_efa_gets_an_interface_on_each_card() -> None:
    """Otherwise, the job runs over TCP, many times slower, and the extended resource is missing."""
    efa = a_type("p4d.24xlarge", extra={"vpc.amazonaws.com/efa": "2"})
    with_efa = template_data(rendered(efa, requests={"vpc.amazonaws.com/efa": 1}))["NetworkInterfaces"]
    assert [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in with_efa] == [
        (0, 0, "efa"),
        (1, 1, "efa"),
    ]
    assert len(template_data(rendered(efa))["NetworkInterfaces"]) == 1


def test_only_a_single_interface_says_whether_it_has_a_public_address() -> None:
    """EC2 refuses the field beside a second interface, so claims for EFA were never launched."""
    node_class, efa = a_node_class({"associatePublicIPAddress": True}), "vpc.amazonaws.com/efa"
    for count, expected in ((1, [True]), (2, [None, None])):
        found = rendered(a_type(extra={efa: str(count)}), node_class=node_class, requests={efa: 1})
        interfaces = template_data(found)["NetworkInterfaces"]
        assert [interface.get("AssociatePublicIpAddress") for interface in interfaces] == expected


def test_ipv6_clusters_get_ipv6_nodes() -> None:
    """Otherwise, pods on the node have no address in the cluster's network."""
    cluster = msgspec.structs.replace(CLUSTER, service_cidr="fd00::/108")
    launch = render_launch(an_order(a_type("m5.large")), a_node_class({"ipPrefixCount": 1}), cluster)
    (interface,) = template_data(launch)["NetworkInterfaces"]
    assert (interface["PrimaryIpv6"], interface["Ipv6AddressCount"], interface["Ipv6PrefixCount"]) == (True, 1, 1)


# Dedicated hardware and placement groups.


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ((Requirement.one_of(labels.TENANCY, "dedicated"),), {"Tenancy": "dedicated"}),
        ((Requirement.of(labels.TENANCY, "NotIn", ["default"]),), {"Tenancy": "dedicated"}),
        ((Requirement.one_of(labels.TENANCY, "default", "dedicated"),), None),
        ((Requirement.one_of(labels.TENANCY, "host"),), None),
        ((Requirement.one_of(labels.ZONE, "us-east-1a"),), None),
    ],
)
def test_a_claim_for_dedicated_hardware_is_launched_on_it(
    allowed: tuple[Requirement, ...], expected: dict[str, str] | None
) -> None:
    """Otherwise, its pods share a machine with other accounts, on a node whose label denies it."""
    launch = rendered(a_type("m5.large"), tenancy=tenancy(allowed))
    assert template_data(launch).get("Placement") == expected


@pytest.mark.parametrize(
    ("selector", "expected"), [({"name": "tight"}, {"GroupName": "tight"}), ({"id": "pg-1"}, {"GroupId": "pg-1"})]
)
def test_nodes_of_a_class_with_a_placement_group_are_launched_into_it(
    selector: dict[str, str], expected: dict[str, str]
) -> None:
    """Otherwise, they are placed anywhere in the zone, far from each other or on the same rack."""
    launch = rendered(a_type("m5.large"), node_class=a_node_class({"placementGroupSelector": selector}))
    assert template_data(launch)["Placement"] == expected


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "2"), 2),
        (Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "10", "2"), 2),
        (Requirement.of(labels.PLACEMENT_GROUP_PARTITION, "Exists"), 0),
        (Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "rack"), 0),
        (Requirement.of(labels.PLACEMENT_GROUP_PARTITION, "NotIn", ["2"]), 0),
        (Requirement.one_of(labels.ZONE, "us-east-1a"), 0),
    ],
)
def test_a_claim_is_launched_into_the_lowest_partition_that_it_admits(demanded: Requirement, expected: int) -> None:
    """Its label is promised to pods: EC2 would choose any of the group's partitions."""
    node_class = a_node_class({"placementGroupSelector": {"name": "racks"}})
    launch = rendered(a_type("m5.large"), node_class=node_class, partition=partition([demanded]))
    assert template_data(launch)["Placement"].get("PartitionNumber", 0) == expected


def test_without_a_group_there_is_no_partition() -> None:
    """EC2 refuses a launch with a partition of no group."""
    assert "Placement" not in template_data(rendered(a_type("m5.large"), partition=2))


@pytest.mark.parametrize(
    ("allowed", "spec", "confined"),
    [
        ((), {}, False),
        ((), None, False),
        ((Requirement.one_of(labels.TENANCY, "dedicated"),), None, True),
        ((Requirement.one_of(labels.TENANCY, "default", "dedicated"),), {}, False),
        ((), {"placementGroupSelector": {"name": "racks"}}, True),
        ((), {"cpuOptions": {"nestedVirtualization": "enabled"}}, True),
        ((), {"cpuOptions": {}, "role": "nodes"}, False),
    ],
)
def test_a_refusal_counts_for_others_only_if_they_ask_for_the_same_capacity(
    allowed: tuple[Requirement, ...], spec: dict[str, Any] | None, *, confined: bool
) -> None:
    """A full placement group says nothing of the zone: its offerings would be avoided by every other pod."""
    assert is_confined(allowed, {} if spec is None else {"spec": spec}) is confined


# Templates and fleets that launch into reservations.


TYPE = a_type("m5.large", zones=("us-east-1a",))


def reserved(identity: str = "cr-1", kind: str = "default", *, interruptible: bool = False) -> Offering:
    return Offering("m5.large", "us-east-1a", labels.RESERVED, 1, True, identity, 2, kind, interruptible)


@pytest.mark.parametrize(
    ("offering", "market", "target", "options"),
    [
        (reserved(), None, "on-demand", "OnDemandOptions"),
        (reserved(kind="capacity-block"), "capacity-block", "capacity-block", None),
        (
            reserved(interruptible=True),
            "interruptible-capacity-reservation",
            "reserved-capacity",
            "ReservedCapacityOptions",
        ),
    ],
)
def test_a_reservation_is_the_launch_s_target(
    offering: Offering, market: str | None, target: str, options: str | None
) -> None:
    launch = rendered(TYPE, offerings=(offering, *TYPE.offerings))
    data = template_data(launch)
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
    }
    assert data.get("InstanceMarketOptions", {}).get("MarketType") == market
    assert launch.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert [key for key in launch.request if key.endswith("Options")] == ([options] if options else [])


def test_what_is_not_reserved_keeps_out_of_open_reservations() -> None:
    data = template_data(rendered(TYPE))
    assert data["CapacityReservationSpecification"] == {"CapacityReservationPreference": "none"}


def test_without_the_gate_ec2_decides() -> None:
    assert "CapacityReservationSpecification" not in template_data(rendered(TYPE, uses_reservations=False))


def test_each_reservation_has_its_own_template() -> None:
    other = Offering("m5.large", "us-east-1b", labels.RESERVED, 1, True, "cr-2", 2, "default")
    launch = rendered(a_type("m5.large"), offerings=(reserved(), other))
    targets = [t.data["CapacityReservationSpecification"]["CapacityReservationTarget"] for t in launch.templates]
    assert targets == [{"CapacityReservationId": "cr-1"}, {"CapacityReservationId": "cr-2"}]


@pytest.mark.parametrize("capacity_type", [labels.SPOT, labels.ON_DEMAND])
def test_what_is_not_reserved_is_asked_for_as_what_it_is(capacity_type: str) -> None:
    """A fleet without the right target is refused, or pays the price of on-demand for spot."""
    offering = Offering("m5.large", "us-east-1a", capacity_type, 1)
    assert target_capacity_type(offering) == capacity_type


def test_a_template_is_named_after_its_content_and_not_after_a_claim() -> None:
    """One template per claim would exceed the account's 5,000; editing one would change launches in progress."""
    first, second = (rendered(a_type("m5.large"), tags={"karpenter.sh/nodeclaim": n}, token=n) for n in ("a", "b"))
    assert first.templates == second.templates
    changed = rendered(a_type("m5.large"), taints=("x:NoSchedule",))
    assert changed.templates[0].name != first.templates[0].name
    assert re.fullmatch(r"[a-zA-Z0-9()./_-]{3,125}", first.templates[0].name)


def test_the_default_template_is_locked_down() -> None:
    """Otherwise, pods can read the node's credentials, or volumes are unencrypted."""
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


def test_the_settings_of_the_class_reach_the_template() -> None:
    """The user has set each of these explicitly."""
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
                    "metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 2},
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
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    (interface,) = data["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is False
    assert interface["Ipv4PrefixCount"] == 2
    assert interface["ConnectionTrackingSpecification"] == {"UdpTimeout": 40}
    assert data["CpuOptions"] == {"NestedVirtualization": "enabled"}


@pytest.mark.parametrize(("options", "switched"), [({}, False), ({"enclaveOptions": {"enabled": False}}, False),
                                                   ({"enclaveOptions": {"enabled": True}}, True)])  # fmt: skip
def test_enclaves_are_switched_on_by_the_class_alone(options: dict[str, Any], *, switched: bool) -> None:
    """Otherwise, the pod finds no enclave device; a request of a pod switches nothing on (Karpenter 1.15)."""
    requests = {"eks.amazonaws.com/nitro-sandbox": 1}
    data = template_data(rendered(a_type("m5.xlarge"), node_class=a_node_class(options), requests=requests))
    assert data.get("EnclaveOptions", {}).get("Enabled", False) is switched


def test_metadata_over_ipv6_is_set_only_if_enabled() -> None:
    """Isolated regions refuse a template that contains the field, even to disable it."""
    wanted = a_node_class({"metadataOptions": {"httpProtocolIPv6": "enabled"}})
    named = [template_data(rendered(a_type(), node_class=c))["MetadataOptions"] for c in (a_node_class(), wanted)]
    assert [options.get("HttpProtocolIpv6") for options in named] == [None, "enabled"]


def test_a_template_has_the_name_that_earlier_releases_gave_it() -> None:
    """Under another one, each release would make every template a second time, of 5,000 in an account."""
    (template,) = rendered(a_type("m5.large")).templates
    assert template.name == "fleetwright/22d86022351c4133d8384c95ad029382"


def test_the_profile_of_the_class_is_used_where_none_is_resolved() -> None:
    """And one that is resolved comes first: it has the role of the class."""
    own = a_node_class({"instanceProfile": "theirs", "role": ""}, {"instanceProfile": ""})
    both = a_node_class({"instanceProfile": "theirs", "role": ""})
    found = [template_data(rendered(a_type(), node_class=one))["IamInstanceProfile"]["Name"] for one in (own, both)]
    assert found == ["theirs", "shop-nodes"]


def test_processor_options_without_a_value_are_left_to_ec2() -> None:
    assert "CpuOptions" not in template_data(rendered(a_type(), node_class=a_node_class({"cpuOptions": {}})))


def test_only_spot_nodes_have_a_spot_request_to_tag() -> None:
    """EC2 refuses tags for what a launch does not create."""
    kinds = {}
    for capacity_type in (labels.SPOT, labels.ON_DEMAND):
        data = template_data(rendered(a_type(capacity_types=(capacity_type,))))
        kinds[capacity_type] = [one["ResourceType"] for one in data["TagSpecifications"]]
    assert kinds == {
        labels.SPOT: ["network-interface", "spot-instances-request"],
        labels.ON_DEMAND: ["network-interface"],
    }
