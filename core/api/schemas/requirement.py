"""Requirements as users write them: in a NodePool, in a NodeClaim and in a NodeOverlay, with slightly different rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from core import labels
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields, label_keys
from core.api.schemas.base import ApiModel, Rule
from core.model.values.requirements import INTEGER_OPERATORS

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
REQUIREMENTS_MAX: Final = 100
VALUES_MAX: Final = 1500
"""More than there are instance types; the API server limits the cost of its rules."""

_WHOLE: Final = re.compile(r"[0-9]+\Z")
_KNOWN_VALUES: Final = {
    labels.CAPACITY_TYPE: labels.CAPACITY_TYPES,
    f"{labels.AWS_GROUP}/instance-tenancy": ("default", "dedicated"),
}
"""Keys with a closed set of values: one valid value is enough, others are merely useless (Karpenter)."""


def _in_without_values(entry: JsonObject) -> list[Location]:
    return [("values",)] if entry["operator"] == "In" and not entry.get("values") else []


def _bound_without_number(entry: JsonObject) -> list[Location]:
    values = entry.get("values", [])
    is_bound = len(values) == 1 and _WHOLE.match(values[0]) is not None and int(values[0]) <= fields.WHOLE_MAX
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
    return [("key",)] if label_keys.is_restricted(entry["key"]) else []


def _restricted_for_overlay(entry: JsonObject) -> list[Location]:
    return [("key",)] if label_keys.is_restricted(entry["key"], for_overlay=True) else []


def _pool_key(entry: JsonObject) -> list[Location]:
    return [("key",)] if entry["key"] == labels.NODEPOOL else []


def _not_in_without_values(entry: JsonObject) -> list[Location]:
    return [("values",)] if entry["operator"] == "NotIn" and not entry.get("values") else []


def _known_values(broken: Callable[..., list[Location]], *, least: str) -> tuple[Rule, ...]:
    """The rules on keys with known values; `least` is how many there must be, as the API server sees it."""
    return tuple(_known_values_of(key, partial(broken, key=key), least=least) for key in _KNOWN_VALUES)


def _known_values_of(key: str, broken: Callable[[JsonObject], list[Location]], *, least: str) -> Rule:
    known = list(_KNOWN_VALUES[key])
    spellings = [key, *(alias for alias, meant in labels.ALIASES.items() if meant == key)]
    return Rule(
        ("key", "operator", "values", "minValues"),
        broken,
        f"too few of them exist: {key} has the values {', '.join(known)}",
        f"!(self.key in {spellings}) || self.operator != 'In' || !has(self.values) || self.values.size() == 0"
        f" || self.values.filter(value, value in {known}).size() >= {least}",
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
_KEY_IS_FREE: Final = Rule(("key",), _restricted_key, label_keys.RESTRICTED, label_keys.cel_is_free("self.key"))
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
            label_keys.RESTRICTED,
            label_keys.cel_is_free("self.key", for_overlay=True),
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
