"""Which of the offerings that would do are put before EC2 (Karpenter's launch filters)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from core import labels
from core.model.catalogue import InstanceType, Offering, cheapest_first

TYPES_MAX: Final = 60
"""Instance types in one fleet request (Karpenter)."""

OVERRIDES_MAX: Final = 300
"""Offerings in one fleet request (EC2's limit for type instant)."""

_EXOTIC: Final = (
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "amd.com/gpu",
    "nvidia.com/gpu",
    "habana.ai/gaudi",
)


def select_candidates(
    offerings: Iterable[Offering], types: Mapping[str, InstanceType], *, keep_flexibility: bool = False
) -> tuple[Offering, ...]:
    """The offerings for one fleet request, cheapest first: of one capacity type, of at most `TYPES_MAX` types.

    Spot comes before on-demand. Metal and accelerated types are left out while there are others, and so is spot that costs
    more than on-demand; `keep_flexibility` skips both, for a claim whose minValues counts on every type.
    """
    left = cheapest_first(o for o in dict.fromkeys(offerings) if o.instance_type in types)
    if not keep_flexibility:
        left = _without_exotic(left, types)
        left = _without_dear_spot(left)
    chosen = labels.SPOT if any(c.capacity_type == labels.SPOT for c in left) else labels.ON_DEMAND
    left = [c for c in left if c.capacity_type == chosen]
    cheapest = list(dict.fromkeys(c.instance_type for c in left))[:TYPES_MAX]
    return tuple(c for c in left if c.instance_type in cheapest)[:OVERRIDES_MAX]


def _without_exotic(candidates: list[Offering], types: Mapping[str, InstanceType]) -> list[Offering]:
    generic = [c for c in candidates if not _is_exotic(types[c.instance_type])]
    return generic or candidates


def _is_exotic(instance_type: InstanceType) -> bool:
    is_metal = "metal" in instance_type.name.partition(".")[2]
    return is_metal or any(instance_type.capacity.get(resource) for resource in _EXOTIC)


def _without_dear_spot(candidates: list[Offering]) -> list[Offering]:
    on_demand = [c.price for c in candidates if c.capacity_type == labels.ON_DEMAND]
    if not on_demand:
        return candidates
    return [c for c in candidates if c.capacity_type != labels.SPOT or c.price <= on_demand[0]]
