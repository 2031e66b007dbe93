"""Recorded sizes of nodes of EC2's instance types, independent of our catalogue's computation.

`data/us-east-1.node-facts.tsv` says where its figures come from. A catalogue of a scenario's own states its sizes itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from core.model.catalogue import InstanceType
from core.model.values.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, NVIDIA_GPU, PODS

FILE: Final = Path(__file__).parent.parent / "data" / "us-east-1.node-facts.tsv"

_MIB: Final = 2**20
_MEMORY_EVICTED_AT: Final = 100 * _MIB
_STORAGE: Final = 20 * 2**30
_STORAGE_RESERVED: Final = 2**30
"""The root volume of a class that names none, and what kubelets keep of it (the same for all types in the recording)."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose kubelet has only its image's configuration.

    Attributes:
        kube_reserved: What the kubelet keeps for itself.
        evicted_at: The amounts that must stay free: below these, the kubelet evicts pods.
    """

    capacity: dict[str, int]
    kube_reserved: dict[str, int]
    evicted_at: dict[str, int]


def recorded_facts(instance_type: InstanceType) -> NodeFacts:
    """Return the recorded facts of a type; without a record (other types, non-NVIDIA devices), what the catalogue states."""
    stated, recorded = stated_facts(instance_type), recording().get(instance_type.name)
    if recorded is None:
        return stated
    return NodeFacts(
        capacity=stated.capacity | recorded.capacity,
        kube_reserved=recorded.kube_reserved,
        evicted_at=recorded.evicted_at,
    )


@cache
def recording() -> Mapping[str, NodeFacts]:
    """The recorded types, by name."""
    lines = (line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    return {name: _facts(*map(int, fields)) for name, *fields in (line.split("\t") for line in lines)}


def stated_facts(instance_type: InstanceType) -> NodeFacts:
    """Return the facts that a catalogue states: of a type's overhead, all but the eviction threshold is the kubelet's."""
    thresholds = _evicted_at(instance_type.capacity)
    overhead = instance_type.overhead
    evicted_at = {name: min(overhead.get(name, 0), amount) for name, amount in thresholds.items()}
    return NodeFacts(
        capacity=instance_type.capacity,
        kube_reserved={name: amount - evicted_at.get(name, 0) for name, amount in overhead.items()},
        evicted_at=evicted_at,
    )


def _facts(cpu: int, memory_mib: int, pods: int, gpus: int, cpu_reserved: int, memory_reserved_mib: int) -> NodeFacts:
    capacity = {CPU: cpu, MEMORY: memory_mib * _MIB, EPHEMERAL_STORAGE: _STORAGE, PODS: pods}
    if gpus:
        capacity[NVIDIA_GPU] = gpus
    reserved = {CPU: cpu_reserved, MEMORY: memory_reserved_mib * _MIB, EPHEMERAL_STORAGE: _STORAGE_RESERVED}
    return NodeFacts(capacity=capacity, kube_reserved=reserved, evicted_at=_evicted_at(capacity))


def _evicted_at(capacity: Mapping[str, int]) -> dict[str, int]:
    """The kubelet's default thresholds: 100 MiB of memory, a tenth of the storage (Kubernetes)."""
    return {MEMORY: _MEMORY_EVICTED_AT, EPHEMERAL_STORAGE: -(-capacity.get(EPHEMERAL_STORAGE, 0) // 10)}
