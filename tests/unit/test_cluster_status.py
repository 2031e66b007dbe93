"""What `status` counts: places taken in budgets, dollars, pods that wait."""

from __future__ import annotations

import msgspec

from core import labels
from core.calendars import with_calendars
from core.cluster_status import CountedNode, cluster_status
from core.model.node_pool import DAY, Budget, Calendar, Cap, Disruption
from core.model.snapshot import Snapshot
from core.model.values.quantity import HOURLY, nanodollars
from core.pools import with_charges
from core.spending import with_spending
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

SMALL = a_type("m5.large", price=0.1)
LARGE = a_type("m5.xlarge", price=0.2)


def a_cluster(**changes: object) -> Snapshot:
    """Two nodes of the pool, one of them spot, and one of a pool that is gone."""
    pairs = [
        a_node_of(SMALL, "first"),
        a_node_of(LARGE, "second", capacity_type=labels.SPOT),
        a_node_of(SMALL, "orphan", pool="gone"),
    ]
    fields = {
        "node_pools": (a_pool(disruption=Disruption(budgets=(Budget(nodes="1"),))),),
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "pods": (a_pod("running", node_name="first"), a_pod("waiting")),
    }
    return a_snapshot(types=(SMALL, LARGE), **{**fields, **changes})


def test_dollars_and_pods_are_those_of_the_nodes_of_each_pool() -> None:
    found = cluster_status(a_cluster())
    default, gone = found.pools
    assert (default.name, default.nodes, default.pods, default.hourly) == ("default", 2, 1, 180_000_000)
    assert default.spot_hourly == found.spot_hourly == 80_000_000
    assert (gone.name, gone.nodes, gone.budgets) == ("gone", 1, {})
    assert found.hourly == default.hourly + gone.hourly
    assert found.pending_pods == ("default/waiting",)


def test_a_node_that_goes_or_is_not_ready_takes_a_place_and_is_named() -> None:
    """Zero places left and nobody to ask is what people complain of."""
    whole = a_cluster()
    assert cluster_status(whole).pools[0].budgets == {"Drifted": 1, "Empty": 1, "Underutilized": 1, "Unhealthy": 1}
    going = msgspec.structs.replace(whole, marked_for_deletion=("default-first",))
    assert cluster_status(going).pools[0].counted == (CountedNode("first", "goes"),)
    assert set(cluster_status(going).pools[0].budgets.values()) == {0}
    nodes = tuple(msgspec.structs.replace(node, is_ready=node.name != "second") for node in whole.nodes)
    ill = cluster_status(msgspec.structs.replace(whole, nodes=nodes))
    assert ill.pools[0].counted == (CountedNode("second", "NotReady"),)


def test_a_node_of_somebody_else_counts_as_foreign_and_costs_nothing_here() -> None:
    whole = a_cluster()
    found = cluster_status(msgspec.structs.replace(whole, node_claims=whole.node_claims[1:]))
    assert (found.foreign_nodes, found.pools[0].nodes, found.pools[0].hourly) == (1, 1, 80_000_000)


def test_a_budget_that_cannot_be_read_is_told() -> None:
    pool = a_pool(disruption=Disruption(budgets=(Budget(nodes="many"),)))
    assert "spec.disruption.budgets[0]" in cluster_status(a_cluster(node_pools=(pool,))).pools[0].invalid_budget


def test_caps_say_what_they_count() -> None:
    """Of all pods' nodes, and of the share of nodes that are charged to them."""
    whole = a_cluster()
    caps = (
        Cap(name="costs/all", limits={HOURLY: nanodollars(0.5), "nodes": 9}),
        Cap(name="costs/shop", namespaces=("shop",), limits={HOURLY: nanodollars(0.4), "cpu": 4_000}),
    )
    first = msgspec.structs.replace(whole.node_claims[0], annotations=with_charges({}, {"costs/shop": 500_000}))
    snapshot = msgspec.structs.replace(
        whole, node_claims=(first, *whole.node_claims[1:]), calendars=(Calendar(name="costs", caps=caps),)
    )
    found = cluster_status(with_calendars(snapshot)).caps
    assert [(cap.name, cap.used) for cap in found] == [
        ("costs/all", {HOURLY: nanodollars(0.18), "nodes": 2}),
        ("costs/shop", {HOURLY: nanodollars(0.05), "cpu": 1_000}),
    ]
    assert [cap.periods for cap in found] == [(), ()]


def test_caps_of_a_day_say_what_is_spent_and_what_follows_for_an_hour() -> None:
    cap = Cap(name="costs/all", limits={HOURLY: nanodollars(0.5)}, periods={DAY: nanodollars(2.4)})
    snapshot = a_cluster(calendars=(Calendar(name="costs", caps=(cap,)),))
    (found,) = cluster_status(with_spending(with_calendars(snapshot))).caps
    (state,) = found.periods
    assert found.limits == {HOURLY: state.allowed}
    assert found.used == {HOURLY: nanodollars(0.18)}
    assert (state.limit, state.spent) == (nanodollars(2.4), 0)
