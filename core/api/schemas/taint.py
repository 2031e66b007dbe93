"""Taints as users write them."""

from __future__ import annotations

from typing import Final, Literal

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Rule

TAINTS_MAX: Final = 100
"""More than any node has; the API server limits the cost of its rules."""


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


_ONCE: Final = "({here}.all(a, {here}.exists_one(b, a.key == b.key && a.effect == b.effect)))"
_IN_ONE: Final = "({here}.all(a, !{there}.exists(b, a.key == b.key && a.effect == b.effect)))"


def _no_repetition() -> str:
    here, there = "self.taints", "self.startupTaints"
    return (
        f"(!has({here}) || {_ONCE.format(here=here)}) && (!has({there}) || {_ONCE.format(here=there)})"
        f" && (!has({here}) || !has({there}) || {_IN_ONE.format(here=here, there=there)})"
    )


TAINT_RULES: Final = (
    Rule(("taints", "startupTaints"), _repeated, "another taint has the same key and effect", _no_repetition()),
)
