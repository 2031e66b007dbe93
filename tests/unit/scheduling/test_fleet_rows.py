"""The arrays agree with the snapshot: which pods run where, what room is left, and which node suits which pod."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from core import labels
from core.codec import encode_plan
from core.model.catalogue import Catalogue
from core.model.pod import (
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    PodAffinityTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from core.packing import relaxation
from core.packing.fleet_target import NO_GROUP
from core.packing.problem import PackingProblem
from core.packing.relaxation import PreparedProblem
from core.packing.settings import (
    DEFAULT_SETTINGS,
    SearchBudget,
    SearchSettings,
    SteppedBoundSettings,
    WholeMachineBoundSettings,
)
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.fleet_rows import DrainableNode, FleetRows, LowerBound
from core.scheduling.optimization.relaxed_pods import RelaxedPods
from core.scheduling.optimization.repacker import Repacker
from core.scheduling.optimization.subproblem import Subproblem
from core.scheduling.planner import DrainedFleet, Planner, _ways
from core.scheduling.replanning import Drains
from core.scheduling.results import SchedulingResults
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, pod_on, world
from tests.unit.disruption.target.test_decide import with_types
from tests.unit.scheduling.optimization.clusters import a_cluster, greedily_solved, instance_types


def rows_of(snapshot, *names: str, closed: tuple[str, ...] = ()) -> FleetRows:  # type: ignore[no-untyped-def]
    context = SchedulingContext(snapshot)
    nodes = [DrainableNode(context.positions[name], 10**8, 10**6) for name in names]
    return FleetRows(context, nodes, {context.positions[name] for name in closed})


def test_pods_count_by_group_and_free_room_is_the_rest() -> None:
    pods = (pod_on("a", "a1"), pod_on("a", "a2"), pod_on("b", "b1", cpu="1"))
    rows = rows_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=pods), "a", "b")
    problem = rows.problem
    assert sorted(problem.loads.sum(axis=0).tolist()) == [1, 2]
    assert problem.loads.sum(axis=1).tolist() == [2, 1]
    assert (problem.free[:, 0] == np.array([3000, 3000])).all()
    assert rows.amounts(rows.row_of_pod["default/b1"])["cpu"] == 1000


def test_a_closed_or_tainted_node_receives_nothing() -> None:
    claim, node = a_node_of(MIDDLE, "c", taints=(Taint("team", NO_SCHEDULE, "x"),))
    snapshot = world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), (claim, node), pods=(pod_on("a"),))
    rows = rows_of(snapshot, "a", closed=("b",))
    assert rows.problem.room_groups.tolist() != [NO_GROUP]
    open_ = rows.rooms.suits.any(axis=0)
    assert open_.tolist() == [True, False, False]


def test_a_spot_node_that_must_go_is_not_spot_by_choice() -> None:
    snapshot = world(a_node_of(MIDDLE, "a", capacity_type=labels.SPOT), pods=(pod_on("a"),))
    context = SchedulingContext(snapshot)
    position = context.positions["a"]
    by_choice = FleetRows(context, [DrainableNode(position, 1, 0)], ())
    drifted = FleetRows(context, [DrainableNode(position, 1, 0, must_go=True)], ())
    assert (by_choice.problem.is_spot.tolist(), drifted.problem.is_spot.tolist()) == ([True], [False])


TEAM = {"team": "x"}
WEB = (Owner("ReplicaSet", "web"),)
GPU = Taint("gpu", NO_SCHEDULE)


def a_fleet() -> tuple[FleetRows, dict[str, int]]:
    """The rows, and where each node is.

    Three nodes may go; of the others two may take pods, and each of the rest is shut for a reason of its own.

    Pods: on `a` one that nothing suits and two plain ones; on `b` one that tolerates the taint; on `s` a plain one and one
    that only `labelled` suits.
    """
    closed = a_node_of(MIDDLE, "closed")
    joining = a_node_of(MIDDLE, "joining")
    joining = (
        msgspec.structs.replace(joining[0], conditions={}),
        msgspec.structs.replace(
            joining[1], labels={k: v for k, v in joining[1].labels.items() if k != labels.INITIALIZED}
        ),
    )
    leaving = a_node_of(MIDDLE, "leaving")
    labelled = a_node_of(LARGE, "labelled")
    labelled = labelled[0], msgspec.structs.replace(labelled[1], labels=labelled[1].labels | TEAM)
    pairs = (
        a_node_of(MIDDLE, "a"),
        a_node_of(LARGE, "b", taints=(GPU,)),
        a_node_of(MIDDLE, "s", capacity_type=labels.SPOT),
        closed,
        joining,
        leaving,
        labelled,
        a_node_of(MIDDLE, "tainted", taints=(GPU,)),
    )
    pods = (
        pod_on("a", "a0", node_selector=(Requirement.one_of("team", "x"), Requirement.one_of("team", "y"))),
        pod_on("a", "a1"),
        pod_on("a", "a2"),
        pod_on("s", "s1"),
        pod_on("b", "b1", cpu="3", tolerations=(Toleration("gpu", operator="Exists"),)),
        pod_on("s", "s2", cpu="600m", node_selector=(Requirement.one_of("team", "x"),)),
        pod_on("labelled", "filler", cpu="1"),
        pod_on("tainted", "too-much", cpu="5", tolerations=(Toleration("gpu", operator="Exists"),)),
    )
    sizes = Requirement.one_of(labels.INSTANCE_TYPE, "t-1", "t-4", "elsewhere")
    pools = (
        a_pool("default", ON_DEMAND, sizes, Requirement.one_of(labels.ZONE, ZONES[1])),
        a_pool("gpu", ON_DEMAND, Requirement.one_of(labels.INSTANCE_TYPE, "t-16"), taints=(GPU,)),
    )
    market = Catalogue(default=(SMALL, MIDDLE, LARGE, a_type("elsewhere", cpu="8", price=0.01, zones=ZONES[:1])))
    snapshot = world(*pairs, pods=pods, marked_for_deletion=(leaving[0].name,), node_pools=pools, catalogue=market)
    context = SchedulingContext(snapshot)
    nodes = [DrainableNode(context.positions[n], 10 + i, 3 + i, must_go=n == "b") for i, n in enumerate("sba")]
    return FleetRows(context, nodes, {context.positions["closed"]}), {
        node.name: context.positions[node.name] for _, node in pairs
    }


class TestFleet:
    def test_rows_are_the_nodes_that_may_go_in_the_order_of_their_positions(self) -> None:
        rows, _ = a_fleet()
        problem = rows.problem
        assert [pods[0].key for pods in rows.pods] == ["default/a0", "default/b1", "default/s1"]
        assert problem.prices.tolist() == [12, 11, 10]
        assert problem.move_prices.tolist() == [5, 4, 3]
        assert problem.must_go.tolist() == [False, True, False]
        assert problem.is_spot.tolist() == [False, False, True]
        assert rows.positions(np.array([True, False, True])) == [rows.nodes[0].position, rows.nodes[2].position]

    def test_loads_are_the_pods_of_each_kind(self) -> None:
        rows, _ = a_fleet()
        items = [rows.row_of_pod[f"default/{name}"] for name in ("a0", "a1", "b1", "s2")]
        plain = items[1]
        assert rows.row_of_pod["default/a2"] == rows.row_of_pod["default/s1"] == plain
        assert rows.problem.loads[:, items].tolist() == [[1, 2, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]]

    def test_an_item_suits_the_nodes_whose_labels_and_taints_allow_it(self) -> None:
        """None takes pods while it leaves, joins or is closed, however well it suits."""
        rows, position = a_fleet()
        suited = {name: rows.rooms.suits[rows.row_of_pod[f"default/{name}"]] for name in ("a0", "a1", "b1", "s2")}
        suits = {name: {node for node in position if fits[position[node]]} for name, fits in suited.items()}
        assert suits == {
            "a0": set(),
            "a1": {"a", "s", "labelled"},
            "b1": {"a", "s", "labelled", "b", "tainted"},
            "s2": {"labelled"},
        }

    def test_nodes_share_a_group_where_the_same_items_suit_and_have_its_room(self) -> None:
        rows, position = a_fleet()
        problem, groups = rows.problem, rows.rooms.groups
        assert {name for name in position if groups[position[name]] == NO_GROUP} == {"closed", "joining", "leaving"}
        assert groups[position["b"]] != groups[position["a"]]
        assert groups[position["labelled"]] not in {groups[position[name]] for name in ("a", "b", "s", "tainted")}
        for name, cpu in (("labelled", 15_000), ("tainted", 0)):
            assert problem.group_free[groups[position[name]], 0] == cpu, "what those have that cannot go"
        assert problem.group_free[:, 0].sum() == 15_000
        for group in range(len(problem.group_free)):
            (first, *_) = np.flatnonzero(groups == group)
            assert rows.rooms.free[:, 0].min() == 0, "more than it has runs on one"
            assert (problem.group_suits[:, group] == rows.rooms.suits[:, first]).all()

    def test_a_new_machine_fits_what_its_pool_and_its_size_allow(self) -> None:
        """No pool has the label that one item asks for, one has a taint, and one type is not sold in the zone of its pool."""
        rows, _ = a_fleet()
        items = {name: rows.row_of_pod[f"default/{name}"] for name in ("a0", "a1", "b1", "s2")}
        assert rows.market is not None
        sizes = [int(cpu) for cpu in rows.problem.capacity[:, 0]]
        assert set(sizes) == {1000, 4000, 16000}
        fits = {
            name: {size for size, does in zip(sizes, rows.problem.fits[item], strict=True) if does}
            for name, item in items.items()
        }
        assert fits == {"a0": set(), "a1": {1000, 4000}, "b1": {4000, 16000}, "s2": set()}
        assert sorted(rows.market.counts.tolist()) == [1, 3]
        assert rows.problem.type_prices.tolist() == [size * 50_000 for size in sizes]


def filled(extra: dict[str, str] | None = None, **used: tuple[str, str] | tuple[str, str, int]) -> dict[str, int]:
    """Node → its group, for nodes of one type on which so much CPU and memory is used, by so many pods; the first may go.

    `extra`: what each pod requests besides, of which its node has just as much.
    """
    pods = tuple(
        a_pod(f"on-{node}", cpu=cpu, memory=memory, extra=extra, node_name=node, phase="Running", owners=WEB)
        for node, (cpu, memory, *_) in used.items()
    )
    pods += tuple(
        a_pod(f"{n}-on-{node}", cpu="0", memory="0", node_name=node, phase="Running", owners=WEB)
        for node, (*_, count) in used.items()
        for n in range(count if isinstance(count, int) else 0)
    )
    whole = msgspec.structs.replace(MIDDLE, capacity=MIDDLE.capacity | quantity.parse_resources(extra or {}))
    rows = rows_of(world(*(a_node_of(whole, name) for name in sorted(used)), pods=pods), next(iter(used)))
    return dict(zip(sorted(used), rows.rooms.groups.tolist(), strict=True))


def test_groups_of_nodes_are_in_the_order_of_what_their_free_room_leans_to() -> None:
    """Memory that is free beside no processor is no room; a node that is half as full in both leans to neither."""
    group = filled(
        empty=("100m", "100Mi"),
        memory=("3900m", "64Mi"),
        full=("4", "1Gi"),
        processor=("100m", "7900Mi"),
        half=("2", "4Gi"),
        like=("2", "4Gi"),
        crowded=("2", "4Gi", 20),
        none=("100m", "8Gi"),
        byte=("100m", str(8 * 2**30 - 1)),
    )
    assert group["half"] == group["like"] == group["crowded"]
    assert group["processor"] < group["byte"] < group["none"]
    assert group["full"] < group["memory"] < min(group["half"], group["empty"])
    assert group["processor"] > max(group["half"], group["empty"])
    assert sorted(set(group.values())) == list(range(7))


def test_groups_lean_to_processor_and_memory_whatever_else_pods_request() -> None:
    """Where pods have scratch space, its name came before that of memory, and nodes were grouped by it in place of memory."""
    used = {"first": ("1", "1Gi"), "memory": ("3900m", "64Mi"), "processor": ("100m", "7900Mi")}
    for extra in ({"ephemeral-storage": "1Gi"}, {"amd.com/gpu": "1"}, {"nvidia.com/gpu": "1"}):
        group = filled(extra, **used)
        assert group == filled(**used)
        assert group["memory"] < group["first"] < group["processor"]


def test_no_more_than_thirty_two_groups_are_made_of_nodes_of_a_kind() -> None:
    group = filled(**{f"n{n:02}": (f"{100 + 50 * n}m", "1Gi") for n in range(64)})
    assert Counter(Counter(group.values()).values()) == {2: 32}


def test_rules_along_hostnames_bound_how_many_pods_of_an_item_a_node_takes() -> None:
    """What is only preferred bounds the first try alone. A node with such a pod already has no room for one more."""
    web = LabelSelector((Requirement.one_of("app", "web"),))
    apart = PodAffinityTerm(labels.HOSTNAME, web)
    found = {}
    for kind, rule in (
        ("required", {"anti_affinity": (apart,)}),
        ("preferred", {"preferred_anti_affinity": (WeightedPodAffinityTerm(1, apart),)}),
        ("free", {}),
    ):
        pods = tuple(pod_on(node, labels={"app": "web"}, **rule) for node in ("a", "taken"))
        nodes = (a_node_of(MIDDLE, name) for name in ("a", "taken", "x", "y"))
        problem = rows_of(world(*nodes, pods=pods), "a").problem
        found[kind] = (problem.host_caps.tolist(), problem.required_host_caps.tolist(), problem.host_room.tolist())
    assert found == {"required": ([1], [1], [2]), "preferred": ([1], [0], [2]), "free": ([0], [0], [0])}


def test_the_tightest_rule_along_hostnames_counts_and_one_that_does_not_count_the_pod_is_none() -> None:
    web, other = a_selector(app="web"), PodAffinityTerm(labels.HOSTNAME, a_selector(app="other"))
    spreads = tuple(TopologySpread(labels.HOSTNAME, skew, selector=web) for skew in (2, 3))
    found = []
    for rules in (
        {"spreads": spreads},
        {"spreads": spreads[1:], "anti_affinity": (other,)},
        {"anti_affinity": (other,)},
    ):
        pods = (pod_on("a", labels={"app": "web"}, **rules),)
        problem = rows_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "x"), pods=pods), "a").problem
        found.append((problem.host_caps.tolist(), problem.required_host_caps.tolist(), problem.host_room.tolist()))
    assert found == [([2], [2], [2]), ([3], [3], [3]), ([0], [0], [0])]


def test_a_pod_that_no_node_could_help_suits_none_and_fits_none() -> None:
    """It runs where the kubelet or another scheduler has put it, and only its present node holds it."""
    named = NodeSelectorTerm((Requirement.one_of("metadata.name", "a"),), uses_fields=True)
    pods = (pod_on("a", "named", required_terms=(named,)), pod_on("a", "plain"))
    rows = rows_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "x"), pods=pods), "a")
    at = [rows.row_of_pod[f"default/{name}"] for name in ("named", "plain")]
    assert rows.rooms.suits[at].tolist() == [[False, False], [True, True]]
    assert rows.problem.fits[at].any(axis=1).tolist() == [False, True]
    assert rows.problem.loads[:, at].tolist() == [[1, 1]]
    assert rows.market is not None
    assert rows.market.counts.tolist() == [1]


def test_a_pool_that_pods_tolerate_only_at_their_last_step_has_new_machines_for_them() -> None:
    """A NodePool with PreferNoSchedule is used where there is no other."""
    pool = a_pool("default", ON_DEMAND, taints=(Taint("old", PREFER_NO_SCHEDULE),))
    rows = rows_of(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),), node_pools=(pool,)), "a")
    assert rows.problem.fits.any()


def test_a_fleet_without_nodes_or_pods_has_empty_arrays_of_the_same_kinds() -> None:
    """Solvers index with them: an array of floats is refused there."""
    for rows in (rows_of(world(a_node_of(MIDDLE, "a"))), rows_of(world(a_node_of(MIDDLE, "a")), "a"), rows_of(world())):
        problem = rows.problem
        assert rows.market is None
        assert problem.fits.shape == (0, 0)
        assert (problem.capacity.shape[0], problem.type_prices.shape, problem.requests.shape[0]) == (0, (0,), 0)
        for name in (
            *("prices", "move_prices", "loads", "free", "room_groups", "requests", "capacity", "type_prices"),
            *("group_free", "host_caps", "required_host_caps", "host_room"),
        ):
            assert getattr(problem, name).dtype == np.int64, name
        for name in ("must_go", "is_spot", "fits", "group_suits"):
            assert getattr(problem, name).dtype == np.bool_, name
        assert set(rows.rooms.groups.tolist()) <= {NO_GROUP}


# New nodes for the pods of drained nodes get cheaper, and keep every pod.


def a_drained_fleet(**changes: Any) -> DrainedFleet[SchedulingResults]:
    """Two nodes go whose pods first fit puts on three new nodes of a dollar, and two would do."""
    old = a_type("old", cpu="16", price=9.0)
    sizes = ("3", "3", "2", "2", "2")
    pods = tuple(pod_on(f"n{n % 2}", f"p{n}", cpu=f"{int(cpu) * 900}m", **changes) for n, cpu in enumerate(sizes))
    pool = a_pool("default", ON_DEMAND, disruption=OPEN)
    snapshot = with_types(
        world(a_node_of(old, "n0"), a_node_of(old, "n1"), pods=pods, node_pools=(pool,)),
        ("small", "4", 0.5),
        ("large", "12", 1.0),
    )
    planner = Planner(snapshot)
    positions = planner.context.positions
    return planner.drained(Drains(leaving=frozenset((positions["n0"], positions["n1"]))))


def test_new_nodes_are_packed_as_long_as_the_budget_lasts() -> None:
    fleet = a_drained_fleet()
    packed = fleet.packed(SearchBudget(20))
    assert packed.plan.cost.hourly <= fleet.results.plan.cost.hourly
    assert packed.displaced == fleet.results.displaced
    assert sorted(pod for claim in packed.plan.claims for pod in claim.pods) == list(packed.displaced)
    assert fleet.packed(SearchBudget(0)) is fleet.results


def test_nodes_are_as_planned_if_that_is_cheaper() -> None:
    fleet = a_drained_fleet()
    whole = [{"p": len(fleet.results.displaced)}]
    regrouped_fleet = fleet.regrouped(whole, lambda _: "p")
    assert regrouped_fleet.plan.cost.hourly <= fleet.results.plan.cost.hourly
    assert fleet.regrouped([], lambda _: "p") is fleet.results


def test_new_nodes_of_a_target_are_packed_by_column_generation_up_to_a_hundred_pods_each() -> None:
    """Thousands of pods on some dozens of machines were packed 2.6 % above their relaxation without it."""
    for way in _ways(DEFAULT_SETTINGS, 500):
        assert way.stages.coarse_pods_per_machine_max == DEFAULT_SETTINGS.target.coarse_pods_per_machine_max == 100


def test_column_generation_also_runs_where_rounding_is_a_percent_above_the_bound() -> None:
    """Targets of 2,000 nodes, rounded to 1.1 % above their relaxation, ended there."""
    for way in _ways(DEFAULT_SETTINGS, 500):
        assert way.stages.coarse_gap_relative == DEFAULT_SETTINGS.target.coarse_gap_relative
        assert way.stages.coarse_gap_relative < DEFAULT_SETTINGS.stages.coarse_gap_relative / 2


def test_new_nodes_of_a_target_are_packed_with_exchanges_and_dives_that_keep_machines() -> None:
    """Plans for waiting pods have neither, nor have small fleets."""
    assert not DEFAULT_SETTINGS.load_exchange.loads
    assert not DEFAULT_SETTINGS.kept_machines.share
    assert not DEFAULT_SETTINGS.master_problem.continues_primal
    few = DEFAULT_SETTINGS.target.improved_loads_nodes_min - 1
    for way in _ways(DEFAULT_SETTINGS, few + 1):
        assert way.load_exchange.loads
        assert way.kept_machines.share
        assert way.master_problem.continues_primal
    for way in _ways(DEFAULT_SETTINGS, few):
        assert not way.load_exchange.loads
        assert not way.kept_machines.share
        assert not way.master_problem.continues_primal


def test_a_restart_takes_nothing_apart_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart searches the problem of a trial, whose claims had been taken apart and whose relaxation had been solved."""
    prepared: list[int] = []
    prepare = relaxation.prepared

    def counted(problem: PackingProblem, settings: SearchSettings) -> PreparedProblem:
        prepared.append(len(problem.counts))
        return prepare(problem, settings)

    monkeypatch.setattr(relaxation, "prepared", counted)
    a_drained_fleet().packed(SearchBudget(20))
    assert len(prepared) == 2  # for the trial, and for the cheapest new nodes


def test_without_hostname_rules_one_model_of_them_is_tried_and_the_nodes_are_those_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both models are the same then: the second trial took a fifth of the search, and found what the first had found."""
    searched: list[int | None] = []
    improved = Repacker.improved

    def counted(self: Repacker, solution: Solution, budget: SearchBudget) -> Solution:
        searched.append(budget.steps_max)
        return improved(self, solution, budget)

    monkeypatch.setattr(Repacker, "improved", counted)
    once = a_drained_fleet().packed(SearchBudget(20))
    assert len(searched) == 3
    monkeypatch.setattr(Subproblem, "models_hostnames", property(lambda _: True, lambda *_: None), raising=False)
    both = a_drained_fleet().packed(SearchBudget(20))
    assert searched[3:] == [searched[0], *searched[:3]]
    assert encode_plan(once.plan) == encode_plan(both.plan)


def test_with_hostname_rules_both_models_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    improved = Repacker.improved

    def counted(self: Repacker, solution: Solution, budget: SearchBudget) -> Solution:
        tried.append(self._settings.repack.hostname_resources_max)
        return improved(self, solution, budget)

    monkeypatch.setattr(Repacker, "improved", counted)
    spread = TopologySpread(labels.HOSTNAME, 1, selector=a_selector(app="web"))
    a_drained_fleet(labels={"app": "web"}, spreads=(spread,)).packed(SearchBudget(20))
    assert 0 in tried[:2]
    assert len(tried) == 4


# Lower bounds on the cost of new nodes.


def test_pods_with_anti_affinity_need_a_node_each() -> None:
    """Otherwise, the bound is too weak to prove that nothing more can be saved."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="own"))
    pods = tuple(a_pod(f"own{i:02}", labels={"app": "own"}, anti_affinity=(apart,)) for i in range(40))
    context, solution = greedily_solved(a_cluster(pods=pods))
    bound = LowerBound(context, RelaxedPods(context, solution, DEFAULT_SETTINGS), DEFAULT_SETTINGS)
    on_demand = (offering for instance_type in instance_types() for offering in instance_type.offerings)
    cheapest = min(offering.price for offering in on_demand if offering.capacity_type == labels.ON_DEMAND)
    assert bound.fluid >= 40 * cheapest * 0.999


def test_whole_loads_prove_more_than_fractions() -> None:
    """Two of these pods never share a node, but fractions of them do. Whole steps of their requests prove the same."""
    pods = tuple(a_pod(f"p{i}", cpu="17", memory="33Gi") for i in range(40))
    context, solution = greedily_solved(a_cluster(pods=pods))
    no_steps = replace(DEFAULT_SETTINGS, stepped_bound=SteppedBoundSettings(requests_max=0))
    bound = LowerBound(context, RelaxedPods(context, solution, no_steps), no_steps)
    cost = sum(claim.price for claim in solution.claims)
    proven = bound.proven(solution.claims, budget=SearchBudget(2_000))
    assert bound.fluid < 0.6 * cost
    assert proven == pytest.approx(cost, rel=2e-3)
    assert proven <= cost
    assert bound.proven(solution.claims, budget=SearchBudget(0)) == bound.fluid
    with_steps = LowerBound(context, RelaxedPods(context, solution, DEFAULT_SETTINGS), DEFAULT_SETTINGS)
    assert with_steps.fluid == pytest.approx(cost, rel=2e-3)
    assert with_steps.fluid <= cost


def test_whole_machines_prove_more_than_parts_of_them() -> None:
    """Three pods that fill one and a half small nodes: whole nodes need no step of the search."""
    pods = tuple(a_pod(f"p{i}", cpu="1", memory="1Gi") for i in range(3))
    context, solution = greedily_solved(a_cluster(pods=pods))
    bound = LowerBound(context, RelaxedPods(context, solution, DEFAULT_SETTINGS), DEFAULT_SETTINGS)
    cost = sum(claim.price for claim in solution.claims)
    assert bound.fluid < bound.proven(solution.claims, budget=SearchBudget(0)) <= cost
    over = SearchBudget(out_of_time=lambda: 1)
    assert bound.proven(solution.claims, budget=over) == bound.fluid
    no_machines = replace(DEFAULT_SETTINGS, whole_machine_bound=WholeMachineBoundSettings(machines_max=0))
    bound = LowerBound(context, RelaxedPods(context, solution, no_machines), no_machines)
    assert bound.proven(solution.claims, budget=SearchBudget(0)) == bound.fluid


def team_cluster(*teams: str, shared: int = 0) -> Snapshot:
    """Pods of each team that only its NodePool takes, and some that any takes."""
    pools = tuple(a_pool(team, Requirement.one_of("team", team), ON_DEMAND) for team in teams)
    sizes = [("1", "7Gi"), ("3", "2Gi"), ("2", "5Gi")]
    pods = tuple(
        a_pod(f"{team}{number}", cpu=cpu, memory=memory, node_selector=(Requirement.one_of("team", team),))
        for team in teams
        for number, (cpu, memory) in enumerate(sizes)
    )
    return a_cluster(node_pools=pools, pods=(*pods, *(a_pod(f"any{number}", cpu="2") for number in range(shared))))


def fluid_bound(snapshot: Snapshot, cells_max: int = DEFAULT_SETTINGS.optimizer.bound_cells_sure) -> int:
    context, solution = greedily_solved(snapshot)
    settings = replace(DEFAULT_SETTINGS, optimizer=replace(DEFAULT_SETTINGS.optimizer, bound_cells_sure=cells_max))
    return LowerBound(context, RelaxedPods(context, solution, settings), settings).fluid


def test_pods_that_share_no_node_pool_are_bounded_apart() -> None:
    """A bound over all NodePools at once takes the square of their number."""
    context, solution = greedily_solved(team_cluster("a", "b", "c"))
    components = RelaxedPods(context, solution, DEFAULT_SETTINGS).components()
    assert [sum(component.counts.values()) for component in components] == [3, 3, 3]
    assert fluid_bound(team_cluster("a", "b", "c")) == 3 * fluid_bound(team_cluster("a"))
    context, solution = greedily_solved(team_cluster("a", "b", shared=1))
    assert len(RelaxedPods(context, solution, DEFAULT_SETTINGS).components()) == 1


def test_equal_offers_of_too_many_node_pools_count_once() -> None:
    """The bound is still one, lower only by what pods of different teams save on one node."""
    apart, merged = (fluid_bound(team_cluster("a", "b", shared=2), cells_max) for cells_max in (10**6, 0))
    assert 0.8 * apart < merged <= apart
    pools = tuple(a_pool(name, ON_DEMAND) for name in ("a", "b"))
    apart, merged = (fluid_bound(a_cluster(node_pools=pools), cells_max) for cells_max in (10**6, 0))
    assert merged == apart
