"""NodeOverlay `karpenter.sh/v1alpha1`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Rule
from core.api.schemas.metadata import Metadata
from core.api.schemas.requirement import REQUIREMENTS_MAX, OverlayRequirement
from core.model.values.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

_FIXED_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


def _two_prices(spec: JsonObject) -> list[Location]:
    return [("priceAdjustment",)] if "price" in spec and "priceAdjustment" in spec else []


def _fixed_capacity(spec: JsonObject) -> list[Location]:
    return [("capacity", name) for name in spec.get("capacity", {}) if name in _FIXED_RESOURCES]


class NodeOverlaySpec(ApiModel):
    """`spec` of a NodeOverlay."""

    requirements: Annotated[list[OverlayRequirement], Field(max_length=REQUIREMENTS_MAX)]
    price: Annotated[str, Field(pattern=fields.PRICE)] | None = None
    price_adjustment: Annotated[str, Field(pattern=fields.PRICE_ADJUSTMENT)] | None = None
    capacity: dict[str, fields.Quantity] = {}
    weight: Annotated[int, Field(ge=1, le=10000)] | None = None

    rules = (
        Rule(
            (),
            _two_prices,
            "cannot be combined with price",
            "!has(self.price) || !has(self.priceAdjustment)",
            "priceAdjustment",
        ),
        Rule(
            ("capacity",),
            _fixed_capacity,
            "cannot be overlaid: only extended resources can",
            f"!has(self.capacity) || self.capacity.all(name, !(name in {list(_FIXED_RESOURCES)}))",
        ),
    )


class NodeOverlayObject(ApiModel):
    """A NodeOverlay."""

    metadata: Metadata
    spec: NodeOverlaySpec
