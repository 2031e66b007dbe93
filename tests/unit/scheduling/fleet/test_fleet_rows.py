"""The arrays agree with the snapshot: which pods run where, what room is left, and which node suits which pod."""

from __future__ import annotations

import numpy as np

from core import labels
from core.model.values.taints import NO_SCHEDULE, Taint
from core.packing.target.fleet_problem import NO_GROUP
from core.scheduling.context import SchedulingContext
from core.scheduling.fleet.fleet_rows import DrainableNode, FleetRows
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world


def rows_of(snapshot, *names: str, closed: tuple[str, ...] = ()) -> FleetRows:  # type: ignore[no-untyped-def]
    context = SchedulingContext(snapshot)
    nodes = [DrainableNode(context.positions[name], 10**8, 10**6) for name in names]
    return FleetRows(context, nodes, {context.positions[name] for name in closed})


def test_pods_count_by_group_and_free_room_is_the_rest() -> None:
    pods = (pod_on("a", "a1"), pod_on("a", "a2"), pod_on("b", "b1", cpu="1"))
    rows = rows_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=pods), "a", "b")
    problem = rows.problem
    assert sorted(problem.loads.sum(axis=0).tolist()) == [1, 2]
    assert problem.pods.tolist() == [2, 1]
    assert (problem.free[:, 0] == np.array([3000, 3000])).all()
    assert rows.amounts(rows.row_of_pod["default/b1"])["cpu"] == 1000


def test_a_closed_or_tainted_node_receives_nothing() -> None:
    claim, node = a_node_of(MIDDLE, "c", taints=(Taint("team", NO_SCHEDULE, "x"),))
    snapshot = world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), (claim, node), pods=(pod_on("a"),))
    rows = rows_of(snapshot, "a", closed=("b",))
    assert rows.problem.room_groups.tolist() != [NO_GROUP]
    open_ = rows.rooms.suits.any(axis=0)
    assert open_.tolist() == [True, False, False]


def test_a_spot_node_that_must_go_is_not_spot_by_choice() -> None:
    snapshot = world(a_node_of(MIDDLE, "a", capacity_type=labels.SPOT), pods=(pod_on("a"),))
    context = SchedulingContext(snapshot)
    position = context.positions["a"]
    by_choice = FleetRows(context, [DrainableNode(position, 1, 0)], ())
    drifted = FleetRows(context, [DrainableNode(position, 1, 0, must_go=True)], ())
    assert (by_choice.problem.is_spot.tolist(), drifted.problem.is_spot.tolist()) == ([True], [False])
