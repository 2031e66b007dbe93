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
from core.disruption.target.realization import Realization, Realizations
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_search import RELEASE_WORK, TargetSearch
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.packing.problem import Bools
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


def asked(
    monkeypatch: pytest.MonkeyPatch, *, moves: str = "balanced", drains_max: dict[str, int] | None = None
) -> list[tuple[str, int | None, int]]:
    """What a search asks of the scheduler: which nodes stay, with how many steps for new nodes, and how many to release."""
    search = TargetSearch(three_nodes(), moves, is_gated=False)
    calls, original = list[tuple[str, int | None, int]](), search.realizations.of

    def noted(keeps: Bools, planned: Any, budget: SearchBudget | None, *, releases: int = 0) -> Realization:
        stays = "".join("x" if one else "-" for one in keeps)
        calls.append((stays, budget.steps_max if budget is not None else None, releases))
        return original(keeps, planned, budget, releases=releases)

    monkeypatch.setattr(search.realizations, "of", noted)
    search.found(SearchBudget(20), drains_max)
    return calls


def test_a_small_fleet_is_improved_node_by_node_from_several_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No choice is asked twice. Half of the steps are for the program's, and a fifth of the rest for each of two starts."""
    first, rounded_, start = ("xxx", None, 0), ("---", 10, 0), ("-xx", 2, 0)
    others = [("--x", None, 0), ("-x-", None, 0), ("x-x", None, 0)]
    assert asked(monkeypatch) == [first, rounded_, start, *others, ("--x", 20, 0)]
    assert asked(monkeypatch, drains_max={"default": 1}) == [first, ("-xx", 10, 0), ("-xx", 20, 0)]


def test_a_larger_fleet_has_other_starts_only_where_rules_keep_many_of_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scheduler takes seconds for each choice; instead, spot nodes that stay are tried without."""
    first = ("xxx", None, 0)
    monkeypatch.setattr(target_search, "SMALL", 2)
    far = [first, ("---", None, 0), ("---", 10, 0), ("-xx", 2, 0), ("---", 20, 0)]
    assert asked(monkeypatch) == far
    monkeypatch.setattr(target_search, "FAR_PERCENT", 10**9)
    assert asked(monkeypatch) == [first, ("---", None, 0), ("---", 20, RELEASE_WORK // 3)]
    monkeypatch.setattr(target_search, "MEDIUM", 2)
    assert asked(monkeypatch) == [first, ("---", 20, RELEASE_WORK // 3)]
    assert asked(monkeypatch, drains_max={"default": 1}) == [first, ("-xx", 20, 0)]


def test_a_search_ends_after_so_many_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, tried in ((5, []), (6, ["x-x"])):
        monkeypatch.setattr(target_search, "CHOICES_MAX", most)
        assert [stays for stays, _, _ in asked(monkeypatch)] == ["xxx", "---", "-xx", "--x", "-x-", *tried, "--x"]


def test_the_program_knows_the_discount_of_running_nodes_the_gate_and_how_many_of_a_pool_may_go() -> None:
    for moves, discount in (("balanced", 0.04), ("thorough", 0.002)):
        for is_gated in (False, True):
            search = TargetSearch(three_nodes(), moves, is_gated=is_gated)
            free, bounded = search._rules(None), search._rules({"other": 7, "default": 2})
            assert [(one.keep_discount, one.is_gated) for one in (free, bounded)] == [(discount, is_gated)] * 2
            assert (free.pools.tolist(), free.drains_max.tolist()) == ([], [])
            assert (bounded.pools.tolist(), bounded.drains_max.tolist()) == ([0, 0, 0], [2.0, 7.0])
            assert bounded.fill == free.fill
