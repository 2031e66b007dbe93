"""The templates of a release: asked of cfn-lint, made in moto, and deployed and updated in MiniStack."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import boto3
from cfnlint import api
from cfnlint.config import ManualArgs
from moto import mock_aws

from installation.settings import Settings
from tests.deploy_local import stacks
from tests.deploy_local.emulator import ENDPOINT, MiniStack, NotInstalledError, client, install
from tests.infra.test_in_moto import MADE, _without_code

ACCEPTED: Final = {"W3005"}
"""The CDK names dependencies that references imply."""

REGION: Final = "us-east-1"
GIVEN: Final[Mapping[str, str]] = {
    "ClusterName": "prod",
    "NodeRole": "team/Nodes",
    "CodeBucket": "releases",
    "VpcId": "vpc-0a1b2c3d",
    "SubnetIds": "subnet-0a1b2c3d,subnet-0a1b2c3e",
    "ClusterSecurityGroup": "sg-0a1b2c3d",
}
"""Values of the parameters that have no default."""

TOPIC: Final = "arn:aws:sns:us-east-1:123456789012:platform"
CHANGED: Final = {
    "PollSeconds": "7",
    "FeatureGates": "SpotToSpotConsolidation=true",
    "AlarmTopicArn": TOPIC,
    "CommandTopicArn": TOPIC,
}
LACKING: Final = tuple(kind for kind in stacks.LACKING if kind != "Custom::SettingsDigest")
DIGEST: Final = "SettingsDigest"


def templates(folder: Path, work: Path) -> str:
    """Judge every template of the release; return what was found, or raise for the first that is not fit."""
    paths = sorted((folder / "cloudformation").glob("*.json"))
    found = [f"{path.name}: {finding}" for path in paths for finding in lint(path.read_text(encoding="utf-8"))]
    if found:
        raise AssertionError("; ".join(found[:5]))
    made = {path.name.partition(".")[0]: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    for template in made.values():
        in_moto(template)
    return f"{len(made)} templates: cfn-lint finds nothing, moto makes them; {in_ministack(made['fleetwright'], folder, work)}"


def lint(text: str) -> list[str]:
    """Return what cfn-lint says, but for what is accepted."""
    matches = api.lint(text, config=ManualArgs(regions=[REGION]))
    return [f"{match.rule.id} {match.message}" for match in matches if match.rule.id not in ACCEPTED]


def in_moto(template: dict[str, Any]) -> None:
    """Create what moto can make of the template, and read the functions' settings as the functions would."""
    given = {name: value for name, value in {**GIVEN, **CHANGED}.items() if name in template["Parameters"]}
    resources = {
        i: _without_code(resource) | ({"Condition": resource["Condition"]} if "Condition" in resource else {})
        for i, resource in _plain_digest(template)["Resources"].items()
        if resource["Type"] in MADE and resource["Properties"].get("Handler") != "index.handler"
    }
    for resource in resources.values():
        resource["Properties"].pop("SnapStart", None)  # moto cannot read a property that a condition leaves out
        resource["Properties"].pop("VpcConfig", None)
    kept = {key: template[key] for key in ("Parameters", "Conditions")}
    with mock_aws():
        session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name=REGION)
        session.client("cloudformation").create_stack(
            StackName="fleetwright-prod",
            TemplateBody=json.dumps({**kept, "Resources": resources}),
            Parameters=_parameters(given),
            Capabilities=["CAPABILITY_IAM"],
        )
        functions = session.client("lambda").list_functions()["Functions"]
        for function in functions:
            settings = Settings.from_environment(function["Environment"]["Variables"])
            stated = (
                settings.cluster_name,
                settings.poll_seconds,
                settings.options().feature_gates.spot_to_spot_consolidation,
            )
            if stated != ("prod", 7, True):
                raise AssertionError(f"{function['Handler']} has {stated}")
    if not functions:
        raise AssertionError("moto has made no function")


def in_ministack(template: dict[str, Any], folder: Path, work: Path) -> str:
    """Deploy the template with the release's zips, change a setting, and look for a new version behind each alias."""
    try:
        program = install(stacks.ROOT / "build" / "ministack")
    except NotInstalledError as error:
        return f"not deployed: {error}"
    body = json.loads(json.dumps(template))
    stacks._allow_plain_http(body)
    left_out = stacks.without(body, LACKING)
    given = {name: value for name, value in GIVEN.items() if name in body["Parameters"]} | {
        "ClusterName": "fleetwright"
    }
    with MiniStack(program, work / "ministack"):
        client("logs").create_log_group(logGroupName="/aws/eks/fleetwright/cluster")
        _upload(body, folder / "lambda", given)
        _deployed(body, given, "create_stack", "CREATE_COMPLETE")
        before = _versions()
        _deployed(body, {**given, **CHANGED}, "update_stack", "UPDATE_COMPLETE")
        after, alarms = _versions(), client("cloudwatch").describe_alarms()["MetricAlarms"]
        _deployed(body, {**given, **CHANGED, "LogRetentionDays": "90"}, "update_stack", "UPDATE_COMPLETE")
        kept = _versions()
    if set(before) != set(after) or any(before[name] == after[name] for name in before):
        raise AssertionError(f"a changed setting published no version: {before}, then {after}")
    if not alarms or any(alarm["AlarmActions"] != [TOPIC] for alarm in alarms):
        raise AssertionError(f"alarms go to {sorted({str(alarm['AlarmActions']) for alarm in alarms})}")
    if kept != after:
        raise AssertionError(f"another retention of logs published versions: {after}, then {kept}")
    return (
        f"MiniStack creates {len(body['Resources'])} resources without CDK's bootstrap, and a changed setting publishes "
        f"{len(after)} versions (left out: {sum(left_out.values())} of {', '.join(sorted(left_out))})"
    )


def _plain_digest(template: dict[str, Any]) -> dict[str, Any]:
    """The template with a text for the digest, which moto would need a running function for."""
    written = json.dumps({"Fn::GetAtt": [DIGEST, "Digest"]})
    return dict(json.loads(json.dumps(template).replace(written, '"digest"')))


def _parameters(given: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()]


def _upload(template: dict[str, Any], zips: Path, given: Mapping[str, str]) -> None:
    """Put the release's zips where the template looks for them, as docs/how-to/install-from-a-release.md says."""
    s3, prefix = client("s3"), template["Parameters"]["CodePrefix"]["Default"]
    s3.create_bucket(Bucket=given["CodeBucket"])
    for path in sorted(zips.glob("*.zip")):
        s3.put_object(Bucket=given["CodeBucket"], Key=f"{prefix}{path.name}", Body=path.read_bytes())


def _deployed(template: dict[str, Any], given: Mapping[str, str], call: str, wanted: str) -> None:
    cloudformation, name = client("cloudformation"), "fleetwright-fleetwright"
    client("s3").put_object(Bucket=given["CodeBucket"], Key="template.json", Body=json.dumps(template).encode())
    getattr(cloudformation, call)(
        StackName=name,
        TemplateURL=f"{ENDPOINT}/{given['CodeBucket']}/template.json",
        Parameters=_parameters(given),
        Capabilities=["CAPABILITY_IAM"],
    )
    end = time.monotonic() + 300
    while (status := cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]).endswith(
        "IN_PROGRESS"
    ):
        if time.monotonic() > end:
            break
        time.sleep(0.5)
    if status != wanted:
        events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        says = [
            f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}"
            for e in events
            if "FAILED" in e["ResourceStatus"]
        ]
        raise AssertionError(f"{call}: {status}: {says[:5]}")


def _versions() -> dict[str, str]:
    """Function → the version behind its alias."""
    functions = [f for f in client("lambda").list_functions()["Functions"] if f["Handler"].startswith("lambdas.")]
    return {
        f["FunctionName"]: client("lambda").get_alias(FunctionName=f["FunctionName"], Name="live")["FunctionVersion"]
        for f in functions
    }
