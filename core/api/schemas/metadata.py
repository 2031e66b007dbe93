"""The parts of `metadata` that are validated."""

from __future__ import annotations

from typing import ClassVar

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Rule


def _nameless(metadata: JsonObject) -> list[Location]:
    return [] if metadata.get("name") or metadata.get("generateName") else [("name",)]


class Metadata(ApiModel):
    """Name, labels and annotations of an object."""

    name: fields.ObjectName | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    rules: ClassVar[tuple[Rule, ...]] = (Rule(("name",), _nameless, "is required"),)
