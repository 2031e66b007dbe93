"""Which of the offerings that would do are put before EC2 (Karpenter's launch filters)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType

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


class Candidate(msgspec.Struct, frozen=True, order=True):
    """One offering that would do. `price` is in nano-dollars per hour; order is by price, ties by name."""

    price: int
    instance_type: str
    zone: str
    capacity_type: str


def select_candidates(
    candidates: Iterable[Candidate], types: Mapping[str, InstanceType], *, keep_flexibility: bool = False
) -> tuple[Candidate, ...]:
    """The offerings for one fleet request, cheapest first: of one capacity type, of at most `TYPES_MAX` types.

    Spot comes before on-demand. Metal and accelerated types are left out while there are others, and so is spot that costs
    more than on-demand; `keep_flexibility` skips both, for a claim whose minValues counts on every type.
    """
    left = sorted(c for c in set(candidates) if c.instance_type in types)
    if not keep_flexibility:
        left = _without_exotic(left, types)
        left = _without_dear_spot(left)
    chosen = labels.SPOT if any(c.capacity_type == labels.SPOT for c in left) else labels.ON_DEMAND
    left = [c for c in left if c.capacity_type == chosen]
    cheapest = list(dict.fromkeys(c.instance_type for c in left))[:TYPES_MAX]
    return tuple(c for c in left if c.instance_type in cheapest)[:OVERRIDES_MAX]


def _without_exotic(candidates: list[Candidate], types: Mapping[str, InstanceType]) -> list[Candidate]:
    generic = [c for c in candidates if not _is_exotic(types[c.instance_type])]
    return generic or candidates


def _is_exotic(instance_type: InstanceType) -> bool:
    is_metal = "metal" in instance_type.name.partition(".")[2]
    return is_metal or any(instance_type.capacity.get(resource) for resource in _EXOTIC)


def _without_dear_spot(candidates: list[Candidate]) -> list[Candidate]:
    on_demand = [c.price for c in candidates if c.capacity_type == labels.ON_DEMAND]
    if not on_demand:
        return candidates
    return [c for c in candidates if c.capacity_type != labels.SPOT or c.price <= on_demand[0]]
