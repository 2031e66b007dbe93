"""Writes the CloudFormation templates of a release: one stack each, with parameters, and without the CDK's bootstrap.

A template serves every cluster. It is synthesized for invented names, and parameters then take their places. What decides which
resources there are is a template of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.inline_function import InlineProgram, inline_function
from infra.context import clusters
from infra.packaging.bundles import BUNDLES
from infra.packaging.dependencies import ROOT
from infra.provisioner import ProvisionerStack
from infra.release import parameters, settings_digest
from infra.release.rewriting import merged, references, with_parameters
from infra.release.version import Version
from infra.state import StateStack
from installation.stack_names import SLUG_MAX

CLUSTER, REGION, EMAIL = "Zqcluster".ljust(SLUG_MAX, "q"), "zq-southeast-7", "zq@example.invalid"
VPC, SUBNET, GROUP = "vpc-0a0a0a0a", "subnet-0a0a0a0a", "sg-0a0a0a0a"
NODE_ROLE, BUCKET, PREFIX = "Zqnoderole".ljust(64, "q"), "zq-bucket", "zq-prefix/"
APPROVALS, COMMANDS = (f"arn:aws:sns:{REGION}:123456789012:zq-{of}" for of in ("approvals", "commands"))

INVENTED: Final[Mapping[str, str]] = {
    CLUSTER: "ClusterName",
    REGION: "AWS::Region",
    EMAIL: "AlarmEmail",
    APPROVALS: "ApprovalTopicArn",
    COMMANDS: "CommandTopicArn",
    NODE_ROLE: "NodeRole",
    BUCKET: "CodeBucket",
    PREFIX: "CodePrefix",
    VPC: "VpcId",
    SUBNET: "SubnetIds",
    GROUP: "ClusterSecurityGroup",
}
"""What the synthesis gets → the parameter in its place. The names are as long as allowed: the CDK splits a role's policy by
its length, and IAM refuses one that is too long."""

NOT_A_SETTING: Final = frozenset(
    {*parameters.CLUSTER, *parameters.CODE, "AlarmEmail", "AuditLogSubscription", "CanaryMinutes", "LogRetentionDays"}
)
"""Parameters that change nothing a function does: they publish no version."""

TEMPLATE_BYTES_MAX: Final = 1_000_000
"""CloudFormation reads no larger template from a bucket."""

_ABSENT: Final = {"Ref": "AWS::NoValue"}
_DIGEST: Final = "SettingsDigest"
_HASH: Final = 8
"""Characters of the hash with which the CDK ends an id."""

_RENAMED: Final = {
    f"ClusterAccessnodes{NODE_ROLE}": "NodeAccessEntry",
    "AlarmsTopiczqexampleinvalid": "AlarmSubscription",
}
"""Ids in which the CDK writes what is a parameter here. Nothing refers to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A template: the context that decides its shape."""

    name: str
    says: str
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """The mode of the functions, which the template fixes."""
        return str(self.context.get("mode", "act"))


VARIANTS: Final = (
    Variant(name="fleetwright", says="acts by itself"),
    Variant(
        name="fleetwright-approve",
        says="commands beyond a bound wait for approval",
        context={"mode": "approve"},
    ),
    Variant(
        name="fleetwright-private",
        says="acts by itself, beside a private API server",
        context={"vpc": {"id": VPC, "subnets": [SUBNET], "clusterSecurityGroup": GROUP}},
    ),
    Variant(
        name="fleetwright-shadow",
        says="observes and records, and may do nothing",
        context={"mode": "shadow"},
    ),
)


def templates(version: Version, digests: Mapping[str, str], folder: Path) -> dict[str, dict[str, Any]]:
    """Return name → template, of every variant.

    Args:
        version: The release.
        digests: Bundle → digest of its contents.
        folder: Where the synthesis may write.
    """
    return {variant.name: template_of(variant, version, digests, folder / variant.name) for variant in VARIANTS}


def zip_name(bundle: str, version: Version, digest: str) -> str:
    """Return the name of a bundle's zip. Another content has another name: Lambda notices no new zip under an old one."""
    return f"fleetwright-{bundle}-{version.text}-{digest[:12]}.zip"


def template_of(variant: Variant, version: Version, digests: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return the template of one variant."""
    stack, state = _synthesized(variant, version, digests, folder)
    together = merged(stack, state)
    resources = {_RENAMED.get(i[:-_HASH], i): resource for i, resource in together["Resources"].items()}
    template = with_parameters({**together, "Resources": resources}, INVENTED)
    template.pop("Rules", None)
    _fill_in(template, variant)
    template["Resources"] = _with_topics(template["Resources"])
    return _described(template, variant, version)


def _synthesized(
    variant: Variant, version: Version, digests: Mapping[str, str], folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    own_context = {
        "cluster": CLUSTER,
        "region": REGION,
        "nodeRoles": NODE_ROLE,
        "alarmEmail": EMAIL,
        "shareCapacity": False,
    }
    # Roles may read what a parameter can ask for: alarms that pause, and the decisions that a forecast learns from.
    readings = {"pausingAlarms": ["zq-alarm"], "forecast": "on"}
    topics = {"approvalTopicArn": APPROVALS, "commandTopicArn": COMMANDS}
    offered = {
        key: arn for key, arn in topics.items() if key[0].upper() + key[1:] in parameters.settings_of(variant.mode)
    }
    context = {**own_context, **readings, **offered, "nodeAccessEntries": True, "snapStart": False, **variant.context}
    (config,) = clusters(context, account=None, region=None)
    app = cdk.App(
        outdir=str(folder),
        context=flags,
        default_stack_synthesizer=cdk.DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
    )
    environment = cdk.Environment(region=REGION)
    state = StateStack(app, "State", stack_name=config.state_stack_name, env=environment)
    stack = ProvisionerStack(
        app,
        "Fleetwright",
        config=config,
        state=state,
        shared=None,
        is_packaged=True,
        code=lambda scope: _code(scope, version, digests),
        stack_name=config.stack_name,
        env=environment,
    )
    _add_digest(stack, config.log_retention_days)
    app.synth()
    written = [json.loads((folder / f"{name}.template.json").read_text()) for name in ("Fleetwright", "State")]
    return written[0], written[1]


def _code(scope: Construct, version: Version, digests: Mapping[str, str]) -> dict[str, lambda_.Code]:
    bucket = s3.Bucket.from_bucket_name(scope, "Code", BUCKET)
    return {
        bundle.name: lambda_.Code.from_bucket(bucket, PREFIX + zip_name(bundle.name, version, digests[bundle.name]))
        for bundle in BUNDLES
    }


def _add_digest(stack: cdk.Stack, log_retention_days: int) -> None:
    """Add the custom resource that turns all settings into a text short enough for a version's description."""
    scope = Construct(stack, "Settings")
    program = InlineProgram(
        module=settings_digest,
        description="Fleetwright: digests the settings of this stack, so that a new one publishes a version",
        role_name="dropped",
        may="Fleetwright settings: writes its log, and nothing else",
        timeout=cdk.Duration.minutes(1),
        log_retention_days=log_retention_days,
    )
    caller = inline_function(scope, "Digest", program, statements=[])
    made = cdk.CustomResource(scope, "Settings", resource_type=f"Custom::{_DIGEST}", service_token=caller.function_arn)
    made.node.add_dependency(caller.grant_principal)
    if isinstance(resource := made.node.default_child, cdk.CfnResource):
        resource.override_logical_id(_DIGEST)


def _fill_in(template: dict[str, Any], variant: Variant) -> None:
    """Let parameters say what the context says in a checkout."""
    resources = template["Resources"]
    for resource in resources.values():
        resource.pop("Metadata", None)
        kind, properties = resource["Type"], resource.get("Properties", {})
        if kind == "AWS::IAM::Role":
            properties.pop("RoleName", None)  # with a region and a function in it, it is too long for most clusters
        elif kind == "AWS::Logs::LogGroup":
            properties["RetentionInDays"] = {"Ref": "LogRetentionDays"}
        elif kind == "AWS::SNS::Subscription":
            resource["Condition"] = "HasAlarmEmail"
        elif kind == "AWS::Logs::SubscriptionFilter":
            resource["Condition"] = "ReadsAuditLog"
        elif kind == "AWS::EKS::AccessEntry" and properties["Type"] == "EC2_LINUX":
            resource["Condition"] = "HasNodeAccessEntries"
        elif kind == "AWS::CodeDeploy::DeploymentConfig":
            routing = properties["TrafficRoutingConfig"]["TimeBasedCanary"]
            routing["CanaryInterval"] = {"Fn::If": ["UpdatesAtOnce", 1, {"Ref": "CanaryMinutes"}]}
        elif kind == "AWS::CodeDeploy::DeploymentGroup":
            _let_update_at_once(properties)
        elif kind == "AWS::Lambda::Version":
            properties["Description"] = {"Fn::GetAtt": [_DIGEST, "Digest"]}
            _fill_in_function(resources[properties["FunctionName"]["Ref"]]["Properties"], variant)
    template["Conditions"] = _conditions()


def _let_update_at_once(group: dict[str, Any]) -> None:
    """Move all work at once and watch no alarm if the canary has no minutes (infra.constructs.gradual_update)."""
    events = group["AutoRollbackConfiguration"]["Events"]
    chosen = {
        "DeploymentConfigName": "CodeDeployDefault.LambdaAllAtOnce",
        "AlarmConfiguration": {"Alarms": [], "Enabled": False},
        "AutoRollbackConfiguration": {
            "Enabled": True,
            "Events": [event for event in events if event != "DEPLOYMENT_STOP_ON_ALARM"],
        },
    }
    for name, at_once in chosen.items():
        group[name] = {"Fn::If": ["UpdatesAtOnce", at_once, group[name]]}


def _fill_in_function(function: dict[str, Any], variant: Variant) -> None:
    variables = function["Environment"]["Variables"]
    for name, variable in parameters.settings_of(variant.mode).items():
        variables[variable] = {"Ref": name}
    if "ZONAL_SHIFT_CLUSTER_ARN" in variables:
        chosen = ["FollowsZonalShift", variables["ZONAL_SHIFT_CLUSTER_ARN"], _ABSENT]
        variables["ZONAL_SHIFT_CLUSTER_ARN"] = {"Fn::If": chosen}
    variables["PAUSING_ALARMS"] = {"Fn::Join": ["\n", {"Ref": "PausingAlarms"}]}
    variables["SETTINGS_DIGEST"] = {"Fn::GetAtt": [_DIGEST, "Digest"]}
    # With a snapshot, botocore must not put the account into DynamoDB's name (infra.constructs.function).
    variables["AWS_ACCOUNT_ID_ENDPOINT_MODE"] = {"Fn::If": ["UsesSnapStart", "disabled", _ABSENT]}
    function["SnapStart"] = {"Fn::If": ["UsesSnapStart", {"ApplyOn": "PublishedVersions"}, _ABSENT]}


def _with_topics(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Let a topic that a parameter names take the place of the stack's own; one that none names is left out."""
    (topic,) = (i for i, resource in resources.items() if resource["Type"] == "AWS::SNS::Topic")
    alarms = {"Fn::If": ["HasAlarmTopic", {"Ref": "AlarmTopicArn"}, {"Ref": topic}]}
    approvals = {"Fn::If": ["HasApprovalTopic", {"Ref": "ApprovalTopicArn"}, alarms]}

    def chosen(part: Any) -> Any:
        if part == {"Ref": topic}:
            return alarms
        if part == {"Ref": "ApprovalTopicArn"}:
            return approvals
        if isinstance(part, list):
            return [_if_announced(value, chosen(value)) for value in part]
        return {key: chosen(value) for key, value in part.items()} if isinstance(part, dict) else part

    made = {"AWS::SNS::Topic", "AWS::SNS::TopicPolicy"}
    return {
        i: {**resource, "Condition": "MakesAlarmTopic"} if resource["Type"] in made else chosen(resource)
        for i, resource in resources.items()
    }


def _if_announced(entry: Any, written: Any) -> Any:
    """Return an entry of a list; if it is the topic of commands, or a statement about it alone, only with such a topic."""
    topic = {"Ref": "CommandTopicArn"}
    is_about_it = entry == topic or (isinstance(entry, dict) and entry.get("Resource") == topic)
    return {"Fn::If": ["HasCommandTopic", written, _ABSENT]} if is_about_it else written


def _conditions() -> dict[str, Any]:
    def is_true(name: str) -> dict[str, Any]:
        return {"Fn::Equals": [{"Ref": name}, "true"]}

    def is_given(name: str) -> dict[str, Any]:
        return {"Fn::Not": [{"Fn::Equals": [{"Ref": name}, ""]}]}

    return {
        "FollowsZonalShift": is_true("FollowZonalShift"),
        "HasAlarmEmail": is_given("AlarmEmail"),
        "HasAlarmTopic": is_given("AlarmTopicArn"),
        "HasApprovalTopic": is_given("ApprovalTopicArn"),
        "HasCommandTopic": is_given("CommandTopicArn"),
        "HasNodeAccessEntries": is_true("NodeAccessEntries"),
        "MakesAlarmTopic": {"Fn::Equals": [{"Ref": "AlarmTopicArn"}, ""]},
        "ReadsAuditLog": is_true("AuditLogSubscription"),
        "UpdatesAtOnce": {"Fn::Equals": [{"Ref": "CanaryMinutes"}, 0]},
        "UsesSnapStart": is_true("SnapStart"),
    }


def _described(template: dict[str, Any], variant: Variant, version: Version) -> dict[str, Any]:
    """Add parameters with their groups and the template's description, and drop what nothing uses."""
    code = {
        **parameters.CODE,
        "CodePrefix": {**parameters.CODE["CodePrefix"], "Default": f"fleetwright/{version.text}/"},
    }
    settings = {name: parameters.declared_settings()[name] for name in parameters.settings_of(variant.mode)}
    groups = {
        "Cluster": parameters.CLUSTER,
        "Network": parameters.NETWORK if "vpc" in variant.context else {},
        "Code": code,
        "Alarms, logs and updates": parameters.OPERATION,
        "Settings of the functions": settings,
    }
    declared = {name: stated for group in groups.values() for name, stated in group.items()}
    conditions = _used(template["Conditions"], template["Resources"])
    wanted = references(template["Resources"]) | references(conditions)
    declared = {name: stated for name, stated in declared.items() if name in wanted}
    digest = template["Resources"][_DIGEST]["Properties"]
    digest |= {name: {"Ref": name} for name in declared if name not in NOT_A_SETTING}
    listed = [
        {"Label": {"default": label}, "Parameters": [name for name in group if name in declared]}
        for label, group in groups.items()
        if group
    ]
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Fleetwright {version.text}: {variant.says}",
        "Metadata": {"AWS::CloudFormation::Interface": {"ParameterGroups": listed}},
        "Parameters": declared,
        "Conditions": conditions,
        "Resources": template["Resources"],
        "Outputs": template.get("Outputs", {}),
    }


def _used(conditions: Mapping[str, Any], resources: Mapping[str, Any]) -> dict[str, Any]:
    written = json.dumps(resources)
    named = {resource.get("Condition") for resource in resources.values()}
    return {name: stated for name, stated in conditions.items() if name in named or f'"Fn::If": ["{name}"' in written}
