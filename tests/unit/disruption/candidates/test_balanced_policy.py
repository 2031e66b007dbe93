"""The policy Balanced: a pool's share of the savings is compared with its share of the disruption."""

from __future__ import annotations

import msgspec
import pytest

from core.disruption.candidates.balanced_policy import PoolTotals, pool_totals, rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.candidates.eviction_cost import UNIT
from core.disruption.disruption_pass import DisruptionPass
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.state_node import state_nodes
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, SMALL, pod_on, world

POOLS = (a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),))),)


def a_candidate(**changes: object) -> Candidate:
    (found,) = DisruptionPass(world(a_node_of(SMALL), node_pools=POOLS)).survey.candidates
    return msgspec.structs.replace(found, **changes)


@pytest.mark.parametrize(("savings", "is_rejected"), [(49, True), (50, False), (0, True)])
def test_the_savings_share_must_be_half_the_disruption_share(savings: int, is_rejected: bool) -> None:
    """Karpenter's k is 2: a pool of price 1000 whose pods all count 10 units, one of which moves, must save 50."""
    totals = {"default": PoolTotals(price=1000, cost=10 * UNIT)}
    found = rejecting_pool([a_candidate(price=100, cost=UNIT)], savings, totals)
    assert found == ("default" if is_rejected else "")


def test_a_pool_without_a_known_price_rejects_every_move() -> None:
    """Nothing can be said of the share that the move would save."""
    assert rejecting_pool([a_candidate(price=100, cost=UNIT)], 50, {}) == "default"
    assert rejecting_pool([a_candidate(price=100, cost=0)], 50, {}) == "default"
    assert rejecting_pool([a_candidate(price=0, cost=0)], 50, {"default": PoolTotals(price=0, cost=0)}) == "default"


def test_nodes_that_cost_nothing_have_the_whole_of_the_savings() -> None:
    """Reserved nodes are paid for anyway: their share of the price says nothing."""
    totals = {"default": PoolTotals(price=1000, cost=10 * UNIT)}
    free = [a_candidate(price=0, cost=UNIT)]
    assert [rejecting_pool(free, savings, totals) for savings in (1, 49, 50)] == ["default", "default", ""]


def test_a_pool_that_approves_lets_the_next_one_be_asked() -> None:
    """The savings are divided by what the nodes cost: a tenth of them is too little for the second pool."""
    totals = {"a": PoolTotals(price=1000, cost=10 * UNIT), "b": PoolTotals(price=1000, cost=10 * UNIT)}
    balanced = Disruption(policy=BALANCED, budgets=(Budget("100%"),))
    first, second = (
        a_candidate(price=p, cost=UNIT, pool=a_pool(n, disruption=balanced)) for n, p in (("a", 900), ("b", 100))
    )
    assert rejecting_pool([first, second], 100, totals) == "b"
    assert rejecting_pool([second, first], 1000, totals) == ""
    assert rejecting_pool([first, second], 50, totals) == "a"


def test_other_policies_reject_nothing() -> None:
    assert rejecting_pool([a_candidate(pool=a_pool("default", ON_DEMAND))], 0, {}) == ""


def test_totals_count_every_node_of_the_pool() -> None:
    snapshot = world(a_node_of(SMALL), a_node_of(SMALL, "node-2"), pods=(pod_on("node-1"),), node_pools=POOLS)
    totals = pool_totals(snapshot, state_nodes(snapshot))
    assert totals["default"].cost == 3 * UNIT
    assert totals["default"].price == 2 * min(o.price for o in SMALL.offerings if o.capacity_type == "on-demand")


def test_totals_leave_out_nodes_that_go_and_pools_of_other_policies() -> None:
    pools = (a_pool("lazy", ON_DEMAND), *POOLS)
    nodes = (a_node_of(SMALL, "a", pool="lazy"), a_node_of(SMALL, "b"), a_node_of(SMALL, "c"), a_node_of(SMALL, "d"))
    marked = (nodes[1][0].name,)
    snapshot = world(*nodes, pods=(pod_on("a"), pod_on("b"), pod_on("d")), node_pools=pools, marked_for_deletion=marked)
    price = min(o.price for o in SMALL.offerings if o.capacity_type == "on-demand")
    assert pool_totals(snapshot, state_nodes(snapshot)) == {"default": PoolTotals(price=2 * price, cost=3 * UNIT)}


def test_no_totals_are_computed_for_other_policies() -> None:
    """They go through every pod of the cluster, and nothing asks for them."""
    snapshot = world(a_node_of(SMALL), pods=(pod_on("node-1"),))
    assert pool_totals(snapshot, state_nodes(snapshot)) == {}


def test_a_move_that_saves_nothing_is_rejected_even_if_it_disturbs_nobody() -> None:
    totals = {"default": PoolTotals(price=1000, cost=10 * UNIT)}
    assert [rejecting_pool([a_candidate(price=100, cost=0)], saved, totals) for saved in (-1, 0, 1)] == [
        "default",
        "default",
        "",
    ]


def test_a_pool_of_another_policy_lets_the_next_one_be_asked() -> None:
    """Otherwise, a pool of policy Balanced takes part in every move that a pool before it takes part in."""
    other = a_candidate(price=100, cost=UNIT, pool=a_pool("a", ON_DEMAND))
    own = a_candidate(price=100, cost=UNIT, pool=a_pool("b", disruption=POOLS[0].disruption))
    totals = {"b": PoolTotals(price=1000, cost=10 * UNIT)}
    assert [rejecting_pool([other, own], savings, totals) for savings in (99, 100)] == ["b", ""]
