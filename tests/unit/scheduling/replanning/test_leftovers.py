"""Pods that a plan left without a place, and which of two plans is fair to them."""

from __future__ import annotations

from collections import Counter

import pytest

from core import labels
from core.model.pod import PodAffinityTerm, VolumeUse, WeightedPodAffinityTerm
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.replanning.leftovers import is_fair, leftovers_of
from tests.builders import NOW, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of

NEAR = (PodAffinityTerm(labels.ZONE, a_selector(app="a")),)


def test_pods_that_no_node_can_help_do_not_count() -> None:
    """Otherwise, every plan of a cluster with one broken pod is made again and again."""
    pods = (*(a_pod(f"p{n}", cpu="1500m") for n in range(3)), a_pod("broken", volumes=(VolumeUse("no-such-claim"),)))
    context = context_of(types=(a_type(),), node_pools=(a_pool(limits={"nodes": 1}),), pods=pods)
    run = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset())
    assert leftovers_of(run.run()) == Counter({group_of(context, "p0").index: 2})


@pytest.mark.parametrize(
    ("before", "after", "fair"),
    [
        ({"near": 1}, {}, True),
        ({"plain": 1}, {"near": 1}, True),
        ({"near": 1}, {"plain": 1}, False),
        ({"low": 1}, {"near": 1}, False),
        ({"near": 1}, {"low": 1}, False),
        ({}, {}, True),
    ],
)
def test_only_pods_with_rules_lose_a_place_and_none_to_a_lower_priority(
    before: dict[str, int], after: dict[str, int], fair: bool
) -> None:
    """`plain` and `low` are equal but for what they request and for their priority."""
    pods = (a_pod("near", affinity=NEAR), a_pod("plain", cpu="2"), a_pod("low", cpu="500m", priority=-1))
    context = context_of(types=(a_type(cpu="8"),), pods=pods)
    numbers = {pod.name: context.pod_groups.of(pod).index for pod in pods}
    waiting = {group.pod_group.index: group for group in queue_of(context, [(context.pending, False)])}
    counts = [Counter({numbers[name]: count for name, count in side.items()}) for side in (before, after)]
    assert is_fair(waiting, before=counts[0], after=counts[1]) == fair


def test_priorities_are_those_of_the_pods_that_lose_and_gain_a_place() -> None:
    """Equal pods are one group whatever their priority: the oldest of the group stood for all of them."""
    old, urgent = a_pod("old", affinity=NEAR, priority=0), a_pod("urgent", affinity=NEAR, priority=9, created_at=NOW)
    other = a_pod("other", cpu="2", affinity=NEAR, priority=5)
    context = context_of(types=(a_type(cpu="8"),), pods=(old, urgent, other))
    near, larger = group_of(context, "urgent"), group_of(context, "other")
    assert near is group_of(context, "old")
    waiting = {group.pod_group.index: group for group in queue_of(context, [(context.pending, False)])}
    one_of, other_of = Counter({near.index: 1}), Counter({larger.index: 1})
    assert is_fair(waiting, before=one_of, after=other_of), "a place for priority 9 instead of 5"
    assert not is_fair(waiting, before=other_of, after=one_of)


def test_pods_that_only_prefer_a_rule_along_zones_may_lose_their_place_as_well() -> None:
    """With the preference they are placed by zones like those that have to be."""
    wish = (WeightedPodAffinityTerm(1, NEAR[0]),)
    context = context_of(
        types=(a_type(cpu="8"),), pods=(a_pod("wish", preferred_affinity=wish), a_pod("other", cpu="2"))
    )
    wishing, other = (group_of(context, name).index for name in ("wish", "other"))
    waiting = {group.pod_group.index: group for group in queue_of(context, [(context.pending, False)])}
    assert is_fair(waiting, before=Counter({other: 1}), after=Counter({wishing: 1}))
    assert not is_fair(waiting, before=Counter({wishing: 1}), after=Counter({other: 1}))
