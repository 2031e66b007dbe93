"""Label selectors (Kubernetes), for the judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, found: Mapping[str, str]) -> bool:
    """Whether the selector matches these labels; none at all matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, found) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return key in found
    if operator == "DoesNotExist":
        return key not in found
    listed = found.get(key) in (expression.get("values") or ())
    return listed if operator == "In" else not listed
