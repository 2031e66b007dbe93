"""Loads of one zone for another one."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Ints
from core.scheduling.optimization.items.item_groups import ItemGroup, LaunchOption
from core.scheduling.optimization.subproblems.zone_loads import ZoneLoads, loads_from
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.resource_vector import Vector

IN_A, IN_B = RequirementId(1), RequirementId(2)
SMALL: Vector = (1,)
LARGE: Vector = (4,)


def a_group(requests: Vector, zone: RequirementId) -> ItemGroup:
    return ItemGroup(requests, (LaunchOption(0, zone, TypeMask(1)),))


def rows(*loads: tuple[int, ...]) -> Ints:
    return np.array(loads, dtype=np.int64)


def test_pods_of_the_same_kind_take_the_places() -> None:
    """Items are numbered otherwise in each zone, and requirements name the zone."""
    found = ZoneLoads([a_group(SMALL, IN_A), a_group(LARGE, IN_A)], rows((1, 2), (4, 0)))
    loads = loads_from(found, [a_group(LARGE, IN_B), a_group(SMALL, IN_B)], np.array([9, 9]))
    assert loads.tolist() == [[2, 1], [0, 4]]


def test_pods_that_are_not_there_are_left_out() -> None:
    found = ZoneLoads([a_group(SMALL, IN_A), a_group(LARGE, IN_A)], rows((1, 1), (0, 2)))
    assert loads_from(found, [a_group(SMALL, IN_B)], np.array([9])).tolist() == [[1], [0]]


def test_a_load_has_no_more_pods_than_there_are() -> None:
    found = ZoneLoads([a_group(SMALL, IN_A)], rows((4,)))
    assert loads_from(found, [a_group(SMALL, IN_B)], np.array([2])).tolist() == [[2]]


def test_groups_that_differ_in_requirements_alone_keep_their_order() -> None:
    """Nothing but the requirements names the zone, so that the first of such groups is taken for the first of the others."""
    here = [a_group(SMALL, IN_B), a_group(SMALL, RequirementId(3))]
    found = ZoneLoads([a_group(SMALL, IN_A), a_group(SMALL, RequirementId(4))], rows((1, 3)))
    assert loads_from(found, here, np.array([9, 9])).tolist() == [[1, 3]]
