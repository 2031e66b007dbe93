"""NodePools and EC2NodeClasses as if their hash annotations were always current: drift compares nodes with these."""

from __future__ import annotations

import msgspec

from core import labels
from core.labels import HASH_VERSION
from core.model.node_pool import NodeClass, NodePool


def with_current_pool_hash(pool: NodePool) -> NodePool:
    """Return the pool with its current hash annotation, which `reconcile` also writes to the object for people."""
    if not pool.template_hash:
        return pool
    own = {**pool.own_annotations, labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(pool, own_annotations=own)


def with_current_class_hash(node_class: NodeClass) -> NodeClass:
    """Return the class with its current hash annotation."""
    if not node_class.spec_hash:
        return node_class
    hashes = {labels.NODECLASS_HASH: node_class.spec_hash, labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(node_class, own_annotations={**node_class.own_annotations, **hashes})
