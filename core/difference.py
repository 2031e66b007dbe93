"""Finds the running nodes that drift because manifests changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core import labels
from core.disruption.conditions.drift import DriftCheck
from core.labels import HASH_VERSION
from core.model.node_claim import LAUNCHED, Condition, NodeClaim
from core.model.node_pool import NodeClass, NodePool
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.reasons.node import NodeReason

_POOL_KEYS: Final = (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION)
_CLASS_KEYS: Final = (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION)


class DriftedNode(msgspec.Struct, frozen=True, order=True):
    """A node that a change makes drift: `reason` is a drift reason, or NodePoolNotFound if its pool is gone."""

    node: str
    node_pool: str
    reason: str


def newly_drifted(before: Snapshot, after: Snapshot) -> tuple[DriftedNode, ...]:
    """Return, by name, the nodes of `after` that drift under its NodePools and EC2NodeClasses but not under those of `before`.

    A claim counts as launched from the pools of `before`, whatever hash it carries: hashes of Karpenter's or of an older
    release cannot be compared with those of the files.
    """
    earlier = _Rules(before)
    later = _Rules(after)
    found = []
    for state in state_nodes(after):
        pool = earlier.pools.get(state.node_pool)
        if state.claim is None or pool is None:
            continue
        reason = later.reason(earlier.launched(state, state.claim, pool))
        if reason and reason != earlier.reason(earlier.launched(state, state.claim, pool)):
            found.append(DriftedNode(state.name, pool.name, reason))
    return tuple(sorted(found))


class _Rules:
    """The NodePools and EC2NodeClasses of one side."""

    def __init__(self, snapshot: Snapshot) -> None:
        classes = tuple(map(_with_class_hash, snapshot.node_classes))
        self.pools: Mapping[str, NodePool] = {pool.name: _with_pool_hash(pool) for pool in snapshot.node_pools}
        self._classes = {found.name: found for found in classes}
        self._check = DriftCheck(msgspec.structs.replace(snapshot, node_classes=classes))

    def launched(self, state: StateNode, claim: NodeClaim, pool: NodePool) -> NodeClaim:
        """Return the claim as if these pools and classes had just launched it."""
        carried = dict(claim.annotations) | {key: pool.own_annotations[key] for key in _POOL_KEYS}
        reference = claim.node_class or pool.node_class
        node_class = self._classes.get(reference.name)
        if node_class is not None:
            carried |= {key: node_class.own_annotations[key] for key in _CLASS_KEYS}
        conditions = dict(claim.conditions)
        if state.node is not None:
            conditions[LAUNCHED] = Condition("True")
        return msgspec.structs.replace(claim, annotations=carried, conditions=conditions)

    def reason(self, claim: NodeClaim) -> str:
        """Return why the claim has drifted under these rules, empty if it has not."""
        pool = self.pools.get(claim.node_pool)
        return NodeReason.NODE_POOL_NOT_FOUND if pool is None else self._check.reason(claim, pool)


def _with_pool_hash(pool: NodePool) -> NodePool:
    own = pool.own_annotations | dict(zip(_POOL_KEYS, (pool.template_hash, HASH_VERSION), strict=True))
    return msgspec.structs.replace(pool, own_annotations=own)


def _with_class_hash(node_class: NodeClass) -> NodeClass:
    own = node_class.own_annotations | dict(zip(_CLASS_KEYS, (node_class.spec_hash, HASH_VERSION), strict=True))
    return msgspec.structs.replace(node_class, own_annotations=own)
