"""Parts of an EC2NodeClass: types, bounds and defaults."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from tests.unit.api.objects import NODE_CLASS


def places(**spec: object) -> list[Location]:
    faults = examined(EC2NodeClassObject, NODE_CLASS | {"spec": NODE_CLASS["spec"] | spec})[1]
    return [location[1:] for location, _ in faults]


def test_defaults_are_karpenters() -> None:
    read, faults = examined(EC2NodeClassObject, NODE_CLASS)
    assert faults == []
    assert read is not None
    options = read.spec.metadata_options
    assert (options.http_endpoint, options.http_protocol_ipv6) == ("enabled", "disabled")
    assert (options.http_tokens, options.http_put_response_hop_limit) == ("required", 1)
    assert (read.spec.detailed_monitoring, read.spec.tags, read.spec.kubelet) == (False, {}, None)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"subnetSelectorTerms": []}, [("subnetSelectorTerms",)]),
        ({"role": ""}, [("role",)]),
        ({"amiFamily": "Gentoo"}, [("amiFamily",)]),
        ({"metadataOptions": {"httpPutResponseHopLimit": 65}}, [("metadataOptions", "httpPutResponseHopLimit")]),
        ({"connectionTracking": {}}, [("connectionTracking",)]),
        ({"connectionTracking": {"udpTimeout": 29}}, [("connectionTracking", "udpTimeout")]),
        ({"placementGroupSelector": {}}, [("placementGroupSelector",)]),
        ({"placementGroupSelector": {"id": "pg-1", "name": "n"}}, [("placementGroupSelector",)]),
        ({"instanceStorePolicy": "RAID1"}, [("instanceStorePolicy",)]),
        ({"ipPrefixCount": -1}, [("ipPrefixCount",)]),
    ],
)
def test_faults_are_named_by_field(spec: JsonObject, found: list[Location]) -> None:
    assert places(**spec) == found


def test_network_interfaces_are_cards_and_devices_of_two_types() -> None:
    interface = {"networkCardIndex": 0, "deviceIndex": -1, "interfaceType": "efa"}
    found = places(networkInterfaces=[interface])
    assert found == [("networkInterfaces", 0, "deviceIndex"), ("networkInterfaces", 0, "interfaceType")]
