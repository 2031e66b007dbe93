"""Rules across the fields of an EC2NodeClass, each in Python and in CEL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core import labels
from core.ami_families.custom import CUSTOM
from core.ami_families.family import AmiFamily
from core.ami_families.registry import BY_ALIAS, FAMILIES, family_of
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import Rule
from core.api.schemas.kubelet import rules as kubelet
from core.api.schemas.selector_terms import every_term_mixes

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
