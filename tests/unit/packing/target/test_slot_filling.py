"""Pods go where the free room has their shape, and fractions become whole pods without a loss."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from core.packing.target.fleet_problem import NO_GROUP
from core.packing.target.slot_filling import Rooms, SlotFilling, whole_pods
from tests.unit.packing.target.fleets import a_fleet

NONE = np.zeros(1, dtype=np.int64)


def test_rounding_carries_the_remainder_over() -> None:
    """Ten items with three tenths of a pod each give three pods, not none."""
    into = np.full((10, 1), 0.3)
    assert whole_pods(into, np.ones(10, dtype=np.int64)).sum() == 3


def test_no_item_gets_more_places_than_it_has_pods() -> None:
    into = np.array([[0.6, 0.6], [0.9, 0.9]])
    assert (whole_pods(into, np.array([1, 2])).sum(axis=1) <= [1, 2]).all()


def test_a_pod_goes_to_room_of_its_shape() -> None:
    fleet = a_fleet([[1]], free=[0], prices=[1], machines={4: 1})
    wide = replace(fleet, requests=np.array([[1, 4]]), free=np.array([[0, 0]]), capacity=np.array([[4, 4]]))
    free = np.array([[8, 4], [1, 5]])
    rooms = Rooms(free, np.zeros(2, dtype=np.int64), np.ones((1, 2), dtype=bool), ({},))
    (slot,) = SlotFilling(wide, rooms, np.array([1]), NONE).slots(np.array([[1.0]]), 0)
    assert (slot.node, slot.pods) == (1, 1)


def test_a_host_takes_one_pod_of_an_anti_affinity_group() -> None:
    fleet = a_fleet([[2]], free=[0], prices=[1], machines={4: 1}, host_caps=np.array([1]))
    rooms = Rooms(np.array([[9], [9], [9]]), np.zeros(3, dtype=np.int64), np.ones((1, 3), dtype=bool), ({0: 1},))
    slots = SlotFilling(fleet, rooms, np.array([3]), NONE).slots(np.array([[3.0]]), 0)
    assert sorted((slot.node, slot.pods) for slot in slots) == [(1, 1), (2, 1)]


def test_an_item_without_an_alternative_comes_first() -> None:
    """There is room for one large pod: the small item, whose pod may go nowhere else, gets it."""
    fleet = replace(a_fleet([[1, 1]], free=[0], prices=[1], machines={9: 1}), requests=np.array([[3], [2]]))
    rooms = Rooms(np.array([[3]]), np.zeros(1, dtype=np.int64), np.ones((2, 1), dtype=bool), ({}, {}))
    into = np.array([[1.0], [1.0]])
    (slot,) = SlotFilling(fleet, rooms, np.array([1, 1]), np.array([0, 1])).slots(into, 0)
    assert (slot.item, slot.pods) == (1, 1)
    (slot,) = SlotFilling(fleet, rooms, np.array([1, 1]), np.array([0, 0])).slots(into, 0)
    assert (slot.item, slot.pods) == (0, 1)


def test_an_item_without_an_alternative_takes_only_suitable_nodes_that_take_pods() -> None:
    """Not a node that its pods may not run on, nor one that takes no pods, however much room they have."""
    fleet = a_fleet([[2]], free=[0], prices=[1], machines={9: 1})
    groups, suits = np.array([0, NO_GROUP, 0]), np.array([[False, True, True]])
    rooms = Rooms(np.array([[9], [9], [1]]), groups, suits, ({},))
    slots = SlotFilling(fleet, rooms, np.array([2]), np.array([2])).slots(np.zeros((1, 1)), 1)
    assert [(slot.node, slot.pods) for slot in slots] == [(2, 1)]


def test_what_shares_leave_over_takes_only_suitable_nodes_that_take_pods() -> None:
    fleet = a_fleet([[2]], free=[0], prices=[1], machines={9: 1})
    groups, suits = np.array([0, NO_GROUP, 0]), np.array([[False, True, True]])
    rooms = Rooms(np.array([[9], [9], [1]]), groups, suits, ({},))
    slots = SlotFilling(fleet, rooms, np.array([2]), NONE).slots(np.zeros((1, 1)), 1)
    assert [(slot.node, slot.pods) for slot in slots] == [(2, 1)]


def test_a_host_that_is_unsuitable_or_takes_no_pods_takes_none_of_an_anti_affinity_group() -> None:
    fleet = a_fleet([[3]], free=[0], prices=[1], machines={9: 1}, host_caps=np.array([1]))
    groups, suits = np.array([0, NO_GROUP, 0]), np.array([[False, True, True]])
    rooms = Rooms(np.array([[9], [9], [9]]), groups, suits, ({},))
    slots = SlotFilling(fleet, rooms, np.array([3]), NONE).slots(np.array([[3.0]]), 0)
    assert [(slot.node, slot.pods) for slot in slots] == [(2, 1)]


def test_new_hosts_take_the_anti_affinity_pods_that_they_can() -> None:
    """Two of three pods go to two new machines: only one needs a slot."""
    fleet = a_fleet([[3]], free=[0], prices=[1], machines={9: 1}, host_caps=np.array([1]))
    rooms = Rooms(np.array([[9], [9], [9]]), np.zeros(3, dtype=np.int64), np.ones((1, 3), dtype=bool), ({},))
    assert len(SlotFilling(fleet, rooms, np.array([3]), NONE).slots(np.zeros((1, 1)), 2)) == 1
