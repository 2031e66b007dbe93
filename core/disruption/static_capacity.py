"""Static NodePools: how many nodes they lack, which go if there are too many, and whether addresses are free for them.

Computes how many nodes a static NodePool lacks, and which go if it has too many (Karpenter's static capacity).

A claim that a running command replaces no longer counts; its replacement does. A leaving claim counts against `limits.nodes`
until it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final

import msgspec

from core import labels
from core.disruption.deletion_costs import disruption_cost
from core.disruption.prices import ReplacementOptions
from core.labels import HASH_VERSION
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import LAUNCHED, Condition, Cost, NodeClaim, Plan, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values import quantity
from core.model.values.requirements import Requirements
from core.pods import reschedulable
from core.pool_admission import admitted_types
from core.pools import SIMULATED, node_prices, pool_types, shared_limits, template_labels, template_requirements
from core.scheduling.new_node import room_of, used_by_pool

# Keeps the claims of static NodePools within the free addresses of subnets; plans for pods do so by constraints
# (docs/engineering/handbook/quotas-and-addresses.md).
#
# Only zones count in which every subnet of the EC2NodeClass has few addresses.


class AddressRoom:
    """The addresses that running nodes and the claims of a plan leave."""

    def __init__(self, snapshot: Snapshot, planned: Iterable[PlannedClaim] = ()) -> None:
        """`planned`: the claims for pods, which go first; each takes an address in every zone in which it may be launched."""
        self._snapshot = snapshot
        self._left = dict(snapshot.subnet_addresses)
        self._each = {node_class.name: node_class.addresses_per_node for node_class in snapshot.node_classes}
        self._scarce = {
            node_class.name: _scarce_zones(node_class.subnets, self._left) for node_class in snapshot.node_classes
        }
        for claim in planned if self._left else ():
            self._take_worst(claim)

    def fitting(self, claim: PlannedClaim, number: int) -> list[PlannedClaim]:
        """Return this many claims, or as many as there are addresses for.

        They keep all of their zones if each zone has room for all of them. If not, they go to zones with plenty of addresses,
        else each to the zone with the most.
        """
        if not any(zone in self._zones_of(claim) for zone in claim.zones):
            return [claim] * number
        before = dict(self._left)
        if all(self._take_worst(claim) for _ in range(number)):
            return [claim] * number
        self._left = before
        plenty = self._within(claim, [zone for zone in claim.zones if zone not in self._zones_of(claim)])
        if plenty is not None:
            return [plenty] * number
        fitted: list[PlannedClaim] = []
        by_zone = {zone: self._within(claim, [zone]) for zone in claim.zones}
        for _ in range(number):
            zones = (zone for zone, narrowed in by_zone.items() if narrowed is not None and self._has_room(claim, zone))
            zone = max(zones, key=lambda zone: (self._left[self._roomiest(claim, zone)], zone), default=None)
            narrowed = by_zone.get(zone) if zone is not None else None
            if zone is None or narrowed is None:
                break
            self._take(claim, zone)
            fitted.append(narrowed)
        return fitted

    def _within(self, claim: PlannedClaim, zones: list[str]) -> PlannedClaim | None:
        """Return the claim in these zones only, None if nothing, or less than minValues demand, can be launched there."""
        options = ReplacementOptions.of(msgspec.structs.replace(claim, zones=tuple(zones)), self._snapshot)
        return options.planned() if options.can_launch(self._snapshot.options.min_values_policy) else None

    def _take_worst(self, claim: PlannedClaim) -> bool:
        """Take an address in every zone of the claim; return whether each had one."""
        zones = [zone for zone in claim.zones if zone in self._zones_of(claim)]
        had_room = all(self._has_room(claim, zone) for zone in zones)
        for zone in zones:
            self._take(claim, zone)
        return had_room

    def _take(self, claim: PlannedClaim, zone: str) -> None:
        self._left[self._roomiest(claim, zone)] -= self._each[claim.node_class.name]

    def _has_room(self, claim: PlannedClaim, zone: str) -> bool:
        return self._left[self._roomiest(claim, zone)] >= self._each[claim.node_class.name]

    def _roomiest(self, claim: PlannedClaim, zone: str) -> str:
        return max(self._zones_of(claim)[zone], key=lambda subnet: self._left[subnet])

    def _zones_of(self, claim: PlannedClaim) -> dict[str, list[str]]:
        return self._scarce.get(claim.node_class.name, {})


def _scarce_zones(subnets: Iterable[tuple[str, str]], free: dict[str, int]) -> dict[str, list[str]]:
    """Return zone → its subnets, sorted, for the zones in which all of them have few addresses."""
    by_zone: dict[str, list[str]] = {}
    for subnet, zone in sorted(subnets):
        by_zone.setdefault(zone, []).append(subnet)
    return {
        zone: free_subnets for zone, free_subnets in by_zone.items() if all(subnet in free for subnet in free_subnets)
    }


# Keeps the claims of static NodePools within the limits and caps that these share; plans for pods do so by constraints.


class LimitRoom:
    """What running nodes and the claims of a plan leave of shared limits and of the caps that count all nodes."""

    def __init__(self, snapshot: Snapshot, planned: Iterable[PlannedClaim] = ()) -> None:
        """`planned`: the claims for pods, which go first; each takes the most that one of its types uses."""
        self._types = pool_types(snapshot)
        self._groups = {pool.name: tuple(sorted(pool.shared_limits)) for pool in snapshot.node_pools}
        self._left = self._unused(snapshot)
        for claim in planned if self._left else ():
            if self._groups_of(claim):
                self._take(claim, self._reserved(claim))

    def fitting(self, claim: PlannedClaim, number: int) -> tuple[int, str]:
        """Return how many of this many equal claims fit, which then count, and the group without room for more, if any."""
        reserved = self._reserved(claim) if self._groups_of(claim) else {}
        for taken in range(number if reserved else 0):
            for group in self._groups_of(claim):
                if any(amount < reserved.get(name, 0) for name, amount in self._left[group].items()):
                    return taken, group
            self._take(claim, reserved)
        return number, ""

    def _unused(self, snapshot: Snapshot) -> dict[str, dict[str, int]]:
        limits = shared_limits(snapshot.node_pools)
        if not limits:
            return {}
        members = [pool for pool in snapshot.node_pools if pool.shared_limits]
        states, leaving = list[StateNode](), list[StateNode]()
        for state in state_nodes(snapshot):
            (leaving if state.is_marked_for_deletion(snapshot) else states).append(state)
        launched = {state.claim_name for state in states}
        unlaunched = [
            claim for claim in snapshot.node_claims if claim.deleted_at is None and claim.name not in launched
        ]
        used = used_by_pool(states, members, unlaunched, node_prices(snapshot), leaving)
        return {
            group: room_of(
                of_group, quantity.add(*(used[pool.name] for pool in members if group in pool.shared_limits))
            )
            for group, of_group in limits.items()
        }

    def _take(self, claim: PlannedClaim, reserved: Mapping[str, int]) -> None:
        for group in self._groups_of(claim):
            self._left[group] = room_of(self._left[group], reserved)

    def _reserved(self, claim: PlannedClaim) -> dict[str, int]:
        """Return the most that the claim uses of each resource until it is launched."""
        wanted = frozenset(claim.instance_types)
        types = (t for t in self._types.of(claim.node_pool, claim.node_class.name) if t.name in wanted)
        return quantity.maximum(t.capacity for t in types) | {quantity.NODES: 1}

    def _groups_of(self, claim: PlannedClaim) -> tuple[str, ...]:
        return self._groups.get(claim.node_pool, ())


# Makes a claim from a NodePool's template alone, for no particular pod.


def template_claim(pool: NodePool, snapshot: Snapshot) -> PlannedClaim | None:
    """Return a claim for any type that the template allows; None if none can be launched now."""
    requirements, policy = template_requirements(pool), snapshot.options.min_values_policy
    types = admitted_types(pool_types(snapshot).of(pool.name), requirements, snapshot.catalogue.label_keys())
    all_options = _options_of(pool, types, requirements)
    if not all_options.can_launch(policy):
        return None
    limited = frozenset(name for limits in pool.shared_limits.values() for name in limits if name != quantity.NODES)
    if not limited:
        return all_options.planned()
    choices = (_options_of(pool, fitting, requirements) for fitting in _smallest_first(types, requirements, limited))
    return next((options.planned() for options in choices if options.can_launch(policy)), None)


def _options_of(pool: NodePool, types: Sequence[InstanceType], requirements: Requirements) -> ReplacementOptions:
    offerings = [offering for t in types for offering in _allowed(t, requirements)]
    claim = PlannedClaim(
        name=pool.name,
        node_pool=pool.name,
        node_class=pool.node_class,
        labels=template_labels(pool),
        annotations=_annotations(pool),
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        requirements=tuple(
            r for r in requirements.without(*SIMULATED, labels.NODEPOOL).values() if r.key not in pool.labels
        ),
        zones=tuple(sorted({o.zone for o in offerings})),
        capacity_types=tuple(sorted({o.capacity_type for o in offerings})),
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
    )
    return ReplacementOptions(claim, ()).with_types(types)


def _allowed(instance_type: InstanceType, requirements: Requirements) -> list[Offering]:
    return [o for o in instance_type.offerings if o.available and o.requirements().conflict(requirements) is None]


def _smallest_first(
    types: Sequence[InstanceType], requirements: Requirements, limited: frozenset[str]
) -> Iterator[Sequence[InstanceType]]:
    """Yield choices of types for a claim under a shared limit or cap, each wider than the one before.

    A claim reserves the largest of its types until it is launched, so that a large one would leave no room for any node. The
    first choice is no larger than the cheapest type in what is limited; minValues may need a wider one.
    """
    prices = {t.name: min((o.price for o in _allowed(t, requirements)), default=None) for t in types}
    offered = sorted(((price, t.name, t) for t in types if (price := prices[t.name]) is not None), key=lambda o: o[:2])
    most: dict[str, int] = {}
    for highest, _, cheapest in offered:
        most = {name: max(most.get(name, 0), cheapest.capacity.get(name, 0)) for name in limited - {quantity.HOURLY}}
        yield [
            t
            for price, _, t in offered
            if all(t.capacity.get(name, 0) <= amount for name, amount in most.items())
            and (quantity.HOURLY not in limited or price <= highest)
        ]


def _annotations(pool: NodePool) -> dict[str, str]:
    """Return the template's annotations, and its hash for the detection of drift."""
    if not pool.template_hash:
        return pool.annotations
    hashes = {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    return dict(sorted({**pool.annotations, **hashes}.items()))


CLAIMS_A_PLAN: Final = 1000
"""The most claims that one plan creates for a NodePool; the next plan creates more."""


def lacks_nodes(snapshot: Snapshot) -> bool:
    """Whether any static NodePool has fewer nodes than its replicas and may get more; false while the gate is off."""
    if not snapshot.options.feature_gates.static_capacity:
        return False
    short = [pool for pool in snapshot.node_pools if _lacking(snapshot, pool) > 0]
    limited = [pool for pool in short if pool.shared_limits]
    return len(limited) < len(short) or any(taken for _, _, taken, _ in _within_limits(limited, snapshot))


def static_claims(snapshot: Snapshot, planned: Sequence[PlannedClaim] = ()) -> tuple[PlannedClaim, ...]:
    """Return the claims that static NodePools lack, made from their templates; none while the gate is off.

    They stay within shared limits, caps and the free addresses of subnets. `planned`: the claims for pods of the same plan,
    which go first.
    """
    if not snapshot.options.feature_gates.static_capacity:
        return ()
    fitting = _within_limits(snapshot.node_pools, snapshot, planned)
    lacking = [(claim, taken) for claim, _, taken, _ in fitting if taken]
    if not lacking or not snapshot.subnet_addresses:
        return tuple(claim for claim, number in lacking for _ in range(number))

    room = AddressRoom(snapshot, planned)
    return tuple(placed for claim, number in lacking for placed in room.fitting(claim, number))


def _template_claims(pools: Iterable[NodePool], snapshot: Snapshot) -> list[tuple[PlannedClaim, int]]:
    """Return the claim of each pool that lacks nodes, with how many it lacks, by the pool's name."""
    return [
        (claim, number)
        for pool in sorted(pools, key=lambda pool: pool.name)
        if (number := _lacking(snapshot, pool)) and (claim := template_claim(pool, snapshot)) is not None
    ]


def _within_limits(
    pools: Iterable[NodePool], snapshot: Snapshot, planned: Sequence[PlannedClaim] = ()
) -> list[tuple[PlannedClaim, int, int, str]]:
    """Return the claim of each pool that lacks nodes: how many it lacks, how many fit, and the group that has no room for more.

    `planned`: the claims for pods of the same plan, which go first.
    """
    lacking = _template_claims(pools, snapshot)
    if not lacking or not any(pool.shared_limits for pool in snapshot.node_pools):
        return [(claim, number, number, "") for claim, number in lacking]
    room = LimitRoom(snapshot, planned)
    return [(claim, number, *room.fitting(claim, number)) for claim, number in lacking]


def waiting_for_limits(snapshot: Snapshot, planned: Sequence[PlannedClaim] = ()) -> dict[str, tuple[int, str]]:
    """Return static NodePool → how many of its nodes a shared limit or cap keeps out, and its group.

    `planned`: the claims for pods of the same plan, which go first.
    """
    limits_are_shared = any(pool.shared_limits for pool in snapshot.node_pools)
    if not limits_are_shared or not snapshot.options.feature_gates.static_capacity:
        return {}
    fitting = _within_limits(snapshot.node_pools, snapshot, planned)
    return {claim.node_pool: (number - taken, group) for claim, number, taken, group in fitting if group}


def waiting_for_addresses(
    snapshot: Snapshot, claims: Iterable[PlannedClaim], kept_out: Mapping[str, tuple[int, str]] = MappingProxyType({})
) -> dict[str, int]:
    """Return static NodePool → how many of its nodes are not among these claims for lack of free addresses.

    `kept_out`: those that wait for limits.
    """
    if not snapshot.options.feature_gates.static_capacity or not snapshot.subnet_addresses:
        return {}
    planned = Counter(claim.node_pool for claim in claims)
    for name, (number, _) in kept_out.items():
        planned[name] += number
    short = {pool.name: _lacking(snapshot, pool) - planned[pool.name] for pool in snapshot.node_pools}
    launchable = (pool.name for pool in snapshot.node_pools if short[pool.name] > 0 and template_claim(pool, snapshot))
    return {name: short[name] for name in sorted(launchable)}


def surplus(snapshot: Snapshot) -> tuple[NodeClaim, ...]:
    """Return the surplus claims of static NodePools, those with the least impact first.

    Claims without a node come first, then nodes without pods, then others by the cost of moving their pods; nodes with a pod
    that must not be disrupted come last (Karpenter). Ties go by name.
    """
    if not snapshot.options.feature_gates.static_capacity:
        return ()
    states = {state.claim.name: state for state in state_nodes(snapshot) if state.claim is not None}
    spare: list[NodeClaim] = []
    for pool in sorted(snapshot.node_pools, key=lambda pool: pool.name):
        if not _is_sized(pool):
            continue
        active = _active(snapshot, pool)
        ranked = sorted(active, key=lambda claim: (_missed(states.get(claim.name), snapshot), claim.name))
        spare += ranked[: max(0, len(active) - (pool.replicas or 0))]
    return tuple(spare)


def _lacking(snapshot: Snapshot, pool: NodePool) -> int:
    """Return how many claims to create for the pool."""
    if not _is_sized(pool) or pool.is_ready is False or pool.is_closed:
        return 0
    wanted = (pool.replicas or 0) - len(_active(snapshot, pool))
    limit = pool.limits.get(quantity.NODES)
    if limit is not None:
        wanted = min(wanted, limit - len(_claims_of(snapshot, pool)))
    return max(0, min(wanted, CLAIMS_A_PLAN))


def _is_sized(pool: NodePool) -> bool:
    """Whether the pool's number of nodes is maintained."""
    return pool.is_static and not pool.is_observed and not pool.problem and pool.deleted_at is None


def _claims_of(snapshot: Snapshot, pool: NodePool) -> list[NodeClaim]:
    return [claim for claim in snapshot.node_claims if claim.node_pool == pool.name]


def _active(snapshot: Snapshot, pool: NodePool) -> list[NodeClaim]:
    """Return the claims that count toward the replicas."""
    return [
        claim
        for claim in _claims_of(snapshot, pool)
        if claim.deleted_at is None and claim.name not in snapshot.marked_for_deletion
    ]


def _missed(state: StateNode | None, snapshot: Snapshot) -> tuple[int, int]:
    if state is None or state.node is None or state.claim is None:
        return 0, 0
    cost = disruption_cost(state.pods, state.claim, snapshot.now, snapshot.options.feature_gates)
    if any(pod.blocks_disruption(snapshot.now) for pod in state.pods):
        return 3, cost
    return (2, cost) if reschedulable(state.pods) else (1, 0)


# Plans for pods beside the nodes that static NodePools lack: those are launched anyway, and take pods while they boot.


def schedule_beside_static_nodes(snapshot: Snapshot, out_of_time: Callable[[], float] | None = None) -> Plan:
    """Return the plan in which pods may use the nodes that static NodePools lack; these come first in it, with their pods.

    Each is assumed to become its cheapest type in its first zone, as its launch asks for.
    """
    missing = tuple(
        msgspec.structs.replace(claim, name=f"{claim.node_pool}-{number}")
        for _, claims in groupby(static_claims(snapshot), key=lambda claim: claim.node_pool)
        for number, claim in enumerate(claims)
    )
    from core.scheduling.planner import schedule  # late: who only counts static nodes starts without the planner

    if not missing:
        return schedule(snapshot, out_of_time)
    booting = tuple(_booting(claim, snapshot) for claim in missing)
    plan = schedule(msgspec.structs.replace(snapshot, node_claims=(*snapshot.node_claims, *booting)), out_of_time)
    names = {claim.name for claim in missing}
    pods: dict[str, list[str]] = {name: [] for name in names}
    for binding in plan.bindings:
        if binding.node in names:
            pods[binding.node].append(binding.pod)
    static = tuple(msgspec.structs.replace(claim, pods=tuple(pods[claim.name])) for claim in missing)
    static_cost = sum(claim.price for claim in static)
    bound = plan.cost.lower_bound
    return msgspec.structs.replace(
        plan,
        claims=(*static, *plan.claims),
        bindings=tuple(binding for binding in plan.bindings if binding.node not in names),
        cost=Cost(plan.cost.hourly + static_cost, None if bound is None else bound + static_cost),
    )


def _booting(claim: PlannedClaim, snapshot: Snapshot) -> NodeClaim:
    """Return a static NodePool's claim as if its instance were booting."""
    kind = next(
        instance_type
        for instance_type in pool_types(snapshot).of(claim.node_pool)
        if instance_type.name == claim.instance_types[0]
    )
    zone = claim.zones[0]
    offered = [o for o in kind.offerings if o.available and o.zone == zone and o.capacity_type in claim.capacity_types]
    capacity_type = min(offered, key=lambda o: (o.price, o.capacity_type)).capacity_type if offered else ""
    single = {key: values[0] for key, values in kind.labels.items() if len(values) == 1}
    place = {labels.INSTANCE_TYPE: kind.name, labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type}
    return NodeClaim(
        name=claim.name,
        labels={**single, **claim.labels, **place, labels.NODEPOOL: claim.node_pool},
        annotations=claim.annotations,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        requirements=claim.requirements,
        node_class=claim.node_class,
        provider_id=f"planned:///{claim.name}",
        node_name=claim.name,
        capacity=kind.capacity,
        allocatable=kind.allocatable(),
        conditions={LAUNCHED: Condition("True", changed_at=snapshot.now)},
    )
