"""The judge of large plans accepts the planner's plans and rejects every change for the worse."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import growth
from benchmarks.files import written
from benchmarks.measure import decoded
from benchmarks.workloads.ec2 import ec2_catalogue
from benchmarks.workloads.services import lognormal
from core import labels
from core.model.plan import Plan, PlannedClaim, Unschedulable
from core.model.pod import HostPort, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.scheduling import schedule
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.property.naive.large_plans import large_plan_violations
from tests.property.naive.left_over import violations
from tests.property.packing.clusters import a_plain_cluster

TYPES = (a_type("m5.large", cpu="2", price=0.1), a_type("m5.2xlarge", cpu="8", memory="32Gi", pods="58", price=0.4))
APP = a_selector(app="web")


def some_pods(count: int, **spec: object) -> tuple[Pod, ...]:
    return tuple(a_pod(f"p{n}", cpu="500m", labels={"app": "web"}, **spec) for n in range(count))


def a_world(*pods: Pod, **changes: object) -> Snapshot:
    return a_snapshot(types=TYPES, pods=pods, **changes)


def zone_spread(max_skew: int = 1) -> tuple[TopologySpread, ...]:
    return (TopologySpread(topology_key=labels.ZONE, max_skew=max_skew, selector=APP),)


def with_claim(plan: Plan, number: int, **changes: object) -> Plan:
    claims = list(plan.claims)
    claims[number] = msgspec.structs.replace(claims[number], **changes)
    return msgspec.structs.replace(plan, claims=tuple(claims))


def rules(snapshot: Snapshot, plan: Plan) -> set[str]:
    return {line.partition(":")[0] for line in large_plan_violations(snapshot, plan)}


WORLDS = {
    "plain": a_world(*some_pods(30)),
    "zones": a_world(*some_pods(20, spreads=zone_spread())),
    "hosts": a_world(*some_pods(7, spreads=(TopologySpread(topology_key=labels.HOSTNAME, max_skew=2, selector=APP),))),
    "apart": a_world(*some_pods(6, anti_affinity=(PodAffinityTerm(topology_key=labels.HOSTNAME, selector=APP),))),
    "together": a_world(*some_pods(9, affinity=(PodAffinityTerm(topology_key=labels.ZONE, selector=APP),))),
}


@pytest.mark.parametrize("name", list(WORLDS))
def test_the_planners_plans_are_accepted(name: str) -> None:
    """False alarms on correct plans would hide real faults."""
    assert large_plan_violations(WORLDS[name], schedule(WORLDS[name])) == []


@pytest.mark.parametrize(
    "seed", [*range(40), 43, 55, 108, 147, 157]
)  # DaemonSets' running pods twice; 157: startup taints
def test_it_agrees_with_the_judge_of_small_plans_on_random_clusters(seed: int) -> None:
    """Both check the same rules: if one reports a fault, so must the other, or say that it cannot judge."""
    world = a_plain_cluster(seed, steps=20)
    plan = schedule(world)
    faults = large_plan_violations(world, plan)
    if not any(line.startswith("not judged") for line in faults):
        assert bool(faults) == bool(violations(world, plan))


def _lost(plan: Plan) -> Plan:
    return with_claim(plan, 0, pods=plan.claims[0].pods[1:])


def _twice(plan: Plan) -> Plan:
    return with_claim(plan, 0, pods=(*plan.claims[0].pods, plan.claims[0].pods[0]))


def _merged(plan: Plan) -> Plan:
    """All pods on the first claim."""
    first = msgspec.structs.replace(plan.claims[0], pods=tuple(pod for claim in plan.claims for pod in claim.pods))
    return msgspec.structs.replace(plan, claims=(first,))


def _crowded(plan: Plan) -> Plan:
    """The first claim takes the second one's pods, the others stay as they are."""
    first, second, *others = plan.claims
    both = msgspec.structs.replace(first, pods=(*first.pods, *second.pods))
    return msgspec.structs.replace(plan, claims=(both, *others))


@pytest.mark.parametrize(
    ("world", "change", "rule"),
    [
        ("plain", _lost, "lists"),
        ("plain", _twice, "lists"),
        ("plain", _merged, "room"),
        ("plain", lambda plan: with_claim(plan, 0, price=1), "price"),
        ("plain", lambda plan: with_claim(plan, 0, instance_types=("m5.large",)), "room"),
        ("plain", lambda plan: with_claim(plan, 0, instance_types=()), "offering"),
        ("plain", lambda plan: with_claim(plan, 0, instance_types=("m9.huge",)), "offering"),
        ("plain", lambda plan: with_claim(plan, 0, capacity_types=("reserved",)), "offering"),
        ("plain", lambda plan: with_claim(plan, 0, taints=(Taint("a", "NoSchedule"),)), "taints"),
        ("zones", lambda plan: with_claim(plan, 0, zones=ZONES, requirements=()), "open"),
        ("apart", _merged, "anti-affinity"),
        ("hosts", _crowded, "spread or affinity"),
    ],
)
def test_changes_for_the_worse_are_reported(world: str, change: Callable[[Plan], Plan], rule: str) -> None:
    snapshot = WORLDS[world]
    plan = schedule(snapshot)
    assert rule in rules(snapshot, change(plan))


def _in_zone(claim: PlannedClaim, zone: str) -> PlannedClaim:
    held = tuple(r for r in claim.requirements if r.key != labels.ZONE)
    requirements = (*held, Requirement.one_of(labels.ZONE, zone))
    return msgspec.structs.replace(claim, zones=(zone,), requirements=requirements)


def test_pods_crowded_into_one_of_two_zones_are_reported() -> None:
    """The skew must hold whenever a pod is placed; here no order achieves that."""
    snapshot = WORLDS["zones"]
    plan = schedule(snapshot)
    zones = dict(zip(ZONES, (ZONES[0], ZONES[0], ZONES[1]), strict=True))
    moved = tuple(_in_zone(claim, zones[claim.zones[0]]) for claim in plan.claims)
    assert "spread or affinity" in rules(snapshot, msgspec.structs.replace(plan, claims=moved))


def test_separated_pods_that_must_share_a_zone_are_reported() -> None:
    snapshot = WORLDS["together"]
    plan = schedule(snapshot)
    (claim,) = plan.claims
    halves = [
        _in_zone(msgspec.structs.replace(claim, name=f"half-{n}", pods=pods), ZONES[n])
        for n, pods in enumerate((claim.pods[:4], claim.pods[4:]))
    ]
    assert "spread or affinity" in rules(snapshot, msgspec.structs.replace(plan, claims=tuple(halves)))


@pytest.mark.parametrize(("app", "broken"), [("web", set()), ("other", {"spread or affinity"})])
def test_pods_without_rules_may_be_placed_before_those_with_rules(app: str, broken: set[str]) -> None:
    """Two pods of a spread may share a zone once other pods count in the other zones: only in that order."""
    owners = some_pods(2, spreads=zone_spread())
    free = [a_pod(f"f{n}", cpu="500m", labels={"app": label}) for n, label in enumerate(("web", app))]
    (claim,) = schedule(a_world(owners[0])).claims
    crews = (owners, free[:1], free[1:])
    claims = tuple(
        _in_zone(msgspec.structs.replace(claim, name=f"c{n}", pods=tuple(pod.key for pod in crew)), ZONES[n])
        for n, crew in enumerate(crews)
    )
    snapshot = a_world(*owners, *free)
    assert rules(snapshot, Plan(now=snapshot.now, claims=claims)) == broken


def test_pods_on_one_host_are_placed_in_the_only_order_that_works() -> None:
    """Each looks for the other's label; pods that both count must come after the pods that own the rules."""

    def rule(app: str) -> tuple[TopologySpread, ...]:
        return (TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=a_selector(app=app)),)

    pairs = [("d", "b"), ("d", "g"), ("g", "b"), ("g", "d")]
    pods = [a_pod(f"{n}", cpu="100m", labels={"app": app}, spreads=rule(other)) for n, (app, other) in enumerate(pairs)]
    snapshot = a_world(*pods, a_pod("elsewhere", cpu="100m"))
    (claim,) = schedule(a_world(pods[0])).claims
    here = msgspec.structs.replace(claim, pods=tuple(pod.key for pod in pods))
    there = msgspec.structs.replace(claim, name="other", pods=("default/elsewhere",))
    assert rules(snapshot, Plan(now=snapshot.now, claims=(here, there))) == set()


def test_a_pod_may_not_be_where_its_selector_forbids() -> None:
    picky = a_pod("picky", node_selector=(Requirement.one_of(labels.ARCH, "arm64"),))
    snapshot = a_world(picky)
    plan = schedule(a_world(a_pod("picky")))
    assert "selector" in rules(snapshot, plan)


def test_running_pods_use_room_and_count() -> None:
    """A node is as full as its pods make it, planned or not."""
    claim, node = a_node_of(TYPES[0])
    running = a_pod("old", cpu="1500m", node_name=node.name, phase="Running")
    pods = (a_pod("new", cpu="1"), running)
    snapshot = a_world(*pods, nodes=(node,), node_claims=(claim,))
    empty = a_world(pods[0], nodes=(node,), node_claims=(claim,))
    plan = schedule(empty)
    assert plan.bindings
    assert large_plan_violations(empty, plan) == []
    assert "room" in rules(snapshot, plan)


@pytest.mark.parametrize(
    "world",
    [
        a_world(a_pod("p", host_ports=(HostPort(80),))),
        a_world(a_pod("p"), node_pools=(a_pool(limits={"cpu": 100_000}),)),
        a_world(a_pod("p"), marked_for_deletion=("c",)),
    ],
)
def test_rules_that_it_does_not_support_are_not_accepted(world: Snapshot) -> None:
    """The table must not show a plan as checked that nothing has checked."""
    assert rules(world, schedule(world)) == {"not judged"}


@pytest.mark.parametrize("name", list(WORLDS))
def test_a_plan_that_places_no_pod_is_wrong(name: str) -> None:
    """It costs nothing, so it would be the best plan of all."""
    snapshot = WORLDS[name]
    assert rules(snapshot, _without(Plan(now=snapshot.now), *snapshot.pods)) == {"left"}


@pytest.mark.parametrize("name", list(WORLDS))
def test_a_plan_that_leaves_out_its_last_node_is_wrong(name: str) -> None:
    snapshot = WORLDS[name]
    plan = schedule(snapshot)
    last = [pod for pod in snapshot.pods if pod.key in plan.claims[-1].pods]
    assert rules(snapshot, _without(msgspec.structs.replace(plan, claims=plan.claims[:-1]), *last)) == {"left"}


def _without(plan: Plan, *pods: Pod) -> Plan:
    """The plan, which gives these pods up."""
    unplaced = tuple(Unschedulable(pod.key, "NoCapacity", "sorry") for pod in pods)
    return msgspec.structs.replace(plan, unschedulable=unplaced)


ONE_A_ZONE = {"anti_affinity": (PodAffinityTerm(topology_key=labels.ZONE, selector=APP),)}
AROUND_NOBODY = {"affinity": (PodAffinityTerm(topology_key=labels.ZONE, selector=a_selector(app="absent")),)}


@pytest.mark.parametrize(("rule", "unplaced_count"), [(ONE_A_ZONE, 1), (AROUND_NOBODY, 4)], ids=["apart", "alone"])
def test_pods_whose_rules_allow_no_further_node_may_be_left_over(rule: dict[str, Any], unplaced_count: int) -> None:
    """Four pods, of which each wants a zone for itself, have three zones."""
    snapshot = a_world(*some_pods(len(ZONES) + 1, **rule))
    plan = schedule(snapshot)
    assert len(plan.unschedulable) == unplaced_count
    assert large_plan_violations(snapshot, plan) == []


def test_a_pod_that_fits_nowhere_may_be_left_over() -> None:
    snapshot = a_world(a_pod("huge", cpu="9"))
    plan = schedule(snapshot)
    assert [entry.pod for entry in plan.unschedulable] == ["default/huge"]
    assert large_plan_violations(snapshot, plan) == []


@pytest.mark.ci
def test_growth_is_the_power_by_which_time_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong exponent would hide a planner that takes four times as long for twice the pods."""
    assert [round(growth.exponent([(n, 0.2 * n**power) for n in (10, 20, 80)]), 6) for power in (0, 1, 2)] == [0, 1, 2]
    axis = growth.Axis(name="pools", sizes=(1, 2), make=lambda pools, _: growth.pools_of_teams(pools, 20))
    monkeypatch.setattr(growth, "AXES", (axis,))
    monkeypatch.setattr(sys, "argv", ["growth", f"--json={tmp_path / 'growth.json'}"])
    growth.main()
    written = json.loads((tmp_path / "growth.json").read_text())
    assert [(row["size"], row["plan"], row["cost"] > 0) for row in written["runs"]] == [
        (size, plan, True) for size in (1, 2) for plan in ("greedy", "search")
    ]
    assert set(written["exponents"]) == {"pools greedy", "pools search"}
    assert (tmp_path / "growth.svg").read_text().startswith("<?xml")


def test_growth_keeps_what_was_measured_before_a_size_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour of measurements is lost otherwise, and a size that never ends would look like one that was not asked for."""
    seconds = {("pods", 10): 0.1, ("pods", 20): 0.2, ("types", 1): 0.1, ("types", 4): 0.1 * 4**1.2}

    def measured_apart(axis: growth.Axis, size: int, _: Path) -> list[dict[str, Any]]:
        took = seconds.get((axis.name, size))
        row = {"axis": axis.name, "size": size, "plan": "search", "seconds": took, "cost": 10**9}
        return [] if took is None else [row]

    def growing(name: str, *sizes: int) -> growth.Axis:
        return growth.Axis(name=name, sizes=sizes, make=lambda _, __: pytest.fail("made here"))

    monkeypatch.setattr(growth, "_measured_apart", measured_apart)
    monkeypatch.setattr(growth, "AXES", (growing("pods", 10, 20, 40, 80), growing("types", 1, 4)))
    record = tmp_path / "growth.json"
    for only, code, stopped, exponents in (
        ("pods,types", 1, ["pods 40"], {"pods search": 1.0, "types search": 1.2}),
        ("types", 1, [], {"types search": 1.2}),
    ):
        monkeypatch.setattr(sys, "argv", ["growth", f"--only={only}", f"--json={record}"])
        assert growth.main() == code
        written = json.loads(record.read_text())
        assert written["stopped"] == stopped
        assert {series: round(value, 6) for series, value in written["exponents"].items()} == exponents
        assert ("pods          40 stopped" in capsys.readouterr().out) is bool(stopped)
    seconds["types", 4] = 0.4
    assert growth.main() == 0


def test_a_size_that_ends_without_figures_counts_as_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is ended by the limit of processor time and writes nothing."""
    commands: list[list[str]] = []
    monkeypatch.setattr(growth.subprocess, "run", lambda command, **_: commands.append(command))
    axis = growth.Axis(name="pools", sizes=(3,), make=lambda pools, _: growth.pools_of_teams(pools, 20))
    assert growth._measured_apart(axis, 3, Path("data")) == []
    assert commands[0][1:7] == ["-m", "benchmarks.growth", "--only", "pools", "--size", "3"]


@pytest.mark.ci
def test_a_plan_of_few_machines_is_proven_to_be_the_minimum(tmp_path: Path) -> None:
    """Seven machines for 1,000 pods: the fluid bound is 1.7 % too low, since it buys parts of machines."""
    workload = lognormal(1_000, 77, ec2_catalogue(tmp_path))
    cost = schedule(decoded(written(workload, tmp_path)), lambda: 0.0).cost
    assert cost.lower_bound is not None
    assert cost.hourly <= cost.lower_bound * 1.0005
