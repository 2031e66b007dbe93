"""What a solution of the keep-or-drain program says of each node."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.target.fleet_problem import NO_GROUP
from core.packing.target.fleet_target import free_room_worth, rounded
from tests.unit.packing.target.fleets import a_fleet


@pytest.mark.parametrize(("share", "stays"), [(0.0, False), (0.49, False), (0.5, True), (1.0, True)])
def test_a_node_stays_if_at_least_half_of_it_does(share: float, stays: bool) -> None:
    assert rounded(np.array([share])).tolist() == [stays]


def test_free_room_is_worth_what_its_group_pays_and_nothing_where_no_pod_may_use_it() -> None:
    fleet = a_fleet(
        [[2], [2], [2]], free=[2, 1, 3], prices=[1, 1, 1], machines={4: 9}, room_groups=np.array([0, NO_GROUP, 0])
    )
    worth = free_room_worth(fleet, np.full(fleet.group_free.shape, 0.5))
    assert worth.tolist() == pytest.approx((np.array([2, 0, 3]) * 0.5 / fleet.scale[0]).tolist())
