"""Tracks what EC2's vCPU quotas still allow: all NodePools share them; each capacity type has its own.

Amounts are in the unit of `quantity.CPU`; EC2 counts a type's default vCPUs, which are its capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_claim import NodeClaim
from core.model.state_node import StateNode
from core.model.values import quantity
from core.model.values.vcpu_quotas import quota_of
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.requirement_table import IMPOSSIBLE

VCPU: Final = 1000
"""One vCPU in the unit of `quantity.CPU`."""

Charge = Mapping[str, int]
"""Quota code → the most that a claim may use of it."""


class RemainingQuotas:
    """The remaining vCPU quotas of one cluster within one plan.

    Attributes:
        left: Quota code → the rest of it, negative if usage exceeds it. Other quotas are unknown and limit nothing.
    """

    def __init__(self, left: Mapping[str, int]) -> None:
        self.left = dict(left)

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
    left = {code: quotas[code] * VCPU for code in sorted(quotas)}
    vcpus = {found.name: found.capacity.get(quantity.CPU, 0) for found in types}
    for state in states:
        if state.is_managed:
            name = state.labels.get(labels.INSTANCE_TYPE, "")
            amount = state.capacity.get(quantity.CPU) or vcpus.get(name, 0)
            _take(left, name, state.labels.get(labels.CAPACITY_TYPE, ""), amount)
    for claim in unlaunched:
        admitted = {r.key: r.values for r in claim.requirements if not r.complement}
        kinds = admitted.get(labels.CAPACITY_TYPE, (labels.ON_DEMAND,))
        if kinds != (labels.RESERVED,) and admitted.get(labels.INSTANCE_TYPE):
            amount, largest = max((vcpus.get(name, 0), name) for name in admitted[labels.INSTANCE_TYPE])
            _take(left, largest, labels.SPOT if labels.SPOT in kinds else labels.ON_DEMAND, amount)
    return left


def _take(left: dict[str, int], instance_type: str, capacity_type: str, amount: int) -> None:
    """Charge an instance. A capacity reservation counts as a whole when it is created, so its instances add nothing."""
    code = "" if capacity_type == labels.RESERVED else quota_of(instance_type).code(capacity_type)
    if code in left:
        left[code] -= amount
