"""Reads fields of audit events without assuming that they have the API server's form."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def has_happened(entry: dict[str, Any]) -> bool:
    """Whether the request was permitted and is complete."""
    code = object_of(entry.get("responseStatus")).get("code", 200)
    is_complete = entry.get("stage", "ResponseComplete") == "ResponseComplete"
    return is_complete and isinstance(code, int) and 200 <= code < 300


def moment_of(text: Any) -> datetime | None:
    """Return the time in a field, with its zone; None if the field has none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def object_of(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one: a malformed entry must not lose the others of its delivery."""
    return value if isinstance(value, dict) else {}
