"""Findings of cdk-nag and cfn-lint that are accepted, each with its reason. An unused row is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple


class Finding(NamedTuple):
    """A rule's finding: `what` begins with the rule's name, `where` is the construct, or the resource in a template."""

    what: str
    where: str


class Acknowledgement(NamedTuple):
    """Why findings stay, patterns of which match all of `what` and `where`."""

    what: str
    where: str
    reason: str


_WILDCARD: Final = r"AwsSolutions-IAM5\[Resource::"
_POLICY: Final = r".*/Role/(DefaultPolicy|OverflowPolicy\d+)/Resource"
"""A role's own policy, and where the toolkit puts the statements that exceed the size of one."""

ACKNOWLEDGED: Final[Sequence[Acknowledgement]] = (
    Acknowledgement(
        rf"{_WILDCARD}arn:<AWS::Partition>:ec2:[a-z0-9-]+:\*:(fleet|instance|volume|network-interface|launch-template"
        r"|spot-instances-request)/\*\]",
        _POLICY,
        "A launched instance has no id before; a condition asks for our cluster's tag and the NodePool's in the request, or on "
        "the resource.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}arn:<AWS::Partition>:ec2:[a-z0-9-]+:\*:(image|snapshot|subnet|security-group|capacity-reservation"
        r"|placement-group)/\*\]",
        _POLICY,
        "An EC2NodeClass chooses among all of the account, as in Karpenter; using one changes nothing in it.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}\*\]",
        _POLICY,
        "Actions that only read and that AWS cannot limit to a resource, limited to the region; and what Lambda needs to keep "
        "a function's interfaces in a VPC, which a Deny keeps from our code.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}arn:<AWS::Partition>:iam::[^:]+:instance-profile/.*\*\]",
        _POLICY,
        "A class' profile is named after the class; making one is limited to a path of the cluster, reading is not, for a "
        "class may name any.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}arn:<AWS::Partition>:ssm:[a-z0-9-]+::parameter/aws/service/\*\]",
        _POLICY,
        "AWS' own public parameters with the ids of images.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}arn:<AWS::Partition>:scheduler:[a-z0-9-]+:[^:]+:schedule/fleetwright-[^/]+/\*\]",
        _POLICY,
        "All schedules of our own group, one for each budget window.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}.*(Bucket|Market).*/(catalogue|ledger/(bases|decisions|outcomes))/\*\]",
        _POLICY,
        "Objects are named when they are written; each function has the prefixes that it uses.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}<UpdateCheck[0-9A-F]+\.Arn>:\*\]",
        ".*/Update/Role/DefaultPolicy/Resource",
        "Versions and aliases of the one function that CodeDeploy asks.",
    ),
    Acknowledgement(
        rf"{_WILDCARD}arn:<AWS::Partition>:codedeploy:[a-z0-9-]+:[^:]+:deploymentgroup:<UpdateApplication[0-9A-F]+>/\*\]",
        ".*/Update/CheckRole/DefaultPolicy/Resource",
        "All deployment groups of our own application, one for each function.",
    ),
    Acknowledgement(
        "AwsSolutions-L1",
        ".*/(Function|Check|Caller)/Resource",
        "The bundles are made for Python 3.13 and the suite runs on it; a newer one is taken when every library has wheels.",
    ),
    Acknowledgement(
        "AwsSolutions-S1",
        ".*-state/Bucket/Resource",
        "It holds public prices and our own decisions; a second bucket with a log of each read would hold more than it.",
    ),
    Acknowledgement(
        "AwsSolutions-S1",
        "fleetwright/Market/Resource",
        "It holds public prices.",
    ),
    Acknowledgement(
        "AwsSolutions-DDB3",
        "fleetwright/Capacity/Resource",
        "Its content is forgotten within hours, and learned again.",
    ),
    Acknowledgement(
        r"AwsSolutions-IAM4\[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited\]",
        ".*/Update/Role/Resource",
        "AWS decides and may change the permissions that CodeDeploy needs; only CodeDeploy in this account may take it.",
    ),
    Acknowledgement(
        "W3005",
        "(?!$).*",
        "The toolkit writes a dependency besides the reference that implies it.",
    ),
)


def unexplained(findings: Iterable[Finding], rows: Sequence[Acknowledgement] = ACKNOWLEDGED) -> list[Finding]:
    """The findings that no row explains."""
    return [finding for finding in findings if not any(_explains(row, finding) for row in rows)]


def idle(findings: Sequence[Finding], rows: Sequence[Acknowledgement] = ACKNOWLEDGED) -> list[Acknowledgement]:
    """The rows that explain none of the findings."""
    return [row for row in rows if not any(_explains(row, finding) for finding in findings)]


def _explains(row: Acknowledgement, finding: Finding) -> bool:
    return bool(re.fullmatch(row.what, finding.what) and re.fullmatch(row.where, finding.where, re.DOTALL))
