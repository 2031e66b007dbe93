"""EC2NodeClass `karpenter.k8s.aws/v1` as users write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from core.ami_families.registry import FAMILIES
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields, tuning
from core.api.schemas.base import ApiModel, Rule
from core.api.schemas.block_device import BlockDevice
from core.api.schemas.ec2_node_class_rules import INSTANCE_RULES, TERM_RULES
from core.api.schemas.kubelet.rules import KubeletConfiguration
from core.api.schemas.metadata import Metadata
from core.api.schemas.selector_terms import (
    TERMS_MAX,
    AmiTerm,
    ReservationTerm,
    SecurityGroupTerm,
    SubnetTerm,
    cel_has_any,
)

if TYPE_CHECKING:
    AmiFamilyName = str
else:
    AmiFamilyName = Literal[
        tuple(FAMILIES)
    ]  # pydantic generates the enum from it; a type checker accepts no computed Literal


class MetadataOptions(ApiModel):
    """`spec.metadataOptions`: the instance metadata service."""

    http_endpoint: Literal["enabled", "disabled"] = "enabled"
    http_protocol_ipv6: Literal["enabled", "disabled"] = "disabled"
    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] = 1
    http_tokens: Literal["required", "optional"] = "required"


class NetworkInterface(ApiModel):
    """One entry of `spec.networkInterfaces`."""

    network_card_index: fields.Count
    device_index: fields.Count
    interface_type: Literal["interface", "efa-only"]


_TIMEOUTS: Final = ("tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout")


def _no_timeout(tracking: JsonObject) -> list[Location]:
    return [] if any(name in tracking for name in _TIMEOUTS) else [()]


class ConnectionTracking(ApiModel):
    """`spec.connectionTracking`: idle timeouts of tracked connections in seconds."""

    tcp_established_timeout: Annotated[int, Field(ge=60, le=432000)] | None = None
    udp_stream_timeout: Annotated[int, Field(ge=60, le=180)] | None = None
    udp_timeout: Annotated[int, Field(ge=30, le=60)] | None = None

    rules = (Rule((), _no_timeout, f"needs at least one of {', '.join(_TIMEOUTS)}", cel_has_any(_TIMEOUTS)),)


class CpuOptions(ApiModel):
    """`spec.cpuOptions`."""

    nested_virtualization: Literal["enabled", "disabled"] | None = None


def _both_or_neither(selector: JsonObject) -> list[Location]:
    return [()] if ("name" in selector) == ("id" in selector) else []


class PlacementGroupSelector(ApiModel):
    """`spec.placementGroupSelector`."""

    name: fields.NonEmpty | None = None
    id: Annotated[str, Field(pattern=fields.PLACEMENT_GROUP_ID)] | None = None

    rules = (Rule((), _both_or_neither, "needs exactly one of name and id", "has(self.name) != has(self.id)"),)


class EC2NodeClassSpec(ApiModel):
    """`spec` of an EC2NodeClass."""

    subnet_selector_terms: Annotated[list[SubnetTerm], Field(min_length=1, max_length=TERMS_MAX)]
    security_group_selector_terms: Annotated[list[SecurityGroupTerm], Field(min_length=1, max_length=TERMS_MAX)]
    capacity_reservation_selector_terms: Annotated[list[ReservationTerm], Field(max_length=TERMS_MAX)] = []
    ami_selector_terms: Annotated[list[AmiTerm], Field(min_length=1, max_length=TERMS_MAX)]
    ami_family: AmiFamilyName | None = None
    role: fields.NonEmpty | None = None
    instance_profile: fields.NonEmpty | None = None
    placement_group_selector: PlacementGroupSelector | None = None
    associate_public_ip_address: bool | None = None
    ip_prefix_count: fields.Count | None = None
    user_data: str | None = None
    tags: dict[str, str] = {}
    kubelet: KubeletConfiguration | None = None
    block_device_mappings: Annotated[list[BlockDevice], Field(max_length=50)] = []
    instance_store_policy: Literal["RAID0"] | None = None
    network_interfaces: Annotated[list[NetworkInterface], Field(max_length=150)] = []
    detailed_monitoring: bool = False
    metadata_options: MetadataOptions = Field(default_factory=MetadataOptions)
    connection_tracking: ConnectionTracking | None = None
    context: str | None = None
    cpu_options: CpuOptions | None = None

    rules = (*TERM_RULES, *INSTANCE_RULES)


class ClassMetadata(Metadata):
    """`metadata` of an EC2NodeClass, with the annotation that tunes it."""

    rules = (
        *Metadata.rules,
        Rule(("annotations",), tuning.bad_prefix_delegation, tuning.PREFIX_DELEGATION_MEANING),
    )


class EC2NodeClassObject(ApiModel):
    """An EC2NodeClass."""

    metadata: ClassMetadata
    spec: EC2NodeClassSpec
