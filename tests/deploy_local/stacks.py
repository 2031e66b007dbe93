"""Deploys the synthesized templates to the emulator, without what it lacks, and with the sources as the functions' code."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from tests.deploy_local.emulator import ACCOUNT, CLUSTER, ENDPOINT, client
from tests.deploy_local.surroundings import IMAGE, NODE_ROLE, Surroundings

ROOT: Final = Path(__file__).parents[2]
STACKS: Final = ("fleetwright", "fleetwright-fleetwright-state", "fleetwright-fleetwright")
LACKING: Final = (
    "AWS::CodeDeploy::Application",
    "AWS::CodeDeploy::DeploymentConfig",
    "AWS::CodeDeploy::DeploymentGroup",
    "AWS::EKS::AccessEntry",
    "AWS::Scheduler::Schedule",
    "Custom::FirstMarket",
)
"""Types that the emulator's CloudFormation does not make, the reading of a market that it does not have, and the schedules: the
play invokes what it needs, and nothing else."""

BUCKET, KEY = "code", "functions.zip"
_PACKAGES: Final = ("core", "adapters", "lambdas", "installation")


def account() -> None:
    """Make what an account has before the stacks come: a network, a cluster, a role of nodes, an image, CDK's version."""
    ec2, iam = client("ec2"), client("iam")
    default = ec2.describe_subnets()["Subnets"]  # the emulator gives any other subnet 251 free addresses
    vpc, subnets = default[0]["VpcId"], [subnet["SubnetId"] for subnet in default]
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    ec2.create_tags(Resources=[*subnets, group], Tags=[{"Key": "karpenter.sh/discovery", "Value": CLUSTER}])
    principal = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [principal]})
    for role in (NODE_ROLE, "cluster"):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
    network = {"subnetIds": subnets, "securityGroupIds": [group]}
    role_arn = f"arn:aws:iam::{ACCOUNT}:role/cluster"
    client("eks").create_cluster(name=CLUSTER, version="1.35", roleArn=role_arn, resourcesVpcConfig=network)
    ec2.register_image(Name=IMAGE, Architecture="x86_64", VirtualizationType="hvm", RootDeviceName="/dev/xvda")
    client("logs").create_log_group(logGroupName=f"/aws/eks/{CLUSTER}/cluster")
    client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True)


def upload_code() -> None:
    """Put the functions' sources where the templates look for them; dependencies come from the environment of the project."""
    data, s3 = io.BytesIO(), client("s3")
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (path for package in _PACKAGES for path in sorted((ROOT / package).rglob("*"))):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=data.getvalue())


def deploy(templates: dict[str, dict[str, Any]], around: Surroundings) -> dict[str, Any]:
    """Deploy every stack; return what was made of each, and which types were left out."""
    made: dict[str, Any] = {}
    left_out = fit(templates, around)
    for name in STACKS:
        made[name] = _deployed("create_stack", name, templates[name])
    return {"stacks": made, "leftOut": dict(sorted(left_out.items()))}


def fit(templates: dict[str, dict[str, Any]], around: Surroundings) -> Counter[str]:
    """Make the templates ones that the emulator takes; return how many resources of which type were left out."""
    for name in STACKS:
        _allow_plain_http(templates[name])
    template = templates[STACKS[-1]]
    counted = without(template, LACKING)
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function" and resource["Properties"]["Handler"].startswith("lambdas."):
            _run_from_sources(resource["Properties"], around)
    return counted


def without(template: dict[str, Any], lacking: Collection[str]) -> Counter[str]:
    """Drop resources of these types and all that refer to them; return how many of which type were dropped."""
    resources = template["Resources"]
    gone = {i for i, r in resources.items() if r["Type"] in lacking or _has_metric_math(r)}
    while more := {i for i, r in resources.items() if i not in gone and _names(r.get("Properties"), gone)}:
        gone |= more
    counted = Counter(str(resources[i]["Type"]) for i in gone)
    for logical in gone:
        del resources[logical]
    for resource in resources.values():
        resource.pop("UpdatePolicy", None)
        depends = resource.pop("DependsOn", [])
        kept = [one for one in ([depends] if isinstance(depends, str) else depends) if one not in gone]
        if kept:
            resource["DependsOn"] = kept
        if resource["Type"] == "AWS::Logs::SubscriptionFilter":
            resource["Properties"]["FilterPattern"] = (
                ""  # the emulator reads a JSON pattern as words that must all occur
            )
    for name in [name for name, output in template.get("Outputs", {}).items() if _names(output, gone)]:
        del template["Outputs"][name]
    return counted


def _run_from_sources(function: dict[str, Any], around: Surroundings) -> None:
    function["Code"] = {"S3Bucket": BUCKET, "S3Key": KEY}
    site = next((ROOT / ".venv" / "lib").glob("python3*/site-packages"))
    variables = function.setdefault("Environment", {}).setdefault("Variables", {})
    variables |= {"PYTHONPATH": str(site), "SSL_CERT_FILE": str(around.ca)}
    variables.pop(
        "ZONAL_SHIFT_CLUSTER_ARN", None
    )  # the emulator has no such service, and an unreadable brake is engaged
    if function["Handler"].endswith("refresh_catalogue.handler"):
        variables |= {f"AWS_ENDPOINT_URL_{service}": around.market for service in ("EC2", "PRICING", "SERVICE_QUOTAS")}


def _allow_plain_http(template: dict[str, Any]) -> None:
    """Drop the statements that demand TLS: the emulator is asked over plain HTTP."""
    resources = template["Resources"]
    for logical, resource in list(resources.items()):
        document = resource.get("Properties", {}).get("PolicyDocument")
        if document and resource["Type"].endswith(("BucketPolicy", "QueuePolicy", "TopicPolicy")):
            document["Statement"] = [s for s in document["Statement"] if "aws:SecureTransport" not in json.dumps(s)]
            if not document["Statement"]:
                del resources[logical]


def _has_metric_math(resource: dict[str, Any]) -> bool:
    return resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]


def _names(value: Any, names: set[str]) -> bool:
    """Whether a part of a template refers to one of these resources."""
    if isinstance(value, list):
        return any(_names(inner, names) for inner in value)
    if not isinstance(value, dict):
        return False
    got = value.get("Fn::GetAtt")
    direct = value.get("Ref"), got[0] if isinstance(got, list) else got
    return any(isinstance(one, str) and one in names for one in direct) or any(_names(v, names) for v in value.values())


def update(template: dict[str, Any]) -> dict[str, Any]:
    """Update the functions' stack to this template, as a release or its roll-back does."""
    return _deployed("update_stack", STACKS[-1], template)


def _deployed(how: str, name: str, template: dict[str, Any]) -> dict[str, Any]:
    cloudformation = client("cloudformation")
    client("s3").put_object(Bucket=BUCKET, Key=f"{name}.json", Body=json.dumps(template).encode())
    url = f"{ENDPOINT}/{BUCKET}/{name}.json"
    capabilities = ["CAPABILITY_NAMED_IAM"]
    more = {"DisableRollback": True} if how == "create_stack" else {}
    getattr(cloudformation, how)(StackName=name, TemplateURL=url, Capabilities=capabilities, **more)
    while True:
        status = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        if not status.endswith("IN_PROGRESS"):
            break
        time.sleep(0.5)
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    failed = [
        f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}" for e in events if "FAILED" in e["ResourceStatus"]
    ]
    return {"status": status, "resources": len(template["Resources"]), "failed": failed}
