"""NodePool `karpenter.sh/v1` as users write it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from core import labels
from core.api.objects import JsonObject
from core.api.schemas import fields
from core.api.schemas.fields import ApiModel, Change, Metadata, Rule
from core.api.status import Location
from core.errors import InvalidInputError
from core.model.node_pool import PER_MILLE
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES
from core.model.values.quantity import CPU, EPHEMERAL_STORAGE, HOURLY, MEMORY, NODES, PODS, parse, whole_number
from core.model.values.requirements import INTEGER_OPERATORS, is_label_key

# Decides which label keys users may set or require (Karpenter's restricted domains, with the AWS provider's list).


RESTRICTED: Final = "is a restricted label: its domain belongs to the provisioner"

_FREE_IN_CORE: Final = frozenset({labels.CAPACITY_TYPE, labels.NODEPOOL})
_FREE_IN_AWS: Final = frozenset(key for key in labels.WELL_KNOWN if key.startswith(f"{labels.AWS_GROUP}/")) | {
    labels.NODECLASS
}
_NOT_IN_OVERLAYS: Final = {
    labels.PLACEMENT_GROUP_ID,
    labels.PLACEMENT_GROUP_PARTITION,
    labels.RESERVATION_ID,
    labels.RESERVATION_TYPE,
    labels.RESERVATION_INTERRUPTIBLE,
    f"{labels.AWS_GROUP}/instance-tenancy",
}


def cel_is_free(key: str, *, for_overlay: bool = False) -> str:
    """The opposite of `is_restricted` for the API server: an expression over `key`, itself one."""
    of_aws = _FREE_IN_AWS - _NOT_IN_OVERLAYS if for_overlay else _FREE_IN_AWS
    domain = f"{key}.split('/')[0]"
    return (
        f"{key} != '{labels.HOSTNAME}'"
        f" && (!{domain}.endsWith('{labels.CORE_GROUP}') || {key} in {sorted(_FREE_IN_CORE)})"
        f" && (!{domain}.endsWith('{labels.AWS_GROUP}') || {key} in {sorted(of_aws)})"
    )


def is_restricted(key: str, *, for_overlay: bool = False) -> bool:
    """Whether users may not use this key in NodePools and NodeClaims, or in NodeOverlays."""
    if key == labels.HOSTNAME:
        return True
    domain = key.partition("/")[0]
    if domain.endswith(labels.CORE_GROUP):
        return key not in _FREE_IN_CORE
    if domain.endswith(labels.AWS_GROUP):
        return key not in _FREE_IN_AWS or (for_overlay and key in _NOT_IN_OVERLAYS)
    return False


# Requirements as users write them: in a NodePool, in a NodeClaim and in a NodeOverlay, with slightly different rules.


Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
REQUIREMENTS_MAX: Final = 100
VALUES_MAX: Final = 1500
"""More than there are instance types; the API server limits the cost of its rules."""

_KNOWN_VALUES: Final = {
    labels.CAPACITY_TYPE: labels.CAPACITY_TYPES,
    f"{labels.AWS_GROUP}/instance-tenancy": ("default", "dedicated"),
}
"""Keys with a closed set of values: one valid value is enough, others are merely useless (Karpenter)."""


def _in_without_values(entry: JsonObject) -> list[Location]:
    return [("values",)] if entry["operator"] == "In" and not entry.get("values") else []


def _bound_without_number(entry: JsonObject) -> list[Location]:
    values = entry.get("values", [])
    number = whole_number(values[0]) if len(values) == 1 else None
    is_bound = number is not None and number <= fields.WHOLE_MAX
    return [("values",)] if entry["operator"] in INTEGER_OPERATORS and not is_bound else []


def _fewer_than_min_values(entry: JsonObject) -> list[Location]:
    is_short = entry["operator"] == "In" and len(entry.get("values", [])) < entry.get("minValues", 0)
    return [("minValues",)] if is_short else []


def _no_known_value(entry: JsonObject, key: str, *, least: int = 1) -> list[Location]:
    values = entry.get("values", [])
    if labels.normalized(entry["key"]) != key or entry["operator"] != "In" or not values:
        return []
    return [("values",)] if sum(value in _KNOWN_VALUES[key] for value in values) < least else []


def _too_few_known_values(entry: JsonObject, key: str) -> list[Location]:
    return _no_known_value(entry, key, least=entry.get("minValues", 1))


def _restricted_key(entry: JsonObject) -> list[Location]:
    return [("key",)] if is_restricted(entry["key"]) else []


def _restricted_for_overlay(entry: JsonObject) -> list[Location]:
    return [("key",)] if is_restricted(entry["key"], for_overlay=True) else []


def _pool_key(entry: JsonObject) -> list[Location]:
    return [("key",)] if entry["key"] == labels.NODEPOOL else []


def _not_in_without_values(entry: JsonObject) -> list[Location]:
    return [("values",)] if entry["operator"] == "NotIn" and not entry.get("values") else []


def _known_values(broken: Callable[..., list[Location]], *, least: str) -> tuple[Rule, ...]:
    """The rules on keys with known values; `least` is how many there must be, as the API server sees it."""
    return tuple(_known_values_of(key, partial(broken, key=key), least=least) for key in _KNOWN_VALUES)


def _known_values_of(key: str, broken: Callable[[JsonObject], list[Location]], *, least: str) -> Rule:
    known_values = list(_KNOWN_VALUES[key])
    spellings = [key, *(alias for alias, meant in labels.ALIASES.items() if meant == key)]
    return Rule(
        ("key", "operator", "values", "minValues"),
        broken,
        f"too few of them exist: {key} has the values {', '.join(known_values)}",
        f"!(self.key in {spellings}) || self.operator != 'In' || !has(self.values) || self.values.size() == 0"
        f" || self.values.filter(value, value in {known_values}).size() >= {least}",
    )


_HAS_VALUES: Final = "(has(self.values) && self.values.size() > 0)"
_IN_HAS_VALUES: Final = Rule(
    ("operator", "values"),
    _in_without_values,
    "operator In needs at least one value",
    f"self.operator != 'In' || {_HAS_VALUES}",
)
_BOUND_IS_NUMBER: Final = Rule(
    ("operator", "values"),
    _bound_without_number,
    "operators Gt, Lt, Gte and Lte need one whole number of zero or more",
    f"!(self.operator in {list(INTEGER_OPERATORS)}) || (has(self.values) && self.values.size() == 1"
    " && self.values[0].matches('^[0-9]+$') && int(self.values[0]) >= 0)",
)
_ENOUGH_VALUES: Final = Rule(
    ("operator", "values", "minValues"),
    _fewer_than_min_values,
    "is more than the number of values that operator In lists",
    "self.operator != 'In' || !has(self.minValues) || (has(self.values) && self.values.size() >= self.minValues)",
)
_KEY_IS_FREE: Final = Rule(("key",), _restricted_key, RESTRICTED, cel_is_free("self.key"))
_KEY_IS_NOT_POOL: Final = Rule(("key",), _pool_key, "is set by the NodePool itself", f"self.key != '{labels.NODEPOOL}'")


class RequirementEntry(ApiModel):
    """One entry of a `requirements:` list."""

    key: fields.QualifiedName
    operator: Operator
    values: Annotated[list[fields.LabelValue], Field(max_length=VALUES_MAX)] = []


class ClaimRequirement(RequirementEntry):
    """In a NodeClaim."""

    min_values: Annotated[int, Field(ge=1, le=50)] | None = None

    rules: ClassVar[tuple[Rule, ...]] = (
        _KEY_IS_FREE,
        _IN_HAS_VALUES,
        _BOUND_IS_NUMBER,
        _ENOUGH_VALUES,
        *_known_values(_too_few_known_values, least="(has(self.minValues) ? self.minValues : 1)"),
    )


class PoolRequirement(ClaimRequirement):
    """In a NodePool: its own label cannot be required."""

    rules = (*ClaimRequirement.rules, _KEY_IS_NOT_POOL)


class OverlayRequirement(RequirementEntry):
    """In a NodeOverlay: what instance types carry, so no reservations, tenancy or placement groups."""

    rules = (
        Rule(
            ("key",),
            _restricted_for_overlay,
            RESTRICTED,
            cel_is_free("self.key", for_overlay=True),
        ),
        _IN_HAS_VALUES,
        Rule(
            ("operator", "values"),
            _not_in_without_values,
            "operator NotIn needs at least one value",
            f"self.operator != 'NotIn' || {_HAS_VALUES}",
        ),
        _BOUND_IS_NUMBER,
        *_known_values(_no_known_value, least="1"),
    )


# NodeOverlay `karpenter.sh/v1alpha1`.


_FIXED_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


def _two_prices(spec: JsonObject) -> list[Location]:
    return [("priceAdjustment",)] if "price" in spec and "priceAdjustment" in spec else []


def _fixed_capacity(spec: JsonObject) -> list[Location]:
    return [("capacity", name) for name in spec.get("capacity", {}) if name in _FIXED_RESOURCES]


class NodeOverlaySpec(ApiModel):
    """`spec` of a NodeOverlay."""

    requirements: Annotated[list[OverlayRequirement], Field(max_length=REQUIREMENTS_MAX)]
    price: Annotated[str, Field(pattern=fields.PRICE)] | None = None
    price_adjustment: Annotated[str, Field(pattern=fields.PRICE_ADJUSTMENT)] | None = None
    capacity: dict[str, fields.Quantity] = {}
    weight: Annotated[int, Field(ge=1, le=10000)] | None = None

    rules = (
        Rule(
            (),
            _two_prices,
            "cannot be combined with price",
            "!has(self.price) || !has(self.priceAdjustment)",
            "priceAdjustment",
        ),
        Rule(
            ("capacity",),
            _fixed_capacity,
            "cannot be overlaid: only extended resources can",
            f"!has(self.capacity) || self.capacity.all(name, !(name in {list(_FIXED_RESOURCES)}))",
        ),
    )


class NodeOverlayObject(ApiModel):
    """A NodeOverlay."""

    metadata: Metadata
    spec: NodeOverlaySpec


# Taints as users write them.


TAINTS_MAX: Final = 100
"""More than any node has; the API server limits the cost of its rules."""


class TaintEntry(ApiModel):
    """One entry of `taints:` or `startupTaints:`; `time_added` only counts for drift, as in Karpenter."""

    key: fields.QualifiedName
    value: fields.TaintValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    time_added: fields.Moment | None = None


def _repeated(template: JsonObject) -> list[Location]:
    seen: set[tuple[str, str]] = set()
    places: list[Location] = []
    for field in ("taints", "startupTaints"):
        for index, taint in enumerate(template.get(field, [])):
            identity = (taint["key"], taint["effect"])
            if identity in seen:
                places.append((field, index))
            seen.add(identity)
    return places


_ONCE: Final = "({here}.all(a, {here}.exists_one(b, a.key == b.key && a.effect == b.effect)))"
_IN_ONE: Final = "({here}.all(a, !{there}.exists(b, a.key == b.key && a.effect == b.effect)))"


def _no_repetition() -> str:
    here, there = "self.taints", "self.startupTaints"
    return (
        f"(!has({here}) || {_ONCE.format(here=here)}) && (!has({there}) || {_ONCE.format(here=there)})"
        f" && (!has({here}) || !has({there}) || {_IN_ONE.format(here=here, there=there)})"
    )


TAINT_RULES: Final = (
    Rule(("taints", "startupTaints"), _repeated, "another taint has the same key and effect", _no_repetition()),
)


# NodeClaim `karpenter.sh/v1`, and the fields that a NodePool's template shares with it: taints, class, durations.


EXPIRE_AFTER: Final = "720h"


class NodeClassReference(ApiModel):
    """`nodeClassRef`: the node class by group, kind and name."""

    group: Annotated[str, Field(min_length=1, pattern=fields.NO_SLASH)]
    kind: fields.NonEmpty
    name: fields.NonEmpty

    changes = (
        Change("self.group == oldSelf.group", "group cannot be changed"),
        Change("self.kind == oldSelf.kind", "kind cannot be changed"),
    )


class ClaimTemplate(ApiModel):
    """What NodeClaims and NodePools' templates have in common."""

    taints: Annotated[list[TaintEntry], Field(max_length=TAINTS_MAX)] = []
    startup_taints: Annotated[list[TaintEntry], Field(max_length=TAINTS_MAX)] = []
    node_class_ref: NodeClassReference
    termination_grace_period: fields.Duration | None = None
    expire_after: fields.NillableDuration = EXPIRE_AFTER

    rules = TAINT_RULES


class ClaimResources(ApiModel):
    """`spec.resources` of a NodeClaim."""

    requests: dict[str, fields.Quantity] = {}


class NodeClaimSpec(ClaimTemplate):
    """`spec` of a NodeClaim."""

    requirements: Annotated[list[ClaimRequirement], Field(max_length=REQUIREMENTS_MAX)]
    resources: ClaimResources = Field(default_factory=ClaimResources)

    changes = (Change("self == oldSelf", "spec cannot be changed"),)


class NodeClaimObject(ApiModel):
    """A NodeClaim."""

    metadata: Metadata
    spec: NodeClaimSpec


# Annotations by which a NodePool or EC2NodeClass steers Fleetwright where Karpenter's API has no field.


_FACTOR: Final = r"[a-z][a-z0-9-]*=[0-9]{1,2}(\.[0-9]{1,3})?"
_FACTORS: Final = re.compile(rf"{_FACTOR}(, *{_FACTOR})*")
_AMOUNT: Final = r"(cpu|memory)=[0-9]+(\.[0-9]+)?(m|k|[MGT]i?|Ki)?"
_AMOUNTS: Final = re.compile(rf"{_AMOUNT}(, *{_AMOUNT})*")

SHARED_LIMITS_MAX: Final = 4
"""Groups of one NodePool: each has a counter, which every launch of the NodePool writes."""
_SHARED: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?):([A-Za-z0-9][A-Za-z0-9./_-]{0,252})=([^=,: ]+)")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")

FACTORS_MEANING: Final = "must be families with factors, such as m5a=1.2,m8g=0.85"
EXPIRY_WITHIN_BUDGETS: Final = "WithinBudgets"
EXPIRY_FORCEFUL: Final = "Forceful"
EXPIRY_MEANING: Final = f"must be {EXPIRY_WITHIN_BUDGETS} or {EXPIRY_FORCEFUL}"
MODE_MEANING: Final = f"must be {labels.OBSERVE}, or left out"
LARGEST_NODE_MEANING: Final = "must be cpu, memory or both, such as cpu=64,memory=256Gi"
SHARED_LIMITS_MEANING: Final = (
    "must be amounts by group and resource, such as team-a:dollars-per-hour=12.50,team-a:cpu=400,everything:nodes=100"
)
MOVES_MEANING: Final = f"must be {THOROUGH_MOVES}, {BALANCED_MOVES} or {GENTLE_MOVES}"
PREFIX_DELEGATION_MEANING: Final = "must be true or false"
EVICTIONS_MEANING: Final = "must be a number of pods, such as 50"


def price_factors(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return instance family → factor on its price, in thousandths: with `m5a=1.2` an m5a counts as costing a fifth more."""
    factors = _pairs(annotations.get(labels.PRICE_FACTORS, ""))
    return {family: int(Decimal(factor) * PER_MILLE) for family, factor in factors.items()}


def largest_node(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the CPU (millicores) and memory (bytes) that a node should not exceed; empty where any size is allowed."""
    sizes = _pairs(annotations.get(labels.LARGEST_NODE, ""))
    return {name: parse(amount, name) for name, amount in sizes.items()}


def shared_limits(annotations: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return group → resource → the most that all NodePools of the group may have together.

    Raises:
        InvalidInputError: If an entry is malformed or repeated, if its amount is no quantity of zero or more, or if there are
            more groups than `SHARED_LIMITS_MAX`.
    """
    limits: dict[str, dict[str, int]] = {}
    text = annotations.get(labels.SHARED_LIMITS)
    for written in text.split(",") if text is not None else ():
        match = _SHARED.fullmatch(written.strip())
        if match is None:
            raise InvalidInputError(f"{written!r} is no amount of a group such as team-a:cpu=400")
        group, resource, amount = match[1], match[3], match[4]
        resource = HOURLY if resource == HOURLY.partition("/")[2] else resource
        most = parse(amount, resource)
        if most < 0 or resource in limits.get(group, {}):
            raise InvalidInputError(f"{written!r} is below zero, or repeats a resource of its group")
        limits.setdefault(group, {})[resource] = most
    if len(limits) > SHARED_LIMITS_MAX:
        raise InvalidInputError(f"names {len(limits)} groups, {SHARED_LIMITS_MAX} are possible")
    return limits


def expires_forcefully(annotations: Mapping[str, str]) -> bool:
    """Whether nodes are removed at their `expireAfter` regardless of budgets, do-not-disrupt and PodDisruptionBudgets."""
    return annotations.get(labels.EXPIRY) == EXPIRY_FORCEFUL


def evictions_per_hour(annotations: Mapping[str, str]) -> int | None:
    """Return how many pods of the NodePool consolidation and drift may evict in any hour, None for any number."""
    text = annotations.get(labels.EVICTIONS_PER_HOUR)
    return int(text) if text is not None else None


def bad_evictions_per_hour(metadata: JsonObject) -> list[Location]:
    """Return the field where the ceiling on evictions is invalid."""
    text = metadata.get("annotations", {}).get(labels.EVICTIONS_PER_HOUR)
    return [] if text is None or _NUMBER.fullmatch(text) else [("annotations", labels.EVICTIONS_PER_HOUR)]


def bad_moves(metadata: JsonObject) -> list[Location]:
    """Return the field where the weight of moves is invalid."""
    text = metadata.get("annotations", {}).get(labels.MOVES)
    good = (None, THOROUGH_MOVES, BALANCED_MOVES, GENTLE_MOVES)
    return [] if text in good else [("annotations", labels.MOVES)]


def bad_expiry(metadata: JsonObject) -> list[Location]:
    """Return the field where the setting for expiry is invalid."""
    text = metadata.get("annotations", {}).get(labels.EXPIRY)
    return [] if text in (None, EXPIRY_WITHIN_BUDGETS, EXPIRY_FORCEFUL) else [("annotations", labels.EXPIRY)]


def bad_mode(metadata: JsonObject) -> list[Location]:
    """Return the field where the mode is invalid."""
    text = metadata.get("annotations", {}).get(labels.MODE)
    return [] if text in (None, labels.OBSERVE) else [("annotations", labels.MODE)]


def bad_price_factors(metadata: JsonObject) -> list[Location]:
    """Return the field where the price factors are invalid."""
    text = metadata.get("annotations", {}).get(labels.PRICE_FACTORS)
    good = text is None or (_FACTORS.fullmatch(text) and all(price_factors(metadata["annotations"]).values()))
    return [] if good else [("annotations", labels.PRICE_FACTORS)]


def bad_largest_node(metadata: JsonObject) -> list[Location]:
    """Return the field where the bound on node size is invalid."""
    text = metadata.get("annotations", {}).get(labels.LARGEST_NODE)
    return [] if text is None or _AMOUNTS.fullmatch(text) else [("annotations", labels.LARGEST_NODE)]


def bad_shared_limits(metadata: JsonObject) -> list[Location]:
    """Return the field where limits that NodePools share are invalid."""
    try:
        shared_limits(metadata.get("annotations", {}))
    except InvalidInputError:
        return [("annotations", labels.SHARED_LIMITS)]
    return []


def bad_prefix_delegation(metadata: JsonObject) -> list[Location]:
    """Return the field where the setting for prefixes is invalid."""
    text = metadata.get("annotations", {}).get(labels.PREFIX_DELEGATION)
    return [] if text in (None, "true", "false") else [("annotations", labels.PREFIX_DELEGATION)]


CONSUMABLE_CAPACITY_MEANING: Final = "must be disabled, memory, unlimited or a whole number from 1"


def bad_consumable_capacity(metadata: JsonObject) -> list[Location]:
    """Return the field where Karpenter's mode of sharing GPUs is none."""
    text = metadata.get("annotations", {}).get(labels.CONSUMABLE_CAPACITY)
    is_mode = text in (None, "disabled", "memory", "unlimited") or (whole_number(text) or 0) > 0
    return [] if is_mode else [("annotations", labels.CONSUMABLE_CAPACITY)]


def _pairs(text: str) -> dict[str, str]:
    parts = (part.strip().partition("=") for part in text.split(",") if part)
    return {key: value for key, _, value in parts}


def _unqualified_labels(metadata: JsonObject) -> list[Location]:
    return [("labels", key) for key in metadata.get("labels", {}) if not is_label_key(key)]


def _restricted_labels(metadata: JsonObject) -> list[Location]:
    keys = metadata.get("labels", {})
    return [("labels", key) for key in keys if key == labels.NODEPOOL or is_restricted(key)]


_LABEL_RULES: Final = (
    Rule(
        ("labels",),
        _unqualified_labels,
        "its key is not a qualified name such as team or example.com/team",
        f"!has(self.labels) || self.labels.all(key, {fields.cel_is_qualified('key')})",
    ),
    Rule(
        ("labels",),
        _restricted_labels,
        RESTRICTED,
        f"!has(self.labels) || self.labels.all(key, key != '{labels.NODEPOOL}' && {cel_is_free('key')})",
    ),
)


class TemplateMetadata(ApiModel):
    """`spec.template.metadata`: what the pool's nodes carry."""

    labels: Annotated[dict[str, fields.LabelValue], Field(max_length=100)] = {}
    annotations: dict[str, str] = {}

    rules = _LABEL_RULES


class TemplateSpec(ClaimTemplate):
    """`spec.template.spec`."""

    requirements: Annotated[list[PoolRequirement], Field(max_length=REQUIREMENTS_MAX)]


class Template(ApiModel):
    """`spec.template`: the NodeClaims that the pool makes."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata)
    spec: TemplateSpec


def _schedule_or_duration_alone(budget: JsonObject) -> list[Location]:
    if ("schedule" in budget) == ("duration" in budget):
        return []
    return [("duration",)] if "schedule" in budget else [("schedule",)]


def _repeated_reasons(budget: JsonObject) -> list[Location]:
    reasons = budget.get("reasons", [])
    return [("reasons", index) for index, reason in enumerate(reasons) if reason in reasons[:index]]


class BudgetEntry(ApiModel):
    """One entry of `spec.disruption.budgets`."""

    nodes: Annotated[str, Field(pattern=fields.NODES)] = "10%"
    reasons: Annotated[list[Literal["Underutilized", "Empty", "Drifted", "Unhealthy"]], Field(max_length=50)] | None = (
        None
    )
    schedule: Annotated[str, Field(pattern=fields.SCHEDULE)] | None = None
    duration: Annotated[str, Field(pattern=fields.WINDOW)] | None = None

    rules = (
        Rule(
            (),
            _schedule_or_duration_alone,
            "is required: schedule and duration go together",
            "has(self.schedule) == has(self.duration)",
        ),
        Rule(
            ("reasons",),
            _repeated_reasons,
            "is listed twice",
            "!has(self.reasons) || self.reasons.all(a, self.reasons.exists_one(b, a == b))",
        ),
    )


class DisruptionPolicy(ApiModel):
    """`spec.disruption`."""

    consolidate_after: fields.NillableDuration = "0s"
    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[list[BudgetEntry], Field(max_length=50)] = Field(default_factory=lambda: [BudgetEntry()])


def _static_with_weight(spec: JsonObject) -> list[Location]:
    return [("weight",)] if "replicas" in spec and "weight" in spec else []


def _static_with_other_limits(spec: JsonObject) -> list[Location]:
    limits = spec.get("limits", {})
    return [("limits", name) for name in limits if name != NODES] if "replicas" in spec else []


class NodePoolSpec(ApiModel):
    """`spec` of a NodePool."""

    template: Template
    disruption: DisruptionPolicy = Field(default_factory=DisruptionPolicy)
    limits: dict[str, fields.Quantity] = {}
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    replicas: fields.Count | None = None

    rules = (
        Rule(
            (),
            _static_with_weight,
            "cannot be combined with replicas",
            "!has(self.replicas) || !has(self.weight)",
            "weight",
        ),
        Rule(
            ("limits",),
            _static_with_other_limits,
            "cannot be combined with replicas: only limits.nodes can",
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == '{NODES}')",
        ),
    )
    changes = (Change("has(self.replicas) == has(oldSelf.replicas)", "replicas can be neither added nor removed"),)


class PoolMetadata(Metadata):
    """`metadata` of a NodePool, with the annotations that tune it."""

    rules = (
        *Metadata.rules,
        Rule(("annotations",), bad_price_factors, FACTORS_MEANING),
        Rule(("annotations",), bad_largest_node, LARGEST_NODE_MEANING),
        Rule(("annotations",), bad_shared_limits, SHARED_LIMITS_MEANING),
        Rule(("annotations",), bad_expiry, EXPIRY_MEANING),
        Rule(("annotations",), bad_moves, MOVES_MEANING),
        Rule(("annotations",), bad_evictions_per_hour, EVICTIONS_MEANING),
        Rule(("annotations",), bad_mode, MODE_MEANING),
    )


class NodePoolObject(ApiModel):
    """A NodePool."""

    metadata: PoolMetadata
    spec: NodePoolSpec
