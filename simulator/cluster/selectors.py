"""Evaluates label selectors and node selectors as the Kubernetes API documents them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from core.api.objects import JsonObject
from simulator.cluster.objects import labels_of, name_of

_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,40}")
_BOUND: Final = 2**63


def selects(selector: JsonObject | None, obj: JsonObject) -> bool:
    """Whether a label selector selects an object. None selects nothing, an empty one everything."""
    return selects_labels(selector, labels_of(obj))


def selects_labels(selector: JsonObject | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects these labels."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def matches_node_terms(terms: Iterable[JsonObject], node: JsonObject) -> bool:
    """Whether a node fits one of the node selector terms; an empty term fits no node."""
    return any(matches_node_term(term, node) for term in terms)


def matches_node_term(term: JsonObject, node: JsonObject) -> bool:
    """Whether a node fits all expressions and fields of a node selector term."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_field = {"metadata.name": name_of(node)}
    labels = labels_of(node)
    return all(_holds(e, labels) for e in expressions) and all(_holds(f, by_field) for f in fields)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compared(value, values) == 1
        case "Lt":
            return _compared(value, values) == -1
        case _:
            return False


def _compared(value: str | None, bounds: list[str]) -> int:
    """1 where the value is above the one bound, -1 below; 0 where they are equal or one is no whole number of 64 bits."""
    if value is None or len(bounds) != 1 or not all(map(_WHOLE.fullmatch, (value, bounds[0]))):
        return 0
    found, bound = int(value), int(bounds[0])
    if not all(-_BOUND <= number < _BOUND for number in (found, bound)):
        return 0
    return (found > bound) - (found < bound)
