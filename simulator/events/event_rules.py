"""EventBridge's event patterns, as far as rules here use them: exact values, prefix, anything-but, exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether the event has, for every key of the pattern, one of the values listed there."""
    return all(_field_matches(wanted, event.get(key), key in event) for key, wanted in pattern.items())


def _field_matches(wanted: Mapping[str, Any] | Sequence[Any], found: Any, is_there: bool) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and matches(wanted, found)
    values = found if isinstance(found, list) else [found]
    return any(_value_matches(one, value, is_there) for one in wanted for value in values)


def _value_matches(wanted: Any, value: Any, is_there: bool) -> bool:
    if not isinstance(wanted, Mapping):
        return is_there and bool(wanted == value)
    if "exists" in wanted:
        return bool(is_there == wanted["exists"])
    if "prefix" in wanted:
        return isinstance(value, str) and value.startswith(wanted["prefix"])
    if "anything-but" in wanted:
        excluded = wanted["anything-but"]
        return is_there and value not in (excluded if isinstance(excluded, list) else [excluded])
    raise ValueError(f"no such operator in an event pattern: {sorted(wanted)}")
