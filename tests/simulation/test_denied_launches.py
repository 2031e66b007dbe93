"""Whatever EC2 answers, it is called seldom, the cluster's objects say so, and what can be launched is.

The rows of docs/reference/launch-errors.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.launch.denials import RULES, LaunchErrorRule, Remembered, rule_of
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

BEGINS = "1m"
CALLS_MAX = 12
"""In ten minutes, for few pods and for many."""

CALLS = {
    Remembered.OFFERINGS: 5,
    Remembered.SUBNET: 3,
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

CODES = [
    pytest.param(
        f"{rule.code}{ENDINGS.get(rule.code, 'NotFound')}" if rule.code.endswith(".") else rule.code,
        marks=() if rule.remembered not in {other.remembered for other in RULES[:position]} else pytest.mark.slow,
    )
    for position, rule in enumerate(RULES)
    if rule.code not in OURS
]
CODES.append(pytest.param("InvalidSomethingNew", marks=pytest.mark.slow))
"""One code of each kind, and in the slow tests all of them and one that is in no row."""


def calls_of(rule: LaunchErrorRule) -> int:
    """CreateFleet calls in ten minutes, wherever EC2 tells the code."""
    return REPEATED.get(rule.code, CALLS[rule.remembered])


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
    found = [
        o["object"].get("status", {}).get("conditions", ()) for o in named(result, "objectApplied") if o["kind"] == kind
    ]
    conditions = [c for of_one in found for c in of_one if c["type"] == "LaunchDenied"]
    assert conditions[-1]["status"] == "True"
    return f"{conditions[-1]['reason']} {conditions[-1]['message']}"


def events(result: Result) -> str:
    objects = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    return " ".join(o["message"] for o in objects if o["involvedObject"]["kind"] == "Pod")


@pytest.mark.parametrize("replicas", [3, 40])
@pytest.mark.parametrize("form", ["exception", "fleetError"])
@pytest.mark.parametrize("code", CODES)
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
