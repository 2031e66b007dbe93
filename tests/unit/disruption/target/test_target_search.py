"""For a small fleet, the search finds what trying every choice finds; a larger one under rules has more than one start."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

from core import labels
from core.disruption.target import target_search
from core.disruption.target.move_price import KEEP_DISCOUNTS
from core.disruption.target.planned_slots import ProgramSlots
from core.disruption.target.realization import Realizations
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_search import TargetSearch
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.packing.search_budget import SearchBudget
from core.packing.target.fleet_target import rounded
from tests.builders import ZONES, a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, drifted, pod_on, world
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


def fleet_under_rules(seed: int) -> TargetFleet:
    """60 spot nodes over three zones and 16 services: plain, spread over zones, kept apart, and together in one zone.

    A client of each spread service must be in a zone with it, so that the service's pods stay in theirs.
    """
    draw, pods = Random(seed), list[Pod]()  # noqa: S311 - a test's dice
    nodes = [
        a_node_of(draw.choice((MIDDLE, MIDDLE, LARGE)), f"n{n:02d}", zone=ZONES[n % 3], capacity_type=labels.SPOT)
        for n in range(60)
    ]
    for service in range(16):
        own = a_selector(app=f"a{service}")
        rules: tuple[dict[str, Any], ...] = (
            {},
            {"spreads": (TopologySpread(labels.ZONE, 1, selector=own),)},
            {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, own),)},
            {"affinity": (PodAffinityTerm(labels.ZONE, own),)},
        )
        more = {"labels": {"app": f"a{service}"}, "cpu": f"{300 + service % 3 * 300}m", **rules[service % 4]}
        places = [n for n in range(60) if service % 4 < 3 or n % 3 == service % 3]
        draw.shuffle(places)
        pods += [pod_on(f"n{n:02d}", f"a{service}-{n}", **more) for n in places[:10]]
        if service % 4 == 1:
            near = PodAffinityTerm(labels.ZONE, own)
            pods.append(pod_on(f"n{places[0]:02d}", f"client-{service}", cpu="100m", affinity=(near,)))
    return fleet_of(world(*nodes, pods=tuple(pods), node_pools=(a_pool("default", disruption=OPEN),)))


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_where_rules_keep_many_nodes_the_search_also_begins_with_none(seed: int) -> None:
    """The program does not know spreads over zones: what it drains comes back node by node, more nodes than need stay."""
    fleet = fleet_under_rules(seed)
    search = TargetSearch(fleet, "balanced", is_gated=True)
    solved = search.solved()
    slots = ProgramSlots(fleet, solved.into, solved.machines, is_gated=True)
    of_program = search.realizations.of(rounded(solved.stay), slots, None)
    of_none = search.realizations.of(np.zeros(len(fleet.candidates), dtype=bool), slots, None)
    assert search.found(SearchBudget(20)).realization.goal <= of_none.goal < of_program.goal


def test_each_pool_lets_go_no_more_than_its_own_number() -> None:
    """One pool that lets nodes go is no reason to take more of another."""
    pools = tuple(a_pool(name, ON_DEMAND, disruption=OPEN) for name in ("default", "other"))
    nodes = [a_node_of(LARGE, f"{pool[0]}{n}", pool=pool) for pool in ("default", "other") for n in range(3)]
    pods = tuple(pod_on(node.name) for _, node in nodes)
    fleet = fleet_of(world(*nodes, pods=pods, node_pools=pools))
    for most, expected in (
        ({"default": 1, "other": 0}, (1, 0)),
        ({"default": 0, "other": 2}, (0, 2)),
        ({"other": 1}, None),
    ):
        search = TargetSearch(fleet, "balanced", is_gated=True)
        keeps = search.found(SearchBudget(20), {"default": 3, "other": 3, **most}).realization.keeps
        going = [c.pool.name for c, stays in zip(fleet.candidates, keeps, strict=True) if not stays]
        counted = (going.count("default"), going.count("other"))
        assert counted == (expected or (3, 1))


def three_nodes(**changes: Any) -> TargetFleet:
    """The first has drifted; each has a small pod."""
    nodes = [drifted(a_node_of(LARGE, "n0")), a_node_of(LARGE, "n1"), a_node_of(MIDDLE, "n2")]
    return fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n}") for n in range(3)), **changes))


def test_a_search_ends_after_so_many_choices_with_the_best_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small fleet is improved node by node, as long as there is budget and as far as choices go."""
    goals, asked = [], []
    for most in (1, 160):
        monkeypatch.setattr(target_search, "CHOICES_MAX", most)
        search, budget = TargetSearch(three_nodes(), "balanced", is_gated=False), SearchBudget(20)
        goals.append(search.found(budget).realization.goal)
        asked.append(search.realizations.asked)
        assert budget.steps <= 20
    assert asked[0] < asked[1] <= 160
    assert goals == sorted(goals, reverse=True)


@pytest.mark.parametrize(("small", "medium", "far"), [(40, 200, 130), (2, 200, 130), (2, 200, 10**9), (2, 2, 130)])
def test_a_fleet_of_each_size_keeps_to_its_bound_and_is_no_worse_than_before(
    small: int, medium: int, far: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drifted node goes, and others while that is cheaper; the fleet's size decides how long that is searched for."""
    for name, value in (("SMALL", small), ("MEDIUM", medium), ("FAR_PERCENT", far)):
        monkeypatch.setattr(target_search, name, value)
    for drains_max, most in ((None, 3), ({"default": 1}, 1), ({"default": 0}, 0)):
        search = TargetSearch(three_nodes(), "balanced", is_gated=False)
        found = search.found(SearchBudget(20), drains_max).realization
        nothing = search.realizations.of(np.ones(3, dtype=bool), None, None)
        going = [c.name for c, stays in zip(search.fleet.candidates, found.keeps, strict=True) if not stays]
        assert len(going) <= most
        assert found.goal <= nothing.goal
        assert not most or "n0" in going
