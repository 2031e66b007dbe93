"""Launch templates."""

from __future__ import annotations

import re

from core import labels
from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    rendered,
    template_data,
)


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


def test_a_claim_for_enclaves_gets_them_switched_on() -> None:
    """Otherwise, the pod finds no enclave device."""
    data = template_data(rendered(a_type("m5.large"), requests={"eks.amazonaws.com/nitro-sandbox": 1}))
    assert data["EnclaveOptions"] == {"Enabled": True}


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
