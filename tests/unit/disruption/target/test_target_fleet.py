"""Which nodes may go, and which receive pods: a node that is to go never does."""

from __future__ import annotations

import pytest

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.target_fleet import spot_is_gated, target_fleet
from core.model.feature_gates import FeatureGates
from core.model.node_pool import Budget, Disruption, RolloutGate
from core.model.snapshot import Options
from tests.builders import a_node_of, a_pod, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, drifted, expiring, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of


def test_a_drifted_node_must_go_and_receives_nothing() -> None:
    nodes, pods = (drifted(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b")), (pod_on("a"), pod_on("b"))
    fleet = fleet_of(world(*nodes, pods=pods, options=WHOLE_WAY))
    assert [c.name for c in fleet.candidates] == ["a", "b"]
    assert fleet.must_go.tolist() == [True, False]
    assert not fleet.rows.rooms.suits[:, 0].any()


@pytest.mark.parametrize(
    ("gates", "capacity_type", "decided"),
    [({}, "on-demand", ["a", "b"]), ({"default": RolloutGate(1, "wait")}, "on-demand", ["b"]), ({}, "reserved", ["b"])],
)
def test_a_drifted_node_goes_with_the_target_once_its_rollout_is_proven(
    gates: dict[str, RolloutGate], capacity_type: str, decided: list[str]
) -> None:
    """The first goes alone; one of a reservation may have to go before what replaces it."""
    nodes = (drifted(a_node_of(MIDDLE, "a", capacity_type=capacity_type)), a_node_of(MIDDLE, "b"))
    now = fleet_of(world(*nodes, pods=(pod_on("a"), pod_on("b")), rollouts=gates))
    assert [c.name for c in now.candidates] == decided
    assert not now.rows.rooms.suits[:, 0].any(), "it takes no pods in any case"


def test_a_node_that_expires_soon_may_go_and_receives_nothing() -> None:
    """Pods that moved there would move again within hours, for another reason."""
    nodes, pods = (expiring(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b")), (pod_on("a"), pod_on("b"))
    fleet = fleet_of(world(*nodes, pods=pods))
    assert [c.name for c in fleet.candidates] == ["a", "b"]
    assert not fleet.rows.rooms.suits[:, 0].any()
    assert fleet.rows.problem.move_prices.tolist()[0] == 0 < fleet.rows.problem.move_prices.tolist()[1]


def test_a_pod_that_waits_counts_no_room_of_a_node_that_takes_nothing() -> None:
    """Each choice of nodes seemed to make it more expensive, even none, so a stored target was planned again in each pass."""
    waiting = a_pod("waits", cpu="1", is_marked_unschedulable=True)
    nodes = (expiring(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b"))
    fleet = fleet_of(world(*nodes, pods=(pod_on("a", cpu="100m"), pod_on("b", cpu="3500m"), waiting)))
    assert fleet.waiting_price > 0
    assert not drained(fleet).displaces


def test_an_empty_node_goes_alone_and_receives_nothing() -> None:
    fleet = fleet_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("b"),)))
    assert [c.name for c in fleet.candidates] == ["b"]
    assert not fleet.rows.rooms.suits[:, 0].any()


def test_a_budget_of_zero_keeps_nodes_out_of_the_target() -> None:
    closed = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("0"),)))
    snapshot = world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),), node_pools=(closed,))
    assert target_fleet(DisruptionPass(snapshot)) is None


def test_the_gate_is_the_feature_gate() -> None:
    on = Options(feature_gates=FeatureGates(spot_to_spot_consolidation=True))
    assert spot_is_gated(DisruptionPass(world()))
    assert not spot_is_gated(DisruptionPass(world(options=on)))
