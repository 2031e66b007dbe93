"""EC2NodeClass `karpenter.k8s.aws/v1` as users write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from core import labels
from core.ami_families.custom import CUSTOM
from core.ami_families.family import AmiFamily
from core.ami_families.registry import BY_ALIAS, FAMILIES, family_of
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields, tuning
from core.api.schemas.base import ApiModel, Rule
from core.api.schemas.block_device import BlockDevice
from core.api.schemas.kubelet import rules as kubelet
from core.api.schemas.kubelet.rules import KubeletConfiguration
from core.api.schemas.metadata import Metadata
from core.api.schemas.selector_terms import (
    TERMS_MAX,
    AmiTerm,
    ReservationTerm,
    SecurityGroupTerm,
    SubnetTerm,
    cel_has_any,
    every_term_mixes,
)

if TYPE_CHECKING:
    AmiFamilyName = str
else:
    AmiFamilyName = Literal[
        tuple(FAMILIES)
    ]  # pydantic generates the enum from it; a type checker accepts no computed Literal

_RESERVED_TAGS: Final = (labels.CLUSTER_TAG, labels.NODEPOOL, labels.NODECLAIM, labels.NODECLASS)
_EC2_TAGS_MAX: Final = 50
_OWN_TAGS: Final = 11
"""Tags that we set: Name, cluster (two), NodePool, EC2NodeClass, NodeClaim, claim, and two drift hashes with their versions."""

TAGS_MAX: Final = _EC2_TAGS_MAX - _OWN_TAGS
"""Most tags in `spec.tags`; with one more EC2 rejects every launch (TagLimitExceeded)."""

_RESERVED_TAG_PREFIX: Final = "kubernetes.io/cluster"


def ami_family(spec: JsonObject) -> str:
    """Return the family that boots the nodes: the one named, else the alias's, else Custom."""
    aliases = [term["alias"] for term in spec.get("amiSelectorTerms", []) if "alias" in term]
    return str(spec.get("amiFamily") or family_of("", aliases[0] if aliases else "").name)


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


def _role_or_profile(spec: JsonObject) -> list[Location]:
    if ("role" in spec) != ("instanceProfile" in spec):
        return []
    return [("instanceProfile",)] if "role" in spec else [("role",)]


def _alias_with_other_terms(spec: JsonObject) -> list[Location]:
    terms = spec["amiSelectorTerms"]
    places: list[Location] = [("amiSelectorTerms", i, "alias") for i, term in enumerate(terms) if "alias" in term]
    return places if len(terms) > 1 else []


def _family_without_alias(spec: JsonObject) -> list[Location]:
    has_alias = any("alias" in term for term in spec["amiSelectorTerms"])
    return [] if has_alias or "amiFamily" in spec else [("amiFamily",)]


def _family_against_alias(spec: JsonObject) -> list[Location]:
    family = spec.get("amiFamily", CUSTOM.name)
    aliases = (term["alias"].partition("@")[0] for term in spec["amiSelectorTerms"] if "alias" in term)
    wanted = {BY_ALIAS[alias].name for alias in aliases if alias in BY_ALIAS}
    return [("amiFamily",)] if family != CUSTOM.name and wanted - {family} else []


def _reserved_tags(spec: JsonObject) -> list[Location]:
    keys = spec.get("tags", {})
    return [("tags", key) for key in keys if key in _RESERVED_TAGS or key.startswith(_RESERVED_TAG_PREFIX)]


def _too_many_tags(spec: JsonObject) -> list[Location]:
    return [("tags",)] if len(spec.get("tags", {})) > TAGS_MAX else []


def _public_beside_others(spec: JsonObject) -> list[Location]:
    is_public = spec.get("associatePublicIPAddress", False)
    return [("associatePublicIPAddress",)] if is_public and len(spec.get("networkInterfaces", [])) > 1 else []


def _nameless_tags(spec: JsonObject) -> list[Location]:
    return [("tags", key) for key in spec.get("tags", {}) if not key]


def _second_roots(spec: JsonObject) -> list[Location]:
    devices = enumerate(spec.get("blockDeviceMappings", []))
    roots: list[Location] = [
        ("blockDeviceMappings", i, "rootVolume") for i, device in devices if device.get("rootVolume")
    ]
    return roots[1:]


def _no_primary_interface(spec: JsonObject) -> list[Location]:
    primary = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    interfaces = spec.get("networkInterfaces", [])
    has_primary = any(all(one[key] == value for key, value in primary.items()) for one in interfaces)
    return [] if has_primary or not interfaces else [("networkInterfaces",)]


def _repeated_interfaces(spec: JsonObject) -> list[Location]:
    places = [(one["networkCardIndex"], one["deviceIndex"]) for one in spec.get("networkInterfaces", [])]
    return [("networkInterfaces", index) for index, place in enumerate(places) if place in places[:index]]


def _second_efa_of_card(spec: JsonObject) -> list[Location]:
    interfaces = spec.get("networkInterfaces", [])
    cards = [one["networkCardIndex"] if one["interfaceType"] == "efa-only" else None for one in interfaces]
    return [("networkInterfaces", i) for i, card in enumerate(cards) if card is not None and card in cards[:i]]


def _beyond_family(spec: JsonObject) -> list[Location]:
    return [
        ("kubelet", *place) for place in kubelet.unsupported(spec.get("kubelet", {}), family_of(ami_family(spec), ""))
    ]


_TERMS: Final = ("amiSelectorTerms",)
_CEL_FAMILIES: Final = "{" + ", ".join(f"'{alias}': '{family.name}'" for alias, family in BY_ALIAS.items()) + "}"
_CEL_OF_ALIAS: Final = "term.alias.split('@')[0]"
_CEL_HAS_ALIAS: Final = "self.amiSelectorTerms.exists(term, has(term.alias))"
_CEL_IS_EFA: Final = "{0}.interfaceType == 'efa-only'"


def _cel_family_is(families: Iterable[AmiFamily]) -> str:
    """For the API server: whether `ami_family` is one of these."""
    names = [family.name for family in families]
    aliases = [alias for alias, family in BY_ALIAS.items() if family.name in names]
    of_alias = f"self.amiSelectorTerms.exists(term, has(term.alias) && {_CEL_OF_ALIAS} in {aliases})"
    return f"(has(self.amiFamily) ? self.amiFamily in {names} : {of_alias})"


_CEL_TAKES_ANY_FIELD: Final = _cel_family_is(family for family in FAMILIES.values() if family.takes_any_kubelet_field)
_CEL_LACKS: Final = {
    field: _cel_family_is(family for family in FAMILIES.values() if not family.supports_kubelet_field(field))
    for field in sorted({field for family in FAMILIES.values() for field in family.unsupported_kubelet_fields})
}
"""Kubelet field → whether the class is of a family that does not support it."""

_TERM_RULES: Final = (
    Rule(
        (),
        _role_or_profile,
        "exactly one of role and instanceProfile is needed",
        "has(self.role) != has(self.instanceProfile)",
    ),
    Rule(
        _TERMS,
        _alias_with_other_terms,
        "an alias must be the only term",
        f"self.amiSelectorTerms.size() == 1 || !{_CEL_HAS_ALIAS}",
    ),
    Rule(
        _TERMS,
        _family_without_alias,
        "is required where amiSelectorTerms has no alias",
        f"has(self.amiFamily) || {_CEL_HAS_ALIAS}",
    ),
    Rule(
        (*_TERMS, "amiFamily"),
        _family_against_alias,
        "is not the alias' family; leave it out, or use Custom",
        f"!has(self.amiFamily) || self.amiFamily == '{CUSTOM.name}' || self.amiSelectorTerms.all(term, !has(term.alias)"
        f" || !({_CEL_OF_ALIAS} in {_CEL_FAMILIES}) || {_CEL_FAMILIES}[{_CEL_OF_ALIAS}] == self.amiFamily)",
    ),
    every_term_mixes("subnetSelectorTerms", "id", ("tags",)),
    every_term_mixes("securityGroupSelectorTerms", "id", ("tags", "name")),
    every_term_mixes("securityGroupSelectorTerms", "name", ("tags", "id")),
    every_term_mixes("capacityReservationSelectorTerms", "id", ("tags", "ownerID", "instanceMatchCriteria")),
)
_INSTANCE_RULES: Final = (
    Rule(
        ("tags",),
        _too_many_tags,
        f"there are more than {TAGS_MAX}; EC2 takes {_EC2_TAGS_MAX} with the {_OWN_TAGS} that the provisioner sets",
        f"!has(self.tags) || self.tags.size() <= {TAGS_MAX}",
    ),
    Rule(
        ("associatePublicIPAddress", "networkInterfaces"),
        _public_beside_others,
        "EC2 gives no public address to an instance with several networkInterfaces",
        "!has(self.associatePublicIPAddress) || !self.associatePublicIPAddress"
        " || !has(self.networkInterfaces) || self.networkInterfaces.size() <= 1",
    ),
    Rule(("tags",), _nameless_tags, "has an empty key", "!has(self.tags) || self.tags.all(key, key != '')"),
    Rule(
        ("tags",),
        _reserved_tags,
        "is a tag that the provisioner sets itself",
        f"!has(self.tags) || self.tags.all(key, !(key in {list(_RESERVED_TAGS)})"
        f" && !key.startsWith('{_RESERVED_TAG_PREFIX}'))",
    ),
    Rule(
        ("blockDeviceMappings",),
        _second_roots,
        "only one device can be the root volume",
        "!has(self.blockDeviceMappings)"
        " || self.blockDeviceMappings.filter(device, has(device.rootVolume) && device.rootVolume).size() <= 1",
    ),
    Rule(
        ("networkInterfaces",),
        _no_primary_interface,
        "needs one at card 0, device 0 of type interface",
        "!has(self.networkInterfaces) || self.networkInterfaces.size() == 0 || self.networkInterfaces.exists(one,"
        " one.networkCardIndex == 0 && one.deviceIndex == 0 && one.interfaceType == 'interface')",
    ),
    Rule(
        ("networkInterfaces",),
        _repeated_interfaces,
        "another interface has the same card and device",
        "!has(self.networkInterfaces) || self.networkInterfaces.all(one, self.networkInterfaces.exists_one(other,"
        " one.networkCardIndex == other.networkCardIndex && one.deviceIndex == other.deviceIndex))",
    ),
    Rule(
        ("networkInterfaces",),
        _second_efa_of_card,
        "its network card has an efa-only interface already",
        f"!has(self.networkInterfaces) || self.networkInterfaces.all(one, !({_CEL_IS_EFA.format('one')})"
        f" || self.networkInterfaces.exists_one(other, {_CEL_IS_EFA.format('other')}"
        " && one.networkCardIndex == other.networkCardIndex))",
    ),
    Rule(
        ("kubelet", "amiFamily", *_TERMS),
        _beyond_family,
        "is not supported by this AMI family; AL2023 takes it",
        kubelet.cel_supported(_CEL_TAKES_ANY_FIELD, _CEL_LACKS),
    ),
)


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

    rules = (*_TERM_RULES, *_INSTANCE_RULES)


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
