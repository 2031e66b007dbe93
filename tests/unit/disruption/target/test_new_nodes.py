"""A launch costs about what was planned: one capacity type, no type far more expensive, and never an equal replacement."""

from __future__ import annotations

from core.disruption.prices import ReplacementOptions, worst_price
from core.disruption.target.new_nodes import held
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from tests.builders import a_node_of, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import OPEN, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import drained, fleet_of

TYPES = tuple(a_type(f"k{n}", cpu="4", price=0.1 * n) for n in (1, 2, 3, 9))


def planned() -> tuple[Snapshot, tuple[PlannedClaim, ...]]:
    snapshot = world(a_node_of(TYPES[-1], "a"), pods=(pod_on("a"),), node_pools=(a_pool("default", disruption=OPEN),))
    snapshot = a_snapshot(types=TYPES, pods=snapshot.pods, nodes=snapshot.nodes, node_claims=snapshot.node_claims,
                          node_pools=snapshot.node_pools)  # fmt: skip
    return snapshot, drained(fleet_of(snapshot), "a").claims


def test_the_most_expensive_launches_together_stay_below_the_budget() -> None:
    snapshot, claims = planned()
    budget = 10**8
    narrowed = held(claims, budget, {}, snapshot)
    assert narrowed is not None
    for claim in narrowed:
        assert claim.capacity_types == ("spot",)
        options = ReplacementOptions.of(claim, snapshot)
        assert max(worst_price(found) for _, found in options.types) < budget


def test_without_a_budget_types_near_the_cheapest_are_kept() -> None:
    snapshot, claims = planned()
    narrowed = held(claims, None, {}, snapshot)
    assert narrowed is not None
    assert narrowed[0].instance_types == ("k1",)


def test_the_type_of_a_leaving_node_is_launched_again_only_for_less() -> None:
    snapshot, claims = planned()
    narrowed = held(claims, None, {"k1": 1}, snapshot)
    assert narrowed is not None
    assert "k1" not in narrowed[0].instance_types


def test_no_types_are_left_if_the_budget_is_too_small() -> None:
    snapshot, claims = planned()
    assert held(claims, 1, {}, snapshot) is None
