"""Changes to a plan that may help pods without a place."""

from __future__ import annotations

from core import labels
from core.scheduling.replanning.plan_variation import PlanVariation, in_domain_orders
from core.scheduling.replanning.topology_conflicts import TopologyConflicts

VALUES = {labels.ZONE: ("a", "b", "c")}
CONFLICTS = TopologyConflicts(VALUES, repelled={labels.ZONE: (7,)}, followed={labels.ZONE: (8,)})


def test_the_most_promising_change_puts_the_pods_first() -> None:
    first = next(PlanVariation(first=(5, 9), last=(4,)).neighbours(4, CONFLICTS))
    assert first == PlanVariation(first=(4, 5, 9))


def test_neighbours_differ_from_the_variation_and_name_only_conflicts() -> None:
    """Each neighbour costs a whole plan."""
    start = PlanVariation()
    found = list(start.neighbours(4, CONFLICTS))
    assert start not in found
    barred = {one for variation in found for one in variation.barred}
    assert {signature for signature, _, _ in barred} == {4, 7, 8}
    assert {value for _, _, value in barred} == set(VALUES[labels.ZONE])
    round_robin = {one for variation in found for one in variation.round_robin}
    assert {signature for signature, _, _ in round_robin} == {8}
    assert {values for _, _, values in round_robin} == {("a", "b", "c"), ("b", "c"), ("a", "c"), ("a", "b")}


def test_orders_begin_with_each_domain_up_and_down_and_then_are_drawn() -> None:
    orders = [variation.order for variation in in_domain_orders(VALUES, drawn=2)]
    assert all(order is not None for order in orders)
    assert [(order.values, order.seed) for order in orders if order is not None] == [
        (("a", "b", "c"), None),
        (("b", "c", "a"), None),
        (("c", "a", "b"), None),
        (("c", "b", "a"), None),
        (("b", "a", "c"), None),
        (("a", "c", "b"), None),
        (("a", "b", "c"), 0),
        (("a", "b", "c"), 1),
    ]


def test_of_two_values_none_is_excluded() -> None:
    """Excluding one of two leaves a single value, which is tried as a bar: each further plan costs time."""
    conflicts = TopologyConflicts({labels.ZONE: ("a", "b")}, repelled={}, followed={labels.ZONE: (8,)})
    found = PlanVariation().neighbours(4, conflicts)
    assert {values for variation in found for _, _, values in variation.round_robin} == {("a", "b")}
