"""The fleet of a simulation in each recorded snapshot."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.counterfactual import simulated_fleet
from core.counterfactual.overrides import ProvenMinimum
from core.counterfactual.simulated_fleet import (
    MarketPrices,
    RecordedFleet,
    RecordedFleetResult,
    SimulatedFleet,
    SimulatedPods,
    carried_over,
    fleet_minimum,
    is_simulated,
)
from core.disruption.disruption_pass import fleet_price
from core.model.catalogue import Catalogue
from core.model.plan import DISRUPTION_REASON, INITIALIZED, Condition, StoredTarget
from core.model.pod import Owner, Pod
from core.model.snapshot import EvictedNode, MovedWorkload, Options, Snapshot
from core.model.values.commitment import ReservedInstances
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_type
from tests.builders import a_snapshot as plain_snapshot

# The proven minimum holds for any fleet, whatever protects the nodes of the recorded one.


SMALL = a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",))
LARGE = a_type("m5.4xlarge", cpu="16", memory="64Gi", price=0.4, capacity_types=("on-demand",))


def test_a_protected_node_that_is_too_large_does_not_raise_it() -> None:
    claim, node = a_node_of(LARGE, "large")
    protected = a_pod("p", cpu="2", node_name="large", phase="Running", annotations={labels.DO_NOT_DISRUPT: "true"})
    snapshot = plain_snapshot(
        types=(SMALL, LARGE), node_pools=(a_pool(),), node_claims=(claim,), nodes=(node,), pods=(protected,)
    )
    minimum = fleet_minimum(snapshot)
    assert minimum is not None
    assert 0 < minimum <= 100_000_000


def test_what_runs_on_nodes_of_others_costs_nothing() -> None:
    _, node = a_node_of(LARGE, "theirs")
    pod = a_pod("p", cpu="2", node_name="theirs", phase="Running")
    snapshot = plain_snapshot(types=(SMALL,), node_pools=(a_pool(),), nodes=(node,), pods=(pod,))
    assert not fleet_minimum(snapshot)


def test_pods_that_wait_cost_the_recorded_fleet_nothing() -> None:
    """`of $0.0098 any fleet must spend $0.0171` was said of minutes in which pods waited for the first nodes."""
    claim, node = a_node_of(SMALL, "small")
    runs = a_pod("runs", cpu="2", node_name="small", phase="Running")
    snapshot = plain_snapshot(
        types=(SMALL, LARGE),
        node_pools=(a_pool(),),
        node_claims=(claim,),
        nodes=(node,),
        pods=(runs, a_pod("waits", cpu="12")),
    )
    minimum = fleet_minimum(snapshot)
    assert minimum is not None
    assert 0 < minimum <= 100_000_000


# Prices of nodes that are kept from snapshot to snapshot are those of each snapshot's market.


CHEAP, DEAR = a_type("m7.large", price=0.1), a_type("m7.large", price=0.4)
CLAIM, NODE = a_node_of(CHEAP, "n1")
FIRST = plain_snapshot(types=(CHEAP,), node_pools=(a_pool(),), node_claims=(CLAIM,), nodes=(NODE,))


def test_the_fleet_costs_what_each_market_says() -> None:
    reserved = ReservedInstances(name="r", instance_type="m7.large", count=1)
    half = msgspec.structs.replace(a_pool(), price_factors={"m7": 500})
    looks = [
        FIRST,
        msgspec.structs.replace(FIRST, catalogue=Catalogue(default=(DEAR,))),
        msgspec.structs.replace(FIRST, node_pools=(half,)),
        msgspec.structs.replace(FIRST, options=Options(commitments=(reserved,))),
        msgspec.structs.replace(FIRST, nodes=(), node_claims=()),
    ]
    prices = MarketPrices(FIRST)
    found = [prices.of_fleet(one) for one in (*looks, *reversed(looks))]
    assert found[:5] == found[:4:-1] == [fleet_price(one) for one in looks]
    assert found[1] == 4 * found[0] == 8 * found[2] > 0 == found[4]


def test_a_node_is_priced_again_only_in_another_market(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(simulated_fleet, "node_price", lambda labels, _: asked.append(labels["kubernetes.io/hostname"]))
    monkeypatch.setattr(simulated_fleet, "NODES_KEPT", 1)
    prices = MarketPrices(FIRST)
    _, other = a_node_of(CHEAP, "n2")
    equal = msgspec.structs.replace(FIRST, node_pools=(a_pool(),))
    for look, node in ((FIRST, NODE), (equal, NODE), (FIRST, other), (FIRST, NODE)):
        prices.read(look)
        prices.of(node.labels, "default")
    assert asked == ["n1", "n2", "n1"]


# What snapshots of another's fleet show: cost, evictions, waits, boots.


MINUTE = timedelta(minutes=1)
RECORDED_FLEET_TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",))


def a_record(minute: int, nodes: tuple[str, ...], pods: dict[str, str], *, by_choice: tuple[str, ...] = ()) -> Snapshot:
    """`pods`: name → node, empty for one that waits."""
    pairs = [a_node_of(RECORDED_FLEET_TYPE, name) for name in nodes]
    told = {DISRUPTION_REASON: Condition("True", "Underutilized")}
    claims = [
        msgspec.structs.replace(claim, conditions={**claim.conditions, **told}) if node.name in by_choice else claim
        for claim, node in pairs
    ]
    found = [
        a_pod(name, node_name=node, phase="Running" if node else "Pending", created_at=NOW)
        for name, node in pods.items()
    ]
    return plain_snapshot(
        types=(RECORDED_FLEET_TYPE,),
        now=NOW + minute * MINUTE,
        node_pools=(a_pool(),),
        node_claims=tuple(claims),
        nodes=tuple(node for _, node in pairs),
        pods=tuple(found),
    )


def result(*records: Snapshot, minutes: int, floor: int | None = None) -> RecordedFleetResult:
    fleet = RecordedFleet()
    for record in records:
        fleet.see(record, floor)
    return fleet.finish(NOW + minutes * MINUTE)


def test_a_pod_that_leaves_a_node_that_goes_was_evicted_once() -> None:
    """By choice where Karpenter says so, otherwise apart: an interruption is nobody's choice."""
    found = result(
        a_record(0, ("a", "b", "c"), {"p": "a", "q": "b", "stays": "c"}),
        a_record(1, ("a", "b", "c"), {"p": "a", "q": "b", "stays": "c"}, by_choice=("a",)),
        a_record(2, ("b", "c"), {"p": "c", "q": "b", "stays": "c"}),
        a_record(3, ("c",), {"p": "c", "stays": "c"}),
        a_record(4, ("c",), {"p": "c", "stays": "c"}),
        minutes=5,
    )
    assert (found.evicted, found.displaced) == (1, 1)


def test_pods_that_left_by_choice_are_counted_apart_from_others() -> None:
    """Two of one node that Karpenter disrupts, one of a node that goes for no recorded reason."""
    pods = {"p": "a", "q": "a", "r": "b", "stays": "c"}
    found = result(
        a_record(0, ("a", "b", "c"), pods),
        a_record(1, ("a", "b", "c"), pods, by_choice=("a",)),
        a_record(2, ("c",), {"p": "c", "stays": "c"}),
        minutes=3,
    )
    assert (found.evicted, found.displaced) == (2, 1)


def test_a_pod_that_ends_on_a_node_that_stays_was_not_evicted() -> None:
    found = result(a_record(0, ("a",), {"p": "a"}), a_record(1, ("a",), {}), minutes=2)
    assert (found.evicted, found.displaced) == (0, 0)


def test_hours_cost_what_each_snapshot_shows_until_the_next() -> None:
    found = result(a_record(0, ("a", "b"), {}), a_record(30, ("a",), {}), minutes=60, floor=50_000_000)
    assert found.cost == 150_000_000
    assert found.hours == pytest.approx(1.5)
    assert found.minimum == ProvenMinimum(cost=50_000_000, spent=found.cost, over=60 * MINUTE)
    assert [price for _, price in found.series] == [200_000_000, 100_000_000]


def test_costs_are_rounded_down_once_at_the_end() -> None:
    """The last nano-dollar is not there before its whole hour is: one microsecond less is less."""
    odd = a_type("m5.large", cpu="4", memory="16Gi", price=0.000_000_001, capacity_types=("on-demand",))
    record = msgspec.structs.replace(a_record(0, ("a",), {}), catalogue=plain_snapshot(types=(odd,)).catalogue)
    for short, cost in ((timedelta(microseconds=1), 0), (timedelta(0), 1)):
        fleet = RecordedFleet()
        fleet.see(record, 1)
        found = fleet.finish(NOW + timedelta(hours=1) - short)
        assert found.cost == cost
        assert found.minimum is not None
        assert (found.minimum.cost, found.minimum.spent) == (cost, cost)


def test_only_pods_that_come_in_the_period_wait() -> None:
    """One that is bound when it is first seen waited less than what snapshots can show."""
    found = result(
        a_record(0, ("a",), {"old": ""}),
        a_record(1, ("a",), {"old": "a", "waits": "", "quick": "a", "never": ""}),
        a_record(3, ("a",), {"old": "a", "waits": "a", "quick": "a", "never": ""}),
        minutes=4,
    )
    assert found.waits == {"default/waits": 3 * MINUTE, "default/quick": timedelta(0)}
    assert found.arrived.keys() - found.waits.keys() == {"default/never"}


def test_boots_are_those_of_nodes_that_came() -> None:
    later = a_record(5, ("a", "b"), {})
    ready = {INITIALIZED: Condition("True", changed_at=NOW + 4 * MINUTE)}
    claims = [
        msgspec.structs.replace(claim, created_at=NOW + 3 * MINUTE, conditions=ready) for claim in later.node_claims
    ]
    later = msgspec.structs.replace(later, node_claims=tuple(claims))
    found = result(a_record(0, ("a",), {}), later, minutes=6)
    assert (found.boot, found.launched) == (MINUTE, 1)
    assert result(a_record(0, ("a",), {}), minutes=1).boot is None


TYPE = a_type("m", cpu="4")
LATER = NOW + timedelta(hours=1)


def test_a_snapshot_has_the_simulated_nodes_and_nothing_that_was_recorded_of_the_real_ones() -> None:
    """A nomination or a move of a real node would keep a simulated one of the same name from going."""
    claim, node = a_node_of(TYPE, "n1")
    first = plain_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(node,), pods=(a_pod("p", node_name="n1"),))
    fleet = SimulatedFleet(first)
    other_claim, other = a_node_of(TYPE, "n2")
    asked = msgspec.structs.replace(
        first,
        node_claims=(other_claim,),
        nodes=(other,),
        nominated_until={"n1": LATER},
        marked_for_deletion=("n1",),
        paused_pools={"default": LATER},
        moved_workloads={"default/web": MovedWorkload(name="default/web", moving_since=NOW, moved_at=NOW)},
        evicted_nodes={"n1": EvictedNode(node_pool="default", pods=3, at=NOW)},
        stored_target=StoredTarget(
            made_at=NOW, settings="", drains=(), kept_price=0, drained_price=0, new_price=0, slots=(), new_nodes=()
        ),
    )
    simulated = fleet.in_snapshot(asked, LATER, karpenter_moves_only=True)
    assert (simulated.node_claims, simulated.nodes) == ((claim,), (node,))
    assert (simulated.nominated_until, simulated.marked_for_deletion, simulated.paused_pools) == ({}, (), {})
    assert (simulated.moved_workloads, simulated.rollouts, simulated.attachments) == ({}, {}, ())
    assert (simulated.evicted_nodes, simulated.stored_target) == ({}, None)
    assert (simulated.now, simulated.options.karpenter_moves_only) == (LATER, True)


def test_an_unchanged_pod_in_the_same_place_stays_the_same_object() -> None:
    """What is remembered of a pod is found by its identity."""
    claim, node = a_node_of(TYPE, "n1")
    pods = (a_pod("p", node_name="n1"), a_pod("q"))
    first = plain_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(node,), pods=pods)
    fleet = SimulatedFleet(first)
    one = fleet.in_snapshot(first, NOW, karpenter_moves_only=False)
    later = msgspec.structs.replace(
        first, now=LATER, pods=(pods[0], msgspec.structs.replace(pods[1], labels={"a": "b"}))
    )
    fleet.meet(later)
    two = fleet.in_snapshot(later, LATER, karpenter_moves_only=False)
    assert [a is b for a, b in zip(one.pods, two.pods, strict=True)] == [True, False]
    assert [(pod.node_name, pod.phase, pod.is_ready) for pod in two.pods] == [
        ("n1", "Running", True),
        ("", "Pending", None),
    ]


# The pods of recorded snapshots that need a place.


def a_snapshot(*pods: Pod) -> Snapshot:
    return Snapshot(now=NOW, cluster="c", pods=pods)


def test_an_unchanged_pod_is_examined_once_and_a_changed_one_again() -> None:
    kept, changed = a_pod("kept"), a_pod("changed")
    daemon = a_pod("d", owners=(Owner(kind="DaemonSet", name="agent", is_controller=True),))
    pods = SimulatedPods()
    before = pods(a_snapshot(kept, daemon, changed))
    assert [one.key for one in before] == ["default/kept", "default/changed"]
    finished = msgspec.structs.replace(changed, phase="Succeeded")
    moved = msgspec.structs.replace(changed, node_name="n1")
    assert list(pods(a_snapshot(kept, daemon, finished))) == [before[0]]
    again = pods(a_snapshot(moved, kept))
    assert [one.pod for one in again] == [moved, kept]
    assert again[1] is before[0]


def test_a_pod_that_came_back_is_examined_as_it_is_now() -> None:
    pods = SimulatedPods()
    first = a_snapshot(a_pod("a"))
    assert len(pods(first)) == 1
    assert len(pods(a_snapshot())) == 0
    assert [one.pod for one in pods(first)] == list(first.pods)


# Where pods run in a simulated fleet.


def owned(name: str) -> Pod:
    return a_pod(name, owners=(Owner(kind="ReplicaSet", name="web", is_controller=True),))


def workloads_of(*pods: Pod) -> dict[str, str]:
    return {pod.key: pod.workload for pod in pods}


PODS = [owned("a"), owned("b")]
PLACES, WORKLOADS = {"default/a": "n1", "default/b": "n2"}, workloads_of(*PODS)


def test_a_successor_takes_the_place_of_the_pod_that_disappeared() -> None:
    """In the record Karpenter evicted it; in the simulated fleet it did not move."""
    assert carried_over(PLACES, WORKLOADS, workloads_of(owned("b"), owned("c"))) == {
        "default/b": "n2",
        "default/c": "n1",
    }


@pytest.mark.parametrize("other", [a_pod("stranger"), owned("a2")])
def test_a_pod_without_a_free_place_of_its_workload_has_none(other: Pod) -> None:
    here = [owned("b"), other] if other.name == "stranger" else [*PODS, other]
    assert other.key not in carried_over(PLACES, WORKLOADS, workloads_of(*here))


def test_pods_of_daemon_sets_or_of_a_node_and_gated_or_ended_pods_need_no_place() -> None:
    daemon = a_pod("d", owners=(Owner(kind="DaemonSet", name="agent", is_controller=True),))
    static = a_pod("s", owners=(Owner(kind="Node", name="n1", is_controller=True),))
    others = (daemon, static, a_pod("g", is_gated=True), a_pod("e", phase="Succeeded"))
    assert [is_simulated(pod) for pod in (a_pod("a"), *others)] == [True, False, False, False, False]
