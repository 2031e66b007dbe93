"""The rules of a plan's pods that a lower bound may use."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from core import labels
from core.model.pod import PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.packing.settings import DEFAULT_SETTINGS
from core.scheduling.optimization.items import PackingItem
from core.scheduling.optimization.relaxed_pods import (
    INTERDEPENDENT,
    ItemGrouping,
    LaunchOption,
    RelaxedPods,
    is_undercut,
)
from tests.builders import a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, plain_pods

# Packing items that the solver need not distinguish.


SETTINGS = DEFAULT_SETTINGS.repack
ANYWHERE = LaunchOption(0, 0, 1)
PLAIN = PackingItem((1,), 0, 1)


def of_hostname_group(number: int, *, cap: int = 1, requests: int = 1) -> PackingItem:
    return PackingItem((requests,), 0, 1, counted=((number, 1),), caps=((number, cap),))


def test_a_group_whose_members_all_obey_it_is_a_resource() -> None:
    grouping = ItemGrouping({of_hostname_group(7, cap=2): 10, PLAIN: 5}, SETTINGS)
    assert grouping.hostname_capacity == {7: 2}
    assert grouping.of(of_hostname_group(7, cap=2), ANYWHERE).hostname_requests == ((7, 1),)
    assert grouping.of(PLAIN, ANYWHERE).hostname_requests == ()


def test_a_group_that_counts_others_affects_the_items_that_obey_it() -> None:
    """Rows for such groups separate pods whose rules do not count each other; a small share of a machine does not."""
    obeys, counted = of_hostname_group(7), PackingItem((2,), 0, 1, counted=((7, 1),))
    grouping = ItemGrouping({obeys: 4, counted: 4}, SETTINGS)
    assert grouping.hostname_capacity == {INTERDEPENDENT: SETTINGS.interdependent_per_machine_min}
    assert grouping.of(obeys, ANYWHERE).hostname_requests == ((INTERDEPENDENT, 1),)
    assert grouping.of(counted, ANYWHERE).hostname_requests == ()


def test_items_that_other_pods_rules_count_are_like_any_others() -> None:
    """The solver takes no account of such rules, and with four items in place of one a step takes half as long again."""
    counted = PackingItem((2,), 0, 1, counted=((7, 1),))
    grouping = ItemGrouping({of_hostname_group(7): 4, counted: 4}, SETTINGS)
    assert grouping.of(counted, ANYWHERE) == grouping.of(PackingItem((2,), 0, 1), ANYWHERE)


def test_too_many_groups_are_caps_instead() -> None:
    """Otherwise, every array of the search gets as many columns as there are services."""
    counts = {of_hostname_group(number, requests=number): 10 + number for number in range(1, 4)}
    grouping = ItemGrouping(counts, replace(SETTINGS, hostname_resources_max=1))
    assert grouping.hostname_capacity == {3: 1}
    capped = grouping.of(of_hostname_group(1, requests=1), ANYWHERE)
    assert capped.per_machine_max == 1
    assert capped.capped_by == (1,)


def test_a_group_that_needs_few_machines_is_a_cap() -> None:
    grouping = ItemGrouping({of_hostname_group(1): 100, of_hostname_group(2): 3}, SETTINGS)
    assert grouping.hostname_capacity == {1: 1}


def test_equal_groups_with_equal_domains_are_one() -> None:
    group = ItemGrouping({PLAIN: 1}, SETTINGS).of(PLAIN, ANYWHERE)
    there = LaunchOption(0, 3, 1)
    assert group.restricted_to(there).options == (there,)
    assert group.restricted_to(there).requests == group.requests


def test_the_group_that_needs_the_most_machines_is_the_resource() -> None:
    """Ten pods of which five may share a machine need two, eleven need three."""
    settings = replace(SETTINGS, hostname_resources_max=1)
    for ours, theirs, capacity in (((10, 5), (6, 1), {2: 1}), ((11, 5), (2, 1), {9: 5}), ((10, 5), (2, 1), {2: 1})):
        counts = {
            of_hostname_group(9, cap=ours[1]): ours[0],
            of_hostname_group(2, cap=theirs[1], requests=2): theirs[0],
        }
        assert ItemGrouping(counts, settings).hostname_capacity == capacity


OWN = a_selector(app="own")
APART = PodAffinityTerm(labels.HOSTNAME, OWN)
SPREAD = TopologySpread(labels.HOSTNAME, 1, selector=OWN)


def relaxed(**changes: object) -> RelaxedPods:
    context, solution = greedily_solved(a_cluster(**changes))
    return RelaxedPods(context, solution, DEFAULT_SETTINGS)


def test_equal_pods_are_one_item_group() -> None:
    relaxed_pods = relaxed(pods=plain_pods(60))
    assert sorted(relaxed_pods.counts.values()) == [30, 30]
    assert relaxed_pods.hostname_capacity == {}


def test_required_anti_affinity_is_kept_and_a_spread_dropped() -> None:
    """How many pods of a spread may share a node depends on how many nodes there are."""
    apart = tuple(a_pod(f"own{i}", labels={"app": "own"}, anti_affinity=(APART,)) for i in range(3))
    assert list(relaxed(pods=apart).hostname_capacity.values()) == [1]
    spread = tuple(a_pod(f"own{i}", labels={"app": "own"}, spreads=(SPREAD,)) for i in range(3))
    assert relaxed(pods=spread).hostname_capacity == {}


def test_a_pod_may_run_in_every_node_pool_that_it_tolerates() -> None:
    """Otherwise, the bound is higher than what the cheaper pool costs."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    both = relaxed(node_pools=(a_pool("default", ON_DEMAND, weight=10), spot))
    assert both.arithmetic_bound() < relaxed().arithmetic_bound() / 2
    assert both.pairs_max == 2 * relaxed().pairs_max


def test_the_loads_of_all_claims_cover_all_pods() -> None:
    context, solution = greedily_solved(a_cluster())
    relaxed_pods = RelaxedPods(context, solution, DEFAULT_SETTINGS)
    loads = [relaxed_pods.load(claim, list(relaxed_pods.counts)) for claim in solution.claims]
    assert [sum(of_group) for of_group in zip(*loads, strict=True)] == list(relaxed_pods.counts.values())


def test_the_arithmetic_bound_is_at_most_the_cost_of_the_greedy_plan() -> None:
    context, solution = greedily_solved(a_cluster())
    bound = RelaxedPods(context, solution, DEFAULT_SETTINGS).arithmetic_bound()
    assert 0 < bound <= sum(claim.price for claim in solution.claims)


@pytest.mark.parametrize(("count", "undercut"), [(5, True), (6, False)])
def test_a_claim_is_compared_with_a_separate_node_for_each_pod(count: int, *, undercut: bool) -> None:
    types = (a_type("small", cpu="1", memory="4Gi", price=0.04), a_type("large", cpu="8", memory="32Gi", price=0.23))
    pods = tuple(a_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(count))
    _, solution = greedily_solved(a_cluster(types=types, pods=pods))
    assert [is_undercut(claim) for claim in solution.claims] == [undercut]


def test_the_cost_of_separate_nodes_is_the_cheapest_one_for_each_pod() -> None:
    """Two pods of one core and one of three: 2 * 0.04 and 0.2 dollars."""
    types = (a_type("small", cpu="1", memory="4Gi", price=0.04), a_type("large", cpu="4", memory="16Gi", price=0.2))
    pods = (*(a_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(2)), a_pod("big", cpu="3", memory="1Gi"))
    assert relaxed(types=types, pods=pods).separate_cost() == 280_000_000


def test_of_many_groups_the_largest_are_kept() -> None:
    """The bound may use few of them; a group of one pod keeps nothing apart."""
    limits = msgspec.structs.replace(DEFAULT_SETTINGS.optimizer, bound_hostname_groups_max=1)
    settings = msgspec.structs.replace(DEFAULT_SETTINGS, optimizer=limits)
    pods = tuple(
        a_pod(f"{app}{n}", labels={"app": app}, anti_affinity=(PodAffinityTerm(labels.HOSTNAME, a_selector(app=app)),))
        for app, number in (("a", 2), ("b", 4), ("c", 1))
        for n in range(number)
    )
    context, solution = greedily_solved(a_cluster(pods=pods))
    relaxed_pods = RelaxedPods(context, solution, settings)
    assert list(relaxed_pods.hostname_capacity.values()) == [1]
    (kept,) = relaxed_pods.hostname_capacity
    counts = [count for group, count in relaxed_pods.counts.items() if (kept, 1) in group.hostname_requests]
    assert counts == [4]
    every = RelaxedPods(context, solution, DEFAULT_SETTINGS).hostname_capacity
    assert len(every) == 2
