"""Taints as users write them."""

from __future__ import annotations

from typing import Final, Literal

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Rule


class TaintEntry(ApiModel):
    """One entry of `taints:` or `startupTaints:`."""

    key: fields.QualifiedName
    value: fields.TaintValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


def _repeated(template: JsonObject) -> list[Location]:
    seen: set[tuple[str, str]] = set()
    places: list[Location] = []
    for field in ("taints", "startupTaints"):
        for index, taint in enumerate(template.get(field, [])):
            identity = (taint["key"], taint["effect"])
            if identity in seen:
                places.append((field, index))
            seen.add(identity)
    return places


TAINT_RULES: Final = (Rule(("taints", "startupTaints"), _repeated, "another taint has the same key and effect"),)
