"""Plans stay within the free addresses of subnets: EC2 refuses no launch, and pods without a place get an event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from cli.__main__ import main
from core import labels
from core.model.values.quantity import HOURLY, MEMORY
from core.model.values.quotas import STANDARD
from core.reasons.pods import PodReason
from simulator.market import node_facts
from simulator.world import Result, run
from tests.builders import a_class_manifest
from tests.simulation.test_node_claims import BY_HAND
from tests.simulation.worlds import (
    ZONES,
    assert_lawful,
    deployment,
    group,
    happened,
    large_nodes,
    lifetimes,
    named,
    node_pool,
    play,
    write,
)

# Limits in dollars an hour, of a NodePool or shared by several, are never overshot.
#
# Not by bursts, launches under way, replacements, or several runs.


CAP = 0.5
"""Dollars an hour: five nodes of `test.small` on demand, at most."""


def highest_cost(result: Result, rises: Mapping[int, float] = {}) -> float:
    """Return the most that running instances cost an hour when one is launched, from the world's own record.

    `rises`: minute of the world → the factor by which spot prices rise then, also those of running instances.
    """
    prices: dict[str, float] = {}
    spot, most, due = set[str](), 0.0, sorted(rises.items())
    start = datetime.fromisoformat(result.events[0].t)
    for event in result.events:
        while due and datetime.fromisoformat(event.t) - start >= timedelta(minutes=due[0][0]):
            _, factor = due.pop(0)
            prices |= {name: prices[name] * factor for name in spot & prices.keys()}
        if event.event == "instanceLaunched":
            prices[event.fields["instance"]] = event.fields["price"]
            spot |= {event.fields["instance"]} if event.fields["capacityType"] == labels.SPOT else set()
            most = max(most, sum(prices.values()))
        elif event.event == "instanceTerminated":
            prices.pop(event.fields["instance"], None)
    return most


def capped() -> dict[str, Any]:
    return node_pool(limits={HOURLY: str(CAP)})


def sharing() -> tuple[dict[str, Any], ...]:
    """Two NodePools that together may cost as much as `capped`; each launches one workload's nodes in a zone of its own."""
    pools = []
    for name, zone in (("default", "zone-a"), ("other", "zone-b")):
        pool = node_pool()
        pool["metadata"] = {"name": name, "annotations": {labels.SHARED_LIMITS: f"all:dollars-per-hour={CAP}"}}
        zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        pool["spec"]["template"]["spec"]["requirements"].append(zones)
        pools.append(pool)
    return tuple(pools)


def troubled_bursts(seed: int) -> list[dict[str, Any]]:
    """Steps that scale two workloads at random, with lost replies, repeated events and interruptions."""
    rng = Random(seed)  # noqa: S311 - repeatable, not secret
    steps: list[dict[str, Any]] = []
    for minute in range(2, 22, 3):
        target = {"kind": "Deployment", "name": rng.choice(("web", "api")), "replicas": rng.randint(0, 14)}
        steps.append({"at": f"{minute}m", "scale": target})
    steps.append({"at": "7m", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 2}})
    steps.append({"at": "9m", "events": {"kind": "duplicate", "count": 6}})
    steps.append({"at": "12m", "interrupt": {"zone": "zone-a", "fraction": 0.5}})
    steps.sort(key=lambda step: int(step["at"].removesuffix("m")))
    return steps


@pytest.mark.ci
@pytest.mark.parametrize("pools", [(capped(),), sharing()], ids=["one", "shared"])
@pytest.mark.parametrize("seed", range(2))
def test_the_limit_is_never_overshot(seed: int, pools: tuple[dict[str, Any], ...], tmp_path: Path) -> None:
    """Bursts, changes and lost messages at random; prices count at their worst until a claim is launched."""
    steps = troubled_bursts(seed)
    workloads = [deployment(6, name) for name in ("web", "api")]
    if len(pools) > 1:
        for workload, zone in zip(workloads, ("zone-a", "zone-b"), strict=True):
            workload["spec"]["template"]["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": zone}
    result = play(tmp_path, *pools, *workloads, steps=steps, duration="26m", seed=seed, nodeBootSeconds=30)
    assert 0 < highest_cost(result) <= CAP + 1e-9
    assert_lawful(result)


@pytest.mark.ci
@pytest.mark.parametrize("seed", [0, 2])
def test_spot_nodes_count_at_the_price_of_now(seed: int, tmp_path: Path) -> None:
    """Nothing is evicted when prices rise, but what is launched afterwards finds less room."""
    rises = {6: 2.0, 13: 1.5}
    prices = [{"at": f"{at}m", "price": {"capacityType": "spot", "factor": rise}} for at, rise in rises.items()]
    steps = sorted((*troubled_bursts(seed), *prices), key=lambda step: int(step["at"].removesuffix("m")))
    workloads = [deployment(6, name) for name in ("web", "api")]
    result = play(tmp_path, capped(), *workloads, steps=steps, duration="26m", seed=seed, nodeBootSeconds=30)
    assert 0 < highest_cost(result, rises) <= CAP + 1e-9
    assert_lawful(result)


def test_pods_beyond_the_limit_are_told_which_one_and_what_would_free_it(tmp_path: Path) -> None:
    result = play(tmp_path, capped(), deployment(40), duration="6m", nodeBootSeconds=30)
    assert result.summary["podsPending"] > 0
    assert result.summary["podsUnschedulable"].get("BudgetExhausted") == result.summary["podsPending"]
    events = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    told = [message for message in events if message.startswith("BudgetExhausted")]
    assert told
    assert f"its limit {HOURLY} leaves" in told[0]
    assert "a node comes once others that cost" in told[0]
    assert highest_cost(result) <= CAP + 1e-9


# Caps of Calendars count nodes by the pods that they are launched for, and are never overshot either.


CAP_OF_WEB = 0.45
"""Dollars an hour: two nodes of `test.medium` on demand, at most."""


def _capping(**limits: str) -> dict[str, Any]:
    """A cap on the nodes for the pods of `web`, and a looser one on those of the whole namespace."""
    caps = [
        {"name": "web", "pods": {"matchLabels": {"app": "web"}}, "limits": limits},
        {"name": "all", "pods": {"namespaces": ["default"]}, "limits": {"dollars-per-hour": str(2 * CAP_OF_WEB)}},
    ]
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "costs"},
        "spec": {"caps": caps},
    }


def _charged(result: Result, cap: str) -> list[tuple[datetime, float]]:
    """Return what a cap counted of running instances an hour from each moment on, at the world's prices.

    An instance counts with the share that its NodeClaim names: of an instance without a node, that of the claim in its tags.
    """
    shares: dict[str, int] = {}
    for fields in named(result, "objectApplied"):
        if fields["kind"] == "NodeClaim":
            written = fields["object"]["metadata"].get("annotations", {}).get(labels.CHARGED_TO, "")
            shares |= {fields["name"]: int(dict(entry.split("=") for entry in written.split()).get(cap, 0))}
    claims: dict[str, str] = {}
    for event in result.events:
        if event.event in ("instanceLaunched", "instanceTagged"):
            claims[event.fields["instance"]] = event.fields["tags"][labels.NODECLAIM]
    costs: dict[str, float] = {}
    hourly: list[tuple[datetime, float]] = []
    for event in result.events:
        if event.event == "instanceLaunched":
            share = shares.get(claims[event.fields["instance"]], 1_000_000)
            costs[event.fields["instance"]] = event.fields["price"] * share / 1_000_000
        elif event.event == "instanceTerminated":
            costs.pop(event.fields["instance"], None)
        hourly.append((datetime.fromisoformat(event.t), sum(costs.values())))
    return hourly


def _most_charged(result: Result, cap: str) -> float:
    return max(hourly for _, hourly in _charged(result, cap))


def _spent(result: Result, cap: str) -> float:
    charged = _charged(result, cap)
    return sum(hourly * ((end - begin) / timedelta(hours=1)) for (begin, hourly), (end, _) in pairwise(charged))


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(4))
def test_a_cap_on_a_teams_nodes_is_never_overshot(seed: int, tmp_path: Path) -> None:
    """Bursts, lost replies, interruptions and two runs at once; pods of others get their nodes meanwhile."""
    steps = troubled_bursts(seed)
    workloads = [deployment(6, name) for name in ("web", "api")]
    capping = _capping(**{"dollars-per-hour": str(CAP_OF_WEB)})
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand"]
    result = play(tmp_path, pool, capping, *workloads, steps=steps, duration="26m", seed=seed, nodeBootSeconds=30)
    assert 0 < _most_charged(result, "costs/web") <= CAP_OF_WEB + 1e-9
    assert _most_charged(result, "costs/all") <= 2 * CAP_OF_WEB + 1e-9
    assert_lawful(result)


def test_replacements_wait_until_a_cap_has_room_beside_the_nodes_that_they_replace(tmp_path: Path) -> None:
    """Both cost until the old node is gone: a rollout was begun in vain, and stopped for half an hour."""

    def a_cap(dollars: float) -> dict[str, Any]:
        capping = _capping(**{"dollars-per-hour": str(dollars)})
        capping["spec"]["caps"] = [{"name": "all", "limits": {"dollars-per-hour": str(dollars)}}]
        return capping

    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand"]
    steps = [
        {"at": "8m", "ami": {"alias": "al2023@latest", "id": "ami-999"}},
        {"at": "16m", "apply": [a_cap(2 * CAP)]},
    ]
    result = play(tmp_path, pool, a_cap(CAP), deployment(7), steps=steps, duration="26m", nodeBootSeconds=30)
    assert [decision for decision in result.decisions if decision["reason"] == "RolloutStopped"] == []
    raised = datetime.fromisoformat(result.events[0].t) + timedelta(minutes=16)
    launched = [datetime.fromisoformat(event.t) for event in happened(result, "instanceLaunched")]
    assert sum(moment > raised for moment in launched) == sum(moment < raised for moment in launched) == 3
    assert highest_cost(result) <= 2 * CAP + 1e-9
    assert_lawful(result)


DAY_OF_WEB = 0.12
"""Dollars, which a world of 26 minutes could spend twice."""


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(4))
def test_a_cap_on_what_a_team_spends_a_day_is_never_overshot(seed: int, tmp_path: Path) -> None:
    """Launches are paid for until the end of the world, so whatever troubles it, it ends within the day's amount."""
    steps = troubled_bursts(seed)
    capping = _capping(**{"dollars-per-day": str(DAY_OF_WEB)})
    capping["spec"]["caps"][0]["countAhead"] = "26m"
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand"]
    workloads = [deployment(6, name) for name in ("web", "api")]
    result = play(tmp_path, pool, capping, *workloads, steps=steps, duration="26m", seed=seed, nodeBootSeconds=30)
    assert DAY_OF_WEB / 2 < _spent(result, "costs/web") <= DAY_OF_WEB
    messages = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    assert any(f"of ${DAY_OF_WEB} a day are spent" in message for message in messages), set(messages)
    assert_lawful(result)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"dollars-per-hour": str(CAP_OF_WEB)}, "its limit fleetwright.dev/dollars-per-hour leaves $"),
        ({"nodes": "1"}, "its limit nodes leaves 0 of 1"),
        ({"cpu": "4"}, "its limit cpu leaves"),
    ],
)
def test_pods_beyond_a_cap_are_told_which_one_and_others_are_not_held_back(
    limits: dict[str, str], told: str, tmp_path: Path
) -> None:
    result = play(
        tmp_path,
        node_pool(),
        _capping(**limits),
        deployment(40),
        deployment(6, "api"),
        duration="6m",
        nodeBootSeconds=30,
    )
    assert 0 < result.summary["podsPending"] < 40
    assert result.summary["podsUnschedulable"] == {"BudgetExhausted": result.summary["podsPending"]}
    messages = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    assert any(message.startswith(f"BudgetExhausted: cap costs/web: {told}") for message in messages), set(messages)
    bound = {fields["pod"].rpartition("/")[2].partition("-")[0] for fields in named(result, "podBound")}
    assert bound == {"web", "api"}
    assert_lawful(result)


# Pods that may wait get their nodes in time for their deadline, and none before.


def _waiting_jobs(replicas: int, **annotations: str) -> dict[str, Any]:
    jobs = deployment(replicas, "jobs")
    jobs["spec"]["template"]["metadata"]["annotations"] = {labels.START_BEFORE: "45m", **annotations}
    return jobs


def _minutes(result: Result, event: str) -> list[float]:
    """Return when the events of this name happened, in minutes from the start."""
    start = datetime.fromisoformat(result.events[0].t)
    return [
        (datetime.fromisoformat(occurrence.t) - start) / timedelta(minutes=1) for occurrence in happened(result, event)
    ]


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(3))
def test_pods_that_may_wait_start_before_their_deadline_although_launches_fail(seed: int, tmp_path: Path) -> None:
    """An instance does not join, replies are lost, EC2 has no capacity at first; nothing is bought half an hour too early."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand"]
    steps: list[dict[str, Any]] = [
        {"at": "10m", "capacity": {"zone": "zone-a", "available": 0}},
        {"at": "12m", "boot": {"fail": 1}},
        {"at": "13m", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 1}},
        {"at": "20m", "capacity": {"available": None}},
    ]
    result = play(tmp_path, pool, _waiting_jobs(4), steps=steps, duration="46m", seed=seed, nodeBootSeconds=60)
    launched, bound = _minutes(result, "instanceLaunched"), _minutes(result, "podBound")
    assert min(launched) >= 15
    assert len(bound) == 4
    assert max(bound) <= 45
    assert result.summary["podsPending"] == 0
    messages = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    assert any(message.startswith("HeldBack: it may wait") for message in messages)
    assert_lawful(result)


def test_pods_that_may_wait_take_spot_nodes_at_once_and_room_that_others_leave(tmp_path: Path) -> None:
    result = play(tmp_path, node_pool(), _waiting_jobs(4), duration="10m", nodeBootSeconds=30)
    assert {fields["capacityType"] for fields in named(result, "instanceLaunched")} == {"spot"}
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


def test_jobs_that_wait_for_room_cost_less_than_at_once(tmp_path: Path) -> None:
    """The room that a scaled-in Deployment leaves for a while is enough for them."""
    pool = node_pool(disruption={"consolidateAfter": "20m"})
    steps = [{"at": "5m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}}]
    costs = {}
    for name in ("at-once", "waiting"):
        jobs = _waiting_jobs(4, **{labels.WAITS_FOR: "room"})
        if name == "at-once":
            del jobs["spec"]["template"]["metadata"]["annotations"]
        folder = tmp_path / name
        folder.mkdir()
        result = play(folder, pool, deployment(6), jobs, steps=steps, duration="40m", nodeBootSeconds=30)
        assert result.summary["podsPending"] == 0
        assert_lawful(result)
        costs[name] = result.summary["dollars"]
    assert costs["waiting"] < 0.8 * costs["at-once"], costs


# Plans stay within EC2's vCPU quotas, so EC2 has nothing to refuse, and whoever waits is told the code.


def _fleet_calls(result: Result) -> int:
    return sum(call["call"] == "ec2:CreateFleet" for call in named(result, "call"))


def _pod_messages(result: Result) -> str:
    objects = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    return " ".join(o["message"] for o in objects if o["involvedObject"]["kind"] == "Pod")


def _play(tmp_path: Path, quotas: dict[str, int], *capacity_types: str) -> Result:
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = list(capacity_types)
    return play(tmp_path, pool, deployment(24, cpu="900m"), vcpuQuotas=quotas)


def test_pods_beyond_the_quota_wait_and_ec2_is_not_asked_for_them(tmp_path: Path) -> None:
    """A refusal would be remembered against everything that shares the quota."""
    result = _play(tmp_path, {STANDARD.on_demand: 16}, "on-demand")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert 0 < result.summary["podsPending"] <= 24 - 16
    assert _fleet_calls(result) < 12
    assert STANDARD.on_demand in _pod_messages(result)
    assert result.summary["podsUnschedulable"] == {PodReason.QUOTA_REACHED: result.summary["podsPending"]}


def test_on_demand_capacity_is_bought_where_the_spot_quota_is_spent(tmp_path: Path) -> None:
    """It costs more, but the pods run."""
    result = _play(tmp_path, {STANDARD.spot: 8, STANDARD.on_demand: 64}, "spot", "on-demand")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert result.summary["podsPending"] == 0


def _free(zone: str, addresses: int, number: int = 1) -> dict[str, Any]:
    return {"at": "0s", "subnet": {"zone": zone, "number": number, "freeAddresses": addresses}}


def _play_with_addresses(tmp_path: Path, **free: int) -> Result:
    """Pods of which each needs a node of its own, under subnets with so many addresses."""
    steps = [_free(f"zone-{zone}", addresses) for zone, addresses in free.items()]
    return play(tmp_path, node_pool(), deployment(9, cpu="12"), steps=steps, duration="6m")


def test_pods_beyond_the_last_address_wait_and_are_told(tmp_path: Path) -> None:
    """Nobody asks EC2 for them."""
    result = _play_with_addresses(tmp_path, a=3, b=2)
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert Counter(event["zone"] for event in named(result, "instanceLaunched")) == {"zone-a": 3, "zone-b": 2}
    assert result.summary["podsUnschedulable"] == {PodReason.NO_FREE_ADDRESS: 4}
    events = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    assert "has the free addresses" in " ".join(o["message"] for o in events if o["involvedObject"]["kind"] == "Pod")


def test_a_burst_uses_all_subnets_of_a_zone_at_once(tmp_path: Path) -> None:
    """One subnet of each zone was asked for all of it, and closed for minutes when it refused."""
    free = {"zone-a": (3, 4), "zone-b": (2, 3)}
    steps = [_free(zone, count, n) for zone, counts in free.items() for n, count in enumerate(counts, start=1)]
    result = play(tmp_path, node_pool(), deployment(12, cpu="12"), steps=steps, duration="6m")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    launched = happened(result, "instanceLaunched")
    assert len(launched) == 12
    first, *_, last = (datetime.fromisoformat(launch.t) for launch in launched)
    assert last - first < timedelta(seconds=30), "in one round"
    assert result.summary["podsPending"] == 0


def test_addresses_that_come_free_are_used(tmp_path: Path) -> None:
    """By the next reading at the latest."""
    later = {"at": "3m", "subnet": {"zone": "zone-a", "freeAddresses": 50}}
    steps = [_free("zone-a", 1), _free("zone-b", 1), later]
    result = play(tmp_path, node_pool(), deployment(5, cpu="12"), steps=steps, duration="12m")
    assert_lawful(result)
    assert result.summary["podsPending"] == 0
    assert not named(result, "launchRefused")


def test_a_hand_made_node_claim_waits_for_an_address(tmp_path: Path) -> None:
    """EC2 refused it, and closed the subnet with that."""
    steps = [
        *(_free(f"zone-{zone}", 0) for zone in "abc"),
        {"at": "2m", "apply": [BY_HAND]},
        {"at": "8m", "subnet": {"zone": "zone-b", "freeAddresses": 4}},
    ]
    result = play(tmp_path, node_pool(), steps=steps, duration="20m")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert [event["zone"] for event in named(result, "instanceLaunched")] == ["zone-b"]
    written = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "NodeClaim"]
    told = {c["message"] for obj in written for c in (obj.get("status") or {}).get("conditions", ())}
    assert any("has the free addresses that its node takes" in message for message in told)


# A class that says that its nodes get prefixes of addresses has nodes whose kubelets admit as many pods as were planned.


@pytest.mark.parametrize(("says", "nodes"), [("true", 1), ("false", 3)])
def test_many_small_pods_share_a_node_with_prefixes(says: str, nodes: int, tmp_path: Path) -> None:
    """Without, each m5.large is full at 29 pods, of which the planner knows: 80 pods take three nodes instead of one."""
    node_class = a_class_manifest(metadata={"annotations": {"fleetwright.dev/prefix-delegation": says}})
    pool = node_pool(disruption={"consolidateAfter": "Never"})
    large = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    pool["spec"]["template"]["spec"]["requirements"].append(large)
    pods = deployment(80, cpu="10m")
    pods["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "32Mi"
    result = play(tmp_path, node_class, pool, pods, catalog=None, duration="8m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 80
    assert result.summary["nodesAtEnd"] == nodes


# Memory that the first node of a type shows is what later nodes of the type are planned with.


MIB = 2**20
SHOWN = 7900 * MIB
"""Of an m5.large, which is sold with 8192 MiB and estimated at 7577: 7226 MiB of it are for pods, not 6903."""


def wanting(name: str, memory: str) -> dict[str, Any]:
    """One pod with this request."""
    pod = deployment(1, name=name, cpu="1")
    pod["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    return pod


def test_a_second_node_is_planned_with_what_the_first_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the estimate, the second pod would need the next size, at twice the price."""
    facts = node_facts.recording()["m5.large"]
    shown = msgspec.structs.replace(facts, capacity={**facts.capacity, MEMORY: SHOWN})
    monkeypatch.setattr(node_facts, "recording", lambda: {**_RECORDED, "m5.large": shown})
    pool = node_pool(disruption={"consolidateAfter": "Never"})
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]}
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    pool["spec"]["template"]["spec"]["requirements"] = [types, on_demand]
    steps = [{"at": "6m", "apply": [wanting("second", "7100Mi")]}]
    result = play(tmp_path, pool, wanting("first", "5Gi"), steps=steps, catalog=None, duration="12m")
    assert_lawful(result)
    assert [event["instanceType"] for event in named(result, "instanceLaunched")] == ["m5.large", "m5.large"]
    assert result.summary["podsScheduled"] == 2
    writes = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "EC2NodeClass"]
    texts = [write["metadata"].get("annotations", {}).get("fleetwright.dev/node-memory") for write in writes]
    assert {text.partition('"mib":')[2] for text in texts if text} == {'{"m5.large":7900}}'}


_RECORDED = node_facts.recording()


# Placement groups through the real handlers: resolved, told, launched into, and their partitions on nodes.


PARTITIONS = {"1", "2", "3"}


def play_in_ec2(folder: Path, group: str, pods: dict[str, Any]) -> Result:
    """Play with EC2's own types: only those know which groups they may be in."""
    pool = node_pool()
    family = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "t3"]}
    pool["spec"]["template"]["spec"]["requirements"].append(family)
    node_class = a_class_manifest(placementGroupSelector={"name": group})
    path = write(folder, node_class, pool, pods, steps=[], duration="8m")
    scenario = yaml.safe_load(path.read_text())
    del scenario["spec"]["catalog"]
    path.write_text(yaml.safe_dump(scenario))
    return run(path)


def spread(pods: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with its pods spread over partitions."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": labels.PLACEMENT_GROUP_PARTITION,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": pods["spec"]["selector"],
    }
    pods["spec"]["template"]["spec"]["topologySpreadConstraints"] = [constraint]
    return pods


def last(result: Result, kind: str) -> dict[str, Any]:
    obj: dict[str, Any] = [o["object"] for o in named(result, "objectApplied") if o["kind"] == kind][-1]
    return obj


def conditions(result: Result) -> dict[str, dict[str, Any]]:
    return {c["type"]: c for c in last(result, "EC2NodeClass")["status"]["conditions"]}


def partitions(result: Result) -> list[str]:
    """The partitions of all nodes that were opened."""
    nodes = {
        o["name"]: o["object"]["metadata"]["labels"] for o in named(result, "objectApplied") if o["kind"] == "Node"
    }
    return sorted(node[labels.PLACEMENT_GROUP_PARTITION] for node in nodes.values())


def test_pods_are_spread_over_the_partitions_of_a_group(tmp_path: Path) -> None:
    """Racks of EC2 fail one at a time; what is spread over partitions survives that."""
    result = play_in_ec2(tmp_path, "partition", spread(deployment(3)))
    assert_lawful(result)
    assert set(partitions(result)) == PARTITIONS
    assert result.summary["podsScheduled"] == 3
    assert conditions(result)["PlacementGroupReady"]["status"] == "True"


def test_only_types_of_the_groups_strategy_are_launched(tmp_path: Path) -> None:
    """EC2 refuses a burstable type in a cluster group, and each refusal pauses the class."""
    result = play_in_ec2(tmp_path, "cluster", deployment(2))
    assert_lawful(result)
    assert {event["instanceType"].partition(".")[0] for event in named(result, "instanceLaunched")} == {"m5"}


@pytest.mark.parametrize(("group", "message"), [("typo", "does not exist"), ("gone", "deleting, not available")])
def test_a_class_whose_group_is_not_there_says_so_and_launches_nothing(
    group: str, message: str, tmp_path: Path
) -> None:
    """Each launch was denied, and asked for again after each pause."""
    result = play_in_ec2(tmp_path, group, deployment(2))
    assert_lawful(result)
    by_type = conditions(result)
    assert by_type["PlacementGroupReady"]["reason"] == "PlacementGroupNotFound"
    assert message in by_type["PlacementGroupReady"]["message"]
    assert by_type["Ready"]["status"] == "False"
    assert [call for call in named(result, "call") if call["call"] == "ec2:CreateFleet"] == []


# A NodePool that is only observed: what would be done is recorded, and nothing is done until the annotation goes.


FROM, TO = "2026-11-20T00:08:00", "2026-11-20T00:40:00"
ACTS = ("instanceLaunched", "instanceTerminated", "nodeTainted", "podEvicted", "nodeDeleted")


def pool(*, is_observed: bool, **more: Any) -> dict[str, Any]:
    """Its nodes expire after twenty minutes."""
    manifest = node_pool(**more)
    manifest["spec"]["template"]["spec"]["expireAfter"] = "20m"
    if is_observed:
        manifest["metadata"]["annotations"] = {labels.MODE: labels.OBSERVE}
    return manifest


def acts(result: Result, since: str, until: str) -> list[tuple[str, str]]:
    return [(event.t, event.event) for name in ACTS for event in happened(result, name) if since <= event.t < until]


def logged(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["log", "--ledger", str(folder / "ledger"), "-o", "json"]) == 0
    entries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["entries"]
    return [entry for entry in entries if entry["state"] == "observed"]


def test_nothing_is_done_for_an_observed_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods come and go, an image changes, nodes expire: all of it is told and none done, until the annotation goes."""
    steps = [
        {"at": "8m", "apply": [pool(is_observed=True)]},
        {"at": "12m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}},
        {"at": "16m", "ami": {"alias": "al2023", "id": "ami-0new"}},
        {"at": "18m", "apply": [deployment(3, name="late", cpu="14")]},
        {"at": "40m", "apply": [pool(is_observed=False)]},
    ]
    scenario = write(tmp_path, pool(is_observed=False), deployment(20, cpu="2"), steps=steps, duration="46m")
    result = run(scenario, ledger=tmp_path / "ledger")
    assert_lawful(result)
    assert acts(result, "2026-11-20T00:00:00Z", FROM)
    assert acts(result, FROM, TO) == []
    assert {event for _, event in acts(result, TO, "2026-11-20T01:00:00Z")} == set(ACTS)
    observed = logged(tmp_path, capsys)
    assert {entry["function"] for entry in observed} == {"provision", "disrupt"}
    assert all(entry["what"].startswith("only observed: ") for entry in observed)
    assert all((entry["hourly"], entry["moves"]) == (0, 0) for entry in observed)
    assert all(FROM <= entry["time"] <= TO for entry in observed)
    assert len({entry["what"] for entry in observed}) == len(observed)
    assert main(["replay", "--ledger", str(tmp_path / "ledger")]) == 0


# NodePools with replicas: a fixed number of nodes, whatever pods there are.


GATE = {"StaticCapacity": True}


def static_pool(replicas: int, **spec: Any) -> dict[str, Any]:
    return node_pool(replicas=replicas, **spec)


def nodes(result: Result) -> tuple[int, int, int]:
    """How many were launched, how many terminated, and how many there are at the end."""
    summary = result.summary
    return summary["nodesLaunched"], summary["nodesTerminated"], summary["nodesAtEnd"]


def test_a_pool_keeps_its_number_of_nodes(tmp_path: Path) -> None:
    """More, then fewer, and a lost one is replaced; pods do not matter."""
    steps = [
        {"at": "8m", "apply": [static_pool(4)]},
        {"at": "16m", "apply": [static_pool(1)]},
        {"at": "24m", "interrupt": {"fraction": 1.0}},
    ]
    result = play(tmp_path, static_pool(2), steps=steps, duration="34m", featureGates=GATE)
    joined = sorted(event.t[11:16] for event in result.events if event.event == "nodeJoined")
    assert [minute < "00:06" for minute in joined[:2]] == [True, True]
    assert nodes(result) == (5, 4, 1)
    tainted = {event["reason"] for event in named(result, "nodeTainted") if event.get("reason")}
    assert tainted <= {"ScaledDown", "SpotInterrupted"}
    assert_lawful(result)


def test_no_pod_makes_a_static_pool_larger(tmp_path: Path) -> None:
    """Its nodes take pods; a pod without a place gets no further one."""
    result = play(tmp_path, static_pool(1), deployment(3, cpu="12"), duration="12m", featureGates=GATE)
    assert result.summary["nodesAtEnd"] == 1
    assert result.summary["podsPending"] >= 2


def test_without_the_gate_nothing_is_launched(tmp_path: Path) -> None:
    result = play(tmp_path, static_pool(2), duration="10m")
    assert nodes(result) == (0, 0, 0)


def test_at_the_limit_a_drifted_node_goes_before_its_replacement_comes(tmp_path: Path) -> None:
    """Otherwise, a pool whose limit is its number of nodes drifts forever."""
    changed = static_pool(2, limits={"nodes": "2"})
    changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
    steps = [{"at": "8m", "apply": [changed]}]
    result = play(tmp_path, static_pool(2, limits={"nodes": "2"}), steps=steps, duration="40m", featureGates=GATE)
    assert nodes(result) == (4, 2, 2)
    assert result.summary["limitViolations"] == 0
    assert_lawful(result)


def test_replicas_keep_within_the_free_addresses_of_subnets(tmp_path: Path) -> None:
    """EC2 refused the rest, which closed the subnets for pods, too."""
    few = [
        {"at": "0s", "subnet": {"zone": zone, "freeAddresses": free}} for zone, free in (("zone-a", 3), ("zone-b", 2))
    ]
    steps = [*few, {"at": "8m", "subnet": {"zone": "zone-b", "freeAddresses": 50}}]
    result = play(tmp_path, static_pool(9), steps=steps, duration="20m", featureGates=GATE)
    assert_lawful(result)
    assert not named(result, "launchRefused")
    joined = [event.t[11:16] for event in result.events if event.event == "nodeJoined"]
    assert len([minute for minute in joined if minute < "00:08"]) == 5
    assert nodes(result) == (9, 0, 9)


# Where EC2 has too little capacity in each zone for a group, nothing of it is bought: judged from the world's side.


def capacity(**available: int) -> list[dict[str, Any]]:
    """How many instances each zone has, by the last part of its name."""
    return [{"at": "0s", "capacity": {"zone": zone, "available": count}} for zone, count in available.items()]


def numbers_running(result: Result) -> set[int]:
    """The numbers of instances that ran at any time."""
    running, numbers = 0, {0}
    at = None
    for event in result.events:
        if event.event in ("instanceLaunched", "instanceTerminated"):
            if at is not None and event.t != at:
                numbers.add(running)
            running += 1 if event.event == "instanceLaunched" else -1
            at = event.t
    return numbers | {running}


def test_a_group_goes_where_all_of_it_can_be_launched(tmp_path: Path) -> None:
    """The first zone would give three of four: EC2 launches none there."""
    steps = capacity(**{ZONES[0]: 3, ZONES[1]: 4})
    result = play(tmp_path, a_class_manifest(), large_nodes(), group("g", 4), steps=steps, duration="12m")
    assert_lawful(result)
    assert numbers_running(result) == {0, 4}
    assert {event["zone"] for event in named(result, "instanceLaunched")} == {ZONES[1]}
    assert result.summary["podsPending"] == 0


def test_a_group_for_which_no_zone_has_capacity_costs_nothing(tmp_path: Path) -> None:
    steps = capacity(**dict.fromkeys(ZONES, 3))
    result = play(tmp_path, a_class_manifest(), large_nodes(), group("g", 4), steps=steps, duration="12m")
    assert_lawful(result)
    assert named(result, "instanceLaunched") == []
    assert result.summary["podsPending"] == 4


@pytest.mark.parametrize("seed", range(3))
def test_no_group_is_half_bought_whatever_is_left(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - a world is drawn, no secret
    steps = capacity(**{zone: draw.randint(0, 8) for zone in ZONES})
    steps.append({"at": "6m", "capacity": {"zone": draw.choice(ZONES), "available": draw.randint(3, 8)}})
    objects = (a_class_manifest(), large_nodes(), group("three", 3), group("five", 5))
    result = play(tmp_path, *objects, steps=steps, duration="15m", seed=seed)
    assert_lawful(result)
    assert numbers_running(result) <= {0, 3, 5, 8}


def part(name: str, size: str, cpu: str) -> dict[str, Any]:
    """Two members of a group of four that need on-demand nodes of one size."""
    workload = deployment(2, name, cpu=cpu)
    template = workload["spec"]["template"]
    template["metadata"]["annotations"] = {
        labels.GROUP: "g",
        labels.GROUP_MINIMUM: "4",
        labels.GROUP_TOPOLOGY: labels.ZONE,
    }
    template["spec"]["nodeSelector"] = {labels.INSTANCE_TYPE: f"test.{size}", labels.CAPACITY_TYPE: labels.ON_DEMAND}
    return workload


@pytest.mark.ci
@pytest.mark.parametrize("boot", [5, 45])
def test_half_a_group_of_two_sizes_is_given_back_within_a_minute_and_not_bought_again(
    tmp_path: Path, boot: int
) -> None:
    """EC2 has none of one size: its request comes first from then on, and once it is refused the other is not sent."""
    steps = [
        {"at": at, "capacity": {"instanceType": "test.medium", "available": available}}
        for at, available in (("0s", 0), ("12m", None))
    ]
    objects = (a_class_manifest(), node_pool(), part("a", "large", "12"), part("b", "medium", "3"))
    result = play(tmp_path, *objects, steps=steps, duration="24m", nodeBootSeconds=boot)
    assert_lawful(result)
    assert result.summary["podsPending"] == 0
    lives = lifetimes(result)
    assert len(lives) == 2 * len(ZONES)
    assert max(lives) < 60


@pytest.mark.parametrize("boot", [35, 120])
def test_the_nodes_of_a_group_that_is_deleted_while_they_start_are_given_back(tmp_path: Path, boot: int) -> None:
    """No pod waits then, so nothing else needs a plan, and consolidateAfter is for nodes that have had pods."""
    pool = large_nodes()
    pool["spec"]["disruption"]["consolidateAfter"] = "Never"
    steps = [{"at": "38s", "scale": {"kind": "Deployment", "name": "g", "replicas": 0}}]
    result = play(tmp_path, pool, group("g", 3), steps=steps, duration="6m", nodeBootSeconds=boot)
    assert_lawful(result)
    assert len(lifetimes(result)) == 3
    assert max(lifetimes(result)) < 240


def coscheduled(size: int, *, says_it_twice: bool) -> dict[str, Any]:
    """A group of the coscheduling plugin, whose PodGroup says its size; perhaps our annotation says it, too."""
    workload = group("g", size)
    template = workload["spec"]["template"]["metadata"]
    template["labels"][labels.COSCHEDULING_GROUP] = "g"
    if not says_it_twice:
        template["annotations"] = {labels.GROUP_TOPOLOGY: labels.ZONE}
    return workload


def pod_group(least: int) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "default"}
    spec = {"minMember": least}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


SCALED = {"kind": "Deployment", "name": "g"}
GONE = {"kind": "PodGroup", "name": "g", "apiVersion": "scheduling.x-k8s.io/v1alpha1"}


@pytest.mark.parametrize(
    ("change", "correction", "reason"),
    [
        ({"scale": SCALED | {"replicas": 1}}, {"scale": SCALED | {"replicas": 3}}, "GroupIncomplete"),
        ({"apply": [pod_group(4)]}, {"apply": [pod_group(3)]}, "GroupIncomplete"),
        ({"apply": [pod_group(2)]}, {"apply": [pod_group(3)]}, "GroupSpellingsDiffer"),
        ({"delete": [GONE]}, {"apply": [pod_group(3)]}, "GroupNotFound"),
    ],
    ids=["shrinks", "grows", "disagrees", "loses its object"],
)
def test_no_part_of_a_group_that_changes_while_it_starts_runs(
    tmp_path: Path, change: dict[str, Any], correction: dict[str, Any], reason: str
) -> None:
    """The nodes on which the rest was expected stayed, and the rest started on them."""
    steps = [{"at": "38s", **change}, {"at": "6m", **correction}]
    says_it_twice = reason == "GroupSpellingsDiffer"
    objects = (large_nodes(), pod_group(3), coscheduled(3, says_it_twice=says_it_twice))
    result = play(tmp_path, *objects, steps=steps, duration="12m", nodeBootSeconds=120)
    assert_lawful(result)
    assert len(lifetimes(result)) == 3
    assert max(lifetimes(result)) < 120
    assert not [event for event in result.events if event.event == "podBound" and event.t[11:16] < "00:06"]
    told = [event["object"] for event in named(result, "objectApplied") if event["kind"] == "Event"]
    assert any(event.get("message", "").startswith(reason) for event in told)
    assert result.summary["podsPending"] == 0
