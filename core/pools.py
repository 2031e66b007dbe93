"""A NodePool's types as its template and NodeOverlays make them: labels, requirements, prices, capacities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from functools import partial
from itertools import groupby, starmap
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.interpreter import ByIdentity
from core.model.catalogue import InstanceType, Offering, OfferingKey
from core.model.node_pool import GROUP_COUNTER, PER_MILLE, NodePool
from core.model.snapshot import NodeOverlay, Snapshot
from core.model.state_node import StateNode
from core.model.values import quantity
from core.model.values.quantity import NANODOLLARS, PPM
from core.model.values.requirements import Requirement, Requirements

# Prices of running nodes by their labels.


def type_of(node_labels: Mapping[str, str], types: Mapping[str, InstanceType]) -> InstanceType | None:
    """Return the instance type that the labels name, None if it is not among the types."""
    return types.get(node_labels.get(labels.INSTANCE_TYPE, ""))


def node_price(node_labels: Mapping[str, str], instance_type: InstanceType | None) -> int:
    """Return a running node's price in nano-dollars per hour: that of its offering; 0 if unknown."""
    place = (node_labels.get(labels.ZONE), node_labels.get(labels.CAPACITY_TYPE))
    offered = instance_type.offerings if instance_type is not None else ()
    return min((o.price for o in offered if (o.zone, o.capacity_type) == place), default=0)


def node_prices(snapshot: Snapshot) -> Callable[[StateNode], int]:
    """Return what a node costs an hour by today's market, for limits in dollars (`PoolTypes.counted_price`)."""
    types = pool_types(snapshot)
    return lambda state: types.counted_price(state.node_pool, state.labels)


_Subject = tuple[int, int, int | str]
_Bought = list[tuple[int, Requirements]]


def agreeing(
    overlays: Iterable[NodeOverlay],
    pools: Iterable[tuple[Iterable[InstanceType], Requirements]],
    keys: frozenset[str],
) -> tuple[NodeOverlay, ...]:
    """Return the effective overlays, by descending weight, ties by descending name.

    If two overlays of equal weight set the same offering's price or the same resource of a type, only the first is effective;
    the other is ignored entirely, in every NodePool (Karpenter).

    Args:
        overlays: Every overlay.
        pools: For each NodePool, its types and its template (as in `overlaid`).
        keys: Labels that some type carries.
    """
    ordered = sorted(sorted(overlays, key=lambda o: o.name, reverse=True), key=lambda o: -o.weight)
    offers = _offers(pools, keys) if len(ordered) > 1 else {}
    agreed: list[NodeOverlay] = []
    for _, alike in groupby(ordered, key=lambda o: o.weight):
        group = list(alike)
        taken: set[_Subject] = set()
        for overlay in group:
            subjects = set(_subjects(overlay, offers)) if len(group) > 1 else set()
            if taken.isdisjoint(subjects):
                taken |= subjects
                agreed.append(overlay)
    return tuple(agreed)


def overlaid(
    types: Iterable[InstanceType], overlays: Iterable[NodeOverlay], template: Requirements, keys: frozenset[str]
) -> tuple[InstanceType, ...]:
    """Return the types with a NodePool's overlays applied; for each offering's price and each resource the first match counts.

    Args:
        types: Types of the catalogue.
        overlays: The effective overlays, in order (`agreeing`).
        template: The NodePool's requirements, labels and name. The value of a label that it leaves open is unknown before the
            launch, so no overlay can depend on it.
        keys: Labels that some type carries; a type without one does not have it.
    """
    ordered = tuple(overlays)
    if not ordered:
        return tuple(types)
    certain = _certain(template, keys)
    return tuple(_overlaid_type(instance_type, ordered, certain, keys) for instance_type in types)


def adjusted_price(price: int, overlay: NodeOverlay) -> int:
    """Return a price in nano-dollars after an overlay: replaced, or changed by an amount or a percentage; at least zero.

    Raises:
        InvalidInputError: If the adjustment is not a number.
    """
    if overlay.price is not None:
        return overlay.price
    text = overlay.price_adjustment or "+0"
    try:
        if text.endswith("%"):
            moved = Decimal(price) * (1 + Decimal(text[:-1]) / 100)
        else:
            moved = Decimal(price) + Decimal(text) * NANODOLLARS
    except InvalidOperation as error:
        subject = f"NodeOverlay {overlay.name}"
        problem = f"{text!r} is neither an amount nor a percentage"
        raise InvalidInputError(problem, subject=subject, field="spec.priceAdjustment") from error
    return max(0, int(moved.to_integral_value(rounding=ROUND_HALF_EVEN)))


def _overlaid_type(
    instance_type: InstanceType, overlays: Iterable[NodeOverlay], template: Requirements, keys: frozenset[str]
) -> InstanceType:
    bought = _bought(instance_type, template, keys)
    prices: dict[int, int] = {}
    capacity: dict[str, int] = {}
    for overlay in overlays:
        met = _met(overlay, bought)
        if not met:
            continue
        capacity.update({name: amount for name, amount in overlay.capacity.items() if name not in capacity})
        if _speaks_of_prices(overlay):
            for index in met:
                prices.setdefault(index, adjusted_price(instance_type.offerings[index].price, overlay))
    if not prices and not capacity:
        return instance_type
    offerings = tuple(
        msgspec.structs.replace(o, price=prices.get(i, o.price)) for i, o in enumerate(instance_type.offerings)
    )
    return msgspec.structs.replace(instance_type, offerings=offerings, capacity={**instance_type.capacity, **capacity})


def _offers(
    pools: Iterable[tuple[Iterable[InstanceType], Requirements]], keys: frozenset[str]
) -> dict[tuple[int, int], _Bought]:
    """Return (NodePool, type that it may launch) by position → its available offerings."""
    bought: dict[tuple[int, int], _Bought] = {}
    for pool, (types, template) in enumerate(pools):
        certain = _certain(template, keys)
        for position, instance_type in enumerate(types):
            if certain.conflict(_own(instance_type, keys)) is None:
                bought[pool, position] = _bought(instance_type, certain, keys)
    return bought


def _subjects(overlay: NodeOverlay, offers: Mapping[tuple[int, int], _Bought]) -> Iterator[_Subject]:
    """Return what the overlay applies to: (NodePool, type, offering or resource) by position and name."""
    for (pool, position), bought in offers.items():
        met = _met(overlay, bought)
        if _speaks_of_prices(overlay):
            yield from ((pool, position, index) for index in met)
        if met:
            yield from ((pool, position, name) for name in overlay.capacity)


def _certain(template: Requirements, keys: frozenset[str]) -> Requirements:
    known_keys = labels.WELL_KNOWN | keys
    return template.without(
        *(key for key, requirement in template.items() if key not in known_keys and len(requirement.values) != 1)
    )


def _speaks_of_prices(overlay: NodeOverlay) -> bool:
    return overlay.price is not None or overlay.price_adjustment is not None


def _bought(instance_type: InstanceType, template: Requirements, keys: frozenset[str]) -> _Bought:
    """Return the offerings that the NodePool may launch, by position, with all labels of their nodes."""
    offered = template.merged(_own(instance_type, keys).values())
    return [(i, _at(offered, o)) for i, o in enumerate(instance_type.offerings) if _may_buy(template, o)]


def _met(overlay: NodeOverlay, bought: _Bought) -> list[int]:
    requirements = Requirements(overlay.requirements)
    return [index for index, offered in bought if offered.compatible(requirements)]


def _own(instance_type: InstanceType, keys: frozenset[str]) -> Requirements:
    """Return the labels that every node of the type has, and those that none has."""
    requirements = [Requirement.one_of(key, *values) for key, values in instance_type.labels.items()]
    requirements.append(Requirement.one_of(labels.INSTANCE_TYPE, instance_type.name))
    missing = [Requirement.one_of(key) for key in sorted(keys - set(instance_type.labels))]
    return Requirements((*requirements, *missing))


def _may_buy(template: Requirements, offering: Offering) -> bool:
    """Whether the NodePool admits the zone and capacity type; overlays for other offerings do not apply to its nodes."""
    pairs = ((template.get(key), offered) for key, offered in offering.requirements().items())
    return all(required is None or required.has(*offered.values) for required, offered in pairs)


def _at(offered: Requirements, offering: Offering) -> Requirements:
    return offered.merged(offering.requirements().values())


# The properties that a NodePool's template gives to every node of the pool.


SIMULATED = (labels.REGISTERED, labels.INITIALIZED)
"""Labels that a node gets while it boots: pods may select them, claims do not carry them."""


def template_labels(pool: NodePool) -> dict[str, str]:
    """Labels that every node of the pool carries."""
    pool_labels = {**pool.labels, labels.NODEPOOL: pool.name}
    if pool.node_class.name:
        pool_labels[f"{pool.node_class.group}/{pool.node_class.kind.lower()}"] = pool.node_class.name
    return pool_labels


def template_requirements(pool: NodePool) -> Requirements:
    """Return the requirements on every node of the pool: the template's requirements and labels."""
    return Requirements(template_parts(pool))


def template_parts(pool: NodePool) -> tuple[Requirement, ...]:
    """Return the same requirements separately: several may concern one label."""
    fixed = [Requirement.one_of(key, value) for key, value in template_labels(pool).items()]
    fixed += [Requirement.one_of(key, "true") for key in SIMULATED]
    return (*pool.requirements, *fixed)


# Limits of NodePools, and those that a group of them shares. NodePools that disagree about a group's limit have the lowest.


def shared_limits(pools: Iterable[NodePool]) -> dict[str, dict[str, int]]:
    """Return group → resource → the most that all NodePools of the group may have together."""
    limits: dict[str, dict[str, int]] = {}
    for pool in pools:
        for group, amounts in pool.shared_limits.items():
            of_group = limits.setdefault(group, {})
            of_group.update({name: min(amount, of_group.get(name, amount)) for name, amount in amounts.items()})
    return limits


def limits_by_counter(pools: Sequence[NodePool]) -> dict[str, dict[str, int]]:
    """Return counter → its limits: a NodePool's counter has its name, a group's or a cap's begins with `GROUP_COUNTER`."""
    shared = {GROUP_COUNTER + group: limits for group, limits in shared_limits(pools).items()}
    capped = {GROUP_COUNTER + cap.name: cap.limits for pool in pools for cap in pool.caps}
    return {pool.name: pool.limits for pool in pools} | shared | capped


def holder(counter: str) -> str:
    """Return what a counter is of, in words: a cap is named `Calendar/cap`."""
    if not counter.startswith(GROUP_COUNTER):
        return f"NodePool {counter}"
    group = counter.removeprefix(GROUP_COUNTER)
    return f"cap {group}" if "/" in group else f"group {group}"


def is_priced(pool: NodePool) -> bool:
    """Whether one of its limits counts dollars."""
    every = (pool.limits, *pool.shared_limits.values(), *(cap.limits for cap in pool.caps))
    return any(quantity.HOURLY in limits for limits in every)


# Caps count a node for the pods that it is launched for. A node for pods of several owners is shared out by their requests.


def share_of(part: Mapping[str, int], total: Mapping[str, int]) -> int:
    """Return the share of a node that its pods' requests give to some of them, in millionths, rounded up.

    It is the mean of their shares of each resource that any of the pods requests. Pods without requests count by number.

    Args:
        part: The sum of some pods' requests, `pods` among them.
        total: That of all pods of the node.
    """
    named = [name for name in sorted(total) if total[name] > 0 and name != quantity.PODS] or [quantity.PODS]
    shares = sum(-(-part.get(name, 0) * PPM // max(1, total.get(name, 0))) for name in named)
    return min(PPM, -(-shares // len(named)))


def share_in(amounts: Mapping[str, int], share: int) -> dict[str, int]:
    """Return a share of amounts, each rounded up: a part of a node counts as a node."""
    return {name: -(-amount * share // PPM) for name, amount in amounts.items()}


def with_charges(annotations: Mapping[str, str], shares: Mapping[str, int]) -> dict[str, str]:
    """Return a claim's annotations with the caps that count it, each with its share."""
    written = " ".join(f"{cap}={share}" for cap, share in sorted(shares.items()))
    return dict(sorted({**annotations, labels.CHARGED_TO: written}.items()))


def charges_of(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return cap → the share of the claim's node that it counts, in millionths; entries that are no such share are left out."""
    entries = (entry.rpartition("=") for entry in annotations.get(labels.CHARGED_TO, "").split())
    return {
        cap: min(PPM, int(share)) for cap, _, share in entries if cap and share.isdecimal() and len(share) < _DIGITS
    }


_DIGITS: Final = 10


# Prices of NodePools whose nodes run on dedicated hardware.


def is_dedicated(pool: NodePool) -> bool:
    """Whether the NodePool excludes shared hardware."""
    tenancy = template_requirements(pool).get(labels.TENANCY)
    return tenancy is not None and not tenancy.has(labels.SHARED_TENANCY)


def surcharged(instance_type: InstanceType, ppm: int) -> InstanceType:
    """Return the type at prices that are higher by these millionths; places in reservations stay paid for."""
    return msgspec.structs.replace(
        instance_type, offerings=tuple(_surcharged(offering, ppm) for offering in instance_type.offerings)
    )


def _surcharged(offering: Offering, ppm: int) -> Offering:
    if offering.capacity_type == labels.RESERVED:
        return offering
    return msgspec.structs.replace(offering, price=offering.price * (PPM + ppm) // PPM)


# Instance types of a NodePool, at the prices that its decisions use.


SNAPSHOTS_REMEMBERED: Final = 4
POOLS_REMEMBERED: Final = 16
TYPES_REMEMBERED: Final = 2_000


class PoolTypes:
    """The types that each NodePool of a snapshot may launch: the catalogue after feature gates, NodeOverlays and price changes.

    Launches and disruption use it too, so a node has the same price when it is launched and when it is replaced.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._keys = snapshot.catalogue.label_keys()
        self._pools = {pool.name: pool for pool in snapshot.node_pools}
        self._known: dict[str, tuple[InstanceType, ...]] = {}
        self._counted: dict[str, dict[str, InstanceType]] = {}
        self._by_name: dict[tuple[str, str], dict[str, InstanceType]] = {}
        self._classes: dict[str, tuple[InstanceType, ...]] = {}
        self._agreeing: tuple[NodeOverlay, ...] | None = None

    def of(self, pool: str, node_class: str = "") -> tuple[InstanceType, ...]:
        """Return the types of a NodePool by name; if it is gone or has another EC2NodeClass, the catalogue's for that class."""
        node_pool = self._pools.get(pool)
        if node_pool is None or (node_class and node_pool.node_class.name != node_class):
            return self._of_class(node_class)
        if pool not in self._known:
            self._known[pool] = self._compute(self._pools[pool])
        return self._known[pool]

    def by_name(self, pool: str, node_class: str = "") -> Mapping[str, InstanceType]:
        """Return the types of `of`, by name."""
        named = self._by_name.get((pool, node_class))
        if named is None:
            named = self._by_name[pool, node_class] = {
                instance_type.name: instance_type for instance_type in self.of(pool, node_class)
            }
        return named

    def counted_price(self, pool: str, node_labels: Mapping[str, str]) -> int:
        """Return what limits and caps in dollars count of a node an hour, by its labels; zero if its type has no price."""
        return node_price(node_labels, type_of(node_labels, self._counted_by_name(pool)))

    def counted_offering(self, pool: str, key: OfferingKey) -> int:
        """Return what limits and caps in dollars count of an offering of the NodePool an hour; zero if it has no price."""
        instance_type = self._counted_by_name(pool).get(key.instance_type)
        offerings = instance_type.offerings if instance_type is not None else ()
        return next((offering.price for offering in offerings if offering.key == key), 0)

    def _counted_by_name(self, pool: str) -> Mapping[str, InstanceType]:
        if pool not in self._counted:
            self._counted[pool] = {
                instance_type.name: instance_type for instance_type in self._counted_types(self._pools.get(pool))
            }
        return self._counted[pool]

    def _counted_types(self, pool: NodePool | None) -> tuple[InstanceType, ...]:
        """Return the types at the higher of two prices: the catalogue's, and that after NodeOverlays.

        A NodeOverlay that lowers a price, and a price factor, may only steer the choice; the bill does not follow them.
        """
        if pool is None:
            return self._of_class("")
        bare, overlaid = self._of_tenancy(pool, self._bare(pool)), self._of_tenancy(pool, self._overlaid(pool))
        if bare == overlaid:
            return bare
        return tuple(starmap(_at_higher_prices, zip(bare, overlaid, strict=True)))

    def _compute(self, pool: NodePool) -> tuple[InstanceType, ...]:
        types = self._of_tenancy(pool, self._overlaid(pool))
        if is_priced(pool):
            template = template_requirements(pool)
            counted = self._counted_types(pool)
            types = tuple(starmap(partial(_with_its_price, template), zip(types, counted, strict=True)))
        factors = pool.price_factors
        if not factors:
            return types
        return tuple(
            _weighed(instance_type, factors.get(instance_type.name.partition(".")[0], PER_MILLE))
            for instance_type in types
        )

    def _overlaid(self, pool: NodePool) -> tuple[InstanceType, ...]:
        types = self._bare(pool)
        if not self._snapshot.options.feature_gates.node_overlay:
            return types
        return _overlaid_for(self._overlays(), template_requirements(pool), self._keys).of(types)

    def _of_tenancy(self, pool: NodePool, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        surcharge = self._snapshot.options.dedicated_ppm
        if not surcharge or not is_dedicated(pool):
            return types
        return tuple(surcharged(instance_type, surcharge) for instance_type in types)

    def _bare(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self._of_class(pool.node_class.name)

    def _of_class(self, node_class: str) -> tuple[InstanceType, ...]:
        types = self._snapshot.catalogue.types_for(node_class)
        if self._snapshot.options.feature_gates.reserved_capacity:
            return types
        if node_class not in self._classes:
            self._classes[node_class] = tuple(_unreserved(instance_type) for instance_type in types)
        return self._classes[node_class]

    def _overlays(self) -> tuple[NodeOverlay, ...]:
        """The effective overlays, determined over all NodePools together."""
        if self._agreeing is None:
            pools = self._snapshot.node_pools
            offers = ((self._bare(pool), template_requirements(pool)) for pool in pools)
            self._agreeing = agreeing(self._snapshot.overlays, offers, self._keys)
        return self._agreeing


class _Overlaid:
    """Types under NodeOverlays for one NodePool, each computed once and cached across snapshots.

    A catalogue with thousands of offerings takes a third of a second.
    """

    def __init__(self, overlays: tuple[NodeOverlay, ...], template: Requirements, keys: frozenset[str]) -> None:
        self.subject = overlays, template, keys
        self._one = ByIdentity(self._compute, size=TYPES_REMEMBERED)

    def of(self, types: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
        """The types with the overlays that apply to the NodePool."""
        return tuple(map(self._one, types))

    def _compute(self, instance_type: InstanceType) -> InstanceType:
        return overlaid((instance_type,), *self.subject)[0]


_overlaid: list[_Overlaid] = []


def _overlaid_for(overlays: tuple[NodeOverlay, ...], template: Requirements, keys: frozenset[str]) -> _Overlaid:
    subject = overlays, template, keys
    entry = next((overlaid for overlaid in _overlaid if overlaid.subject == subject), None)
    if entry is None:
        entry = _Overlaid(*subject)
        _overlaid.insert(0, entry)
        del _overlaid[POOLS_REMEMBERED:]
    return entry


def _with_its_price(template: Requirements, instance_type: InstanceType, counted: InstanceType) -> InstanceType:
    """Return the type with what it costs at most as a capacity, so that a limit in dollars counts it as it counts CPU.

    The highest price among the offerings that the NodePool admits counts, whether or not they are available now.
    """
    prices = [o.price for o in counted.offerings if _may_buy(template, o)]
    capacity = {**instance_type.capacity, quantity.HOURLY: max(prices, default=0)}
    return msgspec.structs.replace(instance_type, capacity=capacity)


def _at_higher_prices(bare: InstanceType, overlaid_type: InstanceType) -> InstanceType:
    """Return a type whose offerings cost what the higher of two prices says."""
    if bare is overlaid_type:
        return bare
    pairs = zip(bare.offerings, overlaid_type.offerings, strict=True)
    offerings = tuple(msgspec.structs.replace(o, price=max(o.price, same.price)) for o, same in pairs)
    return msgspec.structs.replace(bare, offerings=offerings)


pool_types: Final = ByIdentity(PoolTypes, size=SNAPSHOTS_REMEMBERED)
"""The types of a snapshot's NodePools."""


def _weighed(instance_type: InstanceType, factor: int) -> InstanceType:
    if factor == PER_MILLE:
        return instance_type
    offerings = tuple(msgspec.structs.replace(o, price=o.price * factor // PER_MILLE) for o in instance_type.offerings)
    return msgspec.structs.replace(instance_type, offerings=offerings)


def _unreserved(instance_type: InstanceType) -> InstanceType:
    kept = tuple(o for o in instance_type.offerings if o.capacity_type != labels.RESERVED)
    return (
        msgspec.structs.replace(instance_type, offerings=kept)
        if len(kept) < len(instance_type.offerings)
        else instance_type
    )
