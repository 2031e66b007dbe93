"""Renders launch templates: everything about a node that does not depend on its place or its claim.

A template's name is a digest of its content, so the same node always comes from the same template and a changed one from a new
template: templates are never edited, and creating one twice is harmless.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.family import AmiFamily
from core.catalogue.kubelet import volume_bytes
from core.catalogue.node_class import CAPACITY_BLOCK, EFA_ONLY, BlockDevice, Ebs, EC2NodeClass, NodeClassSpec
from core.errors import InvalidInputError
from core.model.catalogue import Offering
from core.model.values.requirements import Requirement

# Renders the volumes that a node is launched with.


_GIB: Final = 2**30


def block_device_mappings(devices: tuple[BlockDevice, ...], family: AmiFamily) -> list[dict[str, Any]]:
    """Return the class's own volumes, else the family's: gp3, encrypted.

    Raises:
        InvalidInputError: If a size is no quantity.
    """
    if devices:
        return [_mapping(device) for device in devices]
    return [
        {"DeviceName": device, "Ebs": {"VolumeSize": size, "VolumeType": "gp3", "Encrypted": True}}
        for device, size in family.default_volumes
    ]


def _mapping(device: BlockDevice) -> dict[str, Any]:
    mapping: dict[str, Any] = {"DeviceName": device.device_name}
    if device.ebs is not None:
        mapping["Ebs"] = _ebs(device.ebs, volume_bytes(device))
    return mapping


def _ebs(ebs: Ebs, size: int | None) -> dict[str, Any]:
    """Include only fields that are set: EC2 has its own defaults, and zero is not one of them.

    Sizes are whole GiB, rounded up.
    """
    fields: dict[str, Any] = {
        "DeleteOnTermination": ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        "Iops": ebs.iops or None,
        "KmsKeyId": ebs.kms_key_id or None,
        "SnapshotId": ebs.snapshot_id or None,
        "Throughput": ebs.throughput or None,
        "VolumeInitializationRate": ebs.volume_initialization_rate or None,
        "VolumeSize": None if size is None else -(-size // _GIB),
        "VolumeType": ebs.volume_type or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


# Renders the network interfaces that a node is launched with.
#
# Security groups always go inside the interfaces (EC2's rule).


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


# Renders a node's placement: shared or dedicated hardware, and the placement group.


SHARED: Final = labels.SHARED_TENANCY
DEDICATED: Final = "dedicated"

_CONFINING: Final = ("placementGroupSelector", "cpuOptions")


def tenancy(requirements: Iterable[Requirement]) -> str:
    """Return the tenancy that a claim is launched with: dedicated only if shared hardware is excluded (Karpenter)."""
    demanded = next((requirement for requirement in requirements if requirement.key == labels.TENANCY), None)
    return DEDICATED if demanded is not None and not demanded.has(SHARED) and demanded.has(DEDICATED) else SHARED


def is_confined(requirements: Iterable[Requirement], node_class: Mapping[str, Any]) -> bool:
    """Whether a launch may use only part of an offering's capacity, so that its refusal does not apply to other launches.

    True for dedicated hardware, a placement group, or a feature that few machines have. `node_class` is the manifest.
    """
    spec = node_class.get("spec") or {}
    return tenancy(requirements) != SHARED or any(spec.get(field) for field in _CONFINING)


def partition(requirements: Iterable[Requirement]) -> int:
    """Return the partition of its placement group that a claim requires: the lowest of several, 0 for any.

    Karpenter takes the alphabetically first, so `10` before `2`.
    """
    requirement = next(
        (requirement for requirement in requirements if requirement.key == labels.PLACEMENT_GROUP_PARTITION), None
    )
    if requirement is None or not requirement.is_finite:
        return 0
    return min((int(value) for value in requirement.values if value.isdecimal()), default=0)


def placement(spec: NodeClassSpec, node_tenancy: str, partition_number: int = 0) -> dict[str, Any]:
    """Return `Placement` of a launch template; empty where EC2's default applies."""
    group = spec.placement_group_selector
    fields = {
        "Tenancy": node_tenancy if node_tenancy != SHARED else "",
        "GroupName": group.name if group else "",
        "GroupId": group.id if group else "",
        "PartitionNumber": partition_number if group else 0,
    }
    return {name: value for name, value in fields.items() if value}


# Renders the settings that launch into a capacity reservation, or avoid all of them.


ONLY_RESERVED: Final = "capacity-reservations-only"
NO_RESERVATION: Final = "none"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
"""EC2's market type, lifecycle and reservation type of capacity whose owner may take it back."""


def reservation_settings(offering: Offering) -> dict[str, Any]:
    """Return the fields of a launch template that control reservations.

    Other launches do not use open reservations either (Karpenter): plans assign their places.
    """
    if not offering.reservation_id:
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": NO_RESERVATION}}
    settings: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": ONLY_RESERVED,
            "CapacityReservationTarget": {"CapacityReservationId": offering.reservation_id},
        }
    }
    market = _market(offering)
    return {**settings, "InstanceMarketOptions": {"MarketType": market}} if market else settings


def target_capacity_type(offering: Offering) -> str:
    """Return the fleet's `DefaultTargetCapacityType` for an offering (Karpenter)."""
    if not offering.reservation_id:
        return offering.capacity_type
    return {CAPACITY_BLOCK: CAPACITY_BLOCK, INTERRUPTIBLE: "reserved-capacity"}.get(_market(offering), labels.ON_DEMAND)


def fleet_options(offering: Offering, *, spot: str, on_demand: str) -> dict[str, Any]:
    """Return the fleet's options for an offering's capacity: the allocation strategy, or the reservations to use."""
    target = target_capacity_type(offering)
    if target == labels.SPOT:
        return {"SpotOptions": {"AllocationStrategy": spot}}
    if target == labels.ON_DEMAND:
        return {"OnDemandOptions": {"AllocationStrategy": on_demand}}
    if target == CAPACITY_BLOCK:
        return {}
    return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE]}}


def _market(offering: Offering) -> str:
    if offering.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return INTERRUPTIBLE if offering.interruptible else ""


NAME_PREFIX: Final = "fleetwright/"
_DIGEST_CHARACTERS: Final = 32


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template by its name, the data that EC2 stores, and the tags of the template itself."""

    name: str
    data: dict[str, Any]
    tags: dict[str, str]


class TemplateParts(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a template besides the class.

    Attributes:
        user_data: The text in the node's own format.
        offering: One of the offerings that are launched from it: they share capacity type and reservation.
        tags: Tags of all created resources; none of them may name a single claim.
        efa_count: EFA interfaces, for a claim that requests them.
        tenancy: EC2's tenancy, such as `default` or `dedicated`.
        partition: The partition of its placement group, 0 where EC2 chooses.
        uses_reservations: Whether reservations are managed here; otherwise EC2 fills open ones by itself.
    """

    image_id: str
    user_data: str
    offering: Offering
    tags: dict[str, str]
    efa_count: int = 0
    tenancy: str = SHARED
    partition: int = 0
    is_ipv6: bool = False
    uses_reservations: bool = True


def launch_template(node_class: EC2NodeClass, parts: TemplateParts) -> LaunchTemplate:
    """Render a template.

    Raises:
        InvalidInputError: If the class has no security groups or no instance profile yet, or a volume size is wrong.
    """
    data = _data(node_class, parts)
    content = json.dumps([data, parts.tags], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return LaunchTemplate(name=NAME_PREFIX + digest, data=data, tags=parts.tags)


def ownership_tags(node_class: EC2NodeClass, *, cluster: str, node_pool: str) -> dict[str, str]:
    """Return the tags that identify the owner of a resource; they override the user's, and IAM conditions depend on them."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.CLUSTER_TAG: cluster,
        labels.NODEPOOL: node_pool,
        labels.NODECLASS: node_class.name,
    }


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return tags in EC2's form, by key."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def _data(node_class: EC2NodeClass, parts: TemplateParts) -> dict[str, Any]:
    spec, status = node_class.spec, node_class.status
    profile = status.instance_profile or spec.instance_profile
    if not status.security_groups or not profile:
        missing = "securityGroups" if not status.security_groups else "instanceProfile"
        raise InvalidInputError(
            "not resolved yet", subject=f"EC2NodeClass {node_class.name}", field=f"status.{missing}"
        )
    data: dict[str, Any] = {
        "ImageId": parts.image_id,
        "IamInstanceProfile": {"Name": profile},
        "BlockDeviceMappings": block_device_mappings(spec.block_device_mappings, node_class.family),
        "NetworkInterfaces": network_interfaces(node_class, efa_count=parts.efa_count, is_ipv6=parts.is_ipv6),
        "MetadataOptions": _metadata_options(node_class),
        "Monitoring": {"Enabled": spec.detailed_monitoring},
        "UserData": base64.b64encode(parts.user_data.encode()).decode(),
        "TagSpecifications": _tag_specifications(parts),
    }
    if not data["BlockDeviceMappings"]:
        del data["BlockDeviceMappings"]
    if parts.uses_reservations:
        data |= reservation_settings(parts.offering)
    where = placement(spec, parts.tenancy, parts.partition)
    if where:
        data["Placement"] = where
    if spec.cpu_options is not None and spec.cpu_options.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": spec.cpu_options.nested_virtualization}
    if spec.has_enclaves:
        data["EnclaveOptions"] = {"Enabled": True}
    return data


def _metadata_options(node_class: EC2NodeClass) -> dict[str, Any]:
    """Set IPv6 only if it is wanted: isolated regions do not support the field (Karpenter omits it there)."""
    options = node_class.spec.metadata_options
    ipv6 = {"HttpProtocolIpv6": "enabled"} if options.http_protocol_ipv6 == "enabled" else {}
    return {
        **ipv6,
        "HttpEndpoint": options.http_endpoint,
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
        "HttpTokens": options.http_tokens,
        "InstanceMetadataTags": "disabled",
    }


def _tag_specifications(parts: TemplateParts) -> list[dict[str, Any]]:
    """Tags of instances, volumes and the fleet come with the fleet request; only the template creates these."""
    kinds = ["network-interface"] + (["spot-instances-request"] if parts.offering.capacity_type == labels.SPOT else [])
    return [{"ResourceType": kind, "Tags": tag_list(parts.tags)} for kind in kinds]
