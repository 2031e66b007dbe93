"""Tracks what the limits of a NodePool still allow. Limits are never exceeded: each new claim is charged its largest type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.model.node_claim import NodeClaim
from core.model.node_pool import NodePool
from core.model.state_node import StateNode
from core.model.values import quantity
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.primitives.handles import TypeMask


class RemainingLimits:
    """The remaining limits of one NodePool within one plan."""

    def __init__(self, limits: Mapping[str, int], used: Mapping[str, int]) -> None:
        self.left = {name: limits[name] - used.get(name, 0) for name in sorted(limits)}

    def copy(self) -> RemainingLimits:
        """Return an independent copy."""
        return RemainingLimits(self.left, {})

    @property
    def nodes_left(self) -> bool:
        """Whether the limit on the number of nodes allows one more."""
        return self.left.get(quantity.NODES, 1) >= 1

    def mask(self, types: TypeFilter, among: TypeMask) -> TypeMask:
        """Return those of the types of which one more could be launched: none if any limit is exceeded."""
        if not self.nodes_left:
            return TypeMask(0)
        for name, amount in self.left.items():
            if name != quantity.NODES:
                among &= types.room.capacities(name).at_most(amount)
        return among

    def charge(self, types: TypeFilter, mask: TypeMask) -> None:
        """Charge the limits for a claim that may become any of these types."""
        for name in self.left:
            self.left[name] -= largest_amount(types, mask, name)

    def refund(self, types: TypeFilter, mask: TypeMask) -> None:
        """Take a charge back."""
        for name in self.left:
            self.left[name] += largest_amount(types, mask, name)


def largest_amount(types: TypeFilter, mask: TypeMask, name: str) -> int:
    """Return the largest amount of a resource among these types; for the resource `nodes` it is one."""
    if name == quantity.NODES:
        return 1
    return types.room.capacities(name).largest(mask)


def used_by_pool(
    states: Iterable[StateNode], pools: Iterable[NodePool], unlaunched: Iterable[NodeClaim]
) -> dict[str, dict[str, int]]:
    """Return pool → its nodes' usage of the limits. Claims without an instance count with their requests."""
    used: dict[str, dict[str, int]] = {pool.name: {} for pool in pools}
    for state in states:
        own = used.get(state.node_pool)
        if own is not None:
            _count(own, state.capacity)
    for claim in unlaunched:
        own = used.get(claim.node_pool)
        if own is not None:
            _count(own, claim.resources)
    return used


def _count(used: dict[str, int], node: Mapping[str, int]) -> None:
    for name, amount in node.items():
        used[name] = used.get(name, 0) + amount
    used[quantity.NODES] = used.get(quantity.NODES, 0) + 1
