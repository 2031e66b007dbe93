"""Types of the built-in market, sized for one EC2NodeClass."""

from __future__ import annotations

from functools import cache
from typing import Any

from core.catalogue.build import build_catalogue, instance_types
from core.model.catalogue import InstanceType
from core.model.values.quotas import SizingSettings
from simulator.market.embedded import builtin_market, builtin_shapes

MIB = 2**20
REGION = "us-east-1"


@cache
def default_types() -> dict[str, InstanceType]:
    return {t.name: t for t in instance_types(builtin_shapes(), builtin_market(REGION))}


def a_class(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], **spec}}


def one_type(name: str, settings: SizingSettings | None = None, /, **spec: Any) -> InstanceType:
    shapes = [shape for shape in builtin_shapes() if shape.instance_type == name]
    built = build_catalogue(shapes, builtin_market(REGION), [a_class(**spec)], settings or SizingSettings())
    return built.types_for("c")[0]
