"""The scheduler's public interface."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from core import labels
from core.codec import encode_plan
from core.model.plan import LAUNCHED, BufferRoom, Plan
from core.model.pod import Owner, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import CapacityBuffer, FeatureGates, Options, Snapshot
from core.model.values.requirements import Requirement
from core.packing.settings import DEFAULT_SETTINGS, SearchBudget
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.scheduling.planner import Planner, default_steps, improved
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, greedy
from tests.unit.scheduling.reading import places, plan_of, zones

# When a greedy plan is searched, and what the search saves.


ROOT = Path(__file__).parents[3]


def test_new_nodes_become_cheaper_and_the_gap_is_known() -> None:
    """The greedy planner chooses the wrong mix of CPU and memory; the gap shows how much it costs."""
    cluster = a_cluster()
    before, after = greedy(cluster), schedule(cluster)
    assert after.cost.hourly < before.cost.hourly * 0.95
    assert after.cost.lower_bound is not None
    assert after.cost.lower_bound <= after.cost.hourly <= after.cost.lower_bound * 1.08
    assert before.cost.lower_bound is None


def test_without_a_bound_the_size_of_the_plan_limits_the_search() -> None:
    """Otherwise, plans in a pull request vary with the speed of the machine."""
    cluster = a_cluster(steps=None)
    plans = {encode_plan(schedule(cluster, clock)) for clock in (lambda: 0.0, iter_clock(0.001), iter_clock(0.003))}
    assert len(plans) == 1
    assert schedule(cluster, lambda: 0.0).cost.hourly < greedy(cluster).cost.hourly


def test_a_plan_whose_bound_nobody_reads_is_the_same_plan() -> None:
    """A simulation of a week reads no bound; its nodes must be those of the functions."""
    proven, unproven = (Planner(a_cluster()).plan(proves=proves) for proves in (True, False))
    assert (proven.claims, proven.bindings) == (unproven.claims, unproven.bindings)
    assert proven.cost.hourly == unproven.cost.hourly
    assert (unproven.cost.lower_bound or 0) < (proven.cost.lower_bound or 0)


def test_a_bound_is_proven_as_well_after_the_launches() -> None:
    """No launch waits for the proof, and what it says is the same."""
    proven, bare = Planner(a_cluster()).plan(), Planner(a_cluster()).bare_plan()
    assert (bare.plan.claims, bare.plan.bindings) == (proven.claims, proven.bindings)
    assert (bare.plan.cost.lower_bound or 0) < (proven.cost.lower_bound or 0)
    assert bare.prove_bound(None) == proven.cost.lower_bound
    assert bare.prove_bound(lambda: 1.0) is not None


def iter_clock(tick: float) -> Callable[[], float]:
    """A clock that advances with each question and never reaches the end."""
    passed = itertools.count()
    return lambda: min(0.99, next(passed) * tick)


def test_a_caller_out_of_time_still_gets_a_complete_plan() -> None:
    """Otherwise, a tight deadline leaves pods without a node."""
    cluster = a_cluster(steps=None)
    plan = schedule(cluster, lambda: True)
    assert sum(len(claim.pods) for claim in plan.claims) == 60
    assert plan.cost.hourly <= greedy(cluster).cost.hourly


def test_two_pods_on_a_node_far_too_large_are_worth_the_solver() -> None:
    """Otherwise, one large GPU machine is launched where two small ones cost a quarter."""
    one_gpu, eight = (
        a_type(f"gpu-{n}", cpu=str(4 * n), memory=f"{16 * n}Gi", price=price, extra={"nvidia.com/gpu": str(n)})
        for n, price in ((1, 0.5), (8, 4.0))
    )
    jobs = tuple(a_pod(f"job{i}", cpu="3", memory="12Gi", extra={"nvidia.com/gpu": "1"}) for i in range(2))
    pool = a_pool("gpu", ON_DEMAND, limits={"nvidia.com/gpu": 8})
    plan = schedule(a_cluster(types=(one_gpu, eight), node_pools=(pool,), pods=jobs))
    assert [claim.instance_types for claim in plan.claims] == [("gpu-1",), ("gpu-1",)]


def test_one_node_never_costs_more_than_a_node_for_each_pod() -> None:
    """If the cost was within a fifth of the arithmetic bound, no search was made."""
    types = (a_type("small", cpu="1", memory="4Gi", price=0.04), a_type("large", cpu="8", memory="32Gi", price=0.23))
    pods = tuple(a_pod(f"p{number}", cpu="1", memory="1Gi") for number in range(5))
    plan = schedule(a_cluster(types=types, node_pools=(a_pool("default", ON_DEMAND),), pods=pods))
    assert plan.cost.hourly == 5 * 40_000_000


def test_a_handful_of_pods_needs_no_solver() -> None:
    """Loading numpy and HiGHS takes longer than planning for one pod, and little can be saved."""
    program = (
        "import sys; from tests.unit.scheduling.test_planner import *\n"
        "for name in [n for n in sys.modules if n.partition('.')[0] in ('numpy', 'highspy')]: sys.modules[name] = None\n"
        "small = tuple(a_pod(f'p{i}', cpu='500m', memory='2Gi') for i in range(3))\n"
        "plan = schedule(a_cluster(pods=small))\n"
        "assert len(plan.claims) == 1 and 0 < plan.cost.lower_bound <= plan.cost.hourly\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)  # noqa: S603 - our own interpreter and program


def test_without_a_budget_nothing_is_searched() -> None:
    """Otherwise, a caller that only asks for a plan waits for the solver."""
    context, solution = greedily_solved(a_cluster())
    for budget in (None, SearchBudget(0)):
        found, cost = improved(context, solution, budget, DEFAULT_SETTINGS)
        assert found is solution
        assert cost.hourly == sum(claim.price for claim in solution.claims)


def test_the_larger_a_plan_the_fewer_steps_it_gets() -> None:
    limits = structs.replace(
        DEFAULT_SETTINGS.optimizer,
        default_steps_offset=10,
        default_steps_machines=1000,
        default_steps_min=7,
        default_steps_per_pool=3,
    )
    settings = structs.replace(DEFAULT_SETTINGS, optimizer=limits)

    def steps(claims: int, pools: int = 1) -> int:
        templates = [SimpleNamespace(index=number) for number in range(pools)]
        return default_steps(
            SimpleNamespace(claims=[SimpleNamespace(template=templates[n % pools]) for n in range(claims)]), settings
        )

    assert [steps(claims) for claims in (0, 1, 90, 132, 133, 999)] == [100, 90, 10, 7, 7, 7]
    assert [steps(999, pools) for pools in (2, 3, 100)] == [7, 9, 300]


def test_the_room_of_a_buffer_is_counted_on_nodes_on_new_ones_and_where_there_is_none() -> None:
    claim, node = a_node_of(a_type("old"))
    buffer = CapacityBuffer(namespace="default", name="spare", pods=4, spec=a_pod(cpu="1500m").spec)
    plan = plan_of(
        types=(a_type("m"),),
        node_pools=(a_pool(limits={"cpu": 6_000}),),
        nodes=(node,),
        node_claims=(claim,),
        buffers=(buffer,),
        options=Options(feature_gates=FeatureGates(capacity_buffer=True)),
        pods=(a_pod("p", cpu="400m"),),
    )
    assert plan.buffers == (BufferRoom("default/spare", on_existing=1, on_new=2, without_room=1),)
    assert sorted(len(claim.buffer_pods) for claim in plan.claims) == [1, 1]
    assert all(claim.pods == () for claim in plan.claims)


SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)
APART = {"labels": {"app": "a"}, "anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="a")),)}


def a_fleet() -> Snapshot:
    """Two nodes, each with a pod that fits beside the other one, and a pod that fits nowhere."""
    (claim, first), (other, second) = a_node_of(SMALL, "n1"), a_node_of(LARGE, "n2")
    pods = (a_pod("a", node_name="n1"), a_pod("b", node_name="n2"), a_pod("huge", cpu="64"))
    return a_snapshot(types=(SMALL, LARGE), nodes=(first, second), node_claims=(claim, other), pods=pods)


def test_a_plan_costs_what_its_claims_cost() -> None:
    """Otherwise, the plan's total is wrong."""
    plan = schedule(a_snapshot(types=(SMALL,), pods=tuple(a_pod(f"p{n}", **APART) for n in range(3))))
    assert plan.cost.hourly == sum(claim.price for claim in plan.claims) == 3 * 40_000_000
    assert [claim.pods for claim in plan.claims] == [("default/p0",), ("default/p1",), ("default/p2",)]


def test_a_what_if_moves_the_pods_of_the_vanished_nodes_alone() -> None:
    """An unknown name is a node that has gone since: nothing depends on it."""
    planner = Planner(a_fleet())
    results = planner.what_if(["n1", "gone"], consolidation=False)
    assert results.displaced == ("default/a",)
    assert [(binding.pod, binding.node) for binding in results.plan.bindings] == [("default/a", "n2")]
    assert planner.what_if(["gone"], consolidation=False).displaced == ()
    closed = planner.what_if(["n1"], consolidation=False, closed=["n2"])
    assert (closed.plan.bindings, [claim.pods for claim in closed.plan.claims]) == ((), [("default/a",)])


def test_reasons_are_given_where_people_can_act_on_them() -> None:
    """Below a price that consolidation chose, a pod without a place is no news to its owner."""
    planner = Planner(a_fleet())
    for quiet in (planner.below(10**9), planner.without_reasons(), planner.pinned(["n1"])):
        (unplaced,) = quiet.results().plan.unschedulable
        assert (unplaced.pod, unplaced.reason, unplaced.message) == ("default/huge", "", "")
    (unplaced,) = planner.results().plan.unschedulable
    assert unplaced.reason == PodReason.NO_OFFERING_FITS
    finding = planner.finding("default/huge")
    assert finding is not None
    assert (finding.reason, finding.message) == (unplaced.reason, unplaced.message)
    assert planner.finding("default/a") is None, "it runs, so nothing is planned for it"


def test_offers_and_plan_speak_of_the_same_pods() -> None:
    planner = Planner(a_fleet())
    assert planner.pods == 1
    assert planner.offers("default/huge") == planner.offers("default/a") == []
    waits = Planner(a_snapshot(types=(SMALL, LARGE), pods=(a_pod("p", cpu="3"),)))
    assert [(offer.price, offer.instance_type) for offer in waits.offers("default/p")] == [(160_000_000, "large")]


def test_without_steps_and_clock_nothing_is_proven_about_the_greedy_plan() -> None:
    snapshot = a_snapshot(types=(SMALL,), pods=(a_pod("p"),))
    assert schedule(snapshot).cost.lower_bound is None
    searched = msgspec.structs.replace(snapshot, options=Options(improve_iterations=10))
    assert schedule(searched).cost.lower_bound is not None


# Pods on nodes that go: those that end keep others away to the last, and those that stay there count until then.


TYPE = a_type("m", cpu="4", zones=ZONES[:2])
WEB, DATA = a_selector(app="web"), a_selector(app="data")
STATEFUL, DAEMON = (Owner(kind, "s", "apps/v1", is_controller=True) for kind in ("StatefulSet", "DaemonSet"))


def apart(key: str, app: str) -> tuple[PodAffinityTerm, ...]:
    """Anti-affinity to the pods of an app."""
    return (PodAffinityTerm(key, a_selector(app=app)),)


def running(name: str, app: str, node: str = "node-1", **changes: Any) -> Pod:
    """A pod that runs on a node."""
    return a_pod(name, labels={"app": app}, node_name=node, phase="Running", **changes)


def planned(*pods: Pod) -> Plan:
    """The plan beside one node that has room for all."""
    claim, node = a_node_of(TYPE)
    return plan_of(types=(TYPE,), pods=pods, nodes=(node,), node_claims=(claim,))


def moved(*pods: Pod, **changes: Any) -> Plan:
    """The plan if `node-1` vanished; `node-2` is in the same zone."""
    pairs = (a_node_of(TYPE), a_node_of(TYPE, "node-2"))
    world = {"nodes": tuple(node for _, node in pairs), "node_claims": tuple(claim for claim, _ in pairs)}
    snapshot = a_snapshot(types=(TYPE,), pods=pods, **world, **changes)
    return Planner(snapshot).what_if(["node-1"], consolidation=False).plan


@pytest.mark.parametrize(
    ("changes", "place"),
    [({}, "new"), ({"deleted_at": NOW}, "new"), ({"phase": "Succeeded"}, "node-1"), ({"phase": "Failed"}, "node-1")],
)
def test_what_a_pod_avoids_stays_away_until_it_is_gone(changes: dict[str, Any], place: str) -> None:
    """Otherwise, a pod is planned for a node to which kube-scheduler does not bind it (Karpenter: ForPodsWithAntiAffinity)."""
    guard = msgspec.structs.replace(running("guard", "data", anti_affinity=apart(labels.HOSTNAME, "web")), **changes)
    found = places(planned(guard, a_pod("w", labels={"app": "web"})))["w"]
    assert (found == "node-1") == (place == "node-1")


@pytest.mark.parametrize(
    ("changes", "place"),
    [({}, "new"), ({"deleted_at": NOW}, "new"), ({"phase": "Succeeded"}, "node-1"), ({"phase": "Failed"}, "node-1")],
)
def test_a_pod_keeps_away_from_another_until_that_is_gone(changes: dict[str, Any], place: str) -> None:
    """kube-scheduler counts a pod that ends until its kubelet is done; Karpenter (IgnoredForTopology) does not."""
    other = msgspec.structs.replace(running("other", "data"), **changes)
    found = places(planned(other, a_pod("w", anti_affinity=apart(labels.HOSTNAME, "data"))))["w"]
    assert (found == "node-1") == (place == "node-1")


def test_a_spread_does_not_count_pods_that_end() -> None:
    """kube-scheduler and Karpenter agree: their successors would be spread away from a zone that is empty."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB)
    ending = tuple(running(f"r{n}", "web", deleted_at=NOW) for n in range(2))
    assert places(planned(*ending, a_pod("w", labels={"app": "web"}, spreads=(spread,))))["w"] == "node-1"


def test_a_pod_that_ends_on_a_node_that_goes_still_holds_its_zone() -> None:
    """Its node's room is lost anyway, but the zone is not free before it is gone."""
    guard = running("guard", "data", anti_affinity=apart(labels.ZONE, "web"), deleted_at=NOW)
    assert zones(moved(guard, running("w", "web"))) == {"w": (ZONES[1],)}


def test_the_successor_of_a_statefulset_s_pod_leaves_with_it() -> None:
    """Its new place is part of the plan, so the zone that it leaves is free for the pods that it avoids."""
    guard = running("guard", "data", owners=(STATEFUL,), anti_affinity=apart(labels.ZONE, "web"), deleted_at=NOW)
    here = Requirement.one_of(labels.ZONE, ZONES[1])
    guard = msgspec.structs.replace(guard, spec=msgspec.structs.replace(guard.spec, node_selector=(here,)))
    plan = moved(guard, a_pod("w", labels={"app": "web"}))
    assert zones(plan) == {"guard": (ZONES[1],)}
    assert places(plan)["w"] == "node-2"


def test_a_daemonset_s_pod_counts_until_its_node_ends() -> None:
    """It is there while the others find their places, and kube-scheduler counts it."""
    guard = running("guard", "data", owners=(DAEMON,), anti_affinity=apart(labels.ZONE, "web"))
    assert zones(moved(guard, running("w", "web"))) == {"w": (ZONES[1],)}
    near = (PodAffinityTerm(labels.ZONE, DATA),)
    assert places(moved(guard, running("p", "other", affinity=near)))["p"] == "node-2"


def test_pods_of_a_vanished_node_count_nowhere() -> None:
    """They are leftovers of the API until garbage collection takes them (Karpenter)."""
    claim, _ = a_node_of(TYPE)
    guard = running("guard", "data", anti_affinity=apart(labels.ZONE, "web"))
    plan = plan_of(
        types=(a_type("m", cpu="4", zones=ZONES[:1]),),
        pods=(guard, a_pod("w", labels={"app": "web"})),
        node_claims=(claim,),
    )
    assert plan.unschedulable == ()


def test_pods_of_a_claim_under_way_count_where_its_node_will_be() -> None:
    """Plans that ignored each other would need a skew that no order of binding can reach."""
    claim, _ = a_node_of(TYPE)
    claim = msgspec.structs.replace(claim, conditions={LAUNCHED: claim.conditions[LAUNCHED]})
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB)
    of_web: dict[str, Any] = {"labels": {"app": "web"}, "spreads": (spread,)}
    pods = (a_pod("expected", node_name="node-1", **of_web), a_pod("w", cpu="3500m", **of_web))
    assert zones(plan_of(types=(TYPE,), pods=pods, node_claims=(claim,)))["w"] == (ZONES[1],)
