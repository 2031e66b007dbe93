"""Pods that had no place only because of their position in the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from core import labels
from core.model.pod import DO_NOT_SCHEDULE, Pod, PodAffinityTerm, TopologySpread, VolumeUse, WeightedPodAffinityTerm
from core.model.snapshot import Node, Options
from core.model.values.commitment import ReservedInstances
from core.model.values.quotas import STANDARD
from core.model.values.requirements import Requirement
from core.packing.settings import SearchBudget
from core.reasons.pods import PodReason
from core.scheduling import Planner, replanning
from core.scheduling.claim_search import Solution
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.context import SchedulingContext
from core.scheduling.pods import Avoids
from core.scheduling.replanning import (
    PLAN_WORK,
    SHARING_PODS_MAX,
    UNLIKELY_WORK_MAX,
    Drains,
    PlanVariation,
    RequeuingScheduler,
    TopologyConflicts,
    VariationResult,
    VariationSearch,
    VariedPlans,
    best_of,
    cheaper_within_ec2_limits,
    commitment_contexts,
    conflicts_of,
    drained,
    greedy,
    in_domain_orders,
    is_fair,
    leftovers_of,
    plan_rank,
    planned,
    planned_within_ec2_limits,
)
from core.scheduling.scheduler import DomainOrder, GreedyScheduler, queue_of
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, group_of, places, plan_of, reasons_of, zones

# Plans within the limits of an account.


MEDIUM = a_type("m7.large", cpu="2", price=0.1)


def _plan(context: SchedulingContext) -> tuple[Solution, None]:
    return planned(context, frozenset(), consolidation=False)[0], None


def test_a_plan_beyond_a_quota_is_made_again_with_the_quota_as_a_constraint() -> None:
    """A plan within its quotas is made once: the constraint costs time."""
    for on_demand, spot, constrained, waiting in ((100, 100, False, 0), (2, 0, True, 1)):
        quotas = {STANDARD.on_demand: on_demand, STANDARD.spot: spot}
        pods = tuple(a_pod(f"p{number}", cpu="1.5") for number in range(2))
        context, (solution, _) = planned_within_ec2_limits(
            context_of(types=(MEDIUM,), pods=pods, vcpu_quotas=quotas), _plan
        )
        assert (Ec2Quotas in context.constraints) is constrained
        assert plan_rank(solution)[0] == waiting


def test_a_plan_is_made_in_two_contexts_only_while_a_commitment_has_an_unused_amount() -> None:
    """Elsewhere, both plans are the same, and each takes its time."""
    reserved = Options(commitments=(ReservedInstances(name="r", instance_type="m7.large", count=1),))
    assert len(commitment_contexts(context_of(types=(MEDIUM,)), frozenset())) == 1
    assert len(commitment_contexts(context_of(types=(MEDIUM,), options=reserved), frozenset())) == 2


@dataclass
class AClaim:
    """One whose price is another once a plan has restricted it."""

    name: str
    prices: dict[str, int]
    reqs: str = ""
    allowed: str = ""
    commitment: str = ""

    @property
    def price(self) -> int:
        return self.prices[self.commitment]

    @property
    def restrictions(self) -> set[str]:
        return {self.reqs, self.allowed, self.commitment}


@dataclass(eq=False)
class APlan:
    """One that restricts its claims by its own name."""

    name: str
    claims: list[AClaim]
    waiting: int = 0
    unplaced: list[SimpleNamespace] = field(init=False)

    def __post_init__(self) -> None:
        self.unplaced = [SimpleNamespace(waiting=self.waiting)] if self.waiting else []

    def settle_commitments(self) -> APlan:
        assert not any(claim.commitment for claim in self.claims), "a plan is restricted from its own claims"
        for claim in self.claims:
            claim.reqs = claim.allowed = claim.commitment = self.name
        return self


@dataclass
class AnAccount:
    """One that a plan of these names exceeds once its claims are restricted."""

    exceeded_by: tuple[str, ...] = ()

    def for_another_plan(self, claims: list[AClaim]) -> object:
        assert all(claim.commitment for claim in claims), "limits are asked about restricted claims"
        return self if any(claim.commitment in self.exceeded_by for claim in claims) else None


def _two(found: int, before: int, waiting: dict[str, int]) -> tuple[APlan, APlan, AClaim]:
    """A plan found by a search and the one it began with, at these prices once restricted; one claim is of both."""
    shared = AClaim("shared", {"": 1, "found": 1, "before": 1})
    plans = {
        name: APlan(name, [shared, AClaim(name, {"": 0, name: price - 1})], waiting.get(name, 0))
        for name, price in (("found", found), ("before", before))
    }
    return plans["found"], plans["before"], shared


@pytest.mark.parametrize(
    ("found", "before", "waiting", "exceeded_by", "better"),
    [
        (4, 5, {}, (), "found"),
        (5, 5, {}, (), "found"),  # at the same price, the search's
        (6, 5, {}, (), "before"),
        (6, 5, {"before": 1}, (), "found"),  # a pod counts before any price
        (4, 5, {"found": 1}, (), "before"),
        (6, 5, {}, ("before",), "found"),  # the other cannot be launched
        (4, 5, {}, ("found",), ""),
        (4, 5, {}, ("found", "before"), ""),
    ],
)
def test_the_cheaper_plan_after_restrictions_is_returned_with_its_own(
    found: int, before: int, waiting: dict[str, int], exceeded_by: tuple[str, ...], better: str
) -> None:
    """Otherwise, a search makes a plan dearer, or a claim of both has the restrictions of the other."""
    one, other, shared = _two(found, before, waiting)
    result = cheaper_within_ec2_limits(AnAccount(exceeded_by), one, other)
    assert result is {"found": one, "before": other, "": None}[better]
    assert shared.restrictions == {better}
    if result is None:
        assert [plan.claims[1].restrictions for plan in (one, other)] == [{""}, {""}]
    else:
        assert result.claims[1].restrictions == {better}


def test_a_plan_that_no_search_improved_is_restricted_without_a_comparison() -> None:
    _, before, shared = _two(4, 5, {})
    assert cheaper_within_ec2_limits(AnAccount(("before",)), before, before) is before
    assert shared.restrictions == {"before"}


def test_the_best_plan_leaves_fewest_pods_and_costs_least_the_first_among_equals() -> None:
    plans = [
        (APlan(name, [AClaim(name, {"": price})], waiting), name)
        for name, waiting, price in (("a", 1, 1), ("b", 0, 7), ("c", 0, 5), ("d", 0, 5))
    ]
    assert [plan_rank(plan) for plan, _ in plans] == [(1, 1), (0, 7), (0, 5), (0, 5)]
    assert best_of(plans)[1] == "c"
    assert best_of(plans[:2])[1] == "b"
    assert best_of(plans[:1])[1] == "a"


# Greedy plans without some nodes.


LARGE = a_type("large", cpu="8", price=0.4)


def test_a_node_that_takes_no_pods_keeps_its_own() -> None:
    """Its pods do not move, and the pods of a node that goes need a new node."""
    (claim, first), (other, second) = a_node_of(LARGE, "n1"), a_node_of(LARGE, "n2")
    pods = (a_pod("a", node_name="n1"), a_pod("b", node_name="n2"))
    context = context_of(types=(LARGE,), nodes=(first, second), node_claims=(claim, other), pods=pods)
    gone, closed = (frozenset((context.positions[name],)) for name in ("n1", "n2"))
    solution, displaced = greedy(context, gone, consolidation=False)
    assert ([pod.name for pod in displaced], len(solution.claims)) == (["a"], 0)
    solution, displaced = greedy(context, gone, consolidation=False, closed=closed)
    assert ([pod.name for pod in displaced], len(solution.claims)) == (["a"], 1)


def test_drained_pods_share_no_new_node_with_pods_that_wait_in_any_case() -> None:
    """Equal pods too: otherwise, the node of a waiting pod counts as the price of a move. Waiting pods come first."""
    claim, node = a_node_of(LARGE, "n1")
    pods = tuple(a_pod(name, cpu="1", node_name=at) for name, at in (("a", "n1"), ("b", "n1"), ("c", ""), ("d", "")))
    planner = Planner(a_snapshot(types=(LARGE,), nodes=(node,), node_claims=(claim,), pods=pods))
    for drains in (Drains(leaving=frozenset((0,))), Drains(mandatory=frozenset((0,)))):
        fleet = planner.drained(drains)
        for results in (fleet.results, fleet.packed(SearchBudget(20))):
            assert [claim.pods for claim in results.plan.claims] == [
                ("default/c", "default/d"),
                ("default/a", "default/b"),
            ]


def test_a_pod_that_may_leave_a_crowded_zone_does_not_return_in_place_of_another() -> None:
    """The other returns to the zone as well: kube-scheduler refuses the first one there if it sees it first."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    pairs = [a_node_of(LARGE, name, zone=ZONES[0]) for name in ("n1", "n2")]
    pods = (
        a_pod("large", cpu="3", node_name="n1", labels={"app": "web"}, spreads=(even,)),
        a_pod("small", cpu="2", node_name="n2", labels={"app": "web"}),
    )
    claims, nodes = zip(*pairs, strict=True)
    only = (ZONES[0], ZONES[1])
    types = (a_type("large", cpu="8", price=0.4, zones=only),)
    planner = Planner(a_snapshot(types=types, nodes=nodes, node_claims=claims, pods=pods)).pinned(["n1", "n2"])
    for drains in (Drains(leaving=frozenset((0, 1))), Drains(mandatory=frozenset((0, 1)))):
        plan = planner.drained(drains).results.plan
        assert {claim.pods: claim.zones for claim in plan.claims} == {
            ("default/large",): (ZONES[1],),
            ("default/small",): (ZONES[0],),
        }


def test_pods_of_drained_nodes_go_to_the_nodes_that_a_target_means_for_them() -> None:
    """The first node with room would take room that the target keeps for other pods."""
    pairs = [a_node_of(LARGE, f"n{number}") for number in range(4)]
    claims, nodes = zip(*pairs, strict=True)
    pods = tuple(a_pod(name, cpu="1", node_name=at) for name, at in (("a", "n0"), ("b", "n0"), ("c", "n1")))
    context = context_of(types=(LARGE,), node_claims=claims, nodes=nodes, pods=pods)
    group = context.pod_groups.of(pods[0]).index
    slots = {group: [(3, 1), (2, 1)]}
    for changes, placed in (
        ({"slots": slots}, [("a", 3), ("b", 2)]),
        ({}, [("a", 1), ("b", 1)]),
        ({"closed": frozenset((1,))}, [("a", 2), ("b", 2)]),
    ):
        for drains in (Drains(leaving=frozenset((0,)), **changes), Drains(mandatory=frozenset((0,)), **changes)):
            solution, displaced = drained(context, drains)
            assert [(pod.name, position) for pod, position in solution.bound] == placed
            assert [pod.name for pod in displaced] == ["a", "b"]
            assert (solution.claims, solution.unplaced) == ([], [])


def test_a_greedy_plan_is_settled_with_its_commitments() -> None:
    """A claim gives up what its commitment would pay for a larger node, and may be launched as any type that this covers."""
    types = tuple(
        a_type(f"m7.{size}", cpu=cpu, price=0.05 * int(cpu)) for size, cpu in (("large", "2"), ("2xlarge", "8"))
    )
    bought = ReservedInstances(name="one", instance_type="m7.2xlarge", count=1)
    pods = tuple(a_pod(f"p{n}", cpu="1500m") for n in range(5))
    context = context_of(types=types, pods=pods, options=Options(commitments=(bought,)))
    solution, _ = greedy(context, frozenset(), consolidation=False)
    (claim,) = solution.claims
    assert (claim.commitment, claim.template.types.names(claim.allowed)) == ("one", ("m7.2xlarge",))


# Pods that a plan left without a place, and which of two plans is fair to them.


NEAR = (PodAffinityTerm(labels.ZONE, a_selector(app="a")),)


def test_pods_that_no_node_can_help_do_not_count() -> None:
    """Otherwise, every plan of a cluster with one broken pod is made again and again."""
    pods = (*(a_pod(f"p{n}", cpu="1500m") for n in range(3)), a_pod("broken", volumes=(VolumeUse("no-such-claim"),)))
    context = context_of(types=(a_type(),), node_pools=(a_pool(limits={"nodes": 1}),), pods=pods)
    run = GreedyScheduler(context, queue_of(context, [(context.pending, Avoids.NO_NODE)]), frozenset(), frozenset())
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
    waiting = {group.pod_group.index: group for group in queue_of(context, [(context.pending, Avoids.NO_NODE)])}
    counts = [Counter({numbers[name]: count for name, count in side.items()}) for side in (before, after)]
    assert is_fair(waiting, before=counts[0], after=counts[1]) == fair


def test_priorities_are_those_of_the_pods_that_lose_and_gain_a_place() -> None:
    """Equal pods are one group whatever their priority: the oldest of the group stood for all of them."""
    old, urgent = a_pod("old", affinity=NEAR, priority=0), a_pod("urgent", affinity=NEAR, priority=9, created_at=NOW)
    other = a_pod("other", cpu="2", affinity=NEAR, priority=5)
    context = context_of(types=(a_type(cpu="8"),), pods=(old, urgent, other))
    near, larger = group_of(context, "urgent"), group_of(context, "other")
    assert near is group_of(context, "old")
    waiting = {group.pod_group.index: group for group in queue_of(context, [(context.pending, Avoids.NO_NODE)])}
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
    waiting = {group.pod_group.index: group for group in queue_of(context, [(context.pending, Avoids.NO_NODE)])}
    assert is_fair(waiting, before=Counter({other: 1}), after=Counter({wishing: 1}))
    assert not is_fair(waiting, before=Counter({wishing: 1}), after=Counter({other: 1}))


# Changes to a plan that may help pods without a place.


VALUES = {labels.ZONE: ("a", "b", "c")}
PLAN_VARIATION_CONFLICTS = TopologyConflicts(VALUES, repelled={labels.ZONE: (7,)}, followed={labels.ZONE: (8,)})


def test_the_most_promising_change_puts_the_pods_first() -> None:
    first = next(PlanVariation(first=(5, 9), last=(4,)).neighbours(4, PLAN_VARIATION_CONFLICTS))
    assert first == PlanVariation(first=(4, 5, 9))


def test_neighbours_differ_from_the_variation_and_name_only_conflicts() -> None:
    """Each neighbour costs a whole plan."""
    start = PlanVariation()
    neighbours = list(start.neighbours(4, PLAN_VARIATION_CONFLICTS))
    assert start not in neighbours
    barred = {one for variation in neighbours for one in variation.barred}
    assert {signature for signature, _, _ in barred} == {4, 7, 8}
    assert {value for _, _, value in barred} == set(VALUES[labels.ZONE])
    round_robin = {one for variation in neighbours for one in variation.round_robin}
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
    neighbours = PlanVariation().neighbours(4, conflicts)
    assert {values for variation in neighbours for _, _, values in variation.round_robin} == {("a", "b")}


def test_pods_come_by_their_variation_before_anything_else() -> None:
    """Those of `first` in its order, then all others, then those of `last` in its order."""
    chosen = [(Requirement.one_of(labels.INSTANCE_TYPE, "m", f"other-{number}"),) for number in range(5)]
    pods = tuple(a_pod(f"p{number}", node_selector=selector) for number, selector in enumerate(chosen))
    context = context_of(types=(a_type("m"),), pods=pods)
    groups = {
        group.pod_group.signature.index: group for group in queue_of(context, [(context.pending, Avoids.NO_NODE)])
    }
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


REQUEUE_TYPE = a_type("m", cpu="4", memory="16Gi", zones=ZONES[:1], capacity_types=(labels.ON_DEMAND,))
BESIDE_DB = PodAffinityTerm(labels.HOSTNAME, a_selector(app="db"))
BIG = {"cpu": 99_000, "memory": 2**40, "pods": 900}
BY_FAMILY = PodAffinityTerm("family", a_selector(app="db"))


@pytest.fixture
def no_variations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a second turn finds alone: the search that follows takes seconds where the second turn takes one more plan."""
    monkeypatch.setattr(VariedPlans, "improved", lambda _, best, _left: best)


def a_node(name: str, zone: str) -> Node:
    room = {"cpu": 4000, "memory": 2**34, "pods": 10}
    known = {labels.HOSTNAME: name, labels.ZONE: zone}
    return Node(name=name, labels=known, capacity=room, allocatable=room, is_ready=True)


def test_a_pod_that_needs_one_node_gets_it_if_a_larger_one_can_use_another() -> None:
    """Otherwise, a pod waits forever next to a free node."""
    nodes = (a_node("n1", ZONES[0]), a_node("n2", ZONES[1]))
    large = a_pod("large", cpu="3")
    small = a_pod("small", cpu="2", node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),))
    plan = plan_of(nodes=nodes, pods=(large, small), node_pools=())
    assert places(plan) == {"large": "n2", "small": "n1"}


def test_a_pod_and_the_one_of_its_affinity_go_together() -> None:
    """Otherwise, pods that fill a database's node first keep its sidecar service away from it."""
    pods = (
        a_pod("large", cpu="3"),
        a_pod("db", cpu="1", labels={"app": "db"}),
        a_pod("web", cpu="500m", affinity=(BESIDE_DB,)),
    )
    where = places(plan_of(types=(REQUEUE_TYPE,), pods=pods))
    assert where["web"] == where["db"] != where["large"]


def test_no_pod_loses_its_place_to_a_pod_that_was_left_over() -> None:
    """Otherwise, small pods displace a large one for good at each limit: the largest go first."""
    pool = a_pool(limits={"cpu": 4000})
    pods = (a_pod("large", cpu="3"), a_pod("p1", cpu="2"), a_pod("p2", cpu="2"))
    plan = plan_of(types=(REQUEUE_TYPE,), pods=pods, node_pools=(pool,))
    assert reasons_of(plan) == {"p1": PodReason.LIMIT_REACHED, "p2": PodReason.LIMIT_REACHED}


def test_pods_that_only_one_by_one_displace_no_other_get_their_turn_one_by_one(no_variations: None) -> None:
    """Together they cost a large pod its place, so both were left over where one need not be."""
    nodes = tuple(a_node(f"n{number}", zone) for number, zone in enumerate(ZONES))
    large = tuple(a_pod(name, cpu="3") for name in ("large", "wide"))
    small = tuple(
        a_pod(f"in-{zone}", cpu="2", node_selector=(Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2]
    )
    reasons = reasons_of(plan_of(nodes=nodes, pods=(*large, *small), node_pools=()))
    assert set(reasons) == {f"in-{ZONES[1]}"}


def test_a_pod_that_may_be_the_first_of_its_group_goes_without_the_others(no_variations: None) -> None:
    """Otherwise, alike pods on nodes without accelerators keep those that need one from every node."""
    plain = a_type("plain", cpu="8", zones=ZONES[:1], family="c")
    gpu = a_type("gpu", cpu="2", price=1.0, zones=ZONES[:1], extra={"nvidia.com/gpu": "1"}, family="g")
    pods = (
        a_pod("large", cpu="3", node_selector=(Requirement.one_of("family", "c"),)),
        a_pod("db", cpu="1", labels={"app": "db"}, node_selector=(Requirement.one_of("family", "c"),)),
        a_pod("learner", cpu="500m", labels={"app": "db"}, extra={"nvidia.com/gpu": "1"}, affinity=(BY_FAMILY,)),
    )
    assert reasons_of(plan_of(types=(plain, gpu), pods=pods)) == {}


def test_pods_that_are_left_over_are_planned_on_one_node_with_the_others(no_variations: None) -> None:
    """Otherwise, the first pod takes the zone where a node for it alone is cheapest, and no node there holds both."""
    small = a_type("small", cpu="2", price=0.1, zones=ZONES[:1])
    large = a_type("large", cpu="8", price=0.5, zones=ZONES[1:2])
    own_spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="db"))
    pods = (
        a_pod("web", cpu="3", affinity=(BESIDE_DB,)),
        a_pod("db", cpu="1", labels={"app": "db"}, spreads=(own_spread,)),
    )
    where = places(plan_of(types=(small, large), pods=pods))
    assert where["web"] == where["db"]


def test_without_pods_left_over_there_is_one_plan() -> None:
    """Otherwise, every plan takes twice its time."""
    context = context_of(types=(REQUEUE_TYPE,), pods=(a_pod("p"),))
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, Avoids.NO_NODE)]))
        return queues[-1]

    assert RequeuingScheduler(context, queue).solution().unplaced == []
    assert len(queues) == 1


@pytest.mark.parametrize(
    ("count", "zones", "plans"),
    [
        (2, ZONES[1:2], 2),
        (SHARING_PODS_MAX, ZONES[1:2], 2),
        (SHARING_PODS_MAX + 1, ZONES[1:2], 1),
        (2, ZONES[:1], 1),
        (SHARING_PODS_MAX, ZONES[:1], 1),
    ],
)
def test_only_few_pods_are_planned_on_one_node_as_well(count: int, zones: tuple[str, ...], plans: int) -> None:
    """Otherwise, the greedy plan of a burst takes four times its time where some type has room for all of it.

    Nor is there a second plan if pods that share a node would choose the same zones.
    """
    largest = a_type("large", cpu="8", memory="128Gi", pods="737", price=1.0, zones=zones)
    one_zone = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    cpu = f"{7000 // count}m"
    pods = tuple(a_pod(f"p{n}", cpu=cpu, labels={"app": "db"}, affinity=(one_zone,)) for n in range(count))
    context = context_of(types=(REQUEUE_TYPE, largest), pods=pods)
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, Avoids.NO_NODE)]))
        return queues[-1]

    assert RequeuingScheduler(context, queue).solution().unplaced == []
    assert len(queues) == plans


def test_pods_that_no_rule_holds_to_one_domain_are_planned_once() -> None:
    """Most of them go to a node that exists; of the others, one node would take both whatever zone it is in."""
    largest = a_type("large", cpu="8", memory="128Gi", pods="737", price=1.0, zones=ZONES[1:2])
    node = replace(a_node("n1", ZONES[0]), capacity=BIG, allocatable=BIG)
    pods = tuple(a_pod(f"p{n}", cpu="100m") for n in range(SHARING_PODS_MAX))
    tied = (Requirement.one_of(labels.ZONE, ZONES[1]),)
    context = context_of(
        types=(largest,), nodes=(node,), pods=(*pods, *(a_pod(f"q{n}", cpu="3", node_selector=tied) for n in range(2)))
    )
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, Avoids.NO_NODE)]))
        return queues[-1]

    solution = RequeuingScheduler(context, queue).solution()
    assert (len(solution.claims), len(solution.bound), len(queues)) == (1, SHARING_PODS_MAX, 1)


# Waiting pods that keep others from a place by rules along shared domains.


TOPOLOGY_CONFLICTS_TYPE = a_type("m", cpu="8")


def test_pods_follow_those_of_their_affinity_and_are_kept_from_those_of_their_anti_affinity() -> None:
    """Otherwise, variations are tried that change nothing for the pods that wait."""
    near = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    apart = PodAffinityTerm(labels.ZONE, a_selector(app="batch"))
    pods = (
        a_pod("web", affinity=(near,), anti_affinity=(apart,)),
        a_pod("db", labels={"app": "db"}),
        a_pod("batch", labels={"app": "batch"}),
        a_pod("other", labels={"app": "other"}),
    )
    context = context_of(types=(TOPOLOGY_CONFLICTS_TYPE,), pods=pods)
    number = {name: group_of(context, name).signature.index for name in ("web", "db", "batch", "other")}
    conflicts = conflicts_of(context, group_of(context, "web"), frozenset(number.values()))
    assert conflicts.followed == {labels.ZONE: (number["db"],)}
    assert conflicts.repelled == {labels.ZONE: (number["batch"],)}
    assert conflicts.values == {labels.ZONE: ZONES}
    assert conflicts.signatures == (number["batch"], number["db"])
    assert conflicts.round_robin() == {(number["db"], labels.ZONE, ZONES)}


def test_pods_that_wait_no_more_are_no_conflict() -> None:
    spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="a"))
    pods = (
        a_pod("one", labels={"app": "a"}, spreads=(spread,)),
        a_pod("two", cpu="2", labels={"app": "a", "v": "2"}),
    )
    context = context_of(types=(TOPOLOGY_CONFLICTS_TYPE,), pods=pods)
    group = group_of(context, "one")
    conflicts = conflicts_of(context, group, frozenset({group.signature.index}))
    assert (conflicts.signatures, conflicts.repelled, conflicts.followed) == ((), {}, {})


# A best-first search over variations of a plan.


CONFLICTS = TopologyConflicts({"zone": ("a", "b")}, {"zone": (7,)}, {})


def a_search(
    planned: object, *, plans_max: int = 99, idle_max: int = 99, others: Iterable[PlanVariation] = ()
) -> VariationSearch:
    assert callable(planned)
    return VariationSearch(planned, lambda _: CONFLICTS, plans_max=plans_max, idle_max=idle_max, others=iter(others))


def test_changes_are_combined_until_no_pod_is_left_over() -> None:
    """One change alone rarely frees all zones that are needed."""

    def planned(variation: PlanVariation) -> VariationResult:
        return VariationResult(4 - 2 * len(variation.barred), (1,))

    best = a_search(planned).best(VariationResult(4, (1,)))
    assert best is not None
    assert len(best.barred) == 2


def test_a_variation_is_planned_once_and_the_search_is_bounded() -> None:
    """Otherwise, a pod that no variation helps costs hundreds of plans in each run."""
    bounded: tuple[tuple[dict[str, int], int], ...] = (
        ({"plans_max": 5}, 5),
        ({"idle_max": 3}, 3),
        ({"plans_max": 0}, 0),
    )
    for bounds, most in bounded:
        asked: list[PlanVariation] = []

        def planned(variation: PlanVariation, asked: list[PlanVariation] = asked) -> VariationResult:
            asked.append(variation)
            return VariationResult(4, (1,))

        assert a_search(planned, **bounds).best(VariationResult(4, (1,))) is None
        assert len(asked) == len(set(asked)) == most


def test_other_variations_have_their_turn_while_steps_are_left() -> None:
    """The steps from a good variation are many; without turns, an order of zones that places every pod is never planned."""
    order = PlanVariation(order=DomainOrder("zone", ("b", "a")))

    def planned(variation: PlanVariation) -> VariationResult:
        return VariationResult(0 if variation == order else 3, (1,))

    assert a_search(planned, plans_max=2, others=[order]).best(VariationResult(4, (1,))) == order


def test_steps_go_on_from_another_variation_that_leaves_fewer_pods() -> None:
    order = PlanVariation(order=DomainOrder("zone", ("b", "a")))

    def planned(variation: PlanVariation) -> VariationResult:
        unplaced_count = 4 if variation.order is None else 2 - len(variation.barred)
        return VariationResult(unplaced_count, (1,))

    best = a_search(planned, others=[order]).best(VariationResult(4, (1,)))
    assert best is not None
    assert best.order == order.order
    assert len(best.barred) == 2


def test_of_equally_good_variations_the_one_with_the_fewest_changes_is_changed_first_and_then_the_oldest() -> None:
    """A variation from outside counts as one change."""
    outside = PlanVariation(order=DomainOrder("zone", ("b", "a")))
    asked: list[PlanVariation] = []

    def planned(variation: PlanVariation) -> VariationResult:
        asked.append(variation)
        return VariationResult(4, (1,))

    first = list(dict.fromkeys(one for one in PlanVariation().neighbours(1, CONFLICTS) if one != PlanVariation()))
    a_search(planned, plans_max=len(first) + 2, others=(outside,)).best(VariationResult(4, (1,)))
    assert asked[:-1] == [first[0], outside, *first[1:]]
    assert asked[-1] == next(
        one for one in first[0].neighbours(1, CONFLICTS) if one not in (*asked[:-1], PlanVariation())
    )


# Pods whose rules leave few zones: the best of several choices of zones and orders places the most of them.


TYPE = a_type("m", cpu="4", memory="16Gi")


def away_from(app: str) -> PodAffinityTerm:
    return PodAffinityTerm(labels.ZONE, a_selector(app=app))


def evenly(app: str) -> TopologySpread:
    return TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app=app))


def workload(app: str, count: int, **rules: object) -> tuple[Pod, ...]:
    return tuple(a_pod(f"{app}-{number}", labels={"app": app}, **rules) for number in range(count))


def test_pods_that_others_follow_evenly_go_to_every_zone() -> None:
    """With two caches in one zone, eight of the nine pods that spread beside them would have no place."""
    caches = workload("cache", 3, cpu="100m")
    readers = workload("reader", 9, cpu="2", spreads=(evenly("reader"),), affinity=(away_from("cache"),))
    plan = plan_of(types=(TYPE,), pods=(*caches, *readers))
    assert plan.unschedulable == ()
    assert len({zones(plan)[pod.name] for pod in caches}) == 3


def test_thirteen_pods_do_not_wait_because_of_two() -> None:
    """The two large pods go first and use the zone that the spread of thirteen needs."""
    isolated = workload("isolated", 2, cpu="3", anti_affinity=(away_from("web"),))
    web = workload("web", 16, cpu="500m", spreads=(evenly("web"),))
    plan = plan_of(types=(TYPE,), pods=(*isolated, *web))
    assert sorted(reasons_of(plan)) == ["isolated-0", "isolated-1"]


def test_pods_of_a_higher_priority_keep_their_places() -> None:
    isolated = workload("isolated", 2, cpu="3", anti_affinity=(away_from("web"),), priority=1000)
    web = workload("web", 16, cpu="500m", spreads=(evenly("web"),))
    reasons = reasons_of(plan_of(types=(TYPE,), pods=(*isolated, *web)))
    assert not {"isolated-0", "isolated-1"} & set(reasons)


def test_a_large_pod_keeps_its_place_where_only_a_limit_is_in_the_way() -> None:
    web = workload("web", 3, cpu="2", spreads=(evenly("web"),))
    reasons = reasons_of(
        plan_of(types=(TYPE,), pods=(a_pod("large", cpu="3"), *web), node_pools=(a_pool(limits={"nodes": 1}),))
    )
    assert Counter(reasons.values()) == {PodReason.LIMIT_REACHED: 3}


def test_pods_that_fit_no_node_cause_no_further_plan() -> None:
    """They may wait for days, and every run would plan sixty times."""
    nowhere = a_pod("nowhere", labels={"app": "x"}, spreads=(evenly("x"),), cpu="400")
    context = context_of(types=(TYPE,), pods=(nowhere, *workload("x", 4)))
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, Avoids.NO_NODE)]))
        return queues[-1]

    solution = RequeuingScheduler(context, queue).solution()
    assert leftovers_of(solution).total() == 1
    assert len(queues) <= 8
    assert [c.pods for c in solution.claims] == [
        c.pods for c in GreedyScheduler(context, queue(), frozenset(), frozenset()).run().claims
    ]


def test_few_plans_are_made_for_pods_that_a_plan_of_their_own_would_leave_too() -> None:
    """They may wait for days, too; but some have a place under another order of zones, so a few are made."""
    context = context_of(types=(TYPE,), pods=workload("x", 4, anti_affinity=(away_from("x"),)))
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, Avoids.NO_NODE)]))
        return queues[-1]

    assert leftovers_of(RequeuingScheduler(context, queue).solution()).total() == 1
    assert len(queues) <= 8 + UNLIKELY_WORK_MAX // (4 + PLAN_WORK)


@pytest.mark.parametrize("pods", [25, 29, 303, 2951])
@pytest.mark.parametrize("is_likely", [True, False])
def test_the_more_pods_a_plan_has_the_fewer_variations_are_made(
    pods: int, is_likely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together are a third of a second of work; a plan of many pods leaves time for none."""
    searches: list[dict[str, Any]] = []

    class Search:
        def __init__(self, **asked: Any) -> None:
            searches.append(asked)

        def best(self, start: VariationResult) -> None:
            assert start.left == 2

    context = context_of(types=(TYPE,), pods=workload("x", 1, anti_affinity=(away_from("x"),)))
    (pending,) = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    pending.pods *= pods
    solution = GreedyScheduler(context, [], frozenset(), frozenset()).run()
    monkeypatch.setattr(replanning, "VariationSearch", Search)
    monkeypatch.setattr(VariedPlans, "_gains_alone", lambda *_: is_likely)
    plans = VariedPlans(context, lambda: [pending])
    assert plans.improved(solution, Counter({pending.pod_group.index: 2})) is solution
    ((most, idle, others),) = (
        (search["plans_max"], search["idle_max"], len(list(search["others"]))) for search in searches
    )
    assert most == (6000 if is_likely else 1500) // (pods + 50)
    assert idle == 3000 // (pods + 50)
    assert others == 2 * 3 + 64, "each order of three zones, and as many drawn ones"
