"""Several clusters from one app: nothing of one has the name of something of another, and each keeps to its own."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.infra.conftest import synthesize

pytestmark = pytest.mark.slow  # `make lint-templates` runs it: twelve stacks take as long as all other tests here

ACCOUNT = "111111111111"
CLUSTERS = [
    {"cluster": "shop", "region": "us-east-1"},
    {"cluster": "shop", "region": "eu-west-1"},
    {"cluster": "my_shop", "region": "us-east-1"},
    {"cluster": "my-shop", "region": "us-east-1"},
    {"cluster": f"{'x' * 60}-1", "region": "us-east-1"},
    {"cluster": f"{'x' * 60}-2", "region": "us-east-1"},
]

NAMED = {
    "AWS::IAM::Role": ("RoleName", False),
    "AWS::CloudWatch::Dashboard": ("DashboardName", False),
    "AWS::CloudWatch::Alarm": ("AlarmName", True),
    "AWS::Scheduler::ScheduleGroup": ("Name", True),
    "AWS::SSM::Parameter": ("Name", True),
}
"""Kind → the property with its name, and whether another region may have the same."""


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return synthesize(tmp_path_factory.mktemp("several"), {"account": ACCOUNT, "clusters": CLUSTERS})


def test_each_cluster_has_two_stacks(templates: dict[str, dict[str, Any]]) -> None:
    assert len(templates) == 2 * len(CLUSTERS)


def test_no_two_things_have_one_name(templates: dict[str, dict[str, Any]]) -> None:
    """Otherwise, the second deployment would fail, or show the other cluster's nodes on the dashboard."""
    names: Counter[tuple[str, str, str]] = Counter()
    for stack, template in templates.items():
        region = "eu-west-1" if "eu-west-1" in stack else "us-east-1"
        for resource in template["Resources"].values():
            field, is_regional = NAMED.get(resource["Type"], ("", False))
            if field in resource.get("Properties", {}):
                names[resource["Type"], region if is_regional else "", str(resource["Properties"][field])] += 1
    assert {kind for kind, _, _ in names} == set(NAMED)
    assert [name for name, number in names.items() if number > 1] == []
    assert max(len(name) for kind, _, name in names if kind == "AWS::IAM::Role") <= 64


def test_each_may_end_only_what_is_its_own(templates: dict[str, dict[str, Any]]) -> None:
    ends = [
        statement["Condition"]["StringEquals"]["aws:ResourceTag/eks:eks-cluster-name"]
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::IAM::Policy"
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
        if "ec2:TerminateInstances" in json.dumps(statement["Action"])
    ]
    assert sorted(ends) == sorted(cluster["cluster"] for cluster in CLUSTERS)
