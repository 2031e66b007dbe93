"""Which fields of the rendered launch a change of an EC2NodeClass concerns."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from core.launch.validation.template_fields import changed_fields, template_fields
from tests.unit.launch.orders import CLUSTER, a_node_class


def fields(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, str]:
    return template_fields(a_node_class(spec, status), CLUSTER)


@pytest.mark.parametrize(
    ("spec", "status", "changed"),
    [
        ({"userData": "#!/bin/sh\necho more"}, {}, ["UserData"]),
        ({"metadataOptions": {"httpPutResponseHopLimit": 2}}, {}, ["MetadataOptions.HttpPutResponseHopLimit"]),
        ({"detailedMonitoring": True}, {}, ["Monitoring.Enabled"]),
        ({"tags": {"team": "a"}}, {}, ["TagSpecifications"]),
        ({"context": "c"}, {}, ["Context"]),
        (
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]},
            {},
            ["BlockDeviceMappings"],
        ),
        ({}, {"instanceProfile": "other"}, ["IamInstanceProfile.Name"]),
        ({}, {"securityGroups": [{"id": "sg-2", "name": "nodes"}]}, ["NetworkInterfaces"]),
        ({}, {"subnets": [{"id": "subnet-b1", "zone": "us-east-1b"}]}, ["SubnetId"]),
        ({}, {"amis": [{"id": "ami-new"}]}, ["ImageId"]),
    ],
)
def test_a_change_is_named_by_the_field_of_the_template(
    spec: dict[str, Any], status: dict[str, Any], changed: list[str]
) -> None:
    """Otherwise, EC2 would not be asked about it, or people would look in the wrong place."""
    assert list(changed_fields(fields(), fields(spec, status))) == changed


def test_the_order_of_subnets_is_no_change() -> None:
    """They are listed by free addresses, which change by the minute."""
    there = [{"id": "subnet-a1", "zone": "us-east-1a"}, {"id": "subnet-b1", "zone": "us-east-1b"}]
    assert fields({}, {"subnets": there}) == fields({}, {"subnets": there[::-1]})


def test_a_field_that_comes_or_goes_is_a_change() -> None:
    assert changed_fields({"A": "1", "B": "2"}, {"B": "2", "C": "3"}) == ("A", "C")


def test_an_ipv6_cluster_is_another_launch() -> None:
    ipv6 = msgspec.structs.replace(CLUSTER, service_cidr="fd30::/108")
    assert "NetworkInterfaces" in changed_fields(fields(), template_fields(a_node_class(), ipv6))


def test_a_digest_is_what_earlier_releases_have_written() -> None:
    """Under another one, each release would ask EC2 about every class again."""
    content = [{"DeviceIndex": 0, "Groups": ["sg-1"]}]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert fields()["NetworkInterfaces"] == sha256(text.encode()).hexdigest()[:12]
    assert fields()["Monitoring.Enabled"] == sha256(b"false").hexdigest()[:12]
