"""Texts of explanations."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from core import labels
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements
from core.pools import template_parts
from core.reasons.code import Refusal
from core.reasons.pods import RANK, PodReason
from core.scheduling.constraints.registry import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.instance_types import OFFERING_KEYS, meets, unmet
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate
from core.scheduling.pods import PodGroup, RelaxationStep
from core.scheduling.primitives import IMPOSSIBLE, RequirementId, TypeMask, positions, within

# Why a pod has no place, as data: what each NodePool lacks, and the pool that came nearest.


class PoolFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a pod off the nodes of one NodePool.

    Attributes:
        reason: A code, None if nothing does.
        message: The same for people, without the pool's name.
        ruled_out: How many instance types each constraint excluded; each type counts once, by the first constraint that it
            fails.
        nearest: The type that comes nearest to having room, and what it lacks; empty if room is not the reason.
        is_asked_for: Whether only its taint and limits keep the pod off, and the pod requests a device or a label that it has.
    """

    node_pool: str
    reason: str | None
    message: str
    ruled_out: dict[str, int] = {}
    nearest: str = ""
    is_asked_for: bool = False


class PodFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod has no place, over all NodePools: the code of the pool that came nearest."""

    reason: str
    message: str
    pools: tuple[PoolFinding, ...] = ()


def nearness(finding: PoolFinding) -> int:
    """Return how near a NodePool came, by its reason; one that nothing rules out is nearest.

    A taint keeps pods out deliberately: it ranks last, but before lack of room if the pod requests what the pool provides.
    """
    if finding.reason is None:
        return 2 * len(RANK)
    if finding.reason == PodReason.TAINT_NOT_TOLERATED:
        return 2 * RANK[PodReason.NO_OFFERING_FITS] + 1 if finding.is_asked_for else -1
    return 2 * RANK[finding.reason]


# Prices a new node for one pod alone.


class PodOffer(NamedTuple):
    """An instance type of a NodePool that holds a pod, with its lowest price in nano-dollars per hour."""

    price: int
    node_pool: str
    instance_type: str


def pod_offers(context: SchedulingContext, pod_group: PodGroup) -> list[PodOffer]:
    """Return every type of every NodePool that a pod of the group fits, cheapest first; rules about other pods are ignored."""
    prices: dict[tuple[str, str], int] = {}
    for step in pod_group.steps[-1:]:
        tolerated = context.open_templates(step)
        for template in (template for template in context.templates if tolerated[template.index]):
            types = template.types
            for alternative in step.alternatives:
                reqs = context.table.narrowed(template.offered, required=alternative)
                if reqs != IMPOSSIBLE:
                    fitting = types.room.fitting(types.mask(reqs) & template.mask, pod_group.requests)
                    for price, position in types.offerings.in_price_order(fitting, reqs):
                        key = (template.pool.name, types.types[position].name)
                        prices[key] = min(price, prices.get(key, price))
    return sorted(PodOffer(price, *key) for key, price in prices.items())


# Determines what a NodePool can launch at all, and which of its own requirements excludes everything.


class PoolOffers(msgspec.Struct, frozen=True, kw_only=True):
    """The instance types that a NodePool can launch, regardless of pods.

    Attributes:
        types: Names of those with an available offering, cheapest first.
        price: The lowest price among them in nano-dollars per hour; 0 if there is none.
        conflict: Position of the first requirement that, with those before it, excludes all types; None if types remain.
        before: How many types the requirements before it allow.
        missing: Label key → number of available values, for each `minValues` that cannot be met.
    """

    types: tuple[str, ...]
    price: int = 0
    conflict: int | None = None
    before: int = 0
    missing: Mapping[str, int] = {}


def pool_offers(template: NodeClaimTemplate) -> PoolOffers:
    """Return what the NodePool of a template can launch."""
    types = template.types
    in_order: dict[str, int] = {}
    for price, position in types.offerings.in_price_order(template.mask, template.offered):
        in_order.setdefault(types.types[position].name, price)
    conflict, before = _conflict(template) if not template.mask else (None, 0)
    return PoolOffers(
        types=tuple(in_order),
        price=next(iter(in_order.values()), 0),
        conflict=conflict,
        before=before,
        missing=unmet(types, template.mask, template.min_values, template.offered) if template.mask else {},
    )


def _conflict(template: NodeClaimTemplate) -> tuple[int | None, int]:
    """Return the position of the first requirement that leaves no type, and how many types remained before it."""
    types, parts = template.types, template_parts(template.pool)
    conjunction = _mask(template, types.table.conjunction(()))
    for position in range(len(template.pool.requirements)):
        mask = _mask(template, types.table.conjunction(parts[: position + 1]))
        if not mask:
            return position, conjunction.bit_count()
        conjunction = mask
    return None, conjunction.bit_count()


def _mask(template: NodeClaimTemplate, number: RequirementId) -> TypeMask:
    return TypeMask(0) if number == IMPOSSIBLE else template.types.mask(number)


RESERVED_BEYOND: Final = "its EC2NodeClass reserves more for the system (spec.kubelet) than any instance type has"
_VALUES_SHOWN: Final = 3
_GI: Final = 2**30


def shown(requirement: Requirement) -> str:
    """Format a requirement with an operator of Kubernetes."""
    bounds = [f">= {requirement.gte}"] if requirement.gte is not None else []
    bounds += [f"<= {requirement.lte}"] if requirement.lte is not None else []
    values = ", ".join(value or '""' for value in requirement.values)
    if bounds:
        return f"{requirement.key} {' and '.join(bounds)}"
    return f"{requirement.key} {requirement.operator}" + (f" [{values}]" if values else "")


def own_conflict(template: NodeClaimTemplate) -> str:
    """Name the NodePool's own requirement that excludes all instance types."""
    types, offered = template.types, template.types.table[template.offered]
    if not types.full:
        return "its EC2NodeClass has no instance type"
    if not types.sound:
        return RESERVED_BEYOND
    for key, requirement in offered.items():
        if key in OFFERING_KEYS and not types.offerings.mask(Requirements([requirement])):
            return f"no instance type meets its own requirements: none is on offer with {shown(requirement)}"
        if key not in OFFERING_KEYS and not types.labels.mask(requirement):
            return f"no instance type meets its own requirements: {unlike(template, types.full, requirement)}"
    offers = pool_offers(template)
    if offers.conflict is None:
        return "no instance type meets its own requirements and labels together"
    last = shown(template.pool.requirements[offers.conflict])
    before = "the only type" if offers.before == 1 else f"all {offers.before} types"
    return f"no instance type meets its own requirements: {last} excludes {before} that those before it allow"


def conflict(template: NodeClaimTemplate, alternative: RequirementId, demand_source: Callable[[str], str]) -> str:
    """Name the label that the NodePool's nodes lack, or whose value differs from the pod's requirement."""
    table = template.types.table
    offered, demanded = table[template.offered], table[alternative]
    key = offered.incompatibility(demanded, allow_undefined=table.well_known)
    if key is None:
        missing = sorted(key for key in table.needed(alternative) if key not in offered)
        return f"its nodes do not have {', '.join(missing)}"
    offer_text = f"it offers {shown(offered[key])}" if key in offered else "its nodes do not have the label"
    unknown = f"; no EC2NodeClass's subnets and no node tell which zone that is, use {labels.ZONE}"
    hint = unknown if key == labels.ZONE_ID else ""
    return f"{demand_source(key)} demands {shown(demanded[key])}, but {offer_text}{hint}"


def contradiction(pod_group: PodGroup, step: RelaxationStep) -> str:
    """Name the label for which the pod's requirements contradict each other."""
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    by_key: dict[str, list[Requirement]] = {}
    for requirement in (*pod_group.signature.spec.node_selector, *terms):
        by_key.setdefault(requirement.key, []).append(requirement)
    for key, demands in by_key.items():
        merged = Requirements(demands).get(key)
        if (
            merged is not None
            and merged.operator == "DoesNotExist"
            and any(r.operator != "DoesNotExist" for r in demands)
        ):
            return f"the pod's requirements contradict each other: they allow no value of {key}"
    return "the pod's requirements contradict each other or those of its volumes"


def unlike(template: NodeClaimTemplate, mask: TypeMask, requirement: Requirement) -> str:
    """Compare the requirement on a label with the values of the types."""
    exclusion = _own_exclusion(template, requirement)
    if exclusion is not None:
        return f"{shown(requirement)} is required, and NodePool {template.pool.name} excludes those types: {shown(exclusion)}"
    types = [template.types.types[position] for position in positions(mask)]
    if requirement.key == labels.INSTANCE_TYPE:
        values = {instance_type.name for instance_type in types}
    else:
        values = {value for instance_type in types for value in instance_type.labels.get(requirement.key, ())}
    if not values:
        return f"{shown(requirement)} is required, and its types do not have the label"
    some = _near(sorted(values), requirement)
    rest = f" and {len(values) - len(some)} more" if len(values) > len(some) else ""
    return f"{shown(requirement)} is required, and its types have {', '.join(some)}{rest}"


def _own_exclusion(template: NodeClaimTemplate, requirement: Requirement) -> Requirement | None:
    """Return the NodePool's own requirement that excludes all types with a label, if there are such types."""
    wanted = template.types.labels.mask(requirement)
    if not wanted:
        return None
    others = (other for other in template.pool.requirements if other.key not in OFFERING_KEYS and other != requirement)
    return next((other for other in others if not template.types.labels.mask(other) & wanted), None)


def not_offered(template: NodeClaimTemplate, mask: TypeMask, requirements: Requirements) -> str:
    """Compare the requirement on a zone, a capacity type or a reservation with the types' offerings."""
    types = [template.types.types[position] for position in positions(mask)]
    for key in sorted(set(OFFERING_KEYS) & set(requirements)):
        requirement = requirements[key]
        offered = {
            value
            for instance_type in types
            for offering in instance_type.offerings
            for value in offering.requirements().of(key).values
        }
        if not any(requirement.has(value) for value in offered):
            return f"{shown(requirement)} is required, and its types are offered with {', '.join(sorted(offered)) or 'none'}"
    return ""


def closed_reservation(
    snapshot: Snapshot, template: NodeClaimTemplate, mask: TypeMask, requirements: Requirements
) -> str:
    """Name a suitable capacity reservation with free places that takes no nodes yet, or no more; empty without one.

    The next one to begin comes before the one that ends last.
    """
    classes = (listed for listed in snapshot.node_classes if listed.name == template.pool.node_class.name)
    node_class = next(classes, None)
    begins = node_class.reservation_begins if node_class is not None else {}
    ends = node_class.reservation_ends if node_class is not None else {}
    beginnings = {
        offering.reservation_id
        for position in positions(mask if begins or ends else TypeMask(0))
        for offering in template.types.types[position].offerings
        if offering.reservation_id and offering.reservation_capacity and meets(offering, requirements)
    }
    for at, identity in sorted((begins[place], place) for place in beginnings if place in begins)[:1]:
        return f"capacity reservation {identity} takes nodes once it has begun, at {at:%Y-%m-%d %H:%M} UTC"
    for at, identity in sorted((ends[place], place) for place in beginnings if place in ends)[-1:]:
        return f"capacity reservation {identity} takes no more nodes, its nodes leave it at {at:%Y-%m-%d %H:%M} UTC"
    return ""


def _near(values: list[str], requirement: Requirement) -> list[str]:
    """Return a few of the values: the greatest if a greater one is required, else the neighbours of the required one."""
    if all(value.isdecimal() for value in values):
        values = sorted(values, key=int, reverse=requirement.gte is not None)
        return values[:_VALUES_SHOWN]
    place = bisect(values, requirement.values[0]) if requirement.values else 0
    start = max(0, min(place - 1, len(values) - _VALUES_SHOWN))
    return values[start : start + _VALUES_SHOWN]


def limits_left(limits: Mapping[str, int], remaining: Mapping[str, int]) -> str:
    """List the rest of each limit, with the limit itself."""
    return ", ".join(
        f"{name} {amount_of(max(0, n), name)} of {amount_of(limits[name], name)}" for name, n in remaining.items()
    )


def amount_of(amount: int, name: str) -> str:
    """Format large amounts of bytes in Gi, rounded up."""
    if name in ("memory", "ephemeral-storage") and amount >= _GI:
        return f"{-(-amount // _GI)}Gi"
    return quantity.render(amount, name)


# Applies the rules one by one and counts the instance types of a NodePool that each excludes for a pod.


DAEMONS_NAMED_MAX: Final = 3
"""How many DaemonSets a message names."""


class TypeElimination:
    """Eliminates the types of one NodePool, rule by rule, with counts.

    Attributes:
        left: Types that no rule has excluded.
    """

    def __init__(
        self,
        context: SchedulingContext,
        constraints: PlanConstraints,
        template: NodeClaimTemplate,
        pod_group: PodGroup,
        reqs: RequirementId,
    ) -> None:
        self.template = template
        self.pod_group = pod_group
        self.reqs = reqs
        self.left = template.types.full
        self.ruled_out: dict[str, int] = {}
        self.reason = ""
        self.nearest = ""
        self._context = context
        self._keep(template.mask, "its own requirements", PodReason.REQUIREMENT_NOT_MET)
        self._by_labels()
        self._by_offerings()
        blank = InFlightClaim(-1, template, reqs, template.mask, context.axis.zero)
        for constraint in constraints.concerning(pod_group):
            before = self.left
            self._keep(constraint.types(blank, pod_group), constraint.label, constraint.reason)
            if before and not self.left:
                self.nearest = constraint.nearest_miss(template, before, pod_group)
        self._by_room()

    def finding(self, reason: str | None = None, message: str = "") -> PoolFinding:
        """Return the result of the elimination, or the given finding if any type remains."""
        counted = [f"{count} by {name}" for name, count in self.ruled_out.items()]
        if counted and not self.left:
            counted[0] = counted[0].replace(" by ", " ruled out by ", 1)
            message = f"{message}; " * bool(message) + f"{_counted(self.template.types.full)}: {', '.join(counted)}"
        parts = [message, f"nearest: {self.nearest}" if self.nearest else ""]
        return PoolFinding(
            node_pool=self.template.pool.name,
            reason=reason if self.left else self.reason,
            message="; ".join(part for part in parts if part),
            ruled_out=self.ruled_out,
            nearest=self.nearest,
        )

    def refused(self, refusal: Refusal) -> PoolFinding:
        """Return the result of the elimination, or this refusal if any type remains."""
        return self.finding(refusal.reason, refusal.message)

    def _keep(self, mask: TypeMask, name: str, reason: PodReason) -> None:
        gone = (self.left & ~mask).bit_count()
        if gone:
            self.ruled_out[name] = self.ruled_out.get(name, 0) + gone
            self.left &= mask
            if not self.left:
                self.reason = reason

    def _by_labels(self) -> None:
        for key, requirement in self._context.table[self.reqs].items():
            if key not in OFFERING_KEYS and self.left:
                before = self.left
                self._keep(self.template.types.labels.mask(requirement), key, PodReason.REQUIREMENT_NOT_MET)
                self.nearest = "" if self.left else unlike(self.template, before, requirement)
        for key in sorted(self._context.table.needed(self.reqs)):
            self._keep(self.template.types.labels.mask(Requirement(key)), key, PodReason.REQUIREMENT_NOT_MET)

    def _by_offerings(self) -> None:
        types, requirements = self.template.types, self._context.table[self.reqs]
        sold_out = TypeMask(0)
        for position in positions(self.left & ~types.offerings.mask(requirements)):
            if any(meets(o, requirements) for o in types.types[position].offerings if not o.available):
                sold_out |= 1 << position
        before = self.left
        self._keep(
            ~(self.left & ~types.offerings.mask(requirements) & ~sold_out),
            "zone and capacity type",
            PodReason.REQUIREMENT_NOT_MET,
        )
        if before and not self.left:
            self.nearest = not_offered(self.template, before, requirements)
        mask = self.left
        self._keep(~sold_out, "unavailable offerings", PodReason.NO_OFFERING_AVAILABLE)
        if mask and not self.left:
            self.nearest = closed_reservation(self._context.snapshot, self.template, mask, requirements)

    def _by_room(self) -> None:
        types, axis = self.template.types, self._context.axis
        total = self.pod_group.requests
        nearness_of: dict[int, tuple[int, int, str, int]] = {}
        before, fitting = self.left, types.room.fitting(self.left, total)
        for position in positions(self.left & ~fitting):
            lacks = [
                (name, want - have)
                for name, want, have in zip(axis.names, total, types.room.vectors[position], strict=True)
                if want > have
            ]
            name, amount = lacks[0]
            self._keep(~TypeMask(1 << position), name, PodReason.NO_OFFERING_FITS)
            # Fewer missing resources is nearer; among equals, the smaller sum of the missing shares, in thousandths.
            share = sum(short * 1000 // max(1, total[axis.names.index(n)]) for n, short in lacks)
            nearness_of[position] = (len(lacks), share, name, amount)
        if not nearness_of or self.left:
            return
        empty = types.empty_rooms(axis)
        crowded = [position for position in nearness_of if within(total, empty[position])]
        position = min(crowded or nearness_of, key=lambda position: nearness_of[position][:2])
        name, amount = nearness_of[position][2:]
        rooms = [types.room.vectors[position] for position in positions(before)]
        absent = [n for i, n in enumerate(axis.names) if total[i] > 0 and all(room[i] <= 0 for room in rooms)]
        if crowded:
            self.nearest = self._crowd(position, name)
        elif absent:
            self.nearest = f"none of its types has {', '.join(absent)}"
        else:
            self.nearest = self._lack(types.types[position].name, name, amount, total[axis.names.index(name)])

    def _crowd(self, position: int, name: str) -> str:
        """Return which DaemonSets' pods take the room of a type that would be large enough without them, and what helps."""
        axis, types = self._context.axis, self.template.types
        column = axis.names.index(name)
        taking = [
            (daemon.requests[column], f"{daemon.source.namespace}/{daemon.source.name}")
            for daemon, (carriers, _) in zip(self._context.daemons, self.template.carriers, strict=True)
            if carriers >> position & 1 and daemon.requests[column]
        ]
        taking.sort(key=lambda taken: (-taken[0], taken[1]))
        named = [f"{daemon} {amount_of(amount, name)}" for amount, daemon in taking[:DAEMONS_NAMED_MAX]]
        named += [f"and {len(taking) - len(named)} more"] * (len(taking) > len(named))
        requested = amount_of(sum(amount for amount, _ in taking), name)
        offered = amount_of(types.empty_rooms(axis)[position][column], name)
        return (
            f"without DaemonSets' pods {types.types[position].name} would do, and they request {requested} of its {offered} "
            f"{name} ({', '.join(named)}): lower their requests, keep some of them off these nodes by node affinity or a "
            "taint, or allow larger types"
        )

    def _lack(self, instance_type: str, name: str, amount: int, needed: int) -> str:
        """Return what a type lacks; disk space is the EC2NodeClass's to give, whatever the type."""
        if name != "ephemeral-storage":
            return f"{instance_type} lacks {amount_of(amount, name)} {name}"
        gives, needs = amount_of(needed - amount, name), amount_of(needed, name)
        owner = self.template.pool.node_class.name
        return (
            f"EC2NodeClass {owner} gives a node {gives} of ephemeral-storage, and the pod needs {needs} beside the DaemonSets' "
            "pods: raise the volumeSize of its spec.blockDeviceMappings, or use instance stores (instanceStorePolicy: RAID0)"
        )


def _counted(mask: TypeMask) -> str:
    count = mask.bit_count()
    return f"{count} type{'' if count == 1 else 's'}"
