"""Changes to a plan that may help pods without a place."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.scheduling.greedy.queue import queue_of
from core.scheduling.replanning.plan_variation import PlanVariation, in_domain_orders
from core.scheduling.replanning.topology_conflicts import TopologyConflicts
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of

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


def test_pods_come_by_their_variation_before_anything_else() -> None:
    """Those of `first` in its order, then all others, then those of `last` in its order."""
    chosen = [(Requirement.one_of(labels.INSTANCE_TYPE, "m", f"other-{number}"),) for number in range(5)]
    pods = tuple(a_pod(f"p{number}", node_selector=one) for number, one in enumerate(chosen))
    context = context_of(types=(a_type("m"),), pods=pods)
    groups = {group.pod_group.signature.index: group for group in queue_of(context, [(context.pending, False)])}
    one, two, three, four, five = sorted(groups)
    variation = PlanVariation(first=(four, one), last=(five, two))
    ranked = sorted(groups, key=lambda index: variation.rank(groups[index]))
    assert ranked == [four, one, three, five, two]
    assert [variation.rank(groups[index]) for index in ranked] == [-2, -1, 0, 1, 2]


def test_what_repels_pods_is_barred_with_the_pods_ahead_before_it_is_barred_alone() -> None:
    repelled = TopologyConflicts({labels.ZONE: ("a", "b")}, repelled={labels.ZONE: (7, 8)}, followed={})
    start = PlanVariation(last=(4,))
    ahead, *others = start.neighbours(4, repelled)
    bars = [frozenset({(7, labels.ZONE, value), (8, labels.ZONE, value)}) for value in ("a", "b")]
    assert [(variation.first, variation.barred) for variation in others[:4]] == [
        (first, bar) for bar in bars for first in (ahead.first, start.first)
    ]
