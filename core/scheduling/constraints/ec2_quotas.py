"""Applies EC2's vCPU quotas to a plan that would exceed one.

Most plans are far from every quota: the finished plan is only compared with them. If it exceeds one, this constraint becomes
part of the plan: each claim has one capacity type, and is charged its largest type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from core import labels
from core.commitments import Coverage
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.plan import NodeClaim
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.model.values import quantity
from core.model.values.quantity import add, subtract
from core.model.values.quotas import quota_of
from core.model.values.requirements import Requirement, Requirements
from core.pools import node_prices, shared_limits
from core.reasons.code import Refusal
from core.reasons.pods import QuotaSpent, QuotasSpent
from core.scheduling.constraints.caps import RemainingCaps
from core.scheduling.constraints.constraint import CommitmentCharges, Constraint, PlanStart
from core.scheduling.constraints.registry import ConstraintTypes
from core.scheduling.existing_node import ExistingNode
from core.scheduling.instance_types import TypeFilter, unmet
from core.scheduling.new_node import (
    ClaimDraft,
    InFlightClaim,
    NodeClaimTemplate,
    RemainingLimits,
    room_of,
    used_by_pool,
)
from core.scheduling.primitives import IMPOSSIBLE, TypeMask, positions
from core.spending import spending_of

if TYPE_CHECKING:
    from core.scheduling.addresses import RemainingAddresses


# Tracks what EC2's vCPU quotas still allow: all NodePools share them; each capacity type has its own.
#
# Amounts are in the unit of `quantity.CPU`; EC2 counts a type's default vCPUs, which are its capacity.


VCPU: Final = 1000
"""One vCPU in the unit of `quantity.CPU`."""

Charge = Mapping[str, int]
"""Quota code → the most that a claim may use of it."""


class RemainingQuotas:
    """The remaining vCPU quotas of one cluster within one plan.

    Attributes:
        left: Quota code → the rest of it, negative if usage exceeds it. Other quotas are unknown and limit nothing.
    """

    def __init__(self, remaining: Mapping[str, int]) -> None:
        self.left = dict(remaining)

    def copy(self) -> RemainingQuotas:
        """Return an independent copy."""
        return RemainingQuotas(self.left)

    def mask(self, types: TypeFilter, among: TypeMask, capacity_type: str) -> TypeMask:
        """Return those of the types of which one more could be launched with a capacity type."""
        vcpus = types.room.capacities(quantity.CPU)
        for code, members in types.quota_members(capacity_type).items():
            if code in self.left:
                among &= ~members | vcpus.at_most(max(0, self.left[code]))
        return among

    def charge_of(self, types: TypeFilter, mask: TypeMask, capacity_type: str) -> Charge:
        """Return the most that a claim of these types may use of each quota."""
        vcpus = types.room.capacities(quantity.CPU)
        members = types.quota_members(capacity_type)
        most = {code: vcpus.largest(mask & members[code]) for code in sorted(self.left) if code in members}
        return {code: amount for code, amount in most.items() if amount}

    def take(self, charge: Charge) -> None:
        """Charge a claim."""
        for code, amount in charge.items():
            self.left[code] -= amount

    def refund(self, charge: Charge) -> None:
        """Take a charge back."""
        for code, amount in charge.items():
            self.left[code] += amount


def launch_capacity_type(claim: InFlightClaim, among: TypeMask) -> str:
    """Return the capacity type that a claim of these types is requested with.

    It is reserved if the claim holds a reservation, else spot unless on-demand capacity is cheaper (Karpenter's launch filter,
    which does not apply with minValues).
    """
    if claim.reservations:
        return labels.RESERVED
    spot, on_demand = (_cheapest(claim, among, capacity_type) for capacity_type in (labels.SPOT, labels.ON_DEMAND))
    is_spot = spot is not None and (on_demand is None or bool(claim.min_values) or spot <= on_demand)
    return labels.SPOT if is_spot else labels.ON_DEMAND


def _cheapest(claim: InFlightClaim, among: TypeMask, capacity_type: str) -> int | None:
    types = claim.template.types
    reqs = types.table.with_value(claim.reqs, labels.CAPACITY_TYPE, capacity_type)
    return None if reqs == IMPOSSIBLE else types.offerings.cheapest(among, reqs)


def no_larger_than_cheapest(claim: InFlightClaim, among: TypeMask, capacity_type: str, *, times: int = 1) -> TypeMask:
    """Return those of a claim's types that share the quota of its cheapest one and have at most `times` its vCPUs."""
    types = claim.template.types
    reqs = types.table.with_value(claim.reqs, labels.CAPACITY_TYPE, capacity_type)
    cheapest = types.types[next(types.offerings.positions_in_price_order(among, reqs))]
    code = quota_of(cheapest.name).code(capacity_type)
    small = types.room.capacities(quantity.CPU).at_most(times * cheapest.capacity.get(quantity.CPU, 0))
    return among & types.quota_members(capacity_type)[code] & small


def quotas_left(
    quotas: Mapping[str, int],
    states: Iterable[StateNode],
    unlaunched: Iterable[NodeClaim],
    types: Iterable[InstanceType],
) -> dict[str, int]:
    """Return quota code → the rest of it after the cluster's nodes and claims.

    Args:
        quotas: Quota code → vCPUs that the cluster may run.
        states: Its nodes; leaving ones count until they are gone. Nodes that we do not manage are left out.
        unlaunched: Claims without an instance; each counts at the largest of its types.
        types: All instance types.
    """
    vcpus_left = {code: quotas[code] * VCPU for code in sorted(quotas)}
    vcpus = {instance_type.name: instance_type.capacity.get(quantity.CPU, 0) for instance_type in types}
    for state in states:
        if state.is_managed:
            name = state.labels.get(labels.INSTANCE_TYPE, "")
            amount = state.capacity.get(quantity.CPU) or vcpus.get(name, 0)
            _take(vcpus_left, name, state.labels.get(labels.CAPACITY_TYPE, ""), amount)
    for claim in unlaunched:
        admitted = {r.key: r.values for r in claim.requirements if not r.complement}
        kinds = admitted.get(labels.CAPACITY_TYPE, (labels.ON_DEMAND,))
        if kinds != (labels.RESERVED,) and admitted.get(labels.INSTANCE_TYPE):
            amount, largest = max((vcpus.get(name, 0), name) for name in admitted[labels.INSTANCE_TYPE])
            _take(vcpus_left, largest, labels.SPOT if labels.SPOT in kinds else labels.ON_DEMAND, amount)
    return vcpus_left


def _take(vcpus_left: dict[str, int], instance_type: str, capacity_type: str, amount: int) -> None:
    """Charge an instance. A capacity reservation counts as a whole when it is created, so its instances add nothing."""
    code = "" if capacity_type == labels.RESERVED else quota_of(instance_type).code(capacity_type)
    if code in vcpus_left:
        vcpus_left[code] -= amount


# Fits the claims of a plan into EC2's vCPU quotas without planning again: it drops alternatives that could exceed one.
#
# A plan rarely comes near a quota. If the largest types of its claims would exceed one, the claims keep only types nearer in
# size to their cheapest one; if even these exceed it, another plan is needed.


TIMES: Final = (8, 4, 2, 1)
"""Bounds on the vCPUs of a claim's types, as multiples of its cheapest type's: the loosest that fits is used."""


class _Open(NamedTuple):
    """A claim, its remaining types, and the capacity type that it would be requested with."""

    claim: InFlightClaim
    types: TypeMask
    capacity_type: str


def fit(claims: Sequence[InFlightClaim], quotas: RemainingQuotas) -> bool:
    """Restrict claims so that all of them fit together, and return whether they do; if not, none is changed."""
    charged = [open_claim for open_claim in map(_open, claims) if open_claim.capacity_type != labels.RESERVED]
    exceeded = _exceeded(((open_claim, open_claim.types) for open_claim in charged), quotas)
    if not exceeded:
        return True
    for times in TIMES:
        kept = [_kept(open_claim, exceeded, times) for open_claim in charged]
        if not _exceeded(zip(charged, kept, strict=True), quotas):
            for open_claim, types in zip(charged, kept, strict=True):
                if types != open_claim.types:
                    open_claim.claim.allowed &= types
            return True
    return False


def _open(claim: InFlightClaim) -> _Open:
    fitting = claim.fitting_types
    return _Open(claim, fitting, launch_capacity_type(claim, fitting))


def _exceeded(claims: Iterable[tuple[_Open, TypeMask]], quotas: RemainingQuotas) -> frozenset[str]:
    """Return the codes of quotas that the claims may exceed, each at the largest of these types."""
    after = quotas.copy()
    charged = set[str]()
    for open_claim, types in claims:
        charge = quotas.charge_of(open_claim.claim.template.types, types, open_claim.capacity_type)
        charged.update(charge)
        after.take(charge)
    return frozenset(code for code in charged if after.left[code] < 0)


def _kept(open_claim: _Open, exceeded: frozenset[str], times: int) -> TypeMask:
    """Return the claim's types without those that take too much of an exceeded quota; all of them if minValues need more."""
    members = open_claim.claim.template.types.quota_members(open_claim.capacity_type)
    limited = TypeMask(0)
    for code in sorted(exceeded & members.keys()):
        limited |= members[code]
    small = no_larger_than_cheapest(open_claim.claim, open_claim.types, open_claim.capacity_type, times=times)
    kept = open_claim.types & ~(limited & ~small)
    return (
        open_claim.types
        if unmet(open_claim.claim.template.types, kept, open_claim.claim.min_values, open_claim.claim.reqs)
        else kept
    )


_CHARGED: Final = (labels.SPOT, labels.ON_DEMAND)
"""Capacity types with quotas, in the order of preference at equal price; a reservation was charged when it was created."""


class Ec2Quotas(Constraint):
    """The remaining vCPU quotas of the plan."""

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self._quotas = RemainingQuotas(start.quotas)
        self._charges: dict[int, Charge] = {}
        self._has_refused = False
        self._refusing: frozenset[str] = frozenset()

    def copy(self) -> Ec2Quotas:
        """Return an independent copy of the remaining quotas."""
        other = Ec2Quotas(self._start)
        other._quotas, other._charges = self._quotas.copy(), dict(self._charges)
        other._has_refused, other._refusing = self._has_refused, self._refusing
        return other

    @property
    def changes_drafts(self) -> bool:
        """Always true: each claim reduces the quotas."""
        return True

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft with one capacity type besides reserved, and types that fit its quotas; impossible if none does."""
        choices = [choice for choice in self._choices(draft) if choice.is_possible and not choice.missing_values()]
        if choices:
            return min(choices, key=lambda choice: choice.price)
        self._has_refused = True
        self._refusing |= self._codes(draft)
        return draft.narrowed(IMPOSSIBLE)

    def _codes(self, draft: ClaimDraft) -> frozenset[str]:
        """Return the codes of known quotas that the draft's remaining types count in, with either capacity type."""
        fitting = draft.fitting_types
        members = draft.template.types.quota_members
        return frozenset(
            code
            for capacity_type in _CHARGED
            for code, those in members(capacity_type).items()
            if code in self._quotas.left and those & fitting
        )

    def _choices(self, draft: ClaimDraft) -> Iterator[ClaimDraft]:
        reserved = draft.narrowed(self._table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED))
        also = (labels.RESERVED,) if reserved.is_possible else ()
        for capacity_type in _CHARGED:
            requirements = Requirements([Requirement.one_of(labels.CAPACITY_TYPE, capacity_type, *also)])
            narrowed = draft.narrowed(self._table.narrowed(draft.reqs, required=self._table.intern(requirements)))
            if narrowed.is_possible:
                yield narrowed.restricted_to(self._quotas.mask(draft.template.types, draft.allowed, capacity_type))
        if also:
            yield reserved

    def open(self, claim: InFlightClaim) -> None:
        """Charge the quotas for the largest type that the claim may become."""
        charge = self._charge(claim, claim.fitting_types)
        self._charges[claim.index] = charge
        self._quotas.take(charge)

    def make_room(self, claims: Sequence[InFlightClaim], restrict: Callable[[InFlightClaim, TypeMask], None]) -> bool:
        """Restrict claims to types no larger than their cheapest if a quota kept pods out."""
        if not self._has_refused:
            return False
        self._has_refused = False
        made = [self._made_smaller(claim, restrict) for claim in claims if self._charges[claim.index]]
        return any(made)

    def _made_smaller(self, claim: InFlightClaim, restrict: Callable[[InFlightClaim, TypeMask], None]) -> bool:
        fitting = claim.fitting_types
        small = no_larger_than_cheapest(claim, fitting, launch_capacity_type(claim, fitting))
        if unmet(claim.template.types, small, claim.min_values, claim.reqs):
            small = fitting
        before, after = self._charges[claim.index], self._charge(claim, small)
        if after == before:
            return False
        self._quotas.refund(before)
        self._quotas.take(after)
        self._charges[claim.index] = after
        restrict(claim, small)
        return any(after.get(code, 0) < amount for code, amount in before.items())

    def _charge(self, claim: InFlightClaim, among: TypeMask) -> Charge:
        capacity_type = launch_capacity_type(claim, among)
        return (
            {}
            if capacity_type == labels.RESERVED
            else self._quotas.charge_of(claim.template.types, among, capacity_type)
        )

    def shortage(self, draft: ClaimDraft) -> Refusal:
        """Name the exhausted quotas, their remainders, and the least that would be enough."""
        types = draft.template.types
        fitting = draft.fitting_types
        _, capacity_types = types.offerings.zones_and_capacity_types(fitting, draft.reqs)
        least: dict[str, tuple[int, str]] = {}
        for capacity_type in (kind for kind in _CHARGED if kind in capacity_types):
            for instance_type in (types.types[position] for position in positions(fitting)):
                quota, vcpus = quota_of(instance_type.name), instance_type.capacity.get(quantity.CPU, 0)
                code = quota.code(capacity_type)
                if code in self._quotas.left:
                    least[code] = min(least.get(code, (vcpus, "")), (vcpus, quota.described(capacity_type)))
        spent = (
            QuotaSpent(quota, max(0, self._quotas.left[code]) // VCPU, vcpus // VCPU)
            for code, (vcpus, quota) in sorted(least.items())
        )
        return QuotasSpent(tuple(spent))

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Whether none of the claim's quotas refused a pod; for those that did, the greedy plan decides who gets the rest."""
        return self._refusing.isdisjoint(self._charge(claim, claim.fitting_types))

    def replace(self, replaced: Sequence[InFlightClaim], cheaper: Sequence[InFlightClaim]) -> bool:
        """Restrict the claims found to types that fit beside all other claims, and charge them; return False if none fit."""
        quotas = self._quotas.copy()
        for claim in replaced:
            quotas.refund(self._charge(claim, claim.fitting_types))
        if not fit(cheaper, quotas):
            return False
        for claim in cheaper:
            quotas.take(self._charge(claim, claim.fitting_types))
        self._quotas = quotas
        return True


# What limits outside the nodes leave for a plan: NodePool limits, EC2 quotas, free addresses and commitments.


class RemainingCapacity:
    """What running nodes and claims leave of each limit, counted once for all plans of a snapshot.

    Attributes:
        quotas: EC2's quota code → vCPUs that nodes and claims leave of it.
        addresses: The free addresses of subnets; None if all have plenty.
        charges: How much of commitments launches would use.
        caps: What is left of caps that count nodes by their pods.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: Sequence[ExistingNode],
        templates: Sequence[NodeClaimTemplate],
        coverage: Coverage,
    ) -> None:
        self._nodes = nodes
        self._pools = tuple(template.pool for template in templates)
        self._coverage = coverage
        unlaunched = _unlaunched(snapshot, nodes)
        staying = [node.state for node in nodes if not node.is_leaving]
        leaving = [node.state for node in nodes if node.is_leaving]
        self._price_of = node_prices(snapshot)
        self._spending_of = partial(spending_of, snapshot)
        self._shared = shared_limits(snapshot.node_pools)
        self._members = {
            group: [pool for pool in snapshot.node_pools if group in pool.shared_limits] for group in self._shared
        }
        counted = {pool.name: pool for pool in (*self._pools, *chain.from_iterable(self._members.values()))}
        self._used = used_by_pool(staying, counted.values(), unlaunched, self._price_of, leaving)
        self.quotas = _quotas(snapshot, nodes, unlaunched)
        self.addresses = _free_addresses(snapshot, templates)
        self.charges = CommitmentCharges(coverage.commitments, templates)
        self.caps = RemainingCaps(snapshot, [node.state for node in nodes], unlaunched, self._price_of)

    def limits(self, vanished: Iterable[int]) -> tuple[RemainingLimits, ...]:
        """Return for each template the rest of its NodePool's limits, those of its groups among them.

        Leaving and vanished nodes use nothing, but cost their price: their replacements are launched before they are gone.
        """
        freed: dict[str, list[StateNode]] = {}
        for position in vanished:
            state = self._nodes[position].state
            freed.setdefault(state.node_pool, []).append(state)

        def used(pool: NodePool) -> dict[str, int]:
            gone = used_by_pool(freed.get(pool.name, ()), (pool,), ())[pool.name]
            return subtract(self._used[pool.name], {name: gone[name] for name in gone if name != quantity.HOURLY})

        rooms = {
            group: room_of(limits, add(*map(used, self._members[group]))) for group, limits in self._shared.items()
        }
        return tuple(
            RemainingLimits(
                room_of(pool.limits, used(pool)),
                {group: rooms[group] for group in pool.shared_limits},
                self._spending_of,
            )
            for pool in self._pools
        )

    def uncommitted(self, vanished: Iterable[int]) -> tuple[int, ...]:
        """Return for each commitment in force the amount that nodes leave unused; vanished nodes use nothing."""
        amounts = self._coverage.without(self._nodes[position].name for position in vanished)
        return tuple(amounts[commitment.name] for commitment in self._coverage.commitments)

    def committed_worth(self) -> int:
        """Return the most that commitments can save on new nodes, in nano-dollars per hour."""
        return sum(self.charges.worth(position, amount) for position, amount in enumerate(self.uncommitted(())))

    def broken_by(self, claims: Sequence[InFlightClaim], constraints: ConstraintTypes) -> ConstraintTypes:
        """Restrict a plan's claims so that they keep to quotas and free addresses; return the constraints that they break.

        Constraints that the plan already keeps to are not checked again.
        """
        # Addresses close zones, and a quota's charge depends on the zones that are left.
        return (*self._broken_addresses(claims, constraints), *self._broken_quotas(claims, constraints))

    def _broken_quotas(self, claims: Sequence[InFlightClaim], constraints: ConstraintTypes) -> ConstraintTypes:
        if not self.quotas or Ec2Quotas in constraints:
            return ()
        return () if fit(claims, RemainingQuotas(self.quotas)) else (Ec2Quotas,)

    def _broken_addresses(self, claims: Sequence[InFlightClaim], constraints: ConstraintTypes) -> ConstraintTypes:
        if self.addresses is None:
            return ()
        from core.scheduling.addresses import fitted
        from core.scheduling.constraints.free_addresses import FreeAddresses

        if FreeAddresses in constraints or fitted(claims, self.addresses) is not None:
            return ()
        return (FreeAddresses,)


def _unlaunched(snapshot: Snapshot, nodes: Sequence[ExistingNode]) -> list[NodeClaim]:
    """Return the claims without an instance, except leaving ones."""
    launched = {node.state.claim_name for node in nodes}
    return [c for c in snapshot.node_claims if c.name not in launched and c.deleted_at is None]


def _quotas(snapshot: Snapshot, nodes: Sequence[ExistingNode], unlaunched: Sequence[NodeClaim]) -> dict[str, int]:
    """Return the rest of each quota. Nodes that a plan removes still count: their replacements launch before they go."""
    if not snapshot.vcpu_quotas:
        return {}
    every = (snapshot.catalogue.default, *snapshot.catalogue.by_node_class.values())
    types = {instance_type.name: instance_type for types in every for instance_type in types}
    return quotas_left(snapshot.vcpu_quotas, [node.state for node in nodes], unlaunched, types.values())


def _free_addresses(snapshot: Snapshot, templates: Sequence[NodeClaimTemplate]) -> RemainingAddresses | None:
    """Return the free addresses of subnets. Nodes that a plan removes keep theirs until their replacements run."""
    if not snapshot.subnet_addresses:
        return None
    from core.scheduling.addresses import RemainingAddresses

    return RemainingAddresses.of(snapshot, templates)
