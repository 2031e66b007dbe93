"""The scheduler decides what a choice of nodes means: a node stays if its pods find no other place."""

from __future__ import annotations

import numpy as np

from core import labels
from core.disruption.target.realization import Realizations
from core.model.values.requirements import Requirement
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, OPEN, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import fleet_of


def test_pods_move_and_cost_what_their_new_places_cost() -> None:
    fleet = fleet_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a"), pod_on("b"))))
    found = Realizations(fleet, is_gated=True, keep_discount=0).of(np.array([False, True]), None, None)
    assert (found.cost, len(found.claims)) == (2 * 10**8, 0)


def test_a_node_stays_whose_pods_fit_nowhere_else() -> None:
    stuck = pod_on("a", node_selector=(Requirement.one_of("rack", "a"),))
    fleet = fleet_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(stuck, pod_on("b"))))
    realizations = Realizations(fleet, is_gated=True, keep_discount=0)
    found = realizations.of(np.array([False, True]), None, None)
    assert found.keeps.all()
    assert realizations.homeless == {fleet.rows.row_of_pod[stuck.key]}


def test_a_spot_node_stays_whose_pods_would_need_a_new_spot_node() -> None:
    spot = a_node_of(LARGE, "a", capacity_type=labels.SPOT)
    snapshot = world(spot, pods=(pod_on("a"),), node_pools=(a_pool("default", disruption=OPEN),))
    fleet = fleet_of(snapshot)
    gone = np.array([False])
    gated = Realizations(fleet, is_gated=True, keep_discount=0)
    assert gated.of(gone, None, None).keeps.all()
    assert gated.gated.all()
    assert not Realizations(fleet, is_gated=False, keep_discount=0).of(gone, None, None).keeps.any()
