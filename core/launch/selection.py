"""Selects the offerings of a planned claim to request: Karpenter's launch filters, applied once, before the claim is stored.

offerings of the claim
-> without metal and accelerated types, while there are others   } skipped under minValues, which
-> without spot that costs more than on-demand                   } count on every type
-> of one capacity type, as a fleet request has one: reserved, else spot, else on-demand
-> of reserved ones those that one request may name (`core.launch.selection`)
-> of the cheapest 60 types, among them those that minValues need
-> at most 300 offerings, each type at least with its cheapest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from core import labels
from core.catalogue.node_class import CAPACITY_BLOCK
from core.model.catalogue import InstanceType, Offering, cheapest_first
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal
from core.reasons.pods import MinValuesBeyond, NoneAvailable

# The pace of requests to EC2: a token bucket whose rate falls when EC2 throttles and rises again afterwards. EC2 counts the
# instances that are launched and terminated, too: a request takes a token for each, from a bucket of its own.
#
# EC2 throttles by account and region, and says neither its rate nor how much of it others use. The rate is therefore learned as
# TCP learns a path's: multiplicative decrease for each throttled answer, additive increase once it has been quiet (AIMD). While
# the rate is reduced, the bucket holds one token, so that requests are spread evenly.
#
# Moments are milliseconds since 1970, rates are millihertz.


FASTEST: Final = 5_000
"""EC2's documented rate of CreateFleet once its bucket is empty: 5 a second."""

SLOWEST: Final = 33
"""One request in 30 s, with three attempts of the SDK each: it notices the end of throttling within half a minute."""

AT_ONCE: Final = 45
"""EC2's bucket holds 50 CreateFleet requests. Clocks of two sandboxes may be a second apart: five tokens.

See docs/engineering/handbook/simulated-world.md.
"""

QUIET: Final = 45_000
"""The rate rises from this long after the last throttled answer on: by then, a request at the slowest rate was answered."""

RISE: Final = 250
"""How much the rate rises in a second: from the slowest to the fastest in twenty."""

LONGEST_WAIT: Final = 15_000
"""A request that would wait longer goes back to the queue instead of waiting in a function."""

CLOCKS_APART: Final = 60_000
"""A moment further in the future than any that we write, by more than this, is of a wrong clock, or a person wrote it."""

ANSWERS_MAX: Final = 16
"""The most throttled answers that count for one request: more lead from the fastest rate to the slowest, too."""


class Bucket(msgspec.Struct, frozen=True):
    """How many tokens a bucket holds, and the fastest rate at which it fills."""

    holds: int
    fastest: int


REQUESTS: Final = Bucket(AT_ONCE, FASTEST)


def of_instances(size: int, per_second: int) -> Bucket:
    """Return the bucket from which each instance takes a token. What fills in a second is left for clocks that differ."""
    return Bucket(max(1, size - per_second), per_second * 1_000)


class Pace(msgspec.Struct, frozen=True):
    """The state of the bucket.

    Attributes:
        full_at: When the bucket is full again.
        rate: The rate since the last throttled answer.
        slowed_at: When that answer came; 0 while the rate is the fastest.
    """

    full_at: int = 0
    rate: int = FASTEST
    slowed_at: int = 0


class Turn(NamedTuple):
    """How long a request waits, and the bucket after it; the bucket is None where the wait exceeds `LONGEST_WAIT`."""

    wait: int
    pace: Pace | None


def rate_of(pace: Pace, now: int, bucket: Bucket = REQUESTS) -> int:
    """Return the present rate. A bucket that a wrong clock wrote has the fastest: otherwise, it would not recover."""
    if pace.slowed_at > now + CLOCKS_APART:
        return bucket.fastest
    risen = max(0, now - pace.slowed_at - QUIET) * RISE // 1_000
    return min(bucket.fastest, max(SLOWEST, pace.rate) + risen)


def take_turn(pace: Pace, now: int, bucket: Bucket = REQUESTS, tokens: int = 1) -> Turn:
    """Return the turn of one more request, which takes so many tokens; at most all that the bucket holds."""
    rate = rate_of(pace, now, bucket)
    full_at = max(now, _full_at(pace, now, bucket)) + min(tokens, bucket.holds) * token_time(rate)
    wait = max(0, full_at - _room(rate, bucket) - now)
    if wait > LONGEST_WAIT:
        return Turn(wait, None)
    if rate == bucket.fastest:
        return Turn(wait, Pace(full_at=full_at))
    return Turn(wait, Pace(full_at=full_at, rate=pace.rate, slowed_at=pace.slowed_at))


def slowed(pace: Pace, sent: int, now: int, answers: int) -> Pace:
    """Return the bucket of requests after this many throttled answers to one, the SDK's own attempts included.

    Requests that were sent before the rate fell change nothing: the throttling of requests side by side is one sign.
    """
    rate = rate_of(pace, now)
    if rate < FASTEST and sent < pace.slowed_at:
        return pace
    last_turn = _full_at(pace, now, REQUESTS) - _room(rate, REQUESTS)
    slower = max(SLOWEST, rate >> min(answers, ANSWERS_MAX))
    return Pace(full_at=max(now, last_turn) + token_time(slower), rate=slower, slowed_at=now)


def token_time(rate: int) -> int:
    """Return how long one token takes to return."""
    return 1_000_000 // rate


def latest_full(now: int, bucket: Bucket = REQUESTS, tokens: int = 1) -> int:
    """Return the latest moment at which a bucket at its fastest rate may be full for a turn within `LONGEST_WAIT`."""
    return now + filling(bucket) + LONGEST_WAIT - tokens * token_time(bucket.fastest)


def filling(bucket: Bucket) -> int:
    """Return how long an empty bucket takes to fill at its fastest rate."""
    return token_time(bucket.fastest) * bucket.holds


def _room(rate: int, bucket: Bucket) -> int:
    """Return how long the bucket takes to fill: all of its tokens at the fastest rate, one below."""
    return filling(bucket) if rate == bucket.fastest else token_time(rate)


def _full_at(pace: Pace, now: int, bucket: Bucket) -> int:
    """Return when the bucket is full; now where a wrong clock wrote it."""
    return pace.full_at if pace.full_at <= latest_full(now, bucket) + CLOCKS_APART else now


# Narrows reserved offerings to those that one fleet request may contain (Karpenter's launch filters).


def admits_reservation(requirements: Iterable[Requirement], offering: Offering) -> bool:
    """Whether a claim's requirements admit the offering's reservation; true for other capacity."""
    if not offering.reservation_id:
        return True
    offered = offering.reservation_labels()
    reservation_requirements = (
        requirement for requirement in requirements if requirement.key in labels.RESERVATION_LABELS
    )
    return all(r.has(offered[r.key]) if r.key in offered else r.tolerates_absence for r in reservation_requirements)


def in_one_request(offerings: Iterable[Offering]) -> list[Offering]:
    """Return the reserved offerings of one kind, for each type and zone the one with most places; of blocks a single one.

    A fleet launches into capacity blocks, into reservations that may be interrupted, or into others: the kind with the cheapest
    offering is chosen, ties in the order others, blocks, interruptible. One request names one capacity block.
    """
    ordered = sorted(cheapest_first(offerings), key=lambda o: (o.price, _order_of(o)))
    kept = [offering for offering in ordered if _order_of(offering) == _order_of(ordered[0])]
    if kept and kept[0].reservation_type == CAPACITY_BLOCK:
        return kept[:1]
    return _widest(kept)


def _order_of(offering: Offering) -> int:
    if offering.reservation_type == CAPACITY_BLOCK:
        return 1
    return 2 if offering.interruptible else 0


def _widest(offerings: Sequence[Offering]) -> list[Offering]:
    most: dict[tuple[str, str], Offering] = {}
    for offering in offerings:
        place = (offering.instance_type, offering.zone)
        widest = most.get(place)
        if widest is None or offering.reservation_capacity > widest.reservation_capacity:
            most[place] = offering
    return list(most.values())


# Applies minValues at launch: selects instance types with the distinct label values that a NodePool requires.


def first_of_each(ordered: Sequence[InstanceType], wanted: Mapping[str, int]) -> tuple[InstanceType, ...]:
    """Return the first types in this order that together have as many distinct values as required, key by key.

    If all types together have fewer values than required, one type for each value is enough: a capacity type with few types
    does not prevent a launch (Karpenter counts before it chooses the capacity type).
    """
    chosen: dict[str, InstanceType] = {}
    for key, count in sorted(wanted.items()):
        seen = set(_values(chosen.values(), key))
        for instance_type in ordered:
            if len(seen) >= count:
                break
            values = _values((instance_type,), key)
            if not values <= seen:
                chosen[instance_type.name] = instance_type
                seen |= values
    return tuple(chosen.values())


def _values(types: Iterable[InstanceType], key: str) -> set[str]:
    """Return the values that these types have for a label."""
    if key == labels.INSTANCE_TYPE:
        return {instance_type.name for instance_type in types}
    if key == labels.ZONE:
        return {offering.zone for instance_type in types for offering in instance_type.offerings}
    if key == labels.CAPACITY_TYPE:
        return {offering.capacity_type for instance_type in types for offering in instance_type.offerings}
    return {value for instance_type in types for value in instance_type.labels.get(key, ())}


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
    named = {
        instance_type.name: instance_type for instance_type in types if instance_type.name in set(claim.instance_types)
    }
    wanted = {r.key: r.min_values for r in claim.requirements if r.min_values is not None}
    open_offerings = [
        offering
        for instance_type in named.values()
        for offering in instance_type.offerings
        if _is_open(offering, claim)
    ]
    if not wanted:
        open_offerings = _without_exotic(open_offerings, named)
        open_offerings = _without_spot_above_on_demand(open_offerings)
    open_offerings = _of_one_capacity_type(open_offerings)
    if not open_offerings:
        return NoneAvailable(len(claim.instance_types))
    ordered = _types_of(open_offerings, named)
    needed = first_of_each(ordered, wanted)
    is_relaxed = len(needed) > TYPES_MAX
    if is_relaxed and policy != BEST_EFFORT:
        return MinValuesBeyond(tuple(sorted(wanted.items())), len(needed), TYPES_MAX)
    chosen = _cheapest_types(ordered, () if is_relaxed else needed)
    names = {instance_type.name for instance_type in chosen}
    offerings = one_request(offering for offering in open_offerings if offering.instance_type in names)
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
    listed = list(offerings)
    on_offer = {offering.capacity_type for offering in listed}
    chosen = next((kind for kind in labels.CAPACITY_TYPES if kind in on_offer), labels.ON_DEMAND)
    kept = [offering for offering in listed if offering.capacity_type == chosen]
    return in_one_request(kept) if chosen == labels.RESERVED else kept


def _types_of(offerings: Iterable[Offering], types: _Types) -> tuple[InstanceType, ...]:
    """Return the types of these offerings, by their cheapest; a type keeps only these offerings."""
    kept: dict[str, list[Offering]] = {}
    for offering in cheapest_first(offerings):
        kept.setdefault(offering.instance_type, []).append(offering)
    return tuple(
        msgspec.structs.replace(types[name], offerings=tuple(kept_offerings)) for name, kept_offerings in kept.items()
    )


def _cheapest_types(ordered: Sequence[InstanceType], needed: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """Return the needed types and the cheapest others up to `TYPES_MAX`, in the order given."""
    names = {instance_type.name for instance_type in needed}
    others = [instance_type.name for instance_type in ordered if instance_type.name not in names]
    names.update(others[: TYPES_MAX - len(names)])
    return tuple(instance_type for instance_type in ordered if instance_type.name in names)


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
