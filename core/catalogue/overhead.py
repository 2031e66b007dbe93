"""Computes the part of a node that pods cannot use: the reservations of kubelet and system, and the eviction threshold."""

from __future__ import annotations

from typing import Final

from core.catalogue.capacity import interface_pods, pod_count
from core.catalogue.shape import Shape
from core.catalogue.sizing import Sizing
from core.model.values import quantity, resources
from core.model.values.quantity import MIB

_CPU_BANDS: Final = ((1000, 600), (1000, 100), (2000, 50), (None, 25))
"""Width in millicores and share reserved of it in parts per ten thousand: EKS' own bootstrap formula."""

_MEMORY_PER_POD_MIB: Final = 11
_MEMORY_BASE_MIB: Final = 255
_STORAGE_RESERVED: Final = 2**30
_EVICTION_MEMORY: Final = 100 * MIB


def overhead(shape: Shape, sizing: Sizing, capacity: dict[str, int]) -> dict[str, int]:
    """Return the sum of kubeReserved, systemReserved and eviction threshold per resource, for the resources of the node."""
    total = resources.add(
        kube_reserved(shape, sizing), dict(sizing.kubelet.system_reserved), _eviction_threshold(sizing, capacity)
    )
    return {name: amount for name, amount in sorted(total.items()) if name in capacity and amount}


def kube_reserved(shape: Shape, sizing: Sizing) -> dict[str, int]:
    """Return the kubelet's reservations; the class's own values replace the defaults name by name."""
    if sizing.family.eni_limited_memory_overhead:
        pods = interface_pods(shape, sizing, reserved_enis=0)
    else:
        pods = pod_count(shape, sizing)
    defaults = {
        quantity.CPU: cpu_reserved_millicores(shape.v_cpu_info.default_v_cpus * 1000),
        quantity.MEMORY: (_MEMORY_PER_POD_MIB * pods + _MEMORY_BASE_MIB) * MIB,
        quantity.EPHEMERAL_STORAGE: _STORAGE_RESERVED,
    }
    return defaults | dict(sizing.kubelet.kube_reserved)


def cpu_reserved_millicores(millicores: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, each band rounded down."""
    reserved, left = 0, millicores
    for width, share in _CPU_BANDS:
        band = left if width is None else min(left, width)
        reserved += band * share // 10_000
        left -= band
    return reserved


def _eviction_threshold(sizing: Sizing, capacity: dict[str, int]) -> dict[str, int]:
    """The hard thresholds: 100 MiB of memory and a tenth of the storage unless set. Soft ones never count (Karpenter)."""
    memory, storage = sizing.kubelet.eviction_memory, sizing.kubelet.eviction_storage
    size = capacity[quantity.EPHEMERAL_STORAGE]
    return {
        quantity.MEMORY: _EVICTION_MEMORY if memory is None else memory.of(capacity[quantity.MEMORY]),
        quantity.EPHEMERAL_STORAGE: -(-size // 10) if storage is None else storage.of(size),
    }
