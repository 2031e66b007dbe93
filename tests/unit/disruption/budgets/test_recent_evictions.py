"""Evictions count for an hour, and the moment at which one is forgotten is known where a ceiling makes it matter."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.disruption.budgets.recent_evictions import CLUSTER, PERIOD, ceilings_of, next_relief, recently
from core.model.moved_workload import EvictedNode
from core.model.snapshot import Options, Snapshot
from tests.builders import NOW, a_pool
from tests.unit.disruption.nodes_for_tests import world

OLD = EvictedNode(node_pool="default", pods=1, at=NOW - PERIOD)
NEW = EvictedNode(node_pool="default", pods=1, at=NOW - timedelta(minutes=10))


def with_ceilings(cluster: int | None = None, pool: int | None = None) -> Snapshot:
    pools = (a_pool("a"), a_pool("b", evictions_per_hour=pool))
    options = Options(evictions_per_hour=cluster)
    return world(node_pools=pools, options=options, evicted_nodes={"new": NEW})


def test_evictions_are_forgotten_after_an_hour() -> None:
    assert recently({"a": OLD, "b": NEW}, NOW) == {"b": NEW}


@pytest.mark.parametrize("limits", [{"cluster": 3}, {"pool": 0}])
def test_the_moment_at_which_one_is_forgotten_is_known(limits: dict[str, int]) -> None:
    """Otherwise, `disrupt` waits for the end of its next long resync period."""
    assert list(next_relief(with_ceilings(**limits))) == [NOW + timedelta(minutes=50)]


def test_without_a_ceiling_no_moment_matters() -> None:
    assert list(next_relief(with_ceilings())) == []


def test_the_ceilings_are_the_clusters_and_those_of_nodepools_that_have_one() -> None:
    assert list(ceilings_of(with_ceilings(cluster=5, pool=2))) == [(CLUSTER, 5), ("b", 2)]
    assert list(ceilings_of(with_ceilings())) == []
