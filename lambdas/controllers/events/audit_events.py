"""How fields of an audit event are read: nothing in it is taken to be as the API server writes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def has_happened(entry: dict[str, Any]) -> bool:
    """Whether the request is done, and was permitted."""
    code = object_of(entry.get("responseStatus")).get("code", 200)
    is_complete = entry.get("stage", "ResponseComplete") == "ResponseComplete"
    return is_complete and isinstance(code, int) and 200 <= code < 300


def moment_of(text: Any) -> datetime | None:
    """The time that a field states, with its zone; None where it states none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def object_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: one odd entry must not lose the others of its delivery."""
    return value if isinstance(value, dict) else {}
