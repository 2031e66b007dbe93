"""Computes a node's capacity and allocatable (Kubernetes, node allocatable)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.model.values import quantity
from core.model.values.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from simulator.aws.ec2.user_data import KubeletConfig
from simulator.market.node_facts import NodeFacts

_SIGNALS: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}


def node_size(facts: NodeFacts, config: KubeletConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Return capacity and allocatable of a node with these facts and this kubelet configuration."""
    capacity = dict(facts.capacity)
    if config.max_pods is not None:
        capacity[PODS] = config.max_pods
    if config.pods_per_core > 0:
        by_cores = config.pods_per_core * (capacity.get(CPU, 0) // 1000)
        capacity[PODS] = min(by_cores, capacity.get(PODS, by_cores))
    kept = {name: _kept(name, facts, config) for name in sorted(capacity)}
    left = {name: max(0, amount - kept[name]) for name, amount in capacity.items()}
    huge = sum(amount for name, amount in capacity.items() if name.startswith("hugepages-"))
    if MEMORY in left:
        left[MEMORY] = max(0, left[MEMORY] - huge)
    return capacity, left


def _kept(name: str, facts: NodeFacts, config: KubeletConfig) -> int:
    reserved = config.kube_reserved.get(name)
    kube = facts.kube_reserved.get(name, 0) if reserved is None else quantity.parse(reserved, name)
    return kube + _amount(config.system_reserved, name) + _threshold(name, facts, config)


def _threshold(name: str, facts: NodeFacts, config: KubeletConfig) -> int:
    written = config.eviction_hard.get(_SIGNALS.get(name, ""))
    if written is None:
        return facts.evicted_at.get(name, 0)
    if not written.endswith("%"):
        return quantity.parse(written, name)
    share = round(float(written[:-1]) * 10_000)
    return 0 if share == 1_000_000 else -(-facts.capacity.get(name, 0) * share // 1_000_000)


def _amount(amounts: Mapping[str, str], name: str) -> int:
    return quantity.parse(amounts[name], name) if name in amounts else 0
