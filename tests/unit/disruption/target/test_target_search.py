"""For a small fleet, the search finds what trying every choice finds."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np

from core.disruption.target.realization import Realizations
from core.disruption.target.target_search import KEEP_DISCOUNTS, TargetSearch
from core.packing.search_budget import SearchBudget
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, SMALL, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import fleet_of


def test_no_choice_is_better_than_the_one_found() -> None:
    draw = Random(3)  # noqa: S311 - a test's dice
    for _ in range(4):
        kinds = [draw.choice((SMALL, MIDDLE, LARGE)) for _ in range(4)]
        nodes = [a_node_of(kind, f"n{n}") for n, kind in enumerate(kinds)]
        pods = tuple(pod_on(f"n{n}", cpu=f"{draw.randrange(1, 10)}00m") for n in range(4))
        fleet = fleet_of(world(*nodes, pods=pods))
        found = TargetSearch(fleet, "balanced", is_gated=True).found(SearchBudget(20)).realization
        every = Realizations(fleet, is_gated=True, keep_discount=KEEP_DISCOUNTS["balanced"])
        for choice in itertools.product((False, True), repeat=len(nodes)):
            assert found.goal <= every.of(np.array(choice), None, None).goal


def test_no_more_nodes_go_than_allowed() -> None:
    nodes = [a_node_of(LARGE, f"n{n}") for n in range(4)]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n}") for n in range(4))))
    search = TargetSearch(fleet, "balanced", is_gated=True)
    found = search.found(SearchBudget(20), {"default": 1}).realization
    assert int((~found.keeps).sum()) == 1
