"""The price of a move depends on a setting; it is higher for important pods, and much higher for recently moved ones."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.move_price import DWELL_FACTOR, MovePrices, dial
from core.model.moved_workload import MovedWorkload
from core.model.pod import Pod
from core.model.snapshot import Options
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world

PRICE = 2 * 10**8


def price_of(*pods: Pod, options: Options = Options(), moved: MovedWorkload | None = None) -> int:  # noqa: B008 - frozen
    moves = {moved.name: moved} if moved is not None else {}
    snapshot = world(a_node_of(MIDDLE, "a"), pods=pods, options=options, moved_workloads=moves)
    candidates = DisruptionPass(snapshot).survey.candidates
    return MovePrices(candidates, snapshot).of(candidates[0])


def moved_ago(minutes: int) -> MovedWorkload:
    """The pods' workload, moved this long ago."""
    then = NOW - timedelta(minutes=minutes)
    return MovedWorkload(name="default/ReplicaSet/web", moving_since=then, moved_at=then)


def test_a_move_costs_a_share_of_a_pods_cost() -> None:
    two = (pod_on("a", "p1"), pod_on("a", "p2"))
    assert price_of(*two) == PRICE // 5
    assert price_of(*two, options=Options(moves="thorough")) == 0
    assert price_of(*two, options=Options(moves="gentle")) == PRICE * 45 // 100


def test_an_explicit_price_wins() -> None:
    assert price_of(pod_on("a", "p1"), pod_on("a", "p2"), options=Options(move_price=7)) == 14


def test_a_recently_moved_pod_is_expensive_to_move_and_less_so_with_time() -> None:
    ages = (0, 10, 12, 15, 19, 20, 25, 60, 300)
    started = [pod_on("a", started_at=NOW - timedelta(minutes=age)) for age in ages]
    prices = [price_of(pod, moved=moved_ago(age)) for pod, age in zip(started, ages, strict=True)]
    assert prices[0] == PRICE // 5 * (1 + DWELL_FACTOR)
    assert prices[1] == PRICE // 5 * (1 + DWELL_FACTOR // 2)
    assert prices == sorted(prices, reverse=True)
    assert len(set(prices[:8])) == 8
    assert prices[-1] == PRICE // 5


def test_thorough_does_not_move_recently_moved_pods() -> None:
    pod = pod_on("a", started_at=NOW)
    assert price_of(pod, options=Options(moves="thorough"), moved=moved_ago(0)) > PRICE


def test_a_pod_that_was_not_moved_costs_the_normal_price() -> None:
    pod = pod_on("a", started_at=NOW)
    assert price_of(pod) == price_of(pod, moved=moved_ago(30)) == PRICE // 5


def test_a_pool_may_override_the_setting() -> None:
    pool = a_pool(own_annotations={labels.MOVES: "gentle"})
    assert dial(pool, Options()) == "gentle"
    odd = msgspec.structs.replace(pool, own_annotations={labels.MOVES: "rarely"})
    assert dial(odd, Options()) == "balanced"
