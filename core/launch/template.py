"""Renders launch templates: everything about a node that does not depend on its place or its claim.

A template's name is a digest of its content, so the same node always comes from the same template and a changed one from a new
template: templates are never edited, and creating one twice is harmless.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import EC2NodeClass
from core.errors import InvalidInputError
from core.launch.block_devices import block_device_mappings
from core.launch.interfaces import network_interfaces
from core.launch.placement import SHARED, placement
from core.launch.reservation_target import reservation_settings
from core.model.catalogue import Offering

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
        enclaves: Whether the claim requests Nitro Enclaves.
        tenancy: EC2's tenancy, such as `default` or `dedicated`.
        partition: The partition of its placement group, 0 where EC2 chooses.
        uses_reservations: Whether reservations are managed here; otherwise EC2 fills open ones by itself.
    """

    image_id: str
    user_data: str
    offering: Offering
    tags: dict[str, str]
    efa_count: int = 0
    enclaves: bool = False
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
    if parts.enclaves:
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
