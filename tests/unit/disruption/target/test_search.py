"""Every node that stays has a stated reason."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target import search as target_search
from core.disruption.target.fleet import TargetFleet, target_fleet
from core.disruption.target.move_price import KEEP_DISCOUNTS
from core.disruption.target.realization import ProgramSlots, Realizations
from core.disruption.target.search import (
    TargetSearch,
    TargetWaveResult,
    fleet_floor,
    refuse_the_rest,
    waits,
    waits_for_budgets,
)
from core.model.node_pool import Budget, Disruption
from core.model.plan import Blocked
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import FeatureGates, Options, Snapshot
from core.model.values.requirements import Requirement
from core.packing.fleet_target import rounded
from core.packing.settings import SearchBudget
from core.reasons.code import Refusal, Stated
from core.reasons.nodes import (
    NEEDS_SPOT_GATE,
    NO_LIMITS,
    TOO_DEAR,
    GoesLater,
    NoCheaperPlace,
    NodeReason,
    PodUnplaced,
    TargetAwaitsPods,
)
from tests.builders import NOW, ZONES, a_node_of, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, fleet_of


def test_the_reason_is_the_one_that_was_found() -> None:
    stuck = pod_on("a", cpu="2", node_selector=(Requirement.one_of("rack", "a"),))
    this_pass = DisruptionPass(
        world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(stuck, pod_on("b", cpu="3")))
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    search = TargetSearch(fleet, "balanced", is_gated=True)
    keeps = search.found(SearchBudget(5)).realization.keeps
    refuse_the_rest(this_pass, search, TargetWaveResult(keeps=keeps))
    reasons = {name: block.reason for name, block in this_pass.refusals.items()}
    assert reasons == {"a": NodeReason.PODS_UNSCHEDULABLE, "b": NodeReason.NO_CHEAPER_OPTION}
    assert isinstance(this_pass.refusals["b"], NoCheaperPlace)


def test_a_node_of_the_target_that_stays_now_goes_later() -> None:
    this_pass = DisruptionPass(
        world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a", cpu="1900m"), pod_on("b", cpu="1900m")))
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    search = TargetSearch(fleet, "balanced", is_gated=True)
    keeps = search.found(SearchBudget(5)).realization.keeps
    refuse_the_rest(this_pass, search, TargetWaveResult(keeps=keeps))
    reasons = sorted(block.reason for block in this_pass.refusals.values())
    assert reasons == [NodeReason.LATER_WAVE, NodeReason.NO_CHEAPER_OPTION]


def refusals_of(snapshot: Snapshot) -> dict[str, Blocked]:
    """Node → why it stays."""
    return {block.node: block for block in disrupt(snapshot).blocked}


def two_expensive(**changes: Any) -> Snapshot:
    """Two nodes whose pods fit one new node, at a ninth of the price of either."""
    large, cheap = a_type("large", cpu="8", price=9.0), a_type("one", cpu="16", price=1.0)
    pods = tuple(pod_on(node, f"{node}-{n}", cpu="1500m") for node in "ab" for n in range(5))
    catalogue = a_snapshot(types=(large, cheap)).catalogue
    return msgspec.structs.replace(
        world(a_node_of(large, "a"), a_node_of(large, "b"), pods=pods, **changes), catalogue=catalogue
    )


@pytest.mark.parametrize("options", [Options(), WHOLE_WAY])
def test_limits_that_keep_a_target_from_beginning_are_named(options: Options) -> None:
    """It was said to go in a later wave, and no wave ever came: the new node needs the room of both."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, limits={"cpu": 16_000})
    assert disrupt(two_expensive()).commands, "without limits both go"
    refusals = refusals_of(two_expensive(node_pools=(pool,), options=options))
    assert {block.reason for block in refusals.values()} == {NodeReason.PODS_UNSCHEDULABLE}
    assert all("limits" in block.message for block in refusals.values())


def test_nodes_that_only_pay_together_wait_for_budgets() -> None:
    """It was said that no place for their pods costs less, which is untrue of both together."""
    types = (a_type("old", cpu="4", price=0.4), a_type("one", cpu="16", price=0.5))
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    pairs = [a_node_of(types[0], f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    snapshot = world(*pairs, pods=pods, node_pools=(pool,))
    refusals = refusals_of(msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=types).catalogue))
    assert {block.reason for block in refusals.values()} == {NodeReason.BUDGET}
    assert all("together" in block.message for block in refusals.values())


def test_while_a_target_waits_the_nodes_that_it_keeps_say_which_budget_it_waits_for() -> None:
    """Their own where it keeps them, too; otherwise, that of the first node that the target drains."""
    open_, shut = Disruption(budgets=(Budget("100%"),)), Disruption(budgets=(Budget("1"),))
    pools = (a_pool("default", ON_DEMAND, disruption=shut), a_pool("other", ON_DEMAND, disruption=open_))
    nodes = [a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), a_node_of(MIDDLE, "c", pool="other")]
    lost = a_node_of(MIDDLE, "lost", is_ready=False)
    pods = tuple(pod_on(name) for name in "abc")
    this_pass = DisruptionPass(world(*nodes, lost, pods=pods, node_pools=pools))
    fleet = target_fleet(this_pass)
    assert fleet is not None
    assert [candidate.name for candidate in fleet.candidates] == ["a", "b", "c"]
    of_pool = "the disruption budgets of NodePool default let 1 of 3 nodes go for Underutilized now"

    def told(*keeps: bool) -> dict[str, str]:
        refusals = waits_for_budgets(fleet, np.array(keeps), this_pass)
        assert all(refusal.reason == NodeReason.TARGET_WAITS for refusal in refusals.values())
        return {name: refusal.message for name, refusal in refusals.items()}

    text = f"nothing is decided about it while the current target waits: {of_pool}; their places are taken by lost"
    assert told(False, True, True) == {"b": text, "c": text}
    assert told(True, True, False) == {"a": text, "b": text}
    assert told(False, False, False) == {}


class Left:
    """Two nodes with a pod each, of which a target drains the first."""

    def __init__(self) -> None:
        self.this_pass = DisruptionPass(
            world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a"), pod_on("b"), pod_on("b", "more")))
        )
        fleet = target_fleet(self.this_pass)
        assert fleet is not None
        self.search = TargetSearch(fleet, "balanced", is_gated=True)

    def refused(self, **result: Any) -> dict[str, Refusal]:
        fields = {"keeps": np.array([False, True]), **result}
        refuse_the_rest(self.this_pass, self.search, TargetWaveResult(**fields))
        return self.this_pass.refusals


def priced(left: Left, node: int, pods: int) -> NoCheaperPlace:
    moves = int(left.search.fleet.rows.problem.move_prices[node])
    assert moves > 0
    return NoCheaperPlace(pods, moves)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({}, (GoesLater("a"), 0)),
        ({"worth": np.array([7.9, 0.0])}, (GoesLater("a"), 7)),
        ({"worth": np.array([-7.9, 9.0])}, (GoesLater("a"), 0)),
        ({"objections": {"a": NO_LIMITS}}, (GoesLater("a", NO_LIMITS), 0)),
        ({"objections": {"a": NO_LIMITS}, "goes_on": False, "worth": np.array([7.9, 0.0])}, (NO_LIMITS, 7)),
        ({"goes_on": False}, (GoesLater("a"), 0)),
    ],
)
def test_a_node_that_the_target_drains_waits_or_says_what_keeps_it(
    result: dict[str, Any], expected: tuple[Refusal, int]
) -> None:
    """A later wave is a reason only while one is expected."""
    remaining = Left()
    assert remaining.refused(**result) == {"a": expected[0], "b": priced(remaining, 1, 2)}
    assert remaining.this_pass.later_savings == {"a": expected[1], "b": 0}


def test_a_ceiling_on_evictions_stays_the_reason_of_a_node_that_would_go() -> None:
    remaining = Left()
    for reason, stays in ((NodeReason.EVICTION_RATE, True), (NodeReason.NOT_TRIED, False)):
        remaining.this_pass.refuse(remaining.search.fleet.candidates[0], Stated(reason, "told before"))
        assert (remaining.refused()["a"].message == "told before") is stays


def test_a_node_that_the_target_keeps_says_why() -> None:
    """A rule of its own first, then a pod without a place, then the gate; else what its moves cost."""
    remaining = Left()
    refusals = remaining.refused(keeps=None, objections={"b": TOO_DEAR})
    assert refusals == {"a": priced(remaining, 0, 1), "b": TOO_DEAR}
    remaining.search.realizations.gated[0] = True
    assert remaining.refused(keeps=None)["a"] == NEEDS_SPOT_GATE
    remaining.search.realizations.unplaced_items.add(remaining.search.fleet.rows.row_of_pod["default/on-a"])
    assert remaining.refused(keeps=None)["a"] == PodUnplaced("default/on-a")


def test_what_a_target_waits_for_is_named_by_the_first_of_its_nodes() -> None:
    first, second = Left().this_pass.survey.candidates
    assert waits([second, first], NOW) == TargetAwaitsPods("a", 1, NOW)
    assert waits([second], NOW) == TargetAwaitsPods("b", 0, NOW)


# For a small fleet, the search finds what trying every choice finds; a larger one under rules has more than one start.


def test_no_choice_is_better_than_the_one_found() -> None:
    draw = Random(3)  # noqa: S311 - a test's dice
    for _ in range(4):
        kinds = [draw.choice((SMALL, MIDDLE, LARGE)) for _ in range(4)]
        nodes = [a_node_of(kind, f"n{n}") for n, kind in enumerate(kinds)]
        pods = tuple(pod_on(f"n{n}", cpu=f"{draw.randrange(1, 10)}00m") for n in range(4))
        fleet = fleet_of(world(*nodes, pods=pods))
        realization = TargetSearch(fleet, "balanced", is_gated=True).found(SearchBudget(20)).realization
        every = Realizations(fleet, is_gated=True, keep_discount=KEEP_DISCOUNTS["balanced"])
        for choice in itertools.product((False, True), repeat=len(nodes)):
            assert realization.goal <= every.of(np.array(choice), None, None).goal


def test_no_more_nodes_go_than_allowed() -> None:
    nodes = [a_node_of(LARGE, f"n{n}") for n in range(4)]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n}") for n in range(4))))
    search = TargetSearch(fleet, "balanced", is_gated=True)
    realization = search.found(SearchBudget(20), {"default": 1}).realization
    assert int((~realization.keeps).sum()) == 1


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
        own_selector = a_selector(app=f"a{service}")
        rules: tuple[dict[str, Any], ...] = (
            {},
            {"spreads": (TopologySpread(labels.ZONE, 1, selector=own_selector),)},
            {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, own_selector),)},
            {"affinity": (PodAffinityTerm(labels.ZONE, own_selector),)},
        )
        more = {"labels": {"app": f"a{service}"}, "cpu": f"{300 + service % 3 * 300}m", **rules[service % 4]}
        places = [n for n in range(60) if service % 4 < 3 or n % 3 == service % 3]
        draw.shuffle(places)
        pods += [pod_on(f"n{n:02d}", f"a{service}-{n}", **more) for n in places[:10]]
        if service % 4 == 1:
            near = PodAffinityTerm(labels.ZONE, own_selector)
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
        realization = search.found(SearchBudget(20), drains_max).realization
        nothing = search.realizations.of(np.ones(3, dtype=bool), None, None)
        going = [c.name for c, stays in zip(search.fleet.candidates, realization.keeps, strict=True) if not stays]
        assert len(going) <= most
        assert realization.goal <= nothing.goal
        assert not most or "n0" in going


# A lower bound on the fleet's cost, given wherever a node could go.


def test_no_plan_undercuts_it() -> None:
    nodes = [a_node_of(kind, f"n{n}") for n, kind in enumerate((LARGE, MIDDLE, MIDDLE, SMALL))]
    pods = tuple(pod_on(f"n{n}", cpu="700m") for n in range(4))
    snapshot = world(*nodes, pods=pods, options=WHOLE_WAY)
    assert 0 < fleet_floor(DisruptionPass(snapshot)) <= disrupt(snapshot).cost.after


def test_nodes_that_may_not_go_count_at_their_price() -> None:
    snapshot = world(a_node_of(MIDDLE, "a"), pods=(pod_on("a", annotations={"karpenter.sh/do-not-disrupt": "true"}),))
    assert fleet_floor(DisruptionPass(snapshot)) == 2 * 10**8


def test_replacements_of_a_static_pool_are_not_counted() -> None:
    static = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=1)
    snapshot = world(drifted(a_node_of(MIDDLE, "a")), node_pools=(static,))
    assert fleet_floor(DisruptionPass(snapshot)) == 0


REPAIRS = Options(feature_gates=FeatureGates(node_repair=True))
NEVER = Disruption(budgets=(Budget("100%"),), consolidate_after=None)
KEPT = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}


@pytest.mark.parametrize(
    ("pool", "is_drifted", "pod", "options", "price"),
    [
        ({"disruption": OPEN}, False, {}, Options(), 5),
        ({"disruption": NEVER}, False, {}, Options(), 20),
        ({"disruption": NEVER}, False, {}, REPAIRS, 5),
        ({"disruption": NEVER}, True, {}, Options(), 5),
        ({"disruption": NEVER}, True, KEPT, Options(), 20),
        ({"disruption": OPEN}, False, KEPT, REPAIRS, 20),
        ({"disruption": OPEN, "replicas": 1}, True, KEPT, Options(), 20),
        ({"disruption": OPEN, "replicas": 1}, False, KEPT, REPAIRS, -80),
        ({"disruption": OPEN, "replicas": 1}, False, {}, Options(), 20),
    ],
)
def test_only_nodes_that_some_decision_may_end_count_at_less_than_their_price(
    pool: dict[str, Any], is_drifted: bool, pod: dict[str, Any], options: Options, price: int
) -> None:
    """One whole node that stays beside it; of another, its pod alone must run somewhere, at the price of the smallest type."""
    kept = a_node_of(LARGE, "kept")
    node = drifted(a_node_of(MIDDLE, "a")) if is_drifted else a_node_of(MIDDLE, "a")
    pods = (pod_on("a", cpu="1", **pod), pod_on("kept", cpu="16", **KEPT))
    pools = (a_pool("default", ON_DEMAND, **pool),)
    floor = fleet_floor(DisruptionPass(world(node, kept, pods=pods, node_pools=pools, options=options)))
    assert 0 <= (80 + price) * 10**7 - floor <= 1, "rounded down"
