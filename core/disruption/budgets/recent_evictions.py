"""Counts the evictions of the last hour by ceiling, and says when they stop counting.

Separate from `eviction_rate`, which imports candidates: functions that decide nothing load this module at each cold start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from core.model.moved_workload import EvictedNode
from core.model.snapshot import Snapshot

PERIOD: Final = timedelta(hours=1)

CLUSTER: Final = ""
"""Stands for the whole cluster among names of NodePools."""


def recently(nodes: Mapping[str, EvictedNode], now: datetime) -> dict[str, EvictedNode]:
    """Return the nodes that were drained within the last hour, by claim."""
    return {name: node for name, node in sorted(nodes.items()) if now - node.at < PERIOD}


def next_relief(snapshot: Snapshot) -> Iterator[datetime]:
    """Yield the moments at which evictions stop counting; none where nothing limits them."""
    if any(True for _ in ceilings_of(snapshot)):
        yield from (node.at + PERIOD for _, node in sorted(snapshot.evicted_nodes.items()))


def ceilings_of(snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    """Yield the ceilings: a NodePool, or `CLUSTER`, and how many pods may be evicted there in an hour."""
    if snapshot.options.evictions_per_hour is not None:
        yield CLUSTER, snapshot.options.evictions_per_hour
    for pool in snapshot.node_pools:
        if pool.evictions_per_hour is not None:
            yield pool.name, pool.evictions_per_hour
