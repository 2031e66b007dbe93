"""Renders the network interfaces that a node is launched with.

Security groups always go inside the interfaces (EC2's rule).
"""

from __future__ import annotations

from typing import Any

from core.catalogue.node_class import EFA_ONLY, EC2NodeClass, NodeClassSpec


def network_interfaces(node_class: EC2NodeClass, *, efa_count: int, is_ipv6: bool) -> list[dict[str, Any]]:
    """Return the class's own list, else one EFA interface per network card for a claim that requests EFA, else a single one."""
    interfaces = _interfaces(node_class, efa_count, is_ipv6=is_ipv6)
    if len(interfaces) > 1:
        for interface in interfaces:
            interface.pop("AssociatePublicIpAddress", None)  # EC2 rejects the field together with a second interface
    return interfaces


def _interfaces(node_class: EC2NodeClass, efa_count: int, *, is_ipv6: bool) -> list[dict[str, Any]]:
    groups = [group.id for group in node_class.status.security_groups]
    spec = node_class.spec
    if spec.network_interfaces:
        return [
            _interface(
                spec, groups, i.network_card_index, i.device_index, interface_type=i.interface_type, is_ipv6=is_ipv6
            )
            for i in spec.network_interfaces
        ]
    if efa_count:
        return [
            _interface(spec, groups, card, 0 if card == 0 else 1, interface_type="efa", is_ipv6=is_ipv6)
            for card in range(efa_count)
        ]
    return [_interface(spec, groups, None, 0, interface_type="", is_ipv6=is_ipv6)]


def _interface(
    spec: NodeClassSpec, groups: list[str], card: int | None, device: int, *, interface_type: str, is_ipv6: bool
) -> dict[str, Any]:
    interface: dict[str, Any] = {"DeviceIndex": device, "Groups": groups}
    if card is not None:
        interface["NetworkCardIndex"] = card
    if interface_type:
        interface["InterfaceType"] = interface_type
    if interface_type == EFA_ONLY:
        return interface
    if spec.associate_public_ip_address is not None:
        interface["AssociatePublicIpAddress"] = spec.associate_public_ip_address
    if is_ipv6:
        interface |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    if spec.ip_prefix_count:
        interface["Ipv6PrefixCount" if is_ipv6 else "Ipv4PrefixCount"] = spec.ip_prefix_count
    return interface | _connection_tracking(spec)


def _connection_tracking(spec: NodeClassSpec) -> dict[str, Any]:
    tracking = spec.connection_tracking
    if tracking is None:
        return {}
    fields = {
        "TcpEstablishedTimeout": tracking.tcp_established_timeout,
        "UdpStreamTimeout": tracking.udp_stream_timeout,
        "UdpTimeout": tracking.udp_timeout,
    }
    return {"ConnectionTrackingSpecification": {name: value for name, value in fields.items() if value}}
