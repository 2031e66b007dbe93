"""Marks NodePools whose nodes' user data exceeds EC2's limit, so that nothing is planned for them.

`reconcile` writes the same into their conditions; this module covers NodePools that were created or edited since then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from adapters.ports import JsonObject, PortError
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot

UserDataProblem = Callable[[JsonObject, NodePool], str]
"""Returns why a NodePool cannot launch from a class, empty if it can (`CloudProvider.user_data_problem`)."""


def measured(pool: NodePool, node_classes: Mapping[str, JsonObject], problem_of: UserDataProblem) -> NodePool:
    """Return the NodePool, with a problem if its nodes' user data is too long. Raises PortError."""
    manifest = node_classes.get(pool.node_class.name)
    if manifest is None or pool.problem:
        return pool
    return msgspec.structs.replace(pool, problem=problem_of(manifest, pool))


def without_oversized_pools(
    snapshot: Snapshot, node_classes: Mapping[str, JsonObject], problem_of: UserDataProblem
) -> Snapshot:
    """Return the snapshot with its NodePools measured; if that fails now, the launch reports the problem."""
    pools = []
    for pool in snapshot.node_pools:
        try:
            pools.append(measured(pool, node_classes, problem_of))
        except PortError:
            pools.append(pool)
    return msgspec.structs.replace(snapshot, node_pools=tuple(pools))
