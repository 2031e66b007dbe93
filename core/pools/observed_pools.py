"""NodePools whose decisions are only recorded, and the snapshot in which these decisions are made."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot


def observed_pools(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the NodePools that are only observed."""
    return frozenset(pool.name for pool in snapshot.node_pools if pool.is_observed)


def as_acting(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with every NodePool acting: decisions on it are those that observed NodePools would carry out."""
    if not observed_pools(snapshot):
        return snapshot
    return msgspec.structs.replace(snapshot, node_pools=tuple(map(_acting, snapshot.node_pools)))


def _acting(pool: NodePool) -> NodePool:
    own = {key: value for key, value in pool.own_annotations.items() if key != labels.MODE}
    return msgspec.structs.replace(pool, own_annotations=own)
