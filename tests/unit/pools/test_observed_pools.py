"""Which NodePools are only observed, and what would be decided were they not."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.pools.observed_pools import as_acting, observed_pools
from core.scheduling import schedule
from tests.builders import a_pod, a_pool, a_snapshot, a_type

OTHER = {"team": "a"}


def observed(name: str) -> NodePool:
    return msgspec.structs.replace(a_pool(name), own_annotations={labels.MODE: labels.OBSERVE, **OTHER})


def test_only_the_annotation_makes_a_pool_observed() -> None:
    acting = msgspec.structs.replace(a_pool("b"), own_annotations={labels.MODE: "act"})
    assert observed_pools(a_snapshot(node_pools=(observed("a"), acting, a_pool("c")))) == {"a"}


def test_a_pod_waits_for_an_observed_pool_and_would_get_its_node() -> None:
    snapshot = a_snapshot(types=(a_type("m5.large", price=0.1),), node_pools=(observed("a"),), pods=(a_pod("p"),))
    (waiting,) = schedule(snapshot).unschedulable
    assert f"annotation {labels.MODE}" in waiting.message
    acting = as_acting(snapshot)
    assert [claim.node_pool for claim in schedule(acting).claims] == ["a"]
    assert acting.node_pools[0].own_annotations == OTHER


def test_a_snapshot_without_observed_pools_stays_the_same() -> None:
    snapshot = a_snapshot(node_pools=(a_pool("a"),))
    assert as_acting(snapshot) is snapshot
