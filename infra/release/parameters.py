"""The parameters of a release's templates: the context of `cdk.json`, as far as it leaves the template's shape alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from infra.config import CANARY_MINUTES_MAX, RETENTION_DAYS
from infra.context import SETTINGS
from installation.settings import Settings
from installation.stack_names import SLUG_MAX

Parameter = Mapping[str, Any]

TRUTHS: Final = ["true", "false"]

MODES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("ApprovalTopicArn", "ApproveAboveDollars", "ApproveAboveNodes", "ApproveNamespaces"), ("approve",)
    ),
    "CommandTopicArn": ("act", "approve"),
}
"""Settings that only the templates of these modes have."""

_SHAPES: Final = {"mode", "distribute_from"}
"""Settings that decide which resources there are: each value of `mode` has its own template, none has a state machine."""

_TOPICS: Final = {"approval_topic_arn", "command_topic_arn"}

_TOPIC_ARN: Final = {
    "AllowedPattern": r"^(arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?)?$",
    "ConstraintDescription": "the ARN of an SNS topic, or nothing",
}


def _flag(default: str, says: str) -> Parameter:
    return {"Type": "String", "Default": default, "AllowedValues": TRUTHS, "Description": says}


CLUSTER: Final[Mapping[str, Parameter]] = {
    "ClusterName": {
        "Type": "String",
        "AllowedPattern": rf"^(?!.*-state$)[0-9A-Za-z][0-9A-Za-z-]{{0,{SLUG_MAX - 1}}}$",
        "ConstraintDescription": f"at most {SLUG_MAX} letters, digits and -, and not -state at the end",
        "Description": "The name of the EKS cluster. Name the stack fleetwright-CLUSTER: the command line looks for it",
    },
    "NodeRole": {
        "Type": "String",
        "AllowedPattern": r"^([a-zA-Z0-9_+=,.@-]+/)*[a-zA-Z0-9_+=,.@-]{1,64}$",
        "ConstraintDescription": "the name of an IAM role, behind its path if it has one; not an ARN",
        "Description": "The IAM role of nodes, with its path if it has one: the only role that instances may get",
    },
    "NodeAccessEntries": _flag(
        "false", "Whether the stack creates the access entry with which nodes of that role join"
    ),
}

CODE: Final[Mapping[str, Parameter]] = {
    "CodeBucket": {
        "Type": "String",
        "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "Description": "A bucket in the stack's region that holds the functions' zips",
    },
    "CodePrefix": {
        "Type": "String",
        "AllowedPattern": "^([a-zA-Z0-9!_.*'()-]+/)*$",
        "ConstraintDescription": "a folder of the bucket with a slash at its end, or nothing",
        "Description": "The folder of the zips in that bucket, with a slash at its end",
    },
}

OPERATION: Final[Mapping[str, Parameter]] = {
    "AlarmEmail": {
        "Type": "String",
        "Default": "",
        "AllowedPattern": r"^([^@\s]+@[^@\s]+)?$",
        "Description": "An address that gets alarms; empty: none",
    },
    "AlarmTopicArn": {
        "Type": "String",
        "Default": "",
        **_TOPIC_ARN,
        "Description": "The SNS topic, in the stack's region, that alarms are sent to; empty: the stack creates one",
    },
    "AuditLogSubscription": _flag("true", "Whether the control plane's audit log wakes functions; EKS must write it"),
    "LogRetentionDays": {
        "Type": "Number",
        "Default": 30,
        "AllowedValues": list(RETENTION_DAYS),
        "Description": "How long the functions' own logs are kept",
    },
    "PausingAlarms": {
        "Type": "CommaDelimitedList",
        "Default": "",
        "Description": "Names of CloudWatch alarms that pause voluntary disruption while one is in ALARM",
    },
    "FollowZonalShift": _flag("true", "Whether zonal shifts of the cluster pause voluntary disruption"),
    "CanaryMinutes": {
        "Type": "Number",
        "Default": 20,
        "MinValue": 0,
        "MaxValue": CANARY_MINUTES_MAX,
        "Description": "How long a new version shares the work with the old one; 0: it takes all at once, whatever alarms say",
    },
    "SnapStart": _flag("false", "Whether Lambda starts versions from snapshots, which AWS bills; not in every region"),
}

NETWORK: Final[Mapping[str, Parameter]] = {
    "VpcId": {"Type": "AWS::EC2::VPC::Id", "Description": "The cluster's VPC"},
    "SubnetIds": {
        "Type": "List<AWS::EC2::Subnet::Id>",
        "Description": "Private subnets in two zones, with a NAT gateway or endpoints of the services",
    },
    "ClusterSecurityGroup": {
        "Type": "AWS::EC2::SecurityGroup::Id",
        "Description": "The cluster's security group, which the stack opens to the functions",
    },
}


def settings_of(mode: str) -> dict[str, str]:
    """Return parameter → environment variable of the functions, of the settings that this mode's template has."""
    names = {key[0].upper() + key[1:]: field.upper() for key, field in SETTINGS.items() if field not in _SHAPES}
    return {name: field for name, field in names.items() if mode in MODES_OF.get(name, (mode,))}


def declared_settings() -> dict[str, Parameter]:
    """Return every setting as a parameter, with the default and bounds of `Settings`."""
    hints, says = get_type_hints(Settings, include_extras=True), descriptions()
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    return {
        key[0].upper() + key[1:]: {
            **_declared(hints[field], defaults[field]),
            **(_TOPIC_ARN if field in _TOPICS else {}),
            "Description": says[field],
        }
        for key, field in SETTINGS.items()
        if field not in _SHAPES
    }


def descriptions() -> dict[str, str]:
    """Return setting → what the docstring of `Settings` says about it."""
    text = inspect.getdoc(Settings) or ""
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text.partition("Attributes:\n")[2], re.MULTILINE)
    return {name: " ".join(sentence.split()) for name, sentence in entries}


def _declared(hint: Any, default: Any) -> dict[str, Any]:
    """Return the type, default and bounds of a setting as CloudFormation writes them."""
    plain, meta, is_optional = _taken_apart(hint)
    if plain is bool:
        return {"Type": "String", "Default": str(default).lower(), "AllowedValues": TRUTHS}
    if get_origin(plain) is Literal:
        return {"Type": "String", "Default": default, "AllowedValues": list(get_args(plain))}
    if plain is int and not is_optional:
        bounds = {"MinValue": getattr(meta, "ge", None), "MaxValue": getattr(meta, "le", None)}
        return {
            "Type": "Number",
            "Default": default,
            **{key: value for key, value in bounds.items() if value is not None},
        }
    if plain is int:
        return {"Type": "String", "Default": "", "AllowedPattern": "^[0-9]*$"}
    return {"Type": "String", "Default": default}


def _taken_apart(hint: Any) -> tuple[Any, Any, bool]:
    """Return a type without its marks, its bounds, and whether None is allowed."""
    if get_origin(hint) is Annotated:
        base, meta = get_args(hint)
        return base, meta, False
    if type(None) in get_args(hint):
        base, meta, _ = _taken_apart(next(part for part in get_args(hint) if part is not type(None)))
        return base, meta, True
    return hint, None, False
