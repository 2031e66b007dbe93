"""What repacking does to pods, with and without topology rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from core import labels
from core.model.catalogue import Offering
from core.model.plan import Plan
from core.model.pod import (
    SCHEDULE_ANYWAY,
    WAIT_FOR_FIRST_CONSUMER,
    HostPort,
    Pod,
    PodAffinityTerm,
    StorageClass,
    TopologySpread,
    VolumeUse,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import BEST_EFFORT, Options, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from core.packing.optimize import OptimizedPacking
from core.packing.problem import Ints, Packing, PackingProblem
from core.packing.relaxation import PreparedProblem
from core.packing.settings import DEFAULT_SETTINGS, LargeZoneSettings, SearchBudget, SearchSettings
from core.scheduling import schedule
from core.scheduling.claim_search import Solution
from core.scheduling.optimization import repacker
from core.scheduling.optimization.relaxed_pods import ItemGroup, LaunchOption
from core.scheduling.optimization.repacker import (
    Repacker,
    SubproblemSearch,
    ZoneLoads,
    loads_from,
    search,
    templates_in_demand,
)
from core.scheduling.optimization.subproblem import Subproblem
from core.scheduling.primitives import RequirementId, TypeMask, Vector
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.packing.problems import SIZES
from tests.unit.scheduling.optimization.clusters import (
    ON_DEMAND,
    a_cluster,
    greedily_solved,
    greedy,
    instance_types,
    plain_pods,
)
from tests.unit.scheduling.optimization.test_subproblem import a_subproblem

# Loads of one zone for another one.


IN_A, IN_B = RequirementId(1), RequirementId(2)
SMALL: Vector = (1,)
ZONE_LOADS_LARGE: Vector = (4,)


def a_group(requests: Vector, zone: RequirementId) -> ItemGroup:
    return ItemGroup(requests, (LaunchOption(0, zone, TypeMask(1)),))


def rows(*loads: tuple[int, ...]) -> Ints:
    return np.array(loads, dtype=np.int64)


def test_pods_of_the_same_kind_take_the_places() -> None:
    """Items are numbered otherwise in each zone, and requirements name the zone."""
    zone_loads = ZoneLoads([a_group(SMALL, IN_A), a_group(ZONE_LOADS_LARGE, IN_A)], rows((1, 2), (4, 0)))
    loads = loads_from(zone_loads, [a_group(ZONE_LOADS_LARGE, IN_B), a_group(SMALL, IN_B)], np.array([9, 9]))
    assert loads.tolist() == [[2, 1], [0, 4]]


def test_pods_that_are_not_there_are_left_out() -> None:
    zone_loads = ZoneLoads([a_group(SMALL, IN_A), a_group(ZONE_LOADS_LARGE, IN_A)], rows((1, 1), (0, 2)))
    assert loads_from(zone_loads, [a_group(SMALL, IN_B)], np.array([9])).tolist() == [[1], [0]]


def test_a_load_has_no_more_pods_than_there_are() -> None:
    zone_loads = ZoneLoads([a_group(SMALL, IN_A)], rows((4,)))
    assert loads_from(zone_loads, [a_group(SMALL, IN_B)], np.array([2])).tolist() == [[2]]


def test_groups_that_differ_in_requirements_alone_keep_their_order() -> None:
    """Nothing but the requirements names the zone, so that the first of such groups is taken for the first of the others."""
    here = [a_group(SMALL, IN_B), a_group(SMALL, RequirementId(3))]
    zone_loads = ZoneLoads([a_group(SMALL, IN_A), a_group(SMALL, RequirementId(4))], rows((1, 3)))
    assert loads_from(zone_loads, here, np.array([9, 9])).tolist() == [[1, 3]]


OWN = a_selector(app="own")
SPREAD_ZONES = TopologySpread(labels.ZONE, 1, selector=OWN)
SPREAD_HOSTS = TopologySpread(labels.HOSTNAME, 2, selector=OWN)
PREFER_HOSTS = TopologySpread(labels.HOSTNAME, 1, SCHEDULE_ANYWAY, OWN)
APART = PodAffinityTerm(labels.HOSTNAME, OWN)
ONE_ZONE = PodAffinityTerm(labels.ZONE, OWN)
GP3 = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
SCRATCH = VolumeUse("", ephemeral="scratch", storage_class="gp3")


def ruled(count: int, **rules: Any) -> tuple[Pod, ...]:
    """Pods of one service, most of them with much memory."""
    return tuple(
        a_pod(f"own{i:02}", cpu="700m", memory="6Gi" if i % 3 else "1Gi", labels={"app": "own"}, **rules)
        for i in range(count)
    )


def a_ruled_cluster(*own: Pod, steps: int | None = 120, **changes: Any) -> Snapshot:
    """The pods, and sixty others without rules."""
    fields = {
        "types": instance_types(),
        "node_pools": (a_pool("default", ON_DEMAND),),
        "pods": (*own, *plain_pods(60)),
        **changes,
    }
    return a_snapshot(options=Options(improve_iterations=steps), **fields)


def plans(*own: Pod, **changes: Any) -> tuple[Plan, Plan]:
    """The greedy plan and the improved one."""
    cluster = a_ruled_cluster(*own, **changes)
    return schedule(msgspec.structs.replace(cluster, options=Options())), schedule(cluster)


def on_nodes(plan: Plan) -> list[int]:
    """How many of the service's pods each node has."""
    return [count for claim in plan.claims if (count := sum("/own" in pod for pod in claim.pods))]


def by_zone(plan: Plan) -> Counter[tuple[str, ...]]:
    return Counter(claim.zones for claim in plan.claims for pod in claim.pods if "/own" in pod)


def test_a_service_spread_over_zones_is_repacked_and_stays_even() -> None:
    """Otherwise, a zone is emptied to save money, or nothing is saved because of the rule."""
    before, plan = plans(*ruled(31, spreads=(SPREAD_ZONES,)))
    assert plan.cost.hourly < before.cost.hourly * 0.9
    counts = by_zone(plan)
    assert all(len(zones) == 1 for zones in counts)
    assert len(counts) == 3
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(
    ("rules", "most"),
    [
        ({"anti_affinity": (APART,)}, 1),
        ({"spreads": (SPREAD_HOSTS,)}, 2),
        ({"spreads": (SPREAD_ZONES, SPREAD_HOSTS)}, 2),
        ({"preferred_anti_affinity": (WeightedPodAffinityTerm(100, APART),)}, 1),
        ({"spreads": (PREFER_HOSTS,)}, 1),
    ],
    ids=["anti-affinity", "spread", "both spreads", "preferred anti-affinity", "preferred spread"],
)
def test_replicas_stay_on_different_nodes(rules: dict[str, Any], most: int) -> None:
    """Otherwise, one node's end takes down the whole service; a preference that was met is kept, too."""
    before, plan = plans(*ruled(16, **rules))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert max(on_nodes(plan)) <= most


def test_pods_that_follow_each_other_to_a_zone_stay_in_one() -> None:
    """Otherwise, traffic between zones is paid for."""
    before, plan = plans(*ruled(16, affinity=(ONE_ZONE,)))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert len(by_zone(plan)) == 1


def test_pods_that_must_share_a_node_are_moved_together() -> None:
    """Otherwise, a pod stays pending because the pods that it must join are elsewhere."""
    before, plan = plans(*ruled(4, affinity=(APART,)))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert on_nodes(plan) == [4]


def test_a_pod_is_not_moved_beside_one_whose_rule_counts_it() -> None:
    """The rule belongs to the other pod, and holds whichever of the two comes last."""
    isolated = tuple(a_pod(f"own-{i}", cpu="1", memory="1Gi", anti_affinity=(APART,)) for i in range(6))
    _, plan = plans(*isolated, *ruled(12))
    for claim in plan.claims:
        has_rule = {pod.startswith("default/own-") for pod in claim.pods if "/own" in pod}
        assert len(has_rule) <= 1


def test_two_pods_that_open_one_port_stay_apart_and_the_others_move() -> None:
    """Otherwise, the second of them never starts."""
    listening = tuple(a_pod(f"own{i}", cpu="1", memory="1Gi", host_ports=(HostPort(9100),)) for i in range(3))
    before, plan = plans(*listening)
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert on_nodes(plan) == [1, 1, 1]


@pytest.mark.parametrize("rules", [{"host_ports": (HostPort(9100),)}, {"volumes": (SCRATCH,)}], ids=["port", "volume"])
def test_a_pod_stays_with_pods_that_cannot_be_moved_alone(rules: dict[str, Any]) -> None:
    """Otherwise, it is moved to a node without any pod of its affinity, and stays pending."""
    company = tuple(a_pod(f"own{i}", cpu="1", memory="1Gi", labels={"app": "own"}, **rules) for i in range(8))
    followers = tuple(a_pod(f"follower{i}", cpu="300m", memory="20Gi", affinity=(APART,)) for i in range(8))
    before, plan = plans(*company, *followers, storage_classes=(GP3,))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    for claim in plan.claims:
        names = {pod.removeprefix("default/")[:3] for pod in claim.pods}
        assert "fol" not in names or "own" in names


def test_nodes_of_a_few_large_pods_are_cheap_too() -> None:
    """Otherwise, GPU and database clusters pay for gaps that fractions of pods do not show."""
    sizes = [("21", "60Gi"), ("11", "4Gi"), ("5", "6Gi"), ("3", "10Gi")]  # two and two fill a machine
    large = tuple(a_pod(f"p{i:03}", cpu=sizes[i % 4][0], memory=sizes[i % 4][1]) for i in range(80))
    plan = schedule(a_cluster(steps=80, pods=large))
    assert plan.cost.lower_bound is not None
    assert plan.cost.hourly <= plan.cost.lower_bound * 1.01
    assert plan.cost.hourly < greedy(a_cluster(pods=large)).cost.hourly * 0.95


def test_pods_with_anti_affinity_stay_apart() -> None:
    """Otherwise, two pods that must be apart share a node."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="db"))
    guarded = tuple(a_pod(f"db{i}", labels={"app": "db"}, anti_affinity=(apart,)) for i in range(4))
    cluster = a_cluster(pods=guarded)
    assert schedule(cluster).claims == greedy(cluster).claims
    mixed = schedule(a_cluster(pods=(*plain_pods(60), *guarded)))
    homes = [claim.name for claim in mixed.claims for pod in claim.pods if pod.startswith("default/db")]
    assert len(set(homes)) == len(homes) == 4
    assert mixed.cost.hourly < greedy(a_cluster(pods=(*plain_pods(60), *guarded))).cost.hourly


def test_pods_in_different_zones_never_share_a_node() -> None:
    """A node is in one zone; packing problems know zones only by price and by which items may run there."""
    zones = ("us-east-1a", "us-east-1b")
    asking = tuple(
        msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, node_selector=(Requirement.one_of(labels.ZONE, zones[i % 2]),))
        )
        for i, pod in enumerate(plain_pods(60))
    )
    zone_of = {pod.key: zones[i % 2] for i, pod in enumerate(asking)}
    plan = schedule(a_cluster(pods=asking))
    assert plan.cost.hourly <= greedy(a_cluster(pods=asking)).cost.hourly
    for claim in plan.claims:
        assert {zone_of[pod] for pod in claim.pods} == set(claim.zones)


def test_claims_whose_min_values_were_lowered_stay_as_they_are() -> None:
    """Otherwise, BestEffort lowers minValues further, or a claim demands again what was not available."""
    choice = Requirement(labels.INSTANCE_TYPE, True, (), None, None, 900)
    pool = a_pool("default", ON_DEMAND, choice)
    cluster = a_cluster(node_pools=(pool,), options=Options(improve_iterations=60, min_values_policy=BEST_EFFORT))
    plan = schedule(cluster)
    assert all(claim.min_values_relaxed for claim in plan.claims)
    assert plan.claims == schedule(a_cluster(node_pools=(pool,), options=Options(min_values_policy=BEST_EFFORT))).claims


def test_places_in_reservations_are_kept_and_the_other_nodes_repacked() -> None:
    """Otherwise, more claims count on a reservation than it has places, or a pool with one pays too much for the rest."""
    first, *others = instance_types()
    place = Offering(first.name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=2)
    types = (msgspec.structs.replace(first, offerings=(*first.offerings, place)), *others)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND, labels.RESERVED))
    cluster = a_cluster(types=types, node_pools=(pool,))
    before, plan = greedy(cluster), schedule(cluster)
    held = [
        [claim for claim in a_plan.claims if claim.capacity_types == (labels.RESERVED,)] for a_plan in (before, plan)
    ]
    assert 1 <= len(held[1]) <= 2
    assert [claim.pods for claim in held[0]] == [claim.pods for claim in held[1]]
    assert plan.cost.hourly < before.cost.hourly * 0.97
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound <= plan.cost.hourly


def test_pods_stay_in_the_node_pool_that_comes_first() -> None:
    """The weight of a NodePool decides where pods run, whatever the other one costs."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    expensive = a_pool("expensive", ON_DEMAND, weight=10)
    plan = schedule(a_cluster(node_pools=(spot, expensive)))
    assert {claim.node_pool for claim in plan.claims} == {"expensive"}
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound < plan.cost.hourly / 2


def repacked(*pods: Pod) -> tuple[Solution, Solution]:
    """The greedy plan of these pods and forty others, and what thirty steps make of it."""
    context, solution = greedily_solved(a_cluster(pods=(*plain_pods(40), *pods)))
    return solution, Repacker(context, DEFAULT_SETTINGS).improved(solution, SearchBudget(30))


def test_pods_that_a_pod_without_a_place_must_join_stay_on_their_node() -> None:
    """It gets a place once there is room on that node: if they moved now, it would wait for another one."""
    company = a_pod("own", cpu="500m", memory="7Gi", labels={"app": "own"})
    too_large = a_pod("waits", cpu="4000", affinity=(APART,))
    for waiting, stays in (((too_large,), True), ((), False)):
        before, after = repacked(company, *waiting)
        (home,) = (claim for claim in before.claims if company in claim.pods)
        assert (home in after.claims) is stays
        assert sum(claim.price for claim in after.claims) < sum(claim.price for claim in before.claims)


def test_a_plan_that_changes_counts_of_a_required_rule_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """No item moves so, and if one did, a pod would break its rule."""
    monkeypatch.setattr(repacker, "keeps_counts", lambda _, *, before, after: before is after)
    before, after = repacked()
    assert after is before


def test_claims_that_gave_up_min_values_and_those_of_pods_that_wait_in_any_case_stay() -> None:
    for kind in ("lowered", "fixed", "free"):
        context, solution = greedily_solved(a_cluster(pods=plain_pods(40)))
        stays, goes = solution.claims
        stays.min_values_relaxed = kind == "lowered"
        solution.fixed_pods = frozenset([stays.pods[0].key] if kind == "fixed" else [])
        after = Repacker(context, DEFAULT_SETTINGS).improved(solution, SearchBudget(30))
        assert (stays in after.claims, goes in after.claims) == (kind != "free", False)


# How a search's budget is divided between subproblems.


def cost_of(subproblem: Subproblem, steps: int) -> int:
    searches = search([subproblem], seed=1, budget=SearchBudget(steps), settings=DEFAULT_SETTINGS)
    return sum(claim.price for claim in searches[0].claims())


def test_more_steps_never_cost_more() -> None:
    subproblem, solution = a_subproblem()
    greedy = sum(claim.price for claim in solution.claims)
    few, many = cost_of(subproblem, 4), cost_of(subproblem, 80)
    assert many <= few <= greedy
    assert many < greedy


def test_every_subproblem_gets_a_part_of_the_budget() -> None:
    """Otherwise, the first zone uses up the steps of the others."""
    subproblems = [a_subproblem(zone)[0] for zone in ("us-east-1a", "us-east-1b")]
    budget = SearchBudget(40)
    searches = search(subproblems, seed=1, budget=budget, settings=DEFAULT_SETTINGS)
    prices = [sum(claim.price for claim in zone_search.claims()) for zone_search in searches]
    assert prices[0] == pytest.approx(prices[1], rel=0.05)
    assert budget.steps <= 40 + len(subproblems)


LARGE = replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=1))
"""Settings under which every zone is a large one."""


def a_zone(zone: str, *, costs: float = 1.0, pods: int = 96) -> Subproblem:
    """So many pods of twelve sizes in a zone, whose types cost this many times as much as elsewhere."""
    types = tuple(
        a_type(f"t{cpu}-{gib}", cpu=str(cpu), memory=f"{gib}Gi", price=mills * costs / 1000)
        for cpu, gib, mills in SIZES
    )
    sizes = [(cpu, gib) for cpu in (1100, 1900, 2700, 3900) for gib in (3, 7, 12)]
    waiting = tuple(a_pod(f"p{n}", cpu=f"{cpu}m", memory=f"{gib}Gi") for n, (cpu, gib) in enumerate((sizes * 8)[:pods]))
    return a_subproblem(zone, types=types, pods=waiting)[0]


def three_zones() -> list[Subproblem]:
    """Zones that have the same pods."""
    return [a_zone(zone) for zone in ZONES]


def cost(searches: Iterable[SubproblemSearch]) -> int:
    return sum(claim.price for zone_search in searches for claim in zone_search.claims())


def test_the_loads_that_one_zone_finds_serve_the_others() -> None:
    """Otherwise, each zone spends steps on loads that another zone has found, and its plan costs more."""
    first, second, _ = three_zones()
    model = SubproblemSearch(first, SearchBudget(), LARGE)
    model.advance(1, SearchBudget(60), is_quick=False)
    assert model.loads is not None
    costs = []
    for elsewhere in ([model.loads], []):
        zone_search = SubproblemSearch(second, SearchBudget(), LARGE, model)
        assert zone_search.waits
        zone_search.advance(1, SearchBudget(1), is_quick=False, elsewhere=elsewhere)
        costs.append(cost([zone_search]))
    assert costs[0] < costs[1]


@pytest.mark.parametrize("calls", [0, 1, 3, 8, 20])
def test_zones_that_wait_for_loads_are_packed_when_time_ends(calls: int) -> None:
    """Otherwise, the whole plan stays greedy if one zone is not packed."""
    time_checks: list[float] = []

    def share_over() -> float:
        time_checks.append(0)
        return float(len(time_checks) > calls)

    interrupted = search(three_zones(), seed=1, budget=SearchBudget(60, share_over), settings=LARGE)
    assert all(sum(len(claim.pods) for claim in zone_search.claims()) == 96 for zone_search in interrupted)
    whole = search(three_zones(), seed=1, budget=SearchBudget(60), settings=LARGE)
    assert cost(interrupted) <= 1.25 * cost(whole)


def test_zones_that_wait_when_the_steps_are_used_up_are_only_rounded() -> None:
    """The budget is over: each of them may take the few steps of rounding, but generates no columns."""
    searches = search(three_zones(), seed=1, budget=SearchBudget(1), settings=LARGE)
    assert all(sum(len(claim.pods) for claim in zone_search.claims()) == 96 for zone_search in searches)
    assert [zone_search.loads for zone_search in searches[1:]] == [None, None]
    assert not any(zone_search.waits for zone_search in searches)


def searched(zone: str = ZONES[0], steps: int = 60, **constants: float) -> tuple[int, int, int]:
    """The cost of a large zone's plan, the steps of sixty that its search takes, and how many loads it passes on."""
    few_types = replace(DEFAULT_SETTINGS.stages, column_types_min=1)
    all_pairs = replace(DEFAULT_SETTINGS.two_type, loss_relative_max=1.0)
    large_zones = LargeZoneSettings(**{"machines_min": 1, **constants})
    settings = replace(DEFAULT_SETTINGS, large_zones=large_zones, stages=few_types, two_type=all_pairs)
    zone_search, budget = SubproblemSearch(a_zone(zone), SearchBudget(), settings), SearchBudget(steps)
    zone_search.advance(1, budget, is_quick=False)
    return cost([zone_search]), budget.steps, len(zone_search.loads.loads) if zone_search.loads is not None else 0


def test_a_large_zone_passes_on_only_loads_that_are_worth_their_price() -> None:
    """Loads that no plan buys make every other zone's linear programs larger."""
    loads = [searched(value_for_price_min=share)[2] for share in (0.0, 0.95, 0.99)]
    assert loads == sorted(set(loads), reverse=True)


def test_a_large_zone_stops_near_the_bound() -> None:
    """Its search takes a tenth of the steps if it may cost a third more than the bound, and costs more."""
    (near, long, _), (far, short, _) = (searched(stop_gap_relative=gap) for gap in (0.035, 0.3))
    assert short * 5 < long
    assert near < far < 1.3 * near


def test_a_large_zone_fills_as_many_types_as_its_settings_say() -> None:
    few, many = (searched(column_pairs_max=pairs)[0] for pairs in (1, 100_000))
    assert few != many


def test_a_large_zone_rounds_as_many_pairs_of_types_as_its_settings_say() -> None:
    """Each pair takes a step, and its packing has the first columns."""
    one_pair, three = (searched(pairs_rounded_max=pairs, stop_gap_relative=0.3) for pairs in (1, 3))
    assert one_pair[1] < three[1]
    assert one_pair[2] < three[2]


def test_zones_with_few_machines_share_no_loads() -> None:
    """About 37 machines in each of three zones: sharing is cheaper here, and follows the setting."""
    shared, alone = (
        search(
            three_zones(),
            seed=1,
            budget=SearchBudget(60),
            settings=replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=least)),
        )
        for least in (30, 40)
    )
    assert [zone_search.is_large_zone for zone_search in (*shared, *alone)] == [True] * 3 + [False] * 3
    assert cost(shared) < cost(alone)


def test_steps_that_a_large_zone_leaves_are_taken_by_nobody() -> None:
    """Otherwise, small subproblems spend for a thousandth what large zones have saved of the time."""
    settings = replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=1, stop_gap_relative=0.3))
    budget = SearchBudget(600)
    search(three_zones(), seed=1, budget=budget, settings=settings)
    assert budget.is_spent


def test_a_zone_with_a_model_is_expected_to_end_as_far_from_its_bound() -> None:
    """It would get the steps of a zone about which nothing is known."""
    first, second, _ = three_zones()
    model = SubproblemSearch(first, SearchBudget(), LARGE)
    model.advance(1, SearchBudget(60), is_quick=False)
    one, alone = SubproblemSearch(second, SearchBudget(), LARGE, model), SubproblemSearch(second, SearchBudget(), LARGE)
    assert 0 < one.gap < 0.1 * alone.gap


def test_machines_without_a_price_are_not_searched() -> None:
    """The search compares value with price; without prices, the greedy plan stays."""
    subproblem, _ = a_subproblem(types=(a_type("free", cpu="8", memory="64Gi", price=0.0),))
    searches = search([subproblem], seed=1, budget=SearchBudget(9), settings=DEFAULT_SETTINGS)
    assert searches[0].gap == 0
    assert searches[0].claims() == []


def test_only_a_zone_with_the_machine_types_of_a_searched_one_takes_over_its_prices() -> None:
    """It waits for that zone's loads; any other subproblem is searched as if there were no model."""
    model = SubproblemSearch(a_zone(ZONES[0]), SearchBudget(), LARGE)
    model.advance(1, SearchBudget(2), is_quick=True)
    outcomes = {}
    for case, subproblem in (
        ("alike", a_zone(ZONES[1])),
        ("few pods", a_zone(ZONES[1], pods=1)),
        ("dearer types", a_zone(ZONES[1], costs=2.0)),
        ("no zone", a_zone("")),
        ("no price", a_zone(ZONES[1], costs=0.0)),
    ):
        alone, one = (SubproblemSearch(subproblem, SearchBudget(), LARGE, other) for other in (None, model))
        outcomes[case] = one.ready is not None, one.waits, one.is_large_zone, one.gap == alone.gap
        assert (alone.waits, one.loads, one.claims(), one.gap_relative) == (False, None, [], 1.0)
    assert outcomes == {
        "alike": (True, True, True, False),
        "few pods": (True, True, False, False),
        "dearer types": (True, False, True, True),
        "no zone": (True, False, False, True),
        "no price": (False, False, False, True),
    }


def test_a_zone_is_large_from_as_many_machines_as_the_settings_say() -> None:
    """Two pods that each fill a machine."""
    pods = tuple(a_pod(f"p{n}", cpu="4", memory="16Gi") for n in range(2))
    subproblem, _ = a_subproblem(ZONES[0], types=(a_type("t", cpu="4", memory="16Gi"),), pods=pods)
    settings = (replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=least)) for least in (1, 2, 3))
    assert [
        SubproblemSearch(subproblem, SearchBudget(), zone_settings).is_large_zone for zone_settings in settings
    ] == [True, True, False]


def test_what_is_no_large_zone_is_searched_whatever_the_settings_of_large_zones_are() -> None:
    assert searched("", 20, stop_gap_relative=0.3, pairs_rounded_max=1) == searched("", 20)
    assert searched(ZONES[0], 20, stop_gap_relative=0.3, pairs_rounded_max=1) != searched(ZONES[0], 20)


class Cost(int):
    """Stands for a packing of which only the cost matters."""

    def cost(self, _: PackingProblem) -> int:
        """The cost, of any problem."""
        return int(self)


def test_a_search_continues_while_its_gap_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search begins with the last packing and its known ones, and says whether it found a cheaper one."""
    none, some = np.zeros((0, 12), dtype=np.int64), np.ones((1, 12), dtype=np.int64)
    answers = iter(((1300, 1000, none), (1300, 1000, none), (1200, 1000, some), (1010, 1000, none), (5, 0, none)))
    calls = []

    def improve(_: PreparedProblem, start: Packing, *, known: tuple[int, ...], **__: object) -> OptimizedPacking:
        calls.append((start, known))
        cost, bound, loads = next(answers)
        return OptimizedPacking(Cost(cost), bound, known=(*known, cost), loads=loads)

    monkeypatch.setattr(repacker, "improve", improve)
    repack = replace(DEFAULT_SETTINGS.repack, stop_gap_relative=0.01)
    zone_search = SubproblemSearch(a_zone(ZONES[0]), SearchBudget(), replace(DEFAULT_SETTINGS, repack=repack))
    assert zone_search.ready is not None
    assert zone_search.gap == int(zone_search.ready.fluid.lower_bound) + 1
    advances = [
        (
            zone_search.advance(1, SearchBudget(), is_quick=False),
            zone_search.gap,
            round(zone_search.gap_relative, 3),
            zone_search.loads is None,
        )
        for _ in range(5)
    ]
    assert advances == [
        (True, 300, 0.3, True),
        (False, 300, 0.3, True),
        (True, 200, 0.2, False),
        (True, 0, 0.01, True),
        (True, 5, 4.0, True),
    ]
    assert calls[0][1] == ()
    assert calls[1:] == [
        (1300, (1300,)),
        (1300, (1300, 1300)),
        (1200, (1300, 1300, 1200)),
        (1010, (1300, 1300, 1200, 1010)),
    ]
    zone_search.is_large_zone = True
    assert zone_search.gap == 5
    monkeypatch.setattr(repacker, "improve", lambda *_, **__: OptimizedPacking(Cost(9), 0, (), some))
    zone_search.advance(1, SearchBudget(), is_quick=False)
    assert (zone_search.gap, zone_search.gap_relative) == (0, 8.0)


def test_no_search_of_many_items_begins_once_much_of_the_time_is_over() -> None:
    """It takes half a second, whatever the clock says: plans of 10,000 Jobs took twice their time."""
    settings = replace(DEFAULT_SETTINGS, stages=replace(DEFAULT_SETTINGS.stages, sure_items_max=1))
    subproblem, _ = a_subproblem()
    early, late = (SearchBudget(out_of_time=lambda share=share: share) for share in (0.39, 0.4))
    assert SubproblemSearch(subproblem, early, settings).ready is not None
    assert SubproblemSearch(subproblem, late, settings).ready is None
    assert SubproblemSearch(subproblem, late, DEFAULT_SETTINGS).ready is not None


@pytest.mark.parametrize("looks", [0, 1])
def test_a_late_search_of_many_items_is_given_up_whole(looks: int) -> None:
    """To state the present packing again takes a tenth of a second, after the time is over."""
    settings = replace(DEFAULT_SETTINGS, stages=replace(DEFAULT_SETTINGS.stages, sure_items_max=1))
    subproblem, _ = a_subproblem()
    early, looked = SearchBudget(60, lambda: 0.3), iter([0.3] * looks)
    late = SearchBudget(60, lambda: next(looked, 0.95))
    (zone_search,) = search([subproblem], seed=0, budget=early, settings=settings)
    assert (zone_search.is_begun, zone_search.is_given_up, bool(zone_search.claims())) == (True, False, True)
    (other,) = search([subproblem], seed=0, budget=late, settings=settings)
    assert (other.is_begun, other.claims()) == (False, [])
    assert other.is_given_up is (looks > 0), "at first it is not even prepared"


class Scripted:
    """A search with scripted gaps, which takes a third of its steps, and notes what it is asked."""

    log: ClassVar[list[tuple[object, ...]]] = []
    is_begun = False

    def __init__(
        self,
        script: SimpleNamespace,
        _: SearchBudget,
        __: SearchSettings,
        model: Scripted | None,
        *,
        is_one_of_many: bool,
    ) -> None:
        self.is_one_of_many = is_one_of_many
        self.name, self.is_large_zone, self.waits = script.name, script.is_large, script.waits
        self.loads: str | None = None
        self._gaps = list(script.gaps)
        self.log.append((self.name, model and model.name))

    @property
    def gap(self) -> int:
        return self._gaps[0]

    def give_up_if_late(self, _: SearchBudget) -> bool:
        return False

    def advance(self, seed: int, budget: SearchBudget, *, is_quick: bool, elsewhere: tuple[str, ...] = ()) -> bool:
        """Find something cheaper if the gap changes, and loads in any case."""
        self.log.append((self.name, seed, budget.steps_max, is_quick, *elsewhere))
        before, self.waits, self.loads = self._gaps.pop(0), False, f"loads of {self.name}"
        budget.steps = (budget.steps_max or 0) // 3
        return before != self._gaps[0]


def a_script(name: str, *gaps: int, is_large: bool = False, waits: bool = False, pods: int = 1) -> SimpleNamespace:
    """What a subproblem's search finds."""
    return SimpleNamespace(name=name, gaps=gaps, is_large=is_large, waits=waits, counts={"some": 1, "others": pods - 1})


class TestSchedule:
    @pytest.fixture(autouse=True)
    def scripted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Scripted, "log", [])
        monkeypatch.setattr(repacker, "SubproblemSearch", Scripted)

    def run(self, steps: int, *scripts: SimpleNamespace) -> list[Any]:
        """What was asked once all were prepared, and how many steps were taken."""
        Scripted.log.clear()
        settings = replace(DEFAULT_SETTINGS, repack=replace(DEFAULT_SETTINGS.repack, rounds_max=4))
        budget = SearchBudget(steps)
        searches = search(scripts, seed=7, budget=budget, settings=settings)
        assert [script.name for script in searches] == [script.name for script in scripts]
        assert not any(script.is_one_of_many for script in searches), "so few are prepared however late it is"
        return [*Scripted.log[len(scripts) :], budget.steps]

    def test_several_begin_with_quick_stages_and_share_steps_by_their_gaps_the_widest_first(self) -> None:
        assert self.run(120, a_script("a", 30, 10, 0), a_script("b", 90, 30, 0)) == [
            ("b", 7, 90, True),
            ("a", 7, 90, True, "loads of b"),
            ("b", 8, 45, False, "loads of a"),
            ("a", 8, 45, False, "loads of b"),
            90,
        ]

    def test_one_alone_begins_with_all_stages_and_ends_once_nothing_is_saved(self) -> None:
        assert self.run(9, a_script("a", 50, 50)) == [("a", 7, 9, False), 3]
        assert self.run(9, a_script("a", 0)) == [0]

    def test_there_are_as_many_rounds_as_the_settings_say(self) -> None:
        asked = [("a", 7, 81, False), ("a", 8, 54, False), ("a", 9, 36, False), ("a", 10, 24, False)]
        assert self.run(81, a_script("a", 50, 40, 30, 20, 10, 0)) == [*asked, 65]

    def test_zones_that_wait_come_after_the_others_and_large_ones_leave_no_steps(self) -> None:
        waiting = a_script("w", 80, 10, is_large=True, waits=True)
        assert self.run(120, waiting, a_script("m", 60, 20, 0, is_large=True)) == [
            ("m", 7, 120, True),
            ("m", 8, 16, False),
            ("w", 8, 64, False, "loads of m"),
            120,
        ]

    def test_zones_that_still_wait_when_the_steps_are_used_up_are_rounded(self) -> None:
        waiting = a_script("w", 80, 10, is_large=True, waits=True)
        sure = DEFAULT_SETTINGS.stages.roundings_sure
        assert self.run(0, waiting, a_script("m", 60, 20)) == [("m", 7, 0, True), ("w", 7, sure, True), 0]

    @pytest.mark.parametrize(("large", "models"), [("y", ["y", "y"]), ("z", [None, "z"]), ("", [None, None])])
    def test_the_zone_with_the_most_pods_is_the_model_of_the_others(self, large: str, models: list[object]) -> None:
        sizes = zip("xyz", (3, 9, 5), strict=True)
        self.run(9, *(a_script(name, 0, is_large=name == large, pods=pods) for name, pods in sizes))
        assert Scripted.log == [("y", None), ("z", models[0]), ("x", models[1])]


def test_two_types_are_rounded_together_except_in_a_large_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There they would take a minute, and its loads come from others."""
    asked = []

    def round_only(_: PreparedProblem, start: Packing, *, pairs: bool, **__: object) -> OptimizedPacking:
        asked.append(pairs)
        return OptimizedPacking(start, 0, (), np.zeros((0, 12), dtype=np.int64))

    monkeypatch.setattr(repacker, "round_only", round_only)
    for settings in (LARGE, DEFAULT_SETTINGS):
        SubproblemSearch(a_zone(ZONES[0]), SearchBudget(), settings).advance(1, SearchBudget(), is_quick=True)
    assert asked == [False, True]


# Which NodePools waiting pods could use, and that the others' new nodes are still made cheaper.


TAINT = Taint("team", "NoSchedule", "a")
KEPT = (Toleration("team", "Exists"),)
LIMITED = a_pool("default", ON_DEMAND, taints=(TAINT,), limits={"cpu": 400_000})


def a_limited_cluster(*waiting: Pod) -> Snapshot:
    """Sixty pods that a tainted NodePool with limits launches nodes for, and these."""
    return a_cluster(node_pools=(LIMITED,), pods=(*plain_pods(60, tolerations=KEPT), *waiting))


@pytest.mark.parametrize(
    ("waiting", "in_demand"),
    [
        (a_pod("w"), False),
        (a_pod("w", cpu="4000", tolerations=KEPT), False),
        (a_pod("w", tolerations=KEPT, node_selector=(Requirement.one_of(labels.ZONE, "elsewhere"),)), False),
        (a_pod("w", tolerations=KEPT), True),
    ],
    ids=["not tolerated", "too large", "another zone", "over the limits"],
)
def test_a_pod_demands_what_could_launch_a_node_for_it(waiting: Pod, in_demand: bool) -> None:
    """Taints, requirements and size decide; limits and other pods do not, for repacking changes what they leave."""
    pool = a_pool("default", ON_DEMAND, taints=(TAINT,), limits={"cpu": 1_000})
    context, solution = greedily_solved(a_cluster(node_pools=(pool,), pods=(waiting,)))
    assert [group.pods for group in solution.unplaced] == [[waiting]]
    assert templates_in_demand(context, solution.unplaced) == (frozenset({0}) if in_demand else frozenset())


def test_a_pod_that_can_never_run_keeps_no_other_plan_from_getting_cheaper() -> None:
    """One pod without the toleration kept every NodePool with limits at the price of the greedy plan."""
    alone, beside = a_limited_cluster(), a_limited_cluster(a_pod("w"))
    cheaper = schedule(beside)
    assert [unplaced.pod for unplaced in cheaper.unschedulable] == ["default/w"]
    assert cheaper.cost.hourly < greedy(beside).cost.hourly
    assert cheaper.cost.hourly == schedule(alone).cost.hourly


def test_claims_that_a_waiting_pod_could_use_stay_as_they_are() -> None:
    """The greedy plan decides by its order which pods get the last room of a limit."""
    pool = a_pool("default", ON_DEMAND, limits={"cpu": 60_000})
    snapshot = a_cluster(node_pools=(pool,), pods=plain_pods(120))
    plan = schedule(snapshot)
    assert plan.unschedulable
    assert plan.claims == greedy(snapshot).claims
