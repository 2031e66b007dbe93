"""Findings about NodePools and NodeOverlays: values, labels and limits that nothing in the catalogue has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from cli.arguments import REGION_DEFAULT, fetch_hint
from cli.manifests.inventory import ZONE, Document
from cli.validation.formats import TEMPLATES, Code, Finding, Severity, finding_in, nearest
from core import api, labels
from core.api.objects import is_ours, kind_of, mapping, sequence
from core.api.older_versions import is_old
from core.api.status import Location, path_of
from core.disruption.expiration import TOO_SHORT, WORKS_FOR
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.quantity import HOURLY
from core.model.values.requirements import INTEGER_OPERATORS, Requirement
from core.pools import shared_limits

# Recognizes label keys that nearly match those of nodes, and keys that Karpenter no longer uses.


KNOWN_KEYS: Final = tuple(sorted({*labels.WELL_KNOWN, *labels.ALIASES, labels.HOSTNAME, labels.ZONE_ID}))
"""Labels that all nodes have."""

_DOMAINS: Final = tuple(sorted({key.partition("/")[0] for key in KNOWN_KEYS} | {labels.CORE_GROUP, labels.AWS_GROUP}))
"""Domains of nodes' labels. A key in another domain is the user's own, whatever its spelling."""


def nearest_label(key: str, provided: Collection[str] = ()) -> str:
    """Return the node label that a key probably means; empty if it is one, or is the user's own.

    Args:
        key: A key as written.
        provided: Keys that NodePools of the input give to their nodes.
    """
    if key in KNOWN_KEYS or key in provided:
        return ""
    domain, _, name = key.rpartition("/")
    if domain and domain not in _DOMAINS:
        return ""
    same_name = [
        known_key
        for known_key in KNOWN_KEYS
        if known_key.rpartition("/")[2] == name and known_key not in labels.ALIASES
    ]
    if same_name:
        return same_name[0]
    return nearest(key, KNOWN_KEYS) if domain else ""


_ZONE_LETTERS: Final = "abcdef"
"""Of the zones of AWS's regions. Older accounts have zones that newer ones, and the built-in list, do not."""

_CLOSED: Final[Mapping[str, frozenset[str]]] = {
    labels.ARCH: frozenset({"amd64", "arm64"}),
    labels.OS: frozenset({"linux", "windows"}),
    labels.CAPACITY_TYPE: frozenset(labels.CAPACITY_TYPES),
}
"""Keys whose values do not depend on the catalogue."""

_USUAL_VALUES: Final = {"x86_64": "amd64", "x86": "amd64", "x64": "amd64", "aarch64": "arm64", "arm": "arm64"}
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
_ZONE_ID: Final = re.compile(r"[a-z]+\d-az\d")
_FAMILY_KEY: Final = f"{labels.AWS_GROUP}/instance-family"
_FAMILY: Final = re.compile(
    r"([a-z]+)(?P<generation>\d+)[a-z]*(-[a-z0-9]+)?(?P<size>\.(metal(-\d+xl)?|[a-z]+|\d+xlarge))?"
)
"""An instance family or type: category, generation, attributes, variant and size."""
_PLACES: Final = {"NodePool": ("spec", "template", "spec"), "NodeOverlay": ("spec",)}


class KnownValues:
    """The possible values of node labels, by key, without users' own keys."""

    def __init__(self, catalogue: Catalogue, builtin_region: str = "") -> None:
        """Take a catalogue; `builtin_region` says of which region the built-in list is, if it is one."""
        self.builtin_region = builtin_region
        values_of: dict[str, set[str]] = {key: set(values) for key, values in _CLOSED.items()}
        for types in (catalogue.default, *(types for _, types in sorted(catalogue.by_node_class.items()))):
            for instance_type in types:
                values_of.setdefault(labels.INSTANCE_TYPE, set()).add(instance_type.name)
                values_of.setdefault(labels.ZONE, set()).update(offering.zone for offering in instance_type.offerings)
                for key, values in instance_type.labels.items():
                    if key not in _CLOSED:
                        values_of.setdefault(key, set()).update(values)
        self._values = {key: frozenset(values) for key, values in values_of.items()}
        self._regions = {match.group(1) for zone in values_of.get(labels.ZONE, ()) if (match := ZONE.fullmatch(zone))}

    def of(self, key: str) -> frozenset[str]:
        """Return the values of a label, empty if the catalogue does not have the label."""
        return self._values.get(labels.normalized(key), frozenset())

    def may_be_newer(self, key: str, value: str) -> bool:
        """Whether AWS may sell it in the region today: another region's built-in list has it, or it is a zone of the region."""
        if not self.builtin_region:
            return False
        if labels.normalized(key) == labels.ZONE:
            match = ZONE.fullmatch(value)
            return match is not None and match.group(1) in self._regions and value[-1] in _ZONE_LETTERS
        if labels.normalized(key) == labels.REGION:
            return _REGION.fullmatch(value) is not None
        return value in self._newest.of(key) or self._newest.is_of_new_family(key, value)

    def has_estimated_price(self, key: str, value: str) -> bool:
        """Whether it is an instance type or family without a price in the built-in list."""
        return value in self._estimated.get(labels.normalized(key), ())

    @cached_property
    def _estimated(self) -> dict[str, frozenset[str]]:
        from simulator.market.embedded import estimated_types

        types = estimated_types(self.builtin_region) if self.builtin_region else frozenset()
        return {labels.INSTANCE_TYPE: types, _FAMILY_KEY: frozenset(name.partition(".")[0] for name in types)}

    def is_of_new_family(self, key: str, value: str) -> bool:
        """Whether it names a family of the newest generations that this list lacks: AWS adds some every quarter."""
        match = _FAMILY.fullmatch(value)
        if match is None or bool(match["size"]) != (labels.normalized(key) == labels.INSTANCE_TYPE):
            return False
        families = self.of(_FAMILY_KEY)
        generations = [
            int(part["generation"]) for name in families if (part := _FAMILY.fullmatch(name)) and part[1] == match[1]
        ]
        generation = quantity.whole_number(match["generation"]) or 0
        is_new = bool(generations) and max(generations) - 1 <= generation <= max(generations) + 2
        return is_new and value.partition(".")[0] not in families

    @cached_property
    def _newest(self) -> KnownValues:
        return KnownValues(newest_catalogue())

    def note(self, key: str = "", value: str = "") -> str:
        """Return of when the built-in list is, and how to read the present one, or that of the region that a value names."""
        from simulator.market.embedded import priced_on, regions

        region = self.builtin_region
        zone = ZONE.fullmatch(value)
        named = value if labels.normalized(key) == labels.REGION else zone[1] if zone else region
        if named != region and named in regions():
            return f"the list is of {region}; give --region {named}"
        age = (
            f"the built-in list of {region} is of {priced_on(region)}"
            if named == region
            else f"none of {named} is built in"
        )
        return f"{age}; {fetch_hint(named)}"

    def is_elsewhere(self, key: str, value: str) -> bool:
        """Whether the value is a zone of another region than the catalogue's."""
        if labels.normalized(key) != labels.ZONE or _REGION.fullmatch(value) or _ZONE_ID.fullmatch(value):
            return False
        match = ZONE.fullmatch(value)
        return match is None or match.group(1) not in self._regions


@cache
def newest_catalogue() -> Catalogue:
    """Return the catalogue of the built-in region whose list is newest and longest, which tells what EC2 sells at all."""
    from simulator.market.embedded import builtin_catalogue, priced_on, regions

    newest = max(regions(), key=lambda region: (priced_on(region), region == REGION_DEFAULT))
    return builtin_catalogue(newest)


def unmatched_values(document: Document, known_values: KnownValues) -> Iterator[Finding]:
    """Return an error if operator In matches no existing value, a warning for single values that do not exist."""
    place = _PLACES.get(kind_of(document.object))
    if place is None:
        return
    owner: Any = document.object
    for part in place:
        owner = mapping(owner).get(part)
    for index, entry in enumerate(sequence(mapping(owner).get("requirements"))):
        yield from unmatched_entry(document, mapping(entry), (*place, "requirements", index), known_values)


def unmatched_entry(
    document: Document, entry: Mapping[str, Any], place: Location, known_values: KnownValues
) -> Iterator[Finding]:
    """Return the findings of one entry: a key with an operator and values."""
    key, operator, values = str(entry.get("key") or ""), entry.get("operator"), sequence(entry.get("values"))
    exist = known_values.of(key)
    if operator in INTEGER_OPERATORS and len(values) == 1:
        yield from _out_of_bounds(document, (key, str(operator), str(values[0])), (*place, "values"), exist)
    if operator != "In" or not exist:
        return
    for number, value in enumerate(values):
        if known_values.has_estimated_price(key, str(value)):
            message = f"the list has no price of {str(value)!r}, so it is estimated: {known_values.note(key)}"
            place_of_value = path_of((*place, "values", number))
            yield finding_in(document, Code.MATCHES_NOTHING, place_of_value, message, severity=Severity.WARNING)
    lost = [(number, str(value)) for number, value in enumerate(values) if str(value) not in exist]
    doubted = {
        value for _, value in lost if known_values.is_elsewhere(key, value) or known_values.may_be_newer(key, value)
    }
    leaves_nothing = len(lost) == len(values) and not doubted
    for number, value in lost:
        is_elsewhere = known_values.is_elsewhere(key, value)
        if not is_elsewhere and value in doubted:
            message = f"no instance type of this list has {key} {value!r}: {known_values.note(key, value)}"
            place_of_value = path_of((*place, "values", number))
            yield finding_in(document, Code.MATCHES_NOTHING, place_of_value, message, severity=Severity.WARNING)
            continue
        yield finding_in(
            document,
            Code.MATCHES_NOTHING,
            path_of((*place, "values", number)),
            _message(key, value, known_values, is_elsewhere=is_elsewhere),
            severity=Severity.ERROR if leaves_nothing else Severity.WARNING,
            suggestion="" if is_elsewhere else _meant(key, value, exist),
        )


def _out_of_bounds(
    document: Document, bound: tuple[str, str, str], place: Location, exist: frozenset[str]
) -> Iterator[Finding]:
    key, operator, value = bound
    try:
        wanted = Requirement.of(key, operator, [value])
    except InvalidInputError:
        return
    numbers = sorted(number for value in exist if (number := quantity.whole_number(value)) is not None)
    if numbers and not any(wanted.has(str(number)) for number in numbers):
        text = f"no instance type has such a {wanted.key}: they have {numbers[0]} to {numbers[-1]}"
        yield finding_in(document, Code.MATCHES_NOTHING, path_of(place), text)


def _meant(key: str, value: str, exist: frozenset[str]) -> str:
    if labels.normalized(key) == labels.ZONE:
        return ""
    return _USUAL_VALUES.get(value, "") or nearest(value, exist)


def _message(key: str, value: str, known_values: KnownValues, *, is_elsewhere: bool) -> str:
    if is_elsewhere and known_values.builtin_region and ZONE.fullmatch(value):
        return f"no instance type of this list is in zone {value!r}: {known_values.note(key, value)}"
    if is_elsewhere:
        return f"no zone {value!r} is in the catalogue; give another with --region or --catalog"
    if labels.normalized(key) == labels.ZONE and _REGION.fullmatch(value):
        return f"{value!r} is a region, not one of its zones, such as {value}a"
    if labels.normalized(key) == labels.ZONE and _ZONE_ID.fullmatch(value):
        return f"{value!r} is the id of a zone: its label is {labels.ZONE_ID}"
    return f"no instance type has {key} {value!r}"


# Checks the labels that pods and NodePools require of nodes against those that nodes have.


REQUIREMENTS: Final = ("spec", "template", "spec", "requirements")
_FORMER_KEYS: Final = {"karpenter.sh/provisioner-name": labels.NODEPOOL}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def provided_labels(documents: Sequence[Document]) -> frozenset[str]:
    """Return the keys that NodePools and Nodes of the input give to nodes."""
    keys: set[str] = set()
    for document in documents:
        obj = document.object
        if kind_of(obj) == "Node":
            keys |= mapping(mapping(obj.get("metadata")).get("labels")).keys()
        elif is_ours(obj):
            template = mapping(mapping(obj.get("spec")).get("template"))
            keys |= mapping(mapping(template.get("metadata")).get("labels")).keys()
            required = sequence(mapping(template.get("spec")).get("requirements"))
            keys |= {str(mapping(entry).get("key")) for entry in required}
    return frozenset(keys)


def label_findings(document: Document, known_values: KnownValues, provided: frozenset[str]) -> Iterator[Finding]:
    """Return warnings for keys with almost the spelling of a node label, and for values that no node has."""
    if kind_of(document.object) == "NodePool" and is_ours(document.object) and not is_old(document.object):
        for index, entry in enumerate(sequence(_at(document.object, REQUIREMENTS))):
            yield from _of_key(document, mapping(entry), (*REQUIREMENTS, index, "key"), known_values, frozenset())
    place = () if document.kind == "Pod" else TEMPLATES.get(document.kind)
    if place is None or is_ours(document.object):
        return
    spec = mapping(_at(document.object, (*place, "spec")))
    for entry, at, key_at in _demands(spec, (*place, "spec")):
        yield from _of_key(document, entry, key_at, known_values, provided)
        for finding in unmatched_entry(document, entry, at, known_values):
            field = path_of(key_at) if at == key_at else finding.field
            yield msgspec.structs.replace(finding, severity=Severity.WARNING, field=field)
    for key, at in _topology_keys(spec, (*place, "spec")):
        meant = nearest_label(key, provided)
        if meant:
            message = f"no node carries the label {key}, so the rule cannot be met"
            yield finding_in(
                document, Code.NO_EFFECT, path_of(at), message, severity=Severity.WARNING, suggestion=meant
            )


def _of_key(
    document: Document, entry: Mapping[str, Any], at: Location, known_values: KnownValues, provided: frozenset[str]
) -> Iterator[Finding]:
    key = str(entry.get("key") or "")
    if key in _FORMER_KEYS:
        message = "is a label of an older version, which nodes do not have"
        code, meant = Code.OLD_VERSION, _FORMER_KEYS[key]
    else:
        message = "is a label of your own, which no instance type has"
        code, meant = Code.NO_EFFECT, nearest_label(key, provided)
        is_bare = "/" not in key
        values = {str(value) for value in sequence(entry.get("values"))}
        if is_bare and not values & known_values.of(meant):
            meant = ""  # a short key with other values is a user's own label
    if meant:
        yield finding_in(document, code, path_of(at), message, severity=Severity.WARNING, suggestion=meant)


def _demands(spec: Mapping[str, Any], at: Location) -> Iterator[tuple[Mapping[str, Any], Location, Location]]:
    """Yield a pod's requirements on its node: (key with operator and values, its field, the field of its key)."""
    for key, value in mapping(spec.get("nodeSelector")).items():
        place = (*at, "nodeSelector", str(key))
        yield {"key": key, "operator": "In", "values": [value]}, place, place
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    within = (*at, "affinity", "nodeAffinity")
    terms = [
        (term, (*within, _REQUIRED, "nodeSelectorTerms", index))
        for index, term in enumerate(sequence(mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms")))
    ]
    terms += [
        (mapping(term).get("preference"), (*within, _PREFERRED, index, "preference"))
        for index, term in enumerate(sequence(affinity.get(_PREFERRED)))
    ]
    for term, place in terms:
        for index, entry in enumerate(sequence(mapping(term).get("matchExpressions"))):
            where = (*place, "matchExpressions", index)
            yield mapping(entry), where, (*where, "key")


def _topology_keys(spec: Mapping[str, Any], at: Location) -> Iterator[tuple[str, Location]]:
    for index, spread in enumerate(sequence(spec.get("topologySpreadConstraints"))):
        yield str(mapping(spread).get("topologyKey") or ""), (*at, "topologySpreadConstraints", index, "topologyKey")
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(sequence(mapping(mapping(spec.get("affinity")).get(kind)).get(_REQUIRED))):
            place = (*at, "affinity", kind, _REQUIRED, index, "topologyKey")
            yield str(mapping(term).get("topologyKey") or ""), place


def _at(obj: Any, place: Location) -> Any:
    for part in place:
        obj = mapping(obj).get(str(part))
    return obj


# Finds NodePools whose requirements exclude all instance types, and limits on resources that no instance type has.


_TEMPLATES: Final[Mapping[str, Location]] = {"NodePool": ("spec", "template", "spec"), "NodeClaim": ("spec",)}
_ALWAYS_COUNTED: Final = ("cpu", "memory", "pods", "ephemeral-storage", "nodes", HOURLY)
_USUALLY_MEANT: Final = {"gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu", "vcpu": "cpu", "mem": "memory"}

ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""A placeholder time: whether objects can be read, and what a NodePool launches, does not depend on it."""


def empty_pools(document: Document, catalogue: Catalogue, known_values: KnownValues | None = None) -> Iterator[Finding]:
    """Return an error if separately satisfiable requirements together exclude all instance types or leave too few values.

    It is a warning if the types of the newest built-in list would meet them: the region's list may be older.
    """
    pool = _pool_in(document)
    if pool is None or _depends_on_absent(pool, catalogue):
        return
    findings = [*_emptiness(document, pool, catalogue)]
    if findings and known_values is not None and known_values.builtin_region:
        place = (labels.ZONE, labels.REGION)
        anywhere = tuple(requirement for requirement in pool.requirements if requirement.key not in place)
        newest = Catalogue(default=newest_catalogue().default)
        moved = msgspec.structs.replace(pool, requirements=anywhere)
        if not any(_emptiness(document, moved, newest)):
            findings = [
                msgspec.structs.replace(
                    finding, severity=Severity.WARNING, message=f"{finding.message}: {known_values.note()}"
                )
                for finding in findings
            ]
    yield from findings


def _emptiness(document: Document, pool: NodePool, catalogue: Catalogue) -> Iterator[Finding]:
    from core.scheduling.context import SchedulingContext
    from core.scheduling.explanation_text import RESERVED_BEYOND, pool_offers
    from core.scheduling.new_node import why_unusable

    snapshot = Snapshot(now=ANY_TIME, node_pools=(pool,), catalogue=catalogue)
    templates = SchedulingContext(snapshot).templates
    if not templates:
        place = path_of(REQUIREMENTS)
        yield finding_in(document, Code.MATCHES_NOTHING, place, str(why_unusable(pool, snapshot) or ""))
        return
    if not templates[0].types.sound:
        place = "spec.template.spec.nodeClassRef.name"
        yield finding_in(document, Code.MATCHES_NOTHING, place, f"{RESERVED_BEYOND}: the NodePool launches nothing")
        return
    offers = pool_offers(templates[0])
    if offers.conflict is not None:
        field = path_of((*REQUIREMENTS, offers.conflict))
        yield finding_in(document, Code.MATCHES_NOTHING, field, _nothing_left(document, offers.conflict, offers.before))
    for index, entry in enumerate(sequence(_field_at(document.object, REQUIREMENTS))):
        key = labels.normalized(str(mapping(entry).get("key")))
        if "minValues" in mapping(entry) and key in offers.missing:
            message = f"its requirements leave {offers.missing[key]} values of {key}: the NodePool launches nothing"
            field = path_of((*REQUIREMENTS, index, "minValues"))
            yield finding_in(document, Code.MATCHES_NOTHING, field, message)


def idle_limits(document: Document, catalogue: Catalogue) -> Iterator[Finding]:
    """Return a warning for each limit on a resource that no instance type has: it never stops a launch."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool" or is_old(document.object):
        return
    known_resources = {
        *_ALWAYS_COUNTED,
        *(name for instance_type in catalogue.default for name in instance_type.capacity),
    }
    for name in mapping(_field_at(document.object, ("spec", "limits"))):
        meant = _USUALLY_MEANT.get(name, "") or nearest(name, known_resources)
        if name not in known_resources and (meant or "/" not in name):
            yield finding_in(
                document,
                Code.NO_EFFECT,
                path_of(("spec", "limits", name)),
                "no instance type has this resource, so the limit never stops a launch",
                severity=Severity.WARNING,
                suggestion=meant,
            )


def short_lives(document: Document) -> Iterator[Finding]:
    """Return a warning for an expireAfter that is shorter than a node works at least: nodes would be replaced all the time."""
    template = _TEMPLATES.get(kind_of(document.object))
    if template is None or not is_ours(document.object) or is_old(document.object):
        return
    place = (*template, "expireAfter")
    lasting = quantity.parse_duration(str(_at(document.object, place)))
    if lasting is not None and lasting < WORKS_FOR:
        yield finding_in(document, Code.NO_EFFECT, path_of(place), TOO_SHORT, severity=Severity.WARNING)


def disagreeing_limits(documents: Sequence[Document]) -> Iterator[Finding]:
    """Return a warning for each NodePool that allows its group more of a resource than another NodePool of the group does."""
    pools = [(document, pool) for document in documents if (pool := _pool_in(document)) is not None]
    lowest = shared_limits(pool for _, pool in pools)
    field = path_of(("metadata", "annotations", labels.SHARED_LIMITS))
    for document, pool in pools:
        for group, limits in pool.shared_limits.items():
            for name, amount in limits.items():
                if amount > lowest[group][name]:
                    least = quantity.render(lowest[group][name], name)
                    message = (
                        f"another NodePool of group {group} allows {name} {least} only, which counts for all of them"
                    )
                    yield finding_in(document, Code.NO_EFFECT, field, message, severity=Severity.WARNING)


def _pool_in(document: Document) -> NodePool | None:
    """Return the NodePool as if its class were ready; None if the document is not a readable NodePool."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool" or is_old(document.object):
        return None
    try:
        pool = api.node_pool(document.object)
    except InvalidInputError:
        return None
    return msgspec.structs.replace(pool, is_ready=None, replicas=None, deleted_at=None, own_annotations={})


def _depends_on_absent(pool: NodePool, catalogue: Catalogue) -> bool:
    """Whether the result depends on data outside the input: the class's images, zone ids, reservations of the account."""
    required = {requirement.key: requirement for requirement in pool.requirements}
    if labels.OS in required and pool.node_class.name not in catalogue.by_node_class:
        return True
    of_account = (labels.ZONE_ID, labels.RESERVATION_ID, labels.RESERVATION_TYPE, labels.RESERVATION_INTERRUPTIBLE)
    capacity = required.get(labels.CAPACITY_TYPE)
    return any(key in required for key in of_account) or (capacity is not None and capacity.has(labels.RESERVED))


def _nothing_left(document: Document, index: int, before: int) -> str:
    entry = mapping(sequence(_field_at(document.object, REQUIREMENTS))[index])
    values = ", ".join(str(value) for value in sequence(entry.get("values")))
    demand = f"{entry.get('key')} {entry.get('operator')}" + (f" [{values}]" if values else "")
    which = "no instance type that the requirements before it allow" if index and before else "no type on offer"
    return f"{which} meets {demand}: the NodePool launches nothing"


def _field_at(obj: Any, place: Sequence[str]) -> Any:
    for part in place:
        obj = mapping(obj).get(part)
    return obj
