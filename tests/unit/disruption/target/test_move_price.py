"""The price of a move depends on a setting; it is higher for important pods, and much higher for recently moved ones."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.move_price import DWELL_FACTOR, MovePrices, moves_setting
from core.model.pod import Pod
from core.model.snapshot import MovedWorkload, Options
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
    assert price_of(*two, options=Options(moves="gentle")) == PRICE * 23 // 100


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
    assert moves_setting(pool, Options()) == "gentle"
    odd = msgspec.structs.replace(pool, own_annotations={labels.MOVES: "rarely"})
    assert moves_setting(odd, Options()) == "balanced"


def test_a_move_counts_a_share_of_what_all_pods_cost_on_average_and_more_for_those_that_matter_more() -> None:
    """Two nodes with three pods, of which one is to be evicted last: it counts twice."""
    pods = (
        pod_on("a", "p1"),
        pod_on("b", "p2"),
        pod_on("b", "p3", annotations={labels.POD_DELETION_COST: str(2**27)}),
        pod_on("b", "p4", annotations={labels.POD_DELETION_COST: str(-(2**31))}),
    )
    snapshot = world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=pods)
    candidates = DisruptionPass(snapshot).survey.candidates
    prices = MovePrices(candidates, snapshot)
    assert prices.mean == 2 * PRICE // 4
    assert [prices.of(candidate) for candidate in candidates] == [PRICE // 10, 3 * PRICE // 10]


def test_pods_of_an_expiring_node_move_soon_in_any_case() -> None:
    """What was moved a moment ago stays expensive to move nevertheless."""
    for pod, moved, price in (
        (pod_on("a"), None, 0),
        (pod_on("a", started_at=NOW), moved_ago(0), PRICE // 5 * 20),
    ):
        moves = {moved.name: moved} if moved is not None else {}
        snapshot = world(a_node_of(MIDDLE, "a"), pods=(pod,), moved_workloads=moves)
        candidates = DisruptionPass(snapshot).survey.candidates
        assert MovePrices(candidates, snapshot, {"a"}).of(candidates[0]) == price
        assert MovePrices(candidates, snapshot, {"b"}).of(candidates[0]) == price + PRICE // 5


def test_a_fleet_without_pods_has_no_moves_to_pay_for() -> None:
    assert price_of() == 0


def test_twenty_moves_count_for_one_right_after_it_half_of_them_each_ten_minutes_later_and_none_after_two_hours() -> (
    None
):
    share = PRICE // 5
    for minutes, more in ((0, 20), (10, 10), (15, 7.5), (20, 5), (30, 2.5)):
        pod = pod_on("a", started_at=NOW - timedelta(minutes=minutes))
        assert price_of(pod, moved=moved_ago(minutes)) == share * (1 + more)
    late = [pod_on("a", started_at=NOW - timedelta(minutes=minutes)) for minutes in (119, 120)]
    assert price_of(late[0], moved=moved_ago(119)) > share == price_of(late[1], moved=moved_ago(120))


def test_a_pod_was_moved_if_it_started_from_the_first_move_until_ten_minutes_after_the_last() -> None:
    name = "default/ReplicaSet/web"
    moved = MovedWorkload(name=name, moving_since=NOW - timedelta(minutes=40), moved_at=NOW - timedelta(minutes=30))
    share, second = PRICE // 5, timedelta(seconds=1)
    for started, was_moved in (
        (moved.moving_since - second, False),
        (moved.moving_since, True),
        (moved.moved_at + timedelta(minutes=10), True),
        (moved.moved_at + timedelta(minutes=10) + second, False),
        (None, False),
    ):
        assert (price_of(pod_on("a", started_at=started), moved=moved) > share) is was_moved
    assert price_of(pod_on("a", started_at=NOW + second), moved=moved_ago(0)) == share


def test_pods_that_cost_nothing_to_evict_move_for_nothing_and_are_no_part_of_the_average() -> None:
    free = pod_on("a", annotations={labels.POD_DELETION_COST: str(-(2**31))})
    assert price_of(free, options=Options(move_price=2**28)) == 0
    snapshot = world(a_node_of(MIDDLE, "a"), pods=(free,))
    assert MovePrices(DisruptionPass(snapshot).survey.candidates, snapshot).mean == 0
