"""Whatever EC2 answers, it is called seldom, the cluster's objects say so, and what can be launched is.

The rows of docs/reference/launch-errors.md.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.aws.ec2.fleet import Ec2Cloud
from adapters.ports import Launched
from core import labels
from core.launch.denials import END_RULES, RULES, LaunchErrorRule, Remembered, rule_of
from core.model.plan import LaunchOrder
from installation.wiring import FunctionSpec, deployed_functions
from simulator.invocation.faults import latency
from simulator.record import Event
from simulator.world import Result
from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

BEGINS = "1m"
CALLS_MAX = 12
"""In ten minutes, for few pods and for many."""

DENIED_CALLS = {
    Remembered.OFFERINGS: 6,
    Remembered.SUBNET: 5,
    Remembered.QUOTA: 4,
    Remembered.CAPACITY_TYPE: 4,
    Remembered.REQUEST: 4,
    Remembered.NODE_CLASS: 3,
}
"""What is remembered → CreateFleet calls in ten minutes, for 3 as for 40 pods."""

REPEATED = {"InvalidLaunchTemplateId.": 6, "InvalidLaunchTemplateName.": 6}
"""Code → calls, where each is repeated once: a launch template that is missing is created again."""

OURS = ("NoImageOrSubnet", "NotRendered")
ENDINGS = {"InvalidLaunchTemplateName.": "NotFoundException"}
"""Begin of a code → EC2's end of it, where it is not `NotFound`."""

EACH_KIND = {
    next(rule.code for rule in RULES if rule.remembered is remembered and rule.code not in OURS)
    for remembered in Remembered
}
CODES = [
    pytest.param(code, form, replicas, marks=() if rule.code in EACH_KIND and is_usual else pytest.mark.slow)
    for rule in RULES
    if rule.code not in OURS
    for code in (f"{rule.code}{ENDINGS.get(rule.code, 'NotFound')}" if rule.code.endswith(".") else rule.code,)
    for form, replicas, is_usual in (
        ("exception", 40, True),
        ("fleetError", 3, True),
        ("exception", 3, False),
        ("fleetError", 40, False),
    )
]
CODES.append(pytest.param("InvalidSomethingNew", "exception", 40, marks=pytest.mark.slow))
"""One code of each kind in either form, and in the slow tests all of them and one that is in no row."""


def calls_of(rule: LaunchErrorRule) -> int:
    """CreateFleet calls in ten minutes, wherever EC2 tells the code."""
    return REPEATED.get(rule.code, DENIED_CALLS[rule.remembered])


def denied(code: str, form: str, **which: Any) -> dict[str, Any]:
    fault = {"call": "ec2:CreateFleet", "kind": "denied", "code": code, "as": form, "for": "10m", **which}
    return {"at": BEGINS, "fault": fault}


def waiting(*deployments: dict[str, Any]) -> dict[str, Any]:
    """Pods that come when the denials begin: an EC2NodeClass that EC2 denies from the start would not be ready."""
    return {"at": BEGINS, "apply": list(deployments)}


def fleet_calls(result: Result) -> list[dict[str, Any]]:
    return [call for call in named(result, "call") if call["call"] == "ec2:CreateFleet"]


def last_condition(result: Result, kind: str) -> str:
    """Reason and message of the last condition LaunchDenied of an object of this kind."""
    listed = [
        o["object"].get("status", {}).get("conditions", ()) for o in named(result, "objectApplied") if o["kind"] == kind
    ]
    conditions = [c for of_one in listed for c in of_one if c["type"] == "LaunchDenied"]
    assert conditions[-1]["status"] == "True"
    return f"{conditions[-1]['reason']} {conditions[-1]['message']}"


def events(result: Result) -> str:
    objects = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    return " ".join(o["message"] for o in objects if o["involvedObject"]["kind"] == "Pod")


@pytest.mark.ci
@pytest.mark.parametrize(("code", "form", "replicas"), CODES)
def test_a_denied_launch_is_asked_for_seldom_and_told(code: str, form: str, replicas: int, tmp_path: Path) -> None:
    """225 calls in ten minutes for 3 pods and 770 for 40, and nobody in the cluster knew why its pods waited."""
    steps = [denied(code, form), waiting(deployment(replicas, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    assert_lawful(result)
    rule = rule_of(code)
    assert len(fleet_calls(result)) == calls_of(rule) <= CALLS_MAX
    for kind in ("NodePool", "EC2NodeClass") if rule.remembered is not Remembered.SUBNET else ():
        assert rule.advice in last_condition(result, kind)
        assert "ec2:CreateFleet" in last_condition(result, kind)
    is_capacity = rule.remembered in (Remembered.OFFERINGS, Remembered.SUBNET)
    assert ("NoOfferingAvailable" if is_capacity else code) in events(result)


def test_a_denied_zone_leaves_the_other_one(tmp_path: Path) -> None:
    """Otherwise, one wrong subnet would keep every pod of the EC2NodeClass waiting."""
    pinned = deployment(2, name="a", cpu="12")
    pinned["spec"]["template"]["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": "zone-a"}
    free = deployment(2, name="b", cpu="12")
    free["spec"]["template"]["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": "zone-b"}
    steps = [denied("InvalidParameterValue", "fleetError", zone="zone-a"), waiting(pinned, free)]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    assert result.summary["podsScheduled"] == 2
    assert len([call for call in fleet_calls(result) if call["outcome"] == "denied"]) <= CALLS_MAX


def test_denied_spot_leaves_on_demand(tmp_path: Path) -> None:
    """Without the role for spot, on-demand still can be had."""
    fault = denied("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "fleetError", capacityType="spot")
    steps = [fault, waiting(deployment(3, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    assert result.summary["podsScheduled"] == 3
    assert "create-service-linked-role" in last_condition(result, "NodePool")


def test_once_it_is_permitted_every_pod_gets_its_node_and_the_condition_goes(tmp_path: Path) -> None:
    """One asks again, and the others follow at once."""
    step = denied("UnauthorizedOperation", "exception")
    step["fault"]["for"] = "2m"
    steps = [step, waiting(deployment(40, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="7m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 40
    with pytest.raises(AssertionError):
        last_condition(result, "NodePool")


def test_a_policy_that_a_budget_attaches_stops_launches_alone_until_it_is_detached(tmp_path: Path) -> None:
    """An action of AWS Budgets denies launches for hours; after it they go on within the longest pause."""
    step = denied("UnauthorizedOperation", "exception")
    step["fault"]["for"] = "50m"
    steps = [step, waiting(deployment(3, name="late", cpu="12"))]
    result = play(tmp_path, node_pool(), deployment(2, name="before", cpu="12"), steps=steps, duration="70m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 5
    assert not named(result, "podEvicted")
    launches = [call["outcome"] for call in fleet_calls(result)]
    assert launches.count("denied") <= CALLS_MAX


# Instances that EC2 ends while they start: few are launched, the cluster's objects say why, and pods get what can start.
#
# The rows of docs/reference/launch-errors.md about ends of instances.


CALLS = {
    "Client.InternalError": (3, 3),
    "Client.InvalidSnapshot": (3, 3),
    "Client.VolumeLimitExceeded": (3, 3),
    "Client.InstanceInitiatedShutdown": (3, 3),
    "Client.": (3, 3),
    "Server.InsufficientInstanceCapacity": (8, 12),
    "Server.SpotInstanceShutdown": (8, 12),
    "Server.SpotInstanceTermination": (8, 12),
    "Server.": (8, 12),
}
"""Code of a rule → CreateFleet calls in ten minutes, for 3 and for 40 pods."""


def ends(code: str, count: int = 1000) -> dict[str, Any]:
    return {"at": "30s", "boot": {"endReason": code, "count": count}}


@pytest.mark.ci
@pytest.mark.parametrize("replicas", [3, 40])
@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, id=rule.code, marks=() if rule is END_RULES[0] else pytest.mark.slow) for rule in END_RULES],
)
def test_instances_that_end_are_launched_seldom_and_told(rule: LaunchErrorRule, replicas: int, tmp_path: Path) -> None:
    """Each end woke the next launch."""
    code = f"{rule.code.rstrip('.')}.NotFound" if rule.begins else rule.code
    steps = [ends(code), waiting(deployment(replicas, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    assert_lawful(result)
    assert len(fleet_calls(result)) == CALLS[rule.code][replicas > 3] <= CALLS_MAX
    assert code in events(result) or rule.remembered is Remembered.OFFERINGS
    for kind in ("NodePool", "EC2NodeClass") if rule.remembered is Remembered.NODE_CLASS else ():
        assert rule.advice in last_condition(result, kind)
        assert "ec2:CreateFleet" in last_condition(result, kind)


def test_after_the_first_end_one_instance_at_a_time_is_launched(tmp_path: Path) -> None:
    """Each is charged, and counts in quotas of the account."""
    steps = [ends("Client.InternalError"), waiting(deployment(40, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    launched = named(result, "instanceLaunched")
    assert 40 < len(launched) <= 40 + CALLS_MAX


@pytest.mark.ci
def test_once_they_start_every_pod_gets_its_node_and_the_condition_goes(tmp_path: Path) -> None:
    steps = [ends("Client.InternalError", count=41), waiting(deployment(40, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="12m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 40
    with pytest.raises(AssertionError):
        last_condition(result, "NodePool")


# A changed EC2NodeClass is not ready until EC2 agrees to launch from it; only its own NodePools wait meanwhile.


def condition(result: Result, name: str, kind: str = "ValidationSucceeded") -> dict[str, Any]:
    """The last condition of the EC2NodeClass of this name."""
    written = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "EC2NodeClass"]
    conditions = [
        c for o in written if o["metadata"]["name"] == name for c in o.get("status", {}).get("conditions", ())
    ]
    last: dict[str, Any] = [c for c in conditions if c["type"] == kind][-1]
    return last


def of_class(pool: dict[str, Any], name: str) -> dict[str, Any]:
    """The NodePool with another class and name, for pods that ask for its label."""
    changed = copy.deepcopy(pool)
    changed["metadata"]["name"] = name
    changed["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
    changed["spec"]["template"].setdefault("metadata", {})["labels"] = {"pool": name}
    return changed


def wanting(pods: dict[str, Any], pool: str) -> dict[str, Any]:
    """The Deployment with a selector of this pool."""
    pods["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool}
    return pods


def test_a_class_that_ec2_denies_blocks_its_own_node_pools_only(tmp_path: Path) -> None:
    """Its first launch would have failed, and again, while its pods wait."""
    broken = a_class_manifest("broken", role=None, instanceProfile="gone")
    pods = (wanting(deployment(2, name="a"), "broken"), wanting(deployment(2, name="b"), "sound"))
    sound = of_class(node_pool(), "sound")
    sound["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "default"
    result = play(tmp_path, a_class_manifest(), broken, of_class(node_pool(), "broken"), sound, *pods, duration="5m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    validation = condition(result, "broken")
    assert (validation["status"], validation["reason"]) == ("False", "InvalidParameterValue")
    assert "Invalid IAM Instance Profile name 'gone'" in validation["message"]
    assert condition(result, "default", "Ready")["status"] == "True"


def of_a_new_class(folder: Path, node_class: dict[str, Any]) -> Result:
    """Pods that come together with their NodePool and EC2NodeClass, long before the next round of `reconcile`."""
    pods, pool = wanting(deployment(2), "late"), of_class(node_pool(), "late")
    return play(folder, steps=[{"at": "2m10s", "apply": [node_class, pool, pods]}], duration="9m")


def test_pods_get_no_node_from_a_new_class_before_ec2_has_agreed(tmp_path: Path) -> None:
    """Four launches were refused before a round of `reconcile` asked EC2 about the class."""
    result = of_a_new_class(tmp_path, a_class_manifest("late", role=None, instanceProfile="gone"))
    assert_lawful(result)
    assert fleet_calls(result) == []
    assert "Invalid IAM Instance Profile name 'gone'" in condition(result, "late")["message"]


def test_pods_of_a_new_class_do_not_wait_for_a_round(tmp_path: Path) -> None:
    result = of_a_new_class(tmp_path, a_class_manifest("late"))
    assert_lawful(result)
    (launch,) = [e for e in result.events if e.event == "call" and e.fields["call"] == "ec2:CreateFleet"]
    assert launch.t < "2026-11-20T00:02:40", "the class came at 2:10, and the next round at 4:00"
    assert result.summary["podsScheduled"] == 2


def test_a_class_is_ready_once_ec2_agrees(tmp_path: Path) -> None:
    """A permission that was missing at first needs no edit of the class."""
    fault = {
        "call": "ec2:RunInstances",
        "kind": "denied",
        "code": "UnauthorizedOperation",
        "as": "exception",
        "for": "3m",
    }
    result = play(tmp_path, node_pool(), deployment(2), steps=[{"at": 0, "fault": fault}], duration="12m")
    assert_lawful(result)
    warnings = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    assert "RunInstances (DryRun): UnauthorizedOperation" in " ".join(event["message"] for event in warnings)
    assert condition(result, "default")["status"] == "True"
    assert result.summary["podsScheduled"] == 2


# One claim, one instance, however many run after it at once. The same world with a broken launcher must break the law.


NODES = 26

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def doubled(folder: Path, *, lost_answers: int = 40) -> Result:
    """A pod a node, every message twice and at the same time, and EC2's first answers to launches are lost.

    The pods come when EC2 has agreed to the EC2NodeClass.
    """
    pods = deployment(NODES)
    pods["spec"]["template"]["spec"]["affinity"] = APART
    lost = {"call": "ec2:CreateFleet", "kind": "lostReply", "count": lost_answers}
    twice = {"kind": "duplicate", "count": 2000}
    steps: list[dict[str, Any]] = [
        {"at": "1m", "events": twice},
        {"at": "1m", "fault": lost},
        {"at": "1m", "apply": [pods]},
    ]
    return play(folder, node_pool(), steps=steps, duration="7m")


def test_two_executors_of_one_claim_launch_one_instance(tmp_path: Path) -> None:
    """If this failed, a message that comes twice would be paid for twice."""
    result = doubled(tmp_path)
    assert result.summary["nodesAtEnd"] == NODES
    assert len(named(result, "instanceLaunched")) == NODES
    assert_lawful(result)


@pytest.mark.ci
def test_a_launch_with_a_token_of_its_own_breaks_the_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, the test above would pass whatever the launcher did."""
    launch = Ec2Cloud.launch

    def twice(cloud: Ec2Cloud, order: LaunchOrder) -> Launched:
        launch(cloud, msgspec.structs.replace(order, token=f"{order.token}-again"))
        return launch(cloud, order)

    monkeypatch.setattr(Ec2Cloud, "launch", twice)
    assert doubled(tmp_path, lost_answers=1).summary["doubleLaunches"] > 0


def silent(folder: Path) -> Result:
    """A shared launch's answer is lost, and EC2 answers the repeated token with the fleet's id alone."""
    pods = deployment(6)
    pods["spec"]["template"]["spec"]["affinity"] = APART
    steps: list[dict[str, Any]] = [
        {"at": "1m", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 1}},
        {"at": "1m", "apply": [pods]},
    ]
    return play(folder, node_pool(), steps=steps, duration="25m", aws={"repeatedLaunch": "silent"})


def test_a_lost_answer_that_is_not_repeated_launches_nothing_twice(tmp_path: Path) -> None:
    result = silent(tmp_path)
    assert len(named(result, "instanceLaunched")) == 6
    assert_lawful(result)


# Lambda's rule about loops (docs/engineering/aws-facts.md#lambda-loops): `execute` waits for a node by messages to itself.


def burst(folder: Path, boot_seconds: int) -> Result:
    """Six pods, each with a node of its own, off the schedule's minute."""
    pods = deployment(6)
    pods["spec"]["template"]["spec"]["affinity"] = APART
    folder.mkdir()
    steps = [{"at": "70s", "apply": [pods]}]
    return play(folder, node_pool(), steps=steps, duration="8m", nodeBootSeconds=boot_seconds)


@pytest.mark.parametrize("boot_seconds", [25, 60, 90])
def test_pods_wait_no_longer_than_with_endless_chains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot_seconds: int
) -> None:
    """A chain that Lambda cut would leave the node to `reconcile`, which comes every two minutes."""
    ruled = burst(tmp_path / "ruled", boot_seconds)
    monkeypatch.setattr("simulator.events.LINEAGE_MAX", 10**6)
    endless = burst(tmp_path / "endless", boot_seconds)
    assert ruled.summary["pendingSeconds"] == endless.summary["pendingSeconds"]
    assert ruled.summary["pendingSeconds"]["max"] < boot_seconds + 40
    assert happened(ruled, "invocationDropped") == []


def test_a_setting_that_is_forgotten_shows_in_the_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, the tests above would pass whatever the template allows."""

    def forgetful(*, is_shadow: bool, is_distributed: bool) -> tuple[FunctionSpec, ...]:
        deployed = deployed_functions(is_shadow=is_shadow, is_distributed=is_distributed)
        return tuple(msgspec.structs.replace(function, may_loop=False) for function in deployed)

    monkeypatch.setattr("simulator.world.deployed_functions", forgetful)
    result = burst(tmp_path / "forgetful", 60)
    assert happened(result, "invocationDropped")
    assert result.summary["pendingSeconds"]["max"] > 60 + 60


# A plan is asked for as a whole: one request for claims of one shape, side by side, within the rates that EC2 documents.


NODES_AT_ONCE = 80
WITHIN_SECONDS = 5


def moments(result: Result, event: str, **fields: str) -> list[datetime]:
    matching = (e for e in result.events if e.event == event and fields.items() <= e.fields.items())
    return [datetime.fromisoformat(e.t) for e in matching]


def names_at_joining(result: Result) -> list[str]:
    """The claim that each instance's tags name when its node joins."""
    tags: dict[str, dict[str, str]] = {}
    names: list[str] = []
    for event in result.events:
        if event.event in {"instanceLaunched", "instanceTagged"}:
            tags[event.fields["instance"]] = event.fields["tags"]
        elif event.event == "nodeJoined":
            names.append(tags[event.fields["providerID"].rpartition("/")[2]][labels.NODECLAIM])
    return names


def asked_for(tmp_path: Path, nodes: int, duration: str) -> tuple[Result, float]:
    """The result, and the seconds from the plan's first request to its last instance."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["test.small"]}
    pool, pods = node_pool(), deployment(nodes, cpu="1500m")
    pool["spec"]["template"]["spec"]["requirements"].append(requirement)
    result = play(tmp_path, pool, pods, duration=duration)
    requested, launched = moments(result, "call", call="ec2:CreateFleet"), moments(result, "instanceLaunched")
    assert len(launched) == nodes
    return result, (max(launched) - min(requested)).total_seconds()


def test_every_node_of_a_plan_is_asked_for_within_seconds(tmp_path: Path) -> None:
    """With one request for each, EC2's rates put the last of 80 nodes 6 seconds after the first."""
    result, seconds = asked_for(tmp_path, NODES_AT_ONCE, "2m")
    assert seconds <= WITHIN_SECONDS
    assert len(moments(result, "call", call="ec2:CreateFleet")) <= 4
    assert result.summary["podsScheduled"] == NODES_AT_ONCE
    joined = [event.fields["nodeClaim"] for event in result.events if event.event == "nodeJoined"]
    assert len(set(joined)) == NODES_AT_ONCE
    assert names_at_joining(result) == joined
    assert_lawful(result)


@pytest.mark.slow
def test_a_thousand_nodes_are_asked_for_within_twenty_seconds(tmp_path: Path) -> None:
    """Whole simulation of 1,000 nodes: it takes minutes."""
    result, seconds = asked_for(tmp_path, 1000, "3m")
    assert len(moments(result, "call", call="ec2:CreateFleet")) <= 25
    assert seconds <= 20
    assert_lawful(result)


@pytest.mark.slow
def test_a_burst_of_3000_pods_is_asked_for_within_five_seconds_of_the_news(tmp_path: Path) -> None:
    """Pods of five sizes in thirty Deployments: some 190 nodes of few shapes. The audit log's own delay comes on top."""
    sizes = ("250m", "500m", "900m", "1300m", "2")
    burst = [deployment(100, f"burst-{n}", cpu=sizes[n % len(sizes)]) for n in range(30)]
    result = play(tmp_path, node_pool(), steps=[{"at": "67s", "apply": burst}], duration="4m")
    last_pod = max(moments(result, "podCreated"))
    news = min(moment for moment in moments(result, "invocation", function="watch_audit_log") if moment > last_pod)
    answered = moments(result, "call", call="ec2:CreateFleet")
    assert (max(answered) - latency("ec2:CreateFleet") - news).total_seconds() <= WITHIN_SECONDS
    assert len(answered) <= 10
    assert result.summary["podsScheduled"] == 3000
    assert_lawful(result)


# While EC2 throttles or fails, requests become rare, and afterwards every pod gets its node.


THROTTLING_BEGINS, THROTTLED_FOR, ENDS_AT = "1m", "4m", 300
THROTTLED_CALLS_MAX = 36
"""Refused calls in four minutes, each attempt of the SDK counted: 318 for 6 claims and 1,054 for 40 at a fixed pace."""

LATEST = 90
"""Seconds from the end of the throttling to the last request."""


def throttling(replicas: int, fault: dict[str, Any]) -> list[dict[str, Any]]:
    fault = {"call": "ec2:CreateFleet", "for": THROTTLED_FOR, **fault}
    return [
        {"at": THROTTLING_BEGINS, "fault": fault},
        {"at": THROTTLING_BEGINS, "apply": [deployment(replicas, cpu="12")]},
    ]


@pytest.mark.ci
@pytest.mark.parametrize(
    "fault",
    [{"kind": "throttle"}, {"kind": "denied", "code": "RequestLimitExceeded", "as": "fleetError"}, {"kind": "error"}],
    ids=["exception", "fleetError", "error"],
)
def test_a_throttled_launch_is_asked_for_seldom(fault: dict[str, Any], tmp_path: Path) -> None:
    """Forty claims; six of them stay within the same bound."""
    replicas = 40
    result = play(tmp_path, node_pool(), steps=throttling(replicas, fault), duration="9m")
    assert_lawful(result)
    calls = [event for event in result.events if event.event == "call" and event.fields["call"] == "ec2:CreateFleet"]
    refused = [event for event in calls if event.fields["code"] in ("RequestLimitExceeded", "InternalError")]
    assert refused
    assert len(refused) <= THROTTLED_CALLS_MAX
    assert result.summary["podsScheduled"] == replicas
    assert len(named(result, "instanceLaunched")) == replicas
    begun = datetime.fromisoformat(result.events[0].t)
    last = max(datetime.fromisoformat(event.t) for event in calls)
    assert (last - begun).total_seconds() <= ENDS_AT + LATEST


# A permission that is missing leaves the market unread, or old: NodePools tell, until it is read again.


def _told(result: Result) -> list[tuple[str, str]]:
    """Status and reason of the condition MarketStale, each time that they change."""
    pools = [event["object"] for event in named(result, "objectApplied") if event["kind"] == "NodePool"]
    conditions = [condition for pool in pools for condition in pool.get("status", {}).get("conditions", ())]
    told = [
        (condition["status"], condition["reason"]) for condition in conditions if condition["type"] == "MarketStale"
    ]
    return [entry for entry, _ in groupby(told)]


def _denied(call: str, at: str, lasts: str) -> dict[str, Any]:
    return {"at": at, "fault": {"call": call, "kind": "denied", "code": "AccessDeniedException", "for": lasts}}


def test_node_pools_tell_that_the_market_was_never_read_until_it_is(tmp_path: Path) -> None:
    """Pods waited, and only a failed run of another function said why."""
    steps = [_denied("ec2:DescribeInstanceTypes", "0s", "3m")]
    result = play(tmp_path, node_pool(), deployment(1), steps=steps, catalog=None, duration="15m")
    assert_lawful(result)
    assert _told(result) == [("True", "NeverRead"), ("False", "NotStale")]
    assert result.summary["podsPending"] == 0


@pytest.mark.slow
def test_node_pools_tell_that_prices_are_old_until_they_are_read_again(tmp_path: Path) -> None:
    """Plans went by old prices, and only an alarm of the account said so."""
    steps = [_denied("pricing:GetProducts", "1m", "3h10m")]
    result = play(tmp_path, node_pool(), steps=steps, catalog=None, duration="3h25m")
    assert_lawful(result)
    assert _told(result) == [("False", "NotStale"), ("True", "PricesStale"), ("False", "NotStale")]


def test_pods_that_come_before_any_spot_price_was_read_get_spot_nodes_at_once(tmp_path: Path) -> None:
    """Plans take spot at the on-demand price until then, so it is neither avoided nor replaced once its price is known."""
    pods = {"at": "1m", "apply": [deployment(3, cpu="12")]}
    steps = [_denied("ec2:DescribeSpotPriceHistory", "0s", "6m"), pods]
    result = play(tmp_path, node_pool(), steps=steps, catalog=None, duration="20m")
    assert_lawful(result)
    launched = happened(result, "instanceLaunched")
    assert {launch.fields["capacityType"] for launch in launched} == {"spot"}
    assert all("T00:01" <= launch.t[10:16] < "T00:02" for launch in launched)
    assert named(result, "instanceTerminated") == []
    assert result.summary["podsPending"] == 0


# One pod alone waits for nothing of ours: its launch is requested within two seconds of the scheduler's verdict reaching us.
#
# Time is virtual, so the machine's load decides nothing: every call takes its recorded time, and computing takes none.


CREATE_FLEET = "ec2:CreateFleet"
PODS = 6
WITHIN = timedelta(seconds=2)


def at(event: Event) -> datetime:
    return datetime.fromisoformat(event.t)


def test_the_launch_for_one_pod_alone_is_requested_within_two_seconds(tmp_path: Path) -> None:
    """Pods come a minute and some seconds apart, at different moments of the schedule's minute, each for a node of its own."""
    steps = [{"at": f"{67 * n}s", "apply": [deployment(1, f"alone-{n}", cpu="15")]} for n in range(2, 2 + PODS)]
    result = play(tmp_path, node_pool(), steps=steps, duration="10m")
    created = [at(e) for e in result.events if e.event == "podCreated"]
    heard = [at(e) for e in result.events if e.event == "invocation" and e.fields["function"] == "watch_audit_log"]
    answered = [at(e) for e in result.events if e.event == "call" and e.fields["call"] == CREATE_FLEET]
    assert len(created) == len(answered) == PODS
    for pod, answer in zip(created, answered, strict=True):
        news = min(moment for moment in heard if moment > pod)
        assert answer - latency(CREATE_FLEET) - news <= WITHIN
    assert result.summary["podsScheduled"] == PODS
    assert_lawful(result)


# A NodePool whose nodes' user data is longer than EC2 takes is told so, and nothing else waits for it.


SCRIPT = "#!/bin/sh\n" + "#" * 12_000


def a_pool(name: str, labels: int) -> dict[str, Any]:
    """A NodePool of the usual class with so many labels of 60 bytes."""
    pool = of_class(node_pool(), name)
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "default"
    pool["spec"]["template"]["metadata"]["labels"] |= {f"team-{n:02d}": "x" * 52 for n in range(labels)}
    return pool


def class_condition(result: Result, name: str) -> dict[str, Any]:
    """The last condition ValidationSucceeded of the NodePool of this name."""
    written = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "NodePool"]
    conditions = [
        c for o in written if o["metadata"]["name"] == name for c in o.get("status", {}).get("conditions", ())
    ]
    last: dict[str, Any] = [c for c in conditions if c["type"] == "ValidationSucceeded"][-1]
    return last


def test_a_node_pool_with_too_many_labels_is_not_launched_from(tmp_path: Path) -> None:
    """EC2 refused its launches, and with them the class paused for all of its NodePools."""
    node_class = a_class_manifest(userData=SCRIPT)
    pods = (wanting(deployment(2, name="a"), "large"), wanting(deployment(2, name="b"), "small"))
    result = play(tmp_path, node_class, a_pool("large", 90), a_pool("small", 1), *pods, duration="10m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    validation = class_condition(result, "large")
    assert validation["status"] == "False"
    assert "bytes, EC2 accepts 16384" in validation["message"]
    assert class_condition(result, "small")["status"] == "True"
    denied = [call for call in named(result, "call") if call["call"] == "ec2:CreateFleet" and call["outcome"] != "ok"]
    assert denied == []
    assert [fields for fields in named(result, "decision") if fields.get("reason") == "LaunchDenied"] == []


def test_a_node_pool_that_is_shortened_gets_its_nodes(tmp_path: Path) -> None:
    node_class = a_class_manifest(userData=SCRIPT)
    shortened = {"at": "3m", "apply": [a_pool("large", 2)]}
    pods = wanting(deployment(2, name="a"), "large")
    result = play(tmp_path, node_class, a_pool("large", 90), pods, steps=[shortened], duration="10m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    assert class_condition(result, "large")["status"] == "True"
