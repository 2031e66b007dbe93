"""Several clusters from one app: no two share a name, and each acts on its own resources alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.access.template import actions_of, statements_of
from tests.infra.conftest import synthesize

pytestmark = pytest.mark.slow  # `make lint-templates` runs it: twelve stacks take as long as all other tests here

ACCOUNT = "111111111111"
CLUSTERS = [
    {"cluster": "shop", "region": "us-east-1"},
    {"cluster": "shop", "region": "eu-west-1"},
    {"cluster": "shop-state", "region": "us-east-1"},
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


REGIONS = ("us-east-1", "eu-west-1")


def region_of(stack: str) -> str:
    return "eu-west-1" if "eu-west-1" in stack else "us-east-1"


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return synthesize(tmp_path_factory.mktemp("several"), {"account": ACCOUNT, "clusters": CLUSTERS})


def test_each_cluster_has_two_stacks_and_each_place_one(templates: dict[str, dict[str, Any]]) -> None:
    assert len(templates) == 2 * len(CLUSTERS) + len(REGIONS)
    assert {f"fleetwright-{ACCOUNT}-{region}" for region in REGIONS} <= set(templates)


def test_clusters_of_a_place_learn_of_capacity_together(templates: dict[str, dict[str, Any]]) -> None:
    """A pool that refused one cluster is not asked by the other, and prices are read once: all name one table and bucket."""
    for setting in ("SHARED_TABLE_NAME", "SHARED_BUCKET_NAME"):
        named: dict[str, set[str]] = {region: set() for region in REGIONS}
        for stack, template in templates.items():
            for resource in template["Resources"].values():
                variables = resource.get("Properties", {}).get("Environment", {}).get("Variables", {})
                if setting in variables:
                    named[region_of(stack)].add(json.dumps(variables[setting]))
        assert all(len(found) == 1 for found in named.values()), named


def test_no_two_things_have_one_name(templates: dict[str, dict[str, Any]]) -> None:
    """Otherwise, the second deployment would fail, or show the other cluster's nodes on the dashboard."""
    names: Counter[tuple[str, str, str]] = Counter()
    for stack, template in templates.items():
        region = region_of(stack)
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
        for statement in statements_of(template)
        if "ec2:TerminateInstances" in actions_of(statement)
    ]
    assert sorted(ends) == sorted(cluster["cluster"] for cluster in CLUSTERS)
