"""Results as text for people: every field that is not its default, in the order of the fields."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core.model.values.requirements import Requirement
from core.model.values.taints import Taint

WIDTH: Final = 126
_PREFIXES: Final = (
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "kubernetes.io/",
    "karpenter.k8s.aws/",
    "karpenter.sh/",
    "example.com/",
)


def rendered(title: str, value: msgspec.Struct, without: Iterable[str] = ()) -> str:
    """A struct as a paragraph that begins with its title."""
    return wrapped(f"{title}: {'; '.join(_fields(value, frozenset(without)))}")


def wrapped(text: str) -> str:
    """A line, broken at spaces; what follows the first line is indented."""
    found = textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(found)


def said(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, Requirement):
        return _requirement(value)
    if isinstance(value, Taint):
        return f"{short(value.key)}={value.value or ''}:{value.effect}"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, msgspec.Struct):
        return f"({', '.join(_fields(value, frozenset()))})"
    if isinstance(value, Mapping):
        return " ".join(f"{short(str(key))}={said(one)}" for key, one in value.items()) or "none"
    if isinstance(value, tuple | list | set | frozenset):
        parts = [said(one) for one in value]
        gap = ", " if any(" " in part for part in parts) else " "
        return gap.join(sorted(parts) if isinstance(value, set | frozenset) else parts) or "none"
    return "none" if value is None or value == "" else str(value)


def short(key: str) -> str:
    """A label's key without its domain, where that is one of the usual ones."""
    return next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), key)


def _fields(value: msgspec.Struct, without: frozenset[str]) -> Iterator[str]:
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        factory = field.default_factory
        default = field.default if factory is msgspec.NODEFAULT else factory()
        if field.name not in without and held != default:
            yield f"{field.name} {said(held)}"


def _requirement(found: Requirement) -> str:
    bounds = [("Gte", found.gte), ("Lte", found.lte), ("minValues", found.min_values)]
    return " ".join(
        [short(found.key), found.operator, *found.values, *(f"{name} {at}" for name, at in bounds if at is not None)]
    )
