"""JSON merge patch (RFC 7386) without changing the patched object."""

from __future__ import annotations

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied. Unchanged parts are shared; without a change it is the target itself."""
    if not isinstance(patch, dict):
        return target if target == patch else patch
    before = target if isinstance(target, dict) else {}
    after = dict(before)
    changed = before is not target
    for key, value in patch.items():
        if value is None:
            changed |= after.pop(key, None) is not None
            continue
        inner = merged(before.get(key), value)
        changed |= key not in before or inner is not before[key]
        after[key] = inner
    return after if changed else target


def difference(before: Any, after: Any) -> Any:
    """The merge patch that turns one JSON object into another."""
    patch: dict[str, Any] = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch
