"""Packing items that the solver need not distinguish."""

from __future__ import annotations

from msgspec.structs import replace

from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.optimization.items.item_groups import INTERDEPENDENT, ItemGrouping, LaunchOption
from core.scheduling.optimization.items.packing_item import PackingItem

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
    one = replace(SETTINGS, hostname_resources_max=1)
    for ours, theirs, found in (((10, 5), (6, 1), {2: 1}), ((11, 5), (2, 1), {9: 5}), ((10, 5), (2, 1), {2: 1})):
        counts = {
            of_hostname_group(9, cap=ours[1]): ours[0],
            of_hostname_group(2, cap=theirs[1], requests=2): theirs[0],
        }
        assert ItemGrouping(counts, one).hostname_capacity == found
