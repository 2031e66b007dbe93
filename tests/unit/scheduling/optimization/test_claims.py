"""Claims for the machines of a packing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import Plan
from core.model.pod import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    StorageClass,
    TopologySpread,
    VolumeUse,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import BEST_EFFORT, STRICT, Options
from core.model.values.requirements import Requirement
from core.packing.settings import DEFAULT_SETTINGS, SearchBudget
from core.scheduling import schedule
from core.scheduling.new_node import InFlightClaim, RemainingLimits
from core.scheduling.optimization.claims import (
    ClaimBuilder,
    keeps_counts,
    recounted,
    regrouped,
    replaces_within_limits,
    separate_claims,
)
from core.scheduling.optimization.items import HostnameCaps, ItemExtraction
from core.scheduling.optimization.repacker import Repacker
from core.scheduling.primitives import TypeMask, bits
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.optimization.clusters import (
    ON_DEMAND,
    a_cluster,
    greedily_solved,
    greedy,
    instance_types,
    plain_pods,
)
from tests.unit.scheduling.reading import context_of

FAMILY = "karpenter.k8s.aws/instance-family"
"""A label of these types; each value has another price."""


def of_families(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """The same, each with its family as a label."""
    return tuple(
        msgspec.structs.replace(
            instance_type, labels={**instance_type.labels, FAMILY: (instance_type.name.partition("-")[0],)}
        )
        for instance_type in types
    )


def test_a_repacked_node_keeps_thirty_types_to_choose_from() -> None:
    """Otherwise, one type without capacity delays the launch; all types of a claim hold its pods."""
    plan = schedule(a_cluster())
    for claim in plan.claims:
        assert len(claim.instance_types) >= 30
        shapes = {tuple(map(int, name.split("-")[1:])) for name in claim.instance_types}
        assert all(cpu * 1000 >= claim.resources["cpu"] for cpu, _ in shapes)
        assert all(gib * 2**30 >= claim.resources["memory"] for _, gib in shapes)


@pytest.mark.parametrize("policy", [STRICT, BEST_EFFORT])
@pytest.mark.parametrize(("key", "least"), [(labels.INSTANCE_TYPE, 50), (FAMILY, 12), (FAMILY, 35)])
def test_repacked_claims_keep_the_choice_that_min_values_require(key: str, least: int, policy: str) -> None:
    """Otherwise, a launch has fewer types to fall back on than the NodePool requires, or nothing is saved."""
    types = {instance_type.name: instance_type for instance_type in of_families(instance_types())}
    choice = Requirement(key, True, (), None, None, least)
    pool = a_pool("default", ON_DEMAND, choice)
    options = Options(improve_iterations=60, min_values_policy=policy)
    cluster = a_cluster(node_pools=(pool,), types=tuple(types.values()), options=options)
    plan = schedule(cluster)
    assert plan.cost.hourly < greedy(cluster).cost.hourly * 0.97
    for claim in plan.claims:
        of_key = (
            claim.instance_types if key != FAMILY else [types[name].labels[FAMILY][0] for name in claim.instance_types]
        )
        assert len(set(of_key)) >= least
        assert {requirement.key: requirement.min_values for requirement in claim.requirements}[key] == least
        assert not claim.min_values_relaxed


def test_pods_that_fit_no_single_node_get_no_claim() -> None:
    """Otherwise, a claim without a type is launched."""
    pods = tuple(a_pod(f"p{i}", cpu="20", memory="1Gi") for i in range(2))
    context, solution = greedily_solved(a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    movable = [movable_pods for claim in solution.claims for movable_pods in extraction.items_of(claim, scope)]
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    assert builder.claim(movable) is None
    alone = [builder.claim([movable_pods]) for movable_pods in movable]
    assert [claim.pods for claim in alone if claim is not None] == [movable_pods.pods for movable_pods in movable]


@pytest.mark.parametrize(("key", "least"), [("", 0), (FAMILY, 35)])
def test_types_far_above_the_cheapest_are_left_out(key: str, least: int) -> None:
    """EC2 launches any type of a claim: beyond the thirty that a launch needs, only minValues justify an expensive one."""
    types = {instance_type.name: instance_type for instance_type in of_families(instance_types())}
    choice = (Requirement(key, True, (), None, None, least),) if key else ()
    plan = schedule(a_cluster(node_pools=(a_pool("default", ON_DEMAND, *choice),), types=tuple(types.values())))
    above, below = DEFAULT_SETTINGS.repack.claim_price_ratio_max
    for claim in plan.claims:
        prices = [min(offering.price for offering in types[name].offerings) for name in claim.instance_types]
        needed = max(DEFAULT_SETTINGS.repack.claim_types_min, least)
        assert all(price * below <= prices[0] * above for price in sorted(prices)[needed:])


@pytest.mark.parametrize(
    ("fewest", "ratio", "names"),
    [
        (1, (1, 1), "a"),
        (1, (3, 2), "abc"),
        (2, (1, 1), "ab"),
        (4, (3, 2), "abcd"),
        (9, (1, 1), "abcde"),
        (1, (16, 10), "abcd"),
        (1, (159, 100), "abc"),
    ],
)
def test_types_near_the_cheapest_are_kept_and_as_many_as_a_launch_needs(
    fewest: int, ratio: tuple[int, int], names: str
) -> None:
    """The cheapest type of all has no room for the pod, and counts for neither."""
    prices = {"a": 0.10, "b": 0.12, "c": 0.15, "d": 0.16, "e": 0.30}
    types = (a_type("tiny", cpu="1", price=0.01), *(a_type(name, price=price) for name, price in prices.items()))
    context, solution = greedily_solved(a_cluster(types=types, pods=(a_pod("p", cpu="1500m"),)))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    settings = msgspec.structs.replace(DEFAULT_SETTINGS.repack, claim_types_min=fewest, claim_price_ratio_max=ratio)
    claim = ClaimBuilder(context, scope, settings).claim(extraction.items_of(solution.claims[0], scope))
    assert claim is not None
    assert "".join(claim.template.types.names(claim.allowed)) == names
    assert claim.charged == claim.allowed
    assert ([pod.name for pod in claim.pods], claim.used) == (["p"], solution.claims[0].used)


def test_pods_that_contradict_each_other_get_no_claim_whoever_comes_between_them() -> None:
    zones = (Requirement.one_of(labels.ZONE, zone) for zone in ZONES[:2])
    pods = (
        a_pod("plain", cpu="1"),
        *(a_pod(f"in-{zone.values[0]}", cpu="1", node_selector=(zone,)) for zone in zones),
    )
    context, solution = greedily_solved(a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    movable = [movable_pods for claim in solution.claims for movable_pods in extraction.items_of(claim, scope)]
    assert len(movable) == 3
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    assert [builder.claim(order) for order in permutations(movable)] == [None] * 6
    names = {len(pair): builder.claim(pair) is not None for pair in ([movable[0]], movable[:1] + movable[1:2])}
    assert names[1]


# Cheaper claims within the limits of their NodePool.


@pytest.mark.parametrize("limits", [{"cpu": 96000}, {"nodes": 2}, {"memory": 400 * 2**30}])
def test_limits_hold_for_the_repacked_nodes_too(limits: dict[str, int]) -> None:
    """Otherwise, the cheaper nodes are larger than the NodePool allows."""
    cluster = a_cluster(node_pools=(a_pool("default", ON_DEMAND, limits=limits),))
    capacity = {t.name: t.capacity for t in instance_types()}
    plan = schedule(cluster)
    assert plan.cost.hourly <= greedy(cluster).cost.hourly
    assert len(plan.claims) <= limits.get("nodes", 99)
    for name in ("cpu", "memory"):
        taken = sum(max(capacity[t][name] for t in claim.instance_types) for claim in plan.claims)
        assert taken <= limits.get(name, taken)


def test_claims_that_are_not_cheaper_change_nothing() -> None:
    """Otherwise, the limits are charged for claims that were not taken."""
    _, solution = greedily_solved(a_cluster(pods=(a_pod("p"),)))
    limits = RemainingLimits({"cpu": 100_000})
    limits.charge(solution.claims[0].template.types, solution.claims[0].charged)
    before = dict(limits.left)
    assert not replaces_within_limits(solution.claims, solution.claims, limits=limits)
    assert not replaces_within_limits([], solution.claims, limits=limits)
    assert limits.left == before


def test_two_searches_from_one_plan_are_charged_by_themselves() -> None:
    """Consolidation tries two ways of packing: the second was charged after the first, and its limits had room twice."""
    context, solution = greedily_solved(a_cluster(node_pools=(a_pool("default", ON_DEMAND, limits={"cpu": 96_000}),)))
    before = [dict(limits.left) for limits in solution.state.limits]
    first, second = (Repacker(context, DEFAULT_SETTINGS).improved(solution, SearchBudget(60)) for _ in range(2))
    assert first is not solution
    assert [limits.left for limits in solution.state.limits] == before
    assert [limits.left for limits in first.state.limits] == [limits.left for limits in second.state.limits] != before


SIZES = (
    a_type("small", cpu="4", memory="16Gi", price=0.4),
    a_type("middle", cpu="8", memory="8Gi", price=0.5),
    a_type("large", cpu="16", memory="64Gi", price=0.9),
    a_type("old", cpu="16", memory="16Gi", price=2.0),
)


def replaced(
    limits: dict[str, int], *found: tuple[str, ...], min_values: int = 0, old: int = 1
) -> tuple[list[list[str]], dict[str, int]] | None:
    """The types of the claims that replace `old` ones of sixteen CPUs, and what is left of the limits; None if they do not.

    Args:
        limits: The limits before the old claims.
        found: The types of each new claim.
        min_values: How many of them each claim needs.
        old: How many claims are replaced.
    """
    context = context_of(types=SIZES, node_pools=(a_pool("default", ON_DEMAND),))
    (template,) = context.templates
    types = template.types
    needs = {labels.INSTANCE_TYPE: min_values} if min_values else {}

    def claim(*names: str) -> InFlightClaim:
        mask = TypeMask(bits(types.names(types.full).index(name) for name in names))
        zero = context.axis.zero
        return InFlightClaim(0, template, template.offered, mask, zero, charged=mask, min_values=needs)

    remaining = RemainingLimits(limits)
    before = [claim("old") for _ in range(old)]
    for claim_before in before:
        remaining.charge(types, claim_before.charged)
    limits_before, claims = dict(remaining.left), [claim(*names) for names in found]
    if not replaces_within_limits(claims, before, limits=remaining):
        assert remaining.left == limits_before
        return None
    assert all(new_claim.charged == new_claim.allowed for new_claim in claims)
    return [list(types.names_in_price_order(new_claim.allowed, new_claim.reqs)) for new_claim in claims], remaining.left


ALL = ("small", "middle", "large")
GI = 2**30


def test_a_claim_keeps_no_type_larger_than_its_cheapest_in_what_is_limited() -> None:
    """It is charged its largest type: the limits would have no room for others."""
    assert replaced({}, ALL) == ([["small", "middle", "large"]], {})
    assert replaced({"cpu": 16_000}, ALL) == ([["small"]], {"cpu": 12_000})
    assert replaced({"memory": 70 * GI}, ALL) == ([["small", "middle"]], {"memory": 54 * GI})
    assert replaced({"cpu": 16_000, "memory": 16 * GI}, ALL) == ([["small"]], {"cpu": 12_000, "memory": 0})
    assert replaced({"nodes": 1}, ALL) == ([["small", "middle", "large"]], {"nodes": 0})
    assert replaced({"cpu": 16_000}, ("middle", "large")) == ([["middle"]], {"cpu": 8_000})


def test_types_that_min_values_need_stay_as_far_as_the_limits_allow() -> None:
    assert replaced({"cpu": 16_000}, ALL, min_values=2) == ([["small", "middle", "large"]], {"cpu": 0})
    assert replaced({"cpu": 20_000, "memory": 60 * GI}, ALL, min_values=2) == (
        [["small", "middle"]],
        {"cpu": 12_000, "memory": 44 * GI},
    )
    assert replaced({"cpu": 16_000, "memory": 60 * GI}, ALL, min_values=3) is None
    assert replaced({}, ALL, min_values=3) == ([["small", "middle", "large"]], {})


def test_claims_that_the_limits_do_not_allow_together_or_that_cost_as_much_replace_none() -> None:
    assert replaced({"cpu": 16_000}, ("large",), ("small",)) is None
    assert replaced({"cpu": 20_000}, ("large",), ("small",)) == ([["large"], ["small"]], {"cpu": 0})
    assert replaced({"nodes": 1}, ("small",), ("small",)) is None
    assert replaced({"cpu": 99_000}, ("old",)) is None
    assert replaced({"cpu": 99_000}, *[("small",)] * 5) is None
    assert replaced({"cpu": 99_000}, *[("small",)] * 5, old=2) == ([["small"]] * 5, {"cpu": 79_000})
    assert replaced({"cpu": 99_000}) is None


# Pods share new nodes as planned, as far as they exist and the rules allow it.


def by_name(pod: Pod) -> str:
    return pod.name


def test_pods_are_grouped_as_planned_and_the_others_stay_together() -> None:
    context, solution = greedily_solved(a_cluster())
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    nodes = [extraction.items_of(claim, scope) for claim in solution.claims]
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    single = [movable_pods.pods[0] for of_node in nodes for movable_pods in of_node if len(movable_pods.pods) == 1][:2]
    regrouped_claims = regrouped(builder, nodes, [{pod.name: 1 for pod in single}, {"nobody": 3}], by_name)
    assert {pod.key for pod in regrouped_claims[0].pods} == {pod.key for pod in single}
    before = sorted(pod.key for claim in solution.claims for pod in claim.pods)
    assert sorted(pod.key for claim in regrouped_claims for pod in claim.pods) == before


def test_pods_that_must_share_a_node_stay_together() -> None:
    """Otherwise, a pod of the set has no node: whoever asked for a new grouping would launch nothing for it."""
    beside = PodAffinityTerm(labels.HOSTNAME, a_selector(app="own"))
    joined_pods = tuple(a_pod(f"own{n}", cpu="300m", labels={"app": "own"}, affinity=(beside,)) for n in range(3))
    context, solution = greedily_solved(a_cluster(pods=(*plain_pods(6), *joined_pods)))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    nodes = [extraction.items_of(claim, scope) for claim in solution.claims]
    regrouped_claims = regrouped(
        ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack), nodes, [{"p000": 1, "own0": 1}, {"p001": 1}], by_name
    )
    shared = [{pod.name for pod in claim.pods} for claim in regrouped_claims]
    assert {"p000"} in shared
    assert sum({pod.name for pod in joined_pods} <= names for names in shared) == 1
    assert sorted(name for names in shared for name in names) == sorted(
        pod.name for pod in (*plain_pods(6), *joined_pods)
    )


# Claims that cost more than a node for each of their pods.


SMALL = a_type("small", cpu="1", memory="4Gi", price=0.04)
LARGE = a_type("large", cpu="8", memory="32Gi", price=0.23)
GP3 = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
SCRATCH = VolumeUse("", ephemeral="scratch", storage_class="gp3")
DATA = PersistentVolumeClaim(namespace="default", name="data", storage_class="gp3")
BESIDE = PodAffinityTerm(labels.HOSTNAME, a_selector(app="own"))


def pods(count: int, **changes: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"p{n}", cpu="1", memory="1Gi", labels={"app": "own"}, **changes) for n in range(count))


def planned(*own: Pod, **changes: Any) -> Plan:
    return schedule(a_cluster(types=(SMALL, LARGE), pods=own, storage_classes=(GP3,), **changes))


@pytest.mark.parametrize("rules", [{"volumes": (SCRATCH,)}, {}], ids=["volumes", "plain"])
def test_pods_get_nodes_of_their_own_where_one_for_all_costs_more(rules: dict[str, Any]) -> None:
    """Pods with volumes are never moved between nodes, so five of them stayed together for the price of six nodes."""
    plan = planned(*pods(5, **rules))
    assert [len(claim.pods) for claim in plan.claims] == [1] * 5
    assert plan.cost.hourly == 5 * 40_000_000


def test_pods_share_a_node_that_costs_less() -> None:
    plan = planned(*pods(6, volumes=(SCRATCH,)))
    assert [len(claim.pods) for claim in plan.claims] == [6]


@pytest.mark.parametrize(
    "rules",
    [
        {"affinity": (BESIDE,)},
        {"preferred_affinity": (WeightedPodAffinityTerm(100, BESIDE),)},
        {"volumes": (VolumeUse("data"),)},
    ],
    ids=["affinity", "preferred", "one volume"],
)
def test_pods_that_belong_together_stay_together(rules: dict[str, Any]) -> None:
    """Otherwise, a pod loses what its affinity asks for, or waits for a volume that another node has attached."""
    plan = planned(*pods(5, **rules), volume_claims=(DATA,))
    assert [len(claim.pods) for claim in plan.claims] == [5]


def test_limits_keep_pods_together() -> None:
    """Otherwise, a plan has more nodes than its NodePool may have."""
    plan = planned(*pods(5, volumes=(SCRATCH,)), node_pools=(a_pool("default", ON_DEMAND, limits={"nodes": 3}),))
    assert [len(claim.pods) for claim in plan.claims] == [5]


def test_each_pod_of_a_claim_gets_one_of_its_own() -> None:
    context, solution = greedily_solved(a_cluster(types=(SMALL, LARGE), pods=pods(5), storage_classes=(GP3,)))
    (claim,) = solution.claims
    scope = ItemExtraction(context, HostnameCaps(context.topology.groups)).scope(claim)
    builder = ClaimBuilder(context, scope, DEFAULT_SETTINGS.repack)
    found = separate_claims(builder, solution.state.constraints, claim)
    assert [single.pods for single in found] == [[pod] for pod in claim.pods]
    assert sum(single.price for single in found) < claim.price


@pytest.mark.parametrize(
    "rules",
    [{"preferred_affinity": (WeightedPodAffinityTerm(100, BESIDE),)}, {"volumes": (VolumeUse("data"),)}],
    ids=["preferred", "one volume"],
)
def test_pods_that_belong_together_stay_so_beside_others_that_are_separated(rules: dict[str, Any]) -> None:
    """One claim that costs too much is no reason to take the others apart."""
    zones = [{"node_selector": (Requirement.one_of(labels.ZONE, zone),)} for zone in ZONES[:2]]
    apart = tuple(a_pod(f"q{n}", cpu="1", memory="1Gi", volumes=(SCRATCH,), **zones[1]) for n in range(5))
    plan = planned(*pods(5, **rules, **zones[0]), *apart, volume_claims=(DATA,))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1] * 5 + [5]


# The counts of a changed plan.


SPREAD = TopologySpread(labels.ZONE, 1, selector=a_selector(app="own"))
PODS = tuple(a_pod(f"own{i}", labels={"app": "own"}, spreads=(SPREAD,)) for i in range(9))


def test_an_unchanged_plan_has_the_counts_of_the_greedy_planner() -> None:
    context, solution = greedily_solved(a_cluster(pods=PODS))
    again = recounted(context, solution)
    assert keeps_counts(context, before=solution.state.domain_counts, after=again)


def test_a_plan_that_lost_the_pods_of_a_zone_is_noticed() -> None:
    """Otherwise, a spread that the greedy planner kept is broken to save money."""
    context, solution = greedily_solved(a_cluster(pods=PODS))
    assert len(solution.claims) == 3
    fewer = recounted(context, replace(solution, claims=solution.claims[1:]))
    assert not keeps_counts(context, before=solution.state.domain_counts, after=fewer)
