"""Law: no trivial planner does better, which gives each pod its own node, the largest first, with several choices of zones."""

from __future__ import annotations

import pytest

from core.scheduling import schedule
from tests.property.naive.fuzz import check_tight, improving
from tests.property.naive.tight import tight_cluster
from tests.property.naive.trivial import TrivialPlanner, beaten, zone_orders

_FAST = 200


@pytest.mark.parametrize("first", range(0, _FAST, 25))
def test_no_trivial_planner_places_more_pods_or_pays_less(first: int) -> None:
    for seed in range(first, first + 25):
        assert check_tight(seed)[1] == [], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, 1000))
def test_ten_thousand_clusters(first: int) -> None:
    failing = {seed: found[0] for seed, found, _ in map(check_tight, range(first, first + 1000)) if found}
    assert failing == {}


@pytest.mark.parametrize("seed", [127, 205, 250, 252, 272, 1793, 4721, 700183, 700449, 700730, 701923, 701989])
def test_pods_once_left_over_without_need_have_their_places(seed: int) -> None:
    """Zones were chosen one workload at a time: 14 pods stayed pending where 12 must, and 3 where none must.

    In the seeds from 700,000 on no change to one or two workloads helped: all had to try the zones in another order.
    In seed 1793 one workload had to leave the zones that another one takes in turn.
    In seed 4721 the workload that a leftover follows follows another one itself.
    """
    snapshot = improving(tight_cluster(seed))
    assert beaten(snapshot, schedule(snapshot)) == []


def test_the_trivial_planners_place_most_pods() -> None:
    """A trivial planner that places nothing would never beat ours."""
    most = [max(len(planner.placed(order)) for order in zone_orders(0)) for planner in _planners()]
    assert sum(most) > sum(len(planner.waiting) for planner in _planners()) // 2


def _planners() -> list[TrivialPlanner]:
    return [TrivialPlanner(tight_cluster(seed)) for seed in range(10)]
