"""`cdk deploy` of a new release over an old one: nothing that is kept, named or imported gets another logical id.

CloudFormation creates what has a new id before it deletes the old one. A table would be empty, a queue would lose its messages,
a fixed name would exist already, and an export that vanishes is still imported: the update fails, or succeeds with a loss.
`logical_ids.json` has what releases have deployed: add what is new, and change nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

DEPLOYED: Final[dict[str, dict[str, dict[str, str]]]] = json.loads(
    (Path(__file__).parent / "logical_ids.json").read_text(encoding="utf-8")
)
"""Stack → `kept`, `named` and `exported` → logical id (or name of an export) → kind, fixed name, or value."""

KEPT: Final = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::Logs::LogGroup", "AWS::SNS::Topic")
"""Kinds whose contents would be lost: rows, objects, messages, logs, confirmed subscriptions."""

NAMES: Final = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::CodeDeploy::DeploymentGroup": "DeploymentGroupName",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Alias": "Name",
    "AWS::Scheduler::ScheduleGroup": "Name",
    "AWS::SSM::Parameter": "Name",
}
"""Kind → the property with its fixed name."""

Templates = dict[str, dict[str, Any]]


def kept(template: dict[str, Any]) -> dict[str, str]:
    return {i: found["Type"] for i, found in template["Resources"].items() if found["Type"] in KEPT}


def named(template: dict[str, Any]) -> dict[str, str]:
    return {
        i: f"{found['Type']} {found['Properties'][NAMES[found['Type']]]}"
        for i, found in template["Resources"].items()
        if NAMES.get(found["Type"], "") in found.get("Properties", {})
    }


def exported(template: dict[str, Any]) -> dict[str, str]:
    outputs = template.get("Outputs", {}).values()
    return {
        str(told["Export"]["Name"]): json.dumps(told["Value"], sort_keys=True) for told in outputs if "Export" in told
    }


READ: Final = {"kept": kept, "named": named, "exported": exported}


@pytest.mark.parametrize("stack", DEPLOYED)
@pytest.mark.parametrize("what", READ)
def test_what_a_release_has_deployed_keeps_its_logical_id(templates: Templates, stack: str, what: str) -> None:
    now = READ[what](templates[stack])
    gone = {i: told for i, told in DEPLOYED[stack][what].items() if now.get(i) != told}
    assert gone == {}, "an update would replace or refuse it"


@pytest.mark.parametrize("stack", DEPLOYED)
@pytest.mark.parametrize("what", READ)
def test_what_is_new_is_written_down(templates: Templates, stack: str, what: str) -> None:
    """Otherwise, the next release could change it, and no test would notice."""
    assert set(READ[what](templates[stack])) <= set(DEPLOYED[stack][what])


def test_every_stack_is_written_down(templates: Templates) -> None:
    assert set(templates) == set(DEPLOYED)


@pytest.mark.parametrize("stack", DEPLOYED)
def test_no_logical_id_contains_the_stacks_name(templates: Templates, stack: str) -> None:
    """A release has one template for every cluster: with such ids, it would replace what `cdk deploy` made."""
    written = stack.replace("-", "")
    assert "-" not in stack or [i for i in templates[stack]["Resources"] if written in i] == []


def test_no_resource_takes_a_logical_id_of_another_kind(templates: Templates) -> None:
    """CloudFormation refuses an update that changes the type of a resource."""
    for stack, found in DEPLOYED.items():
        was = {i: told.partition(" ")[0] for i, told in {**found["kept"], **found["named"]}.items()}
        now = templates[stack]["Resources"]
        assert {i for i, kind in was.items() if i in now and now[i]["Type"] != kind} == set()
