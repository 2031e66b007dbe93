"""Requirements as users write them: in a NodePool, in a NodeClaim and in a NodeOverlay, with slightly different rules."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from core import labels
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields, label_keys
from core.api.schemas.base import ApiModel, Rule

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
REQUIREMENTS_MAX: Final = 100

_BOUNDS: Final = ("Gt", "Lt", "Gte", "Lte")
_BOUND_MAX: Final = 2**63 - 1
_WHOLE: Final = re.compile(r"[0-9]+\Z")
_KNOWN_VALUES: Final = {
    labels.CAPACITY_TYPE: labels.CAPACITY_TYPES,
    f"{labels.AWS_GROUP}/instance-tenancy": ("default", "dedicated"),
}
"""Keys whose values are a closed set: one good value is enough, others beside it are only of no use (Karpenter)."""


def _in_without_values(entry: JsonObject) -> list[Location]:
    return [("values",)] if entry["operator"] == "In" and not entry.get("values") else []


def _bound_without_number(entry: JsonObject) -> list[Location]:
    values = entry.get("values", [])
    is_bound = len(values) == 1 and _WHOLE.match(values[0]) is not None and int(values[0]) <= _BOUND_MAX
    return [("values",)] if entry["operator"] in _BOUNDS and not is_bound else []


def _fewer_than_min_values(entry: JsonObject) -> list[Location]:
    is_short = entry["operator"] == "In" and len(entry.get("values", [])) < entry.get("minValues", 0)
    return [("minValues",)] if is_short else []


def _no_known_value(entry: JsonObject) -> list[Location]:
    known, values = _KNOWN_VALUES.get(labels.normalized(entry["key"])), entry.get("values", [])
    if known is None or entry["operator"] != "In" or not values:
        return []
    good = sum(value in known for value in values)
    return [("values",)] if good < max(1, entry.get("minValues", 0)) else []


def _restricted_key(entry: JsonObject) -> list[Location]:
    return [("key",)] if label_keys.is_restricted(entry["key"]) else []


def _restricted_for_overlay(entry: JsonObject) -> list[Location]:
    return [("key",)] if label_keys.is_restricted(entry["key"], for_overlay=True) else []


def _pool_key(entry: JsonObject) -> list[Location]:
    return [("key",)] if entry["key"] == labels.NODEPOOL else []


def _not_in_without_values(entry: JsonObject) -> list[Location]:
    return [("values",)] if entry["operator"] == "NotIn" and not entry.get("values") else []


_IN_HAS_VALUES: Final = Rule(("operator", "values"), _in_without_values, "operator In needs at least one value")
_BOUND_IS_NUMBER: Final = Rule(
    ("operator", "values"), _bound_without_number, "operators Gt, Lt, Gte and Lte need one whole number of zero or more"
)
_ENOUGH_VALUES: Final = Rule(
    ("operator", "values", "minValues"),
    _fewer_than_min_values,
    "is more than the number of values that operator In lists",
)
_KNOWN_VALUE: Final = Rule(
    ("key", "operator", "values", "minValues"),
    _no_known_value,
    "too few of its values exist; there are spot, on-demand and reserved, and default and dedicated for tenancy",
)
_KEY_IS_FREE: Final = Rule(("key",), _restricted_key, label_keys.RESTRICTED)
_KEY_IS_NOT_POOL: Final = Rule(("key",), _pool_key, "is set by the NodePool itself")


class RequirementEntry(ApiModel):
    """One entry of a `requirements:` list."""

    key: fields.QualifiedName
    operator: Operator
    values: list[fields.LabelValue] = []


class ClaimRequirement(RequirementEntry):
    """In a NodeClaim."""

    min_values: Annotated[int, Field(ge=1, le=50)] | None = None

    rules: ClassVar[tuple[Rule, ...]] = (_KEY_IS_FREE, _IN_HAS_VALUES, _BOUND_IS_NUMBER, _ENOUGH_VALUES, _KNOWN_VALUE)


class PoolRequirement(ClaimRequirement):
    """In a NodePool: its own label cannot be required."""

    rules = (*ClaimRequirement.rules, _KEY_IS_NOT_POOL)


class OverlayRequirement(RequirementEntry):
    """In a NodeOverlay: what instance types carry, so no reservations, tenancy or placement groups."""

    rules = (
        Rule(("key",), _restricted_for_overlay, label_keys.RESTRICTED),
        _IN_HAS_VALUES,
        Rule(("operator", "values"), _not_in_without_values, "operator NotIn needs at least one value"),
        _BOUND_IS_NUMBER,
        _KNOWN_VALUE,
    )
