"""What snapshots of another's fleet show: cost, evictions, waits, boots."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.counterfactual.proven_minimum import ProvenMinimum
from core.counterfactual.recorded_fleet import RecordedFleet, RecordedFleetResult
from core.model.node_claim import DISRUPTION_REASON, INITIALIZED, Condition
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type

MINUTE = timedelta(minutes=1)
TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",))


def a_record(minute: int, nodes: tuple[str, ...], pods: dict[str, str], *, by_choice: tuple[str, ...] = ()) -> Snapshot:
    """`pods`: name → node, empty for one that waits."""
    pairs = [a_node_of(TYPE, name) for name in nodes]
    told = {DISRUPTION_REASON: Condition("True", "Underutilized")}
    claims = [
        msgspec.structs.replace(claim, conditions={**claim.conditions, **told}) if node.name in by_choice else claim
        for claim, node in pairs
    ]
    found = [
        a_pod(name, node_name=node, phase="Running" if node else "Pending", created_at=NOW)
        for name, node in pods.items()
    ]
    return a_snapshot(
        types=(TYPE,),
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
    record = msgspec.structs.replace(a_record(0, ("a",), {}), catalogue=a_snapshot(types=(odd,)).catalogue)
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
