"""Places of a stored target go to the pods that exist now, even if their names have changed."""

from __future__ import annotations

import numpy as np

from core.disruption.stored_targets import PodKinds
from core.disruption.target.planned_slots import ProgramSlots, StoredTargetSlots
from core.model.plan import StoredNewNode, StoredSlots
from tests.builders import a_stored_target
from tests.unit.disruption.target.fleets_for_tests import fleet_of, half_full


def test_stored_places_go_to_pods_of_the_same_kind_on_staying_nodes() -> None:
    fleet = fleet_of(half_full(3, at_once=1))
    kind = PodKinds().of(fleet.rows.pods[0][0])
    target = a_stored_target(
        "n0",
        slots=(StoredSlots(kind, "n0", 1), StoredSlots(kind, "n2", 4), StoredSlots("other", "n1", 1)),
        new_nodes=(StoredNewNode(name="new", pods={kind: 2}),),
    )
    planned = StoredTargetSlots(fleet, target)
    group = int(fleet.rows.items[0].index)
    n2 = fleet.planner.context.positions["n2"]
    assert planned.slots(np.array([False, True, True])) == {group: [(n2, 1)]}
    assert list(planned.new_nodes) == [{kind: 2}]


def test_every_planned_place_is_assigned() -> None:
    fleet = fleet_of(half_full(3, at_once=1))
    problem = fleet.rows.problem
    into = np.zeros((len(problem.requests), len(problem.group_free)))
    into[0, fleet.rows.rooms.groups[fleet.planner.context.positions["n1"]]] = 1
    slots = ProgramSlots(fleet, into, 0, is_gated=True).slots(np.array([False, True, True]))
    assert sum(pods for found in slots.values() for _, pods in found) == 1


def test_stored_places_on_a_node_that_no_longer_suits_the_pods_are_given_up() -> None:
    fleet = fleet_of(half_full(3, at_once=1))
    kind, n2 = PodKinds().of(fleet.rows.pods[0][0]), fleet.planner.context.positions["n2"]
    target = a_stored_target(
        "n0",
        slots=(StoredSlots(kind, "n2", 4),),
    )
    fleet.rows.rooms.suits[:, n2] = False
    assert StoredTargetSlots(fleet, target).slots(np.array([False, True, True])) == {}
