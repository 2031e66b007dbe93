"""The call sites of the campaign, beside what the functions are permitted to call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from installation.cluster_roles import RULES_OF, verbs
from simulator.campaign.crashes import recorded

PERMISSIONS: Final = Path(__file__).parents[2] / "docs" / "reference" / "permissions.md"

CALLED_OTHERWISE: Final = {
    "sqs:SendMessage": "sqs:SendMessageBatch",
    "servicequotas:ListServiceQuotas": "service-quotas:ListServiceQuotas",
}
"""Action → the call that it permits, if their names differ."""

OF_OTHER_CALLS: Final = frozenset(
    {
        "dynamodb:ConditionCheckItem",
        "dynamodb:DeleteItem",
        "dynamodb:UpdateItem",
        "ec2:CreateTags",
        "ec2:RunInstances",
        "eks:DescribeCluster",
        "iam:PassRole",
        "iam:TagInstanceProfile",
        "s3:ListBucket",
    }
)
"""Actions that AWS also asks for as parts of other calls, such as transactions and launches, or to connect to the cluster."""

_UNDIVIDED: Final = "no recorded world divides its consolidation; test_distributed_parts.py plays these calls"

NOT_PLAYED: Final = {
    "decide_part s3:GetObject": _UNDIVIDED,
    "decide_part s3:PutObject": _UNDIVIDED,
    "states:DescribeExecution": _UNDIVIDED,
    "states:StartExecution": _UNDIVIDED,
    "ec2:DeleteLaunchTemplate": "launch templates are deleted weeks after their last use",
    "ec2:DescribePlacementGroups": "no world has placement groups",
    "iam:DeleteInstanceProfile": "instance profiles are deleted days after their last use",
    "iam:RemoveRoleFromInstanceProfile": "instance profiles are deleted days after their last use",
    "scheduler:GetSchedule": "asked for only if a schedule exists already",
    "scheduler:UpdateSchedule": "asked for only if a schedule exists already",
    "sns:Publish": "no command waits for an approval",
}
"""An action, of one function or of all → why no recorded world calls it."""

LISTED_ON_DEMAND: Final = frozenset(
    {
        *("podtemplates", "replicationcontrollers", "services", "replicasets", "statefulsets"),
        *("limitranges", "runtimeclasses"),
        *("podgroups", "workloads", "leaderworkersets", "jobsets"),
        *("provisioningrequests", "provisioningrequests/status"),
    }
)
"""Kinds that are read only with default spreading, where a template must become a pod, where a pod names such a group, or where
the cluster serves ProvisioningRequests, of which a status is written too."""


def test_every_permitted_call_to_aws_is_a_call_site_or_says_why_not() -> None:
    """If this failed, a change could add a call that no world of the campaign makes, and no function would ever die at it."""
    permitted = {(function, action) for function, action in _actions() if action not in OF_OTHER_CALLS}
    sites = recorded().sites()
    left_out = {
        (function, action)
        for function, action in permitted
        if (function, CALLED_OTHERWISE.get(action, action)) not in sites
    }
    explained = {(f, a) for f, a in left_out if a in NOT_PLAYED or f"{f} {a}" in NOT_PLAYED}
    assert left_out - explained == set()
    assert NOT_PLAYED.keys() == {name for f, a in explained for name in (a, f"{f} {a}") if name in NOT_PLAYED}


def test_every_permitted_call_to_the_cluster_is_a_call_site_or_says_why_not() -> None:
    """If this failed, a change could add a call to the cluster at which no function would ever die."""
    sites = {
        (function, call.split()[0], call.split()[1].partition("/")[0])
        for function, call in recorded().sites()
        if " " in call
    }
    permitted = {
        (function, f"kube:{verb}", resource.partition("/")[0])
        for function, rules in RULES_OF.items()
        for _, resource, verb in verbs(rules)
        if resource not in LISTED_ON_DEMAND
    }
    assert permitted - sites == {
        ("reconcile", "kube:get", "ec2nodeclasses"),
        ("reconcile", "kube:get", "nodeclaims"),  # of those made by hand, which test_rare_courses.py has
        ("reconcile", "kube:patch", "nodeoverlays"),  # of overlays with unknown fields, which no world has
    }


def _actions() -> set[tuple[str, str]]:
    """Return each function with the actions that its role permits, as the page of permissions has them."""
    actions: set[tuple[str, str]] = set()
    function = ""
    for text in PERMISSIONS.read_text(encoding="utf-8").splitlines():
        if text.startswith("## "):
            function = text.removeprefix("## ")
        elif (row := re.fullmatch(r"\| `([\w-]+:\w+)` \|.*\| ([^|]*) \|", text)) and row[2] != "by Lambda":
            actions.add((function, row[1]))
    return actions
