"""Large scopes, split by zone."""

from __future__ import annotations

from collections import Counter

import pytest

from core import labels
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction
from core.scheduling.optimization.subproblems.zone_split import ZoneSplit
from tests.builders import ZONES, a_pod
from tests.unit.scheduling.optimization.clusters import a_cluster, greedily_solved

A, B = ZONES[:2]


def in_zone(zone: str, count: int) -> tuple[Pod, ...]:
    selector = (Requirement.one_of(labels.ZONE, zone),)
    return tuple(a_pod(f"{zone[-1]}{i}", node_selector=selector) for i in range(count))


def split(*pods: Pod, budget: SearchBudget) -> dict[str, list[str]]:
    context, solution = greedily_solved(a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    movable = [one for claim in solution.claims for one in extraction.items_of(claim, scope)]
    found = ZoneSplit(context, scope, budget, DEFAULT_SETTINGS).split(movable)
    return {zone: [pod.name for one in there for pod in one.pods] for zone, there in found.items()}


@pytest.mark.parametrize("steps", [0, 10], ids=["by size", "by the fluid program"])
def test_pods_stay_in_their_zone_and_free_ones_go_where_the_others_are(steps: int) -> None:
    """Otherwise, a pod is packed in a zone that it may not enter, or a zone gets few pods that fill no node."""
    free = tuple(a_pod(f"free{i}") for i in range(8))
    found = split(*in_zone(A, 12), *in_zone(B, 4), *free, budget=SearchBudget(steps))
    counts = {zone: Counter(name.rstrip("0123456789") for name in names) for zone, names in found.items()}
    assert counts == {A: {"a": 12, "free": 6}, B: {"b": 4, "free": 2}}


def test_pods_that_may_run_anywhere_are_not_split() -> None:
    assert split(*(a_pod(f"p{i}") for i in range(4)), budget=SearchBudget(9)) == {}


def test_pods_that_all_have_a_zone_go_there() -> None:
    found = split(*in_zone(A, 2), *in_zone(B, 3), budget=SearchBudget(9))
    assert {zone: len(names) for zone, names in found.items()} == {A: 2, B: 3}


def test_each_part_of_a_groups_pods_is_divided_like_all_of_them() -> None:
    """Pods come in order of size and of the nodes that they were on: one zone would get all that shared a node."""
    free = tuple(a_pod(f"free{i}") for i in range(8))
    zone_of = {
        name: zone
        for zone, names in split(*in_zone(A, 12), *in_zone(B, 4), *free, budget=SearchBudget(0)).items()
        for name in names
    }
    assert "".join(zone_of[pod.name][-1] for pod in free) == "abaaabaa"
