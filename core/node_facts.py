"""Lets what EC2 and the catalogue know outrank what Node objects report.

A kubelet writes its Node, and so does whoever took it over. Its instance cannot have more of a resource than its type, and two
Nodes cannot be one instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import NodeClaim
from core.model.snapshot import Node, Snapshot
from core.model.state_node import state_nodes
from core.model.values.quantity import AMOUNT_MAX, CPU, MEMORY, NVIDIA_GPU, PODS
from core.model.values.taints import NO_SCHEDULE, Taint

MEMORY_MARGIN_PERCENT: Final = 15
"""How much more memory a node may report than the catalogue expects of its type: the catalogue subtracts an estimate of what
firmware and kernel use, seven and a half percent by default, from what EC2 sells."""

PODS_MIN: Final = 110
"""So many pods are believed on any type: Kubernetes' default, and what prefixes of addresses give small types."""

PODS_MAX: Final = 250
"""So many on a type with 30 vCPUs or more (EKS)."""

_LARGE: Final = 30_000
_CLOSED: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


class NodeDoubt(msgspec.Struct, frozen=True, order=True):
    """A Node whose report is not believed: its name, and why, for people."""

    node: str
    message: str


class TrustedNodes(msgspec.Struct, frozen=True):
    """A snapshot whose Nodes claim nothing impossible, and the doubts about those that did."""

    snapshot: Snapshot
    doubts: tuple[NodeDoubt, ...] = ()


def with_trusted_nodes(snapshot: Snapshot) -> TrustedNodes:
    """Return the snapshot in which no Node has more than its type, and none but a claim's own Node stands for its instance.

    Nodes that share a provider id are not disrupted, and take no pods except the one that the claim registered.
    """
    claims = {claim.provider_id: claim for claim in sorted(snapshot.node_claims, key=_name) if claim.provider_id}
    types = _Types(snapshot)
    seen: set[str] = set()
    shared: set[str] = set()
    for node in snapshot.nodes:
        (shared if node.provider_id in seen else seen).add(node.provider_id)
    shared.discard("")
    doubts: list[NodeDoubt] = []
    nodes = []
    for node in snapshot.nodes:
        claim = claims.get(node.provider_id)
        trusted = _within_type(node, types.of(node, claim), types, doubts)
        is_stranger = _is_stranger(node, claim)
        if node.provider_id in shared or is_stranger:
            is_own = claim is not None and claim.node_name == node.name
            message = f"another Node has its providerID {node.provider_id}" if not is_stranger else _stranger(claim)
            doubts.append(NodeDoubt(node.name, message))
            taints = node.taints if is_own else (*node.taints, _CLOSED)
            trusted = msgspec.structs.replace(trusted, unreadable=message, taints=taints)
        nodes.append(trusted)
    if not doubts:
        return TrustedNodes(snapshot)
    return TrustedNodes(msgspec.structs.replace(snapshot, nodes=tuple(nodes)), tuple(sorted(doubts)))


UNPROVEN_AFTER: Final = timedelta(minutes=10)
"""The age from which an event warns of a Node on which nothing runs: a new one has yet to start its DaemonSets' pods."""


def doubted_nodes(snapshot: Snapshot) -> tuple[NodeDoubt, ...]:
    """Return the doubts that only a snapshot with our claims and all pods shows.

    They are about Nodes with the providerID of a node that a claim has registered, and about Nodes without a claim on which
    nothing runs: consolidation moves no pods to those.
    """
    doubts = set(with_trusted_nodes(snapshot).doubts)
    for state in state_nodes(snapshot) if snapshot.pods else ():
        node = state.node
        if state.is_proven or node is None or node.unreadable or not node.is_ready:
            continue
        if node.created_at is not None and snapshot.now - node.created_at >= UNPROVEN_AFTER:
            doubts.add(NodeDoubt(node.name, NOTHING_RUNS))
    return tuple(sorted(doubts))


NOTHING_RUNS: Final = (
    "no pod runs on it, not even a DaemonSet's, and it is no node of ours: no command moves pods to it; if it has no"
    " instance, delete the Node, since kube-scheduler may bind pods to it"
)


def _name(claim: NodeClaim) -> str:
    return claim.name


def _is_stranger(node: Node, claim: NodeClaim | None) -> bool:
    """Whether a claim that has registered another Node has this Node's provider id."""
    return claim is not None and claim.is_true("Registered") and bool(claim.node_name) and claim.node_name != node.name


def _stranger(claim: NodeClaim | None) -> str:
    name = claim.node_name if claim is not None else ""
    return f"its providerID is that of node {name}"


class _Types:
    """The instance types of a snapshot, by EC2NodeClass and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._catalogue = snapshot.catalogue
        self._known: dict[str, Mapping[str, InstanceType]] = {}
        self.overlaid = frozenset(name for overlay in snapshot.overlays for name in overlay.capacity)

    def of(self, node: Node, claim: NodeClaim | None) -> InstanceType | None:
        """Return the type of a node; what its claim says outranks the node's label."""
        claim_labels = claim.labels if claim is not None else {}
        name = claim_labels.get(labels.INSTANCE_TYPE) or node.labels.get(labels.INSTANCE_TYPE, "")
        node_class = claim.node_class.name if claim is not None and claim.node_class is not None else ""
        if node_class not in self._known:
            types = self._catalogue.types_for(node_class)
            self._known[node_class] = {instance_type.name: instance_type for instance_type in types}
        return self._known[node_class].get(name)

    def most(self, name: str, instance_type: InstanceType) -> int:
        """Return the most of a resource that a node of the type may have."""
        amount = instance_type.capacity.get(name, 0)
        if name == MEMORY:
            return amount * (100 + MEMORY_MARGIN_PERCENT) // 100
        if name == PODS:
            return max(amount, PODS_MAX if instance_type.capacity.get(CPU, 0) >= _LARGE else PODS_MIN)
        return AMOUNT_MAX if name in DEVICES and (amount or name in self.overlaid) else amount


def _within_type(node: Node, instance_type: InstanceType | None, types: _Types, doubts: list[NodeDoubt]) -> Node:
    """Return the node with at most its type's resources. Disks are the user's choice, and unknown devices a plugin's."""
    if instance_type is None:
        return node
    excess = [
        name
        for name in sorted({*node.capacity, *node.allocatable})
        if name in _BOUNDED or name in DEVICES
        if max(node.capacity.get(name, 0), node.allocatable.get(name, 0)) > types.most(name, instance_type)
    ]
    if not excess:
        return node
    named = f"it reports more {', '.join(excess)} than its type {instance_type.name} has"
    doubts.append(NodeDoubt(node.name, f"{named}; it is planned with the type's"))
    return msgspec.structs.replace(
        node,
        capacity=_bounded(node.capacity, excess, instance_type.capacity),
        allocatable=_bounded(node.allocatable, excess, instance_type.allocatable()),
    )


def _bounded(amounts: Mapping[str, int], excess: Iterable[str], bound: Mapping[str, int]) -> dict[str, int]:
    return {**amounts, **{name: min(amounts[name], bound.get(name, 0)) for name in excess if name in amounts}}


_BOUNDED: Final = (CPU, MEMORY, PODS)
NEURON: Final = ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore")
DEVICES: Final = frozenset({NVIDIA_GPU, "amd.com/gpu", "habana.ai/gaudi", *NEURON})
"""Devices that the catalogue knows of every type: a node of a type without any has none.

Of a type with some, a plugin may share each among several pods, so their number is believed. Others come from users' plugins.
"""
