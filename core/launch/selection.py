"""Selects the offerings of a planned claim to request: Karpenter's launch filters, applied once, before the claim is stored.

offerings of the claim
-> without metal and accelerated types, while there are others   } skipped under minValues, which
-> without spot that costs more than on-demand                   } count on every type
-> of one capacity type, as a fleet request has one: reserved, else spot, else on-demand
-> of reserved ones those that one request may name (`core.launch.reserved_selection`)
-> of the cheapest 60 types, among them those that minValues need
-> at most 300 offerings, each type at least with its cheapest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from core import labels
from core.launch.reserved_selection import admits_reservation, in_one_request
from core.launch.type_values import first_of_each
from core.model.catalogue import InstanceType, Offering, cheapest_first
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT
from core.reasons.pod import PodReason
from core.reasons.refusal import Refusal

TYPES_MAX: Final = 60
"""Instance types in one fleet request (Karpenter)."""

OVERRIDES_MAX: Final = 300
"""Offerings in one fleet request (EC2's limit for type instant)."""


_ACCELERATORS: Final = (
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "amd.com/gpu",
    "nvidia.com/gpu",
    "habana.ai/gaudi",
)

_Types = Mapping[str, InstanceType]


class Selection(msgspec.Struct, frozen=True):
    """Where a claim may be launched.

    Attributes:
        offerings: Cheapest first, never empty.
        types: Their instance types, cheapest first.
        min_values_relaxed: Whether BestEffort gave up minValues that no request of `TYPES_MAX` types meets.
    """

    offerings: tuple[Offering, ...]
    types: tuple[InstanceType, ...]
    min_values_relaxed: bool = False


def select_offerings(claim: PlannedClaim, types: Iterable[InstanceType], policy: str) -> Selection | Refusal:
    """Return the offerings to request for a claim.

    Args:
        claim: The planned claim; its `instance_types`, `zones` and `capacity_types` bound the choice.
        types: The instance types of its NodePool, at the NodePool's prices.
        policy: `Strict` refuses a claim whose minValues `TYPES_MAX` types cannot meet, `BestEffort` launches it anyway.
    """
    named = {found.name: found for found in types if found.name in set(claim.instance_types)}
    wanted = {r.key: r.min_values for r in claim.requirements if r.min_values is not None}
    left = [offering for found in named.values() for offering in found.offerings if _is_open(offering, claim)]
    if not wanted:
        left = _without_exotic(left, named)
        left = _without_spot_above_on_demand(left)
    left = _of_one_capacity_type(left)
    if not left:
        tried = f"none of the {len(claim.instance_types)} instance types of the claim has an offering that is available"
        return Refusal(PodReason.NO_OFFERING_AVAILABLE, tried)
    ordered = _types_of(left, named)
    needed = first_of_each(ordered, wanted)
    is_relaxed = len(needed) > TYPES_MAX
    if is_relaxed and policy != BEST_EFFORT:
        demanded = ", ".join(f"{count} of {key}" for key, count in sorted(wanted.items()))
        problem = f"minValues demand {demanded}, which takes {len(needed)} instance types; EC2 is asked for {TYPES_MAX}"
        return Refusal(PodReason.MIN_VALUES_NOT_MET, problem)
    chosen = _cheapest_types(ordered, () if is_relaxed else needed)
    names = {found.name for found in chosen}
    offerings = one_request(offering for offering in left if offering.instance_type in names)
    return Selection(offerings=offerings, types=chosen, min_values_relaxed=is_relaxed)


def one_request(offerings: Iterable[Offering]) -> tuple[Offering, ...]:
    """Return as many of the offerings as one fleet request allows: of one capacity type, each type at least with its cheapest.

    Reserved capacity comes before spot, and spot before on-demand (Karpenter).
    """
    ordered = cheapest_first(_of_one_capacity_type(offerings))
    cheapest: dict[str, Offering] = {}
    for offering in ordered:
        cheapest.setdefault(offering.instance_type, offering)
    others = [offering for offering in ordered if cheapest[offering.instance_type] is not offering]
    return tuple(cheapest_first([*cheapest.values(), *others][:OVERRIDES_MAX]))


def _is_open(offering: Offering, claim: PlannedClaim) -> bool:
    return (
        offering.available
        and offering.zone in claim.zones
        and offering.capacity_type in claim.capacity_types
        and admits_reservation(claim.requirements, offering)
    )


def _of_one_capacity_type(offerings: Iterable[Offering]) -> list[Offering]:
    found = list(offerings)
    on_offer = {offering.capacity_type for offering in found}
    chosen = next((kind for kind in labels.CAPACITY_TYPES if kind in on_offer), labels.ON_DEMAND)
    kept = [offering for offering in found if offering.capacity_type == chosen]
    return in_one_request(kept) if chosen == labels.RESERVED else kept


def _types_of(offerings: Iterable[Offering], types: _Types) -> tuple[InstanceType, ...]:
    """Return the types of these offerings, by their cheapest; a type keeps only these offerings."""
    kept: dict[str, list[Offering]] = {}
    for offering in cheapest_first(offerings):
        kept.setdefault(offering.instance_type, []).append(offering)
    return tuple(msgspec.structs.replace(types[name], offerings=tuple(own)) for name, own in kept.items())


def _cheapest_types(ordered: Sequence[InstanceType], needed: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """Return the needed types and the cheapest others up to `TYPES_MAX`, in the order given."""
    names = {found.name for found in needed}
    others = [found.name for found in ordered if found.name not in names]
    names.update(others[: TYPES_MAX - len(names)])
    return tuple(found for found in ordered if found.name in names)


def _without_exotic(offerings: list[Offering], types: _Types) -> list[Offering]:
    generic = [offering for offering in offerings if not _is_exotic(types[offering.instance_type])]
    return generic or offerings


def _is_exotic(instance_type: InstanceType) -> bool:
    is_metal = "metal" in instance_type.name.partition(".")[2]
    return is_metal or any(instance_type.capacity.get(resource) for resource in _ACCELERATORS)


def _without_spot_above_on_demand(offerings: list[Offering]) -> list[Offering]:
    on_demand = [offering.price for offering in offerings if offering.capacity_type == labels.ON_DEMAND]
    if not on_demand:
        return offerings
    return [o for o in offerings if o.capacity_type != labels.SPOT or o.price <= min(on_demand)]
