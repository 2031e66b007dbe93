"""Suggests the probably intended value or key for a refused one."""

from __future__ import annotations

from typing import Any

from cli.manifests.document import Document
from cli.manifests.positions import PART
from cli.validation.finding import nearest
from cli.validation.label_keys import nearest_label
from core.api import conversion
from core.api.objects import group_and_version, kind_of
from core.api.problem import Location
from core.api.schemas.base import allowed_values
from core.api.validation import MODELS


def probably_meant(document: Document, field: str) -> str:
    """Return the allowed value with the spelling most similar to the field's; empty if the field has no closed list.

    For a requirement's key it is a node label, for an unknown kind or version the known one.
    """
    obj = document.object
    if conversion.is_old(obj):
        return ""
    if field == "apiVersion":
        return _known_kind(obj)
    location = _location(field)
    value = _value(obj, location)
    model = MODELS.get((*group_and_version(obj), kind_of(obj)))
    if not isinstance(value, str) or model is None:
        return ""
    if location[-1:] == ("key",) and "requirements" in location:
        return nearest_label(value)
    return nearest(value, allowed_values(model, location))


def _known_kind(obj: dict[str, Any]) -> str:
    """Return the version of a known kind, or the kind with a similar spelling."""
    kind = kind_of(obj)
    versions = [f"{group}/{version}" for group, version, known in MODELS if known == kind]
    return versions[0] if versions else nearest(kind, (known for _, _, known in MODELS))


def _location(field: str) -> Location:
    return tuple(int(number) if number else bracketed or plain for number, bracketed, plain in PART.findall(field))


def _value(obj: Any, location: Location) -> object:
    for part in location:
        if isinstance(part, int):
            obj = obj[part] if isinstance(obj, list) and part < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj
