"""Applies a NodePool's bound on the size of new nodes: the loss of a large node disrupts many pods."""

from __future__ import annotations

from collections.abc import Mapping

from core.model.values import quantity
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import TypeMask


def sizes_of(types: TypeFilter, mask: TypeMask, largest: Mapping[str, int]) -> tuple[TypeMask, ...]:
    """Return the sets of types to open a node from, tried in order.

    First the types within the bound; then, for a pod that fits none of them, the larger ones in steps of CPU size, so that its
    node is no larger than the pod needs.

    Args:
        types: The NodePool's.
        mask: The types that it may launch.
        largest: The most CPU and memory of a node, see `NodePool.largest_node`; empty for any size.
    """
    small = mask
    for resource, most in sorted(largest.items()):
        small &= types.room.capacities(resource).at_most(most)
    by_cpu: dict[int, TypeMask] = {}
    for position in positions(mask & ~small):
        cpu = types.types[position].capacity.get(quantity.CPU, 0)
        by_cpu[cpu] = by_cpu.get(cpu, TypeMask(0)) | 1 << position
    return (small, *(by_cpu[cpu] for cpu in sorted(by_cpu)))
