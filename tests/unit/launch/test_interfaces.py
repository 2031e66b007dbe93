"""Network interfaces that a node is launched with."""

from __future__ import annotations

import msgspec

from core.launch.render import render_launch
from tests.builders import a_type
from tests.unit.launch.orders import (
    CLUSTER,
    a_node_class,
    an_order,
    rendered,
    template_data,
)


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
