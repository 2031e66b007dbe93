"""An update: every trigger follows the alias, which CodeDeploy moves to the new version step by step, and back on an alarm."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from adapters import messages
from infra import start_check
from installation.wiring import FUNCTIONS
from tests.infra.conftest import synthesize

Resources = dict[str, dict[str, Any]]

INVOKING: Final = {
    "AWS::Events::Rule": lambda p: [target["Arn"] for target in p["Targets"]],
    "AWS::Lambda::EventSourceMapping": lambda p: [p["FunctionName"]],
    "AWS::Logs::SubscriptionFilter": lambda p: [p["DestinationArn"]],
    "AWS::Lambda::EventInvokeConfig": lambda p: [p["Qualifier"]],
    "AWS::Lambda::Permission": lambda p: [p["FunctionName"]],
}
"""Kind → what it says of the function that it invokes, or that may be invoked."""


def resources_of(templates: dict[str, dict[str, Any]], stack: str = "fleetwright-fleetwright") -> Resources:
    return dict(templates[stack]["Resources"])


def of_type(resources: Resources, kind: str) -> Resources:
    return {name: resource for name, resource in resources.items() if resource["Type"] == kind}


@pytest.fixture(scope="module")
def resources(templates: dict[str, dict[str, Any]]) -> Resources:
    return resources_of(templates)


def test_every_trigger_invokes_an_alias(resources: Resources) -> None:
    """One that named the function itself would run the newest code from the first second, and no roll-back would reach it."""
    aliases = of_type(resources, "AWS::Lambda::Alias")
    assert len(aliases) == len(FUNCTIONS)
    for kind, invoked in INVOKING.items():
        found = of_type(resources, kind)
        assert found
        for name, resource in found.items():
            for target in invoked(resource["Properties"]):
                assert [alias for alias in aliases if alias in json.dumps(target)], f"{name} invokes {target}"


def test_windows_wake_the_alias(resources: Resources) -> None:
    """`reconcile` writes this ARN into EventBridge's schedules, and their role may invoke nothing else."""
    (arn,) = {
        json.dumps(variables["DISRUPT_FUNCTION_ARN"])
        for resource in of_type(resources, "AWS::Lambda::Function").values()
        if "DISRUPT_FUNCTION_ARN" in (variables := resource["Properties"].get("Environment", {}).get("Variables", {}))
    }
    (disrupt,) = (i for i in of_type(resources, "AWS::Lambda::Function") if i.startswith("disruptFunction"))
    assert json.loads(arn) == {"Fn::Join": ["", [{"Fn::GetAtt": [disrupt, "Arn"]}, ":live"]]}
    (alias,) = (i for i in of_type(resources, "AWS::Lambda::Alias") if i.startswith("disrupt"))
    invocations = [
        statement["Resource"]
        for name, policy in of_type(resources, "AWS::IAM::Policy").items()
        if name.startswith("BudgetWindows")
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "lambda:InvokeFunction"
    ]
    assert invocations == [{"Ref": alias}]


def test_an_update_is_checked_and_then_watched(resources: Resources) -> None:
    alarms = of_type(resources, "AWS::CloudWatch::Alarm")
    watched = {"failed-runs", "refused-calls", "denied", "stopped-itself", "no-clean-run"}
    groups = of_type(resources, "AWS::CodeDeploy::DeploymentGroup")
    assert {group["Properties"]["DeploymentGroupName"] for group in groups.values()} == {s.name for s in FUNCTIONS}
    for group in groups.values():
        config = group["Properties"]["AlarmConfiguration"]
        names = {alarms[alarm["Name"]["Ref"]]["Properties"]["AlarmName"] for alarm in config["Alarms"]}
        assert config["Enabled"]
        assert {name.removeprefix("fleetwright-fleetwright-") for name in names} == watched
        events = group["Properties"]["AutoRollbackConfiguration"]["Events"]
        assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} <= set(events)
    for alias in of_type(resources, "AWS::Lambda::Alias").values():
        update = alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        assert update["DeploymentGroupName"]["Ref"] in groups
        assert update["BeforeAllowTrafficHook"]["Ref"] in of_type(resources, "AWS::Lambda::Function")
    (canary,) = of_type(resources, "AWS::CodeDeploy::DeploymentConfig").values()
    assert canary["Properties"]["TrafficRoutingConfig"]["TimeBasedCanary"] == {
        "CanaryInterval": 20,
        "CanaryPercentage": 50,
    }


def test_nothing_waits_for_itself(resources: Resources) -> None:
    """CloudFormation refuses resources that wait for each other in a circle: an alarm knows a function, a group an alarm."""
    waits = {name: references(resource, set(resources)) for name, resource in resources.items()}
    done: set[str] = set()
    while ready := {name for name, needs in waits.items() if name not in done and needs <= done}:
        done |= ready
    assert sorted(set(resources) - done) == []


def references(written: Any, names: set[str]) -> set[str]:
    """The resources that some part of a template names."""
    if isinstance(written, list):
        return set().union(*(references(item, names) for item in written))
    if not isinstance(written, dict):
        return set()
    found = references(list(written.values()), names)
    found |= {name for name in (written.get("Ref"), *written.get("Fn::GetAtt", [])[:1]) if name in names}
    needed = written.get("DependsOn", [])
    return found | ({needed} if isinstance(needed, str) else set(needed)) & names


def test_the_check_knows_every_version(resources: Resources) -> None:
    (versions,) = (
        json.dumps(found)
        for resource in of_type(resources, "AWS::Lambda::Function").values()
        if (found := resource["Properties"].get("Environment", {}).get("Variables", {}).get("VERSIONS"))
    )
    for alias in of_type(resources, "AWS::Lambda::Alias").values():
        assert alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0] in versions
    assert all(f'\\"{spec.name}\\":' in versions for spec in FUNCTIONS)


@pytest.mark.slow  # a synthesis of its own: `make lint-templates` runs it
def test_an_update_at_once_is_still_checked_and_stopped_by_no_alarm(tmp_path: Any) -> None:
    """CodeDeploy stops a deployment while an alarm of its group is on, so the update that repairs it could not be deployed."""
    resources = resources_of(synthesize(tmp_path, {"canaryMinutes": "0"}))
    assert of_type(resources, "AWS::CodeDeploy::DeploymentConfig") == {}
    groups = of_type(resources, "AWS::CodeDeploy::DeploymentGroup").values()
    assert {group["Properties"]["DeploymentConfigName"] for group in groups} == {"CodeDeployDefault.LambdaAllAtOnce"}
    for alias in of_type(resources, "AWS::Lambda::Alias").values():
        assert alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["BeforeAllowTrafficHook"]
    for group in groups:
        assert not group["Properties"].get("AlarmConfiguration", {}).get("Alarms")
        events = group["Properties"]["AutoRollbackConfiguration"]["Events"]
        assert "DEPLOYMENT_STOP_ON_ALARM" not in events
        assert "DEPLOYMENT_FAILURE" in events
    assert of_type(resources, "AWS::CloudWatch::Alarm"), "they still notify"


def test_the_check_asks_what_the_handlers_understand() -> None:
    assert messages.is_start_check(start_check.EVENT)


def test_no_deployment_sets_the_kill_switch(resources: Resources) -> None:
    """CloudFormation writes every property when one changes: another text would turn an operator's `stop` into `run`.

    This is the resource of the first release. Do not change it; to word it otherwise, find another place for the words.
    """
    (switch,) = of_type(resources, "AWS::SSM::Parameter").values()
    assert switch == {
        "Type": "AWS::SSM::Parameter",
        "Properties": {
            "AllowedPattern": "run|pause-disruption|stop",
            "Description": "Fleetwright on fleetwright: run | pause-disruption | stop (docs/how-to/stop-it.md)",
            "Name": "/fleetwright/fleetwright/mode",
            "Type": "String",
            "Value": "run",
        },
    }
