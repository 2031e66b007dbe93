"""EC2NodeClass `karpenter.k8s.aws/v1` as users write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from core import labels
from core.ami_families.family import LATEST, AmiFamily
from core.ami_families.registry import BY_ALIAS, CUSTOM, FAMILIES, family_of
from core.api.objects import JsonObject
from core.api.schemas import fields, kubelet, node_pool
from core.api.schemas.fields import ApiModel, Metadata, Rule
from core.api.schemas.kubelet import KubeletConfiguration
from core.api.status import Location

# Block devices of an EC2NodeClass as users write them.


def _without_size(ebs: JsonObject) -> list[Location]:
    return [] if "snapshotID" in ebs or "volumeSize" in ebs else [("volumeSize",)]


def _rate_without_snapshot(ebs: JsonObject) -> list[Location]:
    return [("volumeInitializationRate",)] if "volumeInitializationRate" in ebs and not ebs.get("snapshotID") else []


class EbsVolume(ApiModel):
    """`ebs` of a block device."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: fields.Whole | None = None
    kms_key_id: str | None = None
    snapshot_id: str | None = None
    throughput: fields.Whole | None = None
    volume_initialization_rate: Annotated[int, Field(ge=100, le=300)] | None = None
    volume_size: Annotated[str, Field(pattern=fields.VOLUME_SIZE)] | None = None
    volume_type: Literal["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"] | None = None

    rules = (
        Rule(
            (),
            _without_size,
            "is required where there is no snapshotID",
            "has(self.snapshotID) || has(self.volumeSize)",
            "volumeSize",
        ),
        Rule(
            (),
            _rate_without_snapshot,
            "needs a snapshotID",
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "volumeInitializationRate",
        ),
    )


class BlockDevice(ApiModel):
    """One entry of `spec.blockDeviceMappings`."""

    device_name: str | None = None
    root_volume: bool = False
    ebs: EbsVolume | None = None


# The terms by which an EC2NodeClass selects subnets, security groups, images and capacity reservations.
#
# All conditions of a term must hold; any one of several terms is enough. Karpenter refuses a list for mixing an id with
# other conditions only where every term of it does so; a single such term works, and its id wins.


TERMS_MAX: Final = 30

_ONLY_LATEST: Final = [alias for alias, family in BY_ALIAS.items() if not family.has_releases]

Tags = Annotated[dict[str, str], Field(max_length=20)]


def _empty_tags(term: JsonObject) -> list[Location]:
    return [("tags", key) for key, value in term.get("tags", {}).items() if not key or not value]


def cel_has_any(names: Iterable[str], of: str = "self") -> str:
    """Return a CEL expression: whether one of the fields is set."""
    return " || ".join(f"has({of}.{name})" for name in names)


def _needs_one_of(*names: str) -> Rule:
    def broken(term: JsonObject) -> list[Location]:
        return [] if any(name in term for name in names) else [()]

    return Rule((), broken, f"needs at least one of {', '.join(names)}", cel_has_any(names))


_TAGS_ARE_FULL: Final = Rule(
    ("tags",),
    _empty_tags,
    "tags need a key and a value; use * to match every value",
    "!has(self.tags) || self.tags.all(key, key != '' && self.tags[key] != '')",
)


class SubnetTerm(ApiModel):
    """One entry of `spec.subnetSelectorTerms`."""

    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.SUBNET_ID)] | None = None

    rules = (_TAGS_ARE_FULL, _needs_one_of("tags", "id"))


class SecurityGroupTerm(ApiModel):
    """One entry of `spec.securityGroupSelectorTerms`."""

    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.SECURITY_GROUP_ID)] | None = None
    name: str | None = None

    rules = (_TAGS_ARE_FULL, _needs_one_of("tags", "id", "name"))


class ReservationTerm(ApiModel):
    """One entry of `spec.capacityReservationSelectorTerms`."""

    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.RESERVATION_ID)] | None = None
    owner_id: Annotated[str, Field(pattern=fields.ACCOUNT_ID)] | None = None
    instance_match_criteria: Literal["open", "targeted"] | None = None

    rules = (_TAGS_ARE_FULL, _needs_one_of("tags", "id", "instanceMatchCriteria"))


def _unknown_family(term: JsonObject) -> list[Location]:
    family = term.get("alias", "al2@").partition("@")[0]
    return [] if family in BY_ALIAS else [("alias",)]


def _without_releases(term: JsonObject) -> list[Location]:
    family, _, release = term.get("alias", "").partition("@")
    return [("alias",)] if family in _ONLY_LATEST and release != LATEST else []


def _alone(*names: str) -> Rule:
    """The rule that refuses the first field beside one of the others."""
    first, *others = names

    def broken(term: JsonObject) -> list[Location]:
        return [(first,)] if first in term and any(name in term for name in others) else []

    listed = f"{', '.join(others[:-1])} or {others[-1]}"
    return Rule(
        (), broken, f"cannot be combined with {listed}", f"!has(self.{first}) || !({cel_has_any(others)})", first
    )


class AmiTerm(ApiModel):
    """One entry of `spec.amiSelectorTerms`."""

    alias: Annotated[str, Field(pattern=fields.AMI_ALIAS, max_length=30)] | None = None
    tags: Tags | None = None
    id: Annotated[str, Field(pattern=fields.AMI_ID)] | None = None
    name: str | None = None
    owner: str | None = None
    ssm_parameter: str | None = None

    rules = (
        _TAGS_ARE_FULL,
        _needs_one_of("tags", "id", "name", "alias", "ssmParameter"),
        Rule(
            ("alias",),
            _unknown_family,
            f"its family is not one of {', '.join(BY_ALIAS)}",
            f"!has(self.alias) || self.alias.split('@')[0] in {list(BY_ALIAS)}",
        ),
        Rule(
            ("alias",),
            _without_releases,
            "this family supports only the version latest",
            f"!has(self.alias) || !(self.alias.split('@')[0] in {_ONLY_LATEST}) || self.alias.find('@.*') == '@{LATEST}'",
        ),
        _alone("id", "alias", "tags", "name", "owner"),
        _alone("alias", "tags", "name", "owner"),
    )


def every_term_mixes(field: str, name: str, others: Iterable[str]) -> Rule:
    """The rule that refuses a list in which every term combines `name` with one of `others`."""
    forbidden = tuple(others)

    def broken(spec: JsonObject) -> list[Location]:
        terms = spec.get(field, [])
        mixed = all(name in term and any(other in term for other in forbidden) for term in terms)
        return [(field, index, name) for index in range(len(terms))] if mixed else []

    mixing = f"has(term.{name}) && ({cel_has_any(forbidden, of='term')})"
    cel = f"!has(self.{field}) || self.{field}.size() == 0 || !self.{field}.all(term, {mixing})"
    return Rule((field,), broken, f"cannot be combined with {' or '.join(forbidden)}", cel)


# Rules across the fields of an EC2NodeClass, each in Python and in CEL.


_RESERVED_TAGS: Final = (
    labels.CLUSTER_TAG,
    labels.NODEPOOL,
    labels.NODECLAIM,
    labels.NODECLASS,
    labels.NODEPOOL_HASH,
    labels.NODEPOOL_HASH_VERSION,
    labels.NODECLASS_HASH,
    labels.NODECLASS_HASH_VERSION,
)
"""Tags by which instances are found, and from which lost claims are rebuilt. Karpenter reserves the first four."""


_EC2_TAGS_MAX: Final = 50


_OWN_TAGS: Final = 13
"""Tags that we set: Name, cluster (two), NodePool, EC2NodeClass, NodeClaim, claim, launch, decision, and two drift hashes with
their versions."""


TAGS_MAX: Final = _EC2_TAGS_MAX - _OWN_TAGS
"""Most tags in `spec.tags`; with one more EC2 rejects every launch (TagLimitExceeded)."""


_RESERVED_TAG_PREFIXES: Final = ("kubernetes.io/cluster", labels.OWN_PREFIX)


def ami_family(spec: JsonObject) -> str:
    """Return the family that boots the nodes: the one named, else the alias's, else Custom."""
    aliases = [term["alias"] for term in spec.get("amiSelectorTerms", []) if "alias" in term]
    return str(spec.get("amiFamily") or family_of("", aliases[0] if aliases else "").name)


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
    return [("tags", key) for key in keys if key in _RESERVED_TAGS or key.startswith(_RESERVED_TAG_PREFIXES)]


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
    has_primary = any(all(interface[key] == value for key, value in primary.items()) for interface in interfaces)
    return [] if has_primary or not interfaces else [("networkInterfaces",)]


def _repeated_interfaces(spec: JsonObject) -> list[Location]:
    places = [
        (interface["networkCardIndex"], interface["deviceIndex"]) for interface in spec.get("networkInterfaces", [])
    ]
    return [("networkInterfaces", index) for index, place in enumerate(places) if place in places[:index]]


def _second_efa_of_card(spec: JsonObject) -> list[Location]:
    interfaces = spec.get("networkInterfaces", [])
    cards = [
        interface["networkCardIndex"] if interface["interfaceType"] == "efa-only" else None for interface in interfaces
    ]
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


TERM_RULES: Final = (
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


INSTANCE_RULES: Final = (
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
        # Names are looked up in the map: each key looked up among the names would exceed the API server's cost of a rule.
        f"!has(self.tags) || {list(_RESERVED_TAGS)}.all(name, !(name in self.tags)) && self.tags.all(key, "
        + " && ".join(f"!key.startsWith('{prefix}')" for prefix in _RESERVED_TAG_PREFIXES)
        + ")",
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


class EnclaveOptions(ApiModel):
    """`spec.enclaveOptions`: Nitro Enclaves on every node of the class."""

    enabled: bool


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
    enclave_options: EnclaveOptions | None = None

    rules = (*TERM_RULES, *INSTANCE_RULES)


class ClassMetadata(Metadata):
    """`metadata` of an EC2NodeClass, with the annotation that tunes it."""

    rules = (
        *Metadata.rules,
        Rule(("annotations",), node_pool.bad_prefix_delegation, node_pool.PREFIX_DELEGATION_MEANING),
        Rule(("annotations",), node_pool.bad_consumable_capacity, node_pool.CONSUMABLE_CAPACITY_MEANING),
    )


class EC2NodeClassObject(ApiModel):
    """An EC2NodeClass."""

    metadata: ClassMetadata
    spec: EC2NodeClassSpec
