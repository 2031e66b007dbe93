"""How much of an instance its kubelet offers to pods (Kubernetes, node allocatable)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.model import quantity
from core.model.catalogue import InstanceType
from core.model.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from simulator.aws.user_data import KubeletConfig

_SIGNALS: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}
_MEMORY_KEPT: Final = 100 * 2**20
"""The kubelet's default eviction threshold for memory; for storage it is a tenth."""


def node_size(instance_type: InstanceType, config: KubeletConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and allocatable of a node of this type whose kubelet is set up like this."""
    capacity = dict(instance_type.capacity)
    if config.max_pods is not None:
        capacity[PODS] = config.max_pods
    if config.pods_per_core > 0:
        by_cores = config.pods_per_core * (capacity.get(CPU, 0) // 1000)
        capacity[PODS] = min(by_cores, capacity.get(PODS, by_cores))
    kept = {name: _kept(name, instance_type, config) for name in sorted(capacity)}
    left = {name: max(0, amount - kept[name]) for name, amount in capacity.items()}
    huge = sum(amount for name, amount in capacity.items() if name.startswith("hugepages-"))
    if MEMORY in left:
        left[MEMORY] = max(0, left[MEMORY] - huge)
    return capacity, left


def _kept(name: str, instance_type: InstanceType, config: KubeletConfig) -> int:
    overhead = instance_type.overhead.get(name, 0)
    total = instance_type.capacity.get(name, 0)
    usual = min(overhead, _default_threshold(name, total))
    threshold = _threshold(config.eviction_hard.get(_SIGNALS.get(name, "")), name, total, usual)
    reserved = config.kube_reserved.get(name)
    kube = overhead - usual if reserved is None else quantity.parse(reserved, name)
    return kube + _amount(config.system_reserved, name) + threshold


def _default_threshold(name: str, total: int) -> int:
    if name == MEMORY:
        return _MEMORY_KEPT
    return -(-total // 10) if name == EPHEMERAL_STORAGE else 0


def _threshold(written: str | None, name: str, total: int, usual: int) -> int:
    if written is None:
        return usual
    if not written.endswith("%"):
        return quantity.parse(written, name)
    share = round(float(written[:-1]) * 10_000)
    return 0 if share == 1_000_000 else -(-total * share // 1_000_000)


def _amount(amounts: Mapping[str, str], name: str) -> int:
    return quantity.parse(amounts[name], name) if name in amounts else 0
