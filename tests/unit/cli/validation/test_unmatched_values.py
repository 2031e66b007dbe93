"""Values that no instance type has: an error where they leave nothing, and why they are none."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.unmatched_values import KnownValues, unmatched_values
from core import labels
from core.model.catalogue import Catalogue
from tests.builders import a_type
from tests.unit.api.objects import NODE_OVERLAY, NODE_POOL, changed

INSTANCE_CPU = "karpenter.k8s.aws/instance-cpu"
KNOWN = KnownValues(
    Catalogue(
        default=(a_type("m5.large", **{INSTANCE_CPU: "2"}),),
        by_node_class={"other": (a_type("c5.xlarge", **{INSTANCE_CPU: "8"}),)},
    )
)
POOL = "spec.template.spec.requirements"


def found_in(obj: dict[str, Any], path: str, *requirements: dict[str, Any]) -> list[tuple[str, str, str]]:
    findings = unmatched_values(Document("a.yaml", 0, changed(obj, path, list(requirements))), KNOWN)
    return [(finding.severity.value, finding.field.removeprefix(path), finding.text) for finding in findings]


def one(key: str, *values: object, operator: str = "In") -> list[tuple[str, str, str]]:
    return found_in(NODE_POOL, POOL, {"key": key, "operator": operator, "values": list(values)})


ELSEWHERE = "is in the catalogue that was asked; give another with --region or --catalog"


@pytest.mark.parametrize(
    ("key", "value", "severity", "text"),
    [
        (labels.ZONE, "us-east-1", "error", "'us-east-1' is a region, not one of its zones, such as us-east-1a"),
        (labels.ZONE, "use1-az1", "error", f"'use1-az1' is the id of a zone: its label is {labels.ZONE_ID}"),
        (labels.ZONE, "us-east-1z", "error", f"no instance type has {labels.ZONE} 'us-east-1z'"),
        (labels.ZONE, "eu-central-1a", "warning", f"no zone 'eu-central-1a' {ELSEWHERE}"),
        (labels.ZONE, "somewhere", "warning", f"no zone 'somewhere' {ELSEWHERE}"),
        (labels.ARCH, "x86_64", "error", f"no instance type has {labels.ARCH} 'x86_64' (did you mean 'amd64'?)"),
        (labels.ARCH, "aarch64", "error", f"no instance type has {labels.ARCH} 'aarch64' (did you mean 'arm64'?)"),
        (
            labels.CAPACITY_TYPE,
            "Spot",
            "error",
            f"no instance type has {labels.CAPACITY_TYPE} 'Spot' (did you mean 'spot'?)",
        ),
        (labels.INSTANCE_TYPE, "us-east-1", "error", f"no instance type has {labels.INSTANCE_TYPE} 'us-east-1'"),
        (labels.INSTANCE_TYPE, "use1-az1", "error", f"no instance type has {labels.INSTANCE_TYPE} 'use1-az1'"),
        (labels.INSTANCE_TYPE, "zzz", "error", f"no instance type has {labels.INSTANCE_TYPE} 'zzz'"),
        (
            labels.INSTANCE_TYPE,
            "m5.larg",
            "error",
            f"no instance type has {labels.INSTANCE_TYPE} 'm5.larg' (did you mean 'm5.large'?)",
        ),
    ],
)
def test_a_value_that_nothing_has_is_named_with_its_reason(key: str, value: str, severity: str, text: str) -> None:
    assert one(key, value) == [(severity, "[0].values[0]", text)]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (labels.ARCH, ("arm64", "amd64")),
        (labels.OS, ("windows",)),
        (labels.ZONE, ("us-east-1a",)),
        (labels.INSTANCE_TYPE, ("m5.large", "c5.xlarge")),
        ("example.com/team", ("zzz",)),
    ],
)
def test_values_that_exist_and_keys_of_the_users_own_are_no_finding(key: str, values: tuple[str, ...]) -> None:
    assert one(key, *values) == []
    assert one(key, "zzz", operator="NotIn") == []


def test_one_value_that_exists_or_may_exist_elsewhere_makes_the_others_warnings() -> None:
    assert [found[:2] for found in one(labels.INSTANCE_TYPE, "zzz", "m5.large")] == [("warning", "[0].values[0]")]
    assert [found[:2] for found in one(labels.ZONE, "us-east-1", "eu-central-1a")] == [
        ("warning", "[0].values[0]"),
        ("warning", "[0].values[1]"),
    ]
    assert [found[:2] for found in one(labels.ARCH, "zzz", "yyy")] == [
        ("error", "[0].values[0]"),
        ("error", "[0].values[1]"),
    ]


@pytest.mark.parametrize(
    ("operator", "bound", "is_met"),
    [("Gt", "8", False), ("Gt", "7", True), ("Lt", "2", False), ("Lt", "3", True), ("Gt", "many", True)],
)
def test_a_bound_that_no_number_meets_is_an_error(operator: str, bound: str, is_met: bool) -> None:
    text = f"no instance type has such a {INSTANCE_CPU}: they have 2 to 8"
    assert one(INSTANCE_CPU, bound, operator=operator) == ([] if is_met else [("error", "[0].values", text)])
    assert one("example.com/rank", bound, operator=operator) == []
    assert one(INSTANCE_CPU, bound, "1", operator=operator) == one(INSTANCE_CPU, operator=operator) == []


def test_overlays_have_requirements_of_their_own_place_and_other_kinds_have_none() -> None:
    wrong = {"key": labels.ARCH, "operator": "In", "values": ["zzz"]}
    assert [found[1] for found in found_in(NODE_OVERLAY, "spec.requirements", {}, wrong)] == ["[1].values[0]"]
    assert found_in({**NODE_POOL, "kind": "NodeClaim"}, POOL, wrong) == []
