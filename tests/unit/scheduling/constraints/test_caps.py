"""Plans under caps that count nodes by the pods that they are for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.calendars import with_calendars
from core.explain import explain_pool
from core.model.node_pool import Calendar, Cap
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.quantity import HOURLY, NODES, PPM, nanodollars
from core.model.values.requirements import Requirement
from core.pools import charges_of, node_prices, share_in, share_of, with_charges
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.scheduling.constraints.caps import RemainingCaps
from core.scheduling.planner import Planner
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import reasons_of

SMALL = a_type("m5.large", cpu="2", memory="8Gi", price=0.1)
LARGE = a_type("m5.4xlarge", cpu="16", memory="64Gi", price=0.8)
ON_DEMAND = a_type("m5.large", cpu="2", memory="8Gi", price=0.1, capacity_types=(labels.ON_DEMAND,))


def a_cap(**changes: Any) -> Cap:
    return Cap(**{"name": "costs/shop", "namespaces": ("shop",), "limits": {HOURLY: nanodollars(0.2)}, **changes})


def capped(*caps: Cap, types: Any = (SMALL, LARGE), **world: Any) -> Snapshot:
    world = {"node_pools": (a_pool(),), **world}
    return with_calendars(a_snapshot(types=types, calendars=(Calendar(name="costs", caps=caps),), **world))


def planned(*pods: Pod, caps: tuple[Cap, ...] = (), **world: Any) -> Plan:
    return schedule(capped(*(caps or (a_cap(),)), pods=pods, **world))


def shop_pods(number: int, **changes: Any) -> list[Pod]:
    return [a_pod(f"shop-{n}", namespace="shop", cpu="1800m", **changes) for n in range(number)]


# What a node counts for whom.


_REQUESTS = st.fixed_dictionaries({"cpu": st.integers(0, 10**5), "memory": st.integers(0, 2**40)})


@given(st.lists(st.tuples(st.integers(0, 3), _REQUESTS), min_size=1, max_size=30), st.integers(1, 10**12))
def test_the_parts_of_a_node_are_never_less_than_the_node(pods: list[tuple[int, dict[str, int]]], price: int) -> None:
    """Each owner's part is rounded up, so that together they pay the whole node, and nobody pays more than all of it."""
    owners: dict[int, dict[str, int]] = {}
    whole: dict[str, int] = {}
    for owner, requests in pods:
        for total in (owners.setdefault(owner, {}), whole):
            for name, amount in {**requests, "pods": 1}.items():
                total[name] = total.get(name, 0) + amount
    shares = [share_of(part, whole) for part in owners.values()]
    assert PPM <= sum(shares) <= PPM + 3 * len(owners)
    assert all(0 <= share <= PPM for share in shares)
    charges = [share_in({HOURLY: price, NODES: 1}, share) for share in shares]
    assert price <= sum(charge[HOURLY] for charge in charges)
    assert all(charge[HOURLY] <= price for charge in charges)


def test_a_node_for_one_owner_alone_counts_as_a_whole() -> None:
    assert share_of({"cpu": 5, "pods": 1}, {"cpu": 5, "pods": 1}) == PPM


def test_charges_survive_being_written_and_nonsense_is_passed_over() -> None:
    """They are annotations of nodes, which somebody may change."""
    assert charges_of(with_charges({"a": "b"}, {"costs/shop": 250_000, "costs/web": PPM})) == {
        "costs/shop": 250_000,
        "costs/web": PPM,
    }
    assert charges_of({labels.CHARGED_TO: "x y= =5 costs/shop=-4 costs/web=99999999999999999999 a=b"}) == {}


def test_shared_nodes_are_shared_out_by_requests() -> None:
    pods = (a_pod("a", namespace="shop", cpu="1", memory="2Gi"), a_pod("b", cpu="500m", memory="2Gi"))
    (claim,) = planned(*pods, types=(SMALL,)).claims
    assert charges_of(claim.annotations) == {"costs/shop": -(-(666_667 + 500_000) // 2)}


def test_caps_count_pods_by_namespace_and_labels_together() -> None:
    cap = a_cap(pod_labels={"team": "pay"})
    assert cap.selects("shop", {"team": "pay", "app": "x"})
    assert not cap.selects("shop", {"team": "web"})
    assert not cap.selects("other", {"team": "pay"})


# What a plan launches.


def test_pods_beyond_a_cap_wait_and_others_get_their_nodes() -> None:
    pods = (*shop_pods(5), *(a_pod(f"other-{n}", cpu="1800m") for n in range(4)))
    plan = planned(*pods, types=(ON_DEMAND,))
    assert reasons_of(plan) == dict.fromkeys(("shop-2", "shop-3", "shop-4"), PodReason.BUDGET_EXHAUSTED)
    assert sum(len(claim.pods) for claim in plan.claims) == 6
    message = plan.unschedulable[0].message
    assert "cap costs/shop: its limit fleetwright.dev/dollars-per-hour leaves $0 of $0.2, and" in message
    assert "a node comes once others that cost $0.1 an hour have left" in message, "beside those of this plan"
    assert "or the cap is raised" in message


def test_the_most_important_pods_come_first() -> None:
    low = [msgspec.structs.replace(pod, name=f"low-{n}") for n, pod in enumerate(shop_pods(3))]
    high = shop_pods(2, priority=10)
    plan = planned(*low, *high, types=(ON_DEMAND,))
    assert sorted(reasons_of(plan)) == ["low-0", "low-1", "low-2"]


def test_a_smaller_node_holds_what_a_cap_leaves_room_for() -> None:
    """Seven pods fit one large node best, which is too expensive; two of them get small ones."""
    plan = planned(*(a_pod(f"shop-{n}", namespace="shop", cpu="1500m") for n in range(7)))
    assert sum(len(claim.pods) for claim in plan.claims) == 2
    assert set(reasons_of(plan).values()) == {PodReason.BUDGET_EXHAUSTED}


def test_a_claim_keeps_only_types_that_the_cap_has_room_for() -> None:
    """It counts at its most expensive type until it is launched."""
    (claim,) = planned(*shop_pods(1)).claims
    assert claim.instance_types == ("m5.large",)
    (free,) = planned(a_pod("other", cpu="1800m")).claims
    assert free.instance_types == ("m5.large", "m5.4xlarge")


@pytest.mark.parametrize(
    ("limits", "launched"), [({NODES: 1}, 1), ({"cpu": 4_000}, 2), ({"cpu": 100_000, NODES: 3}, 3), ({NODES: 0}, 0)]
)
def test_nodes_and_vcpus_are_capped_as_dollars_are(limits: dict[str, int], launched: int) -> None:
    plan = planned(*shop_pods(4), types=(ON_DEMAND,), caps=(a_cap(limits=limits),))
    assert len(plan.claims) == launched
    assert len(reasons_of(plan)) == 4 - launched


def test_running_nodes_count_with_the_share_that_their_claims_name() -> None:
    """A node of old that was launched for others counts nothing, although pods of the cap run there."""
    claim, node = a_node_of(ON_DEMAND, "old")
    world: dict[str, Any] = {"types": (ON_DEMAND,), "nodes": (node,), "node_claims": (claim,)}
    there = a_pod("there", namespace="shop", cpu="1800m", node_name="old")
    assert len(planned(*shop_pods(4), there, **world).claims) == 2
    charged = msgspec.structs.replace(node, annotations=with_charges({}, {"costs/shop": PPM}))
    of_claim = msgspec.structs.replace(claim, annotations=charged.annotations)
    assert len(planned(*shop_pods(4), there, **world | {"nodes": (charged,), "node_claims": (of_claim,)}).claims) == 1
    leaving = msgspec.structs.replace(of_claim, deleted_at=claim.created_at)
    gone = capped(a_cap(limits={HOURLY: nanodollars(0.2), NODES: 1}), **world | {"node_claims": (leaving,)})
    caps = RemainingCaps(gone, state_nodes(gone), (), node_prices(gone))
    assert caps.rooms == {"costs/shop": {HOURLY: nanodollars(0.1), NODES: 1}}
    assert len(planned(*shop_pods(4), **world | {"nodes": (charged,), "node_claims": (leaving,)}).claims) == 1


def test_all_caps_that_select_a_pod_hold() -> None:
    team = a_cap(name="costs/team", namespaces=(), pod_labels={"team": "pay"}, limits={NODES: 1})
    paying = [msgspec.structs.replace(pod, labels={"team": "pay"}) for pod in shop_pods(3)]
    plan = planned(*paying, types=(ON_DEMAND,), caps=(a_cap(), team))
    assert len(plan.claims) == 1
    assert charges_of(plan.claims[0].annotations) == {"costs/shop": PPM, "costs/team": PPM}


def test_a_cap_on_all_pods_is_a_limit_that_node_pools_share() -> None:
    cap = a_cap(name="costs/all", namespaces=())
    pools = tuple(a_pool(name) for name in ("one", "two"))
    plan = planned(*(a_pod(f"p{n}", cpu="1800m") for n in range(4)), types=(ON_DEMAND,), caps=(cap,), node_pools=pools)
    assert len(plan.claims) == 2
    assert set(reasons_of(plan).values()) == {PodReason.BUDGET_EXHAUSTED}
    assert "cap costs/all's limit" in plan.unschedulable[0].message


@pytest.mark.parametrize(
    ("limits", "least"), [({NODES: 2}, "nodes leaves 0 of 2"), ({"cpu": 5_000}, "cpu leaves 1 of 5")]
)
def test_a_cap_on_nodes_or_cpu_of_all_pods_is_named_with_what_would_free_it(limits: dict[str, int], least: str) -> None:
    """Not as the limits of the NodePool, which cannot be raised for it."""
    cap = a_cap(name="costs/all", namespaces=(), limits=limits)
    plan = planned(*(a_pod(f"p{n}", cpu="1800m") for n in range(4)), types=(ON_DEMAND,), caps=(cap,))
    assert len(plan.claims) == 2
    assert set(reasons_of(plan).values()) == {PodReason.BUDGET_EXHAUSTED}
    assert f"cap costs/all's limit {least}, and the smallest suitable type" in plan.unschedulable[0].message
    assert "have left, or the limit is raised" in plan.unschedulable[0].message


def test_a_node_that_leaves_still_costs_what_a_cap_on_all_pods_counts() -> None:
    """EC2 is paid for both until it is gone; several runs at once refused the claim, and each plan made it again."""
    cap = a_cap(name="costs/all", namespaces=())
    claim, node = a_node_of(ON_DEMAND, "old")
    leaving = msgspec.structs.replace(claim, deleted_at=NOW)
    world: dict[str, Any] = {"types": (ON_DEMAND,), "nodes": (node,), "caps": (cap,)}
    pods = tuple(a_pod(f"p{n}", cpu="1800m") for n in range(3))
    for claims in ((claim,), (leaving,)):
        assert len(planned(*pods, node_claims=claims, **world).claims) == 1


def test_the_cap_of_a_calendar_for_other_node_pools_does_not_count() -> None:
    snapshot = a_snapshot(
        types=(ON_DEMAND,),
        node_pools=(a_pool(),),
        pods=tuple(shop_pods(4)),
        calendars=(Calendar(name="costs", node_pools=("other",), caps=(a_cap(),)),),
    )
    assert len(schedule(with_calendars(snapshot)).claims) == 4


def test_minimum_values_outrank_the_choice_of_cheap_types() -> None:
    """A claim that needs two types counts at the larger one."""
    two = Requirement(labels.INSTANCE_TYPE, True, (), min_values=2)
    plan = planned(*shop_pods(1), node_pools=(a_pool("default", two),))
    assert reasons_of(plan) == {"shop-0": PodReason.BUDGET_EXHAUSTED}
    larger = a_cap(limits={HOURLY: nanodollars(0.8)})
    assert len(planned(*shop_pods(1), caps=(larger,), node_pools=(a_pool("default", two),)).claims) == 1


def test_a_node_whose_pods_a_cap_would_hold_back_is_not_drained() -> None:
    """Its replacement has no room, so the pods would wait for nothing."""
    claim, node = a_node_of(ON_DEMAND, "old")
    charge = with_charges({}, {"costs/shop": PPM})
    world: dict[str, Any] = {
        "types": (ON_DEMAND,),
        "nodes": (msgspec.structs.replace(node, annotations=charge),),
        "node_claims": (msgspec.structs.replace(claim, annotations=charge),),
        "pods": (a_pod("there", namespace="shop", cpu="1800m", node_name="old"),),
    }
    planner = Planner(capped(a_cap(limits={NODES: 1}), **world))
    results = planner.what_if(("old",), consolidation=True)
    assert [unplaced.reason for unplaced in results.plan.unschedulable] == [PodReason.BUDGET_EXHAUSTED]


def test_a_cap_does_not_make_a_pod_that_waits_for_spot_take_on_demand_capacity() -> None:
    waiting = [msgspec.structs.replace(pod, annotations={labels.START_BEFORE: "8h"}) for pod in shop_pods(4)]
    plan = planned(*waiting)
    assert plan.claims
    assert {claim.capacity_types for claim in plan.claims} == {(labels.SPOT,)}
    assert set(reasons_of(plan).values()) == {PodReason.BUDGET_EXHAUSTED}


def test_a_node_pool_says_what_its_caps_leave() -> None:
    snapshot = capped(a_cap(limits={NODES: 3}), types=(ON_DEMAND,))
    assert "cap costs/shop: 3 of 3 of nodes left" in explain_pool(snapshot, snapshot.node_pools[0]).details
